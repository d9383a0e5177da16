# SPDX-License-Identifier: BSD-3-Clause
"""What rdma-core has brought since 59, over the real libefa: inline writes, hints, the rings, queues in memory of the
program's, completion counters. Older libraries skip it with the reason."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import mmap
import os
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from endpoints import INLINE, SIGNALED, Endpoint, Make, connect, poll_for

pytestmark = [pytest.mark.needs("efa"), pytest.mark.only("efa")]


@pytest.fixture
def caps(ib: Any, ctx: Any) -> Any:
    return ib.capabilities(ctx)


def need(caps: Any, name: str, since: int) -> None:
    if not getattr(caps, name):
        pytest.skip(f"needs a device with {name} and rdma-core {since}")


def test_writes_carry_their_data_inline(ib: Any, make: Make, caps: Any) -> None:
    need(caps, "inline_write", 63)
    a, b = make(inline=80, inline_write=True), make()
    connect(a, b)
    sent = a.buf.fill(3)
    for length in (0, 1, 17, 64, 80):
        b.buf.fill(99)
        wr = a.send_wr(length, 5, opcode=ib.WROpcode.RDMA_WRITE, send_flags=SIGNALED | INLINE, remote_addr=b.buf.addr,
                       rkey=b.mr.rkey)  # fmt: skip
        a.qp.post_send(wr)
        a.sent()
        assert b.buf[0:length] == sent[5 : 5 + length]
        assert b.buf[length : length + 1] == bytes([(99 + 31 * length) & 0xFF])


def test_the_depth_that_long_requests_leave_is_said_in_numbers(ib: Any, make: Make, ctx: Any, caps: Any) -> None:
    need(caps, "inline_write", 63)
    depth = ctx.query_efa_device().max_sq_wr
    with pytest.raises(ib.EfaError, match=f"max_send_wr={depth} is too deep.*holds {depth // 2}"):
        make(depth=depth, inline=64)
    with pytest.raises(ib.EfaError, match=f"max_send_wr={depth} is too deep.*in writes too.*holds {depth // 2}"):
        make(depth=depth, inline=8, inline_write=True)
    assert make(depth=depth // 2, inline=64).qp.query()[1].max_send_wr == depth // 2


def test_hints_ride_along(ib: Any, make: Make, caps: Any) -> None:
    need(caps, "processing_hints", 64)
    a, b = make(processing_hints=True), make()
    connect(a, b)
    b.post_recv()
    a.do(a.send_wr(8, processing_hints=ib.ProcessingHints.BURST_PPS_SENSITIVE))
    assert b.received()[0].byte_len == 8


def test_the_rings_are_where_the_library_says(ib: Any, pair: Any, caps: Any) -> None:
    if "efadv_query_qp_wqs" in caps.missing:
        pytest.skip("needs rdma-core 59")
    a, b = pair
    send, receive = a.qp.query_wqs()
    cap = a.qp.query()[1]
    assert (send.num_entries, send.entry_size) == (cap.max_send_wr, 64) and receive.entry_size == 16
    assert receive.num_entries >= cap.max_recv_wr and send.buffer_addr and receive.buffer_addr
    assert send.doorbell_addr and receive.doorbell_addr and 0 < send.max_batch <= cap.max_send_wr
    ring = a.send_cq.query_efa()
    assert ring.num_entries >= a.send_cq.cqe and ring.entry_size in (16, 32)
    before = ctypes.string_at(ring.buffer_addr, ring.entry_size)
    b.post_recv()
    a.do(a.send_wr(8))
    assert ctypes.string_at(ring.buffer_addr, ring.entry_size) != before  # the device has written a completion there


def test_a_queue_in_a_dmabuf_is_polled_where_this_process_sees_it(ib: Any, make: Make, caps: Any) -> None:
    """softrdma takes a memfd for a dma-buf; a device takes none."""
    need(caps, "cq_in_dmabuf", 59)
    a, length = make(), 1 << 16
    fd = os.memfd_create("ring")
    try:
        os.ftruncate(fd, length)
        memory = mmap.mmap(fd, length)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        with pytest.raises(ib.EfaError, match=f"dmabuf_fd={fd}, dmabuf_offset=0, dmabuf_length=64"):
            a.ctx.create_cq_ex(64, dmabuf_fd=fd, dmabuf_length=64, buffer=address)
        try:
            cq = a.ctx.create_cq_ex(64, dmabuf_fd=fd, dmabuf_length=length, buffer=address)
        except ib.EfaError as error:
            pytest.skip(f"needs a device that takes a memfd for a dma-buf: {error}")
    finally:
        os.close(fd)
    with cq:
        qp = a.pd.create_qp(ib.QPInitAttr(cq, cq)).prepare(7)
        peer = ib.local_endpoint_info(qp, 7).peer(a.pd)
        for number in range(200):  # more than a lap
            qp.post_recv(ib.RecvWR(2 * number, [a.mr.sge(8)]))
            qp.post_send(ib.SendWR(2 * number + 1, [a.mr.sge(8, 8)], 2, SIGNALED, dest=peer))
            assert {wc.wr_id for wc in poll_for(cq, 2)} == {2 * number, 2 * number + 1}
        assert any(memory[:4096])
        qp.close()
        peer.close()


def test_a_queue_in_a_dmabuf_that_is_not_seen_here_is_not_polled(ib: Any, make: Make, caps: Any) -> None:
    need(caps, "cq_in_dmabuf", 59)
    a, fd = make(), os.memfd_create("ring")
    try:
        os.ftruncate(fd, 1 << 16)
        try:
            cq = a.ctx.create_cq_ex(64, dmabuf_fd=fd, dmabuf_length=1 << 16)
        except ib.EfaError as error:
            pytest.skip(f"needs a device that takes a memfd for a dma-buf: {error}")
        with cq:
            for _ in range(2):
                with pytest.raises(ib.EfaError) as caught:
                    cq.poll(1)
                assert caught.value.errno == errno.ENODATA
            qp = a.pd.create_qp(ib.QPInitAttr(cq, cq)).prepare(7)
            qp.close()
    finally:
        os.close(fd)


@contextlib.contextmanager
def counter(a: Endpoint, **how: Any) -> Iterator[Any]:
    """A counter on the endpoint's device, for its queue pair; closed after that, as it has to be."""
    cntr = a.ctx.create_comp_cntr(**how)
    try:
        yield cntr
    finally:
        a.qp.close()
        cntr.close()


class TestCounters:
    @pytest.fixture(autouse=True)
    def needed(self, caps: Any) -> None:
        need(caps, "comp_cntr", 65)

    def test_each_counts_its_operations_and_the_failures(self, ib: Any, make: Make) -> None:
        ops = ib.CompCntrOps
        a, b = make(), make()
        with contextlib.ExitStack() as made:
            counters = {op: [made.enter_context(counter(end)) for end in (a, b)] for op in ops}
            for op, (ours, theirs) in counters.items():
                a.qp.attach_comp_cntr(ours, op)
                b.qp.attach_comp_cntr(theirs, op)
            connect(a, b)
            for _ in range(3):
                b.post_recv()
                a.do(a.send_wr(8))
                b.received()
            remote = {"remote_addr": b.buf.addr, "rkey": b.mr.rkey}
            a.do([a.send_wr(8, opcode=ib.WROpcode.RDMA_WRITE, **remote) for _ in range(4)], 4)
            a.do([a.send_wr(8, opcode=ib.WROpcode.RDMA_READ, **remote) for _ in range(5)], 5)
            a.qp.post_send(a.send_wr(8, opcode=ib.WROpcode.RDMA_READ, remote_addr=0, rkey=b.mr.rkey))
            assert poll_for(a.send_cq, 1)[0].status
            values = {op: [(c.read(), c.read_errors()) for c in both] for op, both in counters.items()}
        assert values == {
            ops.SEND: [(3, 0), (0, 0)],
            ops.RECV: [(0, 0), (3, 0)],
            ops.RDMA_WRITE: [(4, 0), (0, 0)],
            ops.REMOTE_RDMA_WRITE: [(0, 0), (4, 0)],
            ops.RDMA_READ: [(5, 1), (0, 0)],
            ops.REMOTE_RDMA_READ: [(0, 0), (5, 0)],
        }

    def test_the_values_lie_where_the_program_says(self, make: Make) -> None:
        words = (ctypes.c_uint64 * 2)(7, 7)
        a, address = make(), ctypes.addressof(words)
        with counter(a, comp_memory=address, err_memory=address + 8) as cntr:
            a.qp.attach_comp_cntr(cntr, 1)
            assert list(words) == [0, 0] and (cntr.read(), cntr.read_errors()) == (0, 0)
            connect(a, a)
            a.post_recv()
            a.do(a.send_wr(8))
            assert list(words) == [1, 0]
            cntr.set(2**64 - 1)
            cntr.add_errors(3)
            assert list(words) == [2**64 - 1, 3] and cntr.read() == 2**64 - 1

    def test_values_in_a_dmabuf_are_not_read_here(self, ib: Any, make: Make) -> None:
        """softrdma takes a memfd for a dma-buf."""
        fd = os.memfd_create("counter")
        try:
            os.ftruncate(fd, 4096)
            made = counter(make(), comp_memory=(fd, 64))
            with made as cntr:
                cntr.set(5)
                assert os.pread(fd, 8, 64) == (5).to_bytes(8, "little")
                with pytest.raises(ib.EfaError, match="ibv_read_comp_cntr.*dma-buf"):
                    cntr.read()
                assert cntr.read_errors() == 0
        finally:
            os.close(fd)

    def test_one_is_attached_before_the_queue_pair_is_ready(self, ib: Any, make: Make) -> None:
        a = make()
        with counter(a) as cntr, counter(a) as other:
            a.qp.to_init(7)
            a.qp.attach_comp_cntr(cntr, ib.CompCntrOps.SEND)
            with pytest.raises(ib.EfaError) as caught:
                a.qp.attach_comp_cntr(other, ib.CompCntrOps.SEND)
            assert caught.value.errno == errno.EBUSY
            a.qp.to_rtr()
            with pytest.raises(ib.EfaError, match="QP in RTR: a counter has to be there before RTR") as caught:
                a.qp.attach_comp_cntr(other, ib.CompCntrOps.RECV)
            assert caught.value.errno == errno.EINVAL

    def test_one_that_could_not_be_attached_is_not_kept(self, ib: Any, make: Make) -> None:
        a = make()
        connect(a, a)
        cntr = a.ctx.create_comp_cntr()
        gone = weakref.ref(cntr)
        with pytest.raises(ib.EfaError):
            a.qp.attach_comp_cntr(cntr, 1)
        del cntr
        gc.collect()
        assert gone() is None

    def test_one_is_closed_after_its_queue_pair(self, ib: Any, make: Make) -> None:
        a = make()
        with counter(a) as cntr:
            a.qp.attach_comp_cntr(cntr, 1)
            with pytest.raises(ib.EfaError) as caught:
                cntr.close()
            assert caught.value.errno == errno.EBUSY and not cntr.closed
            a.qp.close()
            cntr.close()
            assert cntr.closed

    def test_bytes_are_counted_or_refused(self, ib: Any, ctx: Any) -> None:
        """libefa of rdma-core 65 does not."""
        try:
            ctx.create_comp_cntr(count_bytes=True).close()
        except ib.UnsupportedError as error:
            assert "count_bytes" in str(error)

    def test_memory_that_cannot_be_had_is_named(self, ib: Any, ctx: Any) -> None:
        with pytest.raises(ib.EfaError, match="comp_memory 0x10, err_memory the library's"):
            ctx.create_comp_cntr(comp_memory=16)
        with pytest.raises(ib.EfaError, match="offset 8 of descriptor 999"):
            ctx.create_comp_cntr(err_memory=(999, 8))
