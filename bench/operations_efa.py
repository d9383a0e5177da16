# SPDX-License-Identifier: BSD-3-Clause
"""The operations of efa that are measured: those of operations.py on an SRD queue pair, whose requests go through the
builders between wr_start and wr_complete, and what extended completion queues cost beside ordinary ones.
"""
from __future__ import annotations

import importlib
from time import perf_counter_ns
from typing import Any, Callable

import operations
from operations import DEPTH

INLINE_BYTES = 32


class Device(operations.Device):
    def __init__(self) -> None:
        self.ib: Any = importlib.import_module("efa")
        self.context = self.ib.get_efa_device_list()[0].open()
        self.peer: Any = None
        self.set_up()
        self.cq_ex = self.context.create_cq_ex(1024)
        self.qp_of_ex = self.connect(self.make_qp(self.cq_ex))

    def qp_attr(self, cq: Any) -> Any:
        return self.ib.QPInitAttr(cq, cq, max_send_wr=256, max_recv_wr=256, max_send_sge=2, max_recv_sge=1,
                                  max_inline_data=INLINE_BYTES)

    def connect(self, qp: Any) -> Any:
        return qp.prepare(1)

    def make_qp(self, cq: Any) -> Any:
        if self.peer is None:
            self.peer = self.ib.Peer(self.pd.create_ah(bytes(15) + b"\1"), 3, 4)
        return super().make_qp(cq)

    def write(self, sg_list: list[Any], flags: int) -> Any:
        return self.ib.SendWR(wr_id=1, sg_list=sg_list, opcode=self.ib.WROpcode.RDMA_WRITE, send_flags=flags,
                              remote_addr=0x1000, rkey=2, dest=self.peer)

    def inline(self) -> Any:
        flags = self.ib.SendFlags
        return self.ib.SendWR(wr_id=1, sg_list=[self.ib.SGE(self.mr, INLINE_BYTES)], opcode=self.ib.WROpcode.SEND,
                              send_flags=flags.SIGNALED | flags.INLINE, dest=self.peer)


def anew(device: Device, n: int) -> int:
    post, poll, mr, peer = device.qp.post_send, device.cq.poll, device.mr, device.peer
    SendWR, SGE = device.ib.SendWR, device.ib.SGE
    opcode, flags = int(device.ib.WROpcode.RDMA_WRITE), int(device.ib.SendFlags.SIGNALED)
    start = perf_counter_ns()
    for _ in range(n):
        post(SendWR(wr_id=1, sg_list=[SGE(mr, 8)], opcode=opcode, send_flags=flags, remote_addr=0x1000, rkey=2,
                    dest=peer))
        poll(1)
    return perf_counter_ns() - start


def prepared_ex(device: Device, n: int) -> int:
    post, poll, request = device.qp_of_ex.post_send, device.cq_ex.poll, device.prepared
    start = perf_counter_ns()
    for _ in range(n):
        post(request)
        poll(1)
    return perf_counter_ns() - start


def empty_ex(device: Device, n: int) -> int:
    poll = device.cq_ex.poll
    start = perf_counter_ns()
    for _ in range(n):
        poll(1)
    return perf_counter_ns() - start


def polls_of_64(qp: Any, cq: Any, batch: list[Any], n: int) -> int:
    """The time of the polls alone; a completion's end is part of it."""
    took = 0
    for _ in range(n // DEPTH):
        qp.post_send(batch)
        start = perf_counter_ns()
        cq.poll(DEPTH)
        took += perf_counter_ns() - start
    return took


def poll64(device: Device, n: int) -> int:
    return polls_of_64(device.qp, device.cq, device.batch, n)


def poll64_ex(device: Device, n: int) -> int:
    return polls_of_64(device.qp_of_ex, device.cq_ex, device.batch, n)


def ah(device: Device, n: int) -> int:
    create_ah, gid = device.pd.create_ah, bytes(15) + b"\1"
    start = perf_counter_ns()
    for _ in range(n):
        create_ah(gid).close()
    return perf_counter_ns() - start


SHARED = ("prepared", "changed", "batch", "inline", "recv", "empty", "qp")
ROWS: dict[str, Callable[[Any, int], int]] = {
    **{name: operations.ROWS[name] for name in SHARED},
    **{row.__name__: row for row in (anew, poll64, prepared_ex, empty_ex, poll64_ex, ah)},
}
