# SPDX-License-Identifier: BSD-3-Clause
"""The queue pair of an identifier, and the states that its connection takes it through."""

from __future__ import annotations

import errno
from typing import Any

from ._ibverbs import QP, VerbsError
from .cm_address import PortSpace
from .cm_channel import Channel
from .cm_depths import Depths
from .enums import QPAttrMask, QPState

__all__ = ["ConnectedQP"]

_MIN_RNR_TIMER = 12  # 0.64 ms; the kernel's 0 means 655 ms


class ConnectedQP:
    """An ordinary QP, once ``create`` made it: librdmacm knows it by its number only."""

    def __init__(self, channel: Channel, port_space: PortSpace) -> None:
        self._channel = channel
        self._reliable = port_space == PortSpace.TCP
        self.qp: QP | None = None

    def create(self, pd: Any, init_attr: Any) -> QP:
        """Make it, in INIT; for datagrams in RTS, which nothing else would take it to."""
        if self.qp is not None and not self.qp.closed:
            raise VerbsError("CMID.create_qp", errno.EINVAL, "it has a queue pair already")
        qp: QP = pd.create_qp(init_attr)
        try:
            self._to(qp, QPState.INIT)
            if not self._reliable:
                qp.modify(QPAttrMask.STATE, qp_state=QPState.RTR)
                qp.modify(QPAttrMask.STATE | QPAttrMask.SQ_PSN, qp_state=QPState.RTS, sq_psn=0)
        except BaseException:
            qp.close()
            raise
        self.qp = qp
        return qp

    def number(self, call: str) -> int:
        """What the peer has to know. Raises EINVAL where ``call`` needs a queue pair and there is none."""
        if self.qp is not None and not self.qp.closed:
            return self.qp.qp_num
        if self._reliable or call == "accept":
            raise VerbsError(f"CMID.{call}", errno.EINVAL, "it has no queue pair: create_qp() comes first")
        return 0  # a look-up needs none

    def to_rts(self, depths: Depths | None = None) -> None:
        """Through every state to RTS; with other depths than the peer asked for, if given."""
        qp = self.qp
        assert qp is not None
        self._to(qp, QPState.INIT)
        answers = {} if depths is None else {"max_dest_rd_atomic": depths.responder_resources}
        self._to(qp, QPState.RTR, min_rnr_timer=_MIN_RNR_TIMER, **answers)
        asks = {} if depths is None else {"max_rd_atomic": depths.initiator_depth}
        self._to(qp, QPState.RTS, **asks)

    def _to(self, qp: QP, state: QPState, **changes: int) -> None:
        mask, fields = self._channel.raw.qp_attr(int(state))
        fields.update(changes)
        qp.modify(mask, **fields)

    def stop(self) -> None:
        """Let what is posted come back with an error: the connection that would complete it is gone."""
        qp = self.qp
        if qp is None or qp.closed or not self._reliable:
            return
        try:
            qp.modify(QPAttrMask.STATE, qp_state=QPState.ERR)
        except VerbsError:  # the device is gone, or the kernel was first
            pass
