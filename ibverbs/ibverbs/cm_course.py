# SPDX-License-Identifier: BSD-3-Clause
"""What an attempt of RDMA-CM goes through, written once for threads and for event loops.

It is a generator that starts a call and yields; each ``yield`` gives the next event that belongs to the attempt.
``Channel.run`` drives it in a thread, ``Channel.run_async`` in an event loop.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Callable, Generic, NamedTuple, TypeVar

from .cm_error import CMEvent, CMEventType, deadline_passed, failure
from .deadline import Deadline

if TYPE_CHECKING:
    from .cm_channel import Channel

__all__ = ["Answer", "Course", "Steps", "expect"]

_T = TypeVar("_T")


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


class Course(Generic[_T]):
    """Steps under way: what they wait for, until when, and what came of them."""

    result: _T

    def __init__(self, operation: str, steps: Steps[_T], timeout: float | None) -> None:
        self.operation = operation
        self.deadline = Deadline(timeout)
        self.begun = False
        self.over = False
        self._steps = steps
        self._waiting_for = ""

    def begin(self) -> None:
        """Make the first step."""
        self._step(lambda: next(self._steps))

    def take(self, answer: Answer | None) -> None:
        """Make the next with an answer; None says that none came in time."""
        if answer is None:
            raise deadline_passed(self.operation, self._waiting_for, self.deadline.seconds or 0)
        self._step(lambda: self._steps.send(answer))

    def _step(self, step: Callable[[], str]) -> None:
        try:
            self._waiting_for = step()
        except StopIteration as end:
            self.result = end.value
            self.over = True

    def end(self) -> None:
        """Go no further."""
        self._steps.close()


def expect(operation: str, answer: Answer, *wanted: CMEventType) -> Answer:
    """Return an answer that is one of those wanted; raise what any other one means."""
    if answer.error is not None:
        raise answer.error
    if answer.event.event in wanted and answer.event.status == 0:
        return answer
    raise failure(operation, answer.event, answer.err)
