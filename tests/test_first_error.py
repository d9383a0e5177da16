# SPDX-License-Identifier: BSD-3-Clause
"""The completion that broke a queue pair stays with it, and goes with every request that was flushed for it."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any, Callable

import pytest
from endpoints import Endpoint, Make, Pair, connect, poll_for
from stub_fixtures import Rig

SUCCESS, LOC_LEN_ERR, FLUSHED, REM_ACCESS_ERR = 0, 1, 5, 10


class TestOnADevice:
    pytestmark = [pytest.mark.needs("rc"), pytest.mark.only("ibverbs")]  # noqa: RUF012

    @pytest.fixture
    def broken(self, rc_pair: Pair) -> tuple[Endpoint, Endpoint]:
        """A pair whose first end has written with a wrong key, with two requests behind and two receives."""
        a, b = rc_pair()
        for i in range(2):
            a.post_recv(wr_id=50 + i)
        bad = a.write_wr(b, rkey=b.mr.rkey ^ 0x5A5A00, wr_id=1)
        a.qp.post_send([bad, a.write_wr(b, wr_id=2), a.write_wr(b, wr_id=3)])
        return a, b

    def test_flushed_requests_carry_the_completion_that_has_the_cause(
        self, ib: Any, broken: tuple[Endpoint, Endpoint]
    ) -> None:
        a, _ = broken
        first, *flushed = poll_for(a.send_cq, 3)
        assert first.status == ib.WCStatus.REM_ACCESS_ERR and first.first_error is None
        assert [wc.status for wc in flushed] == [ib.WCStatus.WR_FLUSH_ERR] * 2
        assert all(wc.first_error is first for wc in flushed)
        assert a.qp.first_error is first

    def test_so_do_flushed_receives_of_another_queue(self, broken: tuple[Endpoint, Endpoint]) -> None:
        a, _ = broken
        first = poll_for(a.send_cq, 3)[0]
        assert all(wc.first_error is first for wc in poll_for(a.recv_cq, 2))

    def test_the_error_of_a_flushed_request_names_both(self, ib: Any, broken: tuple[Endpoint, Endpoint]) -> None:
        a, _ = broken
        first, flushed = poll_for(a.send_cq, 3)[:2]
        with pytest.raises(ib.CompletionError) as caught:
            flushed.raise_for_status()
        error = caught.value
        assert error.first_error is first and error.status == ib.WCStatus.WR_FLUSH_ERR
        assert flushed.status_str in str(error) and first.status_str in str(error)
        assert f"wr_id={first.wr_id}," in str(error).partition("first error")[2]

    def test_a_queue_pair_that_works_has_none(self, rc_pair: Pair) -> None:
        a, b = rc_pair()
        (wc,) = a.do(a.write_wr(b))
        assert wc.first_error is None and a.qp.first_error is None

    def test_a_move_to_the_error_state_is_no_error_of_a_request(self, ib: Any, rc_pair: Pair) -> None:
        a, b = rc_pair()
        b.post_recv()
        b.set_state(ib.QPState.ERR)
        (wc,) = poll_for(b.recv_cq, 1)
        assert wc.status == ib.WCStatus.WR_FLUSH_ERR and wc.first_error is None and b.qp.first_error is None

    def test_reset_forgets_it_and_the_next_failure_is_a_first_one_again(
        self, ib: Any, broken: tuple[Endpoint, Endpoint]
    ) -> None:
        a, b = broken
        old = poll_for(a.send_cq, 3)[0]
        poll_for(a.recv_cq, 2)
        for end in (a, b):
            end.set_state(ib.QPState.RESET)
        assert a.qp.first_error is None
        connect(a, b)
        a.qp.post_send([a.read_wr(b, rkey=b.mr.rkey ^ 0x5A5A00, wr_id=8), a.write_wr(b, wr_id=9)])
        first, flushed = poll_for(a.send_cq, 2)
        assert first.wr_id == 8 and flushed.first_error is first is not old

    def test_it_stays_readable_when_the_queue_pair_is_closed(self, broken: tuple[Endpoint, Endpoint]) -> None:
        a, _ = broken
        first = poll_for(a.send_cq, 3)[0]
        a.qp.close()
        assert a.qp.first_error is first


class TestOnTheStub:
    def test_only_the_first_stays(self, rig: Rig) -> None:
        qp = rig.qp()
        for wr_id, status in enumerate((LOC_LEN_ERR, REM_ACCESS_ERR, FLUSHED)):
            rig.stub.push_wc(rig.cq, wr_id=wr_id, status=status, qp_num=qp.qp_num)
        one, two, flushed = rig.drain()
        assert qp.first_error is one is flushed.first_error
        assert two.first_error is None

    def test_a_flush_before_any_cause_was_polled_has_none(self, rig: Rig) -> None:
        qp = rig.qp()
        for status in (FLUSHED, REM_ACCESS_ERR, FLUSHED):
            rig.stub.push_wc(rig.cq, status=status, qp_num=qp.qp_num)
        early, first, late = rig.drain()
        assert (early.first_error, late.first_error) == (None, first)

    def test_what_is_polled_late_is_no_error_of_the_life_after_a_reset(self, rig: Rig) -> None:
        reset, init, rtr, rts = range(4)
        qp = rig.qp(state=init)
        rig.stub.set_lenient()

        def poll_an_error() -> Any:
            rig.stub.push_wc(rig.cq, status=REM_ACCESS_ERR, qp_num=qp.qp_num)
            return rig.drain()[0]

        qp.modify(1, qp_state=rtr)
        assert poll_an_error() is qp.first_error
        for state in (reset, init, rtr):
            qp.modify(1, qp_state=state)
            assert qp.first_error is None
            if state != rtr:
                poll_an_error()
        qp.modify(1, qp_state=rts)
        assert poll_an_error() is qp.first_error

    def test_each_queue_pair_has_its_own(self, rig: Rig) -> None:
        one, two = rig.qp(), rig.qp()
        for qp, wr_id in ((one, 1), (two, 2)):
            rig.stub.push_wc(rig.cq, wr_id=wr_id, status=REM_ACCESS_ERR, qp_num=qp.qp_num)
        for qp in (two, one):
            rig.stub.push_wc(rig.cq, status=FLUSHED, qp_num=qp.qp_num)
        assert [wc.first_error.wr_id for wc in rig.drain()[2:]] == [2, 1]

    def test_a_number_that_no_queue_pair_here_has_is_no_harm(self, rig: Rig) -> None:
        for status in (REM_ACCESS_ERR, FLUSHED):
            rig.stub.push_wc(rig.cq, status=status, qp_num=0xABCDEF)
        assert [wc.first_error for wc in rig.drain()] == [None, None]

    def test_completions_and_queue_pairs_go_in_any_order(self, rig: Rig) -> None:
        qp = rig.make_qp()
        for status in (REM_ACCESS_ERR, FLUSHED):
            rig.stub.push_wc(rig.cq, wr_id=7, status=status, qp_num=qp.qp_num)
        first, flushed = rig.drain()
        del first
        qp.close()
        del qp
        gc.collect()
        assert flushed.first_error.wr_id == 7


@pytest.mark.only("efa")
class TestExtendedQueues:
    def test_flushed_requests_carry_the_first_error_there_too(self, rig: Rig) -> None:
        cq = rig.keep(rig.ctx.create_cq_ex(16))
        qp = rig.qp(send_cq=cq, recv_cq=cq)
        for wr_id, status in enumerate((REM_ACCESS_ERR, FLUSHED, FLUSHED)):
            rig.stub.push_wc_ex(cq, wr_id=wr_id, status=status, qp_num=qp.qp_num)
        first, *flushed = rig.drain(cq)
        assert [wc.first_error for wc in flushed] == [first, first] and qp.first_error is first
        assert first.status_str in str(rig.ib.CompletionError(flushed[0]))

    @pytest.mark.needs("rdma_read")
    @pytest.mark.parametrize("extended", [None, pytest.param({}, marks=pytest.mark.needs("cq_ex"))])
    def test_on_a_device(self, ib: Any, make: Make, extended: Any) -> None:
        """A failed read does not break a queue pair of EFA; what is flushed later still tells of it."""
        a, b = make(extended=extended), make()
        connect(a, b)
        for i in range(2):
            a.post_recv(wr_id=50 + i)
        a.qp.post_send(a.read_wr(b, rkey=b.mr.rkey ^ 0x5A5A00))
        (first,) = poll_for(a.send_cq, 1)
        assert not first.is_success and first.first_error is None
        a.set_state(ib.QPState.ERR)
        flushed = poll_for(a.recv_cq, 2)
        assert all(wc.status == FLUSHED and wc.first_error is first for wc in flushed)


class TestValue:
    @pytest.fixture
    def flushed(self, ib: Any) -> Any:
        cause = ib.WC(wr_id=1, status=REM_ACCESS_ERR, qp_num=5, vendor_err=9)
        return ib.WC(wr_id=2, status=FLUSHED, qp_num=5, first_error=cause)

    def test_it_pickles_and_copies(self, ib: Any, flushed: Any) -> None:
        for other in (pickle.loads(pickle.dumps(flushed)), copy.copy(flushed), copy.deepcopy(flushed)):
            assert other == flushed and other.first_error == flushed.first_error
            assert str(ib.CompletionError(other)) == str(ib.CompletionError(flushed))

    def test_the_error_that_it_raises_pickles_with_it(self, ib: Any, flushed: Any) -> None:
        error = pickle.loads(pickle.dumps(ib.CompletionError(flushed)))
        assert error.first_error == flushed.first_error and "wr_id=1" in str(error)

    def test_it_has_no_part_in_comparison_and_shows_in_repr(self, ib: Any, flushed: Any) -> None:
        plain = ib.WC(wr_id=2, status=FLUSHED, qp_num=5)
        assert plain == flushed and hash(plain) == hash(flushed)
        assert repr(flushed) == repr(plain)[:-1] + f", first_error={flushed.first_error!r})"
        assert eval(repr(flushed), {"WC": ib.WC}).first_error == flushed.first_error

    def test_it_does_not_chain_and_is_a_failure(self, ib: Any, flushed: Any) -> None:
        cause = flushed.first_error
        refused: list[Callable[[], Any]] = [
            lambda: ib.WC(status=FLUSHED, first_error=flushed),
            lambda: ib.WC(status=FLUSHED, first_error=ib.WC()),
            lambda: ib.WC(first_error=cause),
        ]
        for bad in refused:
            with pytest.raises(ValueError, match="first_error"):
                bad()
        for wrong in (1, "x", object()):
            with pytest.raises(TypeError, match="first_error"):
                ib.WC(status=FLUSHED, first_error=wrong)

    @pytest.mark.only("ibverbs")
    def test_by_position_it_comes_after_the_fields(self, ib: Any, flushed: Any) -> None:
        cause = flushed.first_error
        values = [0, FLUSHED, *[0] * 11]
        assert ib.WC(*values, cause).first_error is cause
        with pytest.raises(TypeError, match="twice"):
            ib.WC(*values, cause, first_error=cause)
        with pytest.raises(TypeError):
            ib.WC(*values, cause, cause)
