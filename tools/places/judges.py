# SPDX-License-Identifier: BSD-3-Clause
"""Others judge softrdma: their programs run on it, and what it answers is compared with a real kernel's answers."""

from __future__ import annotations

import os

import debian
import kernel_vm
from place import ROOT, Runs, build_path, pytest, quietly, report_for, run

#: rdma-core's newest own tests, with the Python they were built for.
NEWEST = ["base-files", "bash", "coreutils", "dash", "python3", "python3-pyverbs", "libibverbs1", "ibverbs-providers",
          "ibverbs-utils"]


def run_judges(runs: Runs) -> None:
    with runs.outcome("softrdma's judges") as outcome:
        quietly([ROOT / "tests" / "softrdma" / "install-judges"])
        try:
            debian.packages("testing", NEWEST, depends=True, folder_name="testing-pyverbs")
        except debian.Unavailable:
            pass  # the tests that need it say so
        report = report_for(outcome.name)
        # a second kernel, where RDMA_UML_KERNEL_SECOND names one, is compared as well
        env = {
            "PYTHONPATH": build_path(),
            "RDMA_UML_KERNEL": os.environ.get("RDMA_UML_KERNEL") or str(kernel_vm.kernel()),
        }
        outcome.add_report(report, run(pytest(ROOT / ".venv/bin/python", report, "tests/softrdma"), env))
