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
from typing import Any, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stub_control import Captured
from stub_fixtures import INIT, RESET, SRD, UD, Rig, examples, wait_until

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


@pytest.mark.parametrize("caps", [0, 1, 1 | 2, 8 | 1])
def test_none_enables_what_type_device_and_library_support(rig: Rig, caps: int) -> None:
    rig.stub.set_efa_caps(caps)
    with rig.device.open() as ctx, ctx.alloc_pd() as pd, ctx.create_cq(8) as cq:
        sends, reads, writes = 4 | 8, 16 if caps & 1 else 0, 1 | 2 if caps & 8 else 0
        with pd.create_qp(rig.ib.QPInitAttr(cq, cq)) as qp:
            assert qp.send_ops_flags == sends | reads | writes
            assert rig.stub.last_qp_init_ex()[0] == sends | reads | writes
        with pd.create_qp(rig.ib.QPInitAttr(cq, cq, qp_type=UD)) as qp:
            assert qp.send_ops_flags == sends


def test_what_is_asked_for_by_name_and_not_there_is_unsupported(rig: Rig) -> None:
    ib = rig.ib
    rig.stub.set_efa_caps(0)
    ops = ib.QPExSendOpsFlags
    with rig.device.open() as ctx, ctx.alloc_pd() as pd, ctx.create_cq(8) as cq:
        for options in (
            {"send_ops_flags": ops.RDMA_WRITE}, {"send_ops_flags": ops.SEND | ops.RDMA_READ},
            {"unsolicited_write_recv": True}, {"inline_write": True},
        ):  # fmt: skip
            before = rig.stub.calls("efadv_create_qp_ex")
            with pytest.raises(ib.UnsupportedError, match=f"device {ctx.name} does not have it") as caught:
                pd.create_qp(ib.QPInitAttr(cq, cq, **options))
            assert caught.value.errno == errno.EOPNOTSUPP
            assert rig.stub.live("qp") == 0 and rig.stub.calls("efadv_create_qp_ex") == before


def test_creation_passes_what_was_given(rig: Rig) -> None:
    qp = rig.qp(state=RESET, sl=3, unsolicited_write_recv=True, max_send_wr=9, max_recv_wr=10, max_send_sge=2,
                max_recv_sge=3, max_inline_data=20, sq_sig_all=True)  # fmt: skip
    asked = rig.stub.last_qp_init()
    cap = asked.cap
    assert (cap.max_send_wr, cap.max_recv_wr, cap.max_send_sge, cap.max_recv_sge) == (9, 10, 2, 3)
    assert (cap.max_inline_data, asked.qp_type, asked.sq_sig_all, asked.srq) == (20, 255, 1, 0)
    assert rig.stub.last_qp_init_ex() == (ALL_OPS, 1, 3)
    assert (qp.qp_type, qp.send_cq, qp.recv_cq, qp.pd) == (SRD, rig.cq, rig.cq, rig.pd)


# ---- receives ------------------------------------------------------------------------------------------------------


def test_a_receive_without_entries_is_refused(rig: Rig) -> None:
    """libefa takes it, and it holds its place in the queue for good."""
    qp = rig.qp()
    for wrs in ([rig.ib.RecvWR(1)], [rig.recv_wr()] * 5 + [rig.ib.RecvWR(1)]):
        with pytest.raises(ValueError) as caught:
            qp.post_recv(wrs)
        assert caught.value.index == len(wrs) - 1  # type: ignore[attr-defined]
    assert rig.stub.calls("post_recv") == 0


def test_a_queue_pair_without_receive_entries_is_refused(rig: Rig) -> None:
    """libefa divides by their number."""
    before = rig.stub.calls("efadv_create_qp_ex")
    for qp_type in (SRD, UD):
        with pytest.raises(ValueError, match="max_recv_sge"):
            rig.make_qp(qp_type, RESET, max_recv_sge=0)
    assert rig.stub.calls("efadv_create_qp_ex") == before


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
    seen: list[int] = []

    def look(phase: str, info: Any) -> None:
        seen.append(rig.stub.open_sessions)

    gc.callbacks.append(look)
    old = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for count in (1, 3, 64, 65, 300):
            qp.post_send([rig.wr(i) for i in range(count)])
            qp.post_send(rig.wr(i) for i in range(count))
            rig.stub.refuse("wr_complete", 1, errno.EIO)
            with pytest.raises(rig.Error):
                qp.post_send([rig.wr(i) for i in range(count)])
            rig.drain()
    finally:
        gc.set_threshold(*old)
        gc.callbacks.remove(look)
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


# ---- states ------------------------------------------------------------------------------------------------------


def test_prepare_goes_through_all_states_and_returns_the_queue_pair(rig: Rig) -> None:
    mask = rig.ib.QPAttrMask
    qp = rig.qp(state=RESET)
    steps: list[tuple[int, Any]] = []
    real = rig.stub.calls("modify_qp")
    assert qp.prepare(0x1234, psn=77, rnr_retry=5) is qp
    assert rig.stub.calls("modify_qp") == real + 3
    steps.append(rig.stub.last_modify())
    bits, attr = steps[0]
    assert bits == mask.STATE | mask.SQ_PSN | mask.RNR_RETRY
    assert (attr.qp_state, attr.sq_psn, attr.rnr_retry) == (3, 77, 5)
    values, cap = qp.query()
    assert (values["qp_state"], values["qkey"], values["sq_psn"]) == (3, 0x1234, 77)
    assert (values["port_num"], values["pkey_index"], values["rnr_retry"]) == (1, 0, 5)
    assert cap.max_send_wr == 1024


def test_each_step_sets_what_it_says(rig: Rig) -> None:
    mask = rig.ib.QPAttrMask
    qp = rig.qp(state=RESET)
    qp.to_init(0x99)
    bits, attr = rig.stub.last_modify()
    assert bits == mask.STATE | mask.PKEY_INDEX | mask.PORT | mask.QKEY
    assert (attr.qp_state, attr.qkey, attr.port_num, attr.pkey_index) == (1, 0x99, 1, 0)
    qp.to_rtr()
    assert rig.stub.last_modify()[0] == mask.STATE
    qp.to_rts(5)
    bits, attr = rig.stub.last_modify()
    assert bits == mask.STATE | mask.SQ_PSN and attr.sq_psn == 5
    assert qp.state == 3


@pytest.mark.parametrize("rnr_retry", [-1, 8, 256])
def test_rnr_retry_is_from_0_to_7(rig: Rig, rnr_retry: int) -> None:
    qp = rig.qp(state=RESET)
    with pytest.raises(ValueError, match="rnr_retry"):
        qp.prepare(1, rnr_retry=rnr_retry)
    assert qp.state == RESET, "nothing is half done"


def test_rnr_retry_needs_the_capability(rig: Rig) -> None:
    rig.stub.set_efa_caps(1)
    with rig.device.open() as ctx, ctx.alloc_pd() as pd, ctx.create_cq(8) as cq:
        with pd.create_qp(rig.ib.QPInitAttr(cq, cq)) as qp:
            with pytest.raises(rig.Error) as caught:
                qp.prepare(1, rnr_retry=3)
            assert caught.value.errno == errno.EOPNOTSUPP and qp.state == RESET
            assert qp.prepare(1).state == 3


def test_a_prepare_that_fails_says_which_step_and_can_be_tried_again_from_reset(rig: Rig) -> None:
    for nth in (1, 2, 3):
        qp = rig.qp(state=RESET)
        rig.stub.fail("modify_qp", errno.EIO, nth=nth)
        with pytest.raises(rig.Error) as caught:
            qp.prepare(1)
        assert (caught.value.errno, caught.value.operation) == (errno.EIO, "ibv_modify_qp")
    assert rig.qp(state=RESET).prepare(1).state == 3


def test_a_send_before_rts_says_the_state(rig: Rig) -> None:
    qp = rig.qp(state=INIT)
    with pytest.raises(rig.Error) as caught:
        qp.post_send(rig.wr())
    assert caught.value.errno == errno.EINVAL and "INIT" in str(caught.value)


# ---- what libefa tells -----------------------------------------------------------------------------------------------


def test_what_libefa_tells_of_objects(rig: Rig, ah: Any) -> None:
    ib = rig.ib
    attr = rig.ctx.query_efa_device()
    assert (attr.max_sq_wr, attr.max_rq_wr, attr.max_sq_sge, attr.max_rq_sge) == (4096, 32768, 8, 8)
    assert (attr.inline_buf_size, attr.device_caps, attr.max_rdma_size) == (32, 0x7F, 1 << 31)
    assert attr.device_caps & ib.EfaDeviceCaps.RDMA_WRITE
    assert ah.ahn == ah_handle(ah) & 0xFFFF
    mr = rig.mr.query_efa()
    assert (mr.ic_id_validity, mr.recv_ic_id) == (5, rig.mr.handle & 0xFFFF)
    assert (mr.rdma_read_ic_id, mr.rdma_recv_ic_id) == (0, 3)
    qp = rig.qp(max_send_wr=64, max_recv_wr=32)
    send, receive = qp.query_wqs()
    assert (send.num_entries, send.entry_size, send.max_batch) == (64, 64, 16)
    assert (receive.num_entries, receive.entry_size, receive.max_batch) == (32, 16, 8)
    assert send.buffer_addr and send.doorbell_addr and receive.buffer_addr
    cq = rig.cq.query_efa()
    assert (cq.num_entries, cq.entry_size) == (4096, 16) and cq.buffer_addr


def ah_handle(ah: Any) -> int:
    """The number at its place in struct ibv_ah, behind two pointers."""
    return ctypes.c_uint32.from_address(ah.ptr + 16).value


@pytest.mark.parametrize("err", [errno.EIO, errno.EOPNOTSUPP, -errno.EIO])
def test_what_libefa_refuses_to_tell_is_raised_with_its_name(rig: Rig, err: int, ah: Any) -> None:
    qp = rig.qp()
    acts: dict[str, Callable[[], Any]] = {
        "efadv_query_device": rig.ctx.query_efa_device,
        "efadv_query_ah": lambda: ah.ahn,
        "efadv_query_mr": rig.mr.query_efa,
        "efadv_query_cq": rig.cq.query_efa,
        "efadv_query_qp_wqs": qp.query_wqs,
    }
    for verb, act in acts.items():
        rig.stub.fail(verb, err)
        with pytest.raises(rig.Error) as caught:
            act()
        assert (caught.value.errno, caught.value.operation) == (abs(err), verb)
        act()


def test_devices_that_are_not_efa_are_told_apart(ib: Any, stub: Any) -> None:
    every, ours = ib.get_device_list(), ib.get_efa_device_list()
    assert [d.name for d in every] == ["stub0", "stub1", "stub2"] and [d.name for d in ours] == ["stub2"]
    assert ours[0] == every[2]
    with every[0].open() as other, ours[0].open() as ctx:
        assert not other.is_efa() and ctx.is_efa()
        with pytest.raises(ib.EfaError) as caught:
            other.query_efa_device()
        assert (caught.value.errno, caught.value.operation) == (errno.EOPNOTSUPP, "efadv_query_device")
        with other.alloc_pd() as pd, other.create_cq(4) as cq:
            makers: list[Callable[[], Any]] = [
                lambda: other.create_cq_ex(4),
                lambda: pd.create_qp(ib.QPInitAttr(cq, cq)),
            ]
            for make in makers:
                with pytest.raises(ib.EfaError) as caught:
                    make()
                assert caught.value.errno == errno.EOPNOTSUPP
    assert stub.live_objects() == {}


def test_a_queue_pair_too_deep_for_its_entries_says_so_in_numbers(rig: Rig) -> None:
    with pytest.raises(rig.Error) as caught:
        rig.make_qp(max_recv_wr=20000, max_recv_sge=2)
    words = str(caught.value)
    assert caught.value.errno == errno.EINVAL
    for part in ("max_recv_wr", "20000", "16384", "max_recv_sge"):
        assert part in words, words
    with pytest.raises(rig.Error) as caught:
        rig.make_qp(max_send_wr=4096, max_inline_data=128)
    words = str(caught.value)
    for part in ("max_send_wr", "4096", "2048", "max_inline_data"):
        assert part in words, words


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
