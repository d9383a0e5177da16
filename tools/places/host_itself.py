# SPDX-License-Identifier: BSD-3-Clause
"""The software host's own programs in C (killed peers, forked contexts, garbage, events), and the tests of its Python
face, as softrdma's README has them."""
from __future__ import annotations

from place import ROOT, Runs, pytest, quietly, report_for, run

BUILD = ROOT / "build-softrdma"


def run_host_itself(runs: Runs) -> None:
    with runs.outcome("softrdma itself") as outcome:
        if not (BUILD / "build.ninja").exists():
            quietly(["meson", "setup", "-Dtests=true", BUILD, "softrdma"])
        quietly(["ninja", "-C", BUILD])
        programs = BUILD / "meson-logs" / "testlog.junit.xml"
        programs.unlink(missing_ok=True)
        outcome.add_report(programs, run(["meson", "test", "-C", BUILD, "--no-rebuild", "--print-errorlogs"]))
        report = report_for(outcome.name)
        env = {"PYTHONPATH": str(BUILD)}
        outcome.add_report(report, run(pytest(ROOT / ".venv/bin/python", report, "softrdma/tests"), env))
