# SPDX-License-Identifier: BSD-3-Clause
"""What a queue pair may be asked for and holds: limits at creation, inline data, lists, and full queues."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from endpoints import INLINE, SIGNALED, Endpoint, Make, connect, expect_none

pytestmark = [pytest.mark.needs("rc"), pytest.mark.only("ibverbs")]


@pytest.fixture
def cq(ctx: Any) -> Any:
    with ctx.create_cq(64) as queue:
        yield queue


class TestCreating:
    def test_what_was_asked_for_is_granted(self, ib: Any, pd: Any, cq: Any) -> None:
        attr = ib.QPInitAttr(cq, cq, max_send_wr=10, max_recv_wr=20, max_send_sge=2, max_recv_sge=3, max_inline_data=40)
        with pd.create_qp(attr) as qp:
            cap = qp.query()[1]
            assert cap.max_send_wr >= 10 and cap.max_recv_wr >= 20
            assert cap.max_send_sge >= 2 and cap.max_recv_sge >= 3 and cap.max_inline_data >= 40

    def test_the_attributes_are_not_written_to(self, ib: Any, pd: Any, cq: Any) -> None:
        attr = ib.QPInitAttr(cq, cq, max_send_wr=10, max_inline_data=3)
        pd.create_qp(attr).close()
        assert (attr.max_send_wr, attr.max_recv_wr, attr.max_inline_data) == (10, 128, 3)

    def test_any_object_with_the_attributes_will_do(self, ib: Any, pd: Any, cq: Any) -> None:
        class Attr:
            send_cq = recv_cq = cq
            qp_type = ib.QPType.RC
            max_send_wr = max_recv_wr = 4
            max_send_sge = max_recv_sge = 1
            max_inline_data = 0
            srq = None
            sq_sig_all = False

        with pd.create_qp(Attr()) as qp:
            assert qp.qp_type == ib.QPType.RC

    @pytest.mark.parametrize("field, limit", [("max_send_wr", "max_qp_wr"), ("max_recv_wr", "max_qp_wr"),
                                              ("max_send_sge", "max_sge"), ("max_recv_sge", "max_sge")])  # fmt: skip
    def test_over_the_device_names_field_and_limit(
        self, ib: Any, ctx: Any, pd: Any, cq: Any, field: str, limit: str
    ) -> None:
        most = getattr(ctx.query_device(), limit)
        with pytest.raises(ib.VerbsError) as caught:
            pd.create_qp(ib.QPInitAttr(cq, cq, **{field: most + 1}))
        assert caught.value.errno == errno.EINVAL
        assert caught.value.operation == "ibv_create_qp"
        assert field in str(caught.value) and str(most) in str(caught.value) and str(most + 1) in str(caught.value)

    def test_too_much_inline_data_is_refused(self, ib: Any, pd: Any, cq: Any) -> None:
        with pytest.raises(ib.VerbsError) as caught:
            pd.create_qp(ib.QPInitAttr(cq, cq, max_inline_data=1 << 20))
        assert caught.value.errno in (errno.EINVAL, errno.ENOMEM)

    @pytest.mark.parametrize("qp_type", ["RAW_PACKET", "XRC_SEND", "DRIVER"])
    def test_a_type_that_the_device_lacks_is_refused(self, ib: Any, pd: Any, cq: Any, qp_type: str) -> None:
        with pytest.raises((ib.VerbsError, ValueError)):
            pd.create_qp(ib.QPInitAttr(cq, cq, qp_type=ib.QPType[qp_type]))

    def test_queues_without_any_depth(self, ib: Any, pd: Any, cq: Any) -> None:
        attr = ib.QPInitAttr(cq, cq, max_send_wr=1, max_recv_wr=0, max_recv_sge=0)
        with pd.create_qp(attr) as qp, pytest.raises(ib.VerbsError):
            qp.to_init(1)
            qp.post_recv(ib.RecvWR(1))

    def test_a_queue_of_another_context_is_refused(self, ib: Any, node: Any, pd: Any, cq: Any) -> None:
        with node.open() as other, other.create_cq(4) as foreign:
            with pytest.raises((ib.VerbsError, ValueError)):
                pd.create_qp(ib.QPInitAttr(foreign, cq))

    def test_a_closed_queue_is_ebadf(self, ib: Any, ctx: Any, pd: Any, cq: Any) -> None:
        closed = ctx.create_cq(4)
        closed.close()
        with pytest.raises(ib.VerbsError) as caught:
            pd.create_qp(ib.QPInitAttr(closed, cq))
        assert caught.value.errno == errno.EBADF

    def test_many_have_numbers_of_their_own(self, ib: Any, pd: Any, cq: Any) -> None:
        attr = ib.QPInitAttr(cq, cq, max_send_wr=1, max_recv_wr=1)
        qps = [pd.create_qp(attr) for _ in range(32)]
        assert len({qp.qp_num for qp in qps}) == 32
        for qp in qps:
            qp.close()


def refused(ib: Any, caught: Any, index: int, *words: str) -> None:
    """A request was found wanting before anything was posted."""
    error = caught.value
    assert error.index == index
    for word in words:
        assert word in str(error)
    if isinstance(error, ib.VerbsError):
        assert error.errno in (errno.EINVAL, errno.ENOMEM)


class TestRequests:
    def test_inline_data_up_to_the_limit(self, make: Make) -> None:
        a, b = make(inline=100), make()
        connect(a, b)
        sent = a.buf.fill(1)
        most = a.qp.query()[1].max_inline_data
        a.do(a.write_wr(b, most, send_flags=SIGNALED | INLINE))
        assert b.buf[:most] == sent[:most]

    def test_more_inline_data_names_the_limit(self, ib: Any, make: Make) -> None:
        a, b = make(inline=100), make()
        connect(a, b)
        most = a.qp.query()[1].max_inline_data
        good = a.write_wr(b, 1)
        with pytest.raises((ib.VerbsError, ValueError)) as caught:
            a.qp.post_send([good, good, a.write_wr(b, most + 1, send_flags=SIGNALED | INLINE)])
        refused(ib, caught, 2, str(most))
        expect_none(a.send_cq, 0.02)

    def test_more_pieces_than_the_queue_takes_name_the_limit(self, ib: Any, rc: tuple[Endpoint, Endpoint]) -> None:
        a, b = rc
        most = a.qp.query()[1].max_send_sge
        good = a.write_wr(b, 1)
        with pytest.raises((ib.VerbsError, ValueError)) as caught:
            a.qp.post_send([good, a.write_wr(b, sg_list=[a.mr.sge(1)] * (most + 1))])
        refused(ib, caught, 1, str(most))
        expect_none(a.send_cq, 0.02)

    def test_more_pieces_than_a_receive_takes_name_the_limit(self, ib: Any, rc: tuple[Endpoint, Endpoint]) -> None:
        a, _ = rc
        most = a.qp.query()[1].max_recv_sge
        with pytest.raises((ib.VerbsError, ValueError)) as caught:
            a.qp.post_recv([a.recv_wr(), ib.RecvWR(1, [a.mr.sge(1)] * (most + 1))])
        refused(ib, caught, 1, str(most))

    @pytest.mark.parametrize("opcode", ["LOCAL_INV", "BIND_MW", "SEND_WITH_INV", "TSO"])
    def test_an_opcode_without_its_fields_is_a_value_error(
        self, ib: Any, rc: tuple[Endpoint, Endpoint], opcode: str
    ) -> None:
        a, b = rc
        with pytest.raises(ValueError) as caught:
            a.qp.post_send([a.write_wr(b), a.send_wr(opcode=ib.WROpcode[opcode])])
        assert caught.value.index == 1  # type: ignore[attr-defined]
        expect_none(a.send_cq, 0.02)

    def test_a_closed_region_is_found_before_anything_is_posted(
        self, ib: Any, rc: tuple[Endpoint, Endpoint]
    ) -> None:
        a, b = rc
        mr = a.pd.reg_mr(a.buf.addr, 4096, ib.AccessFlags.LOCAL_WRITE)
        sge = mr.sge(8)
        mr.close()
        sends = [a.write_wr(b), a.write_wr(b, sg_list=[sge])]
        receives = [a.recv_wr(), ib.RecvWR(1, [a.mr.sge(8), sge])]
        for post, wrs in ((a.qp.post_send, sends), (a.qp.post_recv, receives)):
            with pytest.raises(ib.VerbsError) as caught:
                post(wrs)
            assert caught.value.errno == errno.EBADF and caught.value.index == 1
        expect_none(a.send_cq, 0.02)


class TestFullQueues:
    def test_a_full_send_queue_says_how_deep_it_is(self, ib: Any, make: Make) -> None:
        """Nothing is received, so the first send waits with the others behind it."""
        a, b = make(depth=8), make()
        connect(a, b, min_rnr_timer=31)
        depth = a.qp.query()[1].max_send_wr
        wrs = [a.send_wr(8, wr_id=i) for i in range(depth + 4)]
        with pytest.raises(ib.VerbsError) as caught:
            a.qp.post_send(wrs)
        error = caught.value
        assert error.errno == errno.ENOMEM and error.operation == "ibv_post_send"
        assert error.index == error.posted == depth
        assert "full" in str(error)

    def test_what_went_before_the_refused_one_was_posted(self, ib: Any, make: Make) -> None:
        a, b = make(depth=8), make()
        connect(a, b, min_rnr_timer=1, timeout=20)
        depth = a.qp.query()[1].max_send_wr
        with pytest.raises(ib.VerbsError):
            a.qp.post_send([a.send_wr(8, wr_id=i) for i in range(depth + 4)])
        for i in range(depth):
            b.post_recv(wr_id=i)
        assert [wc.wr_id for wc in a.sent(depth, timeout=5)] == list(range(depth))
        assert len(b.received(depth)) == depth

    def test_a_full_receive_queue_says_how_many_were_posted(self, ib: Any, make: Make) -> None:
        a, b = make(), make(depth=8)
        connect(a, b)
        depth = b.qp.query()[1].max_recv_wr
        with pytest.raises(ib.VerbsError) as caught:
            b.qp.post_recv([b.recv_wr(wr_id=i) for i in range(depth + 4)])
        error = caught.value
        assert error.errno == errno.ENOMEM and error.operation == "ibv_post_recv"
        assert error.index == error.posted == depth
        a.do([a.send_wr(wr_id=i) for i in range(depth)], depth)
        assert [wc.wr_id for wc in b.received(depth)] == list(range(depth))

    def test_room_comes_back_with_completions(self, ib: Any, make: Make) -> None:
        a, b = make(), make(depth=4)
        connect(a, b)
        depth = b.qp.query()[1].max_recv_wr
        b.qp.post_recv([b.recv_wr()] * depth)
        with pytest.raises(ib.VerbsError):
            b.post_recv()
        a.do(a.send_wr())
        b.received()
        b.post_recv()
