# SPDX-License-Identifier: BSD-3-Clause
"""How to test error paths: a transfer that starts again when its connection breaks, and the faults that break it.

Run on the software host: ``pytest --softrdma examples/test_error_paths.py``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

ibverbs = pytest.importorskip("ibverbs")
SIGNALED = 2


class Transfer:
    """The code under test: writes a buffer to another, over a connection that it makes anew when it breaks."""

    def __init__(self, source: bytearray, target: bytearray) -> None:
        self.source, self.target = source, target
        self.reconnects = 0
        self.ctx = ibverbs.get_device_list()[0].open()
        self.pd = self.ctx.alloc_pd()
        access = ibverbs.AccessFlags.LOCAL_WRITE | ibverbs.AccessFlags.REMOTE_WRITE
        self.from_mr = ibverbs.reg_tensor(self.pd, source, access)
        self.to_mr = ibverbs.reg_tensor(self.pd, target, access)
        self.cq = self.ctx.create_cq(16)
        self.qps = [self.pd.create_qp(ibverbs.QPInitAttr(self.cq, self.cq)) for _ in range(2)]
        self.connect()

    def connect(self) -> None:
        port = self.ctx.query_port(1)
        for qp in self.qps:
            if qp.state != ibverbs.QPState.RESET:
                qp.modify(ibverbs.QPAttrMask.STATE, qp_state=ibverbs.QPState.RESET)
        for qp, peer in (self.qps, reversed(self.qps)):
            gid = self.ctx.query_gid(1, 1)
            info = ibverbs.local_qp_info(peer, port, gid, port=1)
            access = ibverbs.AccessFlags.REMOTE_WRITE
            ibverbs.connect_rc(qp, info, port=1, sgid_index=1, access=access, timeout=8, retry_cnt=2)

    def run(self, attempts: int = 5) -> None:
        wr = ibverbs.SendWR(
            1, [self.from_mr.sge()], opcode=ibverbs.WROpcode.RDMA_WRITE, send_flags=SIGNALED,
            remote_addr=self.to_mr.addr, rkey=self.to_mr.rkey,
        )
        for _ in range(attempts):
            self.qps[0].post_send(wr)
            if self.wait().is_success:
                return
            self.wait_for_link()
            self.cq.poll(16)  # what was flushed
            self.reconnects += 1
            self.connect()
        raise ConnectionError(f"no transfer in {attempts} attempts")

    def wait(self) -> Any:
        while not (found := self.cq.poll(1)):
            time.sleep(0)
        return found[0]

    def wait_for_link(self) -> None:
        deadline = time.monotonic() + 5
        while self.ctx.query_port(1).state != ibverbs.PortState.ACTIVE:
            if time.monotonic() > deadline:
                raise ConnectionError("the link stays down")
            time.sleep(0.005)

    def close(self) -> None:
        for thing in (*self.qps, self.cq, self.from_mr, self.to_mr, self.pd, self.ctx):
            thing.close()


@pytest.fixture
def transfer(softrdma_faults: Any) -> Iterator[Transfer]:
    one = Transfer(bytearray(b"x" * 65536), bytearray(65536))
    yield one
    one.close()


def test_without_faults_nothing_is_reconnected(transfer: Transfer) -> None:
    transfer.run()
    assert transfer.target == transfer.source and transfer.reconnects == 0


@pytest.mark.parametrize("status", ["RETRY_EXC", "REM_ACCESS", "WR_FLUSH"])
def test_a_failed_request_is_made_again(transfer: Transfer, softrdma_faults: Any, status: str) -> None:
    softrdma_faults.fail_request(status, op="rdma_write")
    transfer.run()
    assert transfer.target == transfer.source and transfer.reconnects == 1


def test_a_link_flap_is_waited_for(transfer: Transfer, softrdma_faults: Any) -> None:
    softrdma_faults.link_down(for_=0.1)
    transfer.run()
    assert transfer.target == transfer.source and transfer.reconnects >= 1


def test_losses_are_the_transports_business(transfer: Transfer, softrdma_faults: Any) -> None:
    softrdma_faults.seed = 7
    losses = softrdma_faults.add("drop", probability=0.3)[0]
    for _ in range(20):
        transfer.run()
    assert transfer.target == transfer.source and softrdma_faults.fired(losses) > 0


def test_a_peer_that_never_answers_is_given_up(transfer: Transfer, softrdma_faults: Any) -> None:
    softrdma_faults.add("drop", times=0)
    with pytest.raises(ConnectionError, match="5 attempts"):
        transfer.run()
