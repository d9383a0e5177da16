# SPDX-License-Identifier: BSD-3-Clause
"""The Python side of the benchmark: obeys the same lines from standard input as the C program, calls.c, and a few more:

    time ROW N     does the row's operation N times; answers the nanoseconds it took
    many KIND N    makes N objects of a kind and closes them; answers what each tenth cost, and the memory
    mark           calls ibv_query_device, by which a profiler tells one row from the next; answers 0
    memory N       answers the bytes that CPython's allocator gives out for one object, of several kinds
    threads MS     answers the rates of threads alone and together

Every answer is one line of JSON.

    worker.py PACKAGE [FOLDER]     FOLDER is where the package is taken from
"""
from __future__ import annotations

import json
import resource
import sys
import threading
import time
import tracemalloc
from typing import Any, Callable

sys.path[:0] = sys.argv[2:3]

import operations  # noqa: E402
import operations_efa  # noqa: E402
from operations import DEPTH, Device, completions  # noqa: E402

PARTS = 10


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


# ---- many objects --------------------------------------------------------------------------------------------------

def maker(device: Device, kind: str) -> Callable[[], Any]:
    if kind == "mr":
        reg_mr, addr = device.pd.reg_mr, device.addr
        return lambda: reg_mr(addr, 4096, 1)
    if kind == "ah":
        create_ah, gid = device.pd.create_ah, bytes(15) + b"\1"
        return lambda: create_ah(gid)
    create_qp, attr = device.pd.create_qp, device.qp_attr(device.cq)
    return lambda: create_qp(attr)


def many(device: Device, kind: str, n: int) -> dict[str, Any]:
    make = maker(device, kind)
    part = n // PARTS
    objects: list[Any] = [None] * (part * PARTS)
    create, destroy = [], []
    before = resident()
    for first in range(0, part * PARTS, part):
        start = time.perf_counter_ns()
        for i in range(first, first + part):
            objects[i] = make()
        create.append((time.perf_counter_ns() - start) / part)
    grown = resident() - before
    for first in range(0, part * PARTS, part):
        start = time.perf_counter_ns()
        for i in range(first, first + part):
            objects[i].close()
            objects[i] = None
        destroy.append((time.perf_counter_ns() - start) / part)
    return {"create": create, "destroy": destroy, "resident": grown / (part * PARTS)}


def memory(device: Device, n: int) -> dict[str, float]:
    """Traced allocations alone: what the library takes for its part is not among them."""
    n -= n % DEPTH
    ib = device.ib
    sge = ib.SGE(device.mr, 8)
    kinds: dict[str, Callable[[], list[Any]]] = {
        "MR": lambda: [device.reg_mr() for _ in range(n)],
        "QP": lambda: [device.make_qp(device.cq) for _ in range(n)],
        "SendWR": lambda: [ib.SendWR(1, [sge]) for _ in range(n)],
        "RecvWR": lambda: [ib.RecvWR(1, [sge]) for _ in range(n)],
        "SGE": lambda: [ib.SGE(device.mr, 8) for _ in range(n)],
        "WC": lambda: completions(device, n),
    }
    bytes_of = {}
    for name, make in kinds.items():
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        kept = make()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        bytes_of[name] = (grown - sys.getsizeof(kept)) / n
        del kept
    return bytes_of


# ---- threads -------------------------------------------------------------------------------------------------------

class Loop:
    """Something that a thread does over and over until it is told to stop."""

    def __init__(self) -> None:
        self.count = 0
        self.stop = False

    def run(self) -> None:
        while not self.stop:
            self.turn()

    def turn(self) -> None:
        for _ in range(100):
            self.count += 1


class Verbs(Loop):
    """Posts and polls on a queue pair of its own."""

    def __init__(self, device: Device) -> None:
        super().__init__()
        self.cq = device.context.create_cq(16)
        self.qp = device.connect(device.make_qp(self.cq))
        self.request = device.prepared

    def turn(self) -> None:
        for _ in range(100):
            self.qp.post_send(self.request)
            self.cq.poll(1)
        self.count += 100


def rates(loops: list[Loop], seconds: float) -> list[float]:
    """Turns per second of each, all running at the same time."""
    before = [loop.count for loop in loops]
    running = [threading.Thread(target=loop.run) for loop in loops]
    start = time.perf_counter()
    for loop, thread in zip(loops, running):
        loop.stop = False
        thread.start()
    time.sleep(seconds)
    for loop in loops:
        loop.stop = True
    for thread in running:
        thread.join()
    took = time.perf_counter() - start
    return [(loop.count - was) / took for loop, was in zip(loops, before)]


def threads(device: Device, seconds: float) -> dict[str, list[float]]:
    """Two threads that post and poll and one of pure Python; their rates alone and together."""
    loops = [Verbs(device), Verbs(device), Loop()]
    alone = [rates([loop], seconds)[0] for loop in loops]
    return {"alone": alone, "together": rates(loops, seconds * len(loops))}


# ---- obeying -------------------------------------------------------------------------------------------------------

def answer(device: Device, rows: Any, line: str) -> Any:
    command, *words = line.split()
    if command == "time":
        return rows[words[0]](device, int(words[1]))
    if command == "many":
        return many(device, words[0], int(words[1]))
    if command == "memory":
        return memory(device, int(words[0]))
    if command == "threads":
        return threads(device, int(words[0]) / 1000)
    if command == "mark":
        device.context.query_device()
        return 0
    raise SystemExit(f"what is {line!r}?")


def main() -> None:
    chosen: Any = operations_efa if sys.argv[1] == "efa" else operations
    device = chosen.Device()
    for line in sys.stdin:
        print(json.dumps(answer(device, chosen.ROWS, line)), flush=True)


if __name__ == "__main__":
    main()
