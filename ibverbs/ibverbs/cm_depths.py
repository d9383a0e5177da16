# SPDX-License-Identifier: BSD-3-Clause
"""How many reads and atomics the two ends of a connection have under way at once."""

from __future__ import annotations

from typing import NamedTuple

from ._ibverbs import Context
from .wire import integer

__all__ = ["Depths"]

_MOST = 254  # 255 stands for "as much as the device has"


class Depths(NamedTuple):
    """How many this end answers at once, and how many it asks at once."""

    responder_resources: int
    initiator_depth: int

    @classmethod
    def of_device(cls, context: Context) -> Depths:
        """What a queue pair of the device can do at most."""
        attr = context.query_device()
        return cls(min(attr.max_qp_rd_atom, _MOST), min(attr.max_qp_init_rd_atom, _MOST))

    def chosen(self, responder_resources: int | None, initiator_depth: int | None) -> Depths:
        """What a caller wants of these; None for all. Raises RangeError for more."""
        wanted = zip(self._fields, (responder_resources, initiator_depth), self)
        return Depths(*(most if asked is None else integer(name, asked, 0, most) for name, asked, most in wanted))

    def lowered_to(self, responder_resources: int, initiator_depth: int) -> Depths:
        """The smaller of both sides, which neither the kernel nor librdmacm sees to."""
        return Depths(min(self[0], responder_resources), min(self[1], initiator_depth))
