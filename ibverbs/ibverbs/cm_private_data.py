# SPDX-License-Identifier: BSD-3-Clause
"""What peers tell each other while they connect: how much of it fits, and how its length is kept."""

from __future__ import annotations

from ._ibverbs import RangeError
from .cm_address import PortSpace
from .wire import bytes_like

__all__ = ["PrivateData"]

_API_MOST = 255
_IWARP_MOST = 251
_MOST = {  # on InfiniBand and RoCE, where it is padded with zeros to this
    (PortSpace.TCP, "connect"): 56,
    (PortSpace.TCP, "accept"): 196,
    (PortSpace.TCP, "reject"): 148,
    (PortSpace.UDP, "connect"): 180,
    (PortSpace.UDP, "accept"): 136,
    (PortSpace.UDP, "reject"): 136,
}


class PrivateData:
    """How private data goes over the wire in a port space: as it is, or (``exact``) with its length before it."""

    def __init__(self, port_space: PortSpace, exact: bool) -> None:
        self._space = PortSpace.TCP if port_space == PortSpace.TCP else PortSpace.UDP
        self._exact = exact

    def pack(self, data: bytes, iwarp: bool, call: str) -> bytes:
        """What ``call`` sends. Raises RangeError where it carries less."""
        data = bytes_like("private_data", data)
        most = _IWARP_MOST if iwarp else _MOST[self._space, call]
        carried = most - 1 if self._exact else most
        if len(data) > carried:
            kind = "iWARP" if iwarp else f"InfiniBand and RoCE in the {self._space.name} port space"
            prefix = " after the length before it" if self._exact else ""
            raise RangeError(
                f"private_data has {len(data)} bytes: {call} carries at most {carried} on {kind}{prefix}, and no call "
                f"more than {_API_MOST}"
            )
        return bytes([len(data)]) + data if self._exact else data

    def unpack(self, data: bytes) -> bytes:
        """What the peer meant. Raises ValueError where it tells no length and should."""
        if not self._exact or not data:
            return data
        length = data[0]
        if length >= len(data):
            raise ValueError(f"the peer's private data of {len(data)} bytes does not begin with its length")
        return data[1 : 1 + length]
