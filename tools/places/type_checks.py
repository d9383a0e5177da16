# SPDX-License-Identifier: BSD-3-Clause
"""mypy over the Python of the packages, and stubtest, which compares the stubs with the built module."""
from __future__ import annotations

from place import BUILD, ROOT, STUB, Runs, build_path, run


def run_type_checks(runs: Runs) -> None:
    # the package as it is built, where the shared Python files lie beside its own
    package = next(BUILD.glob("subprojects/ibverbs/ibverbs"))
    env = {"PYTHONPATH": build_path(), "MYPYPATH": str(package.parent), "RDMA_LIBRARY_PATH": str(STUB)}
    python = ROOT / ".venv/bin/python"
    with runs.outcome("types") as outcome:
        outcome.check("mypy --strict", run([python, "-m", "mypy", "--strict", "-p", "ibverbs"], env) == 0)
        outcome.check("stubtest", run([python, "-m", "mypy.stubtest", "ibverbs"], env) == 0)
