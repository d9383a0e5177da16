# SPDX-License-Identifier: BSD-3-Clause
"""The constants of the verbs API and of EFA's direct verbs as enums; every value is the C library's."""

from __future__ import annotations

from enum import IntEnum, IntFlag

from . import _efa as c
from .flags import FlagOps, flag_operators
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
    "CompCntrOps",
    "CreateCQWCFlags",
    "EfaDeviceCaps",
    "EventType",
    "ForkStatus",
    "GidType",
    "MTU",
    "NodeType",
    "PortState",
    "ProcessingHints",
    "QPAttrMask",
    "QPExSendOpsFlags",
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
    """The transport service of a queue pair on EFA (``enum ibv_qp_type``)."""

    UD = c.IBV_QPT_UD
    """Unreliable datagram: any peer, one packet per message; sends only."""
    SRD = c.IBV_QPT_DRIVER
    """Scalable reliable datagram: any peer, acknowledged, in any order; sends, and RDMA where the device has it."""


@flag_operators
class QPExSendOpsFlags(FlagOps, IntFlag):
    """The operations that a queue pair is made for (``enum ibv_qp_create_send_ops_flags``)."""

    RDMA_WRITE = c.IBV_QP_EX_WITH_RDMA_WRITE
    """RDMA write."""
    RDMA_WRITE_WITH_IMM = c.IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM
    """RDMA write that tells the peer, with 32 bits."""
    SEND = c.IBV_QP_EX_WITH_SEND
    """Send."""
    SEND_WITH_IMM = c.IBV_QP_EX_WITH_SEND_WITH_IMM
    """Send with 32 bits beside the data."""
    RDMA_READ = c.IBV_QP_EX_WITH_RDMA_READ
    """RDMA read."""


@flag_operators
class CreateCQWCFlags(FlagOps, IntFlag):
    """What the completions of an extended queue tell (``enum ibv_create_cq_wc_flags``); the rest of a WC stays 0."""

    BYTE_LEN = c.IBV_WC_EX_WITH_BYTE_LEN
    """``byte_len``."""
    IMM = c.IBV_WC_EX_WITH_IMM
    """``imm_data``."""
    QP_NUM = c.IBV_WC_EX_WITH_QP_NUM
    """``qp_num``."""
    SRC_QP = c.IBV_WC_EX_WITH_SRC_QP
    """``src_qp``."""
    SLID = c.IBV_WC_EX_WITH_SLID
    """``slid``: of EFA, the number of the sender's address handle, 0xFFFF where there is none."""
    SL = c.IBV_WC_EX_WITH_SL
    """``sl``."""
    DLID_PATH_BITS = c.IBV_WC_EX_WITH_DLID_PATH_BITS
    """``dlid_path_bits``."""
    STANDARD = c.IBV_WC_STANDARD_FLAGS
    """All of them."""


@flag_operators
class EfaDeviceCaps(FlagOps, IntFlag):
    """What a device and the installed libefa can do together (``EFADV_DEVICE_ATTR_CAPS_``)."""

    RDMA_READ = c.EFADV_DEVICE_ATTR_CAPS_RDMA_READ
    """RDMA read."""
    RNR_RETRY = c.EFADV_DEVICE_ATTR_CAPS_RNR_RETRY
    """How often a peer without a receive is tried can be set."""
    CQ_WITH_SGID = c.EFADV_DEVICE_ATTR_CAPS_CQ_WITH_SGID
    """Completions can tell the GID of a sender that no address handle covers."""
    RDMA_WRITE = c.EFADV_DEVICE_ATTR_CAPS_RDMA_WRITE
    """RDMA write, with immediate data and without."""
    UNSOLICITED_WRITE_RECV = c.EFADV_DEVICE_ATTR_CAPS_UNSOLICITED_WRITE_RECV
    """Writes with immediate can complete at the peer without a receive."""
    CQ_WITH_EXT_MEM_DMABUF = c.EFADV_DEVICE_ATTR_CAPS_CQ_WITH_EXT_MEM_DMABUF
    """A completion queue can lie in a dma-buf."""
    COMP_CNTR = c.EFADV_DEVICE_ATTR_CAPS_COMP_CNTR
    """There are completion counters."""


@flag_operators
class CompCntrOps(FlagOps, IntFlag):
    """What a completion counter counts of a queue pair (``enum ibv_qp_attach_comp_cntr_op``)."""

    SEND = c.IBV_QP_ATTACH_COMP_CNTR_OP_SEND
    """Sends."""
    RECV = c.IBV_QP_ATTACH_COMP_CNTR_OP_RECV
    """Receives."""
    RDMA_READ = c.IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ
    """RDMA reads of ours."""
    REMOTE_RDMA_READ = c.IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ
    """RDMA reads of peers."""
    RDMA_WRITE = c.IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE
    """RDMA writes of ours."""
    REMOTE_RDMA_WRITE = c.IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE
    """RDMA writes of peers."""


@flag_operators
class ProcessingHints(FlagOps, IntFlag):
    """What the device may know of a request's purpose (``enum efadv_wr_processing_hint``)."""

    BURST_PPS_SENSITIVE = c.EFADV_WR_PROCESSING_HINT_BURST_PPS_SENSITIVE
    """One of a burst for which the packet rate counts."""
