# SPDX-License-Identifier: BSD-3-Clause
"""What a child made by fork has to do before anything else of the program runs in it."""

from __future__ import annotations

import os
from typing import Callable

__all__ = ["watch_forks"]

_watched: set[Callable[[], None]] = set()


def watch_forks(in_child: Callable[[], None]) -> None:
    """Have a function of a module called in every child from now on; once, however often this is asked.

    Ask when it is needed and not at import: the interpreter keeps what is registered, and so its module, for good.
    """
    if in_child not in _watched:
        _watched.add(in_child)
        os.register_at_fork(after_in_child=in_child)
