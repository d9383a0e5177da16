# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures of the judges: programs of others, and of ours, that run on softrdma as they would on a machine with a NIC.

These tests start their programs on softrdma by themselves; pytest runs without it. They take minutes where the rest
takes seconds, so a run of all tests leaves them out: they run when they, or this folder, are named on the command line.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Callable

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from host import Host, compile_program  # noqa: E402
from sanitizers import SanitizedHost  # noqa: E402


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    named = [Path(str(arg).split("::")[0]).resolve() for arg in config.args]
    here = any(path == HERE or HERE in path.parents for path in named)
    return None if here or not collection_path.name.startswith("test_") else True


def library() -> Path | str:
    """The library to judge, or why there is none."""
    given = os.environ.get("SOFTRDMA_JUDGED_LIBRARY")
    if given:
        return Path(given)
    if importlib.util.find_spec("softrdma") is None:
        return "needs softrdma: build it and put it on PYTHONPATH (meson devenv -C build)"
    import softrdma

    try:
        return Path(softrdma.library())
    except FileNotFoundError as error:
        return f"needs softrdma: {error}"


@pytest.fixture(scope="session")
def judged() -> Path:
    found = library()
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture
def host(judged: Path) -> Host:
    """softrdma with a fabric of this test's own."""
    return Host(judged)


Program = Callable[[str], str]


@pytest.fixture(scope="session")
def program() -> Program:
    """Finds an installed program, or skips."""

    def find(name: str) -> str:
        path = shutil.which(name)
        if path is None:
            pytest.skip(f"needs {name}: tests/softrdma/install-judges installs it")
        return path

    return find


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Builds a program from sources of this folder, once."""
    folder = tmp_path_factory.mktemp("programs")
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler (cc)")

    def build(name: str, *patterns: str, flags: tuple[str, ...] = ()) -> Path:
        target = folder / name
        sources = [path for pattern in patterns for path in sorted(HERE.glob(pattern))]
        return target if target.exists() else compile_program(target, sources, flags)

    return build


@pytest.fixture(scope="session")
def probe(built: Callable[..., Path]) -> Path:
    return built("probe", "probe/*.c")


@pytest.fixture(scope="session")
def suite() -> Path:
    """rdma-core's own tests, unpacked by install-judges."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ibverbs-tests" / "judges"
    folders = sorted(Path(os.environ.get("SOFTRDMA_JUDGES") or cache).glob("pyverbs-*/tests"))
    if not folders or shutil.which("/usr/bin/python3") is None:
        pytest.skip("needs pyverbs and its test suite: tests/softrdma/install-judges fetches them")
    return folders[-1]


@pytest.fixture(scope="session")
def sanitized_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sources = sorted((HERE.parents[1] / "softrdma" / "src").rglob("*.c"))
    if not sources or shutil.which("cc") is None:
        pytest.skip("needs softrdma's sources and a C compiler")
    target = tmp_path_factory.mktemp("sanitized") / "libsoftrdma.so"
    words = [
        "cc",
        "-std=gnu11",
        "-D_GNU_SOURCE",
        '-DSOFTRDMA_VERSION="sanitized"',
        "-O1",
        "-g",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
    ]
    words += [
        "-fsanitize=address,undefined",
        "-fno-omit-frame-pointer",
        "-o",
        str(target),
        *map(str, sources),
        "-lpthread",
        "-ldl",
    ]
    done = subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 0, done.stdout
    return target


@pytest.fixture
def sanitized(judged: Path, sanitized_library: Path) -> Host:
    return SanitizedHost(sanitized_library)


@pytest.fixture(autouse=True)
def no_library_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The judges use the installed libibverbs, whatever the rest of the tests are told."""
    monkeypatch.delenv("RDMA_LIBRARY_PATH", raising=False)
    yield
