# SPDX-License-Identifier: BSD-3-Clause
"""The C programs under tests/c, one per unit that needs no Python, as `meson test` runs them."""
from __future__ import annotations

from place import BUILD, Runs, run


def run_c(runs: Runs) -> None:
    with runs.outcome("C units") as outcome:
        report = BUILD / "meson-logs" / "testlog.junit.xml"
        report.unlink(missing_ok=True)
        status = run(["meson", "test", "-C", BUILD, "--no-rebuild", "--print-errorlogs"])
        outcome.add_report(report, status)
