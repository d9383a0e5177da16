# SPDX-License-Identifier: BSD-3-Clause
"""Waiting in asyncio: ``CQ.wait_async``, ``CompChannel.next_cq_event`` and ``Context.next_async_event``.

Any event loop that has ``add_reader`` will do. Nothing is taken from a queue, channel or device before the moment in
which it is returned, so a task that is cancelled while it waits has taken nothing along.
"""

from __future__ import annotations

from errno import EBADF
from math import inf
from typing import TYPE_CHECKING, Any, Callable

from ._extension import LibraryError, extension

if TYPE_CHECKING:  # a program that does not use asyncio does not pay for its import
    import asyncio
    from types import TracebackType

__all__: list[str] = []

_FOR_EVER = 9e9  # seconds; more than an event loop's clock is good for


def checked_timeout(timeout: float | None) -> float | None:
    """Check a time-out as the waits in C do; None is for ever."""
    if timeout is None:
        return None
    number = hasattr(timeout, "__float__") or hasattr(timeout, "__index__")
    if not number or isinstance(timeout, complex):  # which has a __float__ before Python 3.10, for its own words only
        raise TypeError(f"timeout must be a number of seconds or None, got {type(timeout).__name__}")
    try:
        seconds = float(timeout)
    except OverflowError:  # an int beyond what a float holds
        seconds = inf if timeout > 0 else -inf
    if not seconds >= 0:
        raise ValueError(f"timeout must be None or at least 0 seconds, got {timeout}")
    return seconds if seconds <= _FOR_EVER else None


class _Watch:
    """What one event loop has for one queue, channel or device, shared by its tasks that wait there."""

    def __init__(self, loop: asyncio.AbstractEventLoop, source: Any) -> None:
        self.loop = loop
        self.tasks = 0
        self.futures: set[asyncio.Future[bool]] = set()
        self.waiter = extension.Waiter(source)
        try:
            loop.add_reader(self.waiter.fileno(), self.on_readable)
        except BaseException:
            self.waiter.close()
            raise

    def on_readable(self) -> None:
        error = None
        try:
            if not self.waiter.take():
                return
        except Exception as caught:
            error = caught
        for future in self.futures:
            if future.done():
                continue
            if error is None:
                future.set_result(True)
            else:
                future.set_exception(error)

    async def news(self, deadline: float | None) -> bool:
        """Wait until it is worth looking, or the loop's time is ``deadline``: then it is False."""
        future: asyncio.Future[bool] = self.loop.create_future()
        timer = None if deadline is None else self.loop.call_at(deadline, _time_is_over, future)
        self.futures.add(future)
        try:
            return await future
        finally:
            self.futures.discard(future)
            if timer is not None:
                timer.cancel()

    def close(self) -> None:
        if not self.loop.is_closed():
            self.loop.remove_reader(self.waiter.fileno())
        self.waiter.close()


def _time_is_over(future: asyncio.Future[bool]) -> None:
    if not future.done():
        future.set_result(False)


# Those in which tasks wait now, by loop and source.
_watches: dict[tuple[asyncio.AbstractEventLoop, Any], _Watch] = {}


class _Waiting:
    """One task's part in a watch, from ``with`` to its end."""

    def __init__(self, loop: asyncio.AbstractEventLoop, source: Any) -> None:
        self.key = loop, source

    def __enter__(self) -> _Watch:
        watch = _watches.get(self.key)
        if watch is None:
            watch = _watches[self.key] = _Watch(*self.key)
        watch.tasks += 1
        return watch

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        watch = _watches[self.key]
        watch.tasks -= 1
        if not watch.tasks:
            del _watches[self.key]
            watch.close()


async def _first(source: Any, method: str, look: Callable[[], Any], timeout: float | None) -> Any:
    """Return the first thing that ``look()`` gives, or what it gives when the time is over."""
    seconds = checked_timeout(timeout)
    try:
        return await _first_within(source, look, seconds)
    except LibraryError as error:
        kind, called, _ = error.operation.rpartition(".")
        if not called or error.errno != EBADF:  # not because something is closed
            raise
        raise LibraryError(f"{kind}.{method}", error.errno, error.detail) from None


async def _first_within(source: Any, look: Callable[[], Any], seconds: float | None) -> Any:
    """The same. From the last look to the return there is no ``await``: a cancellation cannot lose what it took."""
    found = look()
    if found or seconds == 0:
        return found

    from asyncio import get_running_loop

    loop = get_running_loop()
    deadline = None if seconds is None else loop.time() + seconds
    with _Waiting(loop, source) as watch:
        in_time = True
        while in_time and not found:
            watch.waiter.arm()
            found = look()
            if not found:
                in_time = await watch.news(deadline)
                found = look()
        return found


async def wait_async(self: Any, num_entries: int, timeout: float | None = None) -> Any:
    """Wait for completions in an asyncio task; like CQ.wait(), but the event loop runs on meanwhile."""
    if self.channel is None and not self.closed:
        extension.Waiter(self)  # says what is missing
    return await _first(self, "wait_async", lambda: self.poll(num_entries), timeout)


async def next_cq_event(self: Any, timeout: float | None = None) -> Any:
    """Wait for an event in an asyncio task; like CompChannel.get_cq_event(), but the event loop runs on meanwhile."""
    return await _first(self, "next_cq_event", lambda: self.get_cq_event(0), timeout)


async def next_async_event(self: Any, timeout: float | None = None) -> Any:
    """Wait for an event in an asyncio task; like Context.get_async_event(), but the event loop runs on meanwhile."""
    return await _first(self, "next_async_event", lambda: self.get_async_event(0), timeout)


_QUEUE = getattr(extension, "_CQBase", extension.CQ)  # the base of a package's classes of queues, where it has several

for _cls, _method in (
    (_QUEUE, wait_async),
    (extension.CompChannel, next_cq_event),
    (extension.Context, next_async_event),
):
    setattr(_cls, _method.__name__, _method)
