# SPDX-License-Identifier: BSD-3-Clause
"""Completion channels: an event says which queue has news, a wait ends when asked to, and nothing hangs on it."""

from __future__ import annotations

import asyncio
import errno
import functools
import gc
import os
import select
import signal
import threading
import time
from typing import Any, Callable

import pytest
from endpoints import Endpoint, Make, connect
from packages import error_of
from place import seconds

pytestmark = pytest.mark.needs("device")

SOLICITED = 4


class Waiter(threading.Thread):
    """Runs one waiting call in a thread and keeps what came of it."""

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self.call = call
        self.result: Any = None
        self.error: BaseException | None = None
        self.start()
        time.sleep(0.05)  # long enough to be asleep in the call, nearly always

    def run(self) -> None:
        try:
            self.result = self.call()
        except BaseException as error:
            self.error = error

    def finish(self, timeout: float = 5.0) -> Any:
        self.join(seconds(timeout))
        assert not self.is_alive(), "the wait did not end"
        if self.error is not None:
            raise self.error
        return self.result


@pytest.fixture
def pair(make: Make) -> tuple[Endpoint, Endpoint]:
    a, b = make(), make(with_channel=True)
    connect(a, b)
    for i in range(16):
        b.post_recv(wr_id=i)
    return a, b


@pytest.mark.needs("pair", "cq_events")
class TestEvents:
    def test_the_event_is_the_queue_itself(self, pair: tuple[Endpoint, Endpoint]) -> None:
        a, b = pair
        b.recv_cq.req_notify()
        a.qp.post_send(a.send_wr())
        assert b.channel.get_cq_event(timeout=seconds(5)) is b.recv_cq
        b.recv_cq.ack_events(1)
        assert len(b.received()) == 1

    @pytest.mark.needs("writes")
    def test_the_event_names_the_queue_it_is_about(self, pair: tuple[Endpoint, Endpoint]) -> None:
        a, b = pair
        b.send_cq.req_notify()
        b.recv_cq.req_notify()
        b.qp.post_send(b.write_wr(a))
        assert b.channel.get_cq_event(timeout=seconds(5)) is b.send_cq
        a.qp.post_send(a.send_wr())
        assert b.channel.get_cq_event(timeout=seconds(5)) is b.recv_cq

    def test_without_arming_there_is_none(self, pair: tuple[Endpoint, Endpoint]) -> None:
        a, b = pair
        a.do(a.send_wr())
        assert b.channel.get_cq_event(timeout=0.05) is None

    def test_arming_is_for_one_event(self, pair: tuple[Endpoint, Endpoint]) -> None:
        a, b = pair
        b.recv_cq.req_notify()
        a.do([a.send_wr(wr_id=1), a.send_wr(wr_id=2)], 2)
        assert b.channel.get_cq_event(timeout=seconds(5)) is b.recv_cq
        assert b.channel.get_cq_event(timeout=0.05) is None
        assert len(b.received(2)) == 2

    def test_arming_again_brings_the_next(self, pair: tuple[Endpoint, Endpoint]) -> None:
        a, b = pair
        for _ in range(3):
            b.recv_cq.req_notify()
            a.do(a.send_wr())
            assert b.channel.get_cq_event(timeout=seconds(5)) is b.recv_cq
        b.recv_cq.ack_events(3)

    @pytest.mark.only("ibverbs")
    def test_solicited_only_ignores_a_plain_send(self, pair: tuple[Endpoint, Endpoint]) -> None:
        a, b = pair
        b.recv_cq.req_notify(solicited_only=True)
        a.do(a.send_wr())
        assert b.channel.get_cq_event(timeout=0.05) is None
        a.do(a.send_wr(send_flags=2 | SOLICITED))
        assert b.channel.get_cq_event(timeout=seconds(5)) is b.recv_cq

    @pytest.mark.only("ibverbs")
    def test_a_solicited_only_request_never_weakens_one_for_all(self, pair: tuple[Endpoint, Endpoint]) -> None:
        a, b = pair
        b.recv_cq.req_notify()
        b.recv_cq.req_notify(True)
        a.do(a.send_wr())
        assert b.channel.get_cq_event(timeout=seconds(5)) is b.recv_cq

    @pytest.mark.needs("writes")
    def test_two_queues_on_one_channel_give_an_event_each(self, pair: tuple[Endpoint, Endpoint]) -> None:
        a, b = pair
        b.send_cq.req_notify()
        b.recv_cq.req_notify()
        b.qp.post_send(b.write_wr(a))
        a.qp.post_send(a.send_wr())
        got = [b.channel.get_cq_event(timeout=seconds(5)) for _ in range(2)]
        assert {id(cq) for cq in got} == {id(b.send_cq), id(b.recv_cq)}
        assert b.channel.get_cq_event(timeout=0) is None

    def test_dropped_queues_do_not_come_back_in_events(self, ib: Any, pair: tuple[Endpoint, Endpoint]) -> None:
        a, b = pair
        spare = b.ctx.create_cq(4, b.channel)
        spare.req_notify()
        del spare
        gc.collect()
        b.recv_cq.req_notify()
        a.do(a.send_wr())
        assert b.channel.get_cq_event(timeout=seconds(5)) is b.recv_cq


@pytest.mark.needs("pair", "cq_events")
class TestAcknowledging:
    def test_more_than_were_received_is_a_value_error(self, pair: tuple[Endpoint, Endpoint]) -> None:
        a, b = pair
        for _ in range(2):
            b.recv_cq.req_notify()
            a.do(a.send_wr())
            b.channel.get_cq_event(timeout=seconds(5))
        with pytest.raises(ValueError):
            b.recv_cq.ack_events(3)
        b.recv_cq.ack_events(nevents=1)
        b.recv_cq.ack_events()
        with pytest.raises(ValueError):
            b.recv_cq.ack_events()

    def test_none_at_all_is_a_value_error(self, pair: tuple[Endpoint, Endpoint]) -> None:
        with pytest.raises(ValueError):
            pair[1].recv_cq.ack_events(0)
        with pytest.raises(ValueError):
            pair[1].recv_cq.ack_events(1)

    def test_an_event_never_read_does_not_hang_close(self, make: Make) -> None:
        a, b = make(), make(with_channel=True)
        connect(a, b)
        b.post_recv()
        b.recv_cq.req_notify()
        a.do(a.send_wr())
        b.received()
        Waiter(b.close).finish()

    def test_an_event_never_acknowledged_does_not_hang_close(self, make: Make) -> None:
        a, b = make(), make(with_channel=True)
        connect(a, b)
        b.post_recv()
        b.recv_cq.req_notify()
        a.do(a.send_wr())
        assert b.channel.get_cq_event(timeout=seconds(5)) is b.recv_cq
        Waiter(b.close).finish()

    @pytest.mark.only("ibverbs")
    def test_an_unread_event_of_a_closed_queue_is_gone(self, ib: Any, pair: tuple[Endpoint, Endpoint]) -> None:
        _, b = pair
        port, index = b.node.port, b.node.gid_index
        with b.ctx.create_cq(8, b.channel) as cq, b.pd.create_qp(ib.QPInitAttr(b.send_cq, cq)) as qp:
            info = ib.local_qp_info(qp, b.ctx.query_port(port), b.node.gid, port=port)
            ib.connect_rc(qp, info, port=port, sgid_index=index, access=0)
            qp.post_recv(b.recv_wr())
            cq.req_notify()
            qp.post_send(b.send_wr(offset=200))
            assert select.select([b.channel.fd], [], [], seconds(5))[0]
        assert b.channel.get_cq_event(timeout=0.05) is None


class TestTimeouts:
    @pytest.fixture
    def channel(self, ctx: Any) -> Any:
        with ctx.create_comp_channel() as channel:
            yield channel

    def test_zero_never_blocks(self, channel: Any) -> None:
        start = time.monotonic()
        assert channel.get_cq_event(timeout=0) is None
        assert time.monotonic() - start < seconds(1)

    @pytest.mark.parametrize("timeout", [0.03, 0.1])
    def test_a_short_one_ends_when_it_is_over_and_not_before(self, channel: Any, timeout: float) -> None:
        start = time.monotonic()
        assert channel.get_cq_event(timeout=timeout) is None
        took = time.monotonic() - start
        assert timeout * 0.95 <= took < timeout + seconds(2)

    def test_one_below_a_millisecond_is_not_rounded_to_for_ever(self, channel: Any) -> None:
        assert channel.get_cq_event(0.0001) is None

    @pytest.mark.needs("pair", "cq_events")
    def test_none_waits_until_something_comes(self, pair: tuple[Endpoint, Endpoint]) -> None:
        a, b = pair
        b.recv_cq.req_notify()
        waiter = Waiter(b.channel.get_cq_event)
        assert waiter.is_alive()
        a.qp.post_send(a.send_wr())
        assert waiter.finish() is b.recv_cq

    @pytest.mark.needs("pair", "cq_events")
    def test_an_event_that_is_there_is_read_with_timeout_zero(self, pair: tuple[Endpoint, Endpoint]) -> None:
        a, b = pair
        b.recv_cq.req_notify()
        a.do(a.send_wr())
        assert select.select([b.channel.fd], [], [], seconds(5))[0]
        assert b.channel.get_cq_event(0) is b.recv_cq


class TestDescriptor:
    def test_it_is_non_blocking(self, ctx: Any) -> None:
        with ctx.create_comp_channel() as channel:
            assert os.get_blocking(channel.fd) is False

    @pytest.mark.needs("pair", "cq_events")
    @pytest.mark.parametrize("how", ["select", "poll", "epoll"])
    def test_it_becomes_readable_with_an_event(self, pair: tuple[Endpoint, Endpoint], how: str) -> None:
        a, b = pair
        fd = b.channel.fd

        def readable(timeout: float) -> bool:
            if how == "select":
                return bool(select.select([fd], [], [], timeout)[0])
            if how == "poll":
                poller = select.poll()
                poller.register(fd, select.POLLIN)
                return bool(poller.poll(timeout * 1000))
            with select.epoll() as epoll:
                epoll.register(fd, select.EPOLLIN)
                return bool(epoll.poll(timeout))

        b.recv_cq.req_notify()
        assert not readable(0)
        a.qp.post_send(a.send_wr())
        assert readable(seconds(5))
        assert b.channel.get_cq_event(timeout=0) is b.recv_cq
        assert not readable(0)

    @pytest.mark.needs("pair", "cq_events")
    def test_an_event_loop_can_watch_it(self, pair: tuple[Endpoint, Endpoint]) -> None:
        a, b = pair

        async def main() -> Any:
            loop = asyncio.get_running_loop()
            came: asyncio.Future[Any] = loop.create_future()

            def on_readable() -> None:
                loop.remove_reader(b.channel.fd)
                came.set_result(b.channel.get_cq_event(timeout=0))

            loop.add_reader(b.channel.fd, on_readable)
            a.qp.post_send(a.send_wr())
            return await asyncio.wait_for(came, seconds(5))

        b.recv_cq.req_notify()
        assert asyncio.run(main()) is b.recv_cq


@pytest.mark.needs("pair", "cq_events")
def test_two_threads_play_ping_pong(make: Make) -> None:
    """Each sleeps in get_cq_event while the other runs: a wait that kept the GIL would end this at once."""
    ends = make(with_channel=True), make(with_channel=True)
    connect(*ends)
    rounds = 50

    def play(end: Endpoint, begins: bool) -> int:
        for _ in range(rounds):
            if begins:
                end.do(end.send_wr(4))
            end.received(1, 5)
            end.post_recv()
            if not begins:
                end.do(end.send_wr(4))
        return rounds

    for end in ends:
        end.post_recv()
    first, second = (Waiter(functools.partial(play, end, begins)) for end, begins in zip(ends, (True, False)))
    assert first.finish(20) == second.finish(20) == rounds


@pytest.mark.needs("pair", "cq_events")
def test_two_waiters_share_the_events(pair: tuple[Endpoint, Endpoint]) -> None:
    a, b = pair
    b.recv_cq.req_notify()
    first, second = Waiter(b.channel.get_cq_event), Waiter(b.channel.get_cq_event)
    a.qp.post_send(a.send_wr())
    deadline = time.monotonic() + seconds(5)
    while first.is_alive() and second.is_alive() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert first.is_alive() != second.is_alive()
    b.recv_cq.req_notify()
    a.qp.post_send(a.send_wr())
    assert first.finish() is second.finish() is b.recv_cq
    b.recv_cq.ack_events(2)


@pytest.mark.needs("pair")
def test_a_queue_that_cannot_tell_a_channel_says_so(ib: Any, place: Any, ctx: Any) -> None:
    if place.missing("cq_events") is None:
        pytest.skip("needs a library whose completion queues do not tell a channel")
    with ctx.create_comp_channel() as channel, ctx.create_cq(4, channel) as cq:
        for call in (cq.req_notify, functools.partial(cq.wait, 1, 1)):
            with pytest.raises(error_of(ib)) as caught:
                call()
            assert caught.value.errno == errno.EOPNOTSUPP
        assert channel.get_cq_event(timeout=0) is None


def test_close_wakes_a_waiter_with_ebadf(ib: Any, ctx: Any) -> None:
    channel = ctx.create_comp_channel()
    waiter = Waiter(channel.get_cq_event)
    assert waiter.is_alive()
    channel.close()
    with pytest.raises(error_of(ib)) as caught:
        waiter.finish()
    assert caught.value.errno == errno.EBADF


def test_close_wakes_every_waiter(ib: Any, ctx: Any) -> None:
    channel = ctx.create_comp_channel()
    waiters = [Waiter(channel.get_cq_event) for _ in range(3)]
    channel.close()
    for waiter in waiters:
        with pytest.raises(error_of(ib)):
            waiter.finish()


def test_close_is_refused_while_a_queue_uses_it_and_the_waiter_sleeps_on(ib: Any, ctx: Any) -> None:
    with ctx.create_comp_channel() as channel, ctx.create_cq(4, channel):
        waiter = Waiter(lambda: channel.get_cq_event(timeout=0.3))
        with pytest.raises(error_of(ib)) as caught:
            channel.close()
        assert caught.value.errno == errno.EBUSY and "1 CQ" in str(caught.value)
        assert waiter.finish() is None


def test_a_closed_channel_raises_ebadf(ib: Any, ctx: Any) -> None:
    channel = ctx.create_comp_channel()
    channel.close()
    for call in (channel.get_cq_event, lambda: channel.fd):
        with pytest.raises(error_of(ib)) as caught:
            call()
        assert caught.value.errno == errno.EBADF
    assert channel.context is ctx


def test_a_channel_of_another_context_is_refused(ib: Any, node: Any, ctx: Any) -> None:
    with node.open() as other, other.create_comp_channel() as channel:
        with pytest.raises((error_of(ib), ValueError)):
            ctx.create_cq(4, channel)


class TestSignals:
    """A wait runs Python's signal handlers: Ctrl-C ends it, other signals do not."""

    @pytest.fixture(autouse=True)
    def restored(self) -> Any:
        before = signal.getsignal(signal.SIGALRM)
        yield
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

    def test_an_exception_of_the_handler_ends_the_wait(self, ctx: Any) -> None:
        class Stop(Exception):
            pass

        def handler(*_: Any) -> None:
            raise Stop

        signal.signal(signal.SIGALRM, handler)
        with ctx.create_comp_channel() as channel:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(Stop):
                channel.get_cq_event(timeout=seconds(5))

    def test_a_handler_that_returns_lets_the_wait_go_on_to_its_time(self, ctx: Any) -> None:
        calls: list[int] = []
        signal.signal(signal.SIGALRM, lambda *_: calls.append(1))
        with ctx.create_comp_channel() as channel:
            signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
            start = time.monotonic()
            assert channel.get_cq_event(timeout=0.2) is None
            assert 0.19 <= time.monotonic() - start < seconds(2)
        assert calls
