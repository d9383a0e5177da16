# SPDX-License-Identifier: BSD-3-Clause
"""What is measured beside the operations: threads, memory, and whether the ten-thousandth object costs what the first
did."""
from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from processes import C, Setting, Side, Worker, running
from tables import table

KINDS = {"ibverbs": {"qp": ("QP", 10_000), "mr": ("MR", 100_000)},
         "efa": {"qp": ("QP", 2_000), "ah": ("AH", 100_000)}}


def report(setting: Setting, sides: Sequence[Side], quick: bool) -> None:
    """In processes of their own. Threads that take turns need the scheduler's help: they run at ordinary priority."""
    shares: dict[str, list[str]] = {}
    sizes: dict[str, list[str]] = {}
    scale: dict[str, list[str]] = {}
    for side in sides:
        with running(setting, side) as worker:
            if side is not C:
                shares[side.name] = threads(worker, 100 if quick else 500)
                measured = worker.ask("memory 6400")
                sizes[side.name] = [f"{measured[kind]:.0f}" for kind in ("MR", "QP", "SendWR", "RecvWR", "SGE", "WC")]
        for kind, (name, n) in KINDS[setting.package].items():
            with running(setting, side, setting.urgent) as worker:
                scale[f"{side.name}: {n:,} {name}s"] = objects(worker, kind, n)

    table("threads beside each other: the share of its rate alone that each keeps, in percent",
          ["post + poll", "post + poll", "pure Python", "together"], shares)
    table("bytes that CPython allocates for one object",
          ["MR", "QP", "SendWR with one SGE", "RecvWR", "SGE", "WC"], sizes)
    table("many objects: nanoseconds to make one and to close one, the median of the tenths in the first half and in "
          "the second;\nresident bytes for one, the library's included",
          ["make: first half", "second", "close: first half", "second", "bytes"], scale)


def threads(worker: Worker, milliseconds: int) -> list[str]:
    got = worker.ask(f"threads {milliseconds}")
    shares = [100 * together / alone for alone, together in zip(got["alone"], got["together"])]
    return [f"{share:.0f}" for share in (*shares, sum(shares))]


def objects(worker: Worker, kind: str, n: int) -> list[str]:
    got: dict[str, Any] = worker.ask(f"many {kind} {n}")
    halves = [half for parts in (got["create"], got["destroy"]) for half in (parts[:5], parts[5:])]
    return [f"{median(half):.0f}" for half in halves] + [f"{got['resident']:.0f}"]
