# SPDX-License-Identifier: BSD-3-Clause
"""Sends of efa on the stub: what reaches the builders, all of a batch or nothing of it, and what is refused before the
provider is called. The stub ends the process where the real library would hang or crash."""

from __future__ import annotations

import ctypes
import errno
import gc
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from collector import looking_at_collections
from hypothesis import given
from hypothesis import strategies as st
from stub_control import Captured
from stub_fixtures import INIT, SRD, UD, Rig, examples, wait_until

pytestmark = [pytest.mark.needs("stub"), pytest.mark.only("efa")]

RDMA_WRITE, RDMA_WRITE_WITH_IMM, SEND, SEND_WITH_IMM, RDMA_READ = range(5)
FENCE, SIGNALED, SOLICITED, INLINE, IP_CSUM = 1, 2, 4, 8, 16
OPCODES = {SRD: range(5), UD: (SEND, SEND_WITH_IMM)}
ALL_OPS = 0b11111

u32, u64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
entry = st.tuples(u64, st.integers(0, 2**20), u32)


@pytest.fixture
def ah(rig: Rig) -> Any:
    return rig.ah()


@pytest.mark.parametrize(("qp_type", "opcode"), [(t, op) for t, ops in OPCODES.items() for op in ops])
def test_a_request_reaches_the_builders_field_by_field(rig: Rig, ah: Any, qp_type: int, opcode: int) -> None:
    qp = rig.qp(qp_type)
    entries = st.lists(entry, max_size=1 if opcode in (RDMA_WRITE, RDMA_WRITE_WITH_IMM, RDMA_READ) else 8)

    @examples
    @given(u64, entries, u64, u32, u32, st.integers(0, 2**24 - 1), u32, st.booleans())
    def check(
        wr_id: int, sges: Any, remote_addr: int, rkey: int, imm: int, qpn: int, qkey: int, by_dest: bool
    ) -> None:
        rig.stub.capture()
        to: dict[str, Any] = {"ah": ah, "remote_qpn": qpn, "remote_qkey": qkey}
        if by_dest:
            to = {"dest": SimpleNamespace(ah=ah, qp_num=qpn, qkey=qkey)}
        list_ = [rig.ib.SGE(a, n, k) for a, n, k in sges]
        qp.post_send(rig.ib.SendWR(wr_id, list_, opcode, SIGNALED, remote_addr, rkey, imm, **to))
        (got,) = rig.stub.captured()
        assert (got.kind, got.queue) == (3, qp.ptr)
        assert (got.wr.wr_id, got.wr.opcode, got.sges, got.to) == (wr_id, opcode, sges, (ah.ptr, qpn, qkey))
        if opcode in (RDMA_WRITE, RDMA_WRITE_WITH_IMM, RDMA_READ):
            assert got.remote == (remote_addr, rkey)
        if opcode in (RDMA_WRITE_WITH_IMM, SEND_WITH_IMM):
            assert got.wr.imm_data == imm
        rig.drain()

    check()


@examples
@given(st.binary(max_size=20), st.binary(max_size=12))
def test_inline_bytes_are_what_lies_at_the_addresses(rig: Rig, one: bytes, two: bytes) -> None:
    buffers = [ctypes.create_string_buffer(piece, len(piece) + 1) for piece in (one, two)]
    with rig.make_qp(max_inline_data=32) as qp:
        for count in (1, 2):
            rig.stub.capture(inline=True)
            pieces = [rig.ib.SGE(ctypes.addressof(b), len(p)) for b, p in zip(buffers[:count], (one, two))]
            qp.post_send(rig.wr(sg_list=pieces, send_flags=SIGNALED | INLINE))
            (got,) = rig.stub.captured()
            assert got.inline == b"".join((one, two)[:count])
        rig.drain()


def test_inline_writes_need_a_queue_pair_made_for_them(rig: Rig) -> None:
    data = ctypes.create_string_buffer(b"abcd")
    wr = rig.wr(opcode=RDMA_WRITE, send_flags=SIGNALED | INLINE, sg_list=[rig.ib.SGE(ctypes.addressof(data), 4)])
    with pytest.raises(ValueError, match="inline_write"):
        rig.qp(max_inline_data=32).post_send(wr)
    rig.stub.capture(inline=True)
    rig.qp(max_inline_data=32, inline_write=True).post_send(wr)
    assert [g.inline for g in rig.stub.captured()] == [b"abcd"]
    wr.opcode = RDMA_READ
    with pytest.raises(ValueError, match="read"):
        rig.qp(max_inline_data=32, inline_write=True).post_send(wr)
    rig.drain()


# ---- all or nothing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 300])
def test_a_batch_that_the_library_refuses_in_the_middle_is_not_submitted_at_all(rig: Rig, count: int) -> None:
    qp, w = rig.qp(), rig.wr()
    before = sys.getrefcount(w), sys.getrefcount(w.sg_list[0]), sys.getrefcount(w.ah)
    for after in {0, count // 2, count - 1, count}:
        rig.stub.refuse("wr_complete", after, errno.EIO)
        with pytest.raises(rig.Error) as caught:
            qp.post_send([w] * count)
        error = caught.value
        assert (error.errno, error.posted) == (errno.EIO, 0)
        assert error.operation == "ibv_wr_complete"
        assert rig.drain() == [] and rig.stub.open_sessions == 0
        qp.post_send([w] * count)
        assert len(rig.drain()) == count
    del caught, error
    gc.collect()
    assert (sys.getrefcount(w), sys.getrefcount(w.sg_list[0]), sys.getrefcount(w.ah)) == before


def test_an_address_handle_of_another_device_is_refused(rig: Rig) -> None:
    """To the provider it is a number, which this device may have given to somebody else."""
    gid = bytes(range(16))
    with rig.device.open() as ctx, ctx.alloc_pd() as pd, pd.create_ah(gid) as foreign:
        with rig.pd.create_ah(gid) as own, rig.ctx.alloc_pd() as sibling, sibling.create_ah(gid) as of_sibling:
            qp = rig.qp()
            with pytest.raises(ValueError, match="request 1: its ah belongs to another Context") as caught:
                qp.post_send([rig.wr(ah=own), rig.wr(ah=foreign)])
            assert caught.value.index == 1  # type: ignore[attr-defined]
            assert rig.drain() == []
            qp.post_send(rig.wr(ah=of_sibling))  # the device decides
            assert len(rig.drain()) == 1


def test_a_batch_deeper_than_the_queue_says_how_deep_it_is_and_submits_nothing(rig: Rig) -> None:
    qp = rig.qp(max_send_wr=8)
    with pytest.raises(rig.Error) as caught:
        qp.post_send([rig.wr(i) for i in range(9)])
    assert (caught.value.errno, caught.value.posted) == (errno.ENOMEM, 0)
    assert "8" in str(caught.value)
    assert rig.drain() == []
    qp.post_send([rig.wr(i) for i in range(8)])
    assert [wc.wr_id for wc in rig.drain()] == list(range(8))


def test_a_full_queue_takes_nothing_of_a_batch_and_all_of_it_when_there_is_room(rig: Rig) -> None:
    qp = rig.qp(max_send_wr=8)
    rig.stub.hold()
    qp.post_send([rig.wr(i) for i in range(6)])
    with pytest.raises(rig.Error) as caught:
        qp.post_send([rig.wr(i) for i in range(6, 9)])
    assert (caught.value.errno, caught.value.posted) == (errno.ENOMEM, 0)
    assert rig.stub.release(qp, 100) == 6
    qp.post_send([rig.wr(i) for i in range(6, 9)])
    assert rig.stub.release(qp, 100) == 3
    assert [wc.wr_id for wc in rig.drain()] == list(range(9))


@pytest.mark.parametrize("err", [errno.EINVAL, errno.ENOMEM, errno.EIO, -errno.EIO, 524])
def test_a_library_that_cannot_complete_is_told_and_leaves_the_queue_free(rig: Rig, err: int) -> None:
    qp = rig.qp()
    rig.stub.fail("wr_complete", err)
    with pytest.raises(rig.Error) as caught:
        qp.post_send([rig.wr()] * 3)
    assert (caught.value.errno, caught.value.posted) == (abs(err), 0)
    qp.post_send([rig.wr()] * 3)
    assert len(rig.drain()) == 3


# ---- refused before the provider is called -------------------------------------------------------------------------


def starts(rig: Rig) -> int:
    return rig.stub.calls("wr_start")


def refused(rig: Rig, qp: Any, bad: Any, kind: Any, *says: str) -> Any:
    error: Any = None
    for index in (0, 1, 30, 100):
        before = starts(rig)
        with pytest.raises(kind) as caught:
            qp.post_send([rig.wr()] * index + [bad, rig.wr()])
        error = caught.value
        assert starts(rig) == before, "the provider was called"
        assert str(index) in str(error) and getattr(error, "index", index) == index
        for part in says:
            assert part in str(error), str(error)
    assert rig.drain() == []
    return error


def test_every_send_is_signaled_or_the_queue_pair_has_sq_sig_all(rig: Rig) -> None:
    error = refused(rig, rig.qp(), rig.wr(send_flags=0), rig.Error, "SIGNALED", "sq_sig_all")
    assert error.errno == errno.EINVAL
    loud = rig.qp(sq_sig_all=True)
    loud.post_send([rig.wr(1, send_flags=0), rig.wr(2)])
    assert [wc.wr_id for wc in rig.drain()] == [1, 2]


@pytest.mark.parametrize("flag", [FENCE, SOLICITED, IP_CSUM])
def test_flags_that_efa_does_not_have_are_einval(rig: Rig, flag: int) -> None:
    error = refused(rig, rig.qp(), rig.wr(send_flags=SIGNALED | flag), (rig.Error, ValueError))
    assert getattr(error, "errno", errno.EINVAL) == errno.EINVAL


def test_a_request_without_a_destination_is_a_value_error(rig: Rig) -> None:
    refused(rig, rig.qp(), rig.ib.SendWR(1, [rig.mr.sge(8)], SEND, SIGNALED), ValueError, "dest")


def test_both_forms_of_a_destination_are_a_value_error(rig: Rig, ah: Any) -> None:
    peer = SimpleNamespace(ah=ah, qp_num=1, qkey=2)
    for twice in ({"ah": ah}, {"remote_qpn": 5}, {"remote_qkey": 5}, {"ah": ah, "remote_qpn": 1, "remote_qkey": 2}):
        with pytest.raises(ValueError, match="dest"):
            rig.ib.SendWR(dest=peer, **twice)
    wr = rig.ib.SendWR(dest=peer)
    assert (wr.ah, wr.remote_qpn, wr.remote_qkey) == (ah, 1, 2)
    assert not hasattr(wr, "dest")
    for bad in (7, object(), SimpleNamespace(ah=ah, qp_num=1), rig.mr):
        with pytest.raises(TypeError, match="dest"):
            rig.ib.SendWR(dest=bad)
    with pytest.raises(ValueError, match="dest"):
        rig.ib.SendWR(dest=SimpleNamespace(ah=None, qp_num=1, qkey=2))


@pytest.mark.parametrize("opcode", range(5))
def test_an_operation_that_was_not_enabled_is_refused(rig: Rig, opcode: int) -> None:
    """The library has no function for it at all: calling it would be the end of the process."""
    bits = [1, 2, 4, 8, 16]
    others = ALL_OPS & ~bits[opcode]
    qp = rig.qp(send_ops_flags=others)
    assert qp.send_ops_flags == others
    good = SEND if opcode != SEND else SEND_WITH_IMM
    for index in (0, 1, 70):
        before = starts(rig)
        with pytest.raises(ValueError) as caught:
            qp.post_send([rig.wr(opcode=good)] * index + [rig.wr(opcode=opcode)])
        assert starts(rig) == before and caught.value.index == index  # type: ignore[attr-defined]
    rig.drain()


def test_a_datagram_queue_pair_has_no_rdma(rig: Rig) -> None:
    for opcode in (RDMA_WRITE, RDMA_WRITE_WITH_IMM, RDMA_READ):
        refused(rig, rig.qp(UD), rig.wr(opcode=opcode), ValueError)


def test_one_entry_is_all_that_rdma_takes(rig: Rig) -> None:
    for opcode in (RDMA_WRITE, RDMA_WRITE_WITH_IMM, RDMA_READ):
        refused(rig, rig.qp(), rig.wr(opcode=opcode, sg_list=[rig.mr.sge(8)] * 2), ValueError, "2", "1")


# ---- receives ------------------------------------------------------------------------------------------------------


def test_a_receive_without_entries_is_refused(rig: Rig) -> None:
    """libefa takes it, and it holds its place in the queue for good."""
    qp = rig.qp()
    for wrs in ([rig.ib.RecvWR(1)], [rig.recv_wr()] * 5 + [rig.ib.RecvWR(1)]):
        with pytest.raises(ValueError) as caught:
            qp.post_recv(wrs)
        assert caught.value.index == len(wrs) - 1  # type: ignore[attr-defined]
    assert rig.stub.calls("post_recv") == 0


def test_long_receives_pass_where_the_library_does_not_cut_them(rig: Rig) -> None:
    qp = rig.qp()
    rig.stub.capture()
    qp.post_recv(rig.ib.RecvWR(1, [rig.mr.sge(1 << 20)]))
    assert rig.stub.captured()[0].sges == [(rig.mr.addr, 1 << 20, rig.mr.lkey)]
    rig.drain()


# ---- no session is open while Python runs ----------------------------------------------------------------------------


def test_the_collector_never_runs_between_start_and_complete(rig: Rig) -> None:
    """It would run whatever finalizers there are, and destroying a queue pair waits for the session to end."""
    qp = rig.qp()
    with looking_at_collections(lambda: rig.stub.open_sessions) as seen:
        for count in (1, 3, 64, 65, 300):
            qp.post_send([rig.wr(i) for i in range(count)])
            qp.post_send(rig.wr(i) for i in range(count))
            rig.stub.refuse("wr_complete", 1, errno.EIO)
            with pytest.raises(rig.Error):
                qp.post_send([rig.wr(i) for i in range(count)])
            rig.drain()
    assert seen and set(seen) == {0}


def test_whatever_a_request_does_when_it_is_read_no_session_is_open(rig: Rig) -> None:
    seen: list[int] = []

    class Odd(rig.ib.SendWR):  # type: ignore[misc, name-defined]
        def __getattribute__(self, name: str) -> Any:
            seen.append(rig.stub.open_sessions)
            return super().__getattribute__(name)

    def some() -> Iterator[Any]:
        for i in range(70):
            seen.append(rig.stub.open_sessions)
            yield Odd(i, [rig.mr.sge(1)], SEND, SIGNALED, **rig.to())

    qp = rig.qp()
    qp.post_send(some())
    qp.post_send(list(some()))
    assert seen and set(seen) == {0}
    assert len(rig.drain()) == 140


def test_two_threads_on_one_queue_pair_take_turns(rig: Rig) -> None:
    """The library holds the queue from start to complete: the second one waits there, and no request is mixed in."""
    qp = rig.qp(max_send_wr=4096)
    failures: list[Any] = []
    rounds = 200

    def work(wr_id: int, count: int) -> None:
        try:
            for _ in range(rounds):
                qp.post_send([rig.wr(wr_id)] * count)
                rig.cq.poll(count)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in ((1, 3), (2, 64), (3, 500))]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
        assert not t.is_alive()
    assert not failures
    rig.drain()


def test_close_waits_for_a_batch_of_another_thread(rig: Rig) -> None:
    qp = rig.make_qp()
    rig.stub.delay("wr_complete", 0.2)
    wr = rig.wr()
    results: list[Any] = []

    def post() -> None:
        try:
            qp.post_send([wr] * 500)
            results.append(None)
        except rig.Error as error:
            results.append(error.errno)

    thread = threading.Thread(target=post, daemon=True)
    thread.start()
    wait_until(lambda: rig.stub.inside("wr_complete") == 1 or bool(results), "the batch is inside")
    qp.close()
    thread.join(30)
    assert results in ([None], [errno.EBADF])
    rig.drain()


def test_a_send_before_rts_says_the_state(rig: Rig) -> None:
    qp = rig.qp(state=INIT)
    with pytest.raises(rig.Error) as caught:
        qp.post_send(rig.wr())
    assert caught.value.errno == errno.EINVAL and "INIT" in str(caught.value)


# ---- capture helper ------------------------------------------------------------------------------------------------


def offsets(captured: list[Captured]) -> list[tuple[int, int, int]]:
    return [(g.sges[0][0], g.sges[0][1], g.remote[0]) for g in captured]


def test_write_wrs_and_read_wrs_post_as_they_are(rig: Rig, ah: Any) -> None:
    ib = rig.ib
    with ib.Peer(rig.make_ah(), 9, 10) as peer:
        for make, opcode in ((ib.write_wrs, RDMA_WRITE), (ib.read_wrs, RDMA_READ)):
            rig.stub.capture()
            qp = rig.qp()
            qp.post_send(make(rig.mr, peer, 0x5000, 7, length=2500, offset=100, chunk=1000, wr_id=3))
            got = rig.stub.captured()
            base = rig.mr.addr + 100
            assert offsets(got) == [(base, 1000, 0x5000), (base + 1000, 1000, 0x53E8), (base + 2000, 500, 0x57D0)]
            assert [(g.wr.wr_id, g.wr.opcode, g.remote[1], g.to) for g in got] == [
                (3 + i, opcode, 7, (peer.ah.ptr, 9, 10)) for i in range(3)
            ]
            assert [wc.wr_id for wc in rig.drain()] == [3, 4, 5]
