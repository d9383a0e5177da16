# SPDX-License-Identifier: BSD-3-Clause
"""What the scripts of this folder share: the package that RDMA_TEST_PACKAGE names, one of every object, and the stub's
counts. Runs on any CPython."""

from __future__ import annotations

import importlib
import os
import sys
import typing
from typing import Any

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from packages import is_efa, open_device, some_ah  # noqa: E402
from stub_control import Stub  # noqa: E402

stub = Stub()
NAME = os.environ.get("RDMA_TEST_PACKAGE", "ibverbs")


def package() -> Any:
    """The package, imported if it is not."""
    return importlib.import_module(NAME)


def extension(ib: Any) -> Any:
    return sys.modules[f"{NAME}._{NAME}"]


def one_of_each(ib: Any) -> dict[str, Any]:
    """Objects of every kind, each child beside its parents, with events and completions outstanding."""
    if is_efa(ib):
        return one_of_each_of_efa(ib)
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


def one_of_each_of_efa(ib: Any) -> dict[str, Any]:
    ctx = open_device(ib)
    pd = ctx.alloc_pd()
    channel = ctx.create_comp_channel()
    cq = ctx.create_cq(16, channel)
    cq_ex = ctx.create_cq_ex(16, channel, sgid=True)
    mr = pd.reg_mr(0x1000, 4096, 1, owner=bytearray(8))
    qp = pd.create_qp(ib.QPInitAttr(cq, cq_ex))
    ah = some_ah(ib, pd)
    for queue in (cq, cq_ex):
        stub.push_cq_event(queue)
        stub.push_wc(queue, wr_id=1)
    stub.raise_event(ctx, 1, qp)
    peer = ib.Peer(some_ah(ib, pd), 1, 2)
    return {
        "ctx": ctx, "pd": pd, "channel": channel, "cq": cq, "cq_ex": cq_ex, "mr": mr, "qp": qp, "ah": ah,
        "wr": ib.SendWR(1, [mr.sge()], 2, 2, dest=peer), "sge": mr.sge(), "wc": cq.poll(1)[0], "peer": peer,
        "attr": ib.QPInitAttr(cq, cq_ex), "error": ib.EfaError("ibv_x", 5),
    }  # fmt: skip


def forget_modules() -> None:
    """Takes the package out of sys.modules, so that nothing of the interpreter's holds it."""
    for name in [n for n in sys.modules if n == NAME or n.startswith(NAME + ".")]:
        del sys.modules[name]
    for clear in getattr(typing, "_cleanups", ()):  # its caches keep the classes that a Union was made of
        clear()
