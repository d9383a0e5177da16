# SPDX-License-Identifier: BSD-3-Clause
"""EFA moves data: SRD and UD between queue pairs of one device and across two, over the real libefa and its provider.

What a library is too old for is skipped with the reason: libefa of rdma-core 44 (Debian 12) has no RDMA write.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from typing import Any

import pytest
from endpoints import INLINE, QKEY, SIGNALED, Endpoint, Make, Pair, connect, expect_none, poll_for
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from packages import SRD, UD
from place import Node, seconds

pytestmark = [pytest.mark.needs("efa"), pytest.mark.only("efa")]

GRH = 40
quick = settings(
    max_examples=15, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
places = st.integers(0, 3000)


def by_id(completions: list[Any]) -> dict[int, Any]:
    assert len({wc.wr_id for wc in completions}) == len(completions)
    return {wc.wr_id: wc for wc in completions}


class TestSends:
    def test_a_message_arrives_whole_and_says_who_sent_it(self, ib: Any, far_pair: Pair) -> None:
        a, b = far_pair()
        sent = a.buf.fill(1)
        b.post_recv(4096, 8192, wr_id=9)
        (done,) = a.do(a.send_wr(3000, 100, wr_id=5))
        (got,) = b.received()
        assert (done.wr_id, done.opcode, done.qp_num) == (5, ib.WCOpcode.SEND, a.qp.qp_num)
        assert (got.wr_id, got.opcode, got.byte_len, got.qp_num) == (9, ib.WCOpcode.RECV, 3000, b.qp.qp_num)
        assert got.src_qp == a.qp.qp_num
        assert b.buf[8192:11192] == sent[100:3100]

    @pytest.mark.parametrize("imm", [0, 1, 0x01020304, 0xFFFFFFFF])
    def test_immediate_data_is_the_number_that_was_sent(self, ib: Any, pair: Any, imm: int) -> None:
        a, b = pair
        b.post_recv()
        a.do(a.send_wr(8, opcode=ib.WROpcode.SEND_WITH_IMM, imm_data=imm))
        (got,) = b.received()
        assert got.imm_data == imm and got.wc_flags & ib.WCFlags.WITH_IMM

    def test_lists_are_gathered_and_scattered(self, pair: Any) -> None:
        a, b = pair
        sent = a.buf.fill(2)
        b.qp.post_recv(b.ib.RecvWR(1, [b.mr.sge(100, 5000), b.mr.sge(500, 6000)]))
        a.do(a.send_wr(sg_list=[a.mr.sge(70, 10), a.mr.sge(80, 200)]))
        b.received()
        whole = sent[10:80] + sent[200:280]
        assert b.buf[5000:5100] + b.buf[6000:6050] == whole

    def test_inline_data_is_taken_when_it_is_posted(self, make: Make) -> None:
        a, b = make(inline=32), make()
        connect(a, b)
        b.post_recv(64, 100)
        a.buf[0:32] = bytes(range(32))
        a.qp.post_send(a.send_wr(32, send_flags=SIGNALED | INLINE))
        a.buf[0:32] = bytes(32)
        a.sent()
        b.received()
        assert b.buf[100:132] == bytes(range(32))

    @pytest.mark.parametrize("length", [31, 33, 64, 80])
    def test_as_much_as_the_library_has_room_for_goes_inline(self, ib: Any, make: Make, length: int) -> None:
        """Libraries before rdma-core 63 would write beyond their requests: the kernel grants what the device has."""
        if length > make().ctx.query_efa_device().inline_buf_size_ex:
            with pytest.raises(ib.EfaError, match=f"max_inline_data={length}.* 32 ") as caught:
                make(inline=length)
            assert caught.value.errno == errno.EINVAL
            return
        a, b = make(inline=length), make()
        connect(a, b)
        sent = a.buf.fill(5)
        for number in range(3):
            b.post_recv(128, 1000 * number)
        wrs = [a.send_wr(length, 100 * n, wr_id=n, send_flags=SIGNALED | INLINE) for n in range(3)]
        a.do(wrs, 3)
        b.received(3)
        got = sorted(b.buf[1000 * n : 1000 * n + length] for n in range(3))
        assert got == sorted(sent[100 * n : 100 * n + length] for n in range(3))

    def test_an_empty_message_is_a_message(self, pair: Any) -> None:
        a, b = pair
        b.post_recv()
        a.do(a.send_wr(0))
        assert b.received()[0].byte_len == 0

    def test_each_of_many_arrives_once_in_whatever_order(self, pair: Any) -> None:
        a, b = pair
        for i in range(50):
            b.post_recv(8, 1000 + 8 * i, wr_id=i)
        for i in range(50):
            a.buf.set_u64(8 * i, i)
        a.qp.post_send([a.send_wr(8, 8 * i, wr_id=i) for i in range(50)])
        assert set(by_id(a.sent(50))) == set(range(50))
        got = b.received(50)
        assert sorted(wc.wr_id for wc in got) == list(range(50))
        assert sorted(b.buf.u64(1000 + 8 * i) for i in range(50)) == list(range(50))

    def test_both_ends_send_at_once(self, pair: Any) -> None:
        for end in pair:
            for i in range(20):
                end.post_recv(64, 8192 + 64 * i, wr_id=i)
        for end in pair:
            end.qp.post_send([end.send_wr(64, wr_id=i) for i in range(20)])
        for end in pair:
            assert len(end.sent(20)) == len(end.received(20)) == 20

    def test_one_queue_pair_talks_to_many(self, make: Make) -> None:
        hub, ends = make(depth=256), [make() for _ in range(8)]
        hub.ready_ud()
        peers = []
        for i, end in enumerate(ends):
            end.connect(hub)
            peers.append(end.info().peer(hub.pd))
            end.post_recv(wr_id=i)
        hub.qp.post_send([hub.send_wr(16, wr_id=i, dest=peer) for i, peer in enumerate(peers)])
        assert set(by_id(hub.sent(len(ends)))) == set(range(len(ends)))
        for i, end in enumerate(ends):
            (got,) = end.received()
            assert (got.wr_id, got.src_qp) == (i, hub.qp.qp_num)
        for peer in peers:
            peer.close()


class TestDatagrams:
    @pytest.fixture
    def ends(self, make: Make) -> tuple[Endpoint, Endpoint]:
        a, b = make(UD), make(UD)
        connect(a, b)
        return a, b

    def test_a_datagram_lies_behind_room_for_a_header(self, ib: Any, ends: tuple[Endpoint, Endpoint]) -> None:
        a, b = ends
        sent = a.buf.fill(3)
        b.post_recv(2048, 4096)
        a.do(a.send_wr(500))
        (got,) = b.received()
        assert got.byte_len in (500, 500 + GRH) and got.src_qp == a.qp.qp_num
        assert b.buf[4096 + GRH : 4096 + GRH + 500] == sent[:500]

    def test_it_has_sends_only(self, ib: Any, ends: tuple[Endpoint, Endpoint]) -> None:
        a, b = ends
        assert a.qp.qp_type == UD and a.qp.send_ops_flags == 4 | 8
        for opcode in (ib.WROpcode.RDMA_WRITE, ib.WROpcode.RDMA_READ):
            with pytest.raises(ValueError):
                a.qp.post_send(a.rdma_wr(opcode, b))
        expect_none(a.send_cq, 0.02)

    def test_one_with_immediate(self, ib: Any, ends: tuple[Endpoint, Endpoint]) -> None:
        a, b = ends
        b.post_recv(2048)
        a.do(a.send_wr(8, opcode=ib.WROpcode.SEND_WITH_IMM, imm_data=77))
        assert b.received()[0].imm_data == 77


@pytest.mark.needs("rdma_read")
class TestReads:
    def test_a_read_fetches_and_completes_as_a_send(self, ib: Any, far_pair: Pair) -> None:
        """The provider has one opcode for both; wr_id tells them apart."""
        a, b = far_pair()
        there = b.buf.fill(5)
        (done,) = a.do(a.read_wr(b, 5000, 200, 1000, wr_id=3))
        assert (done.wr_id, done.opcode) == (3, ib.WCOpcode.SEND)
        assert a.buf[200:5200] == there[1000:6000]
        expect_none(b.recv_cq, 0.02)

    def test_read_wrs_fetch_a_range_in_pieces(self, ib: Any, pair: Any) -> None:
        a, b = pair
        there = b.buf.fill(6)
        wrs = ib.read_wrs(a.mr, a.peer, b.mr.addr + 100, b.mr.rkey, length=10_001, offset=7, chunk=1000, wr_id=40)
        a.qp.post_send(wrs)
        assert set(by_id(a.sent(11))) == set(range(40, 51))
        assert a.buf[7:10_008] == there[100:10_101]

    def test_a_wrong_key_is_told_with_the_providers_status(self, ib: Any, pair: Any) -> None:
        a, b = pair
        a.qp.post_send(a.read_wr(b, rkey=b.mr.rkey ^ 0x5A5A))
        (wc,) = poll_for(a.send_cq, 1)
        # libefa of rdma-core 44 calls it a general error
        assert wc.status in (ib.WCStatus.REM_ACCESS_ERR, ib.WCStatus.GENERAL_ERR) and wc.vendor_err == 7
        with pytest.raises(ib.CompletionError) as caught:
            wc.raise_for_status()
        assert "rkey" in str(caught.value)
        a.do(a.read_wr(b))

    def test_a_target_that_does_not_know_the_initiator_refuses_with_the_hint(self, ib: Any, make: Make) -> None:
        a, b = make(), make()
        b.ready_ud()
        a.connect(b)
        a.qp.post_send(a.read_wr(b))
        (wc,) = poll_for(a.send_cq, 1)
        if wc.is_success:
            pytest.skip("needs a device that refuses RDMA of unknown peers")
        assert wc.vendor_err == 14
        with pytest.raises(ib.CompletionError, match="address handle"):
            wc.raise_for_status()
        with a.info().peer(b.pd):
            a.do(a.read_wr(b))

    @quick
    @given(st.lists(st.tuples(places, places, st.integers(1, 800)), min_size=1, max_size=12))
    def test_any_reads_leave_what_a_model_says(self, pair: Any, reads: list[tuple[int, int, int]]) -> None:
        a, b = pair
        model, there = bytearray(a.buf.fill(7)), b.buf.fill(8)
        for into, src, length in reads:
            a.do(a.read_wr(b, length, into, src))
            model[into : into + length] = there[src : src + length]
        assert a.buf[:] == model


@pytest.mark.needs("rdma_write")
class TestWrites:
    def test_a_write_arrives_and_the_target_is_not_told(self, ib: Any, far_pair: Pair) -> None:
        a, b = far_pair()
        sent = a.buf.fill(9)
        (done,) = a.do(a.write_wr(b, 5000, 100, 3000, wr_id=4))
        assert (done.wr_id, done.opcode) == (4, ib.WCOpcode.RDMA_WRITE)
        assert b.buf[3000:8000] == sent[100:5100]
        expect_none(b.recv_cq, 0.02)

    def test_a_write_with_immediate_uses_up_a_receive(self, ib: Any, pair: Any) -> None:
        a, b = pair
        a.buf[0:4] = b"data"
        b.post_recv(wr_id=6)
        opcode = ib.WROpcode.RDMA_WRITE_WITH_IMM
        a.do(a.rdma_wr(opcode, b, 4, 0, 900, imm_data=0xAABBCCDD))
        (got,) = b.received()
        assert (got.wr_id, got.opcode, got.imm_data) == (6, ib.WCOpcode.RECV_RDMA_WITH_IMM, 0xAABBCCDD)
        assert b.buf[900:904] == b"data"

    def test_write_wrs_move_a_range_in_pieces(self, ib: Any, pair: Any) -> None:
        a, b = pair
        sent = a.buf.fill(1)
        a.qp.post_send(ib.write_wrs(a.mr, a.peer, b.mr.addr + 11, b.mr.rkey, length=9000, offset=5, chunk=999))
        assert len(a.sent(10)) == 10
        assert b.buf[11:9011] == sent[5:9005]

    def test_unsolicited_writes_use_up_no_receive(self, ib: Any, ctx: Any, make: Make) -> None:
        if not ctx.query_efa_device().device_caps & ib.EfaDeviceCaps.UNSOLICITED_WRITE_RECV:
            pytest.skip("needs a device and a libefa with unsolicited writes")
        options: dict[str, Any] = {"extended": {"unsolicited": True}, "unsolicited_write_recv": True}
        a, b = make(**options), make(**options)
        connect(a, b)
        opcode = ib.WROpcode.RDMA_WRITE_WITH_IMM
        a.buf[0:4] = b"data"
        a.do(a.rdma_wr(opcode, b, 4, 0, 900, imm_data=7))
        (got,) = poll_for(b.recv_cq, 1)
        assert got.is_success and got.unsolicited and got.imm_data == 7
        assert b.buf[900:904] == b"data"
        b.post_recv(wr_id=3)
        a.do(a.send_wr())
        (plain,) = b.received()
        assert plain.wr_id == 3 and not plain.unsolicited


REFUSED_ACCESS = """
import ctypes, efa, errno
memory = ctypes.create_string_buffer(64)
with efa.get_efa_device_list()[0].open() as ctx, ctx.alloc_pd() as pd:
    knows_writes = (efa.capabilities().release or 0) >= 46
    write = "REMOTE_WRITE is for RDMA write, which device efa_0" if knows_writes else "access 0x3"
    for access, words in ((1 | 2, write), (4, "REMOTE_READ is for RDMA read"),
                          (1 | 8, "but not 0x8")):
        try:
            pd.reg_mr(ctypes.addressof(memory), 64, access)
        except efa.EfaError as error:
            assert error.errno == errno.EOPNOTSUPP and words in str(error), error
        else:
            raise SystemExit(f"{access} was granted")
    pd.reg_mr(ctypes.addressof(memory), 64, 1 | 1 << 20).close()
print("said")
"""


@pytest.mark.needs("software_host")
def test_access_that_a_device_does_not_give_is_named() -> None:
    """On the first generation, which has no RDMA."""
    env = {**os.environ, "SOFTRDMA_DEVICES": "efa@0:1", "SOFTRDMA_FABRIC": f"access-{os.getpid()}"}
    done = subprocess.run(
        [sys.executable, "-c", REFUSED_ACCESS], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "said\n", done.stderr


@pytest.mark.needs("cq_events")
def test_an_event_for_solicited_completions_alone_is_refused_by_that_name(ib: Any, make: Make) -> None:
    with pytest.raises(ib.EfaError, match="solicited_only=True") as caught:
        make(with_channel=True).recv_cq.req_notify(solicited_only=True)
    assert caught.value.errno == errno.EOPNOTSUPP


class TestWithoutWrites:
    """What a library that is too old for it says: nothing reaches the provider, which would crash."""

    def test_a_write_says_which_release_brings_it(self, ib: Any, place: Any, pair: Any) -> None:
        if place.missing("rdma_write") is None:
            pytest.skip("needs a libefa without RDMA writes")
        a, b = pair
        assert not a.qp.send_ops_flags & (1 | 2)
        with pytest.raises(ValueError) as caught:
            a.qp.post_send([a.send_wr(), a.write_wr(b)])
        assert caught.value.index == 1 and "46" in str(caught.value)  # type: ignore[attr-defined]
        expect_none(a.send_cq, 0.02)
        with pytest.raises(ib.UnsupportedError, match="46"):
            a.pd.create_qp(ib.QPInitAttr(a.send_cq, a.recv_cq, send_ops_flags=ib.QPExSendOpsFlags.RDMA_WRITE))


@pytest.mark.needs("cq_ex")
class TestExtendedQueues:
    @pytest.fixture
    def ends(self, make: Make) -> tuple[Endpoint, Endpoint]:
        a, b = make(extended={"sgid": True}), make(extended={"sgid": True})
        return a, b

    def test_the_senders_gid_is_told_where_no_handle_covers_it(self, ends: tuple[Endpoint, Endpoint]) -> None:
        a, b = ends
        b.ready_ud()
        a.connect(b)
        b.post_recv(wr_id=1)
        a.do(a.send_wr())
        (got,) = b.received()
        assert got.sgid == bytes(a.node.gid) and got.src_qp == a.qp.qp_num
        # what is told is enough to answer
        with b.ib.EndpointInfo(got.sgid, got.src_qp, QKEY).peer(b.pd) as peer:
            a.post_recv(wr_id=2)
            b.qp.post_send(b.send_wr(8, dest=peer))
            b.sent()
            assert a.received()[0].sgid is None  # a has a handle for b
            b.post_recv(wr_id=3)
            a.do(a.send_wr())
            assert b.received()[0].sgid is None

    def test_many_completions_come_once_each(self, make: Make) -> None:
        a, b = make(extended={}, depth=64), make(extended={}, depth=64)
        connect(a, b)
        total = 0
        for batch in range(6):
            for i in range(40):
                b.post_recv(8, 8 * i, wr_id=i)
            a.qp.post_send([a.send_wr(8, wr_id=batch * 40 + i) for i in range(40)])
            assert set(by_id(a.sent(40))) == {batch * 40 + i for i in range(40)}
            total += len(by_id(b.received(40)))
        assert total == 240

    def test_events_come_with_the_queue_itself(self, make: Make) -> None:
        a, b = make(extended={}), make(extended={}, with_channel=True)
        connect(a, b)
        for _ in range(3):
            b.post_recv()
            b.recv_cq.req_notify()
            a.do(a.send_wr())
            assert b.channel.get_cq_event(timeout=seconds(5)) is b.recv_cq
            assert len(b.received()) == 1

    def test_closing_a_queue_pair_leaves_the_other_ones_completions(self, ib: Any, make: Make) -> None:
        """Releases differ in what they do with completions of a queue pair that is gone; none may hide the rest."""
        a, b = make(extended={}), make()
        connect(a, b)
        attr = ib.QPInitAttr(a.send_cq, a.recv_cq)
        for _ in range(4):
            b.post_recv()
            b.post_recv()
            other = a.pd.create_qp(attr).prepare(QKEY)
            other.post_send(a.send_wr(8, wr_id=50))
            a.qp.post_send(a.send_wr(8, wr_id=60))
            b.received(2)
            time.sleep(0.01)
            other.close()
            got = poll_for(a.send_cq, 1)
            seen = [wc.wr_id for wc in got + a.send_cq.poll(8)]
            assert seen.count(60) == 1 and set(seen) <= {50, 60} and seen.count(50) <= 1
            expect_none(a.send_cq, 0.01)


class TestFaults:
    def test_a_queue_pair_that_is_not_there(self, ib: Any, pair: Any) -> None:
        a, b = pair
        with ib.EndpointInfo(b.node.gid, (b.qp.qp_num + 77) & 0xFFFFFF, QKEY).peer(a.pd) as nobody:
            a.qp.post_send(a.send_wr(dest=nobody))
            (wc,) = poll_for(a.send_cq, 1)
            assert not wc.is_success and wc.vendor_err
        b.post_recv()
        a.do(a.send_wr())  # an SRD queue pair lives on

    def test_an_address_where_nobody_answers(self, ib: Any, pair: Any) -> None:
        a, b = pair
        with ib.EndpointInfo(b"\xfe\x80" + bytes(13) + b"\x77", 5, QKEY).peer(a.pd) as nobody:
            a.qp.post_send(a.send_wr(dest=nobody))
            (wc,) = poll_for(a.send_cq, 1, timeout=15)
            assert wc.status == ib.WCStatus.RESP_TIMEOUT_ERR or not wc.is_success
            with pytest.raises(ib.CompletionError):
                wc.raise_for_status()

    def test_no_receive_is_told_after_the_retries(self, ib: Any, make: Make) -> None:
        a, b = make(), make()
        connect(a, b, rnr_retry=0)
        a.qp.post_send(a.send_wr())
        (wc,) = poll_for(a.send_cq, 1, timeout=10)
        assert wc.status == ib.WCStatus.RNR_RETRY_EXC_ERR and wc.vendor_err == 10

    def test_memory_that_is_not_registered(self, ib: Any, pair: Any) -> None:
        a, b = pair
        b.post_recv()
        a.qp.post_send(a.send_wr(sg_list=[ib.SGE(a.buf.addr, 8, a.mr.lkey ^ 0x5500)]))
        (wc,) = poll_for(a.send_cq, 1)
        assert wc.status == ib.WCStatus.LOC_PROT_ERR and wc.vendor_err == 5

    def test_requests_that_wait_are_flushed_or_dropped_with_the_error_state(self, ib: Any, make: Make) -> None:
        a, b = make(), make()
        connect(a, b)
        for i in range(5):
            b.post_recv(wr_id=i)
        b.qp.modify(ib.QPAttrMask.STATE, qp_state=ib.QPState.ERR)
        assert b.qp.state == ib.QPState.ERR
        for wc in b.recv_cq.poll(16):
            assert wc.status == ib.WCStatus.WR_FLUSH_ERR


class TestLimits:
    def test_long_receives_are_refused_where_the_library_cuts_them(self, ib: Any, make: Make) -> None:
        end = make(size=1 << 18)
        end.ready_ud()
        release = ib.capabilities().release
        if release == 56:
            pytest.skip("needs a libefa of another release: 56.0 cuts them and 56.1 does not")
        if release is None or release >= 57:
            end.qp.post_recv(ib.RecvWR(1, [end.mr.sge(1 << 17)]))
            return
        with pytest.raises(ValueError, match="65535"):
            end.qp.post_recv([end.recv_wr(), ib.RecvWR(1, [end.mr.sge(65536)])])
        end.qp.post_recv(ib.RecvWR(1, [end.mr.sge(65535)]))

    def test_a_batch_deeper_than_the_queue_submits_nothing(self, ib: Any, make: Make) -> None:
        a, b = make(depth=16), make(depth=64)
        connect(a, b)
        depth = a.qp.query()[1].max_send_wr
        with pytest.raises(ib.EfaError) as caught:
            a.qp.post_send([a.send_wr(8, wr_id=i) for i in range(depth + 1)])
        assert (caught.value.errno, caught.value.posted) == (errno.ENOMEM, 0)
        for i in range(depth):
            b.post_recv(wr_id=i)
        expect_none(a.send_cq, 0.02)
        a.qp.post_send([a.send_wr(8, wr_id=i) for i in range(depth)])
        assert set(by_id(a.sent(depth))) == set(range(depth))
        assert len(b.received(depth)) == depth

    def test_what_other_kinds_of_queues_need_is_refused(self, ib: Any, node: Node) -> None:
        with node.open() as ctx, ctx.alloc_pd() as pd, ctx.create_cq(4) as cq:
            for qp_type in (2, 3, 0, 9, 254, 256):
                with pytest.raises((ValueError, ib.EfaError)):
                    pd.create_qp(ib.QPInitAttr(cq, cq, qp_type=qp_type))
            assert pd.create_qp(ib.QPInitAttr(cq, cq)).qp_type == SRD

    def test_access_rights_that_the_device_lacks_are_refused(self, ib: Any, pd: Any) -> None:
        data = bytearray(4096)
        with pytest.raises((ValueError, ib.EfaError)):
            ib.reg_tensor(pd, data, 8 | 1)  # atomics
        with ib.reg_tensor(pd, data, ib.AccessFlags.LOCAL_WRITE | ib.AccessFlags.RELAXED_ORDERING) as mr:
            assert mr.length == 4096
