# SPDX-License-Identifier: BSD-3-Clause
"""Nanoseconds per operation: C and every interpreter in turn, over and over, and the best of each."""
from __future__ import annotations

from collections.abc import Mapping, Sequence

from processes import C, Setting, Side, Worker, all_running
from tables import table

#: What each row is called, and its aim: nanoseconds above C on CPython 3.11. Later ones may take a quarter more.
IBVERBS: dict[str, tuple[str, int | None]] = {
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
EFA: dict[str, tuple[str, int | None]] = {
    **{row: IBVERBS[row] for row in ("prepared", "anew", "changed", "batch", "recv", "empty")},
    "inline": ("post + poll, 32 bytes inline", None),
    "poll64": ("poll of 64 completions, each", None),
    "prepared_ex": ("post + poll, prepared, CQEx", None),
    "empty_ex": ("poll of an empty CQEx", 60),
    "poll64_ex": ("poll of 64 completions of a CQEx, each", None),
    "qp": IBVERBS["qp"],
    "ah": ("create_ah + close", None),
}
AIMS = {"ibverbs": IBVERBS, "efa": EFA}
#: By package: a row, what it is compared with, and how many times as long it may take. What the library itself takes,
#: which the binding cannot help, is subtracted from both.
RATIOS: dict[str, list[tuple[str, str, float]]] = {
    "ibverbs": [],
    "efa": [("poll64_ex", "poll64", 1.2), ("prepared_ex", "prepared", 1.2), ("empty_ex", "empty", 1.2)],
}
SLICE = 10e6    # nanoseconds that one measurement takes
UNIT = 64       # counts are multiples of a batch


def aim_of(aims: Mapping[str, tuple[str, int | None]], row: str, side: Side) -> float | None:
    aim = aims[row][1]
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


def above(best: dict[Side, float], aims: Mapping[str, tuple[str, int | None]], side: Side, row: str) -> str:
    """A cell: nanoseconds above C, with a mark where that is more than the aim."""
    extra = best[side] - best[C]
    aim = aim_of(aims, row, side)
    return f"{extra:.0f}{'!' if aim is not None and extra > aim else ' '}"


def report(setting: Setting, sides: Sequence[Side], rows: Sequence[str], rounds: int) -> None:
    best = measure(setting, sides, rows, rounds)
    pythons = [side for side in sides if side is not C]
    names = [side.name for side in pythons]
    aims = AIMS[setting.package]

    table(f"{setting.package}: nanoseconds above C, best of {rounds} (! above the aim, which is for 3.11; later ones "
          "have a quarter more)",
          ["aim", "C itself", *names],
          {aims[row][0]: [str(aims[row][1] or ""), f"{best[row][C]:.1f}",
                          *(above(best[row], aims, side, row) for side in pythons)] for row in rows})
    with_c = [row for row in rows if row != "flags"]
    table(f"{setting.package}: times what C takes", names,
          {aims[row][0]: [f"{best[row][side] / best[row][C]:.1f}" for side in pythons] for row in with_c})
    table("one beside another, above C: how many times as long (! above the aim)", ["aim", *names],
          {f"{aims[row][0]} / {aims[than][0]}": [f"{aim}", *(ratio(best, row, than, side, aim) for side in pythons)]
           for row, than, aim in RATIOS[setting.package] if row in rows and than in rows})


def ratio(best: dict[str, dict[Side, float]], row: str, than: str, side: Side, aim: float) -> str:
    value = (best[row][side] - best[row][C]) / max(best[than][side] - best[than][C], 0.1)
    return f"{value:.2f}{'!' if value > aim else ' '}"
