# SPDX-License-Identifier: BSD-3-Clause
"""The collector of cycles, made to run in the midst of what a test does."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Any, Callable


@contextlib.contextmanager
def eager_collector(*thresholds: int) -> Iterator[None]:
    """With these thresholds: (1, 1, 1) collects everything at nearly each allocation of a container."""
    old = gc.get_threshold()
    gc.set_threshold(*thresholds)
    try:
        yield
    finally:
        gc.set_threshold(*old)


@contextlib.contextmanager
def looking_at_collections(look: Callable[[], int]) -> Iterator[list[int]]:
    """With a collector that runs all the time: a list of what `look` says at the beginning and end of each run."""
    seen: list[int] = []

    def note(phase: str, info: Any) -> None:
        seen.append(look())

    gc.callbacks.append(note)
    try:
        with eager_collector(1, 1, 1):
            yield seen
    finally:
        gc.callbacks.remove(note)
