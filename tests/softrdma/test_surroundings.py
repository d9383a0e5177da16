# SPDX-License-Identifier: BSD-3-Clause
"""Surroundings poorer than a developer's machine: no root, no /dev/shm, other namespaces, many others at work."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Callable

import pytest
from host import Host, Running
from peers import address, go, introduced, say

NOBODY = 65534


@pytest.fixture(scope="module")
def peer(built: Callable[..., Path]) -> Path:
    return built("peer", "programs/peer.c", "programs/rig.c")


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder whose files anybody may run."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def as_nobody() -> list[str]:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root, to become somebody else, and setpriv (util-linux)")
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def unshare(*options: str) -> list[str]:
    """A command in namespaces of its own, where this machine lets us make them."""
    command = ["unshare", *options]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*command, "true"], check=False, capture_output=True).returncode
    ):
        pytest.skip(f"needs leave to {' '.join(command)}")
    return command


def both_end(a: Running, b: Running) -> None:
    for program in (a, b):
        program.read_until("rounds")
    for program in (a, b):
        program.finish(20).must()


def introduce(a: Running, b: Running) -> None:
    first, second = address(a), address(b)
    say(a, second)
    say(b, first)
    a.read_until("connected")
    b.read_until("connected")
    go(a, b)


def test_a_user_without_privileges_has_devices(host: Host, peer: Path, public: Path) -> None:
    user = as_nobody()
    library = shutil.copy(host.library, public)
    program = Path(shutil.copy(peer, public))
    other = Host(Path(library), host.fabric)
    with introduced(other, program, 0.5, wrapper=user) as (a, b):
        go(a, b)
        both_end(a, b)


def test_users_do_not_meet(host: Host, peer: Path, public: Path) -> None:
    """One fabric's name, two users: each has it alone, and a QP of the other is nobody's."""
    user = as_nobody()
    library = shutil.copy(host.library, public)
    program = Path(shutil.copy(peer, public))
    both = Host(Path(library), host.fabric)
    with ExitStack() as stack:
        a = both.start([program, 0, "0.5"], stdin=True)
        b = both.start([*user, program, 1, "0.5", "serve"], stdin=True)
        stack.callback(a.end)
        stack.callback(b.end)
        introduce(a, b)
        finished = a.finish(20)
        assert finished.status == 3 and "transport retry counter exceeded" in finished.output, finished
        b.finish(20).must()  # what a killed process leaves, only its own user's next start sweeps


@pytest.mark.parametrize("shm", ["read-only", "absent"])
def test_dev_shm_is_not_needed(host: Host, peer: Path, shm: str) -> None:
    hide = (
        "mount -t tmpfs -o ro none /dev/shm"
        if shm == "read-only"
        else "mount -t tmpfs none /dev && mknod /dev/null c 1 3"
    )
    # the C library looks for shared objects in places of its own; only softrdma's files are at stake here
    wrapper = [*unshare("-m"), "sh", "-c", f'{hide} && exec "$0" "$@"']
    with introduced(host, peer, 0.5, wrapper=wrapper) as (a, b):
        go(a, b)
        both_end(a, b)


def test_peers_in_two_pid_namespaces_meet(host: Host, peer: Path) -> None:
    """Containers that share a network, but not their processes' numbers."""
    apart = unshare("--pid", "--fork", "--kill-child")
    with ExitStack() as stack:
        a = host.start([*apart, peer, 0, "0.5"], stdin=True)
        b = host.start([peer, 1, "0.5"], stdin=True)
        stack.callback(a.end)
        stack.callback(b.end)
        introduce(a, b)
        both_end(a, b)


def test_few_descriptors_are_enough(host: Host, peer: Path) -> None:
    wrapper = ["sh", "-c", 'ulimit -n 64 && exec "$0" "$@"']
    with introduced(host, peer, 0.5, wrapper=wrapper) as (a, b):
        go(a, b)
        both_end(a, b)


def test_no_locked_memory_is_needed(host: Host, peer: Path) -> None:
    wrapper = ["sh", "-c", 'ulimit -l 0 && exec "$0" "$@"']
    with introduced(host, peer, 0.5, wrapper=wrapper) as (a, b):
        go(a, b)
        both_end(a, b)


def test_many_pairs_share_a_fabric(host: Host, peer: Path) -> None:
    with ExitStack() as stack:
        pairs = [stack.enter_context(introduced(host, peer, 2)) for _ in range(12)]
        for a, b in pairs:
            go(a, b)
        for a, b in pairs:
            both_end(a, b)
