# SPDX-License-Identifier: BSD-3-Clause
"""The Context of a device that connections are made over: one for all of a process, so that their PDs mix."""

from __future__ import annotations

import errno
import threading
import weakref
from typing import Any

from . import _ibverbs
from ._ibverbs import Context, VerbsError
from .forks import watch_forks

__all__ = ["shared_context"]

_contexts: weakref.WeakValueDictionary[str, Context] = weakref.WeakValueDictionary()
_lock = threading.RLock()  # of this thread again, too: opening may run finalizers, which may ask for a context


def _renew_in_child() -> None:
    global _lock
    _lock = threading.RLock()  # another thread of the parent may have had it


def shared_context(raw: Any) -> Context:
    """The one of an identifier's device, which nobody closes: it goes with its last user."""
    name = raw.device[0]
    watch_forks(_renew_in_child)
    with _lock:
        context = _contexts.get(name)
        if context is None or not _is_usable(context):
            device = next((found for found in _ibverbs.get_device_list() if found.name == name), None)
            if device is None:
                raise VerbsError("CMID.context", errno.ENODEV, f"{name} is gone")
            context = device.open()
            raw.share(context)
            _contexts[name] = context
        return context


def _is_usable(context: Context) -> bool:
    try:
        context.query_device()  # EBADF in a child that was forked since; EIO where the device went and came again
    except VerbsError:
        return False
    return True
