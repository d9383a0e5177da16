# SPDX-License-Identifier: BSD-3-Clause
"""What peers send each other: records of integers of so many bits and GIDs, checked field by field."""

from __future__ import annotations

import struct
from operator import index
from typing import Any, Callable, ClassVar, TypeVar

from ._extension import extension

__all__ = ["WireRecord", "bytes_like", "gid_bytes", "integer"]

_Record = TypeVar("_Record", bound="WireRecord")


class WireRecord:
    """Base of a dataclass that travels as bytes. A field is checked, and brought into its form, whenever it is set."""

    _layout: ClassVar[struct.Struct]
    """Its form on the wire; the fields in this order."""
    _fields: ClassVar[dict[str, Callable[[Any], Any]]]
    """Each field with what checks its values: returns the value to keep, or raises."""

    def __setattr__(self, name: str, value: Any) -> None:
        check = self._fields.get(name)
        object.__setattr__(self, name, value if check is None else check(value))

    def to_bytes(self) -> bytes:
        """Return the bytes for the peer: the fields in order, big-endian, without gaps."""
        return self._layout.pack(*(getattr(self, name) for name in self._fields))

    @classmethod
    def from_bytes(cls: type[_Record], data: bytes) -> _Record:
        """Return the record in exactly these bytes; ``ValueError`` for another length or a field out of range."""
        return cls(*cls._layout.unpack(bytes_like("data", data, cls._layout.size)))


def integer(name: str, value: Any, least: int, most: int, of: str = "") -> int:
    """Return ``value`` as an int from ``least`` to ``most``; anything with ``__index__`` is taken.

    ``of`` says in the message whose limit ``most`` is.
    """
    if not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}")
    number = int(index(value))
    if not least <= number <= most:
        raise extension.RangeError(f"{name} must be between {least} and {most}{of}, got {number}")
    return number


def bytes_like(name: str, value: Any, length: int | None = None) -> bytes:
    """Return a copy of what anything exports as its memory; exactly ``length`` bytes, if given."""
    try:
        data = memoryview(value).tobytes()
    except TypeError:
        raise TypeError(f"{name} must be bytes-like, got {type(value).__name__}") from None
    if length is not None and len(data) != length:
        raise ValueError(f"{name} must be {length} bytes, got {len(data)}")
    return data


def gid_bytes(name: str, value: Any) -> bytes:
    """Return the 16 bytes of a Gid (of either package) or of anything bytes-like."""
    raw = getattr(value, "raw", None)
    return bytes_like(name, raw if type(raw) is bytes else value, 16)
