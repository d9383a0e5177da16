# SPDX-License-Identifier: BSD-3-Clause
"""mypy over the packages' Python; stubtest, which compares the stubs with the built modules; ruff over all Python."""
from __future__ import annotations

from place import BUILD, PACKAGES, ROOT, STUB, Runs, build_path, pytest, report_for, run


def run_type_checks(runs: Runs) -> None:
    # the packages as they are built, where the shared Python files lie beside their own
    folders = [next(BUILD.glob(f"subprojects/{package}/{package}")).parent for package in PACKAGES]
    env = {"PYTHONPATH": build_path(), "MYPYPATH": ":".join(map(str, folders)), "RDMA_LIBRARY_PATH": str(STUB)}
    python = ROOT / ".venv/bin/python"
    with runs.outcome("types") as outcome:
        stubs = [stub for folder in folders for stub in folder.glob("*/*.pyi")]
        outcome.check("ruff", run([python, "-m", "ruff", "check", "--no-cache", ROOT, *stubs]) == 0)
        for package in PACKAGES:
            checked = run([python, "-m", "mypy", "--strict", "-p", package], env)
            outcome.check(f"mypy --strict, {package}", checked == 0)
            outcome.check(f"stubtest, {package}", run([python, "-m", "mypy.stubtest", package], env) == 0)
        report = report_for(outcome.name)
        outcome.add_report(report, run(pytest(python, report, "tests/test_stubs.py"), env))
