# SPDX-License-Identifier: BSD-3-Clause
"""softrdma below the libraries of other Debian releases: rdma-core 33, 56 and what testing has.

The answers of the boundary do not depend on who asks. The releases are folders that tools/test keeps
(tools/places/debian.py): run its places debian11, debian13 or testing once.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from comparison import answers, complaints
from host import Finished, Host, free_port

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ibverbs-tests"
RELEASES = ["bullseye", "trixie", "testing"]
#: rdma-core 33 has no memory windows and no new interfaces for rxe.
OLD_TOPICS = ["rc", "uc", "srq", "events", "atomics", "retry", "faults"]


class Release:
    """Programs run over the release's libraries; with its own loader and C library where it has these."""

    def __init__(self, name: str, root: Path, host: Host) -> None:
        self.name = name
        self.root = root
        self.host = host
        self.folder = next(root.glob("usr/lib/*/libibverbs.so.1")).parent
        self.loader = next(iter(sorted(root.glob("usr/lib/*/ld-linux-*.so.*"))), None)

    def command(self, *words: object) -> list[object]:
        if self.loader is None:
            return ["env", f"LD_LIBRARY_PATH={self.folder}", *words]
        return [self.loader, "--library-path", self.folder, "--preload", self.host.library, *words]

    def env(self) -> dict[str, Any]:
        provider = next((self.folder / "libibverbs").glob("librxe-rdmav*.so"))
        env = {"RDMAV_DRIVERS": str(provider).partition("-rdmav")[0]}
        # the loader names the library; this machine's C library must not be given to it
        return {**env, "LD_PRELOAD": None} if self.loader else env

    def run(self, *words: object) -> Finished:
        return self.host.run(self.command(*words), **self.env())


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest, host: Host) -> Release:
    root = CACHE / request.param
    if not (root / "complete").exists():
        pytest.skip(f"needs the libraries of Debian {request.param} in {root}: tools/test fetches them")
    return Release(request.param, root, host)


def facts(text: str) -> dict[str, str]:
    """The answers without what the libraries say beside them; rdma-core 33's provider returns negative numbers."""
    lines = [line for line in text.splitlines() if re.match(r"[a-z]+/.*: ", line)]
    numbers = {"errno -22": "EINVAL", "errno -12": "ENOMEM"}
    return {
        q: re.sub(r"errno -\d+", lambda m: numbers.get(m[0], m[0]), a) for q, a in answers("\n".join(lines)).items()
    }


def test_answers_are_those_over_the_installed_library(release: Release, probe: Path) -> None:
    topics = OLD_TOPICS if release.name == "bullseye" else []
    over_it = facts(release.run(probe, *topics).must())
    wrong = complaints(facts(release.host.run([probe, *topics]).must()), over_it, {})
    assert not wrong, wrong
    assert len(over_it) > 100


@pytest.mark.parametrize("name", ["rc", "uc", "ud", "srq"])
def test_its_own_pingpongs_play(release: Release, name: str) -> None:
    program = release.root / "usr" / "bin" / f"ibv_{name}_pingpong"
    common = [program, "-p", free_port(), "-g", "1", "-e", "-n", "500"]
    server = release.command(*common, "-d", "rxe0")
    client = release.command(*common, "-d", "rxe1", "localhost")
    for finished in release.host.pair(server, client, **release.env()):
        assert "iters in" in finished.must(), finished.output


def test_it_lists_the_devices(release: Release) -> None:
    shown = release.run(release.root / "usr" / "bin" / "ibv_devinfo", "-l").must()
    assert "rxe0" in shown and "rxe1" in shown, shown
