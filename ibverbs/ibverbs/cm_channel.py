# SPDX-License-Identifier: BSD-3-Clause
"""One connection identifier and its events: who waits for which, with a deadline, in threads or in asyncio.

What a connection goes through is written once, as a generator: it starts a call and yields; each ``yield`` gives the
next event that belongs to the attempt. ``run`` drives it in a thread, ``run_async`` in an event loop.
"""

from __future__ import annotations

import errno
import os
import select
import threading
import time
import weakref
from collections import deque
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, TypeVar

from . import _ibverbs
from .cm_error import CMEvent, CMEventType, deadline_passed, failure
from .forks import watch_forks

if TYPE_CHECKING:  # a program that does not use asyncio does not pay for its import
    import asyncio

__all__ = ["Answer", "Channel", "Steps", "expect", "process_lock"]

_T = TypeVar("_T")

# What is told of an attempt; the rest is news of a connection that is there.
_OF_ATTEMPT = frozenset(
    {
        CMEventType.ADDR_RESOLVED,
        CMEventType.ADDR_ERROR,
        CMEventType.ROUTE_RESOLVED,
        CMEventType.ROUTE_ERROR,
        CMEventType.CONNECT_REQUEST,
        CMEventType.CONNECT_RESPONSE,
        CMEventType.CONNECT_ERROR,
        CMEventType.UNREACHABLE,
        CMEventType.REJECTED,
        CMEventType.ESTABLISHED,
        CMEventType.MULTICAST_JOIN,
        CMEventType.MULTICAST_ERROR,
    }
)
_ENDS = frozenset({CMEventType.DISCONNECTED, CMEventType.DEVICE_REMOVAL})


class Answer(NamedTuple):
    """An event with what only the attempt needs of it."""

    event: CMEvent
    err: int
    request: Channel | None
    """The identifier of a connection request, else None."""
    parameters: tuple[Any, ...]
    """As ``_CMID.get_event`` gives them."""
    error: BaseException | None = None
    """What a call raised that was made in a thread of its own; the rest says nothing then."""


Steps = Generator[str, Answer, _T]
"""A course of events: yields what it waits for, in words; gets each answer; returns its result."""

# A child made by fork must not keep their descriptors, which would hold the parent's connections open after its death.
_open: weakref.WeakSet[Channel] = weakref.WeakSet()
_process_lock = threading.RLock()


def process_lock() -> Any:
    """Around what all connections of a process share. A child made by fork has one that nobody holds."""
    return _process_lock


def _abandon_in_child() -> None:
    global _process_lock
    _process_lock = threading.RLock()
    for channel in list(_open):
        channel._abandon()
    _open.clear()


_LONGEST = 0x7FFFFFFF
"""Milliseconds of one poll()."""


class _Bell:
    """What wakes a thread that sleeps in poll(): a pipe, which goes with the object whatever interrupts."""

    pipe: tuple[int, ...] = ()

    def __init__(self) -> None:
        self.pipe = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def __call__(self) -> None:
        try:
            os.write(self.pipe[1], b"\0")
        except BlockingIOError:  # it was woken often enough
            pass

    def __del__(self) -> None:
        for fd in self.pipe:
            os.close(fd)


class Channel:
    """An identifier on its own event channel. Any number of threads may wait; each event goes to whom it is for."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw
        self.established = False
        self.listening = False
        self._closed = False
        self._left = False
        self._fd: int = raw.fd
        watch_forks(_abandon_in_child)
        self._fds = {self._fd}
        # Signal handlers and finalizers, which run anywhere, may close what this very thread is at.
        self._lock = threading.RLock()
        self.answers: deque[Answer] = deque()
        """Events of the attempt that is under way."""
        self.news: deque[CMEvent] = deque()
        """The other events."""
        self._wakers: weakref.WeakSet[Callable[[], None]] = weakref.WeakSet()  # each goes with its sleeper
        self._watching: dict[asyncio.AbstractEventLoop, tuple[int, int]] = {}
        self._running: str | None = None
        _open.add(self)

    @classmethod
    def open(cls, port_space: int) -> Channel:
        """Make an identifier."""
        return cls(_ibverbs._CMID(port_space))

    # ---- events ----

    def _pump(self) -> bool:
        """Take one event from the library, if there is one, and put it where it belongs."""
        with self._lock:
            taken = self.raw.get_event()
            if taken is None:
                return False
            type_, status, err, request, private_data, parameters = taken
            event = CMEvent(type_, status, private_data)
            if type_ == CMEventType.ESTABLISHED:
                self.established = True
                if not self._running:  # of an accept that did not wait
                    return True
            # On an established connection UNREACHABLE tells of the path, not of the end.
            if type_ in _OF_ATTEMPT and not (self.established and type_ == CMEventType.UNREACHABLE):
                arrived = None if request is None else Channel(request)
                self.answers.append(Answer(event, err, arrived, parameters))
            else:
                if type_ in _ENDS:
                    self.established = False
                    if self._running or self.listening:
                        self.answers.append(Answer(event, err, None, parameters))
                self.news.append(event)
            self._wake()
            return True

    def _take(self, queue: deque[_T]) -> _T | None:
        """The first of a queue, if there is one or the library has it."""
        while not queue and self._pump():
            pass
        try:
            return queue.popleft()
        except IndexError:
            self._check_open()
            return None

    def look(self) -> None:
        """Take what the library has."""
        while self._pump():
            pass

    def _check_open(self) -> None:
        if self._closed:
            raise _ibverbs.VerbsError("rdma_get_cm_event", errno.EBADF, "the identifier was closed")
        _ = self.raw.fd  # EBADF in a child made by fork

    def _wake(self) -> None:
        """Wake who waits. With the lock held."""
        for waker in tuple(self._wakers):
            try:
                waker()
            except RuntimeError:  # its event loop was closed under it
                self._wakers.discard(waker)

    def _on_readable(self) -> None:
        with self._lock:
            self._wake()

    def _enter(self, queue: deque[Any], waker: Callable[[], None]) -> bool:
        """Have a waiter woken from now on; False if there is something for it already."""
        with self._lock:
            self._check_open()
            if queue:
                return False
            self._wakers.add(waker)
            return True

    def _leave(self, waker: Callable[[], None]) -> None:
        with self._lock:
            self._wakers.discard(waker)

    def wait(self, queue: deque[_T], timeout: float | None) -> _T | None:
        """The next of a queue (``answers`` or ``news``), waiting for it; None when the time is over."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            found = self._take(queue)
            if found is not None:
                return found
            if deadline is not None and time.monotonic() >= deadline:
                return None
            self._sleep(queue, deadline)

    def _sleep(self, queue: deque[Any], deadline: float | None) -> None:
        """Sleep until there may be something to read, another thread read something, or the deadline."""
        bell = _Bell()
        try:
            if not self._enter(queue, bell):
                return
            poll = select.poll()
            poll.register(self._fd, select.POLLIN)
            poll.register(bell.pipe[0], select.POLLIN)
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            poll.poll(None if left is None else int(min(left * 1000 + 1, _LONGEST)))
        finally:
            self._leave(bell)

    # ---- in an event loop ----

    async def wait_async(self, queue: deque[_T], timeout: float | None) -> _T | None:
        """The same in the running event loop. Cancelling loses nothing."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            found = self._take(queue)
            if found is not None:
                return found
            if deadline is not None and time.monotonic() >= deadline:
                return None
            await self._sleep_async(queue, deadline)

    async def _sleep_async(self, queue: deque[Any], deadline: float | None) -> None:
        from asyncio import get_running_loop

        loop = get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()

        def set_ready() -> None:
            if not ready.done():
                ready.set_result(None)

        def waker() -> None:
            loop.call_soon_threadsafe(set_ready)

        if not self._enter(queue, waker):
            return
        # Not wait_for: before Python 3.12 it may take a cancellation for itself.
        timer = None
        try:
            if deadline is not None:
                timer = loop.call_later(max(0.0, deadline - time.monotonic()), set_ready)
            self._watch(loop)
            try:
                await ready
            finally:
                self._unwatch(loop)
        finally:
            if timer is not None:
                timer.cancel()
            self._leave(waker)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have the loop say when the descriptor is readable: it takes one callback for a descriptor, so we count.

        It watches a duplicate, which only the loop closes: another thread's close() must not give the number away while
        the loop has it.
        """
        fd, count = self._watching.get(loop, (-1, 0))
        if not count:
            with self._lock:
                self._check_open()
                fd = os.dup(self._fd)
                self._fds.add(fd)
            try:
                loop.add_reader(fd, self._on_readable)
            except BaseException:
                self._close_watched(fd)
                raise
        self._watching[loop] = fd, count + 1

    def _unwatch(self, loop: asyncio.AbstractEventLoop) -> None:
        fd, count = self._watching.pop(loop)
        if count > 1:
            self._watching[loop] = fd, count - 1
            return
        loop.remove_reader(fd)
        self._close_watched(fd)

    def _close_watched(self, fd: int) -> None:
        if fd in self._fds:  # not so in a child made by fork
            self._fds.discard(fd)
            os.close(fd)

    # ---- courses of events ----

    def _begin(self, operation: str) -> None:
        with self._lock:
            self._check_open()
            if self._running:
                raise _ibverbs.VerbsError(operation, errno.EALREADY, f"{self._running} is under way")
            self.answers.clear()  # what an earlier course was told too late
            self._running = operation

    def _end(self) -> None:
        self._running = None

    def start(self, call: Callable[[], None]) -> None:
        """Make a call that may block in the kernel for minutes, in a thread of its own. Where it fails, so does the
        course that is under way; where it does not, events tell how it went on."""

        def work() -> None:
            try:
                call()
            except BaseException as error:
                with self._lock:
                    if not self._closed:
                        self.answers.append(Answer(CMEvent(-1, 0, b""), 0, None, (), error))
                        self._wake()

        threading.Thread(target=work, daemon=True).start()

    def run(self, operation: str, steps: Steps[_T], timeout: float | None) -> _T:
        """Go through a course of events in this thread. Raises what it raises, and CMError past the deadline."""
        deadline = None if timeout is None else time.monotonic() + timeout
        self._begin(operation)
        try:
            waiting_for = next(steps)
            while True:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                answer = self.wait(self.answers, left)
                if answer is None:
                    raise deadline_passed(operation, waiting_for, timeout or 0)
                waiting_for = steps.send(answer)
        except StopIteration as end:
            result: _T = end.value
            return result
        finally:
            self._end()
            steps.close()

    async def run_async(self, operation: str, steps: Steps[_T], timeout: float | None) -> _T:
        """The same in the running event loop."""
        deadline = None if timeout is None else time.monotonic() + timeout
        self._begin(operation)
        try:
            waiting_for = next(steps)
            while True:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                answer = await self.wait_async(self.answers, left)
                if answer is None:
                    raise deadline_passed(operation, waiting_for, timeout or 0)
                waiting_for = steps.send(answer)
        except StopIteration as end:
            result: _T = end.value
            return result
        finally:
            self._end()
            steps.close()

    # ---- the end ----

    @property
    def fd(self) -> int:
        """The descriptor that is readable while the library has an event."""
        self._check_open()
        return self._fd

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    def close(self, *, without_waiting: bool = False) -> None:
        """Destroy the identifier; whoever waits wakes with EBADF. Without waiting: in a thread of its own."""
        with self._lock:
            self._closed = True
            self._fds.discard(self._fd)
            self.established = False
            unread = [answer.request for answer in self.answers if answer.request is not None]
            self.answers.clear()
            self._wake()
            if self._left:
                return
            self._left = without_waiting
        if without_waiting:
            try:
                threading.Thread(target=self._destroy, args=(unread,), daemon=True).start()
                return
            except RuntimeError:  # no more threads: the interpreter ends, or their number is limited
                self._left = False
        self._destroy(unread)

    def _destroy(self, unread: list[Channel]) -> None:
        try:
            self.raw.close()  # again, where an earlier one was interrupted or failed
        finally:
            for request in unread:
                request.close()

    def _abandon(self) -> None:
        """In a child made by fork: it is the parent's."""
        self._lock = threading.RLock()  # another thread of the parent may have had it
        for fd in self._fds:
            try:
                os.close(fd)
            except OSError:
                pass
        self._fds.clear()


def expect(operation: str, answer: Answer, *wanted: CMEventType) -> Answer:
    """Return an answer that is one of those wanted; raise what any other one means."""
    if answer.error is not None:
        raise answer.error
    if answer.event.event in wanted and answer.event.status == 0:
        return answer
    raise failure(operation, answer.event, answer.err)
