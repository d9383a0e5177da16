# SPDX-License-Identifier: BSD-3-Clause
"""Checks for the fields of what peers send each other: integers of so many bits, and GIDs."""

from __future__ import annotations

from operator import index
from typing import Any

from ._extension import extension

__all__ = ["bytes_like", "gid_bytes", "integer"]


def integer(name: str, value: Any, least: int, most: int) -> int:
    """Return ``value`` as an int from ``least`` to ``most``; anything with ``__index__`` is taken."""
    number = int(index(value))
    if not least <= number <= most:
        raise extension.RangeError(f"{name} must be between {least} and {most}, got {number}")
    return number


def bytes_like(name: str, value: Any, length: int) -> bytes:
    """Return a copy of exactly ``length`` bytes of anything that exports its memory."""
    try:
        data = memoryview(value).tobytes()
    except TypeError:
        raise TypeError(f"{name} must be bytes-like, got {type(value).__name__}") from None
    if len(data) != length:
        raise ValueError(f"{name} must be {length} bytes, got {len(data)}")
    return data


def gid_bytes(name: str, value: Any) -> bytes:
    """Return the 16 bytes of a Gid (of either package) or of anything bytes-like."""
    raw = getattr(value, "raw", None)
    return bytes_like(name, raw if type(raw) is bytes else value, 16)
