# SPDX-License-Identifier: BSD-3-Clause
"""Extended completion queues on the stub: what they read, that nothing is lost, and that no poll is open while Python
runs. The stub ends the process where libefa's lock would be waited for by its own holder."""

from __future__ import annotations

import errno
import gc
import sys
import weakref
from typing import Any

import pytest
from collector import looking_at_collections
from hypothesis import given
from hypothesis import strategies as st
from stub_fixtures import RESET, SRD, UD, Rig, examples

pytestmark = [pytest.mark.needs("stub"), pytest.mark.only("efa")]

u8, u16, u32, u64 = (st.integers(0, 2**bits - 1) for bits in (8, 16, 32, 64))
RECV, RECV_RDMA_WITH_IMM, SEND, WITH_IMM = 128, 129, 0, 2

fields = {
    "wr_id": u64, "status": st.integers(0, 21), "opcode": st.sampled_from([0, 1, 128, 129]), "vendor_err": u32,
    "byte_len": u32, "qp_num": u32, "src_qp": u32, "wc_flags": st.sampled_from([0, 1, 2, 3]), "slid": u16, "sl": u8,
    "dlid_path_bits": u8,
}  # fmt: skip


@examples
@given(st.fixed_dictionaries(fields), u32, st.none() | st.binary(min_size=16, max_size=16), st.booleans())
def test_a_completion_comes_up_field_by_field(
    rig: Rig, f: dict[str, int], imm: int, sgid: bytes | None, unsolicited: bool
) -> None:
    with rig.ctx.create_cq_ex(16, sgid=True, unsolicited=True) as cq:
        assert cq.sgid_enabled and cq.unsolicited_enabled
        rig.stub.push_wc_ex(cq, imm, sgid, unsolicited, **f)
        (wc,) = cq.poll(1)
        assert (wc.wr_id, wc.status, wc.qp_num) == (f["wr_id"], f["status"], f["qp_num"])
        assert type(wc) is rig.ib.WC
        assert wc.vendor_err == (f["vendor_err"] if f["status"] else 0)  # of a success the device says 0
        if f["status"]:
            return
        assert wc.opcode == f["opcode"]
        if not f["opcode"] & RECV:  # of a send the library's answers are 0, or what lies where a receive has its own
            assert (wc.byte_len, wc.wc_flags, wc.imm_data, wc.src_qp) == (0, 0, 0, 0)
            assert wc.sgid is None and wc.unsolicited is False
        else:
            assert (wc.byte_len, wc.wc_flags) == (f["byte_len"], f["wc_flags"])
            assert (wc.src_qp, wc.sgid, wc.unsolicited) == (f["src_qp"], sgid, unsolicited)
            if f["wc_flags"] & WITH_IMM:
                assert wc.imm_data == imm


def test_what_was_not_asked_for_is_not_read(rig: Rig) -> None:
    """Nor is it a function in the library: the call would end the process."""
    flags = rig.ib.CreateCQWCFlags
    for wc_flags in (0, flags.QP_NUM, flags.BYTE_LEN | flags.IMM, flags.STANDARD):
        for sgid, unsolicited in ((False, False), (True, False), (False, True)):
            with rig.ctx.create_cq_ex(16, None, 0, wc_flags, sgid, unsolicited) as cq:
                assert (cq.sgid_enabled, cq.unsolicited_enabled) == (sgid, unsolicited)
                rig.stub.push_wc_ex(
                    cq, 5, bytes(range(16)), True, wr_id=1, opcode=RECV, byte_len=3, qp_num=4, wc_flags=WITH_IMM
                )
                (wc,) = cq.poll(4)
                assert wc.wr_id == 1 and wc.opcode == RECV
                assert wc.sgid == (bytes(range(16)) if sgid else None) and wc.unsolicited is unsolicited
                assert wc.byte_len == (3 if wc_flags & flags.BYTE_LEN else 0)
                assert wc.qp_num == (4 if wc_flags & flags.QP_NUM else 0)


def test_flags_that_efa_does_not_have_are_refused(rig: Rig) -> None:
    before = rig.stub.calls("efadv_create_cq")
    for bad in (128, 1 << 11, 2**64 - 1):
        with pytest.raises((ValueError, rig.Error)):
            rig.ctx.create_cq_ex(16, wc_flags=bad)
    assert rig.stub.calls("efadv_create_cq") == before


def test_what_the_device_lacks_is_refused_with_the_reason(rig: Rig) -> None:
    rig.stub.set_efa_caps(1)
    with rig.device.open() as ctx:
        for options in ({"sgid": True}, {"unsolicited": True}):
            with pytest.raises(rig.ib.UnsupportedError, match=f"device {ctx.name} does not have it") as caught:
                ctx.create_cq_ex(16, **options)
            assert caught.value.errno == errno.EOPNOTSUPP
        ctx.create_cq_ex(16).close()


@pytest.mark.parametrize("count", [1, 2, 16, 17, 100, 1000])
@pytest.mark.parametrize("asked", [1, 3, 64, 5000])
def test_completions_come_in_order_once_each(rig: Rig, count: int, asked: int) -> None:
    with rig.ctx.create_cq_ex(1024, sgid=True) as cq:
        for i in range(count):
            rig.stub.push_wc_ex(cq, wr_id=i, opcode=RECV, sgid=(i + 1).to_bytes(16, "big"))
        got: list[Any] = []
        while len(got) < count:
            more = cq.poll(asked)
            assert 1 <= len(more) <= asked
            got += more
        assert [(wc.wr_id, wc.sgid) for wc in got] == [(i, (i + 1).to_bytes(16, "big")) for i in range(count)]
        assert cq.poll(asked) == []


def test_it_serves_queue_pairs_of_both_types(rig: Rig) -> None:
    cq = rig.keep(rig.ctx.create_cq_ex(64))
    for qp_type in (SRD, UD):
        qp = rig.qp(qp_type, send_cq=cq, recv_cq=cq)
        qp.post_send([rig.wr(i) for i in range(5)])
        qp.post_recv([rig.recv_wr(i) for i in range(5)])
        assert [(wc.wr_id, wc.qp_num) for wc in cq.poll(64)] == [(i, qp.qp_num) for i in range(5)] * 2


@pytest.mark.parametrize("err", [errno.EIO, errno.EINVAL, -errno.EIO])
def test_an_error_of_the_start_is_raised_and_the_queue_works_on(rig: Rig, err: int) -> None:
    cq = rig.keep(rig.ctx.create_cq_ex(16))
    rig.stub.push_wc_ex(cq, wr_id=1)
    rig.stub.fail("start_poll", err)
    with pytest.raises(rig.Error) as caught:
        cq.poll(4)
    assert (caught.value.errno, caught.value.operation) == (abs(err), "ibv_start_poll")
    assert rig.stub.open_sessions == 0
    assert [wc.wr_id for wc in cq.poll(4)] == [1]


def test_completions_in_hand_survive_an_error_of_the_next(rig: Rig) -> None:
    cq = rig.keep(rig.ctx.create_cq_ex(256))
    for nth in range(1, 12):
        for err in (errno.EIO, errno.EINVAL):
            for i in range(40):
                rig.stub.push_wc_ex(cq, wr_id=i)
            rig.stub.fail("next_poll", err, nth=nth)
            got: list[int] = []
            for _ in range(10):
                try:
                    got += [wc.wr_id for wc in cq.poll(20)]
                except rig.Error as error:
                    assert error.errno == err
            assert got == list(range(40)), (nth, err)
            rig.stub.fail("next_poll", err, times=0)
            assert rig.stub.open_sessions == 0


def test_the_collector_never_runs_inside_a_poll(rig: Rig) -> None:
    """A queue pair that it destroys would wait for the end of the poll, which would wait for it."""
    cq = rig.keep(rig.ctx.create_cq_ex(1024, sgid=True))
    with looking_at_collections(lambda: rig.stub.open_sessions) as seen:
        for asked in (1, 7, 64, 65, 300):
            for i in range(300):
                rig.stub.push_wc_ex(cq, wr_id=i, opcode=RECV, sgid=bytes(16))
            knot: list[Any] = [rig.make_qp(SRD, RESET, send_cq=cq, recv_cq=cq)]
            knot.append(knot)
            del knot
            total = 0
            while total < 300:
                total += len(cq.poll(asked))
    assert seen and set(seen) == {0}


def test_an_allocation_that_fails_in_a_poll_loses_nothing(rig: Rig) -> None:
    testcapi = pytest.importorskip("_testcapi", reason="needs the interpreter's own test module")
    cq = rig.keep(rig.ctx.create_cq_ex(256, sgid=True))
    poll = cq.poll
    for first in range(0, 60):
        for i in range(50):
            rig.stub.push_wc_ex(cq, wr_id=i, opcode=RECV, sgid=(i + 1).to_bytes(16, "big"))
        found: Any = []
        testcapi.set_nomemory(first, first + 1)
        try:
            found = poll(20)
        except MemoryError:
            pass
        finally:
            testcapi.remove_mem_hooks()
        assert rig.stub.open_sessions == 0
        got: list[Any] = list(found)
        while True:
            more = cq.poll(64)
            if not more:
                break
            got += more
        assert [(wc.wr_id, wc.sgid) for wc in got] == [(i, (i + 1).to_bytes(16, "big")) for i in range(50)]


# ---- the channel, which libefa does not tell of its queue -----------------------------------------------------------


@pytest.mark.parametrize("call", ["create_cq", "create_cq_ex"])
def test_an_event_is_the_queue_itself(rig: Rig, call: str) -> None:
    channel = rig.keep(rig.ctx.create_comp_channel())
    cq, other = (rig.keep(getattr(rig.ctx, call)(16, channel)) for _ in range(2))
    for queue in (cq, other, cq):
        queue.req_notify()
        rig.stub.push_wc(queue, wr_id=1)
        assert channel.get_cq_event(timeout=5) is queue
        queue.ack_events()
        assert len(queue.poll(4)) == 1
    assert cq.channel is channel and cq.context is rig.ctx


@pytest.mark.parametrize("call", ["create_cq", "create_cq_ex"])
def test_a_channel_does_not_close_under_its_queue(rig: Rig, call: str) -> None:
    channel = rig.ctx.create_comp_channel()
    cq = getattr(rig.ctx, call)(16, channel)
    with pytest.raises(rig.Error) as caught:
        channel.close()
    assert caught.value.errno == errno.EBUSY
    channel_ref = weakref.ref(channel)
    del channel, caught
    gc.collect()
    assert channel_ref() is not None and cq.channel is channel_ref()
    knot: list[Any] = [cq, cq.channel]
    knot.append(knot)
    del knot, cq
    gc.collect()
    assert channel_ref() is None


@pytest.mark.parametrize("call", ["create_cq", "create_cq_ex"])
def test_notification_without_a_channel_is_refused(rig: Rig, call: str) -> None:
    """libefa would write to a doorbell that it does not have."""
    cq = rig.keep(getattr(rig.ctx, call)(16))
    before = rig.stub.calls("req_notify_cq")
    for solicited in (False, True):
        with pytest.raises((ValueError, rig.Error), match="channel"):
            cq.req_notify(solicited)
    assert rig.stub.calls("req_notify_cq") == before


@pytest.mark.parametrize("call", ["create_cq", "create_cq_ex"])
def test_solicited_events_alone_cannot_be_asked_for(rig: Rig, call: str) -> None:
    cq = rig.keep(getattr(rig.ctx, call)(16, rig.keep(rig.ctx.create_comp_channel())))
    with pytest.raises(rig.Error) as caught:
        cq.req_notify(True)
    assert caught.value.errno == errno.EOPNOTSUPP
    cq.req_notify()


def test_dropped_queues_do_not_come_back_in_events(rig: Rig) -> None:
    channel = rig.keep(rig.ctx.create_comp_channel())
    for _ in range(20):
        cq = rig.ctx.create_cq_ex(16, channel)
        rig.stub.push_cq_event(cq)
        del cq
    kept = rig.keep(rig.ctx.create_cq_ex(16, channel))
    rig.stub.push_cq_event(kept)
    assert channel.get_cq_event(timeout=5) is kept
    assert channel.get_cq_event(timeout=0) is None


def test_a_closed_queue_raises_ebadf(rig: Rig) -> None:
    cq = rig.ctx.create_cq_ex(16)
    cq.close()
    for act, name in ((lambda: cq.poll(1), "poll"), (cq.req_notify, "req_notify"), (cq.query_efa, "query_efa"),
                      (lambda: cq.cqe, "cqe")):  # fmt: skip
        with pytest.raises(rig.Error) as caught:
            act()
        assert caught.value.errno == errno.EBADF and name in str(caught.value) and "CQEx" in str(caught.value)
    assert "CQEx" in repr(cq)


def test_refused_while_a_queue_pair_uses_it(rig: Rig) -> None:
    cq = rig.ctx.create_cq_ex(16)
    with rig.make_qp(SRD, RESET, send_cq=cq, recv_cq=cq):
        with pytest.raises(rig.Error) as caught:
            cq.close()
        assert caught.value.errno == errno.EBUSY and "1 QP" in str(caught.value)
    cq.close()


def test_completions_of_a_failed_request_name_the_providers_status(rig: Rig) -> None:
    cq = rig.keep(rig.ctx.create_cq_ex(16))
    for vendor_err, words in ((13, "security group"), (14, "address handle")):
        rig.stub.push_wc_ex(cq, wr_id=1, status=10, vendor_err=vendor_err)
        (wc,) = cq.poll(1)
        with pytest.raises(rig.ib.CompletionError) as caught:
            wc.raise_for_status()
        assert caught.value.vendor_err == vendor_err
        assert words in str(caught.value), str(caught.value)


def test_polling_makes_nothing_that_stays(rig: Rig) -> None:
    cq = rig.keep(rig.ctx.create_cq_ex(64, sgid=True))
    before = sys.getrefcount(cq)
    blocks = 0
    for turn in range(60):
        for i in range(50):
            rig.stub.push_wc_ex(cq, wr_id=i, opcode=RECV, sgid=bytes(16))
        assert len(cq.poll(64)) == 50
        if turn == 10:
            gc.collect()
            blocks = sys.getallocatedblocks()
    gc.collect()
    assert sys.getrefcount(cq) == before and sys.getallocatedblocks() <= blocks + 100
