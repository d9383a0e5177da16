# SPDX-License-Identifier: BSD-3-Clause
"""EFA between processes: they tell each other their EndpointInfo over TCP, then move data between their memories."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from endpoints import Make, poll_for
from place import Node, seconds
from test_two_processes import Peer

pytestmark = [pytest.mark.needs("efa"), pytest.mark.only("efa")]

SIZE = 1 << 16


def start(node: Node) -> Peer:
    return Peer(node, "remote_efa_end.py")


@pytest.fixture
def other(nodes: tuple[Node, Node]) -> Iterator[Peer]:
    peer = start(nodes[1])
    yield peer
    assert peer.close() == 0


@pytest.fixture
def ends(ib: Any, make: Make, nodes: tuple[Node, Node], other: Peer) -> Any:
    """An endpoint here and one there that know each other."""
    here = make(on=nodes[0], size=SIZE, with_channel=True)
    there = other("new", size=SIZE)
    here.connect(ib.EndpointInfo.from_bytes(bytes.fromhex(there["info"])))
    assert other("know", info=here.info().to_bytes().hex()) == 1
    return here, other, there


def test_messages_go_both_ways(ends: Any) -> None:
    here, other, _ = ends
    sent = here.buf.fill(3)
    other("post_recv", count=4, length=1000, offset=8000)
    here.qp.post_send([here.send_wr(1000, 1000 * i, wr_id=i) for i in range(4)])
    here.sent(4)
    got = other("received", count=4)
    assert sorted(wr_id for wr_id, _, _ in got) == [0, 1, 2, 3]
    assert {(length, src) for _, length, src in got} == {(1000, here.qp.qp_num)}
    pieces = {bytes.fromhex(other("peek", offset=8000 + 1000 * i, length=1000)) for i in range(4)}
    assert pieces == {sent[1000 * i : 1000 * (i + 1)] for i in range(4)}
    here.post_recv(500, 60_000)
    digest = other("fill", seed=9)
    other("send", peer=0, length=500, offset=0)
    here.received()
    assert hashlib.sha256(bytes.fromhex(other("peek", offset=0, length=SIZE))).hexdigest() == digest
    assert here.buf[60_000:60_500] == bytes.fromhex(other("peek", offset=0, length=500))


@pytest.mark.needs("rdma_read")
def test_a_large_read_comes_in_pieces(ib: Any, ends: Any) -> None:
    here, other, there = ends
    digest = other("fill", seed=5)
    wrs = ib.read_wrs(here.mr, here.peer, there["addr"], there["rkey"], chunk=3000)
    here.qp.post_send(wrs)
    assert len(here.sent(len(wrs), 10)) == -(-SIZE // 3000)
    assert hashlib.sha256(here.buf[:]).hexdigest() == digest


@pytest.mark.needs("rdma_write")
def test_a_large_write_goes_in_pieces(ib: Any, ends: Any) -> None:
    here, other, there = ends
    sent = here.buf.fill(6)
    wrs = ib.write_wrs(here.mr, here.peer, there["addr"], there["rkey"], chunk=3000)
    here.qp.post_send(wrs)
    here.sent(len(wrs), 10)
    assert bytes.fromhex(other("peek", offset=0, length=SIZE)) == sent


def test_a_peer_that_is_killed_is_an_error_and_others_are_not_disturbed(ib: Any, make: Make, node: Node) -> None:
    here, near = make(with_channel=True), make()
    victim = start(node)
    there = victim("new", size=SIZE)
    here.connect(ib.EndpointInfo.from_bytes(bytes.fromhex(there["info"])))
    near.connect(here)
    victim("post_recv", count=1, length=100, offset=0)
    here.do(here.send_wr())
    os.kill(victim.process.pid, signal.SIGKILL)
    assert victim.process.wait(timeout=seconds(10)) == -signal.SIGKILL
    here.qp.post_send(here.send_wr(wr_id=7))
    (wc,) = poll_for(here.send_cq, 1, 20)
    assert wc.wr_id == 7 and not wc.is_success and wc.vendor_err
    with near.info().peer(here.pd) as peer:
        near.post_recv()
        here.do(here.send_wr(dest=peer))
        near.received()
    victim.sock.close()
