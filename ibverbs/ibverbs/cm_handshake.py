# SPDX-License-Identifier: BSD-3-Clause
"""How two ends come to be connected: what they tell each other, with which depths, and the queue pair's way to RTS."""

from __future__ import annotations

import errno
from typing import Any

from ._ibverbs import AHAttr, Context, VerbsError
from .cm_address import PortSpace
from .cm_channel import Channel
from .cm_course import Answer, Course, Steps, expect
from .cm_depths import Depths
from .cm_error import CMError, CMEventType
from .cm_private_data import PrivateData
from .cm_queue_pair import ConnectedQP
from .waiting import checked_timeout
from .wire import integer

__all__ = ["Handshake"]


class Handshake:
    """Of one identifier: a client's, which asks, or with a ``request`` a server's, which answers."""

    def __init__(
        self, channel: Channel, port_space: PortSpace, data: PrivateData, request: Answer | None = None
    ) -> None:
        self._channel = channel
        self._data = data
        self._reliable = port_space == PortSpace.TCP
        self.queue_pair = ConnectedQP(channel, port_space)
        self.of_peer = request is not None
        """Whether it was the peer who asked."""
        self.request = request
        """What is still to be answered."""
        self.remote: tuple[AHAttr, int, int] | None = None
        """Where datagrams go, once the peer said so."""

    # ---- asking ----

    def connect(
        self,
        context: Context,
        private_data: bytes,
        responder_resources: int,
        initiator_depth: int,
        retry_count: int,
        rnr_retry_count: int,
        timeout: float | None,
    ) -> Course[bytes]:
        """The course that ends with the private data of the peer that accepted."""
        if self.of_peer:
            raise VerbsError("CMID.connect", errno.EINVAL, "it is a peer's request: accept() or reject() it")
        param = (
            self._data.pack(private_data, self._channel.is_iwarp, "connect"),
            *Depths.of_device(context).chosen(responder_resources, initiator_depth),
            integer("retry_count", retry_count, 0, 7),
            integer("rnr_retry_count", rnr_retry_count, 0, 7),
            self.queue_pair.number("connect"),
        )
        return Course("CMID.connect", self._connecting(param), timeout)

    def _connecting(self, param: tuple[Any, ...]) -> Steps[bytes]:
        raw = self._channel.raw
        if self._channel.is_iwarp:  # the call itself waits there until the host answers
            self._channel.start(lambda: raw.connect(*param))
        else:
            raw.connect(*param)
        answer = expect("rdma_connect", (yield "peer"), CMEventType.CONNECT_RESPONSE, CMEventType.ESTABLISHED)
        if answer.event.event == CMEventType.CONNECT_RESPONSE:
            self.queue_pair.to_rts()
            self._channel.established = True  # before the peer knows of it, which may end it at once
            raw.establish()
        if not self._reliable:
            ah_attr, qp_num, qkey = answer.parameters
            self.remote = ah_attr, qp_num, qkey
        try:
            return self._data.unpack(answer.event.private_data)
        except ValueError as error:
            raise CMError("CMID.connect", errno.EPROTO, str(error)) from None

    # ---- answering ----

    def accept(
        self,
        context: Context,
        private_data: bytes,
        responder_resources: int | None,
        initiator_depth: int | None,
        rnr_retry_count: int,
        timeout: float | None,
    ) -> Course[None]:
        """The course that ends when the peer knows, or, with no time for that, when the answer is sent."""
        request = self.pending("accept")
        data = self._data.pack(private_data, self._channel.is_iwarp, "accept")
        depths = Depths.of_device(context).chosen(responder_resources, initiator_depth)
        depths = depths.lowered_to(*(request.parameters[:2] if self._reliable else (0, 0)))
        rnr_retry_count = integer("rnr_retry_count", rnr_retry_count, 0, 7)
        param = (data, *depths, 0, rnr_retry_count, self.queue_pair.number("accept"))
        return Course("CMID.accept", self._accepting(param, depths, checked_timeout(timeout) != 0), timeout)

    def _accepting(self, param: tuple[Any, ...], depths: Depths, wait: bool) -> Steps[None]:
        if self._reliable and not self._channel.is_iwarp:
            self.queue_pair.to_rts(depths)
        self._channel.raw.accept(*param)
        self.request = None
        if not self._reliable:  # nothing is told of it any more
            self._channel.established = True
        elif wait:
            expect("rdma_accept", (yield "peer"), CMEventType.ESTABLISHED)

    def reject(self, private_data: bytes) -> Course[None]:
        """The course that ends when the refusal is sent."""
        self.pending("reject")
        data = self._data.pack(private_data, self._channel.is_iwarp, "reject")
        return Course("CMID.reject", self._rejecting(data), None)

    def _rejecting(self, data: bytes) -> Steps[None]:
        self.request = None
        self._channel.raw.reject(data)
        yield from ()  # nothing is told of it

    def pending(self, call: str) -> Answer:
        """What ``call`` answers. Raises EINVAL where there is nothing to answer."""
        if self.request is None:
            why = "it was answered already" if self.of_peer else "it is not a peer's request"
            raise VerbsError(f"CMID.{call}", errno.EINVAL, why)
        return self.request
