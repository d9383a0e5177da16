# SPDX-License-Identifier: BSD-3-Clause
"""Instructions per operation, as callgrind counts them: the difference of two run lengths, so that starting up, warming
up and being asked cancel."""
from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from processes import C, Setting, Side, callgrind_total, running
from tables import table
from timing import AIMS

WARM, SHORT, LONG = 256, 512, 2048      # multiples of a batch


def count(setting: Setting, side: Side, rows: Sequence[str]) -> dict[str, float]:
    """Callgrind writes a dump at each mark: for each row one of the short run and one of the long run."""
    with tempfile.TemporaryDirectory(prefix="callgrind-") as folder:
        valgrind = ["valgrind", "--quiet", "--tool=callgrind", "--dump-before=ibv_query_device*",
                    f"--callgrind-out-file={folder}/out", f"--log-file={folder}/log"]
        with running(setting, side, valgrind) as worker:
            for row in rows:
                worker.time(row, WARM)
            worker.ask("mark")
            for row in rows:
                for length in (SHORT, LONG):
                    worker.time(row, length)
                    worker.ask("mark")
        totals = [callgrind_total(Path(folder) / f"out.{part + 2}") for part in range(2 * len(rows))]
    return {row: (totals[2 * i + 1] - totals[2 * i]) / (LONG - SHORT) for i, row in enumerate(rows)}


def report(setting: Setting, sides: Sequence[Side], rows: Sequence[str]) -> None:
    if not shutil.which("valgrind"):
        print("\ninstructions: needs valgrind")
        return
    counts = {side: count(setting, side, rows) for side in sides}
    pythons = [side for side in sides if side is not C]
    aims = AIMS[setting.package]
    table(f"{setting.package}: instructions above C", ["C itself", *(side.name for side in pythons)],
          {aims[row][0]: [f"{counts[C][row]:.0f}", *(f"{counts[side][row] - counts[C][row]:.0f}" for side in pythons)]
           for row in rows})
