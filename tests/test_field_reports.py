# SPDX-License-Identifier: BSD-3-Clause
"""What programs in the field ran into, and what they get here instead: each on a device that is made to fail so."""

from __future__ import annotations

import errno
from typing import Any, Callable

import pytest
from endpoints import Endpoint, Make, connect, expect_none, poll_for
from place import Node, seconds

pytestmark = [pytest.mark.needs("rc"), pytest.mark.only("ibverbs")]

CQ_ERR, PORT_ERR, PORT_ACTIVE = 0, 10, 9
WR_FLUSH, RETRY_EXC = 5, 12

#: Every asynchronous event, and what it is about.
EVENTS = {
    "CQ_ERR": "cq", "QP_FATAL": "qp", "QP_REQ_ERR": "qp", "QP_ACCESS_ERR": "qp", "COMM_EST": "qp", "SQ_DRAINED": "qp",
    "PATH_MIG": "qp", "PATH_MIG_ERR": "qp", "DEVICE_FATAL": None, "PORT_ACTIVE": "port_num", "PORT_ERR": "port_num",
    "LID_CHANGE": "port_num", "PKEY_CHANGE": "port_num", "SM_CHANGE": "port_num", "SRQ_ERR": "srq",
    "SRQ_LIMIT_REACHED": "srq", "QP_LAST_WQE_REACHED": "qp", "CLIENT_REREGISTER": "port_num", "GID_CHANGE": "port_num",
}  # fmt: skip


def next_event(ctx: Any) -> Any:
    event = ctx.get_async_event(timeout=seconds(3))
    assert event is not None
    return event


@pytest.mark.needs("srq")
@pytest.mark.parametrize("name", EVENTS)
def test_an_event_carries_what_it_is_about_and_nothing_else(
    ib: Any, make: Make, softrdma_faults: Any, name: str
) -> None:
    end = make(with_srq=True)
    softrdma_faults.add("event", type=name)
    events = [next_event(end.ctx)]
    if EVENTS[name] == "cq":
        events.append(next_event(end.ctx))  # an endpoint has two
        assert {event.cq for event in events} == {end.send_cq, end.recv_cq}
    for event in events:
        assert event.event_type == getattr(ib.EventType, name)
        about = {what for what in ("cq", "qp", "srq", "port_num") if getattr(event, what) is not None}
        assert about == ({EVENTS[name]} if EVENTS[name] else set())
    if EVENTS[name] in ("qp", "srq"):
        assert getattr(events[0], str(EVENTS[name])) is getattr(end, str(EVENTS[name]))
    if EVENTS[name] == "port_num":
        assert events[0].port_num == 1


def test_everything_on_a_queue_that_overran_is_told(make: Make, softrdma_faults: Any) -> None:
    """As hardware has it: both queue pairs die, and both say so."""
    a, b = make(), make()
    with a.pd.create_qp(a.init_attr) as second:
        connect(a, b)
        softrdma_faults.add("overrun", qp=a.qp.qp_num)
        a.qp.post_send(a.write_wr(b))
        first = next_event(a.ctx)
        assert first.event_type == CQ_ERR and first.cq is a.send_cq
        died = [next_event(a.ctx), next_event(a.ctx)]
        assert {event.qp for event in died} == {a.qp, second}


@pytest.mark.parametrize("status", ["REM_ACCESS_ERR", "RNR_RETRY_EXC_ERR", "RETRY_EXC_ERR", "LOC_PROT_ERR"])
def test_the_first_error_is_at_hand_behind_any_number_of_flushes(
    ib: Any, make: Make, softrdma_faults: Any, status: str
) -> None:
    a, b = make(), make()
    connect(a, b)
    softrdma_faults.fail_request(status, nth=3, vendor_err=42)
    a.qp.post_send([a.write_wr(b, wr_id=i) for i in range(16)])
    found = poll_for(a.send_cq, 16)
    assert [wc.status for wc in found[3:]] == [WR_FLUSH] * 13
    first = a.qp.first_error
    assert first is not None
    assert (first.status, first.wr_id, first.vendor_err) == (getattr(ib.WCStatus, status), 2, 42)
    with pytest.raises(ib.CompletionError) as caught:
        found[-1].raise_for_status()
    assert caught.value.first_error is first


#: Verbs of each of libibverbs' ways to say that they failed, with the errno that the kernel gave.
Do = Callable[[Any, Endpoint, Endpoint], Any]
DIALECTS: dict[str, tuple[str, Do]] = {
    "reg_mr, a null pointer": ("reg_mr", lambda ib, a, b: a.pd.reg_mr(a.buf.addr, 16, 1)),
    "alloc_pd, a null pointer": ("alloc_pd", lambda ib, a, b: a.ctx.alloc_pd()),
    "create_comp_channel, a null pointer": ("create_comp_channel", lambda ib, a, b: a.ctx.create_comp_channel()),
    "modify_qp, the number": ("modify_qp", lambda ib, a, b: a.qp.modify(ib.QPAttrMask.STATE, qp_state=6)),
    "query_qp, the number": ("query_qp", lambda ib, a, b: a.qp.query()),
    "query_port, the number": ("query_port", lambda ib, a, b: a.ctx.query_port(1)),
    "query_device, the number": ("query_device", lambda ib, a, b: a.ctx.query_device()),
    "req_notify_cq, the number": ("req_notify_cq", lambda ib, a, b: a.send_cq.req_notify()),
    "post_send, the number": ("post_send", lambda ib, a, b: a.qp.post_send(a.write_wr(b))),
    "query_gid, minus one": ("query_gid", lambda ib, a, b: a.ctx.query_gid(1, 1)),
    "dereg_mr, the number": ("dereg_mr", lambda ib, a, b: a.mr.close()),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOMEM, errno.ENOSPC])
def test_whatever_a_verb_returns_it_is_the_kernel_s_errno(
    ib: Any, make: Make, softrdma_faults: Any, dialect: str, number: int
) -> None:
    call, do = DIALECTS[dialect]
    a, b = make(with_channel=True), make()
    connect(a, b)
    rule = softrdma_faults.fail_call(call, number)
    with pytest.raises(ib.VerbsError) as caught:
        do(ib, a, b)
    assert softrdma_faults.fired(rule) == 1
    assert caught.value.errno == number and caught.value.strerror
    assert caught.value.operation.startswith("ibv_")


def test_a_link_that_flaps_during_traffic_is_survived_by_reset_and_reconnect(
    ib: Any, make: Make, node: Node, softrdma_faults: Any
) -> None:
    a, b = make(), make()
    connect(a, b, timeout=8, retry_cnt=1)
    softrdma_faults.add("link", state="down", device=node.name, op="rdma_write", nth=10, for_=0.3)
    a.qp.post_send([a.write_wr(b, wr_id=i) for i in range(32)])
    found = poll_for(a.send_cq, 32)
    assert [wc.is_success for wc in found[:9]] == [True] * 9
    assert found[9].status == RETRY_EXC and {wc.status for wc in found[10:]} == {WR_FLUSH}
    assert next_event(a.ctx).event_type == PORT_ERR
    assert next_event(a.ctx).event_type == PORT_ACTIVE
    for end in (a, b):
        end.set_state(ib.QPState.RESET)
    connect(a, b)
    a.buf[0:4] = b"back"
    a.do(a.write_wr(b, 4))
    assert b.buf[0:4] == b"back"
    expect_none(a.send_cq)
