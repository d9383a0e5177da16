# SPDX-License-Identifier: BSD-3-Clause
"""What two peers tell each other, and the way of an RC queue pair from RESET to RTS."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import _ibverbs as c
from .tensors import reg_tensor, tensor_addr_len
from .wire import WireRecord, gid_bytes, integer

if TYPE_CHECKING:  # a union of classes, kept by typing at run time, would keep the extension module to the very end
    from ._ibverbs import _GidLike

__all__ = ["QPInfo", "connect_rc", "local_qp_info", "reg_tensor", "tensor_addr_len"]


@dataclass(init=False)
class QPInfo(WireRecord):
    """What a peer has to know to connect to a queue pair; ``to_bytes()`` is how it travels: in 28 bytes, the fields
    in order as u32, u32, u16, 16 bytes, u8, u8.

    Mutable, and compared by value. A field is checked whenever it is set: ``ValueError`` for a value out of range
    or a GID that is not 16 bytes, ``TypeError`` for something of the wrong kind.
    """

    qp_num: int
    """The queue pair's number, 24 bits."""
    psn: int
    """The packet number that it sends from, 24 bits."""
    lid: int
    """The port's local identifier, 16 bits; 0 where the link layer has none (Ethernet)."""
    gid: bytes
    """The port's GID, 16 bytes; a Gid or anything bytes-like may be set."""
    port: int
    """The port's number at its device, 1 to 255."""
    mtu: int
    """The port's active MTU, an ``MTU`` value."""

    _layout = struct.Struct("!IIH16sBB")
    _fields = {
        "qp_num": lambda value: integer("QPInfo.qp_num", value, 0, 2**24 - 1),
        "psn": lambda value: integer("QPInfo.psn", value, 0, 2**24 - 1),
        "lid": lambda value: integer("QPInfo.lid", value, 0, 2**16 - 1),
        "gid": lambda value: gid_bytes("QPInfo.gid", value),
        "port": lambda value: integer("QPInfo.port", value, 1, 2**8 - 1),
        "mtu": lambda value: integer("QPInfo.mtu", value, c.IBV_MTU_256, c.IBV_MTU_4096),
    }

    def __init__(self, qp_num: int, psn: int, lid: int, gid: _GidLike, port: int, mtu: int) -> None:
        self.qp_num = qp_num
        self.psn = psn
        self.lid = lid
        self.gid = gid  # type: ignore[assignment]  # __setattr__ makes bytes of it
        self.port = port
        self.mtu = mtu


def local_qp_info(qp: c.QP, port_attr: c.PortAttr, gid: _GidLike, *, port: int, psn: int = 0) -> QPInfo:
    """Return what a peer has to know about this queue pair on this port.

    ``port_attr`` is from ``ctx.query_port(port)``, ``gid`` from ``ctx.query_gid(port, index)`` with the index that
    will be ``connect_rc``'s ``sgid_index``. The peer starts from ``psn``: give ``connect_rc`` the same as
    ``local_psn``.
    """
    return QPInfo(qp.qp_num, psn, port_attr.lid, gid, port, port_attr.active_mtu)


# What goes on to to_rts(), with the most that each holds.
_TO_RTS = {"timeout": 31, "retry_cnt": 7, "rnr_retry": 7, "max_rd_atomic": 255}
_REMOTE = ("qp_num", "psn", "lid", "gid", "mtu")
_ROUTED_HOP_LIMIT = 64
_GRH_REQUIRED = 1  # IBV_QPF_GRH_REQUIRED, the only port flag there is
_ETHERNET = 2  # IBV_LINK_LAYER_ETHERNET


def connect_rc(
    qp: c.QP,
    remote: QPInfo,
    *,
    port: int,
    sgid_index: int,
    access: int,
    local_psn: int = 0,
    mtu: int | None = None,
    max_dest_rd_atomic: int = 1,
    min_rnr_timer: int = 12,
    hop_limit: int | None = None,
    is_global: bool | None = None,
    recv: c.RecvWR | Iterable[c.RecvWR] | None = None,
    **rts_kwargs: int,
) -> None:
    """Take an RC queue pair from RESET through INIT and RTR to RTS, connected to ``remote``.

    Both ends call this, in any order, once each has the other's ``QPInfo``. A peer that is ahead may send before
    this call returns: give its first receives as ``recv``, one RecvWR or several. They are posted between INIT and
    RTR, to the SRQ where the queue pair has one, so that no message comes before them. A queue pair that is in INIT
    already, perhaps with receives, goes on from there. One in another state has to be reset first:
    ``qp.modify(QPAttrMask.STATE, qp_state=QPState.RESET)``.

    ``port`` and ``sgid_index`` are the local port and GID; ``access`` (``AccessFlags``) is what the peer may do;
    ``local_psn`` is the ``psn`` of the QPInfo that the peer was given. ``mtu`` None is the smaller of both ports'
    active MTU.

    ``is_global`` says whether packets carry a global routing header. None follows the link layer: on Ethernet they
    always do; on InfiniBand when the port demands it, when the GIDs' prefixes differ, or when the peer has no LID;
    else the peer is addressed by its LID. ``hop_limit`` None is 64 with that header.

    ``max_dest_rd_atomic`` (reads and atomics of the peer that are answered at once; 1 makes a stream of reads slow)
    must not be less than the peer's ``max_rd_atomic``, or the peer's queue pair fails. ``min_rnr_timer`` is how long
    a peer that found no receive has to wait; it is a code, for which there is ``rnr_timer(us)``, and 0 is the longest,
    655 ms. The rest goes to ``QP.to_rts``: ``timeout`` (a code too: ``ack_timeout(us)``), ``retry_cnt``, ``rnr_retry``,
    ``max_rd_atomic``.

    Raises ``TypeError`` for another keyword or something of the wrong kind and ``ValueError`` for a value out of range
    or a depth that this device does not have, all before the queue pair is touched; a receive that is refused leaves it
    in INIT. The verbs called are
    ``ibv_query_port``, ``ibv_query_gid``, ``ibv_query_device`` when a depth is given, and three times
    ``ibv_modify_qp``.
    """
    for name in rts_kwargs:
        if name not in _TO_RTS:
            raise TypeError(f"connect_rc() got an unexpected keyword argument {name!r}")
    for name in _REMOTE:
        if not hasattr(remote, name):
            raise TypeError(f"remote must be a QPInfo, got {type(remote).__name__}")
    gid = gid_bytes("remote.gid", remote.gid)
    for name, value, most in (
        ("remote.qp_num", remote.qp_num, 2**24 - 1),
        ("remote.psn", remote.psn, 2**24 - 1),
        ("remote.lid", remote.lid, 2**16 - 1),
        ("sgid_index", sgid_index, 2**8 - 1),
        ("access", access, 2**32 - 1),
        ("local_psn", local_psn, 2**24 - 1),
        ("min_rnr_timer", min_rnr_timer, 31),
        ("hop_limit", 0 if hop_limit is None else hop_limit, 2**8 - 1),
        *((name, value, _TO_RTS[name]) for name, value in rts_kwargs.items() if name != "max_rd_atomic"),
    ):
        integer(name, value, 0, most)
    integer("remote.mtu" if mtu is None else "mtu", remote.mtu if mtu is None else mtu, c.IBV_MTU_256, c.IBV_MTU_4096)
    ctx = qp.pd.context
    _check_depths(ctx, max_dest_rd_atomic, rts_kwargs.get("max_rd_atomic", 1))
    port_attr = ctx.query_port(port)
    if mtu is None:
        mtu = min(port_attr.active_mtu, remote.mtu)
    if is_global is None:
        is_global = _needs_grh(ctx, port_attr, port, sgid_index, remote.lid, gid)
    if hop_limit is None:
        hop_limit = _ROUTED_HOP_LIMIT if is_global else 1

    qp.to_init(port, access)
    if recv is not None:
        (qp if qp.srq is None else qp.srq).post_recv(recv)
    qp.to_rtr(
        remote,
        sgid_index,
        mtu=mtu,
        hop_limit=hop_limit,
        min_rnr_timer=min_rnr_timer,
        max_dest_rd_atomic=max_dest_rd_atomic,
        is_global=is_global,
    )
    qp.to_rts(local_psn, **rts_kwargs)


def _check_depths(ctx: c.Context, max_dest_rd_atomic: int, max_rd_atomic: int) -> None:
    """Compare the depths of reads and atomics with the device's, which does not say which of them it refused."""
    if max_dest_rd_atomic == 1 and max_rd_atomic == 1:
        return
    attr = ctx.query_device()
    for name, depth, limit, of in (
        ("max_dest_rd_atomic", max_dest_rd_atomic, attr.max_qp_rd_atom, "max_qp_rd_atom"),
        ("max_rd_atomic", max_rd_atomic, attr.max_qp_init_rd_atom, "max_qp_init_rd_atom"),
    ):
        integer(name, depth, 0, limit, f", the {of} of device {ctx.name}")


def _needs_grh(ctx: c.Context, port_attr: c.PortAttr, port: int, sgid_index: int, lid: int, gid: bytes) -> bool:
    """Whether packets to the peer need a global routing header on this port."""
    if port_attr.link_layer == _ETHERNET or port_attr.flags & _GRH_REQUIRED or lid == 0:
        return True
    return bytes(ctx.query_gid(port, sgid_index))[:8] != gid[:8]
