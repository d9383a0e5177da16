# SPDX-License-Identifier: BSD-3-Clause
"""What ``python -m`` of a package prints: the RDMA devices of this machine, or why one does not show up."""

from __future__ import annotations

import argparse
import importlib
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from . import enums
from ._extension import extension as c

__all__ = ["find_causes", "main"]

_PACKAGE = __name__.rpartition(".")[0]
_PROVIDERS = "ibverbs-providers (Debian, Ubuntu), libibverbs (Fedora, RHEL), rdma-core (Arch, Alpine)"
_COLUMN = 31  # the longest name of a limit and its indent
_LINK_LAYERS = {0: "unspecified", 1: "InfiniBand", 2: "Ethernet"}
_NODE_TYPES = {1: "channel adapter", 2: "switch", 3: "router", 4: "iWARP adapter", 7: "unspecified (EFA)"}

_capabilities: Any
try:  # of a package that has more to say of its library and its devices: efa
    _capabilities = importlib.import_module(f"{_PACKAGE}.capabilities")
except ImportError:
    _capabilities = None


# ---- why one is not there -------------------------------------------------------------------------------------------


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def find_causes(listed: Sequence[str], root: Path = Path("/")) -> list[str]:
    """Say of every device that libibverbs does not list why that may be, or why there is none; nothing if all are.

    Reads ``/sys``, ``/dev`` and ``/etc`` below ``root``.
    """
    devices = _names(root / "sys/class/infiniband")
    if not devices:
        return [] if listed else list(_no_devices(root))
    verbs = root / "sys/class/infiniband_verbs"
    nodes = {_read(verbs / name / "ibdev"): name for name in _names(verbs) if name.startswith("uverbs")}
    if not nodes and not listed:
        return [
            f"The kernel has {', '.join(devices)}, but gives programs no way to it: /sys/class/infiniband_verbs is "
            "empty. Load the kernel module ib_uverbs (modprobe ib_uverbs)."
        ]
    return [_why_not_listed(name, nodes.get(name), root) for name in devices if name not in listed]


def _no_devices(root: Path) -> Iterator[str]:
    if (root / "sys/class/infiniband").exists():
        yield "The kernel supports RDMA, but has no device: /sys/class/infiniband is empty."
    else:
        yield (
            "The kernel has no RDMA device: there is no /sys/class/infiniband. Either the module ib_core is not "
            "loaded, or this is a container that does not see the host's /sys."
        )
    found = list(_adapters_without_driver(root / "sys/bus/pci/devices"))
    yield from found
    if not found:
        yield (
            "A card needs the kernel module of its vendor (mlx5_ib, bnxt_re, irdma, efa, ...). Without one, any "
            "network interface can be a software device: modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0. "
            "With no kernel module at all, softrdma plays the devices: python -m softrdma run -- PROGRAM."
        )


def _adapters_without_driver(folder: Path) -> Iterator[str]:
    for address in _names(folder):
        vendor, device = _read(folder / address / "vendor"), _read(folder / address / "device")
        if vendor == "0x1d0f" and device.startswith("0xefa"):
            yield f"PCI device {address} is an EFA adapter: load the kernel module efa (modprobe efa)."
        elif _read(folder / address / "class").startswith("0x0207"):
            yield (
                f"PCI device {address} ({vendor}:{device}) is an InfiniBand adapter without an RDMA driver: load the "
                "kernel module of its vendor (mlx5_ib, mlx4_ib, ...)."
            )


def _why_not_listed(name: str, node: str | None, root: Path) -> str:
    if node is None:
        return f"{name}: the kernel gives programs no way to it; nothing in /sys/class/infiniband_verbs names it."
    path = root / "dev/infiniband" / node
    if not path.exists():
        return (
            f"{name}: there is no /dev/infiniband/{node}. udev makes it; a container has to be given it "
            "(docker run --device=/dev/infiniband)."
        )
    return _why_not_permitted(name, path) or _why_no_provider(name, root)


def _why_not_permitted(name: str, path: Path) -> str | None:
    """What keeps this user from opening a device's file; None if nothing does."""
    if os.access(path, os.R_OK | os.W_OK):
        return None
    status = path.stat()
    return (
        f"{name}: this user may not open /dev/infiniband/{path.name}, which is {stat.filemode(status.st_mode)} of "
        f"{_user(status.st_uid)}:{_group(status.st_gid)}. A udev rule or membership of its group gives the right."
    )


def _user(number: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _group(number: int) -> str:
    import grp

    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _why_no_provider(name: str, root: Path) -> str:
    folder = root / "etc/libibverbs.d"
    words = [_read(folder / entry).split() for entry in _names(folder) if entry.endswith(".driver")]
    providers = sorted(w[1] for w in words if len(w) > 1 and w[0] == "driver")
    driver = root / "sys/class/infiniband" / name / "device/driver"
    of_kernel = f" (kernel driver {os.path.basename(os.path.realpath(driver))})" if driver.exists() else ""
    if not providers:
        return f"{name}{of_kernel}: libibverbs has no provider at all in /etc/libibverbs.d. Install {_PROVIDERS}."
    return (
        f"{name}{of_kernel}: libibverbs does not take it. Its provider is missing or of another build than libibverbs, "
        f"which then says so on stderr; there are {', '.join(providers)}."
    )


# ---- what is there --------------------------------------------------------------------------------------------------


def _library() -> str:
    """The path of the libibverbs that this process has open."""
    for line in _read(Path("/proc/self/maps")).splitlines():
        path = line.partition("/")[2]
        if os.path.basename(path).startswith("libibverbs.so"):
            return "/" + path
    return "unknown"


def _enum_name(kind: str, value: int) -> str:
    """The name of an enum's member; its number where there is none."""
    try:
        return str(getattr(enums, kind)(value).name)
    except ValueError:
        return str(value)


def _print_device(device: c.Device, verbose: bool) -> bool:
    """Print what a device says of itself, as far as it does; return whether it can be used."""
    print(device.name)
    try:
        _print_facts(
            {
                "node_guid": device.guid_str,
                "node_type": _NODE_TYPES.get(device.node_type, device.node_type),
                "transport": _enum_name("TransportType", device.transport_type),
                "pci_address": device.pci_address,
                "numa_node": device.numa_node,
                "netdevs": ", ".join(device.netdevs) or None,
            }
        )
        with device.open() as ctx:
            _print_context(ctx, verbose)
    except OSError as error:
        print(f"    cannot be used: {error}")
        for why in _why_not_opened(device.name):
            print(f"    {why}")
        return False
    return True


def _print_context(ctx: c.Context, verbose: bool) -> None:
    attr = ctx.query_device()
    if _capabilities is not None:
        _print_facts(_capabilities.facts_of_device(ctx))
    _print_facts(
        {"fw_ver": attr.fw_ver or None, "vendor_id": f"{attr.vendor_id:#06x}", "vendor_part_id": attr.vendor_part_id}
    )
    if verbose:
        _print_facts({n: getattr(attr, n) for n in dir(attr) if n.startswith("max_") or n == "page_size_cap"})
    for port in range(1, attr.phys_port_cnt + 1):
        _print_port(ctx, port, verbose)


def _print_facts(facts: dict[str, Any], indent: int = 4) -> None:
    """Print names and values in two columns, those that are None not at all."""
    for name, value in facts.items():
        if value is not None:
            print(f"{'':{indent}}{name + ':':<{_COLUMN - indent}} {value}")


def _print_port(ctx: c.Context, port: int, verbose: bool) -> None:
    attr = ctx.query_port(port)
    mtu = {n: 128 << n for n in range(1, 6)}
    print(f"    port {port}:")
    facts = {
        "state": _enum_name("PortState", attr.state),
        "link_layer": _LINK_LAYERS.get(attr.link_layer, attr.link_layer),
        "active_mtu": mtu.get(attr.active_mtu, attr.active_mtu),
        "max_mtu": mtu.get(attr.max_mtu, attr.max_mtu),
        "lid": attr.lid or None,
        "max_msg_sz": attr.max_msg_sz if verbose else None,
    }
    for entry in ctx.query_gid_table(port):
        where = f" on {entry.netdev}" if entry.netdev else ""
        facts[f"GID[{entry.gid_index}]"] = f"{entry.gid}, {entry.gid_type_str}{where}"
    _print_facts(facts, indent=8)


def _why_not_opened(name: str, root: Path = Path("/")) -> Iterator[str]:
    verbs = root / "sys/class/infiniband_verbs"
    for node in _names(verbs):
        if _read(verbs / node / "ibdev") != name:
            continue
        path = root / "dev/infiniband" / node
        why = _why_not_permitted(name, path) if path.exists() else _why_not_listed(name, node, root)
        if why:
            yield why


# ---- the command ----------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 if every device that was asked for can be used, 1 if one cannot or there is none."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {_PACKAGE}",
        description="Prints the RDMA devices of this machine, with their ports and GIDs, or why none shows up.",
    )
    parser.add_argument("-l", "--list", action="store_true", help="print only the names")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the limits too")
    parser.add_argument("device", nargs="*", help="only these (default: all)")
    options = parser.parse_args(arguments)

    devices = c.get_device_list()
    names = [device.name for device in devices]
    causes = find_causes(names)
    unknown = [name for name in options.device if name not in names]
    chosen = [device for device in devices if not options.device or device.name in options.device]
    if options.list:
        for device in chosen:
            print(device.name)
        usable = True
    else:
        print(f"libibverbs: {_library()}")
        if _capabilities is not None:
            print("\n".join(_capabilities.about_library()))
        usable = all([_print_device(device, options.verbose) for device in chosen])
    if not devices:
        print("No RDMA device.", file=sys.stderr)
    elif _capabilities is not None and not _capabilities.has_devices():
        print(f"None of these is a device that {_PACKAGE} is for.", file=sys.stderr)
    for name in unknown:
        print(f"{name}: there is no such device.", file=sys.stderr)
    for cause in causes:
        print(cause, file=sys.stderr)
    return 0 if chosen and usable and not unknown else 1
