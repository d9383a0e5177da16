# SPDX-License-Identifier: BSD-3-Clause
"""One end of a connection through RDMA-CM."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from typing import Any, Callable, TypeVar

from ._ibverbs import QP, AHAttr, Context, VerbsError
from .closing import Closing, until_closed
from .cm_address import PortSpace, addresses, checked_port_space, host_port
from .cm_channel import Channel
from .cm_context import shared_context
from .cm_course import Answer, Course, Steps, expect
from .cm_error import CMError, CMEvent, CMEventType, refused
from .cm_handshake import Handshake
from .cm_multicast import MulticastGroup
from .cm_private_data import PrivateData
from .cm_queue_pair import ConnectedQP
from .cm_resolution import Resolution
from .deadline import Deadline

__all__ = ["CMID"]

_T = TypeVar("_T")


class CMID(Closing):
    """One end of a connection, or of what may become one: ``rdma_cm_id``.

    ``CMID.resolve`` makes a client's, ``CMListener.get_request`` a server's. Every call gives up the GIL, takes a
    ``timeout`` in seconds (None: without end, or until RDMA-CM gives up) and can be interrupted; one that fails raises
    ``CMError``, which names what RDMA-CM told, and closes the identifier, since each serves one attempt.
    """

    def __init__(self) -> None:
        raise TypeError("CMID() cannot be made by itself: CMID.resolve() and CMListener.get_request() make one")

    _channel: Channel
    _data: PrivateData
    _host: str
    _port: int
    _handshake: Handshake
    _queue_pair: ConnectedQP
    _private_data: bytes
    _context: Context | None

    @classmethod
    def _make(cls, channel: Channel, data: PrivateData, peer: tuple[str, int], handshake: Handshake) -> CMID:
        self = object.__new__(cls)
        self._channel = channel
        self._data = data
        self._host, self._port = peer
        self._handshake = handshake
        self._queue_pair = handshake.queue_pair
        self._private_data = b""
        self._context = None
        return self

    @classmethod
    def _of_request(cls, request: Answer, port_space: PortSpace, data: PrivateData) -> CMID:
        """The identifier of a peer's request. Raises ValueError where that does not say its length and should."""
        channel = request.request
        assert channel is not None
        handshake = Handshake(channel, port_space, data, request)
        self = cls._make(channel, data, host_port(channel.raw.target), handshake)
        self._private_data = data.unpack(request.event.private_data)
        return self

    # ---- resolving ----

    @classmethod
    def resolve(
        cls,
        host: str,
        port: int = 4420,
        source: str | None = None,
        *,
        timeout: float | None = 5.0,
        port_space: int = PortSpace.TCP,
        exact_private_data: bool = False,
    ) -> CMID:
        """Find the device and the route to a peer, by name or address, and return an identifier that can connect.

        ``source`` is the local address to start from. ``timeout`` bounds the address and the route, in seconds,
        for each address that a name stands for. ``port_space`` ``PortSpace.UDP`` is for datagrams. With
        ``exact_private_data`` a byte before the private data tells its length, so that it arrives without the zeros
        that InfiniBand and RoCE pad it with; the peer must do the same. Raises ``CMError`` (the event and its status),
        ``socket.gaierror`` for a name that does not resolve. ``rdma_resolve_addr``, ``rdma_resolve_route``.
        """
        resolution, space = Resolution(host, port, source, timeout), checked_port_space(port_space)
        for way in resolution.ways():
            cmid = cls._of_client(resolution, space, exact_private_data)
            with resolution.attempt(cmid._give_up):
                cmid._run(resolution.course(cmid._channel.raw, *way))
                return cmid
        raise resolution.failure()

    @classmethod
    async def resolve_async(
        cls,
        host: str,
        port: int = 4420,
        source: str | None = None,
        *,
        timeout: float | None = 5.0,
        port_space: int = PortSpace.TCP,
        exact_private_data: bool = False,
    ) -> CMID:
        """The same in the running event loop."""
        resolution, space = Resolution(host, port, source, timeout), checked_port_space(port_space)
        for way in await _in_thread(resolution.ways):
            cmid = cls._of_client(resolution, space, exact_private_data)
            with resolution.attempt(cmid._give_up):
                await cmid._run_async(resolution.course(cmid._channel.raw, *way))
                return cmid
        raise resolution.failure()

    @classmethod
    def _of_client(cls, resolution: Resolution, port_space: PortSpace, exact: bool) -> CMID:
        channel, data = Channel.open(port_space), PrivateData(port_space, exact)
        return cls._make(channel, data, (resolution.host, resolution.port), Handshake(channel, port_space, data))

    # ---- running ----

    def _run(self, course: Course[_T]) -> _T:
        """Go through an attempt; where it fails nothing of it is left."""
        try:
            return self._channel.run(course)
        except BaseException as error:
            raise self._failed(course, error) from error.__cause__

    async def _run_async(self, course: Course[_T]) -> _T:
        try:
            return await self._channel.run_async(course)
        except BaseException as error:
            raise self._failed(course, error) from error.__cause__

    def _failed(self, course: Course[Any], error: BaseException) -> BaseException:
        """Leave nothing of an attempt that failed; the error to raise for it."""
        if not course.begun:  # another one is under way, or it was closed before
            return error
        if self._channel.closed and type(error) is VerbsError:  # whatever failed for that
            error = VerbsError(course.operation, errno.EBADF, "it was closed meanwhile")
        self._give_up()
        if isinstance(error, CMError) and error.private_data:
            try:
                error.private_data = self._data.unpack(error.private_data)
            except ValueError:  # a peer that tells no length: as it came
                pass
        return self._meant(error)

    @staticmethod
    def _meant(error: BaseException) -> BaseException:
        """What an attempt's call that was refused says of the attempt."""
        of_call = type(error) is VerbsError and error.operation.startswith("rdma_")
        return refused(error) if of_call else error  # type: ignore[arg-type]

    def _give_up(self) -> None:
        """Close without waiting: on iWARP an unanswered attempt holds its closer for ten seconds."""
        with contextlib.suppress(VerbsError):  # the library has it for good; why the attempt failed says more
            self._channel.close(without_waiting=self._channel.is_iwarp)
        self._queue_pair.stop()

    # ---- the queue pair ----

    def create_qp(self, pd: Any, init_attr: Any) -> QP:
        """Make the queue pair of the connection in a PD of the same device and return it, in state INIT.

        Receives can be posted at once. The connection takes it to RTS, and to ERR when it ends; all else is as for
        any other QP, and it may be closed before or after the identifier. On ``PortSpace.UDP`` it is a UD queue pair
        and goes to RTS here. ``ibv_create_qp``, ``rdma_init_qp_attr``.
        """
        self._check_open("create_qp")
        name = self._device()[0]
        if pd.context.name != name:
            raise ValueError(f"pd is of device {pd.context.name}, the connection of {name}: use cmid.context")
        try:
            return self._queue_pair.create(pd, init_attr)
        except VerbsError as error:
            raise self._meant(error) from error.__cause__

    # ---- connecting ----

    def connect(
        self,
        private_data: bytes = b"",
        *,
        responder_resources: int = 1,
        initiator_depth: int = 1,
        retry_count: int = 7,
        rnr_retry_count: int = 7,
        timeout: float | None = None,
    ) -> bytes:
        """Connect to the peer and return the private data that it accepted with.

        ``responder_resources`` is how many of the peer's reads and atomics this end answers at once,
        ``initiator_depth`` how many it has under way; the peer may lower both. ``retry_count`` and ``rnr_retry_count``
        are 0 to 7. At most 56 bytes of private data on InfiniBand and RoCE, 251 on iWARP. On ``PortSpace.UDP`` this
        looks the peer's service up: afterwards ``remote`` says where to send.

        Raises ``CMError``: ECONNREFUSED with the peer's reason and private data, ETIMEDOUT, EHOSTUNREACH. RDMA-CM
        itself gives up on a silent host after one to two minutes, and never on a server that took the request and
        does not answer: give a ``timeout``. ``rdma_connect``.
        """
        self._check_open("connect")
        depths = responder_resources, initiator_depth
        return self._run(
            self._handshake.connect(self.context, private_data, *depths, retry_count, rnr_retry_count, timeout)
        )

    async def connect_async(
        self,
        private_data: bytes = b"",
        *,
        responder_resources: int = 1,
        initiator_depth: int = 1,
        retry_count: int = 7,
        rnr_retry_count: int = 7,
        timeout: float | None = None,
    ) -> bytes:
        """The same in the running event loop."""
        self._check_open("connect_async")
        depths = responder_resources, initiator_depth
        return await self._run_async(
            self._handshake.connect(self.context, private_data, *depths, retry_count, rnr_retry_count, timeout)
        )

    # ---- accepting ----

    def accept(
        self,
        private_data: bytes = b"",
        *,
        responder_resources: int | None = None,
        initiator_depth: int | None = None,
        rnr_retry_count: int = 7,
        timeout: float | None = None,
    ) -> None:
        """Accept a peer's request, and wait until the peer knows.

        Read depths become the smaller of both sides': None is as much as the device has. The queue pair can send as
        soon as the request is accepted; ``timeout=0`` returns then, without waiting for the peer (``connected`` turns
        true when its answer was read). At most 196 bytes of private data on InfiniBand and RoCE, 251 on iWARP.
        Raises ``CMError`` where the peer went away. ``rdma_accept``.
        """
        self._check_open("accept")
        depths = responder_resources, initiator_depth
        self._run(self._handshake.accept(self.context, private_data, *depths, rnr_retry_count, timeout))

    async def accept_async(
        self,
        private_data: bytes = b"",
        *,
        responder_resources: int | None = None,
        initiator_depth: int | None = None,
        rnr_retry_count: int = 7,
        timeout: float | None = None,
    ) -> None:
        """The same in the running event loop."""
        self._check_open("accept_async")
        depths = responder_resources, initiator_depth
        await self._run_async(self._handshake.accept(self.context, private_data, *depths, rnr_retry_count, timeout))

    def reject(self, private_data: bytes = b"") -> None:
        """Refuse a peer's request, which gets the private data, and close the identifier.

        At most 148 bytes on InfiniBand and RoCE, 251 on iWARP. ``rdma_reject``.
        """
        self._check_open("reject")
        self._run(self._handshake.reject(private_data))
        self._give_up()

    @property
    def private_data(self) -> bytes:
        """What a peer sent with its request; empty on a client."""
        return self._private_data

    # ---- the end ----

    def disconnect(self) -> None:
        """End the connection: what is posted comes back flushed, and the peer is told. Twice is harmless.

        Does not wait for the peer. Raises ``VerbsError`` with ENOTCONN where there was none, and with EALREADY while
        another thread connects or accepts, which ``close()`` ends. ``rdma_disconnect``.
        """
        self._check_open("disconnect")
        if self._channel.under_way:  # which would never be told
            raise VerbsError("CMID.disconnect", errno.EALREADY, "an attempt is under way: close() ends it")
        if self._handshake.request is not None or self._queue_pair.qp is None:
            raise VerbsError("CMID.disconnect", errno.ENOTCONN, "it is not connected")
        try:
            self._channel.raw.disconnect()
        except VerbsError as error:
            if error.errno == errno.EINVAL:  # it never was
                raise VerbsError("CMID.disconnect", errno.ENOTCONN, "it is not connected") from None
            raise
        self._channel.established = False
        self._queue_pair.stop()

    def close(self) -> None:
        """Give the identifier back; a connection ends, and a request that was not answered is refused.

        The peer sees it at once, and nothing is waited for. The queue pair stays, in state ERR, until it is closed
        itself. Twice is harmless. ``rdma_destroy_id``.
        """
        self._channel.close(without_waiting=self._channel.under_way and self._channel.is_iwarp)
        self._queue_pair.stop()
        self._queue_pair.qp = None

    # ---- events ----

    @property
    def fd(self) -> int:
        """A descriptor that is readable while RDMA-CM has something to tell; then call ``get_event(0)`` until None."""
        self._check_open("fd")
        return self._channel.fd

    def get_event(self, timeout: float | None = None) -> CMEvent | None:
        """Wait for news of the connection (DISCONNECTED, DEVICE_REMOVAL, ADDR_CHANGE …); None when the time is over.

        UNREACHABLE on a connection that is there tells of its path, not of its end. REJECTED, UNREACHABLE and
        CONNECT_ERROR tell what became of an ``accept(timeout=0)``, MULTICAST_ERROR that the membership in a group is
        lost. ``rdma_get_cm_event``.
        """
        self._check_open("get_event")
        event = self._channel.wait(self._channel.news, Deadline(timeout), "CMID.get_event")
        if event is not None:
            self._notice(event)
        return event

    async def next_event(self) -> CMEvent:
        """The next of them, in the running event loop. Cancelling loses nothing."""
        self._check_open("next_event")
        event = await self._channel.wait_async(self._channel.news, Deadline(None), "CMID.next_event")
        assert event is not None  # there is no end to the time
        self._notice(event)
        return event

    def _notice(self, event: CMEvent) -> None:
        if event.event == CMEventType.DISCONNECTED:
            self._queue_pair.stop()

    def events(self) -> Iterator[CMEvent]:
        """Iterate over the news, waiting for each, until the identifier is closed."""
        with until_closed():
            while True:
                event = self.get_event()
                if event is not None:
                    yield event

    # ---- datagrams and multicast ----

    @property
    def remote(self) -> tuple[AHAttr, int, int] | None:
        """Where datagrams go, after ``connect``: (AHAttr for ``pd.create_ah``, QP number, qkey); None before."""
        return self._handshake.remote

    def join_multicast(self, group: str, *, send_only: bool = False, timeout: float | None = 5.0) -> MulticastGroup:
        """Join a multicast group, by its IP address, and attach the queue pair to it unless only sending.

        Only on ``PortSpace.UDP`` and ``PortSpace.IPOIB``, and before ``connect``: resolve the group itself, with the
        ``source`` that says which device. ``rdma_join_multicast_ex``, ``ibv_attach_mcast``.
        """
        self._check_open("join_multicast")
        address = addresses(group, 0)[0][1]
        joined = False

        def joining() -> Steps[Answer]:
            nonlocal joined
            self._channel.raw.join(address, send_only)
            joined = True
            return expect("rdma_join_multicast", (yield "group"), CMEventType.MULTICAST_JOIN)

        try:
            answer = self._channel.run(Course("CMID.join_multicast", joining(), timeout))
            ah_attr, qp_num, qkey = answer.parameters
            qp = None if send_only else self._queue_pair.qp
            return MulticastGroup(self, group, address, ah_attr, qp_num, qkey, qp)
        except BaseException:
            if joined:  # also what may still be told of it
                with contextlib.suppress(VerbsError):  # why it failed says more
                    self._leave(address)
            raise

    def _leave(self, group: bytes) -> None:
        if not self.closed:
            self._channel.raw.leave(group)

    # ---- what it is ----

    @property
    def context(self) -> Context:
        """The device's Context, one for all connections over it. It cannot be closed: it goes with its last user."""
        if self._context is None:
            self._check_open("context")
            self._device()
            self._context = shared_context(self._channel.raw)
        return self._context

    def _device(self) -> tuple[str, int, bool]:
        device: tuple[str, int, bool] | None = self._channel.raw.device
        if device is None:
            raise VerbsError("CMID", errno.ENODEV, "it has no device")
        return device

    @property
    def port_num(self) -> int:
        """The device's port that the connection goes through."""
        self._check_open("port_num")
        return self._device()[1]

    @property
    def qp(self) -> QP | None:
        """The queue pair that ``create_qp`` made."""
        return self._queue_pair.qp

    @property
    def connected(self) -> bool:
        """Whether the connection is there, as far as was told."""
        if not self._channel.closed:
            was = self._channel.established
            self._channel.look()
            if was and not self._channel.established:
                self._queue_pair.stop()
        return self._channel.established

    @property
    def closed(self) -> bool:
        """Whether it was closed, or an attempt of it failed."""
        return self._channel.closed

    @property
    def host(self) -> str:
        """The peer: as it was given, or the address that a request came from."""
        return self._host

    @property
    def port(self) -> int:
        """The peer's port."""
        return self._port

    @property
    def source(self) -> str:
        """The local address."""
        self._check_open("source")
        return host_port(self._channel.raw.source)[0]

    def __repr__(self) -> str:
        if self._channel.closed:
            return "<CMID, closed>"
        pending = self._handshake.request is not None
        state = "connected" if self._channel.established else "requested" if pending else "not connected"
        return f"<CMID {self._host}:{self._port} {state}>"


async def _in_thread(call: Callable[[], _T]) -> _T:
    from asyncio import get_running_loop  # only programs that use it pay for its import

    return await get_running_loop().run_in_executor(None, call)
