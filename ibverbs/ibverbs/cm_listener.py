# SPDX-License-Identifier: BSD-3-Clause
"""The server's side of RDMA-CM: a port that peers connect to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from .closing import Closing, until_closed
from .cm_address import PortSpace, addresses, checked_port_space, host_port
from .cm_channel import Channel
from .cm_course import Answer, expect
from .cm_error import CMEventType
from .cm_id import CMID
from .cm_private_data import PrivateData
from .deadline import Deadline
from .wire import integer

__all__ = ["CMListener"]


class CMListener(Closing):
    """Listens on an address and a port for peers that want to connect.

    ``host`` "" is every address of the family, ``port`` 0 picks a free one (``port`` says which). ``backlog`` is how
    many requests may wait to be read. Iterating gives the requests as they come, until the listener is closed. What was
    accepted lives on when the listener goes. ``rdma_bind_addr``, ``rdma_listen``.
    """

    def __init__(
        self,
        host: str = "",
        port: int = 0,
        backlog: int = 128,
        *,
        port_space: int = PortSpace.TCP,
        exact_private_data: bool = False,
    ) -> None:
        port, backlog = integer("port", port, 0, 65535), integer("backlog", backlog, 0, 0x7FFFFFFF)
        self._port_space = checked_port_space(port_space)
        self._data = PrivateData(self._port_space, exact_private_data)
        address = addresses(host or "0.0.0.0", port, passive=True)[0][1]
        self._channel = Channel.open(self._port_space)
        try:
            self._channel.raw.bind(address)
            self._channel.raw.listen(backlog)
            self._channel.listening = True
        except BaseException:
            self._channel.close()
            raise

    def get_request(self, timeout: float | None = None) -> CMID | None:
        """Wait for a peer that wants to connect and return its CMID, to accept or reject; None when the time is over.

        ``private_data``, ``host`` and ``port`` say who it is. One that is dropped unanswered is refused.
        ``rdma_get_cm_event``.
        """
        deadline = Deadline(timeout)
        while True:
            self._check_open("get_request")
            answer = self._channel.wait(self._channel.answers, deadline, "CMListener.get_request")
            if answer is None:
                return None
            request = self._request(answer)
            if request is not None:
                return request

    async def next_request(self) -> CMID:
        """The next of them, in the running event loop. Cancelling loses nothing."""
        request = None
        while request is None:
            self._check_open("next_request")
            answer = await self._channel.wait_async(self._channel.answers, Deadline(None), "CMListener.next_request")
            assert answer is not None  # there is no end to the time
            request = self._request(answer)
        return request

    def _request(self, answer: Answer) -> CMID | None:
        """The identifier of a request; None for one that does not say its length where it should, and is refused."""
        expect("rdma_get_cm_event", answer, CMEventType.CONNECT_REQUEST)
        try:
            return CMID._of_request(answer, self._port_space, self._data)
        except ValueError:
            assert answer.request is not None
            answer.request.close()
            return None

    def __iter__(self) -> Iterator[CMID]:
        with until_closed():
            while True:
                request = self.get_request()
                if request is not None:
                    yield request

    async def __aiter__(self) -> AsyncIterator[CMID]:
        with until_closed():
            while True:
                yield await self.next_request()

    @property
    def fd(self) -> int:
        """A descriptor that is readable while a request waits."""
        self._check_open("fd")
        return self._channel.fd

    @property
    def host(self) -> str:
        """The address that it listens on."""
        self._check_open("host")
        return host_port(self._channel.raw.source)[0]

    @property
    def port(self) -> int:
        """The port that it listens on."""
        self._check_open("port")
        return host_port(self._channel.raw.source)[1]

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._channel.closed

    def close(self) -> None:
        """Stop listening; requests that nobody read are refused. Twice is harmless."""
        self._channel.close()

    def __repr__(self) -> str:
        if self.closed:
            return "<CMListener, closed>"
        return f"<CMListener {self.host}:{self.port}>"
