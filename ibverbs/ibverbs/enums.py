# SPDX-License-Identifier: BSD-3-Clause
"""The constants of the verbs API as enums; every value is the C library's."""

from __future__ import annotations

from enum import IntEnum

from . import _ibverbs as c
from .verbs_enums import (
    MTU,
    AccessFlags,
    EventType,
    ForkStatus,
    GidType,
    NodeType,
    PortState,
    QPAttrMask,
    QPState,
    SendFlags,
    TransportType,
    WCFlags,
    WCOpcode,
    WCStatus,
    WROpcode,
)

__all__ = [
    "AccessFlags",
    "EventType",
    "ForkStatus",
    "GidType",
    "MTU",
    "NodeType",
    "PortState",
    "QPAttrMask",
    "QPState",
    "QPType",
    "SendFlags",
    "TransportType",
    "WCFlags",
    "WCOpcode",
    "WCStatus",
    "WROpcode",
]


class QPType(IntEnum):
    """The transport service of a queue pair (``enum ibv_qp_type``)."""

    RC = c.IBV_QPT_RC
    """Reliable connection: one peer, in order, acknowledged; all operations."""
    UC = c.IBV_QPT_UC
    """Unreliable connection: one peer, in order, losses not repaired; sends and writes."""
    UD = c.IBV_QPT_UD
    """Unreliable datagram: any peer, one packet per message; sends only."""
    RAW_PACKET = c.IBV_QPT_RAW_PACKET
    """Whole Ethernet frames."""
    XRC_SEND = c.IBV_QPT_XRC_SEND
    """The sending half of an extended reliable connection."""
    XRC_RECV = c.IBV_QPT_XRC_RECV
    """The receiving half of an extended reliable connection."""
    DRIVER = c.IBV_QPT_DRIVER
    """A transport of the provider's own."""
