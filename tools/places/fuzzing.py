# SPDX-License-Identifier: BSD-3-Clause
"""The C units under a coverage-guided fuzzer, for some seconds; tests/fuzz/run does it for as long as wanted."""
from __future__ import annotations

import os
import shutil

from place import BUILD, ROOT, Runs, run

SECONDS = os.environ.get("RDMA_TEST_FUZZ_SECONDS", "10")
PROGRAMS = sorted(path.stem for path in (ROOT / "tests" / "fuzz").glob("*.c"))


def run_fuzzers(runs: Runs) -> None:
    with runs.outcome("fuzzing") as outcome:
        if not shutil.which("clang"):
            outcome.skip("needs clang")
            return
        for name in PROGRAMS:
            status = run(["tests/fuzz/run", SECONDS, name], {"FUZZ_FOLDER": str(BUILD / "fuzz")})
            outcome.check(f"{name}, {SECONDS} s", status == 0)
