# SPDX-License-Identifier: BSD-3-Clause
"""A software RDMA host below the unmodified libibverbs.

``python -m softrdma run -- PROGRAM ARGS`` starts a program that finds RDMA devices where there are none;
``preload()`` prepares an environment for children; ``pytest --softrdma`` runs a test suite on the host;
``softrdma.faults`` makes things go wrong on it.
"""

from __future__ import annotations

import ctypes
import os
import sysconfig
from collections.abc import MutableMapping
from importlib import resources
from pathlib import Path

from . import faults
from ._version import __version__

__all__ = ["__version__", "faults", "is_loaded", "library", "preload"]

_NAME = "libsoftrdma.so"


def library() -> Path:
    """The shared library to be named last in LD_PRELOAD."""
    here = Path(__file__).parent
    installed = ".softrdma.mesonpy.libs"  # where a wheel has it, beside the package or with the platform's files
    for folder in (here, here.parent / installed, Path(sysconfig.get_path("platlib")) / installed):
        if (folder / _NAME).exists():
            return folder / _NAME
    found = Path(str(resources.files(__name__) / _NAME))  # an editable installation keeps it elsewhere
    if not found.exists():
        raise FileNotFoundError(f"{_NAME} is neither beside {__file__} nor installed: softrdma is not built")
    return found


def preload(
    env: MutableMapping[str, str] | None = None,
    *,
    devices: str | None = None,
    fabric: str | None = None,
) -> None:
    """Make programs started with the environment (os.environ by default) run on the software host.

    The library goes last in LD_PRELOAD, so that a sanitizer's stays first. ``devices`` is a list such as ``"rxe:2"`` or
    ``"rxe:2,efa:1"``; processes whose ``fabric`` has the same name reach each other (by default one for each user).
    This process itself is not changed: only what it starts.
    """
    target: MutableMapping[str, str] = os.environ if env is None else env
    path = str(library())
    others = [entry for entry in target.get("LD_PRELOAD", "").replace(":", " ").split() if entry != path]
    target["LD_PRELOAD"] = ":".join([*others, path])
    if devices is not None:
        target["SOFTRDMA_DEVICES"] = devices
    if fabric is not None:
        target["SOFTRDMA_FABRIC"] = fabric


def is_loaded() -> bool:
    """Does this process itself run on the software host?"""
    return hasattr(ctypes.CDLL(None), "softrdma_version")
