# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark's short form: it prints what the bindings cost above C. Figures fail nothing; only what breaks does."""
from __future__ import annotations

from place import ROOT, Runs, run


def run_bench(runs: Runs) -> None:
    with runs.outcome("benchmark") as outcome:
        outcome.check("bench/run --quick", run([ROOT / "bench" / "run", "--quick"], {"PYTHONPATH": ""}) == 0)
