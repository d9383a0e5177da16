# SPDX-License-Identifier: BSD-3-Clause
"""Two processes that tell each other their QPInfo over TCP, then move data between their memories."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from endpoints import Endpoint, all_access, poll_for
from place import Node, Place, seconds

pytestmark = [pytest.mark.needs("rc"), pytest.mark.only("ibverbs")]
PEERS = Path(__file__).parent / "peers"


class Peer:
    """The other process: its methods are those of Remote in peers/remote_end.py, or of another script there."""

    def __init__(self, node: Node, script: str = "remote_end.py") -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(seconds(20))
            port = server.getsockname()[1]
            self.process = subprocess.Popen([sys.executable, str(PEERS / script), node.name, str(port)])
            self.sock, _ = server.accept()
        self.sock.settimeout(seconds(20))
        self.wire = self.sock.makefile("rw")

    def start(self, command: str, **arguments: Any) -> None:
        self.wire.write(json.dumps([command, arguments]) + "\n")
        self.wire.flush()

    def finish(self) -> Any:
        answer = json.loads(self.wire.readline())
        assert "error" not in answer, f"in the other process: {answer['error']}"
        return answer["result"]

    def __call__(self, command: str, **arguments: Any) -> Any:
        self.start(command, **arguments)
        return self.finish()

    def close(self) -> int:
        self.wire.close()
        self.sock.close()
        return self.process.wait(timeout=seconds(10))


@pytest.fixture(scope="module")
def peers(place: Place) -> Iterator[dict[str, Peer]]:
    """One process for each device, started when first needed: starting Python is what takes long here."""
    running: dict[str, Peer] = {}
    yield running
    for peer in running.values():
        assert peer.close() == 0


class Connection:
    """An endpoint of this process, connected to one of the other."""

    def __init__(self, ib: Any, here: Endpoint, peer: Peer, psn: int = 0, peer_psn: int = 0, **options: Any) -> None:
        self.here, self.peer, self.ib = here, peer, ib
        there = peer("new", psn=peer_psn, size=here.mr.length)
        self.addr, self.rkey = there["addr"], there["rkey"]
        remote = ib.QPInfo.from_bytes(bytes.fromhex(there["info"]))
        ib.connect_rc(
            here.qp, remote, port=here.node.port, sgid_index=here.node.gid_index, access=all_access(ib),
            local_psn=psn, **options,
        )  # fmt: skip
        peer("connect", info=here.info(psn).to_bytes().hex(), local_psn=peer_psn, **options)

    def rdma(self, opcode: int, length: int, here: int = 0, there: int = 0, **fields: Any) -> Any:
        return self.here.send_wr(
            length, here, opcode=opcode, remote_addr=self.addr + there, rkey=self.rkey, **fields
        )


@pytest.fixture
def connected(ib: Any, make: Any, nodes: tuple[Node, Node], peers: dict[str, Peer]) -> Any:
    def build(size: int = 1 << 16, **options: Any) -> Connection:
        here, there = nodes
        if there.name not in peers:
            peers[there.name] = Peer(there)
        return Connection(ib, make(on=here, size=size, with_channel=True), peers[there.name], **options)

    return build


def test_write_reaches_the_other_process(ib: Any, connected: Any) -> None:
    c = connected()
    sent = c.here.buf.fill(1)
    c.here.do(c.rdma(ib.WROpcode.RDMA_WRITE, 5000, 7, 300))
    assert bytes.fromhex(c.peer("peek", offset=300, length=5000)) == sent[7:5007]
    assert not any(bytes.fromhex(c.peer("peek", offset=0, length=300)))


def test_read_fetches_from_the_other_process(ib: Any, connected: Any) -> None:
    c = connected()
    digest = c.peer("fill", seed=9)
    c.here.do(c.rdma(ib.WROpcode.RDMA_READ, 1 << 16))
    assert hashlib.sha256(c.here.buf[:]).hexdigest() == digest


def test_messages_with_immediate_go_both_ways(ib: Any, connected: Any) -> None:
    c = connected()
    c.here.post_recv(64, offset=500)
    c.peer("post_recv", length=64, offset=100, wr_id=4)
    c.here.buf[0:5] = b"hello"
    c.here.do(c.here.send_wr(5, opcode=ib.WROpcode.SEND_WITH_IMM, imm_data=0xDEADBEEF))
    (got,) = c.peer("received", count=1)
    assert (got["wr_id"], got["byte_len"], got["imm_data"]) == (4, 5, 0xDEADBEEF)
    assert bytes.fromhex(c.peer("peek", offset=100, length=5)) == b"hello"
    c.peer("poke", offset=0, data=b"answer".hex())
    c.peer("send", length=6, offset=0, imm=7)
    (back,) = c.here.received()
    assert (back.byte_len, back.imm_data, c.here.buf[500:506]) == (6, 7, b"answer")


@pytest.mark.needs("atomics")
def test_atomics_work_on_the_memory_of_the_other_process(ib: Any, connected: Any) -> None:
    c = connected()
    c.peer("poke", offset=64, data=(41).to_bytes(8, sys.byteorder).hex())
    op = ib.WROpcode
    c.here.do(c.rdma(op.ATOMIC_FETCH_AND_ADD, 8, 0, 64, compare_add=1))
    c.here.do(c.rdma(op.ATOMIC_CMP_AND_SWP, 8, 8, 64, compare_add=42, swap=2**64 - 1))
    assert (c.here.buf.u64(0), c.here.buf.u64(8)) == (41, 42)
    assert bytes.fromhex(c.peer("peek", offset=64, length=8)) == b"\xff" * 8


@pytest.mark.parametrize(
    "mtu, psn, peer_psn", [(None, 0, 0), (1, 0xFFFFFF, 5), (3, 0x123456, 0x654321), (None, 0xFFFFF0, 0xFFFFF0)]
)
def test_choices_that_both_know_of(
    ib: Any, connected: Any, mtu: int | None, psn: int, peer_psn: int
) -> None:
    c = connected(psn=psn, peer_psn=peer_psn, mtu=mtu)
    sent = c.here.buf.fill(3)
    c.here.do(c.rdma(ib.WROpcode.RDMA_WRITE, 30_000, 1, 2))
    assert bytes.fromhex(c.peer("peek", offset=2, length=30_000)) == sent[1:30_001]
    c.here.do(c.rdma(ib.WROpcode.RDMA_READ, 30_000, 35_000, 2))
    assert c.here.buf[35_000:65_000] == sent[1:30_001]


def test_ping_pong_on_completion_events(connected: Any) -> None:
    c = connected()
    rounds = 20
    c.peer("post_recv", length=64)
    c.peer.start("echo", rounds=rounds, length=64)
    for i in range(rounds):
        c.here.post_recv(64, offset=128)
        c.here.buf[0:4] = i.to_bytes(4, "little")
        c.here.qp.post_send(c.here.send_wr(64))
        c.here.received(1, 10)
        c.here.sent(1, 10)
        assert c.here.buf[128:132] == i.to_bytes(4, "little")
    c.peer.finish()


def test_a_peer_that_is_killed_is_a_retry_error(ib: Any, make: Any, node: Node) -> None:
    peer = Peer(node)
    here = make(with_channel=True, size=1 << 16)
    c = Connection(ib, here, peer, timeout=8, retry_cnt=1)
    here.do(c.rdma(ib.WROpcode.RDMA_WRITE, 8))
    os.kill(peer.process.pid, signal.SIGKILL)
    assert peer.process.wait(timeout=seconds(10)) == -signal.SIGKILL
    here.qp.post_send(c.rdma(ib.WROpcode.RDMA_WRITE, 8))
    (wc,) = poll_for(here.send_cq, 1, 5)
    assert wc.status == ib.WCStatus.RETRY_EXC_ERR
    peer.sock.close()
