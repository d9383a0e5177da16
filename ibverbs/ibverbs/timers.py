# SPDX-License-Identifier: BSD-3-Clause
"""The two times of a queue pair that are given as a code, from microseconds."""

from __future__ import annotations

from ._ibverbs import RangeError

__all__ = ["ack_timeout", "rnr_timer"]

# The codes of the RNR NAK timer with their microseconds, shortest first: 0 is the longest.
_RNR_US = (
    (1, 10), (2, 20), (3, 30), (4, 40), (5, 60), (6, 80), (7, 120), (8, 160), (9, 240), (10, 320), (11, 480),
    (12, 640), (13, 960), (14, 1280), (15, 1920), (16, 2560), (17, 3840), (18, 5120), (19, 7680), (20, 10240),
    (21, 15360), (22, 20480), (23, 30720), (24, 40960), (25, 61440), (26, 81920), (27, 122880), (28, 163840),
    (29, 245760), (30, 327680), (31, 491520), (0, 655360),
)  # fmt: skip
_ACK_UNIT_US = 4.096
_ACK_US = tuple((code, _ACK_UNIT_US * 2**code) for code in range(1, 32))


def rnr_timer(us: float) -> int:
    """Return the ``min_rnr_timer`` for so many microseconds, or the next longer one that has a code.

    That is how long a sender waits before it tries again, having found no receive. There are codes from 10 us (1) to
    491.52 ms (31), and 0 for 655.36 ms. Raises ``RangeError`` for nothing, less, or more than that.
    """
    return _encode("rnr_timer", us, _RNR_US)


def ack_timeout(us: float) -> int:
    """Return the ``timeout`` of ``QP.to_rts`` for so many microseconds, or the next longer one that has a code.

    That is how long a sender waits for an acknowledgement before it asks again, ``retry_cnt`` times:
    4.096 us * 2**code, from 8.192 us (1) to 2 h 26 min (31). The code 0, for ever, is none of these. A device may
    take longer than it is told, up to four times. Raises ``RangeError`` for nothing, less, or more than that.
    """
    return _encode("ack_timeout", us, _ACK_US)


def _encode(name: str, us: float, codes: tuple[tuple[int, float], ...]) -> int:
    """The first code, from the shortest time on, whose time is long enough."""
    if not hasattr(us, "__float__") and not hasattr(us, "__index__"):
        raise TypeError(f"{name}() takes microseconds as a number, not {type(us).__name__}")
    if us > 0:
        for code, time in codes:
            if us <= time:
                return code
    raise RangeError(f"{name}() takes microseconds above 0 and up to {codes[-1][1]:.0f}, got {us!r}")
