# SPDX-License-Identifier: BSD-3-Clause
"""What happens on a connection, and the error that says how one failed."""

from __future__ import annotations

import errno
from enum import IntEnum
from typing import NamedTuple

from ._ibverbs import VerbsError

__all__ = ["CMError", "CMEvent", "CMEventType"]


class CMEventType(IntEnum):
    """``enum rdma_cm_event_type``: what RDMA-CM tells."""

    ADDR_RESOLVED = 0
    ADDR_ERROR = 1
    ROUTE_RESOLVED = 2
    ROUTE_ERROR = 3
    CONNECT_REQUEST = 4
    CONNECT_RESPONSE = 5
    CONNECT_ERROR = 6
    UNREACHABLE = 7
    REJECTED = 8
    ESTABLISHED = 9
    DISCONNECTED = 10
    DEVICE_REMOVAL = 11
    MULTICAST_JOIN = 12
    MULTICAST_ERROR = 13
    ADDR_CHANGE = 14
    TIMEWAIT_EXIT = 15


class CMEvent(NamedTuple):
    """One thing that RDMA-CM told of a connection."""

    event: int
    """A ``CMEventType`` value."""
    status: int
    """0; a negative errno; of REJECTED and UNREACHABLE also a positive reason of the protocol's."""
    private_data: bytes
    """What the peer sent with it."""

    @property
    def event_str(self) -> str:
        """The event's name."""
        return event_name(self.event)


def event_name(event: int) -> str:
    """A name for any event, also of a library newer than this list."""
    try:
        return CMEventType(event).name
    except ValueError:
        return f"event {event}"


# Reasons of a rejection: numbers of the InfiniBand CM protocol, but for iWARP, which says ECONNRESET.
_REASONS = {
    1: "the peer has no queue pair to give",
    3: "the peer has no resources",
    4: "timed out",
    6: "the peer does not know the connection",
    8: "nobody listens on that port",
    10: "stale connection",
    24: "the peer's port redirects",
    28: "the peer refused",
    35: "vendor's option refused",
}


class CMError(VerbsError):
    """A connection through RDMA-CM could not be made; ``event`` and ``status`` say what was told.

    ``event`` is a ``CMEventType`` value, or None where a deadline passed; ``status`` as in ``CMEvent``;
    ``private_data`` is what the peer sent with its refusal. ``errno`` is ECONNREFUSED for a refusal, ETIMEDOUT where
    nobody answered, EHOSTUNREACH where there is no way, and ECONNRESET where the connection broke while it was made.
    """

    event: int | None = None
    status: int = 0
    private_data: bytes = b""


def deadline_passed(operation: str, waiting_for: str, seconds: float) -> CMError:
    """Nothing came in time."""
    return CMError(operation, errno.ETIMEDOUT, f"{waiting_for}: no answer within {seconds:g} s")


_ONLY_WITH_PEER = frozenset({"rdma_init_qp_attr", "rdma_accept", "rdma_establish", "rdma_reject"})


def refused(error: VerbsError) -> CMError:
    """A call of an attempt that was refused at once."""
    if error.errno == errno.EINVAL and error.operation in _ONLY_WITH_PEER:  # all else was checked before
        return CMError(error.operation, errno.ECONNRESET, "the peer went away meanwhile")
    return CMError(error.operation, error.errno or errno.EIO, error.detail)


def failure(operation: str, event: CMEvent, err: int) -> CMError:
    """An event that ends an attempt; ``err`` is what the library left in errno where it failed by itself."""
    code, words = _meaning(event, err)
    error = CMError(operation, code, f"{event.event_str}, status {event.status}: {words}")
    error.event, error.status, error.private_data = event.event, event.status, event.private_data
    return error


def _meaning(event: CMEvent, err: int) -> tuple[int, str]:
    status = event.status
    if event.event == CMEventType.REJECTED:
        if status == -errno.ECONNRESET:  # so iWARP says all of it
            return errno.ECONNREFUSED, "nobody listens there, or the peer refused"
        return errno.ECONNREFUSED, _REASONS.get(status, "refused")
    if event.event == CMEventType.UNREACHABLE and status > 0:  # of a look-up for datagrams
        return errno.ECONNREFUSED, {1: "nobody listens on that port", 2: "the peer refused"}.get(status, "refused")
    if status == -1:  # the library failed by itself
        return err or errno.EIO, "the queue pair could not be set up for it"
    if -status == errno.ETIMEDOUT:
        return errno.ETIMEDOUT, "no answer"
    if event.event in (CMEventType.ADDR_ERROR, CMEventType.ROUTE_ERROR, CMEventType.UNREACHABLE):
        return errno.EHOSTUNREACH, "there is no way to the peer"
    if event.event == CMEventType.DEVICE_REMOVAL:
        return errno.ENODEV, "the device was removed"
    if event.event == CMEventType.DISCONNECTED:
        return errno.ECONNRESET, "the peer went away meanwhile"
    return (-status if status < 0 else errno.EIO), "failed"
