# SPDX-License-Identifier: BSD-3-Clause
"""Asynchronous events: what happened, and the object or port that it happened to."""

from __future__ import annotations

import errno
import importlib
import os
import select
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from endpoints import Endpoint, Make, connect, poll_for
from place import Node, Place, seconds

pytestmark = [pytest.mark.needs("device"), pytest.mark.only("ibverbs")]

QP_ACCESS_ERR, SQ_DRAINED, PORT_ACTIVE, PORT_ERR, SRQ_LIMIT_REACHED, LAST_WQE_REACHED = 3, 5, 9, 10, 15, 16


def wait_for(ctx: Any, event_type: int, timeout: float = 3.0) -> Any | None:
    """The next event of that type; others (a GID change with a link flap, say) are passed over."""
    deadline = time.monotonic() + seconds(timeout)
    while True:
        event = ctx.get_async_event(timeout=max(0.0, deadline - time.monotonic()))
        if event is None or event.event_type == event_type:
            return event
        ctx.ack_async_event(event)


class Link:
    """The network link under a device. Taking it down forgets routes, so they are kept and put back."""

    def __init__(self, netdev: str) -> None:
        self.netdev = netdev
        self.routes: list[list[str]] = []
        self.is_down = False

    def _ip(self, *words: str) -> str:
        # not under a sanitizer that watches us: it stops ip(8) for an overlapping strncpy
        env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        return subprocess.run(["ip", *words], stdout=subprocess.PIPE, text=True, check=True, env=env).stdout

    def down(self) -> None:
        lines = self._ip("-4", "-o", "route", "show", "table", "all", "dev", self.netdev).splitlines()
        self.routes = [line.split() for line in lines if " proto kernel" not in f" {line}"]
        self._ip("link", "set", self.netdev, "down")
        self.is_down = True

    def up(self) -> None:
        self._ip("link", "set", self.netdev, "up")
        for route in self.routes:
            self._ip("route", "replace", *(w for w in route if w != "linkdown"), "dev", self.netdev)
        self.is_down = False


class HostLink:
    """The same of softrdma's own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.faults = importlib.import_module("softrdma.faults").here()
        self.is_down = False

    def down(self) -> None:
        self.faults.link_down(self.name)
        self.is_down = True

    def up(self) -> None:
        self.faults.link_up(self.name)
        self.is_down = False


@pytest.fixture
def link(place: Place, node: Node) -> Iterator[Link | HostLink]:
    """The first device's link, up again at the end and its port active."""
    link = HostLink(node.name) if place.emulated else Link(node.netdev)
    yield link
    if link.is_down:
        link.up()
    with node.open() as ctx:
        deadline = time.monotonic() + seconds(3)
        while ctx.query_port(node.port).state != 4 and time.monotonic() < deadline:
            time.sleep(0.01)


@pytest.mark.needs("link_control")
class TestLink:
    def test_down_and_up_are_events_of_that_port(self, ib: Any, ctx: Any, node: Node, link: Link | HostLink) -> None:
        link.down()
        event = wait_for(ctx, PORT_ERR)
        assert event is not None and event.port_num == node.port
        assert event.qp is None and event.cq is None and event.srq is None
        assert isinstance(event.event_type_str, str) and event.event_type_str
        ctx.ack_async_event(event)
        assert ctx.query_port(node.port).state == ib.PortState.DOWN

        link.up()
        event = wait_for(ctx, PORT_ACTIVE)
        assert event is not None and event.port_num == node.port
        assert ctx.query_port(node.port).state == ib.PortState.ACTIVE

    def test_every_context_is_told(self, node: Node, link: Link | HostLink) -> None:
        with node.open() as first, node.open() as second:
            link.down()
            assert wait_for(first, PORT_ERR) is not None
            assert wait_for(second, PORT_ERR) is not None

    def test_a_sleeping_waiter_is_woken(self, ctx: Any, link: Link | HostLink) -> None:
        got: list[Any] = []
        waiter = threading.Thread(target=lambda: got.append(wait_for(ctx, PORT_ERR)), daemon=True)
        waiter.start()
        time.sleep(0.05)
        link.down()
        waiter.join(seconds(5))
        assert got and got[0] is not None

    @pytest.mark.needs("rc")
    def test_a_connection_survives_a_short_flap(self, make: Make, link: Link | HostLink) -> None:
        a, b = make(), make()
        connect(a, b)
        a.do(a.write_wr(b))
        link.down()
        assert wait_for(a.ctx, PORT_ERR) is not None
        link.up()
        assert wait_for(a.ctx, PORT_ACTIVE) is not None
        a.buf[0:4] = b"back"
        a.do(a.write_wr(b, 4))
        assert b.buf[0:4] == b"back"

    @pytest.mark.needs("rc")
    def test_a_connection_that_died_of_a_flap_is_reset_and_reconnected(
        self, ib: Any, make: Make, link: Link | HostLink, place: Any
    ) -> None:
        reason = place.missing("two_devices")
        if reason is not None:
            pytest.skip(reason)
        a, b = make(on=place.nodes[0]), make(on=place.nodes[1])
        connect(a, b, timeout=8, retry_cnt=1)
        link.down()
        a.qp.post_send(a.write_wr(b))
        (wc,) = poll_for(a.send_cq, 1, timeout=10)
        # hardware runs out of retries; rxe finds no route for the packet (LOC_QP_OP_ERR on 6.1, WR_FLUSH_ERR on 7.3)
        assert wc.status in (ib.WCStatus.RETRY_EXC_ERR, ib.WCStatus.LOC_QP_OP_ERR, ib.WCStatus.WR_FLUSH_ERR)
        assert a.qp.state == ib.QPState.ERR
        link.up()
        assert wait_for(a.ctx, PORT_ACTIVE) is not None
        for end in (a, b):
            end.set_state(ib.QPState.RESET)
        connect(a, b)
        a.buf[0:4] = b"back"
        a.do(a.write_wr(b, 4))
        assert b.buf[0:4] == b"back"


@pytest.mark.needs("rc", "srq")
def test_the_limit_of_a_shared_queue_is_an_event_with_the_queue(make: Make) -> None:
    a, b = make(), make(with_srq=True)
    connect(a, b)
    for i in range(4):
        b.post_recv(wr_id=i)
    b.srq.modify(srq_limit=3)
    a.do(a.send_wr())
    assert b.ctx.get_async_event(timeout=0.02) is None
    a.do(a.send_wr())
    event = wait_for(b.ctx, SRQ_LIMIT_REACHED)
    assert event is not None and event.srq is b.srq
    assert event.qp is None and event.cq is None and event.port_num is None


@pytest.mark.needs("rc")
def test_a_drained_send_queue_is_an_event_with_the_queue_pair(ib: Any, rc: tuple[Endpoint, Endpoint]) -> None:
    a, _ = rc
    mask = ib.QPAttrMask.STATE | ib.QPAttrMask.EN_SQD_ASYNC_NOTIFY
    a.qp.modify(mask, qp_state=ib.QPState.SQD, en_sqd_async_notify=1)
    event = wait_for(a.ctx, SQ_DRAINED)
    assert event is not None and event.qp is a.qp
    assert event.cq is None and event.srq is None and event.port_num is None


@pytest.mark.needs("rc")
def test_an_access_error_at_the_responder_is_an_event_where_the_device_raises_it(
    ib: Any, rc: tuple[Endpoint, Endpoint]
) -> None:
    a, b = rc
    a.qp.post_send(a.write_wr(b, rkey=b.mr.rkey ^ 0x5A5A00))
    (wc,) = poll_for(a.send_cq, 1)
    assert wc.status == ib.WCStatus.REM_ACCESS_ERR
    event = b.ctx.get_async_event(timeout=0.2)
    if event is None:
        pytest.skip("needs a device that reports access errors of a responder (rxe of kernel 6.1 does not)")
    assert event.event_type == QP_ACCESS_ERR and event.qp is b.qp


@pytest.mark.needs("rc", "srq")
def test_the_last_receive_of_a_dying_queue_pair_is_an_event_where_the_device_raises_it(ib: Any, make: Make) -> None:
    a, b = make(), make(with_srq=True)
    connect(a, b)
    b.set_state(ib.QPState.ERR)
    event = b.ctx.get_async_event(timeout=0.2)
    if event is None:
        pytest.skip("needs a device that reports the last receive of a shared queue (rxe of kernel 6.1 does not)")
    assert event.event_type == LAST_WQE_REACHED and event.qp is b.qp


class TestWaiting:
    def test_timeout_zero_never_blocks(self, ctx: Any) -> None:
        start = time.monotonic()
        assert ctx.get_async_event(timeout=0) is None
        assert time.monotonic() - start < seconds(1)

    def test_a_timeout_ends_when_it_is_over_and_not_before(self, ctx: Any) -> None:
        start = time.monotonic()
        assert ctx.get_async_event(0.05) is None
        assert 0.045 <= time.monotonic() - start < seconds(2)

    def test_the_descriptor_is_non_blocking(self, ctx: Any) -> None:
        assert os.get_blocking(ctx.async_fd) is False

    @pytest.mark.needs("rc")
    def test_the_descriptor_becomes_readable(self, ib: Any, rc: tuple[Endpoint, Endpoint]) -> None:
        a, _ = rc
        assert not select.select([a.ctx.async_fd], [], [], 0)[0]
        a.set_state(ib.QPState.SQD)
        assert select.select([a.ctx.async_fd], [], [], seconds(5))[0]
        assert a.ctx.get_async_event(timeout=0) is not None
        assert not select.select([a.ctx.async_fd], [], [], 0)[0]

    def test_close_wakes_a_waiter_with_ebadf(self, ib: Any, node: Node) -> None:
        ctx = node.open()
        caught: list[BaseException] = []

        def wait() -> None:
            try:
                ctx.get_async_event()
            except ib.VerbsError as error:
                caught.append(error)

        waiter = threading.Thread(target=wait, daemon=True)
        waiter.start()
        time.sleep(0.05)
        ctx.close()
        waiter.join(seconds(5))
        assert not waiter.is_alive()
        assert caught and caught[0].errno == errno.EBADF  # type: ignore[attr-defined]


@pytest.mark.needs("rc")
class TestAccounting:
    """An event is acknowledged to the library as it is read: no close waits for one."""

    def closes(self, end: Endpoint) -> bool:
        closer = threading.Thread(target=end.close, daemon=True)
        closer.start()
        closer.join(seconds(5))
        return not closer.is_alive()

    def test_an_event_never_read_does_not_hang_close(self, ib: Any, rc: tuple[Endpoint, Endpoint]) -> None:
        rc[0].set_state(ib.QPState.SQD)
        time.sleep(0.02)
        assert self.closes(rc[0])

    def test_an_event_that_was_dropped_does_not_hang_close(self, ib: Any, rc: tuple[Endpoint, Endpoint]) -> None:
        rc[0].set_state(ib.QPState.SQD)
        assert wait_for(rc[0].ctx, SQ_DRAINED) is not None
        assert self.closes(rc[0])

    def test_an_event_may_be_acknowledged_any_number_of_times(
        self, ib: Any, rc: tuple[Endpoint, Endpoint]
    ) -> None:
        a, _ = rc
        a.set_state(ib.QPState.SQD)
        event = wait_for(a.ctx, SQ_DRAINED)
        for _ in range(3):
            a.ctx.ack_async_event(event)
        assert self.closes(a)
        assert event is not None and event.qp is a.qp
