# SPDX-License-Identifier: BSD-3-Clause
"""A link that loses packets: reliable connections deliver all the same, datagrams do not pretend to."""

from __future__ import annotations

import importlib
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from endpoints import QKEY, UD, Endpoint, Make, connect, poll_for
from place import Place

pytestmark = [pytest.mark.needs("rc", "two_devices", "netem"), pytest.mark.only("ibverbs")]


class Loss:
    """Losses in per cent on the links of both devices, gone at the end."""

    def __init__(self, netdevs: list[str]) -> None:
        self.netdevs = netdevs

    def set(self, percent: int) -> None:
        for netdev in self.netdevs:
            subprocess.run(
                ["tc", "qdisc", "replace", "dev", netdev, "root", "netem", "loss", f"{percent}%"], check=True
            )

    def clear(self) -> None:
        for netdev in self.netdevs:
            subprocess.run(["tc", "qdisc", "del", "dev", netdev, "root"], check=False, stderr=subprocess.DEVNULL)


class HostLoss:
    """The same of softrdma's own."""

    def __init__(self) -> None:
        self.faults = importlib.import_module("softrdma.faults").here()
        self.faults.seed = 7

    def set(self, percent: int) -> None:
        self.faults.clear()
        for what in ("message", "answer"):
            self.faults.add("drop", probability=percent / 100, what=what)

    def clear(self) -> None:
        self.faults.reset()


@pytest.fixture
def loss(place: Place) -> Iterator[Loss | HostLoss]:
    loss = HostLoss() if place.emulated else Loss([node.netdev for node in place.nodes[:2]])
    yield loss
    loss.clear()


@pytest.fixture
def pair(place: Place, make: Make) -> tuple[Endpoint, Endpoint]:
    here, there = place.nodes[:2]
    a, b = make(on=here), make(on=there)
    connect(a, b, timeout=10, retry_cnt=7, mtu=1)  # 4 ms until a retry, and many packets in a message
    return a, b


def test_writes_and_reads_arrive_whole(ib: Any, pair: tuple[Endpoint, Endpoint], loss: Loss | HostLoss) -> None:
    a, b = pair
    sent = a.buf.fill(7)
    loss.set(10)
    for i in range(8):
        a.do(a.write_wr(b, 3000, src=i, dst=100))
        assert b.buf[100:3100] == sent[i : 3000 + i]
        a.do(a.read_wr(b, 2000, into=8000, src=100))
        assert a.buf[8000:10_000] == sent[i : 2000 + i]


def test_messages_arrive_once_and_in_order(pair: tuple[Endpoint, Endpoint], loss: Loss | HostLoss) -> None:
    a, b = pair
    for i in range(32):
        b.post_recv(64, offset=64 * i, wr_id=i)
        a.buf[i : i + 1] = bytes([i + 1])
    loss.set(10)
    a.qp.post_send([a.send_wr(1, offset=i, wr_id=i) for i in range(32)])
    assert [wc.wr_id for wc in a.sent(32, timeout=10)] == list(range(32))
    assert [wc.wr_id for wc in b.received(32)] == list(range(32))
    assert b.buf[0:2048:64] == bytes(range(1, 33))


@pytest.mark.needs("atomics")
def test_atomics_are_carried_out_once(pair: tuple[Endpoint, Endpoint], loss: Loss | HostLoss) -> None:
    a, b = pair
    loss.set(10)
    for i in range(32):
        a.do(a.fetch_add_wr(b, 1, 0, 1024))
        assert a.buf.u64(0) == i
    assert b.buf.u64(1024) == 32


def test_a_dead_link_ends_in_a_retry_error(ib: Any, place: Place, make: Make, loss: Loss | HostLoss) -> None:
    a, b = (make(on=node) for node in place.nodes[:2])
    connect(a, b, timeout=8, retry_cnt=2)
    loss.set(100)
    a.qp.post_send(a.write_wr(b))
    (wc,) = poll_for(a.send_cq, 1, timeout=5)
    assert wc.status == ib.WCStatus.RETRY_EXC_ERR
    assert not any(b.buf[:])


@pytest.mark.needs("ud")
def test_lost_datagrams_are_no_error(ib: Any, place: Place, make: Make, loss: Loss | HostLoss) -> None:
    a, b = (make(UD, on=node) for node in place.nodes[:2])
    connect(a, b)
    with a.pd.create_ah(a.ah_attr(b)) as ah:
        b.post_recv(256)
        loss.set(100)
        wr = a.send_wr(4, ah=ah, remote_qpn=b.qp.qp_num, remote_qkey=QKEY)
        a.do(wr)
        loss.clear()
        a.do(wr)
        b.received(1)
        assert b.recv_cq.poll(1) == []
