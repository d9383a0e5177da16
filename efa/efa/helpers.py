# SPDX-License-Identifier: BSD-3-Clause
"""What peers tell each other, where requests go, and the requests of a long transfer."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from . import _efa as c
from .closing import Closing
from .tensors import reg_tensor, tensor_addr_len
from .wire import WireRecord, gid_bytes, integer

if TYPE_CHECKING:  # a union of classes, kept by typing at run time, would keep the extension module to the very end
    from ._efa import _GidLike

__all__ = [
    "EndpointInfo",
    "Peer",
    "local_endpoint_info",
    "read_wrs",
    "reg_tensor",
    "tensor_addr_len",
    "write_wrs",
]


# ---- addresses -----------------------------------------------------------------------------------------------------


class Peer(c._Peer, Closing):
    """Where requests go: an address handle, a queue pair number and a qkey. ``EndpointInfo.peer`` makes one.

    It owns the handle: ``close()`` (or the end of ``with``, or being collected) releases it, and ``ah`` is None
    afterwards. Give it to ``SendWR(dest=...)``. A target of RDMA has to keep a Peer of the initiator open as well, or
    the device refuses the initiator as unknown.
    """

    __slots__ = ("__weakref__",)

    def __init__(self, ah: c.AH, qp_num: int, qkey: int) -> None:
        """All of it is done when the object is made."""

    @property
    def closed(self) -> bool:
        """Whether the handle was released."""
        ah = self.ah  # once: another thread may close it in between
        return ah is None or ah.closed

    def close(self) -> None:
        """Release the address handle; harmless when done again. ``ibv_destroy_ah``."""
        ah = self.ah
        if ah is not None:
            ah.close()
            self._drop()

    def __repr__(self) -> str:
        return f"<Peer qp_num={self.qp_num:#x} qkey={self.qkey:#x}{', closed' if self.closed else ''}>"


@dataclass(init=False)
class EndpointInfo(WireRecord):
    """What a peer has to know to reach a queue pair; ``to_bytes()`` is how it travels: in 24 bytes, the fields in
    order as 16 bytes, u32, u32.

    Mutable, and compared by value. A field is checked whenever it is set: ``ValueError`` for a value out of range
    or a GID that is not 16 bytes, ``TypeError`` for something of the wrong kind.
    """

    gid: bytes
    """The device's GID, 16 bytes; a Gid or anything bytes-like may be set."""
    qp_num: int
    """The queue pair's number, 24 bits."""
    qkey: int
    """The qkey that the queue pair was prepared with, 32 bits."""

    _layout = struct.Struct("!16sII")
    _fields = {
        "gid": lambda value: gid_bytes("EndpointInfo.gid", value),
        "qp_num": lambda value: integer("EndpointInfo.qp_num", value, 0, 2**24 - 1),
        "qkey": lambda value: integer("EndpointInfo.qkey", value, 0, 2**32 - 1),
    }

    def __init__(self, gid: _GidLike, qp_num: int, qkey: int) -> None:
        self.gid = gid  # type: ignore[assignment]  # __setattr__ makes bytes of it
        self.qp_num = qp_num
        self.qkey = qkey

    def peer(self, pd: c.PD, sgid_index: int = 0, port: int = 1) -> Peer:
        """Make an address handle in ``pd`` and return it as a Peer, which owns it. ``ibv_create_ah``."""
        return Peer(pd.create_ah(self.gid, sgid_index, port), self.qp_num, self.qkey)


def local_endpoint_info(
    qp: c.QP, qkey: int, *, gid: _GidLike | None = None, gid_index: int = 0, port: int = 1
) -> EndpointInfo:
    """Return what a peer has to know about this queue pair.

    ``qkey`` is the one that the queue pair was (or will be) prepared with; ``gid`` None asks the device for entry
    ``gid_index`` of its port's table. ``ibv_query_gid``.
    """
    if gid is None:
        gid = qp.pd.context.query_gid(port, gid_index)
    return EndpointInfo(gid, qp.qp_num, qkey)


# ---- large transfers -----------------------------------------------------------------------------------------------


class _Region(Protocol):
    """What serves as an MR."""

    @property
    def addr(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def lkey(self) -> int: ...


class _Destination(Protocol):
    """What serves as a Peer."""

    @property
    def ah(self) -> c.AH | None: ...
    @property
    def qp_num(self) -> int: ...
    @property
    def qkey(self) -> int: ...


_SGE_MOST = 2**32 - 1


def _chunks(length: int | None, offset: int, chunk: int, region: int) -> list[tuple[int, int]]:
    """The pieces of a range, in order, each an offset into the region and a length."""
    offset = integer("offset", offset, 0, region)
    length = region - offset if length is None else integer("length", length, -(2**64), 2**64)
    chunk = integer("chunk", chunk, 1, _SGE_MOST)
    if not 1 <= length <= region - offset:
        raise ValueError(f"length must be from 1 to the {region - offset} bytes behind offset {offset}, got {length}")
    end = offset + length
    return [(start, min(chunk, end - start)) for start in range(offset, end, chunk)]


def _length_of(mr: _Region) -> int:
    try:
        length = mr.length
    except AttributeError:
        raise TypeError(f"mr must be an MR or an object with addr, length and lkey, not {type(mr).__name__}") from None
    return integer("mr.length", length, 0, 2**64 - 1)


def _rdma_wrs(
    opcode: int,
    mr: _Region,
    dest: _Destination,
    remote_addr: int,
    rkey: int,
    length: int | None,
    offset: int,
    chunk: int,
    wr_id: int,
) -> list[c.SendWR]:
    first = integer("wr_id", wr_id, 0, 2**64 - 1)
    wrs = []
    to = integer("remote_addr", remote_addr, 0, 2**64 - 1)
    for number, (at, size) in enumerate(_chunks(length, offset, chunk, _length_of(mr)), first):
        wrs.append(c.SendWR(number, [c.SGE(mr, size, offset=at)], opcode, c.IBV_SEND_SIGNALED, to, rkey, dest=dest))
        to += size
    return wrs


def write_wrs(
    mr: _Region,
    dest: _Destination,
    remote_addr: int,
    rkey: int,
    *,
    length: int | None = None,
    offset: int = 0,
    chunk: int = 2**30,
    wr_id: int = 0,
) -> list[c.SendWR]:
    """Return the requests that write a range of a region to a peer's memory, to be posted with ``QP.post_send``.

    The range is ``length`` bytes of ``mr`` (an MR, or anything with ``addr``, ``length`` and ``lkey``) from ``offset``
    on, None reaching to its end; it goes to ``remote_addr`` in the peer's region of ``rkey``. It is cut into pieces of
    at most ``chunk`` bytes, each a signaled request; their numbers count up from ``wr_id``. No request is longer than
    ``query_efa_device().max_rdma_size`` may be, so give a smaller chunk where that is less.

    Requests complete in any order: the transfer is over when as many completions have come as there are requests.
    Raises ``ValueError`` for a length below 1 or outside of the region, or a chunk below 1.
    """
    return _rdma_wrs(c.IBV_WR_RDMA_WRITE, mr, dest, remote_addr, rkey, length, offset, chunk, wr_id)


def read_wrs(
    mr: _Region,
    dest: _Destination,
    remote_addr: int,
    rkey: int,
    *,
    length: int | None = None,
    offset: int = 0,
    chunk: int = 2**30,
    wr_id: int = 0,
) -> list[c.SendWR]:
    """Return the requests that read a range of a peer's memory into a region: the counterpart of ``write_wrs``.

    The completions of reads have the opcode ``WCOpcode.SEND`` on EFA: tell them by ``wr_id``.
    """
    return _rdma_wrs(c.IBV_WR_RDMA_READ, mr, dest, remote_addr, rkey, length, offset, chunk, wr_id)
