# SPDX-License-Identifier: BSD-3-Clause
"""One connection identifier and its events: who waits for which, with a deadline, in threads or in asyncio."""

from __future__ import annotations

import errno
import os
import select
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from . import _ibverbs
from ._ibverbs import VerbsError
from .cm_course import Answer, Course
from .cm_error import CMEvent, CMEventType
from .deadline import Deadline
from .forks import watch_forks

if TYPE_CHECKING:  # a program that does not use asyncio does not pay for its import
    import asyncio

__all__ = ["Channel"]

_T = TypeVar("_T")

# What is told of an attempt while it is under way; the rest is news, and so are these where nobody waits for them.
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


# A child made by fork must not keep their descriptors, which would hold the parent's connections open after its death.
_open: weakref.WeakSet[Channel] = weakref.WeakSet()


def _abandon_in_child() -> None:
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


class _Told:
    """What a program polls: readable while the library has an event, and while one was read that nobody took yet.

    For whoever looks at a connection, or goes through an attempt, reads events that are for others.
    """

    def __init__(self, fd: int) -> None:
        self._bell = _Bell()
        self._rung = False
        self.epoll = select.epoll()
        for part in (fd, self._bell.pipe[0]):
            self.epoll.register(part, select.EPOLLIN)

    def show(self, waiting: bool) -> None:
        if waiting and not self._rung:
            self._bell()
        elif not waiting:  # whatever an interrupt made of the last time
            with suppress(BlockingIOError):
                os.read(self._bell.pipe[0], 8)
        self._rung = waiting


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
        self._told: _Told | None = None
        _open.add(self)

    @classmethod
    def open(cls, port_space: int) -> Channel:
        """Make an identifier."""
        return cls(_ibverbs._CMID(port_space))

    @property
    def is_iwarp(self) -> bool:
        """Whether its device is; False before it has one, and when it is closed."""
        try:
            device = self.raw.device
        except VerbsError:  # closed
            return False
        return bool(device and device[2])

    # ---- events ----

    def _pump(self) -> bool:
        """Take one event from the library, if there is one, and put it where it belongs."""
        with self._lock:
            taken = None if self._closed else self.raw.get_event()
            if taken is None:
                return False
            type_, status, err, request, private_data, parameters = taken
            arrived = None if request is None else Channel(request)
            self._sort(Answer(CMEvent(type_, status, private_data), err, arrived, parameters))
            self._wake()
            self._show()
            return True

    def _sort(self, answer: Answer) -> None:
        """Whom an event is for: the attempt under way, or who wants the news. What ends a connection is for both."""
        type_ = answer.event.event
        if type_ == CMEventType.ESTABLISHED:
            self.established = True
        elif type_ in _ENDS:
            self.established = False
        attempted = self.under_way or self.listening
        # On an established connection UNREACHABLE tells of the path, not of the end.
        expected = type_ in _OF_ATTEMPT and not (self.established and type_ == CMEventType.UNREACHABLE)
        if attempted and (expected or type_ in _ENDS):
            self.answers.append(answer)
        if not (attempted and expected) and type_ != CMEventType.ESTABLISHED:  # an accept that did not wait is told so
            self.news.append(answer.event)

    def _show(self) -> None:
        """Have the program's descriptor say whether something waits. With the lock held."""
        if self._told is not None:
            self._told.show(bool(self.answers if self.listening else self.news))

    def _take(self, queue: deque[_T], operation: str) -> _T | None:
        """The first of a queue, if there is one or the library has it."""
        self._check_open(operation)
        while not queue and self._pump():
            pass
        with self._lock:
            found = queue.popleft() if queue else None
            self._show()
        return found

    @property
    def under_way(self) -> bool:
        """Whether an attempt is."""
        return self._running is not None

    def look(self) -> None:
        """Take what the library has."""
        while self._pump():
            pass

    def _check_open(self, operation: str) -> None:
        if self._closed:
            raise VerbsError(operation, errno.EBADF, "it was closed meanwhile")
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
        """Have a waiter woken from now on; False if it should look instead."""
        with self._lock:
            if queue or self._closed:
                return False
            self._wakers.add(waker)
            return True

    def _leave(self, waker: Callable[[], None]) -> None:
        with self._lock:
            self._wakers.discard(waker)

    def wait(self, queue: deque[_T], deadline: Deadline, operation: str) -> _T | None:
        """The next of a queue (``answers`` or ``news``), waiting for it; None when the time is over."""
        while True:
            found = self._take(queue, operation)
            if found is not None or deadline.passed:
                return found
            self._sleep(queue, deadline)

    def _sleep(self, queue: deque[Any], deadline: Deadline) -> None:
        """Sleep until there may be something to read, another thread read something, or the deadline."""
        bell = _Bell()
        try:
            if not self._enter(queue, bell):
                return
            poll = select.poll()
            poll.register(self._fd, select.POLLIN)
            poll.register(bell.pipe[0], select.POLLIN)
            poll.poll(deadline.milliseconds(_LONGEST))
        finally:
            self._leave(bell)

    # ---- in an event loop ----

    async def wait_async(self, queue: deque[_T], deadline: Deadline, operation: str) -> _T | None:
        """The same in the running event loop. Cancelling loses nothing."""
        while True:
            found = self._take(queue, operation)
            if found is not None or deadline.passed:
                return found
            await self._sleep_async(queue, deadline)

    async def _sleep_async(self, queue: deque[Any], deadline: Deadline) -> None:
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
            left = deadline.left()
            if left is not None:
                timer = loop.call_later(left, set_ready)
            if self._watch(loop):
                try:
                    await ready
                finally:
                    self._unwatch(loop)
        finally:
            if timer is not None:
                timer.cancel()
            self._leave(waker)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Have the loop say when the descriptor is readable: it takes one callback for a descriptor, so we count. False
        where it was closed meanwhile.

        It watches a duplicate, which only the loop closes: another thread's close() must not give the number away while
        the loop has it.
        """
        fd, count = self._watching.get(loop, (-1, 0))
        if not count:
            with self._lock:
                if self._closed:
                    return False
                fd = os.dup(self._fd)
                self._fds.add(fd)
            try:
                loop.add_reader(fd, self._on_readable)
            except BaseException:
                self._close_watched(fd)
                raise
        self._watching[loop] = fd, count + 1
        return True

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

    def run(self, course: Course[_T]) -> _T:
        """Go through a course of events in this thread. Raises what it raises, and CMError past the deadline."""
        with self._under_way(course):
            while not course.over:
                answer = self.wait(self.answers, course.deadline, course.operation)
                course.take(answer)
        return course.result

    async def run_async(self, course: Course[_T]) -> _T:
        """The same in the running event loop."""
        with self._under_way(course):
            while not course.over:
                answer = await self.wait_async(self.answers, course.deadline, course.operation)
                course.take(answer)
        return course.result

    @contextmanager
    def _under_way(self, course: Course[Any]) -> Iterator[None]:
        """Events are answers meanwhile. Raises EALREADY, before the course is begun, where another one is under way."""
        with self._lock:
            self._check_open(course.operation)
            if self._running:
                raise VerbsError(course.operation, errno.EALREADY, f"{self._running} is under way")
            self.answers.clear()  # what an earlier course was told too late
            course.begun = True
            self._running = course.operation
        try:
            course.begin()
            yield
        finally:
            self._running = None
            course.end()

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

    # ---- the end ----

    @property
    def fd(self) -> int:
        """A descriptor that is readable while there is an event: news, or for a listener a request."""
        with self._lock:
            self._check_open("fd")
            if self._told is None:
                self._told = _Told(self._fd)
                self._show()
            return self._told.epoll.fileno()

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
            self._hide()
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

    def _hide(self) -> None:
        """Close the program's descriptor."""
        if self._told is not None:
            self._told.epoll.close()
            self._told = None

    def _abandon(self) -> None:
        """In a child made by fork: it is the parent's."""
        self._lock = threading.RLock()  # another thread of the parent may have had it
        self._hide()
        for fd in self._fds:
            try:
                os.close(fd)
            except OSError:
                pass
        self._fds.clear()
