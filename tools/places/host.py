# SPDX-License-Identifier: BSD-3-Clause
"""The suite on this machine itself: without any device, and on the stub library that completes everything at once."""
from __future__ import annotations

from pathlib import Path

import pythons
from place import ROOT, STUB, Outcome, Runs, build_path, pytest, report_for, run


def run_without_device(runs: Runs) -> None:
    with runs.outcome("no device") as outcome:
        report = report_for(outcome.name)
        # a machine that has devices is not asked for them here
        env = {"PYTHONPATH": build_path(), "RDMA_TEST_DEVICES": "none"}
        outcome.add_report(report, run(pytest(ROOT / ".venv/bin/python", report), env))


def run_on_stub(runs: Runs) -> None:
    for version in pythons.at_hand():
        with runs.outcome(f"stub, Python {version}") as outcome:
            suite_on_stub(outcome, pythons.with_tools(version), {"PYTHONPATH": build_path()})


def suite_on_stub(outcome: Outcome, python: Path, env: dict[str, str]) -> None:
    report = report_for(outcome.name)
    env = {**env, "RDMA_LIBRARY_PATH": str(STUB), "RDMA_TEST_REQUIRE": "stub"}
    outcome.add_report(report, run(pytest(python, report), env))
