# SPDX-License-Identifier: BSD-3-Clause
"""Shared receive queues: several queue pairs take their receives from one."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from endpoints import Make, Pair, connect, expect_none

pytestmark = [pytest.mark.needs("srq"), pytest.mark.only("ibverbs")]


def test_defaults_and_query(pd: Any) -> None:
    with pd.create_srq() as srq:
        attr = srq.query()
        assert attr["max_wr"] >= 128 and attr["max_sge"] >= 1 and attr["srq_limit"] == 0
        assert srq.pd is pd


@pytest.mark.parametrize("max_wr, max_sge, limit", [(1, 1, 0), (10, 2, 3), (100, 16, 50)])
def test_what_was_asked_for_is_there(pd: Any, max_wr: int, max_sge: int, limit: int) -> None:
    with pd.create_srq(max_wr, max_sge, limit) as srq:
        attr = srq.query()
        assert attr["max_wr"] >= max_wr and attr["max_sge"] >= max_sge and attr["srq_limit"] == limit


def test_parameters_can_be_given_by_keyword(pd: Any) -> None:
    with pd.create_srq(max_wr=16, max_sge=2, srq_limit=4) as srq:
        srq.modify(srq_limit=5)
        assert srq.query()["srq_limit"] == 5


@pytest.mark.parametrize("field", ["max_wr", "max_sge"])
def test_more_than_the_device_has_names_the_limit(ib: Any, ctx: Any, pd: Any, field: str) -> None:
    device = ctx.query_device()
    limit = device.max_srq_wr if field == "max_wr" else device.max_srq_sge
    with pytest.raises(ib.VerbsError) as caught:
        pd.create_srq(**{field: limit + 1})
    assert caught.value.errno == errno.EINVAL
    assert field in str(caught.value) and str(limit) in str(caught.value)


def test_modify_of_the_limit(pd: Any) -> None:
    with pd.create_srq(16) as srq:
        srq.modify(srq_limit=9)
        assert srq.query()["srq_limit"] == 9
        srq.modify(None, 0)
        assert srq.query()["srq_limit"] == 0


def test_a_limit_above_the_depth_is_refused(ib: Any, pd: Any) -> None:
    with pd.create_srq(16) as srq, pytest.raises(ib.VerbsError) as caught:
        srq.modify(srq_limit=1000)
    assert caught.value.errno == errno.EINVAL
    assert caught.value.operation == "ibv_modify_srq"


def test_modify_of_nothing_changes_nothing(pd: Any) -> None:
    with pd.create_srq(16) as srq:
        before = srq.query()
        srq.modify()
        assert srq.query() == before


def test_growing_keeps_what_was_posted(ib: Any, make: Make) -> None:
    a, b = make(), make(with_srq=True, srq_depth=4)
    connect(a, b)
    for i in range(3):
        b.post_recv(16, offset=16 * i, wr_id=i)
    try:
        b.srq.modify(max_wr=100)
    except ib.VerbsError as error:
        assert error.errno in (errno.EINVAL, errno.EOPNOTSUPP)
        pytest.skip("needs a device that resizes shared receive queues")
    assert b.srq.query()["max_wr"] >= 100
    for i in range(3, 60):
        b.post_recv(16, offset=16 * i, wr_id=i)
    for i in range(60):
        a.do(a.send_wr(1, offset=i))
    assert [wc.wr_id for wc in b.received(60)] == list(range(60))


def test_a_full_queue_says_how_many_were_posted(ib: Any, make: Make) -> None:
    end = make(with_srq=True, srq_depth=4)
    room = end.srq.query()["max_wr"]
    with pytest.raises(ib.VerbsError) as caught:
        end.srq.post_recv([end.recv_wr(wr_id=i) for i in range(room + 5)])
    assert caught.value.errno == errno.ENOMEM
    assert caught.value.index == caught.value.posted == room
    assert caught.value.operation == "ibv_post_srq_recv"


@pytest.mark.needs("rc")
class TestReceiving:
    def test_a_queue_pair_takes_from_it(self, ib: Any, rc_pair: Pair) -> None:
        a, b = rc_pair(with_srq=True)
        assert b.qp.srq is b.srq
        b.post_recv(64, offset=10, wr_id=5)
        a.buf[0:4] = b"word"
        a.do(a.send_wr(4))
        (got,) = b.received()
        assert (got.wr_id, got.byte_len, got.qp_num) == (5, 4, b.qp.qp_num)
        assert b.buf[10:14] == b"word"

    def test_two_queue_pairs_take_from_one(self, ib: Any, make: Make) -> None:
        b = make(with_srq=True)
        a, c = make(), make()
        connect(a, b)
        with b.pd.create_qp(ib.QPInitAttr(b.send_cq, b.recv_cq, srq=b.srq)) as second:
            port, index = b.node.port, b.node.gid_index
            info = ib.local_qp_info(second, b.ctx.query_port(port), b.node.gid, port=port)
            ib.connect_rc(c.qp, info, port=port, sgid_index=index, access=0)
            ib.connect_rc(second, c.info(), port=port, sgid_index=index, access=0)
            for i in range(4):
                b.post_recv(16, offset=16 * i, wr_id=i)
            order = []
            for end in (a, c, c, a):
                end.do(end.send_wr(2))
                order.append(b.received()[0])
            assert [wc.wr_id for wc in order] == [0, 1, 2, 3]
            first = b.qp.qp_num
            assert [wc.qp_num for wc in order] == [first, second.qp_num, second.qp_num, first]

    def test_write_with_immediate_takes_one_too(self, ib: Any, make: Make) -> None:
        a, b = make(), make(with_srq=True)
        connect(a, b)
        b.post_recv(0, wr_id=3)
        a.do(a.rdma_wr(ib.WROpcode.RDMA_WRITE_WITH_IMM, b, 10, 0, 50, imm_data=1))
        (got,) = b.received()
        assert (got.wr_id, got.opcode) == (3, ib.WCOpcode.RECV_RDMA_WITH_IMM)

    def test_the_limit_is_disarmed_by_its_event(self, make: Make) -> None:
        a, b = make(), make(with_srq=True)
        connect(a, b)
        for i in range(3):
            b.post_recv(wr_id=i)
        b.srq.modify(srq_limit=3)
        a.do(a.send_wr())
        b.received()
        assert b.srq.query()["srq_limit"] == 0

    def test_receives_posted_to_the_queue_pair_are_refused(self, ib: Any, make: Make) -> None:
        b = make(with_srq=True)
        b.connect(b)
        with pytest.raises((ib.VerbsError, ValueError)):
            b.qp.post_recv(b.recv_wr())

    def test_receives_stay_when_a_queue_pair_dies(self, ib: Any, make: Make) -> None:
        a, b = make(), make(with_srq=True)
        connect(a, b)
        b.post_recv(wr_id=9)
        b.set_state(ib.QPState.ERR)
        expect_none(b.recv_cq)
        b.set_state(ib.QPState.RESET)
        a.set_state(ib.QPState.RESET)
        connect(a, b)
        a.do(a.send_wr())
        assert b.received()[0].wr_id == 9


@pytest.mark.needs("rc")
def test_close_is_refused_while_a_queue_pair_uses_it(ib: Any, make: Make) -> None:
    end = make(with_srq=True)
    with pytest.raises(ib.VerbsError) as caught:
        end.srq.close()
    assert caught.value.errno == errno.EBUSY and "1 QP" in str(caught.value)
    assert not end.srq.closed


def test_a_closed_queue_raises_ebadf(ib: Any, pd: Any) -> None:
    srq = pd.create_srq()
    srq.close()
    for call in (srq.query, srq.modify, lambda: srq.post_recv(ib.RecvWR())):
        with pytest.raises(ib.VerbsError) as caught:
            call()
        assert caught.value.errno == errno.EBADF
    assert srq.pd is pd
