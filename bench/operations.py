# SPDX-License-Identifier: BSD-3-Clause
"""The operations that are measured, one function for each row, in Python on ibverbs; calls.c does the same in C.
operations_efa.py has those of efa, most of which are these on other objects.

A row's function takes how often, and times its own loop, whose turns are part of what a program pays.
"""
from __future__ import annotations

import ctypes
import importlib
from time import perf_counter_ns
from typing import Any, Callable

DEPTH = 64
SGES = 16
INLINE_BYTES = 64


class Device:
    """What the operations work with: a connected queue pair, its completion queue, and requests made once."""

    def __init__(self) -> None:
        self.ib: Any = importlib.import_module("ibverbs")
        self.context = self.ib.get_device_list()[0].open()
        self.set_up()
        ib, loud = self.ib, self.ib.SendFlags.SIGNALED
        self.prepared16 = self.write([ib.SGE(self.mr, 64, 0, i * 64) for i in range(SGES)], loud)

    def set_up(self) -> None:
        ib, loud = self.ib, self.ib.SendFlags.SIGNALED
        self.pd = self.context.alloc_pd()
        self.buffer = ctypes.create_string_buffer(4096)
        self.addr = ctypes.addressof(self.buffer)
        self.mr = self.reg_mr()
        self.cq = self.context.create_cq(1024)
        self.qp = self.connect(self.make_qp(self.cq))
        self.prepared = self.write([ib.SGE(self.mr, 8)], loud)
        self.prepared_inline = self.inline()
        self.batch = [self.write([ib.SGE(self.mr, 8)], loud) for _ in range(DEPTH)]
        self.receive = ib.RecvWR(1, [ib.SGE(self.mr, 8)])

    def reg_mr(self) -> Any:
        return self.pd.reg_mr(self.addr, 4096, self.ib.AccessFlags.LOCAL_WRITE)

    def qp_attr(self, cq: Any) -> Any:
        return self.ib.QPInitAttr(cq, cq, max_send_wr=256, max_recv_wr=256, max_send_sge=SGES, max_recv_sge=1,
                                  max_inline_data=INLINE_BYTES)

    def make_qp(self, cq: Any) -> Any:
        return self.pd.create_qp(self.qp_attr(cq))

    def connect(self, qp: Any) -> Any:
        qp.to_init(1, self.ib.AccessFlags.LOCAL_WRITE)
        qp.to_rtr(self.ib.QPInfo(qp.qp_num, 0, 0, bytes(16), 1, 3), 0)
        qp.to_rts(0)
        return qp

    def write(self, sg_list: list[Any], flags: int) -> Any:
        return self.ib.SendWR(wr_id=1, sg_list=sg_list, opcode=self.ib.WROpcode.RDMA_WRITE, send_flags=flags,
                              remote_addr=0x1000, rkey=2)

    def inline(self) -> Any:
        flags = self.ib.SendFlags
        return self.write([self.ib.SGE(self.mr, INLINE_BYTES)], flags.SIGNALED | flags.INLINE)


def post_and_poll(device: Device, request: Any, n: int) -> int:
    post, poll = device.qp.post_send, device.cq.poll
    start = perf_counter_ns()
    for _ in range(n):
        post(request)
        poll(1)
    return perf_counter_ns() - start


def prepared(device: Device, n: int) -> int:
    return post_and_poll(device, device.prepared, n)


def sge16(device: Device, n: int) -> int:
    return post_and_poll(device, device.prepared16, n)


def inline(device: Device, n: int) -> int:
    return post_and_poll(device, device.prepared_inline, n)


def made_anew(device: Device, n: int, opcode: int, flags: int) -> int:
    post, poll, mr = device.qp.post_send, device.cq.poll, device.mr
    SendWR, SGE = device.ib.SendWR, device.ib.SGE
    start = perf_counter_ns()
    for _ in range(n):
        post(SendWR(wr_id=1, sg_list=[SGE(mr, 8)], opcode=opcode, send_flags=flags, remote_addr=0x1000, rkey=2))
        poll(1)
    return perf_counter_ns() - start


def anew(device: Device, n: int) -> int:
    return made_anew(device, n, int(device.ib.WROpcode.RDMA_WRITE), int(device.ib.SendFlags.SIGNALED))


def members(device: Device, n: int) -> int:
    return made_anew(device, n, device.ib.WROpcode.RDMA_WRITE, device.ib.SendFlags.SIGNALED)


def changed(device: Device, n: int) -> int:
    post, poll, request = device.qp.post_send, device.cq.poll, device.prepared
    start = perf_counter_ns()
    for i in range(n):
        request.wr_id = i
        post(request)
        poll(1)
    return perf_counter_ns() - start


def batch(device: Device, n: int) -> int:
    post, poll, requests = device.qp.post_send, device.cq.poll, device.batch
    start = perf_counter_ns()
    for _ in range(n // DEPTH):
        post(requests)
        poll(DEPTH)
    return perf_counter_ns() - start


def recv(device: Device, n: int) -> int:
    post, poll, request = device.qp.post_recv, device.cq.poll, device.receive
    start = perf_counter_ns()
    for _ in range(n):
        post(request)
        poll(1)
    return perf_counter_ns() - start


def empty(device: Device, n: int) -> int:
    poll = device.cq.poll
    start = perf_counter_ns()
    for _ in range(n):
        poll(1)
    return perf_counter_ns() - start


def flags(device: Device, n: int) -> int:
    access = device.ib.AccessFlags
    a, b, c = access.LOCAL_WRITE, access.REMOTE_WRITE, access.REMOTE_READ
    start = perf_counter_ns()
    for _ in range(n):
        a | b | c
    return perf_counter_ns() - start


def reg(device: Device, n: int) -> int:
    reg_mr, addr, access = device.pd.reg_mr, device.addr, int(device.ib.AccessFlags.LOCAL_WRITE)
    start = perf_counter_ns()
    for _ in range(n):
        reg_mr(addr, 4096, access).close()
    return perf_counter_ns() - start


def qp(device: Device, n: int) -> int:
    create_qp, attr = device.pd.create_qp, device.qp_attr(device.cq)
    start = perf_counter_ns()
    for _ in range(n):
        create_qp(attr).close()
    return perf_counter_ns() - start


ROWS: dict[str, Callable[[Device, int], int]] = {
    row.__name__: row
    for row in (prepared, anew, members, changed, batch, recv, empty, flags, sge16, inline, reg, qp)
}


def completions(device: Device, n: int) -> list[Any]:
    """So many WCs that are kept."""
    kept: list[Any] = []
    for _ in range(n // DEPTH):
        device.qp.post_send(device.batch)
        kept += device.cq.poll(DEPTH)
    return kept
