# SPDX-License-Identifier: BSD-3-Clause
"""Connections through RDMA-CM, both sides: by IP address and port, over the real librdmacm, opened on first use.

A client resolves an address, makes a queue pair and connects; a server listens, gets requests, makes a queue pair for
each and accepts. The states of the queue pair follow the connection. iWARP has only this way to connect.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import struct
import time
import weakref
from collections.abc import AsyncIterator, Iterator
from enum import IntEnum
from operator import index
from types import TracebackType
from typing import Any, Callable, NamedTuple, TypeVar

from . import _ibverbs
from ._ibverbs import QP, AHAttr, Context, RangeError, VerbsError
from .cm_channel import Answer, Channel, Steps, expect, process_lock
from .cm_error import CMError, CMEvent, CMEventType
from .enums import QPAttrMask, QPState
from .waiting import checked_timeout

__all__ = ["CMID", "CMError", "CMEvent", "CMEventType", "CMListener", "MulticastGroup", "PortSpace"]

_T = TypeVar("_T")


class PortSpace(IntEnum):
    """What kind of service a port number belongs to, ``enum rdma_port_space``."""

    TCP = 0x0106
    """Reliable connections."""
    UDP = 0x0111
    """Datagrams (UD), and multicast."""
    IPOIB = 0x0002
    """Multicast groups that IP over InfiniBand uses too."""


# ---- private data --------------------------------------------------------------------------------------------------

_API_MOST = 255
_IWARP_MOST = 251
_MOST = {  # on InfiniBand and RoCE, where it is padded with zeros to this
    (PortSpace.TCP, "connect"): 56,
    (PortSpace.TCP, "accept"): 196,
    (PortSpace.TCP, "reject"): 148,
    (PortSpace.UDP, "connect"): 180,
    (PortSpace.UDP, "accept"): 136,
    (PortSpace.UDP, "reject"): 136,
}


class _PrivateData(NamedTuple):
    """How private data goes over the wire: as it is, or with its length before it."""

    exact: bool

    def pack(self, data: bytes, port_space: int, iwarp: bool, call: str) -> bytes:
        data = bytes(memoryview(data))  # TypeError for a number, of which bytes() makes so many zeros
        space = PortSpace.TCP if port_space == PortSpace.TCP else PortSpace.UDP
        most = _IWARP_MOST if iwarp else _MOST[space, call]
        carried = most - 1 if self.exact else most
        if len(data) > carried:
            kind = "iWARP" if iwarp else f"InfiniBand and RoCE in the {space.name} port space"
            prefix = " after the length before it" if self.exact else ""
            raise RangeError(
                f"private_data has {len(data)} bytes: {call} carries at most {carried} on {kind}{prefix}, and no call "
                f"more than {_API_MOST}"
            )
        return bytes([len(data)]) + data if self.exact else data

    def unpack(self, data: bytes) -> bytes:
        if not self.exact or not data:
            return data
        length = data[0]
        if length >= len(data):
            raise ValueError(f"the peer's private data of {len(data)} bytes does not begin with its length")
        return data[1 : 1 + length]


# ---- addresses -----------------------------------------------------------------------------------------------------


def _sockaddr(family: int, address: Any) -> bytes:
    """A ``struct sockaddr_in`` or ``sockaddr_in6`` from what getaddrinfo gives."""
    host, port = address[0], address[1]
    if family == socket.AF_INET:
        return struct.pack("=HH4s8x", family, socket.htons(port), socket.inet_aton(host))
    flow, scope = (address[2], address[3]) if len(address) > 3 else (0, 0)
    raw = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    return struct.pack("=HHI16sI", family, socket.htons(port), socket.htonl(flow), raw, scope)


def _host_port(sockaddr: bytes) -> tuple[str, int]:
    """Address and port of a socket address; ("", 0) for none."""
    if len(sockaddr) < 8:
        return "", 0
    family, port = struct.unpack_from("=HH", sockaddr)
    if family == socket.AF_INET:
        return socket.inet_ntop(family, sockaddr[4:8]), socket.ntohs(port)
    scope = struct.unpack_from("=I", sockaddr, 24)[0]
    host = socket.inet_ntop(socket.AF_INET6, sockaddr[8:24])
    return (f"{host}%{scope}" if scope else host), socket.ntohs(port)


def _is_multicast(sockaddr: bytes) -> bool:
    return ipaddress.ip_address(_host_port(sockaddr)[0].partition("%")[0]).is_multicast


def _check_port(port: int, least: int) -> int:
    port = index(port)
    if not least <= port <= 65535:
        raise RangeError(f"port must be between {least} and 65535, got {port}")
    return port


def _addresses(host: str, port: int, passive: bool = False) -> list[tuple[int, bytes]]:
    """Families and socket addresses that a name stands for."""
    flags = socket.AI_PASSIVE if passive else 0
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, _sockaddr(family, address)) for family, _, _, _, address in found]


# ---- the device ----------------------------------------------------------------------------------------------------

_contexts: weakref.WeakValueDictionary[str, Context] = weakref.WeakValueDictionary()


def _shared_context(raw: Any) -> Context:
    """The Context of the identifier's device: one for all connections of a process, so that their PDs mix."""
    name = raw.device[0]
    with process_lock():  # opening may run finalizers, which may ask for a context
        context = _contexts.get(name)
        if context is None or not _is_usable(context):
            device = next((found for found in _ibverbs.get_device_list() if found.name == name), None)
            if device is None:
                raise VerbsError("CMID.context", errno.ENODEV, f"{name} is gone")
            context = device.open()
            raw.share(context)
            _contexts[name] = context
        return context


def _is_usable(context: Context) -> bool:
    try:
        _ = context.async_fd  # EBADF in a child that was forked since
    except VerbsError:
        return False
    return True


_TRY = 1.0
"""Seconds for one try to resolve an address."""


def _with_room(timeout: float | None) -> float | None:
    """A little longer than the kernel was told, so that its own answer comes first."""
    return None if timeout is None else timeout + 0.5


def _milliseconds(deadline: float | None) -> int:
    left = _TRY if deadline is None else min(_TRY, deadline - time.monotonic())
    return max(1, int(left * 1000))


# ---- a connection --------------------------------------------------------------------------------------------------

_MAX_DEPTH = 254  # 255 stands for "as much as the device has"
_MIN_RNR_TIMER = 12  # 0.64 ms; the kernel's 0 means 655 ms


class CMID:
    """One end of a connection, or of what may become one: ``rdma_cm_id``.

    ``CMID.resolve`` makes a client's, ``CMListener.get_request`` a server's. Every call gives up the GIL, takes a
    ``timeout`` in seconds (None: without end, or until RDMA-CM gives up) and can be interrupted; one that fails raises
    ``CMError``, which names what RDMA-CM told, and closes the identifier, since each serves one attempt.
    """

    def __init__(self) -> None:
        raise TypeError("CMID() cannot be made by itself: CMID.resolve() and CMListener.get_request() make one")

    _channel: Channel
    _port_space: int
    _data: _PrivateData
    _host: str
    _port: int
    _server: bool
    _qp: QP | None
    _context: Context | None
    _request: Answer | None
    _remote: tuple[AHAttr, int, int] | None

    @classmethod
    def _make(cls, channel: Channel, port_space: int, data: _PrivateData, request: Answer | None = None) -> CMID:
        self = object.__new__(cls)
        self._channel = channel
        self._port_space = port_space
        self._data = data
        self._host, self._port = "", 0
        self._server = request is not None
        self._request = request
        self._qp = self._context = self._remote = None
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

        ``source`` is the local address to start from. ``timeout`` bounds the address and the route, in seconds.
        ``port_space`` ``PortSpace.UDP`` is for datagrams. With ``exact_private_data`` a byte before the private data
        tells its length, so that it arrives without the zeros that InfiniBand and RoCE pad it with; the peer must do
        the same. Raises ``CMError`` (the event and its status), ``socket.gaierror`` for a name that does not resolve.
        ``rdma_resolve_addr``, ``rdma_resolve_route``.
        """
        port, timeout = _check_port(port, 1), checked_timeout(timeout)
        error: Exception | None = None
        for family, target in _addresses(host, port):
            self = cls._make(Channel.open(port_space), port_space, _PrivateData(exact_private_data))
            self._host, self._port = host, port
            try:
                self._run("CMID.resolve", self._resolving(family, target, source, timeout), _with_room(timeout))
                return self
            except VerbsError as failed:
                error = failed
            except BaseException:  # also what interrupts between the lines
                self._give_up()
                raise
        raise error or CMError("CMID.resolve", errno.EADDRNOTAVAIL, f"{host} has no address")

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
        port, timeout = _check_port(port, 1), checked_timeout(timeout)
        error: Exception | None = None
        for family, target in await _in_thread(lambda: _addresses(host, port)):
            self = cls._make(Channel.open(port_space), port_space, _PrivateData(exact_private_data))
            self._host, self._port = host, port
            try:
                await self._run_async(
                    "CMID.resolve", self._resolving(family, target, source, timeout), _with_room(timeout)
                )
                return self
            except VerbsError as failed:
                error = failed
            except BaseException:  # also what interrupts between the lines
                self._give_up()
                raise
        raise error or CMError("CMID.resolve", errno.EADDRNOTAVAIL, f"{host} has no address")

    def _resolving(self, family: int, target: bytes, source: str | None, timeout: float | None) -> Steps[None]:
        raw = self._channel.raw
        start = None
        if source is not None:
            start = next((address for kind, address in _addresses(source, 0) if kind == family), None)
            if start is None:
                raise CMError(
                    "CMID.resolve", errno.EADDRNOTAVAIL, f"source {source} is of another family than the host"
                )
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            # In short tries: the kernel may miss a neighbour's answer, and then notices it at the end of the try only.
            last = deadline is not None and time.monotonic() + _TRY >= deadline
            raw.resolve_addr(start, target, _milliseconds(deadline))
            answer = yield "address"
            if last or answer.event.event != CMEventType.ADDR_ERROR or answer.event.status != -errno.ETIMEDOUT:
                break
        expect("rdma_resolve_addr", answer, CMEventType.ADDR_RESOLVED)
        if _is_multicast(target):  # a group has no route before it is joined
            return
        raw.resolve_route(_milliseconds(deadline))
        expect("rdma_resolve_route", (yield "route"), CMEventType.ROUTE_RESOLVED)

    # ---- running ----

    def _run(self, operation: str, steps: Steps[_T], timeout: float | None) -> _T:
        """Go through an attempt; where it fails nothing of it is left."""
        timeout = checked_timeout(timeout)
        try:
            return self._channel.run(operation, steps, timeout)
        except BaseException as error:
            raise self._failed(error) from error.__cause__

    async def _run_async(self, operation: str, steps: Steps[_T], timeout: float | None) -> _T:
        timeout = checked_timeout(timeout)
        try:
            return await self._channel.run_async(operation, steps, timeout)
        except BaseException as error:
            raise self._failed(error) from error.__cause__

    def _failed(self, error: BaseException) -> BaseException:
        """Leave nothing of an attempt that failed; the error to raise for it."""
        if isinstance(error, VerbsError) and error.errno == errno.EALREADY:
            return error
        self._give_up()
        if isinstance(error, CMError) and error.private_data:
            try:
                error.private_data = self._data.unpack(error.private_data)
            except ValueError:  # a peer that tells no length: as it came
                pass
        if type(error) is VerbsError and error.operation.startswith("rdma_"):  # refused by the call itself
            return CMError(error.operation, error.errno or errno.EIO, error.detail)
        return error

    def _give_up(self) -> None:
        """Close without waiting: on iWARP an unanswered attempt holds its closer for ten seconds."""
        try:
            self._channel.close(without_waiting=self._is_iwarp())
        except VerbsError:  # the library has it for good; why the attempt failed says more
            pass
        self._stop_qp()

    def _is_iwarp(self) -> bool:
        try:
            device = self._channel.raw.device
        except VerbsError:  # closed
            return False
        return bool(device and device[2])

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
        if self._qp is not None and not self._qp.closed:
            raise VerbsError("CMID.create_qp", errno.EINVAL, "it has a queue pair already")
        qp: QP = pd.create_qp(init_attr)
        try:
            self._to(qp, QPState.INIT)
            if self._port_space != PortSpace.TCP:
                qp.modify(QPAttrMask.STATE, qp_state=QPState.RTR)
                qp.modify(QPAttrMask.STATE | QPAttrMask.SQ_PSN, qp_state=QPState.RTS, sq_psn=0)
        except BaseException:
            qp.close()
            raise
        self._qp = qp
        return qp

    def _to(self, qp: QP, state: int, **changes: int) -> None:
        mask, fields = self._channel.raw.qp_attr(int(state))
        fields.update(changes)
        qp.modify(mask, **fields)

    def _stop_qp(self) -> None:
        """Let what is posted come back with an error: the connection that would complete it is gone."""
        qp = self._qp
        if qp is None or qp.closed or self._port_space != PortSpace.TCP:
            return
        try:
            qp.modify(QPAttrMask.STATE, qp_state=QPState.ERR)
        except VerbsError:  # the device is gone, or the kernel was first
            pass

    def _qp_num(self, call: str) -> int:
        if self._qp is not None and not self._qp.closed:
            return self._qp.qp_num
        if self._port_space == PortSpace.TCP or call == "accept":
            raise VerbsError(f"CMID.{call}", errno.EINVAL, "it has no queue pair: create_qp() comes first")
        return 0  # a look-up needs none

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
        data, param = self._connect_param(
            private_data, responder_resources, initiator_depth, retry_count, rnr_retry_count
        )
        return self._run("CMID.connect", self._connecting(data, param), timeout)

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
        data, param = self._connect_param(
            private_data, responder_resources, initiator_depth, retry_count, rnr_retry_count
        )
        return await self._run_async("CMID.connect", self._connecting(data, param), timeout)

    def _connect_param(
        self, private_data: bytes, responder_resources: int, initiator_depth: int, retry_count: int, rnr_retry: int
    ) -> tuple[bytes, tuple[int, ...]]:
        self._check_open("connect")
        if self._server:
            raise VerbsError("CMID.connect", errno.EINVAL, "it is a peer's request: accept() or reject() it")
        data = self._data.pack(private_data, self._port_space, self._is_iwarp(), "connect")
        answers, issues = self._limits()
        return data, (
            _within("responder_resources", responder_resources, answers),
            _within("initiator_depth", initiator_depth, issues),
            _within("retry_count", retry_count, 7),
            _within("rnr_retry_count", rnr_retry, 7),
            self._qp_num("connect"),
        )

    def _limits(self) -> tuple[int, int]:
        """How many reads and atomics of a queue pair this device answers, and how many it has under way, at most."""
        attr = self.context.query_device()
        return min(attr.max_qp_rd_atom, _MAX_DEPTH), min(attr.max_qp_init_rd_atom, _MAX_DEPTH)

    def _connecting(self, data: bytes, param: tuple[int, ...]) -> Steps[bytes]:
        raw, qp = self._channel.raw, self._qp
        if self._is_iwarp():  # the call itself waits there until the host answers
            self._channel.start(lambda: raw.connect(data, *param))
        else:
            raw.connect(data, *param)
        answer = expect("rdma_connect", (yield "peer"), CMEventType.CONNECT_RESPONSE, CMEventType.ESTABLISHED)
        if answer.event.event == CMEventType.CONNECT_RESPONSE:
            assert qp is not None
            self._to(qp, QPState.INIT)
            self._to(qp, QPState.RTR, min_rnr_timer=_MIN_RNR_TIMER)
            self._to(qp, QPState.RTS)
            raw.establish()
        if self._port_space != PortSpace.TCP:
            self._remote = (answer.parameters[0], answer.parameters[1], answer.parameters[2])
        try:
            words = self._data.unpack(answer.event.private_data)
        except ValueError as error:
            raise CMError("CMID.connect", errno.EPROTO, str(error)) from None
        self._channel.established = True
        return words

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
        timeout = checked_timeout(timeout)
        data, param = self._accept_param(private_data, responder_resources, initiator_depth, rnr_retry_count)
        if timeout == 0:
            try:
                self._accept_now(data, param)
            except BaseException as error:
                raise self._failed(error) from error.__cause__
        else:
            self._run("CMID.accept", self._accepting(data, param), timeout)

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
        data, param = self._accept_param(private_data, responder_resources, initiator_depth, rnr_retry_count)
        await self._run_async("CMID.accept", self._accepting(data, param), timeout)

    def _accept_param(
        self, private_data: bytes, responder_resources: int | None, initiator_depth: int | None, rnr_retry: int
    ) -> tuple[bytes, tuple[int, ...]]:
        request = self._pending("accept")
        data = self._data.pack(private_data, self._port_space, self._is_iwarp(), "accept")
        answers, issues = self._limits()
        mine = (
            answers if responder_resources is None else _within("responder_resources", responder_resources, answers),
            issues if initiator_depth is None else _within("initiator_depth", initiator_depth, issues),
        )
        theirs = request.parameters[:2] if self._port_space == PortSpace.TCP else (0, 0)
        return data, (
            min(mine[0], theirs[0]),
            min(mine[1], theirs[1]),
            0,
            _within("rnr_retry_count", rnr_retry, 7),
            self._qp_num("accept"),
        )

    def _accept_now(self, data: bytes, param: tuple[int, ...]) -> None:
        raw, qp = self._channel.raw, self._qp
        if qp is not None and self._port_space == PortSpace.TCP and not self._is_iwarp():
            self._to(qp, QPState.INIT)
            self._to(qp, QPState.RTR, min_rnr_timer=_MIN_RNR_TIMER, max_dest_rd_atomic=param[0])
            self._to(qp, QPState.RTS, max_rd_atomic=param[1])
        raw.accept(data, *param)
        self._request = None
        if self._port_space != PortSpace.TCP:  # nothing is told of it any more
            self._channel.established = True

    def _accepting(self, data: bytes, param: tuple[int, ...]) -> Steps[None]:
        self._accept_now(data, param)
        if self._port_space == PortSpace.TCP:
            expect("rdma_accept", (yield "peer"), CMEventType.ESTABLISHED)
        self._channel.established = True

    def reject(self, private_data: bytes = b"") -> None:
        """Refuse a peer's request, which gets the private data, and close the identifier.

        At most 148 bytes on InfiniBand and RoCE, 251 on iWARP. ``rdma_reject``.
        """
        self._pending("reject")
        data = self._data.pack(private_data, self._port_space, self._is_iwarp(), "reject")
        self._request = None
        try:
            self._channel.raw.reject(data)
        finally:
            self._give_up()

    def _pending(self, call: str) -> Answer:
        self._check_open(call)
        if self._request is None:
            why = "it was answered already" if self._server else "it is not a peer's request"
            raise VerbsError(f"CMID.{call}", errno.EINVAL, why)
        return self._request

    @property
    def private_data(self) -> bytes:
        """What a peer sent with its request; empty on a client."""
        return self._private_data

    _private_data = b""

    # ---- the end ----

    def disconnect(self) -> None:
        """End the connection: what is posted comes back flushed, and the peer is told. Twice is harmless.

        Does not wait for the peer. Raises ``VerbsError`` with ENOTCONN where there was none. ``rdma_disconnect``.
        """
        self._check_open("disconnect")
        if self._request is not None or self._qp is None:
            raise VerbsError("CMID.disconnect", errno.ENOTCONN, "it is not connected")
        try:
            self._channel.raw.disconnect()
        except VerbsError as error:
            if error.errno == errno.EINVAL:  # it never was
                raise VerbsError("CMID.disconnect", errno.ENOTCONN, "it is not connected") from None
            raise
        self._channel.established = False
        self._stop_qp()

    def close(self) -> None:
        """Give the identifier back; a connection ends, and a request that was not answered is refused.

        The peer sees it at once, and nothing is waited for. The queue pair stays, in state ERR, until it is closed
        itself. Twice is harmless. ``rdma_destroy_id``.
        """
        self._channel.close()
        self._stop_qp()
        self._qp = None

    def __enter__(self) -> CMID:
        self._check_open("__enter__")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- events ----

    @property
    def fd(self) -> int:
        """A descriptor that is readable while RDMA-CM has something to tell; then call ``get_event(0)`` until None."""
        self._check_open("fd")
        return self._channel.fd

    def get_event(self, timeout: float | None = None) -> CMEvent | None:
        """Wait for news of the connection (DISCONNECTED, DEVICE_REMOVAL, ADDR_CHANGE …); None when the time is over.

        UNREACHABLE on a connection that is there tells of its path, not of its end. ``rdma_get_cm_event``.
        """
        self._check_open("get_event")
        event = self._channel.wait(self._channel.news, checked_timeout(timeout))
        if event is not None:
            self._notice(event)
        return event

    async def next_event(self) -> CMEvent:
        """The next of them, in the running event loop. Cancelling loses nothing."""
        self._check_open("next_event")
        while True:
            event = await self._channel.wait_async(self._channel.news, None)
            if event is not None:
                self._notice(event)
                return event

    def _notice(self, event: CMEvent) -> None:
        if event.event == CMEventType.DISCONNECTED:
            self._stop_qp()

    def events(self) -> Iterator[CMEvent]:
        """Iterate over the news, waiting for each, until the identifier is closed."""
        while True:
            try:
                event = self.get_event()
            except VerbsError as error:
                if error.errno == errno.EBADF:
                    return
                raise
            if event is not None:
                yield event

    # ---- datagrams and multicast ----

    @property
    def remote(self) -> tuple[AHAttr, int, int] | None:
        """Where datagrams go, after ``connect``: (AHAttr for ``pd.create_ah``, QP number, qkey); None before."""
        return self._remote

    def join_multicast(self, group: str, *, send_only: bool = False, timeout: float | None = 5.0) -> MulticastGroup:
        """Join a multicast group, by its IP address, and attach the queue pair to it unless only sending.

        Only on ``PortSpace.UDP`` and ``PortSpace.IPOIB``, and before ``connect``: resolve the group itself, with the
        ``source`` that says which device. ``rdma_join_multicast_ex``, ``ibv_attach_mcast``.
        """
        self._check_open("join_multicast")
        family, address = _addresses(group, 0)[0]
        raw = self._channel.raw

        def joining() -> Steps[Answer]:
            raw.join(address, send_only)
            return expect("rdma_join_multicast", (yield "group"), CMEventType.MULTICAST_JOIN)

        try:
            answer = self._channel.run("CMID.join_multicast", joining(), checked_timeout(timeout))
            ah_attr, qpn, qkey = answer.parameters
            return MulticastGroup(self, group, address, ah_attr, qpn, qkey, None if send_only else self._qp)
        except BaseException as error:
            if isinstance(error, VerbsError) and error.errno == errno.EALREADY:
                raise
            try:
                raw.leave(address)  # also what may still be told of it
            except VerbsError:  # it never was joined
                pass
            raise

    # ---- what it is ----

    @property
    def context(self) -> Context:
        """The device's Context, one for all connections over it. It cannot be closed: it goes with its last user."""
        if self._context is None:
            self._check_open("context")
            self._device()
            self._context = _shared_context(self._channel.raw)
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
        return self._qp

    @property
    def connected(self) -> bool:
        """Whether the connection is there, as far as was told."""
        if not self._channel.closed:
            self._channel.look()
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
        return _host_port(self._channel.raw.source)[0]

    def _check_open(self, name: str) -> None:
        if self._channel.closed:
            raise VerbsError(f"CMID.{name}", errno.EBADF, "the CMID is closed")

    def __repr__(self) -> str:
        if self._channel.closed:
            return "<CMID, closed>"
        state = "connected" if self._channel.established else "requested" if self._request else "not connected"
        return f"<CMID {self._host}:{self._port} {state}>"


def _within(name: str, value: int, most: int) -> int:
    value = index(value)
    if not 0 <= value <= most:
        raise RangeError(f"{name} must be between 0 and {most}, got {value}")
    return value


async def _in_thread(call: Callable[[], _T]) -> _T:
    from asyncio import get_running_loop  # only programs that use it pay for its import

    return await get_running_loop().run_in_executor(None, call)


# ---- multicast -----------------------------------------------------------------------------------------------------


class MulticastGroup:
    """Membership in a multicast group, until ``close()``: ``CMID.join_multicast`` makes it."""

    def __init__(
        self, cmid: CMID, host: str, address: bytes, ah_attr: AHAttr, qp_num: int, qkey: int, qp: QP | None
    ) -> None:
        self._cmid = cmid
        self._address = address
        self.host = host
        """The group's address."""
        self.ah_attr = ah_attr
        """For ``pd.create_ah``: where to send."""
        self.qp_num = qp_num
        """The number to send to, 0xffffff."""
        self.qkey = qkey
        """The key to send with."""
        self._gid = bytes(ah_attr.dgid or 16)
        self._qp = qp
        self._closed = False
        if qp is not None:
            qp.attach_mcast(self._gid, ah_attr.dlid)

    @property
    def closed(self) -> bool:
        """Whether it was left."""
        return self._closed

    def close(self) -> None:
        """Leave the group. Twice is harmless. ``ibv_detach_mcast``, ``rdma_leave_multicast``."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._qp is not None and not self._qp.closed:
                self._qp.detach_mcast(self._gid, self.ah_attr.dlid)
        finally:
            if not self._cmid.closed:
                self._cmid._channel.raw.leave(self._address)

    def __enter__(self) -> MulticastGroup:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<MulticastGroup {self.host}{', left' if self._closed else ''}>"


# ---- a server ------------------------------------------------------------------------------------------------------

_OPTION_REUSEADDR, _OPTION_AFONLY = 1, 2


class CMListener:
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
        port, backlog = _check_port(port, 0), _within("backlog", backlog, 0x7FFFFFFF)
        if not host:
            host = "0.0.0.0"
        family, address = _addresses(host, port, passive=True)[0]
        self._port_space = port_space
        self._data = _PrivateData(exact_private_data)
        self._channel = Channel.open(port_space)
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
        timeout = checked_timeout(timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            self._check_open("get_request")
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            answer = self._channel.wait(self._channel.answers, left)
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
            answer = await self._channel.wait_async(self._channel.answers, None)
            request = self._request(answer) if answer is not None else None
        return request

    def _request(self, answer: Answer) -> CMID | None:
        """The identifier of a request; None for one that does not say its length where it should, and is refused."""
        expect("rdma_get_cm_event", answer, CMEventType.CONNECT_REQUEST)
        channel = answer.request
        assert channel is not None
        made = CMID._make(channel, self._port_space, self._data, answer)
        made._host, made._port = _host_port(channel.raw.target)
        try:
            made._private_data = self._data.unpack(answer.event.private_data)
        except ValueError:
            made.close()
            return None
        return made

    def __iter__(self) -> Iterator[CMID]:
        while True:
            try:
                request = self.get_request()
            except VerbsError as error:
                if error.errno == errno.EBADF:
                    return
                raise
            if request is not None:
                yield request

    async def __aiter__(self) -> AsyncIterator[CMID]:
        while True:
            try:
                request = await self.next_request()
            except VerbsError as error:
                if error.errno == errno.EBADF:
                    return
                raise
            yield request

    @property
    def fd(self) -> int:
        """A descriptor that is readable while a request waits."""
        self._check_open("fd")
        return self._channel.fd

    @property
    def host(self) -> str:
        """The address that it listens on."""
        self._check_open("host")
        return _host_port(self._channel.raw.source)[0]

    @property
    def port(self) -> int:
        """The port that it listens on."""
        self._check_open("port")
        return _host_port(self._channel.raw.source)[1]

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._channel.closed

    def close(self) -> None:
        """Stop listening; requests that nobody read are refused. Twice is harmless."""
        self._channel.close()

    def _check_open(self, name: str) -> None:
        if self._channel.closed:
            raise VerbsError(f"CMListener.{name}", errno.EBADF, "the CMListener is closed")

    def __enter__(self) -> CMListener:
        self._check_open("__enter__")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self.closed:
            return "<CMListener, closed>"
        return f"<CMListener {self.host}:{self.port}>"
