# SPDX-License-Identifier: BSD-3-Clause
"""Waiting in asyncio on the stub: any loop that has add_reader, many tasks, threads beside them, cancellation."""

from __future__ import annotations

import asyncio
import errno
import gc
import importlib.util
import math
import os
import sys
import threading
import time
import warnings
from collections.abc import Coroutine, Iterator
from typing import Any, Callable

import pytest
from stub_fixtures import Rig
from test_channels import Waiter
from test_threads import SIGNALS, alone
from test_waiting import Channel, ids

pytestmark = pytest.mark.needs("stub")

SECONDS = float(os.environ.get("RDMA_TEST_RACE_SECONDS", "1"))
PORT_ACTIVE = 9

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a coroutine in a new loop, and fails where it takes more than a while or leaves a reader behind."""
    if request.param == "uvloop" and importlib.util.find_spec("uvloop") is None:
        pytest.skip("needs uvloop")

    async def guarded(coroutine: Coroutine[Any, Any, Any]) -> Any:
        return await asyncio.wait_for(coroutine, 30)

    def in_new_loop(coroutine: Coroutine[Any, Any, Any]) -> Any:
        if request.param == "uvloop":
            import uvloop

            loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        else:
            loop = asyncio.new_event_loop()
        before = len(os.listdir("/proc/self/fd"))
        try:
            result = loop.run_until_complete(guarded(coroutine))
            assert len(os.listdir("/proc/self/fd")) <= before + 1, "descriptors are left"
            return result
        finally:
            loop.close()

    return in_new_loop


@pytest.fixture
def one(rig: Rig) -> Iterator[Channel]:
    channel = Channel(rig)
    for cq in channel.queues:  # each keeps one descriptor, made when it is first waited on
        cq.wait(1, 0.0001, None)
    yield channel


class TestQueue:
    def test_what_is_there_comes_at_once(self, one: Channel, run: Run) -> None:
        one.complete(wr_id=3)
        assert ids(run(one.queues[0].wait_async(4))) == [3]

    def test_a_task_is_woken_by_a_completion_and_others_run_meanwhile(self, one: Channel, run: Run) -> None:
        async def main() -> Any:
            turns = 0
            task = asyncio.ensure_future(one.queues[0].wait_async(4))
            while turns < 20:
                await asyncio.sleep(0.001)
                turns += 1
            assert not task.done()
            one.complete(wr_id=5)
            return await task

        assert ids(run(main())) == [5]

    @pytest.mark.parametrize("timeout", [0, 0.03])
    def test_a_timeout_gives_an_empty_list(self, one: Channel, run: Run, timeout: float) -> None:
        began = time.monotonic()
        assert run(one.queues[0].wait_async(4, timeout)) == []
        assert timeout * 0.95 <= time.monotonic() - began < timeout + 2

    @pytest.mark.parametrize("timeout", [math.inf, 10**400])
    def test_a_timeout_for_ever_is_one(self, one: Channel, run: Run, timeout: float) -> None:
        threading.Timer(0.02, one.complete).start()
        assert len(run(one.queues[0].wait_async(4, timeout))) == 1

    def test_a_queue_without_a_channel_is_refused(self, rig: Rig, run: Run) -> None:
        with pytest.raises(ValueError, match="channel"):
            run(rig.cq.wait_async(1))

    def test_a_closed_queue_is_ebadf_with_or_without_a_channel(self, rig: Rig, one: Channel, run: Run) -> None:
        for channel in (one.channel, None):
            with rig.ctx.create_cq(4, channel) as cq:
                pass
            with pytest.raises(rig.Error) as caught:
                run(cq.wait_async(1))
            assert (caught.value.errno, caught.value.operation) == (errno.EBADF, "CQ.wait_async")
            assert "closed" in str(caught.value)

    @pytest.mark.parametrize(
        ("arguments", "error", "name"),
        [
            ((0,), ValueError, "num_entries"),
            (("1",), TypeError, "num_entries"),
            ((1, -1), ValueError, "timeout"),
            ((1, math.nan), ValueError, "timeout"),
            ((1, "1"), TypeError, "timeout"),
            ((1, []), TypeError, "timeout"),
            ((1, 1j), TypeError, "timeout"),
            ((1, -(10**400)), ValueError, "timeout"),
        ],
    )
    def test_bad_arguments_are_named(
        self, one: Channel, run: Run, arguments: Any, error: type[Exception], name: str
    ) -> None:
        with pytest.raises(error, match=name):
            run(one.queues[0].wait_async(*arguments))

    def test_many_tasks_on_several_queues_lose_nothing(self, one: Channel, run: Run) -> None:
        seen: list[list[int]] = [[], []]

        async def serve(k: int) -> None:
            while True:
                for wc in await one.queues[k].wait_async(1):
                    seen[k].append(wc.wr_id)

        async def main() -> int:
            tasks = [asyncio.ensure_future(serve(k)) for k in (0, 1) for _ in range(3)]
            deadline = time.monotonic() + SECONDS / 2
            given = 0
            while time.monotonic() < deadline:
                for k in (0, 1):
                    for _ in range(1 + given % 3):
                        one.complete(k, wr_id=given)
                        given += 1
                while len(seen[0]) + len(seen[1]) < given:
                    await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            return given

        given = run(main())
        assert sorted(seen[0] + seen[1]) == list(range(given)) and given > 100

    def test_tasks_beside_threads_on_the_same_queue_and_channel(self, one: Channel, run: Run) -> None:
        """Threads wait on both queues and read the channel; events reach the loop although they were faster."""
        seen: list[int] = []
        stop = threading.Event()

        def read() -> None:
            while not stop.is_set():
                assert one.channel.get_cq_event(0.001) is None

        def wait() -> None:
            while not stop.is_set():
                seen.extend(ids(one.queues[0].wait(1, 0.01, 1e-5)))

        async def serve(k: int) -> None:
            while True:
                seen.extend(ids(await one.queues[k].wait_async(2)))

        async def main() -> int:
            tasks = [asyncio.ensure_future(serve(k)) for k in (0, 1)]
            deadline = time.monotonic() + SECONDS / 2
            given = 0
            while time.monotonic() < deadline:
                for k in (0, 1):
                    one.complete(k, wr_id=given)
                    given += 1
                while len(seen) < given:
                    await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            return given

        threads = [Waiter(read), Waiter(wait)]
        try:
            given = run(main())
        finally:
            stop.set()
        for thread in threads:
            thread.finish()
        assert sorted(seen) == list(range(given)) and given > 50

    def test_two_loops_in_two_threads_share_a_queue(self, one: Channel) -> None:
        results = [Waiter(lambda: asyncio.run(one.queues[0].wait_async(1))) for _ in range(2)]
        for i in (0, 1):
            one.complete(wr_id=i)
        assert sorted(ids(results[0].finish()) + ids(results[1].finish())) == [0, 1]

    def test_a_task_that_is_cancelled_takes_nothing_along(self, one: Channel, run: Run) -> None:
        """Cancelled at every stage: before it ran, asleep, and woken but not yet run."""

        async def main() -> list[int]:
            cq = one.queues[0]
            seen: list[int] = []
            for stage in range(60):
                task = asyncio.ensure_future(cq.wait_async(1))
                for _ in range(stage % 4):
                    await asyncio.sleep(0)
                one.complete(wr_id=stage)
                for _ in range(stage // 4 % 5):
                    await asyncio.sleep(0)
                task.cancel()
                try:
                    found = await task
                except asyncio.CancelledError:
                    found = await cq.wait_async(1, 5)
                seen += ids(found)
            return seen

        assert run(main()) == list(range(60))

    def test_wait_for_takes_nothing_along_either(self, one: Channel, run: Run) -> None:
        async def main() -> list[int]:
            cq = one.queues[0]
            seen: list[int] = []
            for i in range(30):
                timer = threading.Timer(0.002, one.complete, (0, i))
                timer.start()
                try:
                    found = await asyncio.wait_for(cq.wait_async(1), 0.0005 + i % 5 * 0.001)
                except asyncio.TimeoutError:
                    found = await cq.wait_async(1, 5)
                timer.join()
                seen += ids(found)
            return seen

        assert run(main()) == list(range(30))

    def test_one_cancelled_task_leaves_the_others_waiting(self, one: Channel, run: Run) -> None:
        async def main() -> list[int]:
            tasks = [asyncio.ensure_future(one.queues[0].wait_async(1)) for _ in range(3)]
            await asyncio.sleep(0.01)
            tasks[1].cancel()
            await asyncio.sleep(0.01)
            one.complete(wr_id=1)
            one.complete(wr_id=2)
            return ids(await tasks[0]) + ids(await tasks[2])

        assert sorted(run(main())) == [1, 2]

    def test_close_wakes_every_task_with_ebadf(self, rig: Rig, one: Channel, run: Run) -> None:
        async def main() -> list[Any]:
            cq = rig.ctx.create_cq(4, one.channel)
            tasks = [asyncio.ensure_future(cq.wait_async(1)) for _ in range(3)]
            await asyncio.sleep(0.01)
            thread = threading.Thread(target=cq.close)
            thread.start()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            thread.join()
            return results

        assert [(error.errno, error.operation) for error in run(main())] == [(errno.EBADF, "CQ.wait_async")] * 3

    def test_an_error_of_the_channel_is_raised_in_the_task(self, rig: Rig, one: Channel, run: Run) -> None:
        async def main() -> Any:
            task = asyncio.ensure_future(one.queues[0].wait_async(1))
            await asyncio.sleep(0.01)
            rig.stub.fail("get_cq_event", errno.EIO)
            rig.stub.push_cq_event(one.queues[0])
            return await task

        with pytest.raises(rig.Error, match="ibv_get_cq_event"):
            run(main())

    def test_eagain_of_the_library_is_not_fatal(self, rig: Rig, one: Channel, run: Run) -> None:
        async def main() -> Any:
            task = asyncio.ensure_future(one.queues[0].wait_async(1))
            await asyncio.sleep(0.01)
            rig.stub.fail("get_cq_event", errno.EAGAIN, times=3)
            one.complete(wr_id=6)
            return await task

        assert ids(run(main())) == [6]

    def test_a_program_may_watch_the_channel_in_the_same_loop(self, one: Channel, run: Run) -> None:
        """The descriptors are different ones: neither takes the other's reader away."""

        async def main() -> Any:
            loop = asyncio.get_running_loop()
            came: list[Any] = []

            def on_readable() -> None:
                event = one.channel.get_cq_event(0)
                if event is not None:
                    came.append(event)

            loop.add_reader(one.channel.fd, on_readable)
            task = asyncio.ensure_future(one.queues[0].wait_async(1))
            one.queues[1].req_notify()
            await asyncio.sleep(0.01)
            one.complete(1)
            one.complete(0, wr_id=8)
            found = await task
            while not came:
                await asyncio.sleep(0.001)
            loop.remove_reader(one.channel.fd)
            return ids(found), came == [one.queues[1]]

        assert run(main()) == ([8], True)


class TestChannel:
    def test_a_task_gets_the_event_that_the_program_asked_for(self, one: Channel, run: Run) -> None:
        async def main() -> Any:
            one.queues[1].req_notify()
            task = asyncio.ensure_future(one.channel.next_cq_event())
            await asyncio.sleep(0.01)
            one.complete(1)
            return await task

        assert run(main()) is one.queues[1]

    def test_it_gets_it_although_a_wait_in_a_thread_read_it(self, one: Channel, run: Run) -> None:
        waiters = [Waiter(lambda: one.queues[0].wait(1)) for _ in range(3)]

        async def main() -> Any:
            one.queues[1].req_notify()
            task = asyncio.ensure_future(one.channel.next_cq_event())
            await asyncio.sleep(0.01)
            one.complete(1)
            return await task

        assert run(main()) is one.queues[1]
        for _ in waiters:
            one.complete(0)
        for waiter in waiters:
            waiter.finish()

    def test_each_event_goes_to_one_task(self, one: Channel, run: Run) -> None:
        async def main() -> Any:
            tasks = [asyncio.ensure_future(one.channel.next_cq_event(5)) for _ in range(4)]
            await asyncio.sleep(0.01)
            for _ in range(4):
                one.queues[1].req_notify()
                one.rig.stub.push_cq_event(one.queues[1])
            return await asyncio.gather(*tasks)

        assert run(main()) == [one.queues[1]] * 4
        one.queues[1].ack_events(4)

    def test_a_timeout_gives_none(self, one: Channel, run: Run) -> None:
        assert run(one.channel.next_cq_event(0.02)) is None
        assert run(one.channel.next_cq_event(0)) is None

    def test_close_wakes_a_task_with_ebadf(self, rig: Rig, run: Run) -> None:
        async def main() -> Any:
            channel = rig.ctx.create_comp_channel()
            task = asyncio.ensure_future(channel.next_cq_event())
            await asyncio.sleep(0.01)
            channel.close()
            return await asyncio.gather(task, return_exceptions=True)

        (error,) = run(main())
        assert (error.errno, error.operation) == (errno.EBADF, "CompChannel.next_cq_event")


class TestDevice:
    def test_a_task_gets_the_event(self, rig: Rig, run: Run) -> None:
        async def main() -> Any:
            task = asyncio.ensure_future(rig.ctx.next_async_event())
            await asyncio.sleep(0.01)
            rig.stub.raise_event(rig.ctx, PORT_ACTIVE, port=1)
            return await task

        event = run(main())
        assert (event.event_type, event.port_num) == (PORT_ACTIVE, 1)

    def test_several_events_of_one_wakeup_are_all_given(self, rig: Rig, run: Run) -> None:
        async def main() -> list[int]:
            task = asyncio.ensure_future(rig.ctx.next_async_event())
            await asyncio.sleep(0.01)
            for port in (1, 2, 3):
                rig.stub.raise_event(rig.ctx, PORT_ACTIVE, port=port)
            events = [await task, await rig.ctx.next_async_event(5), await rig.ctx.next_async_event(5)]
            return [event.port_num for event in events]

        assert run(main()) == [1, 2, 3]

    def test_each_event_goes_to_one_task_or_thread(self, rig: Rig, run: Run) -> None:
        thread = Waiter(lambda: rig.ctx.get_async_event(10))

        async def main() -> list[Any]:
            tasks = [asyncio.ensure_future(rig.ctx.next_async_event(10)) for _ in range(3)]
            await asyncio.sleep(0.01)
            for port in range(1, 5):
                rig.stub.raise_event(rig.ctx, PORT_ACTIVE, port=port)
            return await asyncio.gather(*tasks)

        events = [*run(main()), thread.finish()]
        assert sorted(event.port_num for event in events) == [1, 2, 3, 4]

    def test_a_task_that_is_cancelled_takes_none_along(self, rig: Rig, run: Run) -> None:
        async def main() -> list[int]:
            seen: list[int] = []
            for stage in range(1, 41):
                task = asyncio.ensure_future(rig.ctx.next_async_event())
                for _ in range(stage % 4):
                    await asyncio.sleep(0)
                rig.stub.raise_event(rig.ctx, PORT_ACTIVE, port=stage)
                for _ in range(stage // 4 % 5):
                    await asyncio.sleep(0)
                task.cancel()
                try:
                    event = await task
                except asyncio.CancelledError:
                    event = await rig.ctx.next_async_event(5)
                seen.append(event.port_num)
            return seen

        assert run(main()) == list(range(1, 41))

    def test_a_timeout_gives_none(self, rig: Rig, run: Run) -> None:
        assert run(rig.ctx.next_async_event(0.02)) is None

    def test_eagain_of_the_library_is_not_fatal(self, rig: Rig, run: Run) -> None:
        async def main() -> Any:
            task = asyncio.ensure_future(rig.ctx.next_async_event(10))
            await asyncio.sleep(0.01)
            rig.stub.fail("get_async_event", errno.EAGAIN, times=3)
            rig.stub.raise_event(rig.ctx, PORT_ACTIVE, port=1)
            return await task

        assert run(main()).port_num == 1

    def test_close_wakes_a_task_with_ebadf(self, rig: Rig, run: Run) -> None:
        async def main() -> Any:
            ctx = rig.open()
            task = asyncio.ensure_future(ctx.next_async_event())
            await asyncio.sleep(0.01)
            ctx.close()
            return await asyncio.gather(task, return_exceptions=True)

        (error,) = run(main())
        assert (error.errno, error.operation) == (errno.EBADF, "Context.next_async_event")


class TestLeavingNothingBehind:
    def test_a_loop_that_is_closed_under_a_waiting_task(self, rig: Rig, one: Channel) -> None:
        """A faulty program; what it leaves goes with the task, and the queue serves the next loop."""
        loop = asyncio.new_event_loop()
        task = loop.create_task(one.queues[0].wait_async(1))
        loop.run_until_complete(asyncio.sleep(0.01))
        loop.close()
        one.complete(wr_id=4)
        assert ids(asyncio.run(one.queues[0].wait_async(1))) == [4]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            task.get_coro().close()
            del task, loop
            gc.collect()
        waiting = __import__(f"{rig.ib.__name__}.waiting", fromlist=["_watches"])
        assert waiting._watches == {}

    def test_asyncio_is_not_imported_before_it_is_used(self, ib: Any, stub: Any) -> None:
        alone(f"import sys, {ib.__name__}\nassert 'asyncio' not in sys.modules")

    def test_a_waiter_that_is_dropped_gives_its_descriptors_back(self, rig: Rig, one: Channel) -> None:
        extension = __import__(f"{rig.ib.__name__}._extension", fromlist=["extension"]).extension
        sources = [one.queues[0], one.channel, rig.ctx]
        for source in sources:
            extension.Waiter(source).close()
        before = len(os.listdir("/proc/self/fd"))
        for source in sources:
            for _ in range(3):
                waiter = extension.Waiter(source)
                assert os.path.exists(f"/proc/self/fd/{waiter.fileno()}")
                again = extension.Waiter(source=source)
                del waiter
                again.close()
                again.close()
                with pytest.raises(ValueError):
                    again.fileno()
        assert len(os.listdir("/proc/self/fd")) == before
        with pytest.raises(TypeError, match="source"):
            extension.Waiter(rig.pd)

    def test_a_waiter_holds_its_source_once_however_it_was_given(self, rig: Rig, one: Channel) -> None:
        extension = __import__(f"{rig.ib.__name__}._extension", fromlist=["extension"]).extension
        for source in (one.queues[0], one.channel, rig.ctx):
            before = sys.getrefcount(source)
            for _ in range(10):
                extension.Waiter(source).close()
                extension.Waiter(source=source).close()
            assert sys.getrefcount(source) < before + 5
        before = sys.getrefcount(rig.pd)
        for _ in range(10):
            with pytest.raises(TypeError):
                extension.Waiter(source=rig.pd)
        assert sys.getrefcount(rig.pd) < before + 5

    def test_sigint_ends_a_loop_that_waits(self, ib: Any, stub: Any) -> None:
        alone(
            SIGNALS.format(package=ib.__name__)
            + """
import asyncio, os
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    asyncio.run(cq.wait_async(1))
except KeyboardInterrupt:
    stub.push_wc(cq, wr_id=3)
    assert cq.wait(1)[0].wr_id == 3
else:
    raise SystemExit("not interrupted")
"""
        )
