# SPDX-License-Identifier: BSD-3-Clause
"""Membership in a multicast group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._ibverbs import QP, AHAttr
from .closing import Closing

if TYPE_CHECKING:
    from .cm_id import CMID

__all__ = ["MulticastGroup"]


class MulticastGroup(Closing):
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
            self._cmid._leave(self._address)

    def __repr__(self) -> str:
        return f"<MulticastGroup {self.host}{', left' if self._closed else ''}>"
