# SPDX-License-Identifier: BSD-3-Clause
"""Uses one of everything of a package while the n-th allocation of chosen libraries fails, for each n there is.

    starve.py PACKAGE LIBSTARVE (extension | libraries)

Prints a line of JSON: how many runs failed, with which exceptions, and what was wrong.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import importlib
import json
import os
import sys
from contextlib import ExitStack
from typing import Any

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from packages import devices_of, error_of, is_efa  # noqa: E402
from stub_fixtures import the_stub  # noqa: E402

LIBRARIES = ("/libibverbs.so", "-rdmav", "/libefa.so")
MANY = 100  # more requests than fit the stack


def connected(ib: Any, ctx: Any, pd: Any, cq: Any, keep: Any) -> Any:
    """A queue pair whose peer is itself."""
    attr = ib.QPInitAttr(cq, cq, max_send_wr=MANY, max_recv_wr=MANY)
    qp = keep(pd.create_qp(attr))
    if is_efa(ib):
        return qp.prepare(1)
    gid = ib.select_gid(ctx, 1)
    me = ib.local_qp_info(qp, ctx.query_port(1), gid.gid, port=1)
    ib.connect_rc(qp, me, port=1, sgid_index=gid.gid_index, access=ib.AccessFlags.LOCAL_WRITE)
    return qp


def use_everything(ib: Any) -> None:
    with ExitStack() as undo:
        keep = undo.enter_context
        ctx = keep(devices_of(ib)[0].open())
        ctx.query_device()
        ctx.query_gid_table(1)
        pd = keep(ctx.alloc_pd())
        channel = keep(ctx.create_comp_channel())
        cq = keep(ctx.create_cq(2 * MANY, channel))
        mr = keep(ib.reg_tensor(pd, bytearray(4096), ib.AccessFlags.LOCAL_WRITE))
        qp = connected(ib, ctx, pd, cq, keep)
        qp.post_recv([ib.RecvWR(n, [mr.sge(8)]) for n in range(MANY)])
        if is_efa(ib):
            peer = keep(ib.local_endpoint_info(qp, 1).peer(pd))
            send = ib.SendWR(1, [mr.sge(8)], ib.WROpcode.SEND, ib.SendFlags.SIGNALED, dest=peer)
            if "efadv_create_cq" not in ib.capabilities().missing:
                cq_ex = keep(ctx.create_cq_ex(8, channel))
                keep(pd.create_qp(ib.QPInitAttr(cq_ex, cq_ex, qp_type=ib.QPType.UD)))
        else:
            gid = ib.select_gid(ctx, 1)
            keep(pd.create_ah(ib.AHAttr(dgid=gid.gid, sgid_index=gid.gid_index)))
            send = ib.SendWR(1, [mr.sge(8)], ib.WROpcode.SEND, ib.SendFlags.SIGNALED)
            keep(pd.create_srq()).post_recv([ib.RecvWR(n, [mr.sge(8)]) for n in range(MANY)])
        cq.req_notify()
        qp.post_send([send] * MANY)
        cq.wait(1, timeout=5)
        while cq.poll(64):
            pass


def attempt(ib: Any, told: set[str], wrong: list[str], nth: int) -> bool:
    try:
        use_everything(ib)
        return False
    except MemoryError:
        told.add("MemoryError")
    except error_of(ib) as error:
        told.add(error.operation)
        if error.errno != errno.ENOMEM:
            wrong.append(f"allocation {nth}: {error}")
        error.__traceback__ = None
    return True


def main() -> None:
    package, path, whom = sys.argv[1:]
    ib = importlib.import_module(package)
    starve = ctypes.CDLL(path)
    stub = the_stub()
    use_everything(ib)  # what is kept for good is made once
    for part in (f"/_{package}.",) if whom == "extension" else LIBRARIES:
        starve.starve_watch(part.encode(), 0)
    use_everything(ib)
    gc.collect()
    before, failures = starve.starve_live(0), 0
    told: set[str] = set()
    wrong: list[str] = []
    for nth in range(1, 5000):
        starve.starve(nth, 1)
        failed = attempt(ib, told, wrong, nth)
        enough = starve.starve_seen() < nth
        starve.starve(0, 0)
        gc.collect()
        failures += failed
        if starve.starve_live(0) > before:
            wrong.append(f"allocation {nth}: {starve.starve_live(0) - before} blocks are left")
            before = starve.starve_live(0)
        if stub is not None and stub.live_objects():
            wrong.append(f"allocation {nth}: {stub.live_objects()} are left")
            break
        if enough:
            break
    print(json.dumps({"runs": nth, "failures": failures, "told": sorted(told), "wrong": wrong}))


if __name__ == "__main__":
    main()
