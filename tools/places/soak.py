# SPDX-License-Identifier: BSD-3-Clause
"""Traffic on the software host while faults strike at random: for a minute among all places, for ten when named."""
from __future__ import annotations

import os

from place import ROOT, Runs, build_path, run

SHORT, LONG = 60, 600


def run_soak(runs: Runs, seconds: int = LONG) -> None:
    seconds = int(os.environ.get("RDMA_TEST_SOAK_SECONDS", seconds))
    seed = os.environ.get("RDMA_TEST_SOAK_SEED")
    with runs.outcome("soak") as outcome:
        command = [ROOT / ".venv/bin/python", "tests/softrdma/soak", "--seconds", seconds]
        status = run([*command, *(["--seed", seed] if seed else [])], {"PYTHONPATH": build_path()})
        outcome.check(f"{seconds} s of traffic under random faults", status == 0)


def run_short_soak(runs: Runs) -> None:
    run_soak(runs, SHORT)
