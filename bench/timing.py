# SPDX-License-Identifier: BSD-3-Clause
"""Nanoseconds per operation: C and every interpreter in turn, over and over, and the best of each."""
from __future__ import annotations

from collections.abc import Sequence

from processes import C, Setting, Side, Worker, all_running
from tables import table

#: What each row is called, and its aim: nanoseconds above C on CPython 3.11. Later ones may take a quarter more.
AIMS: dict[str, tuple[str, int | None]] = {
    "prepared": ("post + poll, prepared", 160),
    "anew": ("post + poll, request and SGE anew", 700),
    "members": ("  the same with enum members", None),
    "changed": ("post + poll, one member changed", None),
    "batch": ("64 prepared in one call, each", 60),
    "recv": ("post_recv + poll, prepared", 160),
    "empty": ("poll of an empty queue", 60),
    "flags": ("A | B | C on flags", 300),
    "sge16": ("post + poll, 16 SGEs", None),
    "inline": ("post + poll, 64 bytes inline", None),
    "reg": ("reg_mr + close", None),
    "qp": ("create_qp + close", None),
}
SLICE = 10e6    # nanoseconds that one measurement takes
UNIT = 64       # counts are multiples of a batch


def aim_of(row: str, side: Side) -> float | None:
    aim = AIMS[row][1]
    if aim is None or side.minor < 11:
        return None
    return aim if side.minor == 11 else aim * 1.25


def count_for(worker: Worker, row: str) -> int:
    """How many operations fill a slice; also warms the row up."""
    count = 1024
    for _ in range(2):
        took = max(worker.time(row, count), 1)
        count = min(max(int(SLICE * count / took), UNIT), 10 ** 6) // UNIT * UNIT
    return count


def measure(setting: Setting, sides: Sequence[Side], rows: Sequence[str], rounds: int) -> dict[str, dict[Side, float]]:
    """A round asks for every row of every side, so that what disturbs for a second spoils a round, not a row."""
    best = {row: dict.fromkeys(sides, float("inf")) for row in rows}
    with all_running(setting, sides, setting.urgent) as workers:
        counts = {(row, side): count_for(worker, row) for row in rows for side, worker in workers.items()}
        for row in list(rows) * rounds:
            for side, worker in workers.items():
                each = worker.time(row, counts[row, side]) / counts[row, side]
                best[row][side] = min(best[row][side], each)
    return best


def above(best: dict[Side, float], side: Side, row: str) -> str:
    """A cell: nanoseconds above C, with a mark where that is more than the aim."""
    extra = best[side] - best[C]
    aim = aim_of(row, side)
    return f"{extra:.0f}{'!' if aim is not None and extra > aim else ' '}"


def report(setting: Setting, sides: Sequence[Side], rows: Sequence[str], rounds: int) -> None:
    best = measure(setting, sides, rows, rounds)
    pythons = [side for side in sides if side is not C]
    names = [side.name for side in pythons]

    table(f"nanoseconds above C, best of {rounds} (! above the aim, which is for 3.11; later ones have a quarter more)",
          ["aim", "C itself", *names],
          {AIMS[row][0]: [str(AIMS[row][1] or ""), f"{best[row][C]:.1f}",
                          *(above(best[row], side, row) for side in pythons)] for row in rows})
    with_c = [row for row in rows if row != "flags"]
    table("times what C takes", names,
          {AIMS[row][0]: [f"{best[row][side] / best[row][C]:.1f}" for side in pythons] for row in with_c})
