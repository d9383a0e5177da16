# SPDX-License-Identifier: BSD-3-Clause
"""The suite on a real kernel's verbs: in the guest that tools/kernel-vm boots."""
from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from place import RESULTS, ROOT, Outcome, Runs, build_path, pytest, quietly, report_for, run

TOOLS = ROOT / "tools" / "kernel-vm"
#: What the guest is there to provide: its absence fails the run, where elsewhere it would skip tests.
REQUIRED = "device two_devices rc uc ud srq atomics roce kernel link_control siw"


def kernel() -> Path:
    """A kernel for the guest; building one takes minutes where none is at hand."""
    return Path(quietly([TOOLS / "build"]).splitlines()[-1])


def in_vm(kernel: Path, command: Sequence[object], env: Mapping[str, str], timeout: float = 1200, memory: str = "2G",
          **options: object) -> int:
    RESULTS.mkdir(parents=True, exist_ok=True)
    handed = [f"--env={name}={value}" for name, value in env.items()]
    return run([TOOLS / "run", f"--kernel={kernel}", f"--timeout={timeout}", f"--memory={memory}", f"--write={RESULTS}",
                *handed, "--", *command], **options)


def suite_in_vm(outcome: Outcome, kernel: Path) -> None:
    report = report_for(outcome.name)
    env = {"PYTHONPATH": build_path(), "RDMA_TEST_REQUIRE": REQUIRED}
    outcome.add_report(report, in_vm(kernel, pytest(ROOT / ".venv/bin/python", report), env))


def run_in_vm(runs: Runs) -> None:
    with runs.outcome("kernel VM") as outcome:
        suite_in_vm(outcome, kernel())


def run_in_second_vm(runs: Runs) -> None:
    second = os.environ.get("RDMA_UML_KERNEL_SECOND")
    with runs.outcome("kernel VM, second kernel") as outcome:
        if second:
            suite_in_vm(outcome, Path(second))
        else:
            outcome.skip("needs RDMA_UML_KERNEL_SECOND, which names another User Mode Linux kernel")
