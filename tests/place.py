# SPDX-License-Identifier: BSD-3-Clause
"""Where the tests run: which libibverbs answered, which devices it shows, and what those can do.

Nothing here decides what is right; it only finds out what is there, so that a test can say what it needs.
"""

from __future__ import annotations

import ctypes
import fcntl
import functools
import importlib
import os
import shutil
import socket
import struct
import subprocess
from typing import Any, Callable

import packages

#: What a test may ask for with ``@pytest.mark.needs(...)``, and how its absence is explained.
NEEDS = {
    "device": "a verbs device that moves data",
    "two_devices": "two verbs devices that reach each other",
    "rc": "a device with RC queue pairs",
    "uc": "a device with UC queue pairs",
    "ud": "a device with UD queue pairs",
    "pair": "a device with reliable queue pairs",
    "writes": "a device with reliable queue pairs, and a library with their RDMA writes",
    "efa": "an EFA device",
    "cq_events": "a device and a library whose completion queues tell a channel",
    "cq_ex": "an EFA device and a libefa with extended completion queues",
    "software_host": "softrdma, which does on demand what a device does by chance",
    "rdma_read": "an EFA device and a libefa with RDMA reads",
    "rdma_write": "an EFA device and a libefa with RDMA writes",
    "cm": "a device that RDMA-CM connects, and librdmacm",
    "srq": "a device with shared receive queues",
    "atomics": "a device with atomic operations",
    "roce": "a device on Ethernet with an IPv4 GID",
    "link_control": "a machine whose links may be taken down (softrdma, a VM of our own, or RDMA_TEST_BREAK_LINKS=1)",
    "kernel": "a kernel's own verbs, not a library that plays them",
    "siw": "an iWARP device",
    "stub": "the stub libibverbs",
    "devinfo": "a program ibv_devinfo of the same build as libibverbs",
    "netem": "a machine whose links may lose packets (softrdma, or a VM of our own with the program tc)",
    "soft_devices": "a VM of our own whose kernel makes rxe devices, and the programs ip and rdma",
    "memlock": "a kernel that counts locked memory, and the right to become another user",
}

_SIOCGIFADDR = 0x8915

Check = Callable[["Place"], bool]


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as f:
            return f.read().strip()
    except OSError:
        return ""


@functools.cache
def in_user_mode_linux() -> bool:
    return "User Mode Linux" in _read("/proc/cpuinfo")


@functools.cache
def time_scale() -> float:
    """How much longer than on bare metal a test has to be ready to wait here."""
    given = os.environ.get("RDMA_TEST_TIME_SCALE")
    if given:
        return float(given)
    return 5.0 if in_user_mode_linux() else 1.0


def seconds(bare: float) -> float:
    """A time-out, scaled to the machine: for what must happen. What must not happen is waited for unscaled."""
    return bare * time_scale()


def _runs(*command: str) -> bool:
    try:
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
    except FileNotFoundError:
        return False


class Node:
    """One device as tests use it: its name, port and the GID that its peers can reach."""

    def __init__(self, module: Any, device: Any) -> None:
        self.module = module
        self.device = device
        self.name: str = device.name
        self.port = 1
        self.sysfs = f"/sys/class/infiniband/{self.name}"
        node_type = _read(f"{self.sysfs}/node_type")
        self.is_iwarp = node_type.startswith("4") or (not node_type and self.name.startswith("siw"))
        with device.open() as ctx:
            self.port_attr = ctx.query_port(self.port)
            self.active = self.port_attr.state == 4
            self.gid_index, self.gid = self._choose_gid(ctx)

    def __repr__(self) -> str:
        return f"<Node {self.name}>"

    @property
    def is_efa(self) -> bool:
        """Of all devices it is those of EFA that have no link layer of a name."""
        return bool(self.port_attr.link_layer == 0) and not self.is_iwarp

    @property
    def is_ethernet(self) -> bool:
        return bool(self.port_attr.link_layer == 2)

    @property
    def netdev(self) -> str:
        """The network interface under the port's chosen GID, empty where there is none."""
        return _read(f"{self.sysfs}/ports/{self.port}/gid_attrs/ndevs/{self.gid_index}")

    def open(self) -> Any:
        return self.device.open()

    def _choose_gid(self, ctx: Any) -> tuple[int, bytes]:
        """On Ethernet the first IPv4-mapped RoCE v2 entry, else the first entry: InfiniBand has no choice to make."""
        if self.is_ethernet:
            for index in range(min(self.port_attr.gid_tbl_len, 16)):
                raw = bytes(ctx.query_gid(self.port, index))
                kind = _read(f"{self.sysfs}/ports/{self.port}/gid_attrs/types/{index}")
                if raw[:12] == bytes(10) + b"\xff\xff" and kind in ("", "RoCE v2"):
                    return index, raw
        return 0, bytes(ctx.query_gid(self.port, 0))


def ipv4_of(node: Node) -> str:
    """The address that RDMA-CM knows a device by: of its GID, or of its interface where GIDs are no addresses."""
    if node.gid[:12] == bytes(10) + b"\xff\xff":
        return socket.inet_ntoa(node.gid[12:])
    mac = ":".join(f"{byte:02x}" for byte in node.gid[:6])  # with which a GID of iWARP begins
    for interface in os.listdir("/sys/class/net"):
        if _read(f"/sys/class/net/{interface}/address") == mac:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                request = struct.pack("256s", interface.encode())
                return socket.inet_ntoa(fcntl.ioctl(s, _SIOCGIFADDR, request)[20:24])
    raise LookupError(f"no interface of {node} has an address")


class Place:
    """What answers below one of the packages; made once for a session."""

    def __init__(self, package: str) -> None:
        self.module = importlib.import_module(package)
        if not getattr(self.module, "__file__", None):  # the source folder of that name, found as a namespace
            raise ImportError(f"{package} is not built: run the tests under `meson devenv -C build`")
        self.is_stub = self._library_is_stub()
        chosen = [name for name in os.environ.get("RDMA_TEST_DEVICES", "").split(",") if name]
        devices = [] if self.is_stub else self.module.get_device_list()
        every = [Node(self.module, d) for d in devices if not chosen or d.name in chosen]
        self.iwarp = [n for n in every if n.is_iwarp]
        self.nodes = [n for n in every if n.active and not n.is_iwarp and n.is_efa == packages.is_efa(self.module)]

    @staticmethod
    def _library_is_stub() -> bool:
        """The stub announces itself by an exported function that no real libibverbs has."""
        folder = os.environ.get("RDMA_LIBRARY_PATH")
        name = os.path.join(folder, "libibverbs.so.1") if folder else "libibverbs.so.1"
        return hasattr(ctypes.CDLL(name), "stub_reset")

    @property
    def emulated(self) -> bool:
        return "softrdma" in os.environ.get("LD_PRELOAD", "")

    def missing(self, need: str) -> str | None:
        """The reason why `need` is not met here, or None."""
        if need not in NEEDS:
            raise LookupError(f"tests/place.py knows no need called {need!r}")
        return None if self._has(need) else f"needs {NEEDS[need]}"

    @functools.cache  # noqa: B019 (one Place lives as long as the session)
    def _has(self, need: str) -> bool:
        if need == "stub":
            return self.is_stub
        if need == "devinfo":
            return _runs("ibv_devinfo", "-l")
        if need == "siw":
            return bool(self.iwarp)
        if not self.nodes:
            return False
        return _CHECKS[need](self)

    def can_create_qp(self, qp_type: int) -> bool:
        m = self.module
        if qp_type not in list(m.QPType):
            return False
        with self.nodes[0].open() as ctx, ctx.alloc_pd() as pd, ctx.create_cq(4) as cq:
            try:
                pd.create_qp(m.QPInitAttr(cq, cq, qp_type=qp_type, max_send_wr=1, max_recv_wr=1)).close()
            except packages.error_of(m):
                return False
        return True

    def efa_caps(self) -> int:
        """What libefa says that the device can do; 0 for another package."""
        if not packages.is_efa(self.module):
            return 0
        with self.nodes[0].open() as ctx:
            return int(ctx.query_efa_device().device_caps)

    def tells_channels(self) -> bool:
        with self.nodes[0].open() as ctx, ctx.create_comp_channel() as channel, ctx.create_cq(4, channel) as cq:
            try:
                cq.req_notify()
            except packages.error_of(self.module):
                return False
        return True

    def has_extended_queues(self) -> bool:
        return packages.is_efa(self.module) and "efadv_create_cq" not in self.module.capabilities().missing

    def can_create_srq(self) -> bool:
        if packages.is_efa(self.module):
            return False
        with self.nodes[0].open() as ctx, ctx.alloc_pd() as pd:
            try:
                pd.create_srq(max_wr=4).close()
            except self.module.VerbsError:
                return False
        return True

    def can_register_for_atomics(self) -> bool:
        word = (ctypes.c_uint64 * 1)()
        flags = self.module.AccessFlags
        if packages.is_efa(self.module):
            return False
        with self.nodes[0].open() as ctx, ctx.alloc_pd() as pd:
            try:
                pd.reg_mr(ctypes.addressof(word), 8, flags.LOCAL_WRITE | flags.REMOTE_ATOMIC).close()
            except self.module.VerbsError:
                return False
        return True

    def may_break_links(self) -> bool:
        """Only where nobody else's connection hangs on them."""
        ours = in_user_mode_linux() or os.environ.get("RDMA_TEST_BREAK_LINKS") == "1"
        return ours and os.geteuid() == 0 and shutil.which("ip") is not None and bool(self.nodes[0].netdev)

    def has_connection_manager(self) -> bool:
        """RDMA-CM listens on the address of the first device."""
        if packages.is_efa(self.module) or not self._has("roce"):
            return False
        try:
            self.module.CMListener(ipv4_of(self.nodes[0])).close()
        except (OSError, ImportError):
            return False
        return True

    def has_path_between_two(self) -> bool:
        """Two addresses of one machine reach each other only if its routing was arranged so; ask by an RTR.

        An EFA fabric has no routes to arrange.
        """
        if packages.is_efa(self.module):
            return len(self.nodes) > 1
        if len(self.nodes) < 2 or not self._has("rc"):
            return False
        m, (here, there) = self.module, self.nodes[:2]
        with here.open() as ctx, ctx.alloc_pd() as pd, ctx.create_cq(4) as cq:
            with pd.create_qp(m.QPInitAttr(cq, cq, max_send_wr=1, max_recv_wr=1)) as qp:
                qp.to_init(here.port)
                remote = m.QPInfo(qp.qp_num, 0, there.port_attr.lid, there.gid, there.port, there.port_attr.active_mtu)
                try:
                    qp.to_rtr(remote, here.gid_index)
                except m.VerbsError:
                    return False
        return True


_CHECKS: dict[str, Check] = {
    "device": lambda place: True,
    "two_devices": Place.has_path_between_two,
    "rc": lambda place: place.can_create_qp(2),
    "uc": lambda place: place.can_create_qp(3),
    "ud": lambda place: place.can_create_qp(4),
    "pair": lambda place: place.can_create_qp(packages.reliable(place.module)),
    "writes": lambda place: place.can_create_qp(2) or bool(place.efa_caps() & 8),
    "efa": lambda place: packages.is_efa(place.module),
    "cq_events": Place.tells_channels,
    "cq_ex": Place.has_extended_queues,
    "software_host": lambda place: place.emulated,
    "rdma_read": lambda place: bool(place.efa_caps() & 1),
    "rdma_write": lambda place: bool(place.efa_caps() & 8),
    "cm": Place.has_connection_manager,
    "srq": Place.can_create_srq,
    "atomics": Place.can_register_for_atomics,
    "roce": lambda place: place.nodes[0].is_ethernet and place.nodes[0].gid[:12] == bytes(10) + b"\xff\xff",
    "kernel": lambda place: not place.emulated,
    "link_control": lambda place: place.emulated or place.may_break_links(),
    "netem": lambda place: place.emulated or (place.may_break_links() and _runs("tc", "qdisc", "show")),
    "soft_devices": lambda place: place.may_break_links() and _runs("rdma", "resource", "show"),
    "memlock": lambda place: not place.emulated and os.geteuid() == 0,
}
