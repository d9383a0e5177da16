# SPDX-License-Identifier: BSD-3-Clause
"""Faults that the software host's EFA device shows on demand, as a program meets them."""

from __future__ import annotations

import errno
import time
from typing import Any

import pytest
from endpoints import UD, Make, connect, expect_none, poll_for
from own_process import own_process
from place import seconds

pytestmark = [pytest.mark.needs("efa"), pytest.mark.only("efa")]

CQ_ERR, QP_FATAL, DEVICE_FATAL, PORT_ACTIVE, PORT_ERR = 0, 1, 8, 9, 10
WR_FLUSH, REM_ACCESS, REM_OP, RNR_RETRY_EXC, RESP_TIMEOUT, GENERAL = 5, 10, 11, 13, 20, 21
ERR = 6


@pytest.fixture
def pair(make: Make, softrdma_faults: Any) -> tuple[Any, Any]:
    """Two ends that know each other."""
    a, b = make(), make()
    connect(a, b)
    return a, b


def unresponsive(ib: Any) -> int:
    """What libefa calls a peer that did not answer: its own name for that came with rdma-core 40."""
    release = ib.capabilities().release
    return RESP_TIMEOUT if release is None or release >= 40 else GENERAL


def next_event(ctx: Any) -> Any:
    event = ctx.get_async_event(timeout=seconds(3))
    assert event is not None
    return event


def fail(end: Any, wr: Any) -> Any:
    end.qp.post_send(wr)
    return poll_for(end.send_cq, 1)[0]


def test_a_request_fails_and_the_queue_pair_goes_on(pair: Any, softrdma_faults: Any) -> None:
    a, b = pair
    softrdma_faults.fail_request("RNR_RETRY_EXC", op="rdma_read", qp=a.qp.qp_num, nth=2)
    a.do(a.read_wr(b))
    wc = fail(a, a.read_wr(b))
    assert (wc.status, wc.vendor_err) == (RNR_RETRY_EXC, 10)
    a.do(a.read_wr(b))


@pytest.mark.parametrize(
    ("number", "status"), [(13, unresponsive), *((n, lambda ib: GENERAL) for n in (100, 101, 102, 200, 255))]
)
def test_the_device_s_own_status_is_what_the_provider_translates(
    ib: Any, pair: Any, softrdma_faults: Any, number: int, status: Any
) -> None:
    a, b = pair
    softrdma_faults.fail_request("GENERAL", vendor_err=number)
    wc = fail(a, a.read_wr(b))
    assert (wc.status, wc.vendor_err) == (status(ib), number)


def test_a_status_that_the_device_has_no_room_for_is_its_largest(pair: Any, softrdma_faults: Any) -> None:
    a, b = pair
    softrdma_faults.fail_request("GENERAL", vendor_err=256)
    wc = fail(a, a.read_wr(b))
    assert (wc.status, wc.vendor_err) == (GENERAL, 255)


def test_a_receive_fails(pair: Any, softrdma_faults: Any) -> None:
    a, b = pair
    softrdma_faults.fail_request("LOC_LEN", op="recv")
    b.post_recv()
    assert fail(a, a.send_wr()).vendor_err == 12
    assert poll_for(b.recv_cq, 1)[0].vendor_err == 6


@pytest.mark.parametrize("side", ["sender", "receiver"])
@pytest.mark.parametrize("what", ["message", "answer"])
def test_what_is_lost_is_sent_again_and_carried_out_once(
    pair: Any, softrdma_faults: Any, what: str, side: str
) -> None:
    a, b = pair
    b.post_recv()
    rule = softrdma_faults.add("drop", what=what, side=side)[0]
    a.do(a.send_wr())
    b.received()
    expect_none(b.recv_cq)
    assert softrdma_faults.fired(rule) == 1


def test_a_peer_that_never_answers_is_unresponsive(ib: Any, pair: Any, softrdma_faults: Any) -> None:
    a, b = pair
    a.do(a.read_wr(b))
    softrdma_faults.add("drop", times=0)
    wc = fail(a, a.read_wr(b))
    assert (wc.status, wc.vendor_err) == (unresponsive(ib), 13)


def test_a_late_message_is_overtaken(pair: Any, softrdma_faults: Any) -> None:
    a, b = pair
    b.post_recv()
    b.post_recv()
    softrdma_faults.add("delay", ms=20)
    start = time.monotonic()
    a.qp.post_send([a.send_wr(3, wr_id=1), a.send_wr(5, wr_id=2)])
    assert [wc.wr_id for wc in a.sent(2)] == [2, 1]
    assert [wc.byte_len for wc in b.received(2)] == [5, 3]
    assert time.monotonic() - start >= 0.02


def test_wrong_order_is_nothing_but_that(pair: Any, softrdma_faults: Any) -> None:
    a, b = pair
    for i in range(8):
        b.post_recv(64, offset=64 * i, wr_id=i)
    softrdma_faults.add("reorder", nth=2)
    a.qp.post_send([a.send_wr(1 + i, wr_id=i) for i in range(8)])
    a.sent(8)
    assert [wc.byte_len for wc in b.received(8)] == [1, 3, 4, 5, 6, 7, 8, 2]


def test_a_receiver_is_not_ready_for_a_while(make: Make, softrdma_faults: Any) -> None:
    a, b = make(), make()
    connect(a, b, rnr_retry=7)
    b.post_recv()
    rule = softrdma_faults.add("rnr", times=2)[0]
    a.do(a.send_wr())
    b.received()
    assert softrdma_faults.fired(rule) == 2


def test_datagrams_are_lost_and_doubled(make: Make, softrdma_faults: Any) -> None:
    a, b = make(UD), make(UD)
    connect(a, b)
    for i in range(8):
        b.post_recv(256, offset=256 * i, wr_id=i)
    softrdma_faults.add("drop")
    a.qp.post_send([a.send_wr(1), a.send_wr(2)])
    a.sent(2)
    assert [wc.byte_len - 40 for wc in b.received(1)] == [2]
    softrdma_faults.add("duplicate")
    a.do(a.send_wr(3))
    assert [wc.byte_len - 40 for wc in b.received(2)] == [3, 3]
    expect_none(b.recv_cq)


def test_an_overrun_kills_the_queue_and_everything_on_it(pair: Any, softrdma_faults: Any) -> None:
    a, b = pair
    softrdma_faults.add("overrun", qp=a.qp.qp_num)
    a.qp.post_send(a.read_wr(b))
    event = next_event(a.ctx)
    assert event.event_type == CQ_ERR and event.cq is a.send_cq
    event = next_event(a.ctx)
    assert event.event_type == QP_FATAL and event.qp is a.qp and a.qp.state == ERR
    expect_none(a.send_cq)


def test_a_queue_pair_breaks(pair: Any, softrdma_faults: Any) -> None:
    a, b = pair
    b.post_recv(wr_id=5)
    softrdma_faults.add("qp_error", qp=b.qp.qp_num)
    assert next_event(b.ctx).qp is b.qp
    (wc,) = poll_for(b.recv_cq, 1)
    assert (wc.wr_id, wc.status) == (5, WR_FLUSH)


def test_a_link_goes_down_and_comes_up(pair: Any, softrdma_faults: Any) -> None:
    a, b = pair
    softrdma_faults.link_down(for_=0.05)
    assert a.ctx.query_port(1).state == 1
    assert next_event(a.ctx).event_type == PORT_ERR
    a.do(a.read_wr(b))  # tried until the link is there again
    assert next_event(a.ctx).event_type == PORT_ACTIVE


@pytest.mark.parametrize("call", ["create_ah", "create_cq", "create_qp", "reg_mr"])
def test_a_call_fails(ib: Any, make: Make, softrdma_faults: Any, call: str) -> None:
    softrdma_faults.fail_call(call, "ENOMEM", nth=1)
    with pytest.raises(ib.EfaError) as caught:
        a, b = make(), make()
        connect(a, b)
    assert caught.value.errno == errno.ENOMEM
    a, b = make(), make()
    connect(a, b)


def test_a_device_that_breaks_says_so_and_answers_eio(ib: Any, pair: Any, softrdma_faults: Any) -> None:
    a, b = pair
    b.post_recv(wr_id=9)
    softrdma_faults.add("fatal")
    assert next_event(a.ctx).event_type == DEVICE_FATAL
    assert poll_for(b.recv_cq, 1)[0].status == WR_FLUSH
    with pytest.raises(ib.EfaError) as caught:
        a.ctx.query_port(1)
    assert caught.value.errno == errno.EIO


@own_process
def test_a_device_that_is_pulled_out_is_gone_and_back(ib: Any, pair: Any, softrdma_faults: Any) -> None:
    a, b = pair
    names = [device.name for device in ib.get_efa_device_list()]
    softrdma_faults.add("remove", device=names[0], for_=0.1)
    assert names[0] not in [device.name for device in ib.get_device_list()]
    assert next_event(a.ctx).event_type == DEVICE_FATAL
    deadline = time.monotonic() + seconds(3)
    while names[0] not in [device.name for device in ib.get_device_list()]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
