# SPDX-License-Identifier: BSD-3-Clause
"""What the extension modules of all packages have in common, for their stubs: stub.py puts it into each package's own.

Not a module of any package. Where the error of a failed verb is named, it goes by its name in ibverbs.
"""

import ctypes
from collections.abc import Iterable
from types import TracebackType
from typing import Any, ClassVar, Protocol, SupportsIndex, final, overload

from typing_extensions import Self, disjoint_base

# ---- devices -------------------------------------------------------------------------------------------------------

def get_device_list() -> list[Device]:
    """Return the RDMA devices of this machine; an empty list where there are none or the kernel has no RDMA.

    A device whose provider is missing is not listed. ``ibv_get_device_list``; other threads run meanwhile.
    """

def fork_init() -> None:
    """Have the library keep registered memory away from the children of a fork.

    Without it, and on kernels before 5.12, a parent that writes to registered memory after a fork may get another page
    there than the one that the device uses. Memory that is registered afterwards is protected by whole pages, and a
    child cannot touch it; what shares those pages is gone there, too. To be called before anything is registered:
    afterwards it may raise ``EINVAL``. On newer kernels it does nothing. ``ibv_fork_init``; other threads run
    meanwhile.

    Whatever it says, objects that were made before a fork raise ``EBADF`` in the child and free nothing there.
    """

def fork_status() -> int:
    """Return a ``ForkStatus`` value: whether registered memory is safe in the parent of a fork.

    Raises ``UnsupportedError`` on libraries before rdma-core 35. ``ibv_is_fork_initialized``.
    """

@final
class Device:
    """A device, by name and node GUID. Not a handle: nothing is open until ``open()``.

    ``get_device_list()`` makes them; they can also be made by hand, compared, hashed, pickled, and sent to another
    process of the same machine.
    """

    def __new__(cls, name: str, guid: SupportsIndex) -> Self: ...
    def open(self) -> Context:
        """Open the device and return its Context.

        The name is looked up in a fresh list. Raises ``VerbsError`` with ``ENODEV`` if the device is gone, or if
        another one goes by its name (a different GUID). ``ibv_open_device``; other threads run meanwhile.
        """
    @property
    def name(self) -> str:
        """The name, as ``ibv_devices`` and ``rdma link`` show it."""
    @property
    def guid(self) -> int:
        """The node GUID as the C library gives it: network byte order, read as an integer of this machine."""
    @property
    def guid_str(self) -> str:
        """The node GUID as ``ibv_devinfo`` prints it: ``"5254:00ff:fe12:3456"``."""
    @property
    def node_type(self) -> int:
        """What kind of device it is, a ``NodeType`` value.

        This and what follows is no part of the value. The library tells the first three when it lists the device; for a
        Device that was made by hand or came from elsewhere they are looked up when first asked for, which raises
        ``VerbsError`` with ``ENODEV`` if it is not there. The others are read from sysfs whenever they are asked for.
        """
    @property
    def transport_type(self) -> int:
        """What its queue pairs speak, a ``TransportType`` value."""
    @property
    def index(self) -> int | None:
        """The kernel's number for it, as ``rdma dev`` shows it; None on a library older than rdma-core 30, or where the
        kernel does not tell. ``ibv_get_device_index``."""
    @property
    def pci_address(self) -> str | None:
        """Its PCI address (``"0000:3b:00.0"``); None where it is not on that bus, as software devices are not."""
    @property
    def numa_node(self) -> int | None:
        """The NUMA node that it is attached to; None where the machine has none or does not tell."""
    @property
    def netdevs(self) -> list[str]:
        """The names of the network devices that belong to it, sorted: those under its GIDs, the one that a software
        device sits on, and those of the same PCI function."""
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Context:
    """An open device. ``Device.open()`` makes one."""

    @property
    def name(self) -> str:
        """The device's name."""
    @property
    def num_comp_vectors(self) -> int:
        """How many completion vectors (interrupts) there are to choose from in ``create_cq``."""
    @property
    def async_fd(self) -> int:
        """The descriptor that becomes readable when an asynchronous event waits; non-blocking. For select, poll,
        epoll and asyncio: read the event with ``get_async_event(0)``."""
    def query_device(self) -> DeviceAttr:
        """Return the device's limits and identity. ``ibv_query_device``; other threads run meanwhile."""
    def alloc_pd(self) -> PD:
        """Make a protection domain. ``ibv_alloc_pd``; other threads run meanwhile."""
    def create_cq(self, cqe: SupportsIndex, channel: CompChannel | None = None, comp_vector: SupportsIndex = 0) -> CQ:
        """Make a completion queue for at least ``cqe`` completions; ``CQ.cqe`` is what was granted.

        With a channel, ``CQ.req_notify`` can ask for an event on it. Size the queue for everything that can be
        outstanding on it: an overrun puts it, and all its queue pairs, in error. ``ibv_create_cq``; other threads
        run meanwhile.
        """
    def create_comp_channel(self) -> CompChannel:
        """Make a channel for the events of completion queues. ``ibv_create_comp_channel``."""
    @overload
    def get_async_event(self, timeout: None = None) -> AsyncEvent:
        """Wait for the next asynchronous event of the device and return it; None when ``timeout`` seconds are over.

        None waits for ever, 0 never. The event is copied and acknowledged to the library as it is read. Signals are
        handled while it waits, other threads run, and ``close()`` ends it with ``EBADF``. ``ibv_get_async_event``.
        """
    @overload
    def get_async_event(self, timeout: float) -> AsyncEvent | None:
        """The same, for so many seconds at most; None when they are over."""
    @overload
    async def next_async_event(self, timeout: None = None) -> AsyncEvent:
        """Wait for an event in an asyncio task: ``get_async_event`` for an event loop that has ``add_reader``.

        Several tasks may wait, beside threads; each event goes to one. A task that is cancelled takes none along.
        ``close()`` ends it with ``EBADF``.
        """
    @overload
    async def next_async_event(self, timeout: float) -> AsyncEvent | None:
        """The same, for so many seconds at most; None when they are over."""
    def ack_async_event(self, ev: AsyncEvent) -> None:
        """Say that an event was dealt with. It costs nothing and may be left out, or repeated: the library was told
        when the event was read."""
    @property
    def closed(self) -> bool:
        """Whether the handle was released."""
    @property
    def ptr(self) -> int:
        """The ``struct ibv_context *``, for other libraries."""
    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        """What ctypes passes in this object's place: the pointer."""
    def close(self) -> None:
        """Release the handle; harmless when done again. ``ibv_close_device``."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /
    ) -> None: ...

@final
class DeviceAttr:
    """A device's limits and identity: ``struct ibv_device_attr``, under its names.

    A plain value: compared, hashed, pickled. The constructor takes the fields in order or by name, zero unless given.
    """

    def __new__(cls, *values: Any, **fields: Any) -> Self: ...
    @property
    def fw_ver(self) -> str:
        """The firmware version."""
    @property
    def node_guid(self) -> int:
        """The node GUID: network byte order, read as an integer of this machine."""
    @property
    def node_guid_str(self) -> str:
        """The node GUID as ``ibv_devinfo`` prints it."""
    @property
    def sys_image_guid(self) -> int:
        """The system image GUID, in the same form; the same for all devices of one adapter."""
    @property
    def sys_image_guid_str(self) -> str:
        """The system image GUID as ``ibv_devinfo`` prints it."""
    @property
    def max_mr_size(self) -> int:
        """The longest memory region, in bytes."""
    @property
    def page_size_cap(self) -> int:
        """The page sizes that a memory region can have: a bit for each."""
    @property
    def vendor_id(self) -> int:
        """The vendor's IEEE number."""
    @property
    def vendor_part_id(self) -> int:
        """The vendor's number for the part."""
    @property
    def hw_ver(self) -> int:
        """The vendor's number for the hardware version."""
    @property
    def max_qp(self) -> int:
        """How many queue pairs there can be."""
    @property
    def max_qp_wr(self) -> int:
        """How many requests a work queue can hold."""
    @property
    def device_cap_flags(self) -> int:
        """Capabilities: ``enum ibv_device_cap_flags``."""
    @property
    def max_sge(self) -> int:
        """How many scatter/gather entries a request can have."""
    @property
    def max_sge_rd(self) -> int:
        """The same for an RDMA read."""
    @property
    def max_cq(self) -> int:
        """How many completion queues there can be."""
    @property
    def max_cqe(self) -> int:
        """How many completions a queue can hold."""
    @property
    def max_mr(self) -> int:
        """How many memory regions there can be."""
    @property
    def max_pd(self) -> int:
        """How many protection domains there can be."""
    @property
    def max_qp_rd_atom(self) -> int:
        """How many reads and atomics of the peer a queue pair can answer at once: the limit of
        ``max_dest_rd_atomic``."""
    @property
    def max_ee_rd_atom(self) -> int:
        """The same for an end-to-end context."""
    @property
    def max_res_rd_atom(self) -> int:
        """How many reads and atomics the device can answer at once, over all queue pairs."""
    @property
    def max_qp_init_rd_atom(self) -> int:
        """How many reads and atomics of its own a queue pair can have under way: the limit of ``max_rd_atomic``."""
    @property
    def max_ee_init_rd_atom(self) -> int:
        """The same for an end-to-end context."""
    @property
    def atomic_cap(self) -> int:
        """What atomics are atomic with: 0 nothing, 1 other requests of this device, 2 the processors too."""
    @property
    def max_ee(self) -> int:
        """How many end-to-end contexts there can be."""
    @property
    def max_rdd(self) -> int:
        """How many reliable datagram domains there can be."""
    @property
    def max_mw(self) -> int:
        """How many memory windows there can be."""
    @property
    def max_raw_ipv6_qp(self) -> int:
        """How many raw IPv6 queue pairs there can be."""
    @property
    def max_raw_ethy_qp(self) -> int:
        """How many raw Ethertype queue pairs there can be."""
    @property
    def max_mcast_grp(self) -> int:
        """How many multicast groups there can be."""
    @property
    def max_mcast_qp_attach(self) -> int:
        """How many queue pairs can join one group."""
    @property
    def max_total_mcast_qp_attach(self) -> int:
        """How many joins there can be in all."""
    @property
    def max_ah(self) -> int:
        """How many address handles there can be."""
    @property
    def max_fmr(self) -> int:
        """How many fast memory regions there can be."""
    @property
    def max_map_per_fmr(self) -> int:
        """How often such a region can be mapped anew."""
    @property
    def max_srq(self) -> int:
        """How many shared receive queues there can be."""
    @property
    def max_srq_wr(self) -> int:
        """How many requests one can hold."""
    @property
    def max_srq_sge(self) -> int:
        """How many scatter/gather entries such a request can have."""
    @property
    def max_pkeys(self) -> int:
        """How many partitions there can be."""
    @property
    def local_ca_ack_delay(self) -> int:
        """How long the device takes to acknowledge: 4.096 us * 2**value."""
    @property
    def phys_port_cnt(self) -> int:
        """How many ports the device has."""
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class PortAttr:
    """A port's state and properties: ``struct ibv_port_attr``, under its names.

    A plain value: compared, hashed, pickled. The constructor takes the fields in order or by name, zero unless given.
    """

    def __new__(cls, *values: Any, **fields: Any) -> Self: ...
    @property
    def state(self) -> int:
        """The logical state, a ``PortState`` value."""
    @property
    def max_mtu(self) -> int:
        """The largest MTU that the port can have, an ``MTU`` value."""
    @property
    def active_mtu(self) -> int:
        """The MTU that it has, an ``MTU`` value."""
    @property
    def gid_tbl_len(self) -> int:
        """How many entries the GID table has."""
    @property
    def port_cap_flags(self) -> int:
        """Capabilities: ``enum ibv_port_cap_flags``."""
    @property
    def max_msg_sz(self) -> int:
        """The longest message, in bytes."""
    @property
    def bad_pkey_cntr(self) -> int:
        """How many packets came with a wrong partition key."""
    @property
    def qkey_viol_cntr(self) -> int:
        """How many packets came with a wrong Q_Key."""
    @property
    def pkey_tbl_len(self) -> int:
        """How many entries the partition table has."""
    @property
    def lid(self) -> int:
        """The local identifier that the subnet manager gave the port; 0 on Ethernet."""
    @property
    def sm_lid(self) -> int:
        """The subnet manager's local identifier."""
    @property
    def lmc(self) -> int:
        """How many low bits of a LID choose a path."""
    @property
    def max_vl_num(self) -> int:
        """How many virtual lanes there are (encoded)."""
    @property
    def sm_sl(self) -> int:
        """The service level to the subnet manager."""
    @property
    def subnet_timeout(self) -> int:
        """The subnet's propagation delay: 4.096 us * 2**value."""
    @property
    def init_type_reply(self) -> int:
        """How the subnet manager initialised the port."""
    @property
    def active_width(self) -> int:
        """Lanes of the link (encoded): 1 is 1x, 2 is 4x, 4 is 8x, 8 is 12x, 16 is 2x."""
    @property
    def active_speed(self) -> int:
        """Speed of a lane (encoded): 1 SDR, 2 DDR, 4 QDR, 8 FDR10, 16 FDR, 32 EDR, 64 HDR, 128 NDR."""
    @property
    def phys_state(self) -> int:
        """The physical state (encoded): 3 is disabled, 5 is link up."""
    @property
    def link_layer(self) -> int:
        """0 not told, 1 InfiniBand, 2 Ethernet (RoCE, iWARP)."""
    @property
    def flags(self) -> int:
        """1 where every packet needs a global routing header."""
    @property
    def port_cap_flags2(self) -> int:
        """Further capabilities: ``enum ibv_port_cap_flags2``; 0 on old libraries."""
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class GidEntry:
    """An entry of a port's GID table: ``struct ibv_gid_entry``, under its names, with the network device's name.

    A plain value: compared, hashed, pickled. The constructor takes the fields in order or by name.
    """

    def __new__(
        cls,
        gid: _GidLike | None = None,
        gid_index: SupportsIndex = 0,
        port_num: SupportsIndex = 0,
        gid_type: SupportsIndex = 0,
        ndev_ifindex: SupportsIndex = 0,
        netdev: str = "",
    ) -> Self: ...
    @property
    def gid(self) -> Gid:
        """The GID."""
    @property
    def gid_index(self) -> int:
        """Its index in the port's table: what ``sgid_index`` asks for."""
    @property
    def port_num(self) -> int:
        """The port."""
    @property
    def gid_type(self) -> int:
        """What it is, a ``GidType`` value."""
    @property
    def gid_type_str(self) -> str:
        """What it is in words: ``IB``, ``RoCE v1`` or ``RoCE v2``."""
    @property
    def ndev_ifindex(self) -> int:
        """The number of its network device; 0 where it has none."""
    @property
    def netdev(self) -> str:
        """The name of its network device; empty where it has none."""
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Gid:
    """The 128-bit address of a port: immutable, equal to the same 16 bytes and hashed like them.

    Wherever a GID is asked for, a Gid or anything bytes-like of 16 bytes does. ``str(gid)`` is its IPv6 form.
    """

    def __new__(cls, raw: _GidLike) -> Self: ...
    @property
    def raw(self) -> bytes:
        """The 16 bytes, in network byte order."""
    @property
    def subnet_prefix(self) -> int:
        """The first eight bytes as a big-endian integer: ``0xfe80000000000000`` for a link-local GID."""
    @property
    def interface_id(self) -> int:
        """The last eight bytes as a big-endian integer."""
    def __bytes__(self) -> bytes:
        """Return the 16 bytes."""
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...

_GidLike = Gid | bytes | bytearray | memoryview

class _Region(Protocol):
    """What serves as an MR in an SGE."""

    @property
    def addr(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def lkey(self) -> int: ...

@final
class AsyncEvent:
    """Something that happened to a device, a port, a queue or a queue pair. ``Context.get_async_event`` gives them."""

    @property
    def event_type(self) -> int:
        """What happened, an ``EventType`` value."""
    @property
    def event_type_str(self) -> str:
        """What happened, in the library's words."""
    @property
    def port_num(self) -> int | None:
        """The port, for an event of a port; else None."""
    @property
    def qp(self) -> QP | None:
        """The queue pair, for an event of one that is still open; else None."""
    @property
    def cq(self) -> CQ | None:
        """The completion queue, for an event of one that is still open; else None."""

# ---- protection domains and memory ---------------------------------------------------------------------------------

@final
class PD:
    """A protection domain: what is made from one works together. ``Context.alloc_pd()`` makes one."""

    @property
    def context(self) -> Context:
        """The device it was made on; also after ``close()``."""
    def reg_mr(
        self,
        addr: SupportsIndex,
        length: SupportsIndex,
        access: SupportsIndex,
        owner: object = None,
        hold: object = None,
    ) -> MR:
        """Register memory of this process, so that devices can reach it; the pages are pinned.

        ``addr`` is a virtual address (or a CUDA device pointer, where the kernel has a peer-memory module),
        ``length`` is in bytes, ``access`` takes ``AccessFlags``. ``owner`` (``MR.owner``) and
        ``hold`` (such as an open export that keeps the memory in its place) are kept as long as the registration; for
        objects that own memory use ``reg_tensor``, which finds all of this out.

        A failure with ``ENOMEM`` says what the limit on locked memory is. ``ibv_reg_mr``; other threads run meanwhile.
        """
    def reg_dmabuf_mr(
        self,
        offset: SupportsIndex,
        length: SupportsIndex,
        iova: SupportsIndex,
        fd: SupportsIndex,
        access: SupportsIndex,
        owner: object = None,
    ) -> MR:
        """Register memory that another driver exported as a dma-buf, such as a GPU's.

        The region begins ``offset`` bytes into the buffer behind ``fd`` and is addressed from ``iova`` on, which has
        to agree with the offset in its low (page) bits. The descriptor may be closed afterwards. ``MR.addr`` is the
        iova. Raises ``UnsupportedError`` on a library older than rdma-core 34. ``ibv_reg_dmabuf_mr``; other threads
        run meanwhile.
        """
    @property
    def closed(self) -> bool:
        """Whether the handle was released."""
    @property
    def ptr(self) -> int:
        """The ``struct ibv_pd *``, for other libraries."""
    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        """What ctypes passes in this object's place: the pointer."""
    def close(self) -> None:
        """Release the handle; harmless when done again. ``ibv_dealloc_pd``."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /
    ) -> None: ...

@final
class MR:
    """A registered memory region. ``PD.reg_mr``, ``PD.reg_dmabuf_mr`` and ``reg_tensor`` make one."""

    @property
    def pd(self) -> PD:
        """The protection domain it belongs to; also after ``close()``."""
    @property
    def owner(self) -> Any:
        """The object that owns the memory, where one was given; None without one and after ``close()``.

        An owner may hold its region in turn; the collector ends the registration first. What a ``__del__`` then brings
        back from such a cycle finds the region closed.
        """
    @property
    def addr(self) -> int:
        """Where the region begins: the address that requests of this side name; of a dma-buf, its iova."""
    @property
    def length(self) -> int:
        """Its length in bytes."""
    @property
    def lkey(self) -> int:
        """The key for this side's requests."""
    @property
    def rkey(self) -> int:
        """The key for a peer's requests: send it with the address."""
    @property
    def handle(self) -> int:
        """The kernel's number for the region."""
    def sge(self, length: SupportsIndex | None = None, offset: SupportsIndex = 0) -> SGE:
        """Return an SGE for ``length`` bytes from ``offset`` on; None reaches to the region's end.

        Raises ``ValueError`` for a range that leaves the region.
        """
    def _keep(self, owner: object, hold: object) -> bool: ...
    @property
    def closed(self) -> bool:
        """Whether the handle was released."""
    @property
    def ptr(self) -> int:
        """The ``struct ibv_mr *``, for other libraries."""
    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        """What ctypes passes in this object's place: the pointer."""
    def close(self) -> None:
        """Release the handle and the owner; harmless when done again. ``ibv_dereg_mr``."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /
    ) -> None: ...

@final
class AHAttr:
    """The way to a peer: ``struct ibv_ah_attr`` with its global part (``struct ibv_global_route``) beside it.

    A value: compared, pickled. ``dgid`` and the fields after it that belong to the global part count only if
    ``is_global`` is set; ``dlid`` counts on InfiniBand.
    """

    @property
    def dgid(self) -> Gid | None:
        """The peer's GID, which a global route needs; a Gid or anything bytes-like of 16 bytes can be set.

        The structure has no other sign of its absence than zeros: the GID ``::``, no destination, reads as None.
        """
    @dgid.setter
    def dgid(self, value: _GidLike | None) -> None: ...
    sgid_index: int
    """The local GID to send from, as an index into the port's table."""
    is_global: int
    """Whether packets carry a global routing header: always on Ethernet."""
    port_num: int
    """The local port, from 1."""
    hop_limit: int
    """How many routers a packet may pass; 1 stays in the subnet."""
    traffic_class: int
    """The traffic class of the header; of RoCE v2, the IP type-of-service byte."""
    flow_label: int
    """The flow label, 20 bits."""
    __hash__: ClassVar[None]  # type: ignore[assignment]
    def __eq__(self, other: object, /) -> bool: ...

@final
class AH:
    """An address handle: where a UD send goes. ``PD.create_ah`` makes one."""

    @property
    def pd(self) -> PD:
        """The protection domain it belongs to; also after ``close()``."""
    @property
    def closed(self) -> bool:
        """Whether the handle was released."""
    @property
    def ptr(self) -> int:
        """The ``struct ibv_ah *``, for other libraries."""
    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        """What ctypes passes in this object's place: the pointer."""
    def close(self) -> None:
        """Release the handle; harmless when done again. ``ibv_destroy_ah``."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /
    ) -> None: ...

# ---- completions ---------------------------------------------------------------------------------------------------

@final
class CompChannel:
    """A channel for the events of completion queues. ``Context.create_comp_channel()`` makes one."""

    @property
    def context(self) -> Context:
        """The device it was made on; also after ``close()``."""
    @property
    def fd(self) -> int:
        """A descriptor that is readable while there is an event; for select, poll, epoll and event loops.

        Read the event with ``get_cq_event(0)``, which may be None: the event was of a ``CQ.wait`` then, or another
        reader was faster. It is a descriptor to watch, not to read from.
        """
    @overload
    def get_cq_event(self, timeout: None = None) -> CQ:
        """Wait for an event and return the CQ it is of; None when ``timeout`` seconds are over.

        None waits for ever, 0 never. An event comes once for each ``CQ.req_notify``: arm the queue again, then poll
        it until it is empty, or a completion may go unseen. ``CQ.wait`` does all of this. Signals are handled while it
        waits, other threads run, and ``close()`` ends it with ``EBADF``. ``ibv_get_cq_event``.

        Several threads may call it, each event goes to one of them. An event that ``CQ.wait`` asked for, and
        ``req_notify`` did not, does not come out here; one that ``req_notify`` asked for does, also when a wait in
        another thread was the one to read it.
        """
    @overload
    def get_cq_event(self, timeout: float) -> CQ | None:
        """The same, for so many seconds at most; None when they are over."""
    @overload
    async def next_cq_event(self, timeout: None = None) -> CQ:
        """Wait for an event in an asyncio task: ``get_cq_event`` for an event loop that has ``add_reader``.

        Several tasks may wait, beside threads; each event goes to one. A task that is cancelled takes none along.
        ``close()`` ends it with ``EBADF``.
        """
    @overload
    async def next_cq_event(self, timeout: float) -> CQ | None:
        """The same, for so many seconds at most; None when they are over."""
    @property
    def closed(self) -> bool:
        """Whether the handle was released."""
    @property
    def ptr(self) -> int:
        """The ``struct ibv_comp_channel *``, for other libraries."""
    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        """What ctypes passes in this object's place: the pointer."""
    def close(self) -> None:
        """Release the handle; harmless when done again. ``ibv_destroy_comp_channel``."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /
    ) -> None: ...

@final
class CQ:
    """A completion queue. ``Context.create_cq`` makes one."""

    @property
    def context(self) -> Context:
        """The device it was made on; also after ``close()``."""
    @property
    def channel(self) -> CompChannel | None:
        """The channel of its events, where it has one; also after ``close()``."""
    @property
    def cqe(self) -> int:
        """How many completions it holds, which may be more than was asked for."""
    def poll(self, num_entries: SupportsIndex) -> list[WC]:
        """Take up to ``num_entries`` completions off the queue, oldest first; an empty list when there are none.

        Never waits. No completion is lost: what could not be delivered because of an error comes with the next call.
        Raises ``ValueError`` for less than 1. ``ibv_poll_cq``; the GIL is kept for ordinary numbers.
        """
    def req_notify(self, solicited_only: bool = False) -> None:
        """Ask for one event on the channel when the next completion comes.

        With ``solicited_only``, the next that the peer sent with ``SendFlags.SOLICITED``, or that failed. Poll once
        more after arming: a completion that was there before gives no event. ``ibv_req_notify_cq``; keeps the GIL.
        """
    def ack_events(self, nevents: SupportsIndex = 1) -> None:
        """Say that so many events were dealt with.

        The library was told when they were read, so nothing waits for this; it keeps the count. Raises ``ValueError``
        for 0 or for more than were received.
        """
    def wait(
        self, num_entries: SupportsIndex, timeout: float | None = None, spin: float | None = 2e-05
    ) -> list[WC]:
        """Return up to ``num_entries`` completions as ``poll`` does, but wait until there is at least one.

        It polls; then it polls on for ``spin`` seconds; then it arms the queue, polls once more, and sleeps on the
        channel. Other threads run while it spins and sleeps. After ``timeout`` seconds it returns an empty list; None
        waits for ever, 0 only polls. ``spin`` of 0 or None sleeps at once.

        Several threads may wait, on one queue or on several of one channel, beside ``get_cq_event`` and event loops:
        each completion goes to one of them, and none sleeps on while there are completions. On one queue one thread
        spins at a time, the others sleep. Signals are handled while it waits (at most 2 ms late while it spins), and
        ``close()`` ends it with ``EBADF``. Raises ``ValueError`` for a queue without a channel, for less than one
        entry and for a time that is negative, and for a ``spin`` without end.

        ``ibv_poll_cq``, ``ibv_req_notify_cq``, ``ibv_get_cq_event``.
        """
    async def wait_async(self, num_entries: SupportsIndex, timeout: float | None = None) -> list[WC]:
        """Wait for completions in an asyncio task: ``wait`` for an event loop that has ``add_reader``.

        It does not spin. Where there are completions already it returns without giving other tasks a turn. Several
        tasks may wait on one queue, beside threads. A task that is cancelled takes no completions along.
        """
    @property
    def closed(self) -> bool:
        """Whether the handle was released."""
    @property
    def ptr(self) -> int:
        """The ``struct ibv_cq *``, for other libraries."""
    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        """What ctypes passes in this object's place: the pointer."""
    def close(self) -> None:
        """Release the handle; harmless when done again. ``ibv_destroy_cq``."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /
    ) -> None: ...

@final
class WC:
    """A completion: how one request ended. ``CQ.poll`` gives them; for tests one can be made from its fields.

    When ``status`` is not success, only ``wr_id``, ``status``, ``qp_num`` and ``vendor_err`` mean anything.
    """

    @property
    def wr_id(self) -> int:
        """The number that the request was given."""
    @property
    def status(self) -> int:
        """How it ended, a ``WCStatus`` value."""
    @property
    def opcode(self) -> int:
        """What it was, a ``WCOpcode`` value."""
    @property
    def byte_len(self) -> int:
        """How many bytes came, of a receive, a read or an atomic; of a UD receive with the 40 of the header."""
    @property
    def imm_data(self) -> int:
        """The integer that the sender gave as ``imm_data``; valid with ``WCFlags.WITH_IMM``."""
    @property
    def qp_num(self) -> int:
        """The local queue pair."""
    @property
    def src_qp(self) -> int:
        """The sender's queue pair (UD receives)."""
    @property
    def wc_flags(self) -> int:
        """What else it carries, ``WCFlags``."""
    @property
    def vendor_err(self) -> int:
        """The device's own number for a failure."""
    @property
    def pkey_index(self) -> int:
        """The partition it came in on, as an index into the port's table (GSI receives)."""
    @property
    def slid(self) -> int:
        """The sender's LID (UD receives)."""
    @property
    def sl(self) -> int:
        """The service level it came with (UD receives)."""
    @property
    def dlid_path_bits(self) -> int:
        """The low bits of the LID it was sent to (UD receives)."""
    @property
    def first_error(self) -> WC | None:
        """Of a request that was flushed (``WCStatus.WR_FLUSH_ERR``): the completion that broke its queue pair.

        The first since the queue pair was reset whose status says more than that it was flushed. None where none was
        polled before this one, and of every other completion. It has no part in comparison.
        """
    @property
    def is_success(self) -> bool:
        """Whether ``status`` is ``WCStatus.SUCCESS``."""
    @property
    def status_str(self) -> str:
        """The status, in the library's words. ``ibv_wc_status_str``."""
    def raise_for_status(self) -> None:
        """Raise ``CompletionError`` unless the request succeeded."""
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...

# ---- requests ------------------------------------------------------------------------------------------------------

@disjoint_base
class SGE:
    """A scatter/gather entry: one piece of memory that a request reads or fills.

    ``target`` is an MR (or anything with ``addr``, ``length`` and ``lkey``), which gives address and key and is kept
    in ``owner``, or an address, with ``lkey``. ``offset`` counts from there. At most 2**32 - 1 bytes; a range that
    leaves the region is a ``ValueError``.
    """

    def __new__(
        cls, target: _Region | SupportsIndex, length: SupportsIndex, lkey: SupportsIndex = 0, offset: SupportsIndex = 0
    ) -> Self: ...
    addr: int
    """Where it begins, in the region's terms."""
    length: int
    """Its length in bytes, at most 2**32 - 1."""
    lkey: int
    """The key of its region."""
    @property
    def owner(self) -> Any:
        """The region it was made from, or None."""

@final
class SendWR:
    """A send request. It may be changed between posts, be posted again at once, and stand several times in one call.

    Which fields count is decided by ``opcode``: ``remote_addr`` and ``rkey`` for RDMA and atomics, ``imm_data`` for
    the opcodes with immediate, ``compare_add`` and ``swap`` for atomics, ``ah``, ``remote_qpn`` and ``remote_qkey``
    on a UD queue pair.
    """

    wr_id: int
    """The number that the completion will carry, 64 bits."""
    sg_list: list[SGE]
    """The memory to send from or, of reads and atomics, to put the result in."""
    opcode: int
    """What to do, a ``WROpcode`` value."""
    send_flags: int
    """``SendFlags``."""
    remote_addr: int
    """The peer's address."""
    rkey: int
    """The key of the peer's region."""
    imm_data: int
    """32 bits that the peer's completion will show as this integer."""
    ah: AH | None
    """Where it goes, on a queue pair that is connected to nobody."""
    remote_qpn: int
    """The peer's queue pair, 24 bits; beside ``ah``."""
    remote_qkey: int
    """The peer's Q_Key; beside ``ah``."""

@disjoint_base
class RecvWR:
    """A receive request: memory for one message. It may be changed and posted again as a SendWR may."""

    wr_id: int
    """The number that the completion will carry, 64 bits."""
    sg_list: list[SGE]
    """The memory that the message goes to; of a UD receive the first 40 bytes are for the header."""
    def __new__(cls, wr_id: SupportsIndex = 0, sg_list: Iterable[SGE] | None = None) -> Self: ...

# ---- queue pairs ---------------------------------------------------------------------------------------------------

@final
class QPCap:
    """The sizes of a queue pair: ``struct ibv_qp_cap``. A plain value: compared, hashed, pickled."""

    def __new__(
        cls,
        max_send_wr: SupportsIndex = 0,
        max_recv_wr: SupportsIndex = 0,
        max_send_sge: SupportsIndex = 0,
        max_recv_sge: SupportsIndex = 0,
        max_inline_data: SupportsIndex = 0,
    ) -> Self: ...
    @property
    def max_send_wr(self) -> int:
        """How many requests the send queue holds."""
    @property
    def max_recv_wr(self) -> int:
        """How many requests the receive queue holds."""
    @property
    def max_send_sge(self) -> int:
        """How many entries a send request can have."""
    @property
    def max_recv_sge(self) -> int:
        """How many entries a receive request can have."""
    @property
    def max_inline_data(self) -> int:
        """How many bytes a request can carry inline."""
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...

@disjoint_base
class QPInitAttr:
    """What ``PD.create_qp`` makes a queue pair from: ``struct ibv_qp_init_attr``. Plain writable attributes."""

    send_cq: CQ
    """Where completions of sends go."""
    recv_cq: CQ
    """Where completions of receives go; may be the same."""
    max_send_wr: int
    """How many requests the send queue has to hold."""
    max_send_sge: int
    """How many entries a send request may have."""
    max_inline_data: int
    """How many bytes a request may carry inline."""
    sq_sig_all: bool
    """Whether every send gives a completion, as if it had ``SendFlags.SIGNALED``."""

@final
class QP:
    """A queue pair: RC and UC connected to one peer, UD to any. ``PD.create_qp`` makes one.

    A connected queue pair goes RESET, INIT, RTR, RTS: ``to_init``, ``to_rtr``, ``to_rts``, or all of it with
    ``connect_rc``.
    """

    @property
    def pd(self) -> PD:
        """The protection domain it belongs to; also after ``close()``."""
    @property
    def first_error(self) -> WC | None:
        """The first completion since the queue pair was made or reset that says what went wrong, or None.

        When a queue pair fails, one request has the cause as its status and all others are flushed. The one is kept
        here when it is polled, from either queue, and goes with each flushed one as ``WC.first_error``. What is polled
        between reset and RTR is of its life before that, and forgotten. Also after ``close()``.
        """
    @property
    def send_cq(self) -> CQ:
        """Where completions of its sends go; also after ``close()``."""
    @property
    def recv_cq(self) -> CQ:
        """Where completions of its receives go; also after ``close()``."""
    @property
    def qp_num(self) -> int:
        """Its number, 24 bits: what peers address."""
    @property
    def qp_type(self) -> int:
        """Its transport service, a ``QPType`` value."""
    @property
    def state(self) -> int:
        """Its state, a ``QPState`` value: the device is asked each time. ``ibv_query_qp``."""
    def post_recv(self, wrs: RecvWR | Iterable[RecvWR]) -> None:
        """Post one receive request or several, as ``post_send`` does. ``ibv_post_recv``."""
    @property
    def closed(self) -> bool:
        """Whether the handle was released."""
    @property
    def ptr(self) -> int:
        """The ``struct ibv_qp *``, for other libraries."""
    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        """What ctypes passes in this object's place: the pointer."""
    def close(self) -> None:
        """Release the handle; harmless when done again. ``ibv_destroy_qp``."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /
    ) -> None: ...

# ---- errors --------------------------------------------------------------------------------------------------------

class VerbsError(OSError):
    """A verb failed, or an object was not fit for the call.

    ``errno`` and ``strerror`` are those of an OSError; the message names the call and, where it is known, the cause.
    """

    def __init__(self, operation: str, err: int, detail: str | None = None) -> None: ...
    @property
    def operation(self) -> str:
        """The C function (``ibv_reg_mr``), or the method (``PD.reg_mr``) where none was called."""
    @property
    def detail(self) -> str | None:
        """The cause, where more is known than errno says."""
    index: int | None
    """Of an error of a post: the place of the request that was refused. Absent otherwise."""
    posted: int | None
    """Of an error of a post: how many requests went before it. Absent otherwise."""

class UnsupportedError(VerbsError, RuntimeError):
    """The installed library, or its provider, lacks a function; errno is ``EOPNOTSUPP``."""

class CompletionError(VerbsError):
    """A request completed with a status other than success; errno is ``EIO``. ``WC.raise_for_status`` raises it."""

    def __init__(self, wc: WC) -> None: ...
    @property
    def wc(self) -> WC:
        """The completion."""
    @property
    def status(self) -> int:
        """Its status, a ``WCStatus`` value."""
    @property
    def vendor_err(self) -> int:
        """The device's own number for the failure."""
    @property
    def first_error(self) -> WC | None:
        """Of a request that was flushed: the completion that broke its queue pair, where that was polled before."""

class RangeError(OverflowError, ValueError):
    """A value does not fit its field; the message names the field, the value and the limit."""

# ---- flags and constants -------------------------------------------------------------------------------------------

class FlagOps:
    """Operators of ``enum.IntFlag`` members, looked up in C. For use as a base class before IntFlag."""

    def __or__(self, other: int, /) -> Self: ...
    def __and__(self, other: int, /) -> Self: ...
    def __xor__(self, other: int, /) -> Self: ...
    def __ror__(self, other: int, /) -> Self: ...
    def __rand__(self, other: int, /) -> Self: ...
    def __rxor__(self, other: int, /) -> Self: ...
    def __invert__(self) -> Self: ...

@final
class Waiter:
    """How an event loop waits on a CQ, a CompChannel or a Context. Not for programs: the asyncio methods use it."""

    def __new__(cls, source: CQ | CompChannel | Context) -> Self: ...
    def fileno(self) -> int:
        """Return the descriptor to watch for reading."""
    def arm(self) -> None:
        """Ask for the next event, of a queue; look at the queue again before waiting for it."""
    def take(self) -> bool:
        """Take in what made the descriptor readable, and return whether to look at the object now."""
    def close(self) -> None:
        """Stop waiting and close the descriptor."""

IBV_ACCESS_LOCAL_WRITE: int
IBV_ACCESS_REMOTE_WRITE: int
IBV_ACCESS_REMOTE_READ: int
IBV_ACCESS_REMOTE_ATOMIC: int
IBV_ACCESS_MW_BIND: int
IBV_ACCESS_ZERO_BASED: int
IBV_ACCESS_ON_DEMAND: int
IBV_ACCESS_HUGETLB: int
IBV_ACCESS_FLUSH_GLOBAL: int
IBV_ACCESS_FLUSH_PERSISTENT: int
IBV_ACCESS_RELAXED_ORDERING: int
IBV_QPS_RESET: int
IBV_QPS_INIT: int
IBV_QPS_RTR: int
IBV_QPS_RTS: int
IBV_QPS_SQD: int
IBV_QPS_SQE: int
IBV_QPS_ERR: int
IBV_QPS_UNKNOWN: int
IBV_QP_STATE: int
IBV_QP_CUR_STATE: int
IBV_QP_EN_SQD_ASYNC_NOTIFY: int
IBV_QP_ACCESS_FLAGS: int
IBV_QP_PKEY_INDEX: int
IBV_QP_PORT: int
IBV_QP_QKEY: int
IBV_QP_AV: int
IBV_QP_PATH_MTU: int
IBV_QP_TIMEOUT: int
IBV_QP_RETRY_CNT: int
IBV_QP_RNR_RETRY: int
IBV_QP_RQ_PSN: int
IBV_QP_MAX_QP_RD_ATOMIC: int
IBV_QP_ALT_PATH: int
IBV_QP_MIN_RNR_TIMER: int
IBV_QP_SQ_PSN: int
IBV_QP_MAX_DEST_RD_ATOMIC: int
IBV_QP_PATH_MIG_STATE: int
IBV_QP_CAP: int
IBV_QP_DEST_QPN: int
IBV_QP_RATE_LIMIT: int
IBV_WR_RDMA_WRITE: int
IBV_WR_RDMA_WRITE_WITH_IMM: int
IBV_WR_SEND: int
IBV_WR_SEND_WITH_IMM: int
IBV_WR_RDMA_READ: int
IBV_WR_ATOMIC_CMP_AND_SWP: int
IBV_WR_ATOMIC_FETCH_AND_ADD: int
IBV_WR_LOCAL_INV: int
IBV_WR_BIND_MW: int
IBV_WR_SEND_WITH_INV: int
IBV_WR_TSO: int
IBV_SEND_FENCE: int
IBV_SEND_SIGNALED: int
IBV_SEND_SOLICITED: int
IBV_SEND_INLINE: int
IBV_SEND_IP_CSUM: int
IBV_WC_SUCCESS: int
IBV_WC_LOC_LEN_ERR: int
IBV_WC_LOC_QP_OP_ERR: int
IBV_WC_LOC_EEC_OP_ERR: int
IBV_WC_LOC_PROT_ERR: int
IBV_WC_WR_FLUSH_ERR: int
IBV_WC_MW_BIND_ERR: int
IBV_WC_BAD_RESP_ERR: int
IBV_WC_LOC_ACCESS_ERR: int
IBV_WC_REM_INV_REQ_ERR: int
IBV_WC_REM_ACCESS_ERR: int
IBV_WC_REM_OP_ERR: int
IBV_WC_RETRY_EXC_ERR: int
IBV_WC_RNR_RETRY_EXC_ERR: int
IBV_WC_LOC_RDD_VIOL_ERR: int
IBV_WC_REM_INV_RD_REQ_ERR: int
IBV_WC_REM_ABORT_ERR: int
IBV_WC_INV_EECN_ERR: int
IBV_WC_INV_EEC_STATE_ERR: int
IBV_WC_FATAL_ERR: int
IBV_WC_RESP_TIMEOUT_ERR: int
IBV_WC_GENERAL_ERR: int
IBV_WC_TM_ERR: int
IBV_WC_TM_RNDV_INCOMPLETE: int
IBV_WC_SEND: int
IBV_WC_RDMA_WRITE: int
IBV_WC_RDMA_READ: int
IBV_WC_COMP_SWAP: int
IBV_WC_FETCH_ADD: int
IBV_WC_BIND_MW: int
IBV_WC_LOCAL_INV: int
IBV_WC_TSO: int
IBV_WC_RECV: int
IBV_WC_RECV_RDMA_WITH_IMM: int
IBV_WC_GRH: int
IBV_WC_WITH_IMM: int
IBV_WC_IP_CSUM_OK: int
IBV_WC_WITH_INV: int
IBV_WC_TM_SYNC_REQ: int
IBV_WC_TM_MATCH: int
IBV_WC_TM_DATA_VALID: int
IBV_EVENT_CQ_ERR: int
IBV_EVENT_QP_FATAL: int
IBV_EVENT_QP_REQ_ERR: int
IBV_EVENT_QP_ACCESS_ERR: int
IBV_EVENT_COMM_EST: int
IBV_EVENT_SQ_DRAINED: int
IBV_EVENT_PATH_MIG: int
IBV_EVENT_PATH_MIG_ERR: int
IBV_EVENT_DEVICE_FATAL: int
IBV_EVENT_PORT_ACTIVE: int
IBV_EVENT_PORT_ERR: int
IBV_EVENT_LID_CHANGE: int
IBV_EVENT_PKEY_CHANGE: int
IBV_EVENT_SM_CHANGE: int
IBV_EVENT_SRQ_ERR: int
IBV_EVENT_SRQ_LIMIT_REACHED: int
IBV_EVENT_QP_LAST_WQE_REACHED: int
IBV_EVENT_CLIENT_REREGISTER: int
IBV_EVENT_GID_CHANGE: int
IBV_EVENT_WQ_FATAL: int
IBV_MTU_256: int
IBV_MTU_512: int
IBV_MTU_1024: int
IBV_MTU_2048: int
IBV_MTU_4096: int
IBV_PORT_NOP: int
IBV_PORT_DOWN: int
IBV_PORT_INIT: int
IBV_PORT_ARMED: int
IBV_PORT_ACTIVE: int
IBV_PORT_ACTIVE_DEFER: int
IBV_NODE_UNKNOWN: int
IBV_NODE_CA: int
IBV_NODE_SWITCH: int
IBV_NODE_ROUTER: int
IBV_NODE_RNIC: int
IBV_NODE_USNIC: int
IBV_NODE_USNIC_UDP: int
IBV_NODE_UNSPECIFIED: int
IBV_TRANSPORT_UNKNOWN: int
IBV_TRANSPORT_IB: int
IBV_TRANSPORT_IWARP: int
IBV_TRANSPORT_USNIC: int
IBV_TRANSPORT_USNIC_UDP: int
IBV_TRANSPORT_UNSPECIFIED: int
IBV_GID_TYPE_IB: int
IBV_GID_TYPE_ROCE_V1: int
IBV_GID_TYPE_ROCE_V2: int
IBV_FORK_DISABLED: int
IBV_FORK_ENABLED: int
IBV_FORK_UNNEEDED: int
