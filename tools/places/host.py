# SPDX-License-Identifier: BSD-3-Clause
"""The suite on this machine itself: without any device, on the stub library, which completes everything at once, and on
softrdma, which stands in for devices and kernel."""
from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pythons
from place import ROOT, STUB, SUITE, Outcome, Runs, build_path, pytest, report_for, run

#: What softrdma is there to provide; see tests/place.py.
SOFTRDMA_HAS = "device two_devices rc uc ud srq atomics roce pair efa rdma_read siw"


def run_without_device(runs: Runs) -> None:
    with runs.outcome("no device") as outcome:
        report = report_for(outcome.name)
        # a machine that has devices is not asked for them here
        env = {"PYTHONPATH": build_path(), "RDMA_TEST_DEVICES": "none"}
        outcome.add_report(report, run(pytest(ROOT / ".venv/bin/python", report), env))


def run_on_softrdma(runs: Runs) -> None:
    with runs.outcome("softrdma") as outcome:
        report = report_for(outcome.name)
        env = {"PYTHONPATH": build_path(), "RDMA_TEST_REQUIRE": SOFTRDMA_HAS}
        outcome.add_report(report, run([*under_softrdma("tests"), *pytest(ROOT / ".venv/bin/python", report)], env))


def under_softrdma(fabric: str, devices: str = "rxe:2,efa:2,iwarp:1",
                   python: Path = ROOT / ".venv/bin/python") -> list[object]:
    """What stands before a command that is to run on softrdma's devices, by default of all kinds, apart from others."""
    return [python, "-m", "softrdma", "run", "--devices", devices, "--fabric", f"{fabric}-{os.getpid()}", "--"]


def run_on_stub(runs: Runs) -> None:
    with runs.outcome("stub") as outcome:
        suite_on_stub(outcome, ROOT / ".venv/bin/python", build_path())


def run_on_stub_with_all(runs: Runs) -> None:
    for version in pythons.at_hand():
        with runs.outcome(f"stub, Python {version}") as outcome:
            suite_on_stub(outcome, pythons.with_tools(version), build_path(), [*SUITE, *only_its_own(version)])


def only_its_own(version: str) -> list[object]:
    """The isolated scripts start every interpreter at hand by themselves: here the others have a turn of their own."""
    return ["-k", f"not test_isolated or -{version}]"]


def suite_on_stub(outcome: Outcome, python: Path, path: str, chosen: Sequence[object] = ()) -> None:
    """Runs the suite with this interpreter, on the package that `path` leads to (empty: the installed one)."""
    report = report_for(outcome.name)
    env = {
        "PYTHONPATH": path,
        "RDMA_LIBRARY_PATH": str(STUB),
        "RDMA_TEST_REQUIRE": "stub",
        "PYTHONMALLOC": "debug",    # a block freed twice, overrun or given to the wrong allocator ends the run
    }
    outcome.add_report(report, run(pytest(python, report, *chosen), env))
