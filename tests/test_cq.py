# SPDX-License-Identifier: BSD-3-Clause
"""Completion queues: capacity, polling, and what happens when one overruns."""

from __future__ import annotations

import errno
import time
from typing import Any

import pytest
from endpoints import Endpoint, Make, connect, expect_none, poll_for
from packages import error_of
from place import seconds

pytestmark = pytest.mark.needs("device")

CQ_ERR, QP_FATAL = 0, 1


@pytest.mark.parametrize("asked", [1, 10, 64, 100, 512])
def test_capacity_is_at_least_what_was_asked_for(ctx: Any, asked: int) -> None:
    with ctx.create_cq(asked) as cq:
        assert cq.cqe >= asked
        assert cq.context is ctx and cq.channel is None


def test_capacity_over_the_limit_names_the_limit(ib: Any, ctx: Any) -> None:
    limit = ctx.query_device().max_cqe
    with ctx.create_cq(limit) as cq:
        assert cq.cqe >= limit
    with pytest.raises(error_of(ib)) as caught:
        ctx.create_cq(limit + 1)
    assert caught.value.errno == errno.EINVAL
    assert caught.value.operation == "ibv_create_cq"
    assert f"{limit + 1}" in str(caught.value) and f"{limit}" in str(caught.value)


@pytest.mark.parametrize("cqe", [0, -1])
def test_a_queue_without_room_is_refused(ib: Any, ctx: Any, cqe: int) -> None:
    with pytest.raises((error_of(ib), ValueError)):
        ctx.create_cq(cqe)


def test_a_vector_that_is_not_there_is_einval(ib: Any, ctx: Any) -> None:
    with pytest.raises(error_of(ib)) as caught:
        ctx.create_cq(4, None, ctx.num_comp_vectors)
    assert caught.value.errno == errno.EINVAL


def test_parameters_can_be_given_by_keyword(ctx: Any) -> None:
    with ctx.create_comp_channel() as channel, ctx.create_cq(cqe=4, channel=channel, comp_vector=0) as cq:
        assert cq.channel is channel
        assert cq.poll(num_entries=1) == []


def test_an_empty_queue_polls_to_an_empty_list(ctx: Any) -> None:
    with ctx.create_cq(16) as cq:
        assert cq.poll(1) == cq.poll(16) == cq.poll(1000) == []


@pytest.mark.parametrize("count", [0, -1])
def test_polling_for_less_than_one_is_a_value_error(ctx: Any, count: int) -> None:
    with ctx.create_cq(16) as cq, pytest.raises(ValueError):
        cq.poll(count)


def test_a_closed_queue_raises_ebadf(ib: Any, ctx: Any) -> None:
    cq = ctx.create_cq(16)
    cq.close()
    for call in (lambda: cq.poll(1), cq.req_notify, lambda: cq.cqe):
        with pytest.raises(error_of(ib)) as caught:
            call()
        assert caught.value.errno == errno.EBADF
    assert cq.context is ctx


@pytest.mark.needs("pair")
def test_close_is_refused_while_a_queue_pair_uses_it(ib: Any, make: Make) -> None:
    end = make()
    with pytest.raises(error_of(ib)) as caught:
        end.send_cq.close()
    assert caught.value.errno == errno.EBUSY
    assert "1 QP" in str(caught.value)


@pytest.mark.needs("writes")
class TestPolling:
    @pytest.fixture
    def done(self, pair: tuple[Endpoint, Endpoint]) -> Any:
        """A send queue's CQ with eight completions in it."""
        a, b = pair
        b.post_recv()
        a.qp.post_send([a.write_wr(b, wr_id=i) for i in range(7)])
        a.qp.post_send(a.send_wr(wr_id=7))
        b.received()  # so the writes before it are done; the eighth completion comes at about the same time
        time.sleep(0.03)
        return a.send_cq

    def test_gives_at_most_what_was_asked_for_in_order(self, done: Any) -> None:
        first = done.poll(3)
        assert [wc.wr_id for wc in first] == [0, 1, 2]
        assert [wc.wr_id for wc in done.poll(4)] == [3, 4, 5, 6]

    def test_gives_what_there_is(self, done: Any) -> None:
        assert len(done.poll(100)) == 8
        assert done.poll(100) == []

    def test_each_completion_is_an_object_of_its_own(self, ib: Any, done: Any) -> None:
        found = done.poll(8)
        assert len({id(wc) for wc in found}) == 8
        assert all(type(wc) is ib.WC and wc.is_success for wc in found)


@pytest.mark.only("ibverbs")
@pytest.mark.needs("rc")
def test_one_queue_serves_both_directions(ib: Any, make: Make) -> None:
    end = make()
    with end.pd.create_qp(ib.QPInitAttr(end.send_cq, end.send_cq, sq_sig_all=True)) as qp:
        info = ib.local_qp_info(qp, end.ctx.query_port(1), end.node.gid, port=1)
        ib.connect_rc(qp, info, port=1, sgid_index=end.node.gid_index, access=0)
        qp.post_recv(end.recv_wr(wr_id=2))
        qp.post_send(end.send_wr(wr_id=1, offset=100))
        got = poll_for(end.send_cq, 2)
        assert {wc.wr_id: wc.opcode for wc in got} == {1: ib.WCOpcode.SEND, 2: ib.WCOpcode.RECV}


@pytest.mark.only("ibverbs")
@pytest.mark.needs("rc")
def test_overrun_of_a_send_queue_is_an_event_that_names_the_queue(ib: Any, make: Make) -> None:
    a, b = make(cqe=1, depth=16), make()
    connect(a, b)
    room = a.send_cq.cqe
    for i in range(room + 2):
        a.qp.post_send(a.write_wr(b, wr_id=i))
    event = a.ctx.get_async_event(timeout=seconds(5))
    assert event is not None and event.event_type == CQ_ERR
    assert event.cq is a.send_cq and event.qp is None and event.srq is None and event.port_num is None
    a.ctx.ack_async_event(event)
    assert [wc.wr_id for wc in a.send_cq.poll(room)] == list(range(room))


@pytest.mark.only("ibverbs")
@pytest.mark.needs("rc")
def test_overrun_of_a_receive_queue_kills_the_queue_pair(ib: Any, make: Make) -> None:
    a, b = make(), make(cqe=1, depth=16)
    connect(a, b, retry_cnt=1, timeout=10)
    room = b.recv_cq.cqe
    for i in range(room + 2):
        b.post_recv(wr_id=i)
    for i in range(room + 1):
        a.qp.post_send(a.send_wr(wr_id=i))
    event = b.ctx.get_async_event(timeout=seconds(5))
    while event is not None and event.event_type == QP_FATAL:
        event = b.ctx.get_async_event(timeout=seconds(5))
    assert event is not None and event.event_type == CQ_ERR
    assert event.cq is b.recv_cq
    found = poll_for(a.send_cq, room + 1, timeout=5)
    assert not found[-1].is_success
    assert b.qp.state == ib.QPState.ERR


@pytest.mark.needs("writes")
def test_nothing_is_left_after_what_was_polled(pair: tuple[Endpoint, Endpoint]) -> None:
    a, b = pair
    a.do(a.write_wr(b))
    expect_none(a.send_cq)
    expect_none(b.recv_cq)
