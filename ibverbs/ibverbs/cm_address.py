# SPDX-License-Identifier: BSD-3-Clause
"""Where connections begin and end: port spaces, and socket addresses as RDMA-CM has them, in bytes."""

from __future__ import annotations

import ipaddress
import socket
import struct
from enum import IntEnum
from operator import index
from typing import Any

__all__ = ["PortSpace", "addresses", "checked_port_space", "host_port", "is_multicast"]


class PortSpace(IntEnum):
    """What kind of service a port number belongs to, ``enum rdma_port_space``."""

    TCP = 0x0106
    """Reliable connections."""
    UDP = 0x0111
    """Datagrams (UD), and multicast."""
    IPOIB = 0x0002
    """Multicast groups that IP over InfiniBand uses too."""


def checked_port_space(value: int) -> PortSpace:
    """Check what a caller gave for one."""
    try:
        return PortSpace(index(value))
    except ValueError:
        names = ", ".join(space.name for space in PortSpace)
        raise ValueError(f"port_space must be a PortSpace ({names}), got {value}") from None


def addresses(host: str, port: int, passive: bool = False) -> list[tuple[int, bytes]]:
    """Families and socket addresses that a name stands for. Asks a name server where it is no address."""
    flags = socket.AI_PASSIVE if passive else 0
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, _sockaddr(family, address)) for family, _, _, _, address in found]


def _sockaddr(family: int, address: Any) -> bytes:
    """A ``struct sockaddr_in`` or ``sockaddr_in6`` from what getaddrinfo gives."""
    host, port = address[0], address[1]
    if family == socket.AF_INET:
        return struct.pack("=HH4s8x", family, socket.htons(port), socket.inet_aton(host))
    flow, scope = (address[2], address[3]) if len(address) > 3 else (0, 0)
    raw = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    return struct.pack("=HHI16sI", family, socket.htons(port), socket.htonl(flow), raw, scope)


def host_port(sockaddr: bytes) -> tuple[str, int]:
    """Address and port of a socket address; ("", 0) for none."""
    if len(sockaddr) < 8:
        return "", 0
    family, port = struct.unpack_from("=HH", sockaddr)
    if family == socket.AF_INET:
        return socket.inet_ntop(family, sockaddr[4:8]), socket.ntohs(port)
    scope = struct.unpack_from("=I", sockaddr, 24)[0]
    host = socket.inet_ntop(socket.AF_INET6, sockaddr[8:24])
    return (f"{host}%{scope}" if scope else host), socket.ntohs(port)


def is_multicast(sockaddr: bytes) -> bool:
    """Whether it is a group's."""
    return ipaddress.ip_address(host_port(sockaddr)[0].partition("%")[0]).is_multicast
