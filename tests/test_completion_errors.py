# SPDX-License-Identifier: BSD-3-Clause
"""Errors on purpose: the completion that each mistake gives, and what it does to both ends.

Where kernels and hardware differ, the set of answers that were seen is listed, and no other is accepted: rxe of 7.3
reports every error that the requester itself finds as WR_FLUSH_ERR; rxe reports a receive that is too short in its
own way.
"""

from __future__ import annotations

import copy
import errno
import pickle
from typing import Any

import pytest
from endpoints import Endpoint, Make, Pair, all_access, connect, expect_none, poll_for

pytestmark = [pytest.mark.needs("rc"), pytest.mark.only("ibverbs")]


def fail(end: Endpoint, wr: Any, timeout: float = 3.0) -> Any:
    """Post a request that is meant to fail; its completion."""
    end.qp.post_send(wr)
    (wc,) = poll_for(end.send_cq, 1, timeout)
    assert not wc.is_success
    assert wc.wr_id == 1 and wc.qp_num == end.qp.qp_num
    return wc


class TestRemoteAccess:
    """The peer's memory is reached only with the right key, inside the region, with the right rights."""

    def check(self, ib: Any, a: Endpoint, b: Endpoint, wr: Any) -> None:
        before = b.buf.fill(200)
        wc = fail(a, wr)
        assert wc.status == ib.WCStatus.REM_ACCESS_ERR
        assert b.buf[:] == before
        assert a.qp.state == ib.QPState.ERR
        assert b.qp.state == ib.QPState.ERR

    @pytest.mark.parametrize("kind", ["write", "read"])
    def test_a_wrong_key(self, ib: Any, rc_pair: Pair, kind: str) -> None:
        a, b = rc_pair()
        make = a.write_wr if kind == "write" else a.read_wr
        self.check(ib, a, b, make(b, rkey=b.mr.rkey ^ 0x5A5A00))

    @pytest.mark.parametrize("kind", ["write", "read"])
    def test_past_the_end(self, ib: Any, rc_pair: Pair, kind: str) -> None:
        a, b = rc_pair()
        make = a.write_wr if kind == "write" else a.read_wr
        self.check(ib, a, b, make(b, 16, remote_addr=b.mr.addr + b.mr.length - 15))

    def test_before_the_start(self, ib: Any, rc_pair: Pair) -> None:
        a, b = rc_pair()
        self.check(ib, a, b, a.write_wr(b, 16, remote_addr=b.mr.addr - 1))

    @pytest.mark.parametrize("right, kind", [("REMOTE_WRITE", "write"), ("REMOTE_READ", "read")])
    def test_a_region_without_the_right(self, ib: Any, make: Make, right: str, kind: str) -> None:
        a, b = make(), make(mr_access=all_access(ib) & ~ib.AccessFlags[right])
        connect(a, b)
        self.check(ib, a, b, (a.write_wr if kind == "write" else a.read_wr)(b))

    @pytest.mark.needs("atomics")
    def test_a_region_without_the_right_to_atomics(self, ib: Any, make: Make) -> None:
        a, b = make(), make(mr_access=all_access(ib) & ~ib.AccessFlags.REMOTE_ATOMIC)
        connect(a, b)
        self.check(ib, a, b, a.fetch_add_wr(b, 1))

    def test_a_region_that_was_closed(self, ib: Any, rc_pair: Pair) -> None:
        a, b = rc_pair()
        addr, rkey = b.mr.addr, b.mr.rkey
        b.mr.close()
        before = b.buf.fill(200)
        wc = fail(a, a.send_wr(16, opcode=ib.WROpcode.RDMA_WRITE, remote_addr=addr, rkey=rkey))
        assert wc.status == ib.WCStatus.REM_ACCESS_ERR
        assert b.buf[:] == before

    @pytest.mark.parametrize("right, kind", [("REMOTE_WRITE", "write"), ("REMOTE_READ", "read")])
    def test_a_queue_pair_without_the_right(self, ib: Any, make: Make, right: str, kind: str) -> None:
        a, b = make(), make()
        a.connect(b)
        b.connect(a, access=all_access(ib) & ~ib.AccessFlags[right])
        before = b.buf.fill(200)
        wc = fail(a, (a.write_wr if kind == "write" else a.read_wr)(b))
        assert wc.status == ib.WCStatus.REM_INV_REQ_ERR
        assert b.buf[:] == before
        assert a.qp.state == b.qp.state == ib.QPState.ERR

    def test_a_read_of_a_peer_that_answers_none(self, ib: Any, make: Make) -> None:
        a, b = make(), make()
        a.connect(b)
        b.connect(a, max_dest_rd_atomic=0)
        assert fail(a, a.read_wr(b)).status == ib.WCStatus.REM_INV_REQ_ERR


class TestLocalProtection:
    """Our own memory is reached only through our own regions."""

    def test_an_unknown_key(self, ib: Any, rc_pair: Pair) -> None:
        a, b = rc_pair()
        wc = fail(a, a.write_wr(b, sg_list=[ib.SGE(a.mr.addr, 16, a.mr.lkey ^ 0x5A5A00)]))
        s = ib.WCStatus
        assert wc.status in (s.LOC_PROT_ERR, s.LOC_QP_OP_ERR, s.WR_FLUSH_ERR)
        assert a.qp.state == ib.QPState.ERR
        assert b.qp.state == ib.QPState.RTS

    def test_past_the_end(self, ib: Any, rc_pair: Pair) -> None:
        a, b = rc_pair()
        wc = fail(a, a.write_wr(b, sg_list=[ib.SGE(a.mr.addr + a.mr.length - 8, 16, a.mr.lkey)]))
        assert wc.status in (ib.WCStatus.LOC_PROT_ERR, ib.WCStatus.WR_FLUSH_ERR)

    def test_a_region_of_another_protection_domain(self, ib: Any, rc_pair: Pair) -> None:
        a, b = rc_pair()
        with a.ctx.alloc_pd() as other, other.reg_mr(a.buf.addr, 4096, ib.AccessFlags.LOCAL_WRITE) as mr:
            wc = fail(a, a.write_wr(b, sg_list=[mr.sge(16)]))
        s = ib.WCStatus
        assert wc.status in (s.LOC_PROT_ERR, s.LOC_QP_OP_ERR, s.WR_FLUSH_ERR)

    def test_reading_into_a_region_that_may_not_be_written(self, ib: Any, rc_pair: Pair) -> None:
        a, b = rc_pair()
        before = a.buf.fill(9)
        b.buf.fill(77)
        with a.pd.reg_mr(a.buf.addr, 4096, ib.AccessFlags.REMOTE_READ) as mr:
            wc = fail(a, a.read_wr(b, sg_list=[mr.sge(16)]))
        assert wc.status == ib.WCStatus.LOC_PROT_ERR
        assert a.buf[:] == before

    def test_a_receive_with_an_unknown_key(self, ib: Any, rc_pair: Pair) -> None:
        a, b = rc_pair()
        b.qp.post_recv(ib.RecvWR(5, [ib.SGE(b.mr.addr, 64, b.mr.lkey ^ 0x5A5A00)]))
        assert fail(a, a.send_wr(16)).status == ib.WCStatus.REM_OP_ERR
        (got,) = poll_for(b.recv_cq, 1)
        assert got.wr_id == 5
        assert got.status in (ib.WCStatus.LOC_PROT_ERR, ib.WCStatus.LOC_QP_OP_ERR)


class TestReceives:
    def test_a_receive_that_is_too_short_fails_both_ends(self, ib: Any, rc_pair: Pair) -> None:
        a, b = rc_pair()
        before = b.buf.fill(3)
        b.post_recv(8, wr_id=5)
        b.post_recv(64, offset=4096, wr_id=6)
        wc = fail(a, a.send_wr(100))
        assert wc.status in (ib.WCStatus.REM_INV_REQ_ERR, ib.WCStatus.REM_OP_ERR)
        short, flushed = poll_for(b.recv_cq, 2)
        assert (short.wr_id, flushed.wr_id) == (5, 6)
        assert short.status in (ib.WCStatus.LOC_LEN_ERR, ib.WCStatus.LOC_QP_OP_ERR)
        assert flushed.status == ib.WCStatus.WR_FLUSH_ERR
        assert b.buf[8:] == before[8:]

    @pytest.mark.parametrize("retries", [0, 1])
    def test_no_receive_within_the_retries(self, ib: Any, rc_pair: Pair, retries: int) -> None:
        a, b = rc_pair(options={"rnr_retry": retries, "min_rnr_timer": 1})
        assert fail(a, a.send_wr()).status == ib.WCStatus.RNR_RETRY_EXC_ERR
        assert a.qp.state == ib.QPState.ERR and b.qp.state == ib.QPState.RTS
        expect_none(b.recv_cq, 0.01)

    def test_a_late_receive_is_found_by_a_retry(self, rc_pair: Pair) -> None:
        a, b = rc_pair(options={"rnr_retry": 7, "min_rnr_timer": 1, "timeout": 18})
        a.qp.post_send(a.send_wr(3))
        expect_none(a.send_cq, 0.02)
        b.post_recv()
        assert b.received()[0].byte_len == 3
        a.sent()


class TestRetries:
    FAST = {"timeout": 8, "retry_cnt": 1}

    def test_a_peer_that_is_gone(self, ib: Any, rc_pair: Pair) -> None:
        a, b = rc_pair(options=self.FAST)
        b.qp.close()
        assert fail(a, a.write_wr(b)).status == ib.WCStatus.RETRY_EXC_ERR
        assert a.qp.state == ib.QPState.ERR

    @pytest.mark.parametrize("state", ["RESET", "ERR"])
    def test_a_peer_that_does_not_answer(self, ib: Any, rc_pair: Pair, state: str) -> None:
        a, b = rc_pair(options=self.FAST)
        b.set_state(ib.QPState[state])
        assert fail(a, a.write_wr(b)).status == ib.WCStatus.RETRY_EXC_ERR

    def test_a_peer_that_expects_other_packet_numbers(self, ib: Any, rc_pair: Pair) -> None:
        a, b = rc_pair(connected=False)
        a.connect(b, psn=100, peer_psn=0, **self.FAST)
        b.connect(a, psn=0, peer_psn=0, **self.FAST)
        assert fail(a, a.write_wr(b)).status == ib.WCStatus.RETRY_EXC_ERR


class TestFlush:
    def test_what_follows_a_failed_request_is_flushed_in_order(self, ib: Any, rc_pair: Pair) -> None:
        a, b = rc_pair()
        for i in range(3):
            a.post_recv(wr_id=50 + i)
        bad = a.write_wr(b, rkey=b.mr.rkey ^ 0x5A5A00, wr_id=1)
        a.qp.post_send([bad] + [a.write_wr(b, wr_id=i, send_flags=0) for i in range(2, 7)])
        first, *rest = poll_for(a.send_cq, 6)
        assert (first.wr_id, first.status) == (1, ib.WCStatus.REM_ACCESS_ERR)
        assert [(wc.wr_id, wc.status) for wc in rest] == [(i, ib.WCStatus.WR_FLUSH_ERR) for i in range(2, 7)]
        got = poll_for(a.recv_cq, 3)
        assert [(wc.wr_id, wc.status) for wc in got] == [(50 + i, ib.WCStatus.WR_FLUSH_ERR) for i in range(3)]

    def test_what_went_before_it_succeeded(self, ib: Any, rc_pair: Pair) -> None:
        a, b = rc_pair()
        a.buf[0:4] = b"good"
        good, bad = a.write_wr(b, 4, wr_id=1), a.write_wr(b, rkey=b.mr.rkey ^ 0x5A5A00, wr_id=2)
        a.qp.post_send([good, bad])
        one, two = poll_for(a.send_cq, 2)
        assert one.is_success and two.status == ib.WCStatus.REM_ACCESS_ERR
        assert b.buf[0:4] == b"good"

    def test_moving_to_the_error_state_flushes_receives(self, ib: Any, rc_pair: Pair) -> None:
        a, b = rc_pair()
        for i in range(5):
            b.post_recv(wr_id=i)
        b.set_state(ib.QPState.ERR)
        got = poll_for(b.recv_cq, 5)
        assert [(wc.wr_id, wc.status) for wc in got] == [(i, ib.WCStatus.WR_FLUSH_ERR) for i in range(5)]

    def test_requests_posted_in_the_error_state_are_flushed(self, ib: Any, rc_pair: Pair) -> None:
        a, b = rc_pair()
        a.set_state(ib.QPState.ERR)
        a.qp.post_send([a.write_wr(b, wr_id=i) for i in range(3)])
        found = poll_for(a.send_cq, 3)
        assert [(wc.wr_id, wc.status) for wc in found] == [(i, ib.WCStatus.WR_FLUSH_ERR) for i in range(3)]
        assert not any(b.buf[:])

    def test_reset_forgets_what_was_posted(self, ib: Any, rc_pair: Pair) -> None:
        a, b = rc_pair()
        for i in range(3):
            b.post_recv(wr_id=i)
        b.set_state(ib.QPState.RESET)
        expect_none(b.recv_cq)


class TestCompletionError:
    @pytest.fixture
    def wc(self, ib: Any, rc: tuple[Endpoint, Endpoint]) -> Any:
        a, b = rc
        return fail(a, a.write_wr(b, rkey=b.mr.rkey ^ 0x5A5A00))

    def test_it_carries_the_completion(self, ib: Any, wc: Any) -> None:
        with pytest.raises(ib.CompletionError) as caught:
            wc.raise_for_status()
        error = caught.value
        assert error.wc is wc
        assert (error.status, error.vendor_err) == (wc.status, wc.vendor_err)
        assert error.errno == errno.EIO
        assert isinstance(error, ib.VerbsError) and isinstance(error, OSError)

    def test_it_says_what_happened_in_words(self, ib: Any, wc: Any) -> None:
        assert wc.status_str
        with pytest.raises(ib.CompletionError, match=wc.status_str):
            wc.raise_for_status()

    def test_it_pickles_and_copies(self, ib: Any, wc: Any) -> None:
        error = ib.CompletionError(wc)
        for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert type(other) is ib.CompletionError
            assert (other.status, other.wc.wr_id, str(other)) == (error.status, wc.wr_id, str(error))

    def test_success_raises_nothing(self, ib: Any, rc_pair: Pair) -> None:
        a, b = rc_pair()
        (wc,) = a.do(a.write_wr(b))
        assert wc.is_success and wc.status == ib.WCStatus.SUCCESS
        assert wc.raise_for_status() is None
