# SPDX-License-Identifier: BSD-3-Clause
"""What a queue pair leaves behind in its completion queues when it is closed: nothing of its own, all of the others'.

libefa before rdma-core 63 takes a completion that was left there for one of the queue pair that has the number next,
and writes beyond its arrays; later ones take it for that too where requests have numbers of 64 bits.
"""

from __future__ import annotations

import errno
import subprocess
import sys
from typing import Any

import pytest
from endpoints import QKEY, SIGNALED, Make, poll_for
from stub_fixtures import Rig

pytestmark = pytest.mark.only("efa")

RECV = 128
KINDS = [
    pytest.param(None, id="CQ"),
    pytest.param({"sgid": True}, id="CQEx", marks=pytest.mark.needs("cq_ex")),
    pytest.param({"wc_flags": 0}, id="CQEx that tells little", marks=pytest.mark.needs("cq_ex")),
]


class Ends:
    """A queue pair that stays and others that come and go, all on one completion queue."""

    def __init__(self, ib: Any, make: Make, kind: dict[str, Any] | None) -> None:
        self.ib, self.a = ib, make(extended=kind, cqe=512)
        self.cq = self.a.send_cq
        self.stays = self.new().prepare(QKEY)
        self.to = ib.local_endpoint_info(self.stays, QKEY).peer(self.a.pd)

    def new(self) -> Any:
        attr = self.ib.QPInitAttr(self.cq, self.cq, max_send_wr=64, max_recv_wr=64)
        return self.a.pd.create_qp(attr)

    def send(self, qp: Any, count: int) -> None:
        """That many messages, each of which completes at once at both ends."""
        self.stays.post_recv([self.ib.RecvWR(1000 + n, [self.a.mr.sge(64)]) for n in range(count)])
        qp.post_send([self.ib.SendWR(n, [self.a.mr.sge(8, 64)], 2, SIGNALED, dest=self.to) for n in range(count)])

    def close(self) -> None:
        self.stays.close()
        self.to.close()


@pytest.mark.needs("efa", "software_host")
@pytest.mark.parametrize("kind", KINDS)
def test_a_number_that_comes_again_brings_nothing_along(ib: Any, make: Make, kind: dict[str, Any] | None) -> None:
    ends = Ends(ib, make, kind)
    gone = ends.new().prepare(QKEY)
    number = gone.qp_num
    ends.send(gone, 40)
    gone.close()
    for _ in range(1000):  # of softrdma's numbers, each comes again after 256
        qp = ends.new()
        if qp.qp_num == number:
            break
        qp.close()
    assert qp.qp_num == number
    qp.prepare(QKEY)
    assert all(wc.opcode == RECV for wc in poll_for(ends.cq, 40))
    for _ in range(3):  # and its own queue is whole
        ends.send(qp, 60)
        got = poll_for(ends.cq, 120)
        assert sorted(wc.wr_id for wc in got) == [*range(60), *range(1000, 1060)]
    qp.close()
    ends.close()


RESETS = """
import ctypes, efa
ctx = efa.get_efa_device_list()[0].open()
pd, memory = ctx.alloc_pd(), ctypes.create_string_buffer(64)
cq = ctx.create_cq(1024) if {plain} else ctx.create_cq_ex(1024)
mr = pd.reg_mr(ctypes.addressof(memory), 64, 1)
qps = [pd.create_qp(efa.QPInitAttr(cq, cq, max_send_wr=64)).prepare(7) for _ in range(8)]
for qp in qps:
    to = efa.local_endpoint_info(qp, 7).peer(pd)
    qp.post_recv([efa.RecvWR(100 + n, [mr.sge(8)]) for n in range(40)])
    qp.post_send([efa.SendWR(n, [mr.sge(8)], 2, 2, dest=to) for n in range(40)])
    qp.modify(efa.QPAttrMask.STATE, qp_state=efa.QPState.RESET)
    to.close()
got = sorted(wc.wr_id for _ in range(10) for wc in cq.poll(64))
assert got == sorted([*range(40), *range(100, 140)] * 8), got
for handle in (*qps, cq, mr, pd, ctx):
    handle.close()
print("whole")
"""


@pytest.mark.needs("efa", "software_host")
@pytest.mark.parametrize("plain", [True, pytest.param(False, marks=pytest.mark.needs("cq_ex"))])
def test_completions_outlast_a_reset_and_break_nothing(ib: Any, plain: bool) -> None:
    """In a process of its own: the provider wrote beyond its arrays, which shows when they are freed."""
    code = RESETS.format(plain=plain)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr


@pytest.mark.needs("efa", "software_host")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("asked", [1, 7, 64, 300])
def test_what_others_have_completed_comes_all_the_same(
    ib: Any, make: Make, kind: dict[str, Any] | None, asked: int
) -> None:
    ends = Ends(ib, make, kind)
    tells = not kind or "wc_flags" not in kind
    for round_ in range(2):
        gone = ends.new().prepare(QKEY)
        first, second = 50, 10
        ends.send(gone, first)
        gone.close()
        ends.send(ends.stays, second)  # these are behind those that were taken early
        got: list[Any] = []
        while len(got) < first + 2 * second:
            some = ends.cq.poll(asked)
            assert 0 < len(some) <= asked
            got += some
        assert ends.cq.poll(1) == []
        assert [wc.wr_id for wc in got[:first]] == list(range(1000, 1000 + first)), round_
        assert sorted(wc.wr_id for wc in got[first:]) == [*range(second), *range(1000, 1000 + second)]
        assert all(wc.is_success and wc.qp_num == (ends.stays.qp_num if tells else 0) for wc in got)
        assert all(wc.byte_len == (8 if tells else 0) for wc in got[:first])
    ends.close()


@pytest.mark.needs("efa", "software_host", "cq_ex")
def test_a_stranger_s_gid_is_not_lost_by_a_close(ib: Any, make: Make) -> None:
    ends, stranger = Ends(ib, make, {"sgid": True}), make()
    stranger.qp.prepare(QKEY)
    ends.stays.post_recv(ib.RecvWR(1, [ends.a.mr.sge(64)]))
    with ib.local_endpoint_info(ends.stays, QKEY).peer(stranger.pd) as to:
        stranger.do(ib.SendWR(2, [stranger.mr.sge(8)], 2, SIGNALED, dest=to))
    ends.to.close()
    ends.stays.post_recv(ib.RecvWR(3, [ends.a.mr.sge(64)]))
    with ib.local_endpoint_info(ends.stays, QKEY).peer(stranger.pd) as to:
        stranger.do(ib.SendWR(4, [stranger.mr.sge(8)], 2, SIGNALED, dest=to))
    ends.new().close()
    known, unknown = poll_for(ends.cq, 2)
    assert (known.wr_id, known.sgid) == (1, None)
    assert (unknown.wr_id, unknown.sgid) == (3, bytes(stranger.node.gid))
    ends.stays.close()


@pytest.mark.needs("stub")
@pytest.mark.parametrize("extended", [False, True])
def test_a_close_that_fails_loses_nothing(rig: Rig, extended: bool) -> None:
    cq = rig.keep(rig.ctx.create_cq_ex(256) if extended else rig.ctx.create_cq(256))
    qp = rig.pd.create_qp(rig.ib.QPInitAttr(cq, cq))
    push = rig.stub.push_wc_ex if extended else rig.stub.push_wc
    for n in range(100):
        push(cq, wr_id=n, qp_num=qp.qp_num)
    rig.stub.fail("destroy_qp", errno.EBUSY)
    with pytest.raises(rig.Error):
        qp.close()
    assert [wc.wr_id for wc in cq.poll(200)] == list(range(100))
    push(cq, wr_id=100, qp_num=qp.qp_num)
    push(cq, wr_id=101, qp_num=qp.qp_num + 1)
    qp.close()
    assert [wc.wr_id for wc in cq.poll(200)] == [101]
