# SPDX-License-Identifier: BSD-3-Clause
"""What the scripts of this folder share: one of every object, and the stub's counts. Runs on any CPython."""

from __future__ import annotations

import os
import sys
import typing
from typing import Any

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from stub_control import Stub  # noqa: E402

stub = Stub()


def one_of_each(ib: Any) -> dict[str, Any]:
    """Objects of every kind, each child beside its parents, with events and completions outstanding."""
    ctx = ib.get_device_list()[0].open()
    pd = ctx.alloc_pd()
    channel = ctx.create_comp_channel()
    cq = ctx.create_cq(16, channel)
    srq = pd.create_srq()
    mr = pd.reg_mr(0x1000, 4096, 1, owner=bytearray(8))
    qp = pd.create_qp(ib.QPInitAttr(cq, cq, srq=srq))
    ah = pd.create_ah(ib.AHAttr(dgid=bytes(15) + b"\1"))
    stub.push_cq_event(cq)
    stub.raise_event(ctx, 1, qp)
    stub.push_wc(cq, wr_id=1)
    return {
        "ctx": ctx, "pd": pd, "channel": channel, "cq": cq, "srq": srq, "mr": mr, "qp": qp, "ah": ah,
        "wr": ib.SendWR(1, [mr.sge()], 2, 2, ah=ah), "sge": mr.sge(), "wc": cq.poll(1)[0],
        "attr": ib.QPInitAttr(cq, cq, srq=srq), "error": ib.VerbsError("ibv_x", 5),
    }  # fmt: skip


def forget_modules() -> None:
    """Takes the package out of sys.modules, so that nothing of the interpreter's holds it."""
    for name in [n for n in sys.modules if n == "ibverbs" or n.startswith("ibverbs.")]:
        del sys.modules[name]
    for clear in getattr(typing, "_cleanups", ()):  # its caches keep the classes that a Union was made of
        clear()
