# SPDX-License-Identifier: BSD-3-Clause
"""One end of a connection, as most tests want it: everything from the context to a queue pair and a registered
buffer, requests that name the other end, and waiting for completions without hogging the only CPU of a small VM.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import time
from types import TracebackType
from typing import Any, Callable

from packages import RC as RC  # noqa: PLC0414 (tests find the types of queue pairs here)
from packages import UC as UC  # noqa: PLC0414
from packages import UD as UD  # noqa: PLC0414
from place import Node, seconds

QKEY = 0x11223344
SIGNALED = 2
INLINE = 8


class Buffer:
    """Zeroed memory of our own with its address: what `reg_mr` takes, and bytes to read and write."""

    def __init__(self, length: int, kind: str = "mmap") -> None:
        self.length = length
        self.owner: Any
        if kind == "mmap":
            self.owner = mmap.mmap(-1, length)
        elif kind == "bytearray":
            self.owner = bytearray(length)
        elif kind == "ctypes":
            self.owner = (ctypes.c_char * length)()
        else:
            raise ValueError(kind)
        self._pin = (ctypes.c_char * length).from_buffer(self.owner)
        self.addr = ctypes.addressof(self._pin)
        self.view = memoryview(self.owner).cast("B")

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, where: slice) -> bytes:
        return bytes(self.view[where])

    def __setitem__(self, where: slice, data: bytes) -> None:
        self.view[where] = data

    def u64(self, offset: int) -> int:
        return ctypes.c_uint64.from_buffer(self.owner, offset).value

    def set_u64(self, offset: int, value: int) -> None:
        ctypes.c_uint64.from_buffer(self.owner, offset).value = value

    def fill(self, seed: int) -> bytes:
        """Bytes that repeat with no power of two, so that a shifted or torn copy shows."""
        pattern = bytes((seed + 31 * i) & 0xFF for i in range(251))
        data = (pattern * (self.length // 251 + 1))[: self.length]
        self.view[:] = data
        return data


def poll_for(cq: Any, count: int, timeout: float = 5.0) -> list[Any]:
    """Exactly `count` completions; fails with what did come when `timeout` (scaled to the machine) is over.

    With a channel it sleeps there; without one it yields and then naps: a process that spins would keep the
    other end from running where there is one CPU.
    """
    found: list[Any] = []
    deadline = time.monotonic() + seconds(timeout)
    spins = 0
    while True:
        found += cq.poll(count - len(found)) if len(found) < count else []
        if len(found) >= count:
            return found
        left = deadline - time.monotonic()
        if left <= 0:
            raise AssertionError(f"{len(found)} of {count} completions after {timeout} s: {found}")
        if cq.channel is not None and spins > 0:
            cq.req_notify()
            more = cq.poll(count - len(found))
            if more:
                found += more
            elif cq.channel.get_cq_event(timeout=left) is not None:
                pass
        elif spins < 20:
            os.sched_yield()
        else:
            time.sleep(0.001)
        spins += 1


def expect_none(cq: Any, wait: float = 0.05) -> None:
    """No completion comes within `wait` seconds."""
    deadline = time.monotonic() + wait
    while time.monotonic() < deadline:
        found = cq.poll(4)
        assert not found, f"unexpected completions: {found}"
        time.sleep(0.002)


def all_access(ib: Any) -> Any:
    f = ib.AccessFlags
    return f.LOCAL_WRITE | f.REMOTE_WRITE | f.REMOTE_READ | getattr(f, "REMOTE_ATOMIC", 0)


class Endpoint:
    """A context with one queue pair and one registered buffer. Closes what it made, children first."""

    def __init__(
        self,
        ib: Any,
        node: Node,
        qp_type: int = RC,
        *,
        size: int = 1 << 14,
        depth: int = 64,
        sges: int = 4,
        inline: int = 0,
        cqe: int = 256,
        with_channel: bool = False,
        with_srq: bool = False,
        srq_depth: int = 64,
        sq_sig_all: bool = False,
        mr_access: int | None = None,
        kind: str = "mmap",
        extended: dict[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """`extended` and `more` are for EFA: arguments of create_cq_ex, and of QPInitAttr."""
        self.ib, self.node, self.qp_type, self.extended = ib, node, qp_type, extended
        self._made = contextlib.ExitStack()
        with self._made as undo:
            self.ctx = undo.enter_context(node.open())
            self.pd = undo.enter_context(self.ctx.alloc_pd())
            self.buf = Buffer(size, kind)
            access = self._access() if mr_access is None else mr_access
            self.mr = undo.enter_context(self.pd.reg_mr(self.buf.addr, size, access))
            self.channel: Any = undo.enter_context(self.ctx.create_comp_channel()) if with_channel else None
            self.send_cq = undo.enter_context(self._make_cq(cqe))
            self.recv_cq = undo.enter_context(self._make_cq(cqe))
            self.srq: Any = None
            if with_srq:
                self.srq = undo.enter_context(self.pd.create_srq(max_wr=srq_depth, max_sge=sges))
            self.init_attr = self._init_attr(depth, sges, inline, sq_sig_all, **more)
            self.qp = undo.enter_context(self.pd.create_qp(self.init_attr))
            self._made = undo.pop_all()

    def _access(self) -> Any:
        return all_access(self.ib)

    def _make_cq(self, cqe: int) -> Any:
        return self.ctx.create_cq(cqe, self.channel)

    def _init_attr(self, depth: int, sges: int, inline: int, sq_sig_all: bool, **more: Any) -> Any:
        return self.ib.QPInitAttr(
            self.send_cq,
            self.recv_cq,
            qp_type=self.qp_type,
            max_send_wr=depth,
            max_recv_wr=depth,
            max_send_sge=sges,
            max_recv_sge=sges,
            max_inline_data=inline,
            srq=self.srq,
            sq_sig_all=sq_sig_all,
            **more,
        )

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._made.close()

    # what a peer has to know, and the way to the working states

    def info(self, psn: int = 0) -> Any:
        node = self.node
        gid = self.ctx.query_gid(node.port, node.gid_index)
        return self.ib.local_qp_info(self.qp, self.ctx.query_port(node.port), gid, port=node.port, psn=psn)

    def connect(self, peer: Endpoint, *, psn: int = 0, peer_psn: int = 0, **options: Any) -> None:
        """One half of a connection: this side ready to send to `peer` and to receive from it."""
        port, index = self.node.port, self.node.gid_index
        if self.qp_type == RC:
            options.setdefault("access", all_access(self.ib))
            self.ib.connect_rc(self.qp, peer.info(peer_psn), port=port, sgid_index=index, local_psn=psn, **options)
        elif self.qp_type == UC:
            self.qp.to_init(port, options.pop("access", self.ib.AccessFlags.REMOTE_WRITE))
            self.qp.to_rtr(peer.info(peer_psn), index, **options)
            self.qp.to_rts(psn)
        else:
            self.ready_ud(psn)

    def ready_ud(self, psn: int = 0, qkey: int = QKEY) -> None:
        self.qp.to_init(self.node.port, qkey=qkey)
        self.qp.to_rtr(None, 0)
        self.qp.to_rts(psn)

    def ah_attr(self, peer: Endpoint) -> Any:
        node = self.node
        return self.ib.AHAttr(
            dgid=peer.node.gid, dlid=peer.node.port_attr.lid, sgid_index=node.gid_index, port_num=node.port
        )

    def set_state(self, state: int) -> None:
        self.qp.modify(self.ib.QPAttrMask.STATE, qp_state=state)

    # requests on the registered buffer

    def send_wr(self, length: int = 16, offset: int = 0, wr_id: int = 1, **fields: Any) -> Any:
        fields.setdefault("opcode", self.ib.WROpcode.SEND)
        fields.setdefault("send_flags", SIGNALED)
        fields.setdefault("sg_list", [self.mr.sge(length, offset)] if length else [])
        return self.ib.SendWR(wr_id, **fields)

    def rdma_wr(
        self, opcode: int, peer: Endpoint, length: int = 16, src: int = 0, dst: int = 0, wr_id: int = 1, **fields: Any
    ) -> Any:
        """A write or read between our bytes at `src` and the peer's at `dst`."""
        fields.setdefault("remote_addr", peer.mr.addr + dst)
        fields.setdefault("rkey", peer.mr.rkey)
        return self.send_wr(length, src, wr_id, opcode=opcode, **fields)

    def write_wr(self, peer: Endpoint, length: int = 16, src: int = 0, dst: int = 0, **fields: Any) -> Any:
        return self.rdma_wr(self.ib.WROpcode.RDMA_WRITE, peer, length, src, dst, **fields)

    def read_wr(self, peer: Endpoint, length: int = 16, into: int = 0, src: int = 0, **fields: Any) -> Any:
        return self.rdma_wr(self.ib.WROpcode.RDMA_READ, peer, length, into, src, **fields)

    def fetch_add_wr(self, peer: Endpoint, add: int, into: int = 0, dst: int = 0, **fields: Any) -> Any:
        opcode = self.ib.WROpcode.ATOMIC_FETCH_AND_ADD
        return self.rdma_wr(opcode, peer, 8, into, dst, compare_add=add, **fields)

    def cmp_swp_wr(
        self, peer: Endpoint, compare: int, swap: int, into: int = 0, dst: int = 0, **fields: Any
    ) -> Any:
        opcode = self.ib.WROpcode.ATOMIC_CMP_AND_SWP
        return self.rdma_wr(opcode, peer, 8, into, dst, compare_add=compare, swap=swap, **fields)

    def recv_wr(self, length: int = 64, offset: int = 0, wr_id: int = 100) -> Any:
        return self.ib.RecvWR(wr_id, [self.mr.sge(length, offset)] if length else [])

    def post_recv(self, *args: Any, **kwargs: Any) -> None:
        (self.srq or self.qp).post_recv(self.recv_wr(*args, **kwargs))

    # completions

    def sent(self, count: int = 1, timeout: float = 5.0) -> list[Any]:
        """`count` completions of this side's sends, successful all."""
        return _successful(poll_for(self.send_cq, count, timeout))

    def received(self, count: int = 1, timeout: float = 5.0) -> list[Any]:
        return _successful(poll_for(self.recv_cq, count, timeout))

    def do(self, wrs: Any, signaled: int = 1) -> list[Any]:
        """Post and wait for the completions of it."""
        self.qp.post_send(wrs)
        return self.sent(signaled)


def _successful(completions: list[Any]) -> list[Any]:
    for wc in completions:
        wc.raise_for_status()
    return completions


def connect(a: Endpoint, b: Endpoint, **options: Any) -> None:
    a.connect(b, **options)
    b.connect(a, **options)


# What the fixtures of the same names give.
Make = Callable[..., Endpoint]
Pair = Callable[..., "tuple[Endpoint, Endpoint]"]
