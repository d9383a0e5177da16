# SPDX-License-Identifier: BSD-3-Clause
"""The constants of the verbs API that both packages have, as enums; every value is the C library's."""

from __future__ import annotations

from enum import IntEnum, IntFlag

from ._extension import extension as c
from .flags import FlagOps, flag_operators

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
    "SendFlags",
    "TransportType",
    "WCFlags",
    "WCOpcode",
    "WCStatus",
    "WROpcode",
]


@flag_operators
class AccessFlags(FlagOps, IntFlag):
    """What a memory region, or the responder of a queue pair, lets be done to memory (``enum ibv_access_flags``).

    Reading by the local device is always allowed. Remote write and atomics need ``LOCAL_WRITE`` as well.
    """

    LOCAL_WRITE = c.IBV_ACCESS_LOCAL_WRITE
    """The local device may write: receive buffers, the target of an RDMA read or of an atomic's result."""
    REMOTE_WRITE = c.IBV_ACCESS_REMOTE_WRITE
    """Peers may RDMA-write."""
    REMOTE_READ = c.IBV_ACCESS_REMOTE_READ
    """Peers may RDMA-read."""
    REMOTE_ATOMIC = c.IBV_ACCESS_REMOTE_ATOMIC
    """Peers may run atomics."""
    MW_BIND = c.IBV_ACCESS_MW_BIND
    """Memory windows may be bound to the region."""
    ZERO_BASED = c.IBV_ACCESS_ZERO_BASED
    """Addresses in requests count from the start of the region instead of being virtual addresses."""
    ON_DEMAND = c.IBV_ACCESS_ON_DEMAND
    """Do not pin the pages; the device faults them in (on-demand paging)."""
    HUGETLB = c.IBV_ACCESS_HUGETLB
    """The memory is on huge pages throughout (with ``ON_DEMAND``)."""
    FLUSH_GLOBAL = c.IBV_ACCESS_FLUSH_GLOBAL
    """Peers may flush their writes until everyone sees them."""
    FLUSH_PERSISTENT = c.IBV_ACCESS_FLUSH_PERSISTENT
    """Peers may flush their writes into persistent memory."""
    RELAXED_ORDERING = c.IBV_ACCESS_RELAXED_ORDERING
    """The device may reorder its writes on the bus; ignored where device or kernel cannot."""


class QPState(IntEnum):
    """Where a queue pair is in its life (``enum ibv_qp_state``)."""

    RESET = c.IBV_QPS_RESET
    """As created; nothing may be posted."""
    INIT = c.IBV_QPS_INIT
    """Bound to a port; receives may be posted."""
    RTR = c.IBV_QPS_RTR
    """Ready to receive: the peer is known, requests of the peer are answered."""
    RTS = c.IBV_QPS_RTS
    """Ready to send: everything works."""
    SQD = c.IBV_QPS_SQD
    """Send queue drained: what was begun is finished, new sends wait."""
    SQE = c.IBV_QPS_SQE
    """Send queue in error (unreliable transports): sends are flushed, receives still work."""
    ERR = c.IBV_QPS_ERR
    """In error: every request is flushed; only RESET leads out."""
    UNKNOWN = c.IBV_QPS_UNKNOWN
    """The device could not say."""


@flag_operators
class QPAttrMask(FlagOps, IntFlag):
    """Which attributes a ``QP.modify`` sets (``enum ibv_qp_attr_mask``)."""

    STATE = c.IBV_QP_STATE
    """``qp_state``: the state to go to."""
    CUR_STATE = c.IBV_QP_CUR_STATE
    """``cur_qp_state``: the state the caller believes it is in."""
    EN_SQD_ASYNC_NOTIFY = c.IBV_QP_EN_SQD_ASYNC_NOTIFY
    """``en_sqd_async_notify``: an event when the send queue has drained."""
    ACCESS_FLAGS = c.IBV_QP_ACCESS_FLAGS
    """``qp_access_flags``: what peers may do through this queue pair."""
    PKEY_INDEX = c.IBV_QP_PKEY_INDEX
    """``pkey_index``: the partition, as an index into the port's table."""
    PORT = c.IBV_QP_PORT
    """``port_num``: the port, from 1."""
    QKEY = c.IBV_QP_QKEY
    """``qkey``: the key that datagrams must carry."""
    AV = c.IBV_QP_AV
    """``ah_attr``: the way to the peer."""
    PATH_MTU = c.IBV_QP_PATH_MTU
    """``path_mtu``: the largest packet, an ``MTU`` value."""
    TIMEOUT = c.IBV_QP_TIMEOUT
    """``timeout``: how long to wait for an acknowledgement, 4.096 us * 2**timeout; 0 is for ever."""
    RETRY_CNT = c.IBV_QP_RETRY_CNT
    """``retry_cnt``: how often to try again when none came, 0 to 7."""
    RNR_RETRY = c.IBV_QP_RNR_RETRY
    """``rnr_retry``: how often to try again when the peer had no receive posted; 7 is for ever."""
    RQ_PSN = c.IBV_QP_RQ_PSN
    """``rq_psn``: the packet number that the peer starts from."""
    MAX_QP_RD_ATOMIC = c.IBV_QP_MAX_QP_RD_ATOMIC
    """``max_rd_atomic``: reads and atomics of ours under way at once."""
    ALT_PATH = c.IBV_QP_ALT_PATH
    """The alternative path: ``alt_ah_attr``, ``alt_pkey_index``, ``alt_port_num``, ``alt_timeout``."""
    MIN_RNR_TIMER = c.IBV_QP_MIN_RNR_TIMER
    """``min_rnr_timer``: how long a peer that found no receive is to wait (encoded)."""
    SQ_PSN = c.IBV_QP_SQ_PSN
    """``sq_psn``: the packet number that we start from."""
    MAX_DEST_RD_ATOMIC = c.IBV_QP_MAX_DEST_RD_ATOMIC
    """``max_dest_rd_atomic``: reads and atomics of the peer answered at once."""
    PATH_MIG_STATE = c.IBV_QP_PATH_MIG_STATE
    """``path_mig_state``: the state of path migration."""
    CAP = c.IBV_QP_CAP
    """``cap``: the depths of the queues, where the device can change them."""
    DEST_QPN = c.IBV_QP_DEST_QPN
    """``dest_qp_num``: the peer's queue pair."""
    RATE_LIMIT = c.IBV_QP_RATE_LIMIT
    """``rate_limit``: a limit for packet pacing, in kbit/s."""


class WROpcode(IntEnum):
    """What a send request does (``enum ibv_wr_opcode``)."""

    RDMA_WRITE = c.IBV_WR_RDMA_WRITE
    """Write to the peer's memory; the peer is not told."""
    RDMA_WRITE_WITH_IMM = c.IBV_WR_RDMA_WRITE_WITH_IMM
    """Write to the peer's memory and complete one of its receives with 32 bits."""
    SEND = c.IBV_WR_SEND
    """Send into the peer's next receive."""
    SEND_WITH_IMM = c.IBV_WR_SEND_WITH_IMM
    """The same, with 32 bits beside the data."""
    RDMA_READ = c.IBV_WR_RDMA_READ
    """Read the peer's memory."""
    ATOMIC_CMP_AND_SWP = c.IBV_WR_ATOMIC_CMP_AND_SWP
    """Compare 8 bytes at the peer and, if equal, swap them; the old value comes back."""
    ATOMIC_FETCH_AND_ADD = c.IBV_WR_ATOMIC_FETCH_AND_ADD
    """Add to 8 bytes at the peer; the old value comes back."""
    LOCAL_INV = c.IBV_WR_LOCAL_INV
    """Invalidate a key of our own."""
    BIND_MW = c.IBV_WR_BIND_MW
    """Bind a memory window."""
    SEND_WITH_INV = c.IBV_WR_SEND_WITH_INV
    """Send, and invalidate a key of the peer."""
    TSO = c.IBV_WR_TSO
    """Send a large TCP segment for the device to cut up (raw packets)."""


@flag_operators
class SendFlags(FlagOps, IntFlag):
    """Properties of a send request (``enum ibv_send_flags``)."""

    FENCE = c.IBV_SEND_FENCE
    """Wait for the reads and atomics before it."""
    SIGNALED = c.IBV_SEND_SIGNALED
    """Give a completion on success too."""
    SOLICITED = c.IBV_SEND_SOLICITED
    """Wake a peer that armed its completion queue for solicited completions only."""
    INLINE = c.IBV_SEND_INLINE
    """Copy the data while posting: no lkey is needed, and the buffer is free at once."""
    IP_CSUM = c.IBV_SEND_IP_CSUM
    """Let the device fill in IP and TCP/UDP checksums."""


class WCStatus(IntEnum):
    """How a request ended (``enum ibv_wc_status``)."""

    SUCCESS = c.IBV_WC_SUCCESS
    """It did what it was asked."""
    LOC_LEN_ERR = c.IBV_WC_LOC_LEN_ERR
    """A message was longer than its receive buffer, or than the transport allows."""
    LOC_QP_OP_ERR = c.IBV_WC_LOC_QP_OP_ERR
    """The device found the request or the queue pair in disorder."""
    LOC_EEC_OP_ERR = c.IBV_WC_LOC_EEC_OP_ERR
    """The same, of an end-to-end context (not in use)."""
    LOC_PROT_ERR = c.IBV_WC_LOC_PROT_ERR
    """A local buffer lies outside its region, or the region forbids the access."""
    WR_FLUSH_ERR = c.IBV_WC_WR_FLUSH_ERR
    """Not done: the queue pair was in error when its turn came."""
    MW_BIND_ERR = c.IBV_WC_MW_BIND_ERR
    """A memory window could not be bound."""
    BAD_RESP_ERR = c.IBV_WC_BAD_RESP_ERR
    """The peer answered with something unexpected."""
    LOC_ACCESS_ERR = c.IBV_WC_LOC_ACCESS_ERR
    """Data of an RDMA write with immediate failed a local protection check."""
    REM_INV_REQ_ERR = c.IBV_WC_REM_INV_REQ_ERR
    """The peer found the request invalid: too long, or an operation it does not allow."""
    REM_ACCESS_ERR = c.IBV_WC_REM_ACCESS_ERR
    """The peer's region forbids the access: wrong rkey, range or access flags."""
    REM_OP_ERR = c.IBV_WC_REM_OP_ERR
    """The peer could not carry out the request."""
    RETRY_EXC_ERR = c.IBV_WC_RETRY_EXC_ERR
    """No acknowledgement came, however often it was tried: a wrong address, or a peer that is gone."""
    RNR_RETRY_EXC_ERR = c.IBV_WC_RNR_RETRY_EXC_ERR
    """The peer had no receive posted, however often it was tried."""
    LOC_RDD_VIOL_ERR = c.IBV_WC_LOC_RDD_VIOL_ERR
    """Reliable datagram domain violated at this end (not in use)."""
    REM_INV_RD_REQ_ERR = c.IBV_WC_REM_INV_RD_REQ_ERR
    """Reliable datagram domain violated at the peer."""
    REM_ABORT_ERR = c.IBV_WC_REM_ABORT_ERR
    """The peer aborted the operation."""
    INV_EECN_ERR = c.IBV_WC_INV_EECN_ERR
    """Invalid end-to-end context number (not in use)."""
    INV_EEC_STATE_ERR = c.IBV_WC_INV_EEC_STATE_ERR
    """Invalid state of an end-to-end context (not in use)."""
    FATAL_ERR = c.IBV_WC_FATAL_ERR
    """The device failed."""
    RESP_TIMEOUT_ERR = c.IBV_WC_RESP_TIMEOUT_ERR
    """The peer's answer did not come in time."""
    GENERAL_ERR = c.IBV_WC_GENERAL_ERR
    """Something that has no status of its own; see ``vendor_err``."""
    TM_ERR = c.IBV_WC_TM_ERR
    """Tag matching failed."""
    TM_RNDV_INCOMPLETE = c.IBV_WC_TM_RNDV_INCOMPLETE
    """A tag-matching rendezvous was not completed by the device: software has to."""


class WCOpcode(IntEnum):
    """What a completion is of (``enum ibv_wc_opcode``); those of receives have the bit of ``RECV``."""

    SEND = c.IBV_WC_SEND
    """A send."""
    RDMA_WRITE = c.IBV_WC_RDMA_WRITE
    """An RDMA write."""
    RDMA_READ = c.IBV_WC_RDMA_READ
    """An RDMA read."""
    COMP_SWAP = c.IBV_WC_COMP_SWAP
    """A compare-and-swap."""
    FETCH_ADD = c.IBV_WC_FETCH_ADD
    """A fetch-and-add."""
    BIND_MW = c.IBV_WC_BIND_MW
    """The binding of a memory window."""
    LOCAL_INV = c.IBV_WC_LOCAL_INV
    """The invalidation of a key of our own."""
    TSO = c.IBV_WC_TSO
    """A large TCP segment."""
    RECV = c.IBV_WC_RECV
    """A receive that a send filled."""
    RECV_RDMA_WITH_IMM = c.IBV_WC_RECV_RDMA_WITH_IMM
    """A receive that an RDMA write with immediate used up."""


@flag_operators
class WCFlags(FlagOps, IntFlag):
    """What else a completion carries (``enum ibv_wc_flags``)."""

    GRH = c.IBV_WC_GRH
    """The first 40 bytes of the receive buffer are the global routing header (UD)."""
    WITH_IMM = c.IBV_WC_WITH_IMM
    """``imm_data`` is valid."""
    IP_CSUM_OK = c.IBV_WC_IP_CSUM_OK
    """The device found the IP and TCP/UDP checksums right."""
    WITH_INV = c.IBV_WC_WITH_INV
    """The peer invalidated one of our keys."""
    TM_SYNC_REQ = c.IBV_WC_TM_SYNC_REQ
    """Tag matching: the list needs to be synchronised."""
    TM_MATCH = c.IBV_WC_TM_MATCH
    """Tag matching: the message matched a tag."""
    TM_DATA_VALID = c.IBV_WC_TM_DATA_VALID
    """Tag matching: the data are in the buffer."""


class EventType(IntEnum):
    """What an asynchronous event tells (``enum ibv_event_type``)."""

    CQ_ERR = c.IBV_EVENT_CQ_ERR
    """A completion queue overran or failed: it and every queue pair on it are in error."""
    QP_FATAL = c.IBV_EVENT_QP_FATAL
    """A queue pair failed in a way that no completion could tell."""
    QP_REQ_ERR = c.IBV_EVENT_QP_REQ_ERR
    """A queue pair got a request that breaks the transport's rules."""
    QP_ACCESS_ERR = c.IBV_EVENT_QP_ACCESS_ERR
    """A queue pair got a request for memory that it may not reach."""
    COMM_EST = c.IBV_EVENT_COMM_EST
    """A queue pair in RTR got its first packet."""
    SQ_DRAINED = c.IBV_EVENT_SQ_DRAINED
    """A send queue finished what was begun and is drained."""
    PATH_MIG = c.IBV_EVENT_PATH_MIG
    """A queue pair moved to its alternative path."""
    PATH_MIG_ERR = c.IBV_EVENT_PATH_MIG_ERR
    """A queue pair could not move to its alternative path."""
    DEVICE_FATAL = c.IBV_EVENT_DEVICE_FATAL
    """The device failed."""
    PORT_ACTIVE = c.IBV_EVENT_PORT_ACTIVE
    """A port's link came up."""
    PORT_ERR = c.IBV_EVENT_PORT_ERR
    """A port's link went down."""
    LID_CHANGE = c.IBV_EVENT_LID_CHANGE
    """A port got another LID."""
    PKEY_CHANGE = c.IBV_EVENT_PKEY_CHANGE
    """A port's partition table changed."""
    SM_CHANGE = c.IBV_EVENT_SM_CHANGE
    """Another subnet manager took over."""
    SRQ_ERR = c.IBV_EVENT_SRQ_ERR
    """A shared receive queue failed."""
    SRQ_LIMIT_REACHED = c.IBV_EVENT_SRQ_LIMIT_REACHED
    """A shared receive queue has fewer receives left than its limit."""
    QP_LAST_WQE_REACHED = c.IBV_EVENT_QP_LAST_WQE_REACHED
    """A queue pair in error will take no more receives from its shared queue."""
    CLIENT_REREGISTER = c.IBV_EVENT_CLIENT_REREGISTER
    """The subnet manager asks for all registrations anew."""
    GID_CHANGE = c.IBV_EVENT_GID_CHANGE
    """A port's GID table changed."""
    WQ_FATAL = c.IBV_EVENT_WQ_FATAL
    """A work queue failed."""


class MTU(IntEnum):
    """The largest payload of a packet (``enum ibv_mtu``): the values are codes, not bytes."""

    MTU_256 = c.IBV_MTU_256
    """256 bytes."""
    MTU_512 = c.IBV_MTU_512
    """512 bytes."""
    MTU_1024 = c.IBV_MTU_1024
    """1,024 bytes."""
    MTU_2048 = c.IBV_MTU_2048
    """2,048 bytes."""
    MTU_4096 = c.IBV_MTU_4096
    """4,096 bytes."""


class PortState(IntEnum):
    """The logical state of a port (``enum ibv_port_state``)."""

    NOP = c.IBV_PORT_NOP
    """Reserved."""
    DOWN = c.IBV_PORT_DOWN
    """No link."""
    INIT = c.IBV_PORT_INIT
    """The link is up, and the subnet manager has not configured it."""
    ARMED = c.IBV_PORT_ARMED
    """Configured, not yet carrying data."""
    ACTIVE = c.IBV_PORT_ACTIVE
    """In use."""
    ACTIVE_DEFER = c.IBV_PORT_ACTIVE_DEFER
    """In use, with a link error that may yet recover."""


class TransportType(IntEnum):
    """What a device's queue pairs speak (``enum ibv_transport_type``)."""

    UNKNOWN = c.IBV_TRANSPORT_UNKNOWN
    """Not known to the library."""
    IB = c.IBV_TRANSPORT_IB
    """InfiniBand's transport, over InfiniBand or Ethernet (RoCE)."""
    IWARP = c.IBV_TRANSPORT_IWARP
    """iWARP: RDMA over TCP."""
    USNIC = c.IBV_TRANSPORT_USNIC
    """Cisco usNIC."""
    USNIC_UDP = c.IBV_TRANSPORT_USNIC_UDP
    """Cisco usNIC over UDP."""
    UNSPECIFIED = c.IBV_TRANSPORT_UNSPECIFIED
    """A transport of the device's own (EFA)."""


class GidType(IntEnum):
    """What a GID stands for (``enum ibv_gid_type``)."""

    IB = c.IBV_GID_TYPE_IB
    """An InfiniBand address."""
    ROCE_V1 = c.IBV_GID_TYPE_ROCE_V1
    """RoCE v1: Ethernet frames, within one broadcast domain."""
    ROCE_V2 = c.IBV_GID_TYPE_ROCE_V2
    """RoCE v2: UDP over IPv4 or IPv6, which routers pass on."""


class NodeType(IntEnum):
    """What kind of device a node is (``enum ibv_node_type``)."""

    UNKNOWN = c.IBV_NODE_UNKNOWN
    """Not known to the library."""
    CA = c.IBV_NODE_CA
    """A channel adapter: InfiniBand or RoCE."""
    SWITCH = c.IBV_NODE_SWITCH
    """An InfiniBand switch."""
    ROUTER = c.IBV_NODE_ROUTER
    """An InfiniBand router."""
    RNIC = c.IBV_NODE_RNIC
    """An iWARP adapter."""
    USNIC = c.IBV_NODE_USNIC
    """A Cisco usNIC."""
    USNIC_UDP = c.IBV_NODE_USNIC_UDP
    """A Cisco usNIC over UDP."""
    UNSPECIFIED = c.IBV_NODE_UNSPECIFIED
    """A device of another kind (EFA)."""


class ForkStatus(IntEnum):
    """Whether a fork may move registered memory under the device (``enum ibv_fork_status``); see ``fork_status()``."""

    DISABLED = c.IBV_FORK_DISABLED
    """It may: ``fork_init()`` was not called."""
    ENABLED = c.IBV_FORK_ENABLED
    """It does not: the library keeps that memory away from children."""
    UNNEEDED = c.IBV_FORK_UNNEEDED
    """It does not: the kernel gives children copies."""
