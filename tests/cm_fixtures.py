# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures for tests of connections through RDMA-CM: an address, who listens there, and an end that found the way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from cm_ends import End
from place import Place, ipv4_of, seconds


@pytest.fixture
def cm_kind() -> str:
    """The kind of device that `host` is an address of; a file that wants both has a fixture with that parameter."""
    return "roce"


@pytest.fixture
def host(place: Place, cm_kind: str) -> str:
    if cm_kind == "iwarp" and not place.iwarp:
        pytest.skip("needs an iWARP device")
    return ipv4_of((place.iwarp if cm_kind == "iwarp" else place.nodes)[0])


@pytest.fixture
def listener(ib: Any, host: str) -> Iterator[Any]:
    with ib.CMListener(host) as made:
        yield made


@pytest.fixture
def client(ib: Any, listener: Any) -> Iterator[End]:
    end = End(ib, ib.CMID.resolve(listener.host, listener.port, timeout=seconds(5)))
    yield end
    end.close()
