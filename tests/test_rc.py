# SPDX-License-Identifier: BSD-3-Clause
"""Reliable connections: every opcode moves the bytes it should, and says so at both ends."""

from __future__ import annotations

from typing import Any

import pytest
from endpoints import INLINE, SIGNALED, Buffer, Endpoint, Make, Pair, connect, expect_none, poll_for

pytestmark = [pytest.mark.needs("rc"), pytest.mark.only("ibverbs")]

FENCE = 1
IMMEDIATES = [0, 1, 0x11223344, 0x80000000, 0xFFFFFFFF]


class TestSend:
    def test_delivers_the_bytes_and_their_number(self, ib: Any, rc_pair: Pair) -> None:
        a, b = rc_pair()
        sent = a.buf.fill(1)
        b.post_recv(1000, offset=50, wr_id=77)
        (done,) = a.do(a.send_wr(300, offset=11, wr_id=5))
        (got,) = b.received()
        assert b.buf[50:350] == sent[11:311] and b.buf[350:1050] == bytes(700)
        assert (got.wr_id, got.opcode, got.byte_len) == (77, ib.WCOpcode.RECV, 300)
        assert got.qp_num == b.qp.qp_num
        assert (done.wr_id, done.opcode) == (5, ib.WCOpcode.SEND)
        assert done.qp_num == a.qp.qp_num

    @pytest.mark.parametrize("imm", IMMEDIATES)
    def test_with_immediate_delivers_the_same_integer(self, ib: Any, rc_pair: Pair, imm: int) -> None:
        a, b = rc_pair()
        a.buf[0:4] = b"data"
        b.post_recv()
        (done,) = a.do(a.send_wr(4, opcode=ib.WROpcode.SEND_WITH_IMM, imm_data=imm))
        (got,) = b.received()
        assert got.imm_data == imm
        assert got.wc_flags & ib.WCFlags.WITH_IMM
        assert (got.byte_len, b.buf[0:4]) == (4, b"data")
        assert done.opcode == ib.WCOpcode.SEND

    def test_without_immediate_has_no_flag(self, ib: Any, rc_pair: Pair) -> None:
        a, b = rc_pair()
        b.post_recv()
        a.do(a.send_wr(imm_data=99))
        (got,) = b.received()
        assert not got.wc_flags & ib.WCFlags.WITH_IMM

    def test_receives_are_used_in_the_order_they_were_posted(self, rc_pair: Pair) -> None:
        a, b = rc_pair()
        for i in range(5):
            b.post_recv(16, offset=16 * i, wr_id=i)
        for i in range(5):
            a.buf[i : i + 1] = bytes([65 + i])
        a.do([a.send_wr(1, offset=i, wr_id=i) for i in range(5)], 5)
        assert [wc.wr_id for wc in b.received(5)] == [0, 1, 2, 3, 4]
        assert b.buf[0:80:16] == b"ABCDE"

    def test_of_no_bytes_completes_a_receive(self, rc_pair: Pair) -> None:
        a, b = rc_pair()
        b.post_recv()
        a.do(a.send_wr(0))
        (got,) = b.received()
        assert got.byte_len == 0 and not any(b.buf[:])

    def test_of_no_bytes_needs_no_room(self, ib: Any, rc_pair: Pair) -> None:
        a, b = rc_pair()
        b.qp.post_recv(ib.RecvWR(3))
        a.do(a.send_wr(0, opcode=ib.WROpcode.SEND_WITH_IMM, imm_data=7))
        (got,) = b.received()
        assert (got.wr_id, got.byte_len, got.imm_data) == (3, 0, 7)

    def test_both_ways_at_once(self, rc_pair: Pair) -> None:
        a, b = rc_pair()
        for end in (a, b):
            for i in range(8):
                end.post_recv(64, offset=4096 + 64 * i, wr_id=i)
        a.buf[0:5] = b"ahead"
        b.buf[0:5] = b"again"
        for _ in range(8):
            a.qp.post_send(a.send_wr(5))
            b.qp.post_send(b.send_wr(5))
        for end, word in ((a, b"again"), (b, b"ahead")):
            end.sent(8)
            assert [wc.byte_len for wc in end.received(8)] == [5] * 8
            assert all(end.buf[4096 + 64 * i : 4101 + 64 * i] == word for i in range(8))


class TestWrite:
    def test_changes_exactly_the_bytes_named(self, ib: Any, rc_pair: Pair) -> None:
        a, b = rc_pair()
        sent, before = a.buf.fill(3), b.buf.fill(90)
        (done,) = a.do(a.write_wr(b, 1000, src=7, dst=501, wr_id=2**64 - 1))
        assert b.buf[501:1501] == sent[7:1007]
        assert b.buf[:501] == before[:501] and b.buf[1501:] == before[1501:]
        assert (done.wr_id, done.opcode) == (2**64 - 1, ib.WCOpcode.RDMA_WRITE)

    def test_uses_no_receive(self, rc_pair: Pair) -> None:
        a, b = rc_pair()
        b.post_recv()
        a.do(a.write_wr(b))
        expect_none(b.recv_cq)

    @pytest.mark.parametrize("imm", IMMEDIATES)
    def test_with_immediate_uses_a_receive_that_says_how_much(self, ib: Any, rc_pair: Pair, imm: int) -> None:
        a, b = rc_pair()
        sent = a.buf.fill(5)
        b.post_recv(16, offset=0, wr_id=9)
        opcode = ib.WROpcode.RDMA_WRITE_WITH_IMM
        (done,) = a.do(a.rdma_wr(opcode, b, 5000, 0, 100, imm_data=imm))
        (got,) = b.received()
        assert (got.wr_id, got.opcode) == (9, ib.WCOpcode.RECV_RDMA_WITH_IMM)
        assert (got.byte_len, got.imm_data) == (5000, imm)
        assert got.wc_flags & ib.WCFlags.WITH_IMM
        assert b.buf[100:5100] == sent[:5000] and not any(b.buf[:100])
        assert done.opcode == ib.WCOpcode.RDMA_WRITE

    def test_of_no_bytes_succeeds_and_changes_nothing(self, rc_pair: Pair) -> None:
        a, b = rc_pair()
        before = b.buf.fill(8)
        a.do(a.write_wr(b, 0))
        assert b.buf[:] == before

    def test_is_seen_before_a_later_send(self, rc_pair: Pair) -> None:
        a, b = rc_pair()
        for i in range(10):
            b.post_recv(0, wr_id=i)
            a.buf[0:1] = bytes([i + 1])
            a.qp.post_send([a.write_wr(b, 1, 0, 77), a.send_wr(0)])
            b.received()
            assert b.buf[77:78] == bytes([i + 1])
            a.sent(2)


class TestRead:
    def test_fetches_exactly_the_bytes_named(self, ib: Any, rc_pair: Pair) -> None:
        a, b = rc_pair()
        theirs, mine = b.buf.fill(3), a.buf.fill(120)
        (done,) = a.do(a.read_wr(b, 5001, into=33, src=9, wr_id=4))
        assert a.buf[33:5034] == theirs[9:5010]
        assert a.buf[:33] == mine[:33] and a.buf[5034:] == mine[5034:]
        assert (done.wr_id, done.opcode, done.byte_len) == (4, ib.WCOpcode.RDMA_READ, 5001)
        assert b.buf[:] == theirs

    def test_many_at_a_depth_of_one(self, rc_pair: Pair) -> None:
        a, b = rc_pair()
        theirs = b.buf.fill(3)
        a.do([a.read_wr(b, 100, into=100 * i, src=7 * i, wr_id=i) for i in range(40)], 40)
        assert all(a.buf[100 * i : 100 * i + 100] == theirs[7 * i : 7 * i + 100] for i in range(40))

    def test_many_at_a_greater_depth(self, rc_pair: Pair) -> None:
        a, b = rc_pair(options={"max_rd_atomic": 8, "max_dest_rd_atomic": 8})
        theirs = b.buf.fill(3)
        done = a.do([a.read_wr(b, 100, into=100 * i, src=7 * i, wr_id=i) for i in range(40)], 40)
        assert [wc.wr_id for wc in done] == list(range(40))
        assert all(a.buf[100 * i : 100 * i + 100] == theirs[7 * i : 7 * i + 100] for i in range(40))

    def test_a_fenced_write_after_it_carries_what_was_read(self, rc_pair: Pair) -> None:
        a, b = rc_pair()
        theirs = b.buf.fill(3)
        a.do([a.read_wr(b, 64, into=0, src=0), a.write_wr(b, 64, 0, 8000, send_flags=SIGNALED | FENCE)], 2)
        assert b.buf[8000:8064] == theirs[:64]


class TestInline:
    def test_the_bytes_are_taken_at_once(self, rc_pair: Pair) -> None:
        a, b = rc_pair(inline=64)
        a.buf[0:6] = b"inline"
        a.qp.post_send(a.write_wr(b, 6, 0, 20, send_flags=SIGNALED | INLINE))
        a.buf[0:6] = b"XXXXXX"
        a.sent()
        assert b.buf[20:26] == b"inline"

    def test_from_memory_that_is_not_registered(self, ib: Any, rc_pair: Pair) -> None:
        a, b = rc_pair(inline=64)
        loose = Buffer(4096)
        loose[0:9] = b"unpinned!"
        b.post_recv()
        a.do(a.send_wr(sg_list=[ib.SGE(loose.addr, 9)], send_flags=SIGNALED | INLINE))
        (got,) = b.received()
        assert b.buf[0 : got.byte_len] == b"unpinned!"

    def test_gathers(self, ib: Any, rc_pair: Pair) -> None:
        a, b = rc_pair(inline=64)
        a.buf.fill(0)
        parts = [a.mr.sge(3, 10), a.mr.sge(1, 0), a.mr.sge(7, 100)]
        want = a.buf[10:13] + a.buf[0:1] + a.buf[100:107]
        a.do(a.write_wr(b, sg_list=parts, dst=5, send_flags=SIGNALED | INLINE))
        assert b.buf[5:16] == want


class TestScatterGather:
    LENGTHS = [1, 4095, 17, 300]

    def parts(self, end: Endpoint) -> list[Any]:
        """Four pieces in an order that is not that of memory."""
        return [end.mr.sge(n, offset) for n, offset in zip(self.LENGTHS, [9001, 33, 8001, 12_000])]

    def pieces(self, end: Endpoint) -> bytes:
        return b"".join(end.buf[o : o + n] for n, o in zip(self.LENGTHS, [9001, 33, 8001, 12_000]))

    def test_a_write_gathers(self, rc_pair: Pair) -> None:
        a, b = rc_pair()
        a.buf.fill(7)
        a.do(a.write_wr(b, sg_list=self.parts(a), dst=1))
        assert b.buf[1:4414] == self.pieces(a)

    def test_a_read_scatters(self, rc_pair: Pair) -> None:
        a, b = rc_pair()
        theirs = b.buf.fill(7)
        a.do(a.read_wr(b, sg_list=self.parts(a), src=2))
        assert self.pieces(a) == theirs[2:4415]

    def test_a_send_gathers_and_a_receive_scatters(self, ib: Any, rc_pair: Pair) -> None:
        a, b = rc_pair()
        a.buf.fill(7)
        b.qp.post_recv(ib.RecvWR(1, reversed(self.parts(b))))
        a.do(a.send_wr(sg_list=self.parts(a)))
        (got,) = b.received()
        assert got.byte_len == sum(self.LENGTHS)
        flat = self.pieces(a)
        at = 0
        for sge in reversed(self.parts(b)):
            offset = sge.addr - b.mr.addr
            assert b.buf[offset : offset + sge.length] == flat[at : at + sge.length]
            at += sge.length

    def test_the_same_piece_may_stand_twice(self, rc_pair: Pair) -> None:
        a, b = rc_pair()
        a.buf[0:3] = b"abc"
        piece = a.mr.sge(3, 0)
        a.do(a.write_wr(b, sg_list=[piece, piece, piece]))
        assert b.buf[0:9] == b"abcabcabc"

    def test_pieces_of_two_regions(self, ib: Any, rc_pair: Pair) -> None:
        a, b = rc_pair()
        more = bytearray(b"second region")
        with ib.reg_tensor(a.pd, more, ib.AccessFlags.LOCAL_WRITE) as mr:
            a.buf[0:5] = b"first"
            a.do(a.write_wr(b, sg_list=[a.mr.sge(5, 0), mr.sge()]))
        assert b.buf[0:18] == b"firstsecond region"


class TestLarge:
    SIZE = 1 << 20

    @pytest.fixture
    def big(self, rc_pair: Pair) -> tuple[Endpoint, Endpoint]:
        return rc_pair(size=self.SIZE + 4096)

    def test_write_of_a_mebibyte_at_odd_offsets(self, big: tuple[Endpoint, Endpoint]) -> None:
        a, b = big
        sent = a.buf.fill(1)
        a.do(a.write_wr(b, self.SIZE, src=13, dst=1001))
        assert b.buf[1001 : 1001 + self.SIZE] == sent[13 : 13 + self.SIZE]
        assert not any(b.buf[:1001]) and not any(b.buf[1001 + self.SIZE :])

    def test_read_of_a_mebibyte_at_odd_offsets(self, big: tuple[Endpoint, Endpoint]) -> None:
        a, b = big
        theirs = b.buf.fill(1)
        a.do(a.read_wr(b, self.SIZE - 1, into=1, src=4095))
        assert a.buf[1 : self.SIZE] == theirs[4095 : 4095 + self.SIZE - 1]

    def test_send_of_a_mebibyte(self, big: tuple[Endpoint, Endpoint]) -> None:
        a, b = big
        sent = a.buf.fill(1)
        b.post_recv(self.SIZE + 1, offset=5)
        a.do(a.send_wr(self.SIZE, offset=3))
        (got,) = b.received()
        assert got.byte_len == self.SIZE
        assert b.buf[5 : 5 + self.SIZE] == sent[3 : 3 + self.SIZE]


class TestMany:
    def test_a_batch_completes_in_order(self, rc_pair: Pair) -> None:
        a, b = rc_pair()
        sent = a.buf.fill(2)
        done = a.do([a.write_wr(b, 64, src=64 * i, dst=64 * (63 - i), wr_id=i) for i in range(64)], 64)
        assert [wc.wr_id for wc in done] == list(range(64))
        assert all(b.buf[64 * (63 - i) : 64 * (64 - i)] == sent[64 * i : 64 * i + 64] for i in range(64))

    def test_only_signaled_requests_complete(self, rc_pair: Pair) -> None:
        a, b = rc_pair()
        batch = [a.write_wr(b, wr_id=i, send_flags=SIGNALED if i % 4 == 3 else 0) for i in range(16)]
        assert [wc.wr_id for wc in a.do(batch, 4)] == [3, 7, 11, 15]
        expect_none(a.send_cq)

    def test_a_queue_pair_may_signal_everything(self, rc_pair: Pair) -> None:
        a, b = rc_pair(sq_sig_all=True)
        done = a.do([a.write_wr(b, wr_id=i, send_flags=0) for i in range(8)], 8)
        assert [wc.wr_id for wc in done] == list(range(8))

    def test_the_same_request_may_stand_several_times_in_a_post(self, rc_pair: Pair) -> None:
        a, b = rc_pair()
        w = a.write_wr(b, wr_id=6)
        assert [wc.wr_id for wc in a.do([w] * 64, 64)] == [6] * 64

    def test_a_request_may_be_changed_and_posted_again_at_once(self, rc_pair: Pair) -> None:
        a, b = rc_pair()
        sent = a.buf.fill(2)
        w = a.write_wr(b, 1)
        for i in range(32):
            w.wr_id, w.sg_list, w.remote_addr = i, [a.mr.sge(1, i)], b.mr.addr + 31 - i
            a.qp.post_send(w)
        assert [wc.wr_id for wc in a.sent(32)] == list(range(32))
        assert b.buf[0:32] == sent[31::-1]

    def test_more_requests_than_the_queue_is_deep_one_after_the_other(self, rc_pair: Pair) -> None:
        a, b = rc_pair(depth=4)
        for i in range(100):
            a.do(a.write_wr(b, wr_id=i))

    def test_requests_may_come_from_a_generator(self, rc_pair: Pair) -> None:
        a, b = rc_pair()
        b.qp.post_recv(b.recv_wr(wr_id=i) for i in range(5))
        a.qp.post_send(a.send_wr(wr_id=10 + i) for i in range(5))
        assert [wc.wr_id for wc in a.sent(5)] == [10, 11, 12, 13, 14]
        assert [wc.wr_id for wc in b.received(5)] == [0, 1, 2, 3, 4]

    def test_an_empty_post_does_nothing(self, rc_pair: Pair) -> None:
        a, b = rc_pair()
        assert a.qp.post_send([]) is None
        assert b.qp.post_recv(()) is None
        expect_none(a.send_cq, 0.01)

    def test_all_opcodes_in_one_batch(self, ib: Any, rc_pair: Pair) -> None:
        a, b = rc_pair()
        a.buf.fill(2)
        b.buf.set_u64(4096, 41)
        for i in range(3):
            b.post_recv(64, offset=8192 + 64 * i, wr_id=i)
        op = ib.WROpcode
        done = a.do(
            [
                a.send_wr(8, wr_id=0),
                a.write_wr(b, 8, wr_id=1),
                a.send_wr(8, wr_id=2, opcode=op.SEND_WITH_IMM, imm_data=2),
                a.read_wr(b, 8, into=512, wr_id=3),
                a.rdma_wr(op.RDMA_WRITE_WITH_IMM, b, 8, wr_id=4, imm_data=4),
            ],
            5,
        )
        code = ib.WCOpcode
        assert [(wc.wr_id, wc.opcode) for wc in done] == [
            (0, code.SEND), (1, code.RDMA_WRITE), (2, code.SEND), (3, code.RDMA_READ), (4, code.RDMA_WRITE),
        ]  # fmt: skip
        got = [(wc.opcode, wc.imm_data if wc.wc_flags & ib.WCFlags.WITH_IMM else None) for wc in b.received(3)]
        assert got == [(code.RECV, None), (code.RECV, 2), (code.RECV_RDMA_WITH_IMM, 4)]


@pytest.mark.parametrize("mtu", [1, 2, 3, 4, 5])
def test_messages_are_cut_to_any_mtu_and_put_together_again(ib: Any, rc_pair: Pair, mtu: int) -> None:
    a, b = rc_pair(connected=False)
    if mtu > a.ctx.query_port(1).active_mtu:
        pytest.skip(f"needs a port whose MTU is at least {128 << mtu}")
    connect(a, b, mtu=mtu)
    sent = a.buf.fill(9)
    for length in (1, (128 << mtu) - 1, 128 << mtu, (128 << mtu) + 1, 9999):
        a.do(a.write_wr(b, length, src=1, dst=2))
        assert b.buf[2 : 2 + length] == sent[1 : 1 + length]
    assert a.qp.query()[0]["path_mtu"] == mtu


@pytest.mark.parametrize("psn, peer_psn", [(0, 0), (1, 2), (0xFFFFFF, 0xFFFFFE), (0x800000, 0x7FFFFF)])
def test_packet_numbers_may_start_anywhere_and_wrap(rc_pair: Pair, psn: int, peer_psn: int) -> None:
    a, b = rc_pair(connected=False)
    a.connect(b, psn=psn, peer_psn=peer_psn)
    b.connect(a, psn=peer_psn, peer_psn=psn)
    sent = a.buf.fill(4)
    for i in range(8):
        a.do(a.write_wr(b, 9000, src=i, dst=10))
        assert b.buf[10:9010] == sent[i : 9000 + i]
        b.do(b.read_wr(a, 9000, into=20, src=i))
        assert b.buf[20:9020] == sent[i : 9000 + i]


def test_a_queue_pair_may_be_connected_to_itself(ib: Any, make: Make) -> None:
    end = make()
    end.connect(end)
    end.buf[0:4] = b"self"
    end.post_recv(64, offset=100)
    end.qp.post_send([end.write_wr(end, 4, 0, 200), end.send_wr(4)])
    end.sent(2)
    (got,) = end.received()
    assert got.byte_len == 4
    assert end.buf[100:104] == end.buf[200:204] == b"self"


def test_many_connections_at_once_do_not_mix(make: Make) -> None:
    pairs = [(make(size=4096), make(size=4096)) for _ in range(6)]
    for a, b in pairs:
        connect(a, b)
    for i, (a, b) in enumerate(pairs):
        a.buf[0:1] = bytes([i + 1])
        b.post_recv(16, offset=64, wr_id=i)
        a.qp.post_send(a.send_wr(1))
    for i, (a, b) in enumerate(pairs):
        (got,) = b.received()
        assert (got.wr_id, b.buf[64:65]) == (i, bytes([i + 1]))
        a.sent()


def test_two_queue_pairs_may_share_one_completion_queue(ib: Any, make: Make) -> None:
    a, b = make(), make()
    connect(a, b)
    extra = a.pd.create_qp(ib.QPInitAttr(a.send_cq, a.recv_cq))
    with extra:
        port, index = a.node.port, a.node.gid_index
        info = ib.local_qp_info(extra, a.ctx.query_port(port), a.node.gid, port=port)
        ib.connect_rc(extra, info, port=port, sgid_index=index, access=ib.AccessFlags.REMOTE_WRITE)
        a.qp.post_send(a.write_wr(b, wr_id=1))
        extra.post_send(a.write_wr(a, wr_id=2, dst=512, rkey=a.mr.rkey))
        found = poll_for(a.send_cq, 2)
        assert {wc.wr_id: wc.qp_num for wc in found} == {1: a.qp.qp_num, 2: extra.qp_num}
