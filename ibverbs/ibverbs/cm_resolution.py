# SPDX-License-Identifier: BSD-3-Clause
"""Finding a peer: from a name to a device, a local address and a route."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from typing import Any, Callable

from ._ibverbs import VerbsError
from .cm_address import addresses, is_multicast
from .cm_course import Answer, Course, Steps, expect
from .cm_error import CMError, CMEventType
from .deadline import Deadline
from .waiting import checked_timeout
from .wire import integer

__all__ = ["Resolution"]

_TRY = 1000
"""Milliseconds of one try."""
_ROOM = 0.5
"""Seconds that we wait longer than the kernel was told to, so that its own answer comes first."""


class Resolution:
    """One request to find a peer. A name may stand for several addresses: each is tried until one resolves."""

    def __init__(self, host: str, port: int, source: str | None, timeout: float | None) -> None:
        self.host, self.port = host, integer("port", port, 1, 65535)
        self._source = source
        self._timeout = checked_timeout(timeout)
        self._error: Exception = CMError("CMID.resolve", errno.EADDRNOTAVAIL, f"{host} has no address")

    def ways(self) -> list[tuple[bytes | None, bytes]]:
        """Local and peer's addresses that fit each other. May have to wait for a name server."""
        targets = addresses(self.host, self.port)
        if self._source is None:
            return [(None, target) for _, target in targets]
        sources = dict(reversed(addresses(self._source, 0)))  # the first of each family
        if not any(family in sources for family, _ in targets):
            raise CMError(
                "CMID.resolve", errno.EADDRNOTAVAIL, f"source {self._source} is of another family than the host"
            )
        return [(sources[family], target) for family, target in targets if family in sources]

    @contextlib.contextmanager
    def attempt(self, give_up: Callable[[], None]) -> Iterator[None]:
        """Around the attempt on one address: where it fails, it is the turn of the next."""
        try:
            yield
        except VerbsError as failed:
            self._error = failed
        except BaseException:  # also what interrupts between the lines
            give_up()
            raise

    def course(self, raw: Any, source: bytes | None, target: bytes) -> Course[None]:
        """What an attempt goes through."""
        timeout = None if self._timeout is None else self._timeout + _ROOM
        return Course("CMID.resolve", self._steps(raw, source, target), timeout)

    def _steps(self, raw: Any, source: bytes | None, target: bytes) -> Steps[None]:
        deadline = Deadline(self._timeout)

        def resolve_addr(milliseconds: int) -> None:
            raw.resolve_addr(source, target, milliseconds)

        answer = yield from _in_tries("address", resolve_addr, CMEventType.ADDR_ERROR, deadline)
        expect("rdma_resolve_addr", answer, CMEventType.ADDR_RESOLVED)
        if is_multicast(target):  # a group has no route before it is joined
            return
        answer = yield from _in_tries("route", raw.resolve_route, CMEventType.ROUTE_ERROR, deadline)
        expect("rdma_resolve_route", answer, CMEventType.ROUTE_RESOLVED)

    def failure(self) -> Exception:
        """Why there is no address left to try."""
        return self._error


def _in_tries(what: str, call: Callable[[int], None], failed: CMEventType, deadline: Deadline) -> Steps[Answer]:
    """Short tries until the deadline: the kernel may miss a neighbour's answer and then notices it only at the end of a
    try, and what the network loses it does not ask for again."""
    while True:
        left = deadline.left()
        call(deadline.milliseconds(_TRY) or _TRY)
        answer = yield what
        last = left is not None and left * 1000 <= _TRY
        if last or answer.event.event != failed or answer.event.status != -errno.ETIMEDOUT:
            return answer
