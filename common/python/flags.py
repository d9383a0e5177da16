# SPDX-License-Identifier: BSD-3-Clause
"""Flag enums whose operators are look-ups in C."""

from __future__ import annotations

from enum import IntFlag
from typing import TypeVar

from ._extension import extension

__all__ = ["FlagOps", "flag_operators"]

FlagOps = extension.FlagOps
_Flag = TypeVar("_Flag", bound=IntFlag)
_OPERATORS = ("__or__", "__ror__", "__and__", "__rand__", "__xor__", "__rxor__", "__invert__")


def flag_operators(cls: type[_Flag]) -> type[_Flag]:
    """Give a flag enum made with ``class Name(FlagOps, IntFlag)`` the operators of FlagOps.

    Inheriting them is not enough: from CPython 3.11 on the enum machinery writes Flag's operators, which are
    Python, into each class it makes. Written back afterwards, the interpreter calls the C functions directly.
    """
    if cls.__bases__[0] is not FlagOps:
        raise TypeError(f"{cls.__name__} does not have FlagOps as its first base")
    attributes = {name: getattr(FlagOps, name) for name in _OPERATORS}
    if not hasattr(cls, "_inverted_"):  # before 3.11; the C code looks there for the inverse of a member
        attributes["_inverted_"] = NotImplemented
    for name, value in attributes.items():
        setattr(cls, name, value)
    return cls
