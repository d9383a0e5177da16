# SPDX-License-Identifier: BSD-3-Clause
"""valgrind's memcheck over the suite: the interpreter runs in it, on the stub library and on the software host.

An interpreter does odd things of its own (it looks at old memory to see whether it is one of its blocks; the C
library compares strings a vector at a time). So what counts is every report in whose call chain one of the libraries
under test stands, and every bad access but the known one; see `is_ours`.
"""
from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from host import SOFTRDMA_HAS, under_softrdma
from place import ROOT, STUB, SUITE, Outcome, Runs, build_path, pytest, report_for, run

#: As a frame is written: with the path of its source, or of its library where no source is known.
OURS = re.compile(rf"\({re.escape(str(ROOT))}/(?!\.venv/)|/lib(ibverbs|efa)\.so|-rdmav\d+\.so")
#: memcheck knows how memcmp reads beyond the end, but not how the wide one does, nor the loader with a library's rpath.
READS_AHEAD = ("wmemcmp", "is_dst (elf/")
#: What a run of minutes has time for; by name ("memcheck-all") the whole suite runs.
ON_STUB = ("tests/test_posting.py", "tests/test_faults.py", "tests/test_efa_cq_ex.py")
ON_SOFTRDMA = ("tests/test_rc.py", "tests/test_srq.py", "tests/test_ud.py", "tests/test_async_events.py")
#: These start programs that memcheck does not follow.
NOT_FOR_IT = ("tests/test_isolated.py", "tests/test_readme.py")


def run_memcheck(runs: Runs) -> None:
    _run(runs, "memcheck", ON_STUB, ON_SOFTRDMA)


def run_memcheck_on_all(runs: Runs) -> None:
    whole = (*SUITE, *(f"--ignore={name}" for name in NOT_FOR_IT))
    _run(runs, "memcheck of all", whole, whole)


def _run(runs: Runs, name: str, on_stub: Sequence[str], on_softrdma: Sequence[str]) -> None:
    python = ROOT / ".venv/bin/python"
    with runs.outcome(f"{name}, stub") as outcome:
        if _has_valgrind(outcome):
            env = {"RDMA_LIBRARY_PATH": str(STUB), "RDMA_TEST_REQUIRE": "stub"}
            _check(outcome, [], python, on_stub, env)
    with runs.outcome(f"{name}, softrdma") as outcome:
        if _has_valgrind(outcome):
            _check(outcome, under_softrdma("memcheck"), python, on_softrdma, {"RDMA_TEST_REQUIRE": SOFTRDMA_HAS})


def _has_valgrind(outcome: Outcome) -> bool:
    if shutil.which("valgrind"):
        return True
    outcome.skip("needs valgrind")
    return False


def _check(outcome: Outcome, host: list[object], python: Path, tests: Sequence[str], env: Mapping[str, str]) -> None:
    report = report_for(outcome.name)
    with tempfile.TemporaryDirectory(prefix="memcheck-") as scratch:
        found = Path(scratch) / "found"
        memcheck = ["valgrind", "--quiet", "--num-callers=60", "--fair-sched=yes", "--leak-check=no",
                    "--fullpath-after=", f"--log-file={found}", "--child-silent-after-fork=yes",
                    # softrdma decodes the stores to doorbells, whose registers have to be right when they fault
                    "--vex-iropt-register-updates=allregs-at-mem-access"]
        env = {
            **env,
            "PYTHONPATH": build_path(),
            "PYTHONMALLOC": "malloc",       # Python's own allocator would hide blocks from it
            "RDMA_TEST_EXAMPLES": "5",
            "RDMA_TEST_TIME_SCALE": "20",
        }
        outcome.add_report(report, run([*host, *memcheck, *pytest(python, report, *tests)], env))
        reports = _reports(found)
        ours = [each for each in reports if is_ours(each)]
        print("\n\n".join(ours[:5]))
        outcome.check(f"no report of memcheck ({len(reports) - len(ours)} of the interpreter's own)", not ours)


def _reports(path: Path) -> list[str]:
    """What memcheck said, a text for each report: the first line says what, the others where."""
    lines = path.read_text(errors="replace").splitlines() if path.exists() else ["==0== memcheck wrote nothing"]
    text = "\n".join(re.sub(r"^[=-]+\d+[=-]+ ?", "", line) for line in lines)
    return [each.strip("\n") for each in re.split(r"\n\s*\n", text) if each.strip()]


def is_ours(report: str) -> bool:
    if OURS.search(report):
        return True
    what, _, where = report.partition("\n")
    if what.startswith(("Conditional jump", "Use of uninitialised", "Syscall param", "WARNING: unhandled")):
        return False
    return not any(known in frame for frame in where.splitlines()[:2] for known in READS_AHEAD)
