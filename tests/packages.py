# SPDX-License-Identifier: BSD-3-Clause
"""The packages under test: which there are, and what a test that states a promise of both has to ask the package for.

`ib` in a test is the module itself. What the packages call differently, or what has to be said differently, is here:
the class of failed verbs, the first device that is theirs, a queue pair with reliable delivery, a request on it.
"""

from __future__ import annotations

import functools
import importlib.util
from typing import Any

RC, UC, UD, SRD = 2, 3, 4, 255
SIGNALED = 2

#: Every package of the project, those that are built among them first.
ALL = ("ibverbs", "efa")


@functools.cache
def built() -> tuple[str, ...]:
    """Those that can be imported here; the source folder of one, found as a namespace, is no package."""
    found = []
    for name in ALL:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            found.append(name)
    return tuple(found)


def is_efa(ib: Any) -> bool:
    return bool(ib.__name__ == "efa")


def error_of(ib: Any) -> Any:
    """The exception of a failed verb: VerbsError or EfaError."""
    return ib.EfaError if is_efa(ib) else ib.VerbsError


def devices_of(ib: Any) -> Any:
    """The devices that the package is for, of all that the library lists."""
    return ib.get_efa_device_list() if is_efa(ib) else ib.get_device_list()


def open_device(ib: Any) -> Any:
    """The first of them."""
    return devices_of(ib)[0].open()


def reliable(ib: Any) -> int:
    """The type of queue pair that delivers what was sent, or says that it did not."""
    return SRD if is_efa(ib) else RC


def some_ah(ib: Any, pd: Any) -> Any:
    return pd.create_ah(ib.AHAttr(dgid=bytes(15) + b"\1"))
