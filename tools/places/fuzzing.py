# SPDX-License-Identifier: BSD-3-Clause
"""The C units and the packages' Python face under a coverage-guided fuzzer, for some seconds; tests/fuzz/run does it
for as long as wanted."""
from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pythons
from place import BUILD, PACKAGES, ROOT, Runs, run

SECONDS = os.environ.get("RDMA_TEST_FUZZ_SECONDS", "10")
PROGRAMS = sorted(path.stem for path in (ROOT / "tests" / "fuzz").glob("*.c"))
VENV = pythons.VENVS / "fuzz"


def run_fuzzers(runs: Runs) -> None:
    with runs.outcome("fuzzing") as outcome:
        if not shutil.which("clang"):
            outcome.skip("needs clang")
            return
        names = list(PROGRAMS)
        python = _with_atheris()
        if python:
            names += [f"face-{package}" for package in PACKAGES]
        else:
            outcome.skip("the Python face needs atheris, which installs for none of the Pythons at hand")
        for name in names:
            status = run(["tests/fuzz/run", SECONDS, name], {"FUZZ_FOLDER": str(BUILD / "fuzz")})
            outcome.check(f"{name}, {SECONDS} s", status == 0)


def _with_atheris() -> Path | None:
    """An interpreter of the newest version that there is an atheris for."""
    made = VENV / "made-from"
    python = VENV / "bin" / "python"
    if made.exists() and made.read_text() == str(ROOT):
        return python
    for version in reversed(pythons.at_hand()):
        try:
            pythons.make(version, VENV, "--only-binary", "atheris", "atheris")
        except subprocess.CalledProcessError:
            continue
        made.write_text(str(ROOT))
        return python
    return None
