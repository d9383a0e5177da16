# SPDX-License-Identifier: BSD-3-Clause
"""Waiting where data moves: nobody sleeps through a completion, in threads and in asyncio, on one channel or more."""

from __future__ import annotations

import asyncio
import errno
import functools
import threading
import time
from collections.abc import Coroutine
from typing import Any

import pytest
from endpoints import Endpoint, Make, connect
from packages import error_of
from place import Node, seconds
from test_channels import Waiter

pytestmark = pytest.mark.needs("pair", "cq_events")

SPINS = [None, 2e-5, 0.002]


@pytest.fixture
def pair(make: Make) -> tuple[Endpoint, Endpoint]:
    """Two ends, each with one channel for the completions of its sends and receives."""
    a, b = make(with_channel=True), make(with_channel=True)
    connect(a, b)
    return a, b


def successful(found: list[Any]) -> list[Any]:
    for wc in found:
        wc.raise_for_status()
    return found


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    async def guarded() -> Any:
        return await asyncio.wait_for(coroutine, seconds(30))

    return asyncio.run(guarded())


def ping_pong(end: Endpoint, rounds: int, begins: bool, spin: float | None) -> int:
    """Without a time-out: a wake-up that is lost ends this test by its deadline alone."""
    if begins:
        end.qp.post_send(end.send_wr(4))
    for _ in range(rounds):
        successful(end.recv_cq.wait(1, spin=spin))
        end.post_recv()
        end.qp.post_send(end.send_wr(4))
        successful(end.send_cq.wait(1, spin=spin))
    return rounds


@pytest.mark.parametrize("spin", SPINS)
def test_two_threads_play_ping_pong_and_sleep_through_nothing(pair: tuple[Endpoint, Endpoint], spin: float) -> None:
    for end in pair:
        for _ in range(2):
            end.post_recv()
    players = [Waiter(functools.partial(ping_pong, end, 100, i == 0, spin)) for i, end in enumerate(pair)]
    for player in players:
        assert player.finish(20) == 100


@pytest.mark.parametrize("spin", SPINS)
def test_a_wait_is_woken_by_a_message(pair: tuple[Endpoint, Endpoint], spin: float) -> None:
    a, b = pair
    b.post_recv(wr_id=9)
    waiter = Waiter(lambda: b.recv_cq.wait(4, timeout=seconds(10), spin=spin))
    assert waiter.is_alive()
    a.qp.post_send(a.send_wr())
    (wc,) = successful(waiter.finish())
    assert wc.wr_id == 9
    successful(a.send_cq.wait(1, seconds(5)))


def test_nothing_comes_is_an_empty_list_after_the_time(pair: tuple[Endpoint, Endpoint]) -> None:
    began = time.monotonic()
    assert pair[0].recv_cq.wait(1, 0.05) == []
    assert 0.045 <= time.monotonic() - began < seconds(3)


@pytest.mark.needs("writes")
def test_all_that_is_there_comes_with_one_wait(pair: tuple[Endpoint, Endpoint]) -> None:
    a, b = pair
    a.qp.post_send([a.write_wr(b, 8, wr_id=i) for i in range(16)])
    seen: list[int] = []
    while len(seen) < 16:
        seen += [wc.wr_id for wc in successful(a.send_cq.wait(64, seconds(5)))]
    assert sorted(seen) == list(range(16))


@pytest.mark.needs("writes")
def test_many_threads_wait_on_one_queue_and_each_completion_comes_once(pair: tuple[Endpoint, Endpoint]) -> None:
    a, b = pair
    total, seen, lock = 240, [], threading.Lock()

    def wait(spin: float | None) -> None:
        while True:
            for wc in successful(a.send_cq.wait(2, spin=spin)):
                with lock:
                    seen.append(wc.wr_id)
            with lock:
                if len(seen) >= total:
                    return

    waiters = [Waiter(functools.partial(wait, spin)) for spin in (None, 2e-5, None)]
    for i in range(total):
        while i - len(seen) > 30:  # the queue holds 64
            time.sleep(0.0005)
        a.qp.post_send(a.write_wr(b, 8, wr_id=i))
    deadline = time.monotonic() + seconds(20)
    while len(seen) < total and time.monotonic() < deadline:
        time.sleep(0.001)
    assert sorted(seen) == list(range(total))
    while any(w.is_alive() for w in waiters):  # each ends with a completion of its own
        a.qp.post_send(a.write_wr(b, 8, wr_id=total))
        time.sleep(0.005)
        assert time.monotonic() < deadline
    for waiter in waiters:
        waiter.finish()


@pytest.mark.needs("writes")
def test_waits_on_two_queues_of_one_channel_beside_get_cq_event(ib: Any, make: Make) -> None:
    """Each reads the others' events; all of them are told."""
    a, b = make(with_channel=True), make(with_channel=True)
    connect(a, b)
    spare = b.ctx.create_cq(8, b.channel)
    rounds, stop = 60, threading.Event()

    def receive() -> int:
        for _ in range(rounds):
            successful(b.recv_cq.wait(1))
            b.post_recv()
            b.qp.post_send(b.write_wr(a, 8))
        return rounds

    def sent() -> int:
        for _ in range(rounds):
            successful(b.send_cq.wait(1))
        return rounds

    def read() -> None:
        while not stop.is_set():
            assert b.channel.get_cq_event(0.002) is None

    for _ in range(4):
        b.post_recv()
    threads = [Waiter(receive), Waiter(sent), Waiter(read)]
    for _ in range(rounds):
        a.do(a.send_wr(4))
        time.sleep(0.001)  # receives are posted one by one
    assert threads[0].finish(20) == threads[1].finish(20) == rounds
    stop.set()
    threads[2].finish()
    spare.close()


@pytest.mark.needs("writes")
def test_a_wait_and_a_program_that_arms_share_a_channel(make: Make) -> None:
    a, b = make(with_channel=True), make(with_channel=True)
    connect(a, b)
    rounds = 60

    def serve() -> int:
        """Receives by hand: arm, poll, sleep."""
        seen = 0
        while True:
            b.recv_cq.req_notify()
            for wc in successful(b.recv_cq.poll(8)):
                seen += wc.wr_id > 0
                b.post_recv()
                b.qp.post_send(b.write_wr(a, 8))
            if seen >= rounds:
                return seen
            assert b.channel.get_cq_event() is b.recv_cq
            b.recv_cq.ack_events()

    def sent() -> int:
        return sum(len(successful(b.send_cq.wait(1))) for _ in range(rounds))

    for _ in range(4):
        b.post_recv()
    threads = [Waiter(serve), Waiter(sent)]
    for _ in range(rounds):
        a.do(a.send_wr(4))
        time.sleep(0.001)
    assert threads[0].finish(20) == threads[1].finish(20) == rounds


def test_close_wakes_a_wait_with_ebadf(ib: Any, node: Node) -> None:
    with node.open() as ctx, ctx.create_comp_channel() as channel:
        for spin in SPINS:
            cq = ctx.create_cq(8, channel)
            waiters = [Waiter(functools.partial(cq.wait, 1, None, spin)) for _ in range(2)]
            cq.close()
            for waiter in waiters:
                with pytest.raises(error_of(ib)) as caught:
                    waiter.finish()
                assert caught.value.errno == errno.EBADF


class TestAsyncio:
    def test_two_tasks_play_ping_pong(self, pair: tuple[Endpoint, Endpoint]) -> None:
        rounds = 60

        async def play(end: Endpoint, begins: bool) -> int:
            if begins:
                end.qp.post_send(end.send_wr(4))
            for _ in range(rounds):
                successful(await end.recv_cq.wait_async(1))
                end.post_recv()
                end.qp.post_send(end.send_wr(4))
                successful(await end.send_cq.wait_async(1))
            return rounds

        async def main() -> Any:
            return await asyncio.gather(play(pair[0], True), play(pair[1], False))

        for end in pair:
            for _ in range(2):
                end.post_recv()
        assert run(main()) == [rounds, rounds]

    def test_a_task_and_a_thread_wait_on_one_queue(self, pair: tuple[Endpoint, Endpoint]) -> None:
        a, b = pair
        for i in range(8):
            b.post_recv(wr_id=i)
        thread = Waiter(lambda: b.recv_cq.wait(1))

        async def main() -> Any:
            task = asyncio.ensure_future(b.recv_cq.wait_async(1))
            await asyncio.sleep(0.02)
            a.qp.post_send([a.send_wr(), a.send_wr()])
            return await task

        found = [*successful(run(main())), *successful(thread.finish())]
        assert sorted(wc.wr_id for wc in found) == [0, 1]

    def test_a_cancelled_task_takes_nothing_along(self, pair: tuple[Endpoint, Endpoint]) -> None:
        a, b = pair

        async def main() -> list[int]:
            seen: list[int] = []
            for i in range(20):
                b.post_recv(wr_id=i)
                task = asyncio.ensure_future(b.recv_cq.wait_async(1))
                await asyncio.sleep(0)
                a.qp.post_send(a.send_wr())
                successful(await a.send_cq.wait_async(1))
                for _ in range(i % 4):
                    await asyncio.sleep(0)
                task.cancel()
                try:
                    found = await task
                except asyncio.CancelledError:
                    found = await b.recv_cq.wait_async(1, seconds(5))
                seen += [wc.wr_id for wc in successful(found)]
            return seen

        assert run(main()) == list(range(20))

    def test_a_task_gets_an_event_that_was_asked_for(self, pair: tuple[Endpoint, Endpoint]) -> None:
        a, b = pair
        b.post_recv()
        b.recv_cq.req_notify()

        async def main() -> Any:
            task = asyncio.ensure_future(b.channel.next_cq_event())
            await asyncio.sleep(0)
            a.qp.post_send(a.send_wr())
            return await task

        assert run(main()) is b.recv_cq
        assert len(b.received()) == 1

    @pytest.mark.needs("rc")
    def test_a_task_gets_an_event_of_the_device(self, ib: Any, pair: tuple[Endpoint, Endpoint]) -> None:
        a, _ = pair

        async def main() -> Any:
            task = asyncio.ensure_future(a.ctx.next_async_event())
            await asyncio.sleep(0.01)
            mask = ib.QPAttrMask.STATE | ib.QPAttrMask.EN_SQD_ASYNC_NOTIFY
            a.qp.modify(mask, qp_state=ib.QPState.SQD, en_sqd_async_notify=1)
            return await task

        event = run(main())
        assert event.event_type == ib.EventType.SQ_DRAINED and event.qp is a.qp


@pytest.mark.only("efa")
@pytest.mark.needs("efa")
@pytest.mark.parametrize("spin", SPINS)
def test_a_wait_on_an_extended_queue_gives_what_only_that_has(ib: Any, make: Make, spin: float) -> None:
    """The sender's address, of a sender that no address handle covers; also where a spinning thread reaped it."""
    with ib.get_efa_device_list()[0].open() as ctx:
        if not ib.capabilities(ctx).cq_with_sgid:
            pytest.skip("needs a device and a libefa whose queues tell the sender")
    a, b = make(), make(with_channel=True, extended={"sgid": True})
    b.ready_ud()
    a.connect(b)
    for i in range(20):
        b.post_recv(wr_id=i)
    seen: list[Any] = []

    def wait() -> None:
        while len(seen) < 20:
            seen.extend(successful(b.recv_cq.wait(3, spin=spin)))

    waiter = Waiter(wait)
    for i in range(20):
        a.qp.post_send(a.send_wr(wr_id=i))
        a.sent()
        time.sleep(0.001 * (i % 3))
    waiter.finish()
    assert [wc.wr_id for wc in seen] == list(range(20))
    assert {wc.sgid for wc in seen} == {bytes(a.ctx.query_gid(1, 0))}
