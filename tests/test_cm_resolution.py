# SPDX-License-Identifier: BSD-3-Clause
"""Finding a peer by RDMA-CM: names with several addresses, answers that get lost, and what is no port space."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from typing import Any, Callable

import pytest
from cm_ends import put_before
from place import seconds

pytestmark = [pytest.mark.only("ibverbs"), pytest.mark.needs("cm")]

ADDR_ERROR, ROUTE_ERROR = 1, 3


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """What names stand for, instead of what a name server says."""
    known: dict[str, list[str]] = {}
    ask = socket.getaddrinfo

    def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        return [found for one in known.get(host, [host]) for found in ask(one, *arguments, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return known


@pytest.mark.parametrize(("call", "event"), [("resolve_addr", ADDR_ERROR), ("resolve_route", ROUTE_ERROR)])
def test_an_answer_that_was_missed_costs_one_try(
    ib: Any, listener: Any, monkeypatch: pytest.MonkeyPatch, call: str, event: int
) -> None:
    from ibverbs.cm_channel import Channel

    opened = Channel.open
    tries: list[int] = []

    def open_missing_one(port_space: int) -> Any:
        channel = opened(port_space)
        raw = channel.raw

        def resolve(*arguments: Any) -> None:
            tries.append(arguments[-1])
            if len(tries) > 1:
                getattr(raw, call)(*arguments)

        def get_event() -> Any:
            if len(tries) == 1:
                return event, -errno.ETIMEDOUT, 0, None, b"", (0, 0, 0, 0, 0)
            return raw.get_event()

        put_before(channel, get_event=get_event, **{call: resolve})
        return channel

    monkeypatch.setattr(Channel, "open", open_missing_one)
    ib.CMID.resolve(listener.host, listener.port, timeout=seconds(5)).close()
    assert len(tries) == 2 and max(tries) <= 1000


def test_the_next_address_of_a_name_is_tried(ib: Any, listener: Any, names: dict[str, list[str]]) -> None:
    names["server"] = [listener.host.rpartition(".")[0] + ".77", listener.host]
    with ib.CMID.resolve("server", listener.port, timeout=0.3) as cmid:
        assert cmid.host == "server" and cmid.source == listener.host


def test_only_addresses_of_the_sources_family_are_tried(ib: Any, host: str, names: dict[str, list[str]]) -> None:
    names["server"] = [host.rpartition(".")[0] + ".77", "::1"]
    with pytest.raises(ib.CMError) as caught:
        ib.CMID.resolve("server", 5000, source=host, timeout=0.3)
    assert caught.value.errno == errno.ETIMEDOUT  # what became of the one that could be tried


def test_a_source_of_another_family_is_refused(ib: Any, host: str) -> None:
    with pytest.raises(ib.CMError, match="source ::1 is of another family") as caught:
        ib.CMID.resolve(host, 5000, source="::1")
    assert caught.value.errno == errno.EADDRNOTAVAIL


def test_names_are_looked_up_beside_the_event_loop(
    ib: Any, listener: Any, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask: Callable[..., Any] = socket.getaddrinfo
    askers: dict[str, threading.Thread] = {}

    def getaddrinfo(name: str, *arguments: Any, **options: Any) -> Any:
        askers[name] = threading.current_thread()
        return ask(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    async def main() -> None:
        (await ib.CMID.resolve_async("server", listener.port, "here", timeout=seconds(5))).close()

    asyncio.run(main())
    assert set(askers) == {"server", "here"} and threading.current_thread() not in askers.values()


@pytest.mark.parametrize("wrong", [0, 5, 0x13F, 1 << 40])
def test_what_is_no_port_space_is_refused_by_name(ib: Any, host: str, wrong: int) -> None:
    for make in (lambda: ib.CMListener(host, port_space=wrong), lambda: ib.CMID.resolve(host, port_space=wrong)):
        with pytest.raises(ValueError, match=f"port_space must be a PortSpace.*got {wrong}"):
            make()
