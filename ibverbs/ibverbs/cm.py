# SPDX-License-Identifier: BSD-3-Clause
"""Connections through RDMA-CM, both sides: by IP address and port, over the real librdmacm, opened on first use.

A client resolves an address, makes a queue pair and connects; a server listens, gets requests, makes a queue pair for
each and accepts. The states of the queue pair follow the connection. iWARP has only this way to connect.
"""

from .cm_address import PortSpace
from .cm_error import CMError, CMEvent, CMEventType
from .cm_id import CMID
from .cm_listener import CMListener
from .cm_multicast import MulticastGroup

__all__ = ["CMID", "CMError", "CMEvent", "CMEventType", "CMListener", "MulticastGroup", "PortSpace"]
