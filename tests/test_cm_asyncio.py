# SPDX-License-Identifier: BSD-3-Clause
"""Connections through RDMA-CM in an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Coroutine
from typing import Any

import pytest
from cm_ends import End
from place import seconds

pytestmark = [pytest.mark.only("ibverbs"), pytest.mark.needs("cm")]


@pytest.fixture(params=["roce", "iwarp"])
def cm_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, seconds(30)))


async def accept_all(ib: Any, listener: Any, ends: list[End]) -> None:
    async for request in listener:
        ends.append(End(ib, request))
        ends[-1].recv()
        await request.accept_async(timeout=seconds(10))


async def client(ib: Any, listener: Any) -> End:
    end = End(ib, await ib.CMID.resolve_async(listener.host, listener.port, timeout=seconds(5)))
    await end.cmid.connect_async(timeout=seconds(10))
    return end


def test_clients_are_served_in_one_loop(ib: Any, host: str) -> None:
    async def main() -> None:
        ends: list[End] = []
        with ib.CMListener(host) as listener:
            task = asyncio.create_task(accept_all(ib, listener, ends))
            clients = [await client(ib, listener) for _ in range(3)]
            for end in clients:
                end.send(b"hello")
                end.done()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        assert len(ends) == 3
        for end in (*clients, *ends):
            end.close()

    run(main())


def test_news_comes_to_whoever_awaits_it(ib: Any, host: str) -> None:
    async def main() -> None:
        ends: list[End] = []
        with ib.CMListener(host) as listener:
            task = asyncio.create_task(accept_all(ib, listener, ends))
            end = await client(ib, listener)
            waiting = asyncio.create_task(end.cmid.next_event())
            await asyncio.sleep(0.05)
            assert not waiting.done()
            ends[0].cmid.disconnect()
            assert (await waiting).event == ib.CMEventType.DISCONNECTED
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for one in (end, *ends):
            one.close()

    run(main())


def test_a_wait_that_is_cancelled_loses_no_request(ib: Any, host: str) -> None:
    async def main() -> None:
        with ib.CMListener(host) as listener:
            for _ in range(5):
                waiting = asyncio.create_task(listener.next_request())
                await asyncio.sleep(0)
                waiting.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await waiting
            connecting = asyncio.create_task(client(ib, listener))
            request = await listener.next_request()
            server = End(ib, request)
            await request.accept_async(timeout=seconds(10))
            end = await connecting
            end.close()
            server.close()

    run(main())


def test_an_attempt_that_is_cancelled_leaves_nothing_half_open(ib: Any, host: str) -> None:
    async def main() -> None:
        with ib.CMListener(host) as listener:
            end = End(ib, await ib.CMID.resolve_async(listener.host, listener.port))
            if end.cmid._channel.is_iwarp:
                pytest.skip("an unanswered attempt of iWARP holds its queue pair for ten seconds")
            connecting = asyncio.create_task(end.cmid.connect_async())
            await asyncio.sleep(0.05)
            connecting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await connecting
            assert end.cmid.closed
            end.close()

    run(main())


def test_accepting_need_not_wait(ib: Any, host: str) -> None:
    async def main() -> None:
        with ib.CMListener(host) as listener:
            connecting = asyncio.create_task(client(ib, listener))
            request = await listener.next_request()
            server = End(ib, request)
            await request.accept_async(timeout=0)
            end = await connecting
            while not request.connected:
                await asyncio.sleep(0.01)
            end.close()
            server.close()

    run(main())


def test_timeouts_and_refusals_are_the_same_as_in_threads(ib: Any, host: str) -> None:
    async def main() -> None:
        with ib.CMListener(host) as listener:
            port = listener.port
        end = End(ib, await ib.CMID.resolve_async(host, port))
        with pytest.raises(ib.CMError) as caught:
            await end.cmid.connect_async(timeout=seconds(10))
        assert caught.value.errno == errno.ECONNREFUSED
        end.close()

    run(main())


def test_closing_a_listener_ends_the_loop_over_it(ib: Any, host: str) -> None:
    async def main() -> None:
        listener = ib.CMListener(host)
        asyncio.get_running_loop().call_later(0.1, listener.close)
        assert [request async for request in listener] == []

    run(main())


def test_a_number_that_closing_gave_away_is_watched_for_its_new_owner(ib: Any, host: str) -> None:
    async def main() -> None:
        for _ in range(20):
            old = ib.CMListener(host)
            ended = asyncio.create_task(old.next_request())
            await asyncio.sleep(0)
            old.close()
            with ib.CMListener(host) as listener:  # most likely on the same descriptor
                waiting = asyncio.create_task(listener.next_request())
                with pytest.raises(ib.VerbsError):
                    await ended
                connecting = asyncio.create_task(client(ib, listener))
                request = await waiting
                server = End(ib, request)
                await request.accept_async(timeout=seconds(10))
                (await connecting).close()
                server.close()

    run(main())
