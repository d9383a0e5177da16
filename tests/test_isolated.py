# SPDX-License-Identifier: BSD-3-Clause
"""The scripts of tests/isolated/, each in a fresh interpreter, on this CPython and on the oldest and the newest that
are at hand: they end well and say nothing that they should not.

RDMA_TEST_PYTHONS names further interpreters, separated like PATH; RDMA_TEST_ISOLATED_ENV adds variables (name=value,
separated by blanks), for a sanitizer that has to be preloaded.
"""

from __future__ import annotations

import functools
import glob
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from stub_fixtures import the_stub

pytestmark = pytest.mark.needs("stub")

SCRIPTS: dict[str, list[list[str]]] = {
    "module_and_objects_in_one_cycle.py": [[]],
    "imported_again_and_again.py": [[]],
    "exit_with_open_objects.py": [[str(seed)] for seed in range(4)],
    "exit_with_a_list_that_holds_itself.py": [[str(seed)] for seed in range(4)],
    "exit_with_objects_in_odd_places.py": [[]],
    "exit_with_failing_destroys.py": [[]],
    "exit_from_a_thread.py": [["0"], ["1"], ["5"]],
    "exit_amid_events.py": [["0"], ["1"], ["5"]],
    "everything_under_the_collector.py": [[]],
    "fast_calls.py": [[]],
    "subinterpreters.py": [[]],
}
FOLDER = Path(__file__).parent / "isolated"
MINORS = range(9, 20)


def found_interpreters() -> list[str]:
    named = [p for p in os.environ.get("RDMA_TEST_PYTHONS", "").split(os.pathsep) if p]
    on_path = [p for p in (shutil.which(f"python3.{minor}") for minor in MINORS) if p]
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    return [sys.executable, *named, *on_path, *sorted(glob.glob(f"{root}/versions/3.*/bin/python3"))]


def by_age(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


@functools.cache
def interpreters() -> dict[str, str]:
    """One interpreter for each version of CPython from 3.9, by what it calls itself. Without the stub just this one."""
    if the_stub() is None:
        return {f"3.{sys.version_info.minor}": sys.executable}
    ask = (
        "import sys, sysconfig, ctypes; print(sys.implementation.name, '%d.%d' % sys.version_info[:2],"
        " sysconfig.get_config_var('Py_GIL_DISABLED') or 0)"
    )
    chosen: dict[str, str] = {}
    for path in found_interpreters():
        done = subprocess.run([path, "-c", ask], capture_output=True, text=True, check=False)
        words = done.stdout.split()
        if done.returncode or words[0] != "cpython" or words[2] != "0":
            continue
        if by_age(words[1]) >= (3, 9):
            chosen.setdefault(words[1], path)
    return chosen


EVERY = sorted(interpreters(), key=by_age)
VERSIONS = [v for v in EVERY if v in (EVERY[0], EVERY[-1], f"3.{sys.version_info.minor}")]


def run(ib: Any, interpreter: str, script: str, arguments: list[str]) -> Any:
    extra = dict(pair.split("=", 1) for pair in os.environ.get("RDMA_TEST_ISOLATED_ENV", "").split())
    env = {**os.environ, "PYTHONFAULTHANDLER": "1", "PYTHONDONTWRITEBYTECODE": "1", **extra}
    # The package is found where this interpreter found it; what else is on its path belongs to this version only.
    env["PYTHONPATH"] = str(Path(ib.__file__).parent.parent)
    env["RDMA_TEST_PACKAGE"] = ib.__name__
    return subprocess.run(
        [interpreter, str(FOLDER / script), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env=env,
        check=False,
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("script", "arguments"), [(s, a) for s, runs in SCRIPTS.items() for a in runs])
def test_a_fresh_interpreter_ends_well(
    ib: Any, stub_library: Any, version: str, script: str, arguments: list[str]
) -> None:
    done = run(ib, interpreters()[version], script, arguments)
    assert done.returncode == 0, f"status {done.returncode}: {done.stderr}"
    said = done.stderr.splitlines()
    if script == "exit_with_failing_destroys.py":  # the hook is gone by then, and the interpreter itself tells
        said = [line for line in said if not line.startswith(("Exception ignored in", "OSError: [Errno 5] ibv_"))]
    assert said == []


def test_every_script_is_run() -> None:
    assert {p.name for p in FOLDER.glob("*.py")} == {*SCRIPTS, "common.py"}
