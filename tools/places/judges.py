# SPDX-License-Identifier: BSD-3-Clause
"""Others judge softrdma: their programs run on it, and what it answers is compared with a real kernel's answers."""

from __future__ import annotations

import os

import kernel_vm
from place import ROOT, Runs, build_path, pytest, quietly, report_for, run


def run_judges(runs: Runs) -> None:
    with runs.outcome("softrdma's judges") as outcome:
        quietly([ROOT / "tests" / "softrdma" / "install-judges"])
        report = report_for(outcome.name)
        # a second kernel, where RDMA_UML_KERNEL_SECOND names one, is compared as well
        env = {
            "PYTHONPATH": build_path(),
            "RDMA_UML_KERNEL": os.environ.get("RDMA_UML_KERNEL") or str(kernel_vm.kernel()),
        }
        outcome.add_report(report, run(pytest(ROOT / ".venv/bin/python", report, "tests/softrdma"), env))
