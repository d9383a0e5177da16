# SPDX-License-Identifier: BSD-3-Clause
"""CQ.wait on the stub: who is woken by what, what it costs nobody, and how it ends. See also test_waiting_on_device."""

from __future__ import annotations

import errno
import functools
import gc
import math
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, Callable

import pytest
from stub_fixtures import Rig, wait_until
from test_channels import Waiter
from test_threads import SIGNALS, alone

pytestmark = pytest.mark.needs("stub")

SECONDS = float(os.environ.get("RDMA_TEST_RACE_SECONDS", "1"))


class Channel:
    """A channel with queues on it, whose completions and events a test makes."""

    def __init__(self, rig: Rig, queues: int = 2, cqe: int = 64) -> None:
        self.rig = rig
        self.channel = rig.keep(rig.ctx.create_comp_channel())
        self.queues = [rig.keep(rig.ctx.create_cq(cqe, self.channel)) for _ in range(queues)]

    def complete(self, queue: int = 0, wr_id: int = 1) -> None:
        self.rig.stub.push_wc(self.queues[queue], wr_id=wr_id)


@pytest.fixture
def one(rig: Rig) -> Channel:
    return Channel(rig)


@pytest.fixture
def quick_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def ids(completions: list[Any]) -> list[int]:
    return [wc.wr_id for wc in completions]


def asleep(call: Callable[[], Any]) -> Waiter:
    waiter = Waiter(call)
    assert waiter.is_alive()
    return waiter


class TestOne:
    def test_what_is_there_comes_at_once_and_nothing_is_armed(self, one: Channel) -> None:
        cq = one.queues[0]
        for i in range(5):
            one.complete(wr_id=i)
        armed = one.rig.stub.calls("req_notify_cq")
        assert ids(cq.wait(3)) == [0, 1, 2]
        assert ids(cq.wait(3)) == [3, 4]
        assert one.rig.stub.calls("req_notify_cq") == armed

    def test_more_than_one_call_of_the_library_gives_comes_in_one_list(self, rig: Rig) -> None:
        one = Channel(rig, 1, cqe=256)
        for i in range(200):
            one.complete(wr_id=i)
        assert ids(one.queues[0].wait(1000)) == list(range(200))

    @pytest.mark.parametrize("spin", [None, 0, 0.02, 30])
    def test_it_is_woken_by_a_completion(self, one: Channel, spin: float | None) -> None:
        waiter = asleep(lambda: one.queues[0].wait(4, timeout=30, spin=spin))
        one.complete(wr_id=7)
        assert ids(waiter.finish()) == [7]

    @pytest.mark.parametrize("spin", [None, 0.05, 30])
    @pytest.mark.parametrize("timeout", [0, 0.03, 0.1])
    def test_a_timeout_gives_an_empty_list_when_it_is_over_and_not_before(
        self, one: Channel, timeout: float, spin: float | None
    ) -> None:
        began = time.monotonic()
        assert one.queues[0].wait(4, timeout, spin) == []
        assert timeout * 0.95 <= time.monotonic() - began < timeout + 2

    def test_timeout_zero_only_polls(self, one: Channel) -> None:
        cq, stub = one.queues[0], one.rig.stub
        before = stub.calls(), stub.calls("poll_cq")
        assert cq.wait(1, 0) == []
        assert (stub.calls(), stub.calls("poll_cq")) == (before[0] + 1, before[1] + 1)

    def test_a_queue_without_a_channel_is_refused(self, rig: Rig) -> None:
        rig.stub.push_wc(rig.cq, wr_id=1)
        with pytest.raises(ValueError, match="channel"):
            rig.cq.wait(1, 0)
        assert ids(rig.cq.poll(1)) == [1]

    @pytest.mark.parametrize(
        ("arguments", "error"),
        [
            ((0,), ValueError),
            ((-1,), ValueError),
            (("1",), TypeError),
            ((1, -0.1), ValueError),
            ((1, math.nan), ValueError),
            ((1, "1"), TypeError),
            ((1, []), TypeError),
            ((1, 1j), TypeError),
            ((1, -(10**400)), ValueError),
            ((1, None, -1), ValueError),
            ((1, None, math.nan), ValueError),
            ((1, None, math.inf), ValueError),
            ((1, None, b"1"), TypeError),
            ((1, None, 10**400), ValueError),
        ],
    )
    def test_bad_arguments_are_named(self, one: Channel, arguments: Any, error: type[Exception]) -> None:
        name = ("num_entries", "timeout", "spin")[len(arguments) - 1]
        with pytest.raises(error, match=name):
            one.queues[0].wait(*arguments)

    def test_a_closed_queue_is_ebadf(self, rig: Rig, one: Channel) -> None:
        with rig.ctx.create_cq(4, one.channel) as cq:
            pass
        with pytest.raises(rig.Error, match=r"CQ\.wait") as caught:
            cq.wait(1)
        assert caught.value.errno == errno.EBADF

    def test_so_is_one_that_had_no_channel(self, rig: Rig) -> None:
        with rig.ctx.create_cq(4) as cq:
            pass
        with pytest.raises(rig.Error, match=r"CQ\.wait") as caught:
            cq.wait(1)
        assert caught.value.errno == errno.EBADF

    def test_a_timeout_that_no_float_holds_is_for_ever(self, one: Channel) -> None:
        threading.Timer(0.02, one.complete).start()
        assert len(one.queues[0].wait(1, 10**400)) == 1

    def test_a_completion_that_came_between_polling_and_arming_is_seen(self, one: Channel) -> None:
        """The stub completes while req_notify_cq is under way, for which no event comes."""
        one.rig.stub.delay("req_notify_cq", 0.1)
        threading.Timer(0.05, one.complete).start()
        waiter = Waiter(lambda: one.queues[0].wait(1, spin=None))
        assert ids(waiter.finish()) == [1]

    def test_a_stale_event_is_no_completion(self, one: Channel) -> None:
        cq, stub = one.queues[0], one.rig.stub
        waiter = asleep(lambda: cq.wait(1))
        for _ in range(3):
            stub.push_cq_event(cq)
            time.sleep(0.01)
        assert waiter.is_alive()
        one.complete(wr_id=3)
        assert ids(waiter.finish()) == [3]

    def test_nothing_is_left_behind_in_the_channel(self, one: Channel) -> None:
        for _ in range(3):
            waiter = asleep(lambda: one.queues[0].wait(1))
            one.complete()
            waiter.finish()
        assert one.channel.get_cq_event(0) is None
        assert not select.select([one.channel.fd], [], [], 0)[0]
        with pytest.raises(ValueError):
            one.queues[0].ack_events()

    def test_it_uses_one_descriptor_for_good_and_closing_gives_it_back(self, rig: Rig, one: Channel) -> None:
        def descriptors() -> int:
            return len(os.listdir("/proc/self/fd"))

        before = descriptors()
        cq = rig.ctx.create_cq(16, one.channel)
        for _ in range(10):
            assert cq.wait(1, 0.001, None) == []
        assert descriptors() == before + 1
        cq.close()
        assert descriptors() == before


class TestCost:
    def cpu(self, call: Callable[[], Any]) -> float:
        before = time.thread_time()
        call()
        return time.thread_time() - before

    def test_a_sleeping_wait_uses_no_cpu(self, one: Channel) -> None:
        assert self.cpu(lambda: one.queues[0].wait(1, 0.5, None)) < 0.05

    def test_a_wait_spins_as_long_as_it_was_told_and_then_sleeps(self, one: Channel) -> None:
        assert self.cpu(lambda: one.queues[0].wait(1, 0.6, 0.05)) < 0.15

    def test_a_spinning_wait_sees_a_completion_without_an_event(self, one: Channel) -> None:
        """What comes while it spins costs no arming, no event and no wake-up."""
        armed = one.rig.stub.calls("req_notify_cq")
        waiter = asleep(lambda: one.queues[0].wait(1, spin=30))
        one.complete()
        assert len(waiter.finish()) == 1
        assert one.rig.stub.calls("req_notify_cq") == armed

    def test_polling_and_other_python_threads_leave_each_other_a_share(self, one: Channel) -> None:
        """Beside each other for a while, neither a poll loop nor a thread that counts comes to a stop."""
        stop, counts = threading.Event(), [0, 0]

        def poll() -> None:
            while not stop.is_set():
                one.queues[0].poll(1)
                counts[0] += 1

        def count() -> None:
            while not stop.is_set():
                counts[1] += 1

        def rates(*bodies: Callable[[], None]) -> list[float]:
            counts[:] = [0, 0]
            stop.clear()
            began = time.monotonic()
            threads = [Waiter(body) for body in bodies]
            time.sleep(0.4)
            stop.set()
            for thread in threads:
                thread.finish()
            return [n / (time.monotonic() - began) for n in counts]

        alone_polling, alone_counting = rates(poll)[0], rates(count)[1]
        polling, counting = rates(poll, count)
        assert polling > alone_polling * 0.02 and counting > alone_counting * 0.02


class TestErrors:
    @pytest.mark.parametrize("spin", [None, 0.01])
    def test_a_poll_that_fails_is_raised_and_the_next_call_goes_on(
        self, rig: Rig, one: Channel, spin: float | None
    ) -> None:
        waiter = asleep(lambda: one.queues[0].wait(1, spin=spin))
        rig.stub.fail("poll_cq", errno.EIO)
        one.complete()
        with pytest.raises(rig.Error, match="ibv_poll_cq"):
            waiter.finish()
        assert len(one.queues[0].wait(1, 1)) == 1

    def test_a_poll_that_lies_while_it_spins_is_raised(self, rig: Rig, one: Channel) -> None:
        waiter = asleep(lambda: one.queues[0].wait(4, spin=30))
        rig.stub.lie_poll(1000)
        with pytest.raises(rig.Error, match="more completions than"):
            waiter.finish()

    def test_arming_that_fails_is_raised(self, rig: Rig, one: Channel) -> None:
        rig.stub.fail("req_notify_cq", errno.EINVAL)
        with pytest.raises(rig.Error, match="ibv_req_notify_cq"):
            one.queues[0].wait(1, 1)

    def test_reading_the_channel_that_fails_is_raised(self, rig: Rig, one: Channel) -> None:
        waiter = asleep(lambda: one.queues[0].wait(1))
        rig.stub.fail("get_cq_event", errno.EIO)
        rig.stub.push_cq_event(one.queues[1])
        with pytest.raises(rig.Error, match="ibv_get_cq_event"):
            waiter.finish()

    def test_eagain_of_the_library_is_not_fatal(self, rig: Rig, one: Channel) -> None:
        waiter = asleep(lambda: one.queues[0].wait(1))
        rig.stub.fail("get_cq_event", errno.EAGAIN, times=3)
        one.complete()
        assert len(waiter.finish()) == 1


class TestThreads:
    def test_other_threads_run_while_it_spins(self, one: Channel) -> None:
        waiter = Waiter(lambda: one.queues[0].wait(1, spin=30))
        began = time.monotonic()
        for _ in range(100):
            sum(range(1000))
        assert time.monotonic() - began < 2
        assert waiter.is_alive()
        one.complete()
        assert len(waiter.finish()) == 1

    @pytest.mark.parametrize("spin", [None, 30])
    def test_close_wakes_it_with_ebadf(self, rig: Rig, one: Channel, spin: float | None) -> None:
        cq = rig.ctx.create_cq(16, one.channel)
        waiters = [asleep(lambda: cq.wait(1, spin=spin)) for _ in range(3)]
        cq.close()
        for waiter in waiters:
            with pytest.raises(rig.Error) as caught:
                waiter.finish()
            assert caught.value.errno == errno.EBADF

    def test_an_event_read_by_the_wait_of_another_queue_wakes_the_right_one(self, one: Channel) -> None:
        first = asleep(lambda: one.queues[0].wait(1))
        second = asleep(lambda: one.queues[1].wait(1))
        one.complete(1, wr_id=11)
        assert ids(second.finish()) == [11]
        assert first.is_alive()
        one.complete(0, wr_id=10)
        assert ids(first.finish()) == [10]

    def test_an_event_read_by_get_cq_event_wakes_the_wait_and_does_not_come_out(self, one: Channel) -> None:
        reader = asleep(lambda: one.channel.get_cq_event(1.0))
        waiter = asleep(lambda: one.queues[0].wait(1))
        one.complete(wr_id=5)
        assert ids(waiter.finish()) == [5]
        assert reader.finish() is None

    def test_an_event_that_the_program_asked_for_comes_out_although_a_wait_read_it(self, one: Channel) -> None:
        waiter = asleep(lambda: one.queues[0].wait(1))
        one.queues[1].req_notify()
        one.complete(1)
        wait_until(lambda: one.rig.stub.unacked == 0, "the event is read")
        assert select.select([one.channel.fd], [], [], 5)[0]
        assert one.channel.get_cq_event(0) is one.queues[1]
        assert not select.select([one.channel.fd], [], [], 0)[0]
        one.queues[1].ack_events()
        assert waiter.is_alive()
        one.complete(0)
        waiter.finish()

    def test_a_sleeper_in_get_cq_event_is_woken_although_a_wait_read_the_event(self, one: Channel) -> None:
        waiters = [asleep(lambda: one.queues[0].wait(1)) for _ in range(3)]
        one.queues[1].req_notify()
        reader = asleep(one.channel.get_cq_event)
        one.complete(1)
        assert reader.finish() is one.queues[1]
        assert all(waiter.is_alive() for waiter in waiters)
        for _ in waiters:
            one.complete(0)
        for waiter in waiters:
            waiter.finish()

    def test_wait_and_get_cq_event_on_one_queue_are_both_told(self, one: Channel) -> None:
        cq = one.queues[0]
        cq.req_notify()
        reader, waiter = asleep(one.channel.get_cq_event), asleep(lambda: cq.wait(1))
        one.complete()
        assert reader.finish() is cq
        assert len(waiter.finish()) == 1

    def test_events_of_the_program_come_out_as_often_as_they_came(self, one: Channel) -> None:
        """Also those that a wait had to read first, which then keep their number."""
        waiter = asleep(lambda: one.queues[0].wait(1))
        for _ in range(3):
            one.rig.stub.push_cq_event(one.queues[1])
        wait_until(lambda: one.rig.stub.unacked == 0, "the events are read")
        time.sleep(0.02)
        assert [one.channel.get_cq_event(0) for _ in range(4)] == [one.queues[1]] * 3 + [None]
        one.complete()
        waiter.finish()

    def test_a_queue_that_closes_takes_its_pending_events_along(self, rig: Rig, one: Channel) -> None:
        waiter = asleep(lambda: one.queues[0].wait(1))
        going, staying = rig.ctx.create_cq(4, one.channel), one.queues[1]
        for cq in (going, staying, going):
            cq.req_notify()
            rig.stub.push_cq_event(cq)
        time.sleep(0.05)
        going.close()
        assert one.channel.get_cq_event(0) is staying
        assert one.channel.get_cq_event(0) is None
        assert not select.select([one.channel.fd], [], [], 0)[0]
        one.complete()
        waiter.finish()

    def test_two_completions_and_one_event_end_two_waits(self, one: Channel) -> None:
        """Armed once for both, the queue gives one event; nobody may sleep on beside a completion."""
        waiters = [asleep(lambda: one.queues[0].wait(1)) for _ in range(2)]
        one.rig.stub.delay("poll_cq", 0.02)
        for i in range(2):
            one.complete(wr_id=i)
        assert sorted(ids(waiters[0].finish()) + ids(waiters[1].finish())) == [0, 1]

    def test_a_destroy_that_takes_long_holds_up_nobody(self, rig: Rig, one: Channel) -> None:
        going = rig.ctx.create_cq(4, one.channel)
        waiter = asleep(lambda: one.queues[0].wait(1))
        rig.stub.close_gate("destroy_cq")
        thread = threading.Thread(target=going.close, daemon=True)
        thread.start()
        wait_until(lambda: rig.stub.inside("destroy_cq") == 1, "close is inside")
        began = time.monotonic()
        assert one.queues[1].wait(1, 0.05) == []
        assert time.monotonic() - began < 2
        one.complete()
        time.sleep(0.02)
        rig.stub.open_gate("destroy_cq")
        assert len(waiter.finish()) == 1
        thread.join(30)


class TestEventsOfObjectsThatGo:
    def test_an_event_about_a_queue_pair_that_is_being_closed_has_no_queue_pair(self, rig: Rig) -> None:
        qp = rig.make_qp()
        pointer = int(qp.ptr)
        rig.stub.close_gate("query_qp")
        asking = Waiter(qp.query)
        wait_until(lambda: rig.stub.inside("query_qp") == 1, "the call is inside")
        closing = Waiter(qp.close)  # which waits for the call
        rig.stub.raise_event(rig.ctx, 1, pointer)
        event = rig.ctx.get_async_event(5)
        rig.stub.open_gate("query_qp")
        asking.finish()
        closing.finish()
        assert event.event_type == 1 and event.qp is None and event.port_num is None
        assert qp.closed and "AsyncEvent" in repr(event)

    def test_an_event_keeps_the_object_that_is_closed_later(self, rig: Rig) -> None:
        qp = rig.make_qp()
        rig.stub.raise_event(rig.ctx, 1, qp)
        event = rig.ctx.get_async_event(5)
        qp.close()
        assert event.qp is qp and event.qp.closed


@pytest.mark.only("ibverbs")
class TestLimitsOfANewSharedQueue:
    """A device may raise the limit event as the limit is armed: the queue is empty."""

    def test_its_event_has_the_queue_while_create_srq_has_yet_to_return(self, rig: Rig) -> None:
        rig.stub.close_gate("modify_srq")
        making = Waiter(lambda: rig.pd.create_srq(srq_limit=3))
        wait_until(lambda: rig.stub.inside("modify_srq") == 1, "the limit is being armed")
        queues = [found for found in gc.get_objects() if type(found) is rig.ib.SRQ and not found.closed]
        if queues:
            rig.stub.raise_event(rig.ctx, 15, queues[0])
        event = rig.ctx.get_async_event(0)
        rig.stub.open_gate("modify_srq")
        assert len(queues) == 1
        assert event.srq is making.finish()
        event.srq.close()

    def test_one_that_cannot_be_armed_leaves_nothing_behind(self, rig: Rig) -> None:
        rig.stub.fail("modify_srq", errno.EINVAL)
        with pytest.raises(rig.Error) as caught:
            rig.pd.create_srq(max_wr=4, srq_limit=3)
        assert (caught.value.errno, caught.value.operation) == (errno.EINVAL, "ibv_modify_srq")
        assert "srq_limit=3" in str(caught.value) and rig.stub.live("srq") == 0


class TestLosingNothing:
    """Each of these would hang if a single wake-up were lost: every wait is without a time-out of its own."""

    def test_one_completion_at_a_time_to_one_waiter(self, one: Channel, quick_switches: None) -> None:
        """The next completion comes when the last was seen, at any moment of the next wait's way to sleep."""
        cq, got, given = one.queues[0], [0], [0]
        deadline = time.monotonic() + SECONDS

        def wait() -> None:
            while True:
                for wc in cq.wait(1, spin=(None, 1e-6, 1e-4)[got[0] % 3]):
                    assert wc.wr_id == got[0]
                    got[0] += 1
                    if wc.status:
                        return

        waiter = Waiter(wait)
        while time.monotonic() < deadline:
            for _ in range(given[0] % 50):  # another moment each time
                pass
            one.complete(wr_id=given[0])
            given[0] += 1
            wait_until(lambda: got[0] == given[0], f"completion {given[0]} is seen", 20)
        one.rig.stub.push_wc(cq, wr_id=given[0], status=5)
        waiter.finish(20)
        assert given[0] > 100

    @pytest.mark.parametrize("batch", [1, 3])
    def test_many_threads_on_many_queues_of_one_channel(self, rig: Rig, quick_switches: None, batch: int) -> None:
        """Waits of all queues read each other's events, and get_cq_event reads on beside them."""
        one = Channel(rig, 4, cqe=256)
        seen: list[list[int]] = [[] for _ in one.queues]
        stop = threading.Event()

        def wait(k: int) -> None:
            while True:
                for wc in one.queues[k].wait(batch, spin=None if k % 2 else 1e-5):
                    if wc.status:
                        return
                    seen[k].append(wc.wr_id)

        def read() -> None:
            while not stop.is_set():
                assert one.channel.get_cq_event(0.001) is None

        reader = Waiter(read)
        waiters = [Waiter(functools.partial(wait, k)) for k in range(4) for _ in range(3)]
        deadline = time.monotonic() + SECONDS
        given = 0
        while time.monotonic() < deadline:
            for k in range(4):
                for _ in range(1 + given % 3):
                    one.complete(k, wr_id=given)
                    given += 1
            wait_until(lambda total=given: sum(map(len, seen)) == total, f"all of {given}")  # type: ignore[misc]
        for left in range(len(waiters) // 4 - 1, -1, -1):  # one at a time: a wait may take several
            for k in range(4):
                rig.stub.push_wc(one.queues[k], status=5)
            wait_until(
                lambda left=left: sum(w.is_alive() for w in waiters) == left * 4,  # type: ignore[misc]
                "one wait of each queue ends",
            )
        for waiter in waiters:
            waiter.finish(20)
        stop.set()
        reader.finish()
        assert sorted(sum(seen, [])) == list(range(given))
        assert given > 100

    def test_waits_beside_a_program_that_arms_polls_and_sleeps(self, one: Channel, quick_switches: None) -> None:
        """One queue is waited on, the other is served by req_notify, poll and get_cq_event; on one channel."""
        seen = [0, 0]
        waited, served = one.queues

        def wait() -> None:
            while True:
                for wc in waited.wait(1):
                    if wc.status:
                        return
                    seen[0] += 1

        def serve() -> None:
            while True:
                served.req_notify()
                while True:
                    found = served.poll(4)
                    if not found:
                        break
                    for wc in found:
                        if wc.status:
                            return
                        seen[1] += 1
                assert one.channel.get_cq_event() is served
                served.ack_events()

        threads = [Waiter(wait), Waiter(wait), Waiter(serve)]
        deadline = time.monotonic() + SECONDS
        given = 0
        while time.monotonic() < deadline:
            one.complete(0)
            one.complete(1)
            given += 1
            wait_until(lambda total=given: seen == [total, total], f"both of {given}")  # type: ignore[misc]
        for cq in (waited, waited, served):
            one.rig.stub.push_wc(cq, status=5)
        for thread in threads:
            thread.finish(20)
        assert given > 50

    def test_close_under_waits_of_many_threads(self, rig: Rig, one: Channel, quick_switches: None) -> None:
        deadline = time.monotonic() + SECONDS
        rounds = 0
        while time.monotonic() < deadline:
            cq = rig.ctx.create_cq(16, one.channel)
            results: list[int] = []

            def wait(cq: Any = cq, results: list[int] = results) -> None:
                try:
                    while True:
                        cq.wait(1, spin=1e-5)
                except rig.Error as error:
                    results.append(error.errno)

            threads = [threading.Thread(target=wait, daemon=True) for _ in range(3)]
            for t in threads:
                t.start()
            for _ in range(rounds % 4):
                rig.stub.push_wc(cq)
                time.sleep(0)
            cq.close()
            for t in threads:
                t.join(20)
                assert not t.is_alive()
            assert results == [errno.EBADF] * 3
            rounds += 1
        assert rounds > 10


def waiting(ib: Any, code: str) -> None:
    """Runs code that finds two queues, `cq` and `other`, on a channel, in an interpreter of its own."""
    alone(SIGNALS.format(package=ib.__name__) + "other = ctx.create_cq(4, channel)\n" + code)


class TestSignals:
    @pytest.mark.parametrize("spin", [None, 60])
    def test_an_exception_of_the_handler_ends_the_wait_and_loses_nothing(
        self, ib: Any, stub: Any, spin: float | None
    ) -> None:
        waiting(
            ib,
            f"""
def handler(*_):
    stub.push_wc(cq, wr_id=4)
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.05)
try:
    cq.wait(1, spin={spin})
except KeyboardInterrupt:
    assert [wc.wr_id for wc in cq.wait(1, 5)] == [4]
else:
    raise SystemExit("not interrupted")
""",
        )

    @pytest.mark.parametrize("spin", [None, 60])
    def test_a_handler_that_returns_lets_the_wait_go_on(self, ib: Any, stub: Any, spin: float | None) -> None:
        waiting(
            ib,
            f"""
count = 0
def handler(*_):
    global count
    count += 1
    if count == 5:
        stub.push_wc(cq, wr_id=4)
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
assert [wc.wr_id for wc in cq.wait(1, spin={spin})] == [4]
signal.setitimer(signal.ITIMER_REAL, 0)
assert count >= 5
""",
        )

    @pytest.mark.parametrize("spin", [None, 60])
    def test_a_handler_may_close_the_queue(self, ib: Any, stub: Any, spin: float | None) -> None:
        waiting(
            ib,
            f"""
signal.signal(signal.SIGALRM, lambda *_: cq.close())
signal.setitimer(signal.ITIMER_REAL, 0.05)
try:
    cq.wait(1, spin={spin})
except error_of(ib) as error:
    assert error.errno == errno.EBADF and cq.closed
else:
    raise SystemExit("it returned")
""",
        )

    def test_a_handler_may_fork_under_the_wait_and_the_child_is_told(self, ib: Any, stub: Any) -> None:
        """Other threads wait, too; the child has none of them."""
        waiting(
            ib,
            """
import os
for _ in range(3):
    threading.Thread(target=cq.wait, args=(1,), daemon=True).start()
    threading.Thread(target=ctx.get_async_event, daemon=True).start()
time.sleep(0.1)
child = None
def handler(*_):
    global child
    child = os.fork()
    if child:
        for _ in range(4):
            stub.push_wc(cq)
        other.req_notify()
        stub.push_wc(other)
signal.signal(signal.SIGALRM, handler)
for wait in (lambda: cq.wait(1, None, None), channel.get_cq_event):
    while channel.get_cq_event(0):
        pass
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        wait()
    except error_of(ib) as error:
        os._exit(0 if child == 0 and error.errno == errno.EBADF and "fork" in str(error) else 1)
    except BaseException:
        os._exit(2)
    if child == 0:
        os._exit(3)
    assert os.waitpid(child, 0)[1] == 0, wait
""",
        )

    def test_sigint_ends_it(self, ib: Any, stub: Any) -> None:
        waiting(
            ib,
            """
import os
signal.signal(signal.SIGINT, signal.default_int_handler)
for spin in (None, 60):
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        cq.wait(1, spin=spin)
    except KeyboardInterrupt:
        continue
    raise SystemExit("not interrupted")
""",
        )

    def test_exit_with_daemon_threads_in_it_is_quiet(self, ib: Any, stub: Any) -> None:
        waiting(
            ib,
            """
for spin in (None, 60):
    for queue in (cq, other):
        threading.Thread(target=queue.wait, args=(1, None, spin), daemon=True).start()
time.sleep(0.05)
""",
        )


def test_memory_that_runs_out_while_delivering_loses_nothing(rig: Rig, one: Channel) -> None:
    testcapi = pytest.importorskip("_testcapi")
    if not hasattr(testcapi, "set_nomemory"):
        pytest.skip("needs an interpreter that can run out of memory on demand")
    cq = one.queues[0]
    for spin in (None, 0.01):
        for first in range(12):
            for i in range(4):
                one.complete(wr_id=i)
            got: list[int] = []
            found = None
            try:
                testcapi.set_nomemory(first, first + 2)
                try:
                    found = cq.wait(4, 1, spin)
                finally:
                    testcapi.remove_mem_hooks()
            except MemoryError:
                pass
            got += ids(found or [])
            while len(got) < 4:
                got += ids(cq.wait(4, 1, spin))
            assert got == [0, 1, 2, 3]


def test_waits_take_turns_with_signals_pending_in_the_main_thread_only(one: Channel) -> None:
    """A signal that comes while a worker thread sleeps is the main thread's affair; the worker sleeps on."""
    before = signal.getsignal(signal.SIGALRM)
    calls: list[int] = []
    signal.signal(signal.SIGALRM, lambda *_: calls.append(threading.get_ident()))
    try:
        waiter = asleep(lambda: one.queues[0].wait(1))
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        wait_until(lambda: bool(calls), "the handler ran")
        assert calls == [threading.main_thread().ident] and waiter.is_alive()
        one.complete()
        waiter.finish()
    finally:
        signal.signal(signal.SIGALRM, before)
