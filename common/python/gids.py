# SPDX-License-Identifier: BSD-3-Clause
"""Which entry of a port's GID table to use, and why."""

from __future__ import annotations

from typing import Any, NamedTuple

from ._extension import extension as c
from .wire import integer

__all__ = ["GidChoice", "GidNotFoundError", "select_gid"]

_IB, _ROCE_V2 = c.IBV_GID_TYPE_IB, c.IBV_GID_TYPE_ROCE_V2
_MAPPED = bytes(10) + b"\xff\xff"  # an IPv4 address in IPv6 form
_LINK_LOCAL = b"\xfe\x80"
_AF_INET, _AF_INET6 = 2, 10  # socket.AF_INET, socket.AF_INET6: numbers of Linux


class GidChoice(NamedTuple):
    """The entry that ``select_gid`` picked."""

    entry: c.GidEntry
    """The entry itself; its ``gid_index`` is what ``sgid_index`` asks for."""
    reason: str
    """What it is, and why it went before the others that fit."""

    @property
    def gid(self) -> c.Gid:
        """The GID."""
        return self.entry.gid

    @property
    def gid_index(self) -> int:
        """Its index in the port's table."""
        return self.entry.gid_index


class GidNotFoundError(LookupError):
    """No entry of a GID table is what was asked for; the message lists each with the reason why it is not."""

    def __init__(self, message: str, passed_over: list[tuple[c.GidEntry, str]]) -> None:
        super().__init__(message, passed_over)
        self.passed_over = passed_over
        """Every entry of the table, and why it was not taken."""

    def __str__(self) -> str:
        return str(self.args[0])


def select_gid(
    ctx: c.Context,
    port: int = 1,
    *,
    gid_type: int | None = None,
    family: int | None = None,
    netdev: str | None = None,
    gid: Any = None,
) -> GidChoice:
    """Pick an entry of a port's GID table, and say why it is that one.

    Whatever is given must fit: ``gid_type`` (a ``GidType``), ``family`` (``socket.AF_INET`` or ``AF_INET6``, of RoCE
    only), ``netdev`` (the name of the network device), ``gid`` (a Gid, 16 bytes, or an IP address as text or from
    ``ipaddress``). Indices may move when a link goes down and up, or addresses come and go: choose by value again then.

    Of several that fit, the one that reaches furthest is taken: RoCE v2 before RoCE v1, which no router passes on; IPv4
    addresses, then other routable ones, then link-local ones; then the lowest index. On InfiniBand the lowest index.

    Raises ``GidNotFoundError``, a ``LookupError`` that lists every entry with the reason against it, and ``VerbsError``
    or the package's like where the port cannot be asked. ``ibv_query_gid_table``; other threads run meanwhile.
    """
    if family not in (None, _AF_INET, _AF_INET6):
        raise ValueError(f"family must be socket.AF_INET, socket.AF_INET6 or None, got {family!r}")
    if gid_type is not None:
        gid_type = integer("gid_type", gid_type, 0, 2**32 - 1)
    if netdev is not None and not isinstance(netdev, str):
        raise TypeError(f"netdev must be the name of a network device or None, not {type(netdev).__name__}")
    wanted = None if gid is None else _gid_of(gid)
    fit, passed_over = [], []
    for entry in ctx.query_gid_table(port):
        against = _against(entry, gid_type, family, netdev, wanted)
        if against is None:
            fit.append(entry)
        else:
            passed_over.append((entry, against))
    if not fit:
        raise GidNotFoundError(_nothing(ctx, port, passed_over), passed_over)
    fit.sort(key=_rank)
    others = [f"index {entry.gid_index} ({_kind(entry)})" for entry in fit[1:]]
    reason = _describe(fit[0])
    if others:
        reason += "; before " + ", ".join(others[:8]) + (f" and {len(others) - 8} more" if others[8:] else "")
    elif passed_over:
        reason += "; the only one that fits"
    return GidChoice(fit[0], reason)


def _gid_of(value: Any) -> c.Gid:
    """The GID that a value stands for: itself, its bytes, or an IP address."""
    if isinstance(value, str) or hasattr(value, "packed"):
        from ipaddress import ip_address

        packed = ip_address(value).packed
        return c.Gid(_MAPPED + packed if len(packed) == 4 else packed)
    return c.Gid(value)


def _is_ipv4(entry: c.GidEntry) -> bool:
    return bytes(entry.gid)[:12] == _MAPPED


def _is_link_local(entry: c.GidEntry) -> bool:
    return bytes(entry.gid)[:2] == _LINK_LOCAL


def _rank(entry: c.GidEntry) -> tuple[int, int, int]:
    """Sorts entries, the one that reaches furthest first."""
    if entry.gid_type == _IB:
        return 0, 0, entry.gid_index
    reach = 0 if _is_ipv4(entry) else 2 if _is_link_local(entry) else 1
    return int(entry.gid_type != _ROCE_V2), reach, entry.gid_index


def _kind(entry: c.GidEntry) -> str:
    """Type and kind of address: "RoCE v2, link-local"."""
    if entry.gid_type == _IB:
        return entry.gid_type_str
    kind = "IPv4" if _is_ipv4(entry) else "link-local IPv6" if _is_link_local(entry) else "IPv6"
    return f"{entry.gid_type_str}, {kind}"


def _describe(entry: c.GidEntry) -> str:
    where = f" on {entry.netdev}" if entry.netdev else ""
    return f"index {entry.gid_index}: {entry.gid} ({_kind(entry)}){where}"


def _against(
    entry: c.GidEntry, gid_type: int | None, family: int | None, netdev: str | None, wanted: c.Gid | None
) -> str | None:
    """Why an entry is not what is asked for; None if it is."""
    if wanted is not None and entry.gid != wanted:
        return f"is not {wanted}"
    if gid_type is not None and entry.gid_type != gid_type:
        names = {c.IBV_GID_TYPE_IB: "IB", c.IBV_GID_TYPE_ROCE_V1: "RoCE v1", c.IBV_GID_TYPE_ROCE_V2: "RoCE v2"}
        return f"is {entry.gid_type_str}, not {names.get(gid_type, gid_type)}"
    if family is not None and entry.gid_type == _IB:
        return "is an InfiniBand address, which has no family"
    if family is not None and _is_ipv4(entry) != (family == _AF_INET):
        return "is IPv4, not IPv6" if _is_ipv4(entry) else "is IPv6, not IPv4"
    if netdev is not None and entry.netdev != netdev:
        return f"is on {entry.netdev or 'no network device'}, not {netdev}"
    return None


def _nothing(ctx: c.Context, port: int, passed_over: list[tuple[c.GidEntry, str]]) -> str:
    what = f"no GID of port {port} of {ctx.name} is what was asked for"
    if not passed_over:
        return f"{what}: its table is empty, as it is while the link is down or the network device has no address"
    return "\n".join([f"{what}:", *(f"  {_describe(entry)}: {against}" for entry, against in passed_over)])
