# SPDX-License-Identifier: BSD-3-Clause
"""A moment until which something may wait."""

from __future__ import annotations

import time

from .waiting import checked_timeout

__all__ = ["Deadline"]


class Deadline:
    """So many seconds from now, or never for None. Raises as every wait does for what is no time."""

    def __init__(self, timeout: float | None) -> None:
        self.seconds = checked_timeout(timeout)
        self._at = None if self.seconds is None else time.monotonic() + self.seconds

    def left(self) -> float | None:
        """Seconds until then, 0 when it has passed; None where it never comes."""
        return None if self._at is None else max(0.0, self._at - time.monotonic())

    @property
    def passed(self) -> bool:
        """Whether it is over."""
        return self.left() == 0

    def milliseconds(self, most: int) -> int | None:
        """What is left, rounded up and at most so many, for calls that count in those; None where it never comes."""
        left = self.left()
        return None if left is None else int(min(left * 1000 + 1, most))
