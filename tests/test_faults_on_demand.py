# SPDX-License-Identifier: BSD-3-Clause
"""Faults that the software host shows on demand: each kind, as a program meets it."""

from __future__ import annotations

import errno
import mmap
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from endpoints import QKEY, UD, Buffer, Endpoint, Make, connect, expect_none, poll_for
from own_process import own_process
from place import Node, Place, seconds

pytestmark = [pytest.mark.needs("rc"), pytest.mark.only("ibverbs")]

CQ_ERR, QP_FATAL, COMM_EST, DEVICE_FATAL, PORT_ACTIVE, PORT_ERR = 0, 1, 4, 8, 9, 10
SRQ_ERR, SRQ_LIMIT_REACHED, GID_CHANGE = 14, 15, 18
LOC_LEN, WR_FLUSH, REM_ACCESS, REM_OP, RETRY_EXC, RNR_RETRY_EXC = 1, 5, 10, 11, 12, 13
ERR = 6
ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def pair(make: Make) -> tuple[Endpoint, Endpoint]:
    """Two connected ends that give up after some milliseconds."""
    a, b = make(), make()
    connect(a, b, timeout=8, retry_cnt=3)
    return a, b


@pytest.fixture
def datagrams(make: Make) -> Iterator[tuple[Endpoint, Endpoint, Any]]:
    a, b = make(UD), make(UD)
    connect(a, b)
    for i in range(16):
        b.post_recv(256, offset=256 * i, wr_id=i)
    with a.pd.create_ah(a.ah_attr(b)) as ah:
        yield a, b, ah


def datagram(a: Endpoint, b: Endpoint, ah: Any, length: int) -> Any:
    return a.send_wr(length, ah=ah, remote_qpn=b.qp.qp_num, remote_qkey=QKEY)


def next_event(end: Any) -> Any:
    event = end.get_async_event(timeout=seconds(3))
    assert event is not None
    return event


class TestRequests:
    def test_the_nth_matching_request_fails_and_no_other(self, pair: Any, softrdma_faults: Any) -> None:
        a, b = pair
        number = softrdma_faults.fail_request("REM_ACCESS", op="rdma_write", qp=a.qp.qp_num, nth=2, vendor_err=77)
        a.do(a.write_wr(b))
        a.do(a.read_wr(b))
        a.qp.post_send([a.write_wr(b, wr_id=7), a.write_wr(b, wr_id=8)])
        first, second = poll_for(a.send_cq, 2)
        assert (first.wr_id, first.status, first.vendor_err) == (7, REM_ACCESS, 77)
        assert (second.wr_id, second.status) == (8, WR_FLUSH)
        assert a.qp.state == ERR and softrdma_faults.fired(number) == 1

    def test_a_request_is_known_by_its_address(self, pair: Any, softrdma_faults: Any) -> None:
        a, b = pair
        softrdma_faults.fail_request("REM_OP", addr=b.mr.addr + 64)
        a.do(a.write_wr(b, dst=0))
        a.qp.post_send(a.write_wr(b, dst=64))
        assert poll_for(a.send_cq, 1)[0].status == REM_OP

    def test_a_request_is_known_by_its_number(self, pair: Any, softrdma_faults: Any) -> None:
        a, b = pair
        softrdma_faults.fail_request("REM_OP", wr_id=2)
        a.do(a.write_wr(b, wr_id=1))
        a.qp.post_send(a.write_wr(b, wr_id=2))
        assert poll_for(a.send_cq, 1)[0].status == REM_OP

    @pytest.mark.parametrize("moved", [False, True])
    def test_the_data_of_a_failed_request_has_moved_or_not(self, pair: Any, softrdma_faults: Any, moved: bool) -> None:
        a, b = pair
        a.buf[0:4] = b"data"
        softrdma_faults.fail_request("RETRY_EXC", moved=moved)
        a.qp.post_send(a.write_wr(b, 4))
        assert poll_for(a.send_cq, 1)[0].status == RETRY_EXC
        assert b.buf[0:4] == (b"data" if moved else bytes(4))

    def test_a_receive_fails(self, pair: Any, softrdma_faults: Any) -> None:
        a, b = pair
        softrdma_faults.fail_request("LOC_LEN", op="recv", qp=b.qp.qp_num)
        b.post_recv()
        a.qp.post_send(a.send_wr())
        assert poll_for(b.recv_cq, 1)[0].status == LOC_LEN
        assert poll_for(a.send_cq, 1)[0].status == REM_OP

    def test_chance_is_the_same_with_the_same_seed(self, make: Make, softrdma_faults: Any) -> None:
        def struck(seed: int) -> list[int]:
            softrdma_faults.reset()
            softrdma_faults.seed = seed
            rule = softrdma_faults.add("delay", us=1, probability=0.3)[0]
            a, b = make(), make()
            connect(a, b)
            counts = []
            for _ in range(32):
                a.do(a.write_wr(b))
                counts.append(softrdma_faults.fired(rule))
            return counts

        first = struck(5)
        assert struck(5) == first and struck(6) != first
        assert 0 < first[-1] < 32


class TestMessages:
    @pytest.mark.parametrize("side", ["sender", "receiver"])
    @pytest.mark.parametrize("what", ["message", "answer"])
    def test_what_is_lost_is_sent_again(self, pair: Any, softrdma_faults: Any, what: str, side: str) -> None:
        a, b = pair
        a.buf[0:4] = b"data"
        rule = softrdma_faults.add("drop", what=what, side=side, times=2)[0]
        a.do(a.write_wr(b, 4))
        assert b.buf[0:4] == b"data" and softrdma_faults.fired(rule) == 2
        a.do(a.write_wr(b, 4))

    @pytest.mark.parametrize("side", ["sender", "receiver"])
    @pytest.mark.parametrize("what", ["message", "answer"])
    def test_retries_end(self, pair: Any, softrdma_faults: Any, what: str, side: str) -> None:
        a, b = pair
        a.buf[0:4] = b"data"
        rule = softrdma_faults.add("drop", what=what, side=side, times=0)[0]
        a.qp.post_send(a.write_wr(b, 4))
        assert poll_for(a.send_cq, 1)[0].status == RETRY_EXC
        assert softrdma_faults.fired(rule) == 4
        assert b.buf[0:4] == (bytes(4) if what == "message" else b"data")

    def test_an_atomic_whose_answer_is_lost_is_carried_out_once(self, pair: Any, softrdma_faults: Any) -> None:
        a, b = pair
        softrdma_faults.add("drop", what="answer", times=2)
        a.do(a.fetch_add_wr(b, 5, into=0, dst=1024))
        assert a.buf.u64(0) == 0 and b.buf.u64(1024) == 5

    @pytest.mark.parametrize("side", ["sender", "receiver"])
    def test_a_receiver_is_not_ready_for_a_while(self, pair: Any, softrdma_faults: Any, side: str) -> None:
        a, b = pair
        b.post_recv()
        rule = softrdma_faults.add("rnr", side=side, times=2)[0]
        a.do(a.write_wr(b))
        assert softrdma_faults.fired(rule) == 0
        a.do(a.send_wr())
        b.received()
        assert softrdma_faults.fired(rule) == 2

    def test_a_receiver_that_is_never_ready_ends_the_connection(self, make: Make, softrdma_faults: Any) -> None:
        a, b = make(), make()
        connect(a, b, rnr_retry=2, min_rnr_timer=1)
        b.post_recv()
        softrdma_faults.add("rnr", times=0)
        a.qp.post_send(a.send_wr())
        assert poll_for(a.send_cq, 1)[0].status == RNR_RETRY_EXC

    @pytest.mark.parametrize("kind", ["duplicate", "reorder"])
    def test_a_reliable_connection_hides_it(self, pair: Any, softrdma_faults: Any, kind: str) -> None:
        a, b = pair
        for i in range(8):
            b.post_recv(16, offset=16 * i, wr_id=i)
        rule = softrdma_faults.add(kind, times=0)[0]
        a.buf[1024:1032] = bytes(range(8))
        a.qp.post_send([a.send_wr(1, offset=1024 + i, wr_id=i) for i in range(8)])
        assert [wc.wr_id for wc in a.sent(8)] == list(range(8))
        assert [wc.wr_id for wc in b.received(8)] == list(range(8))
        assert b.buf[0:128:16] == bytes(range(8)) and softrdma_faults.fired(rule) == 8
        a.do(a.fetch_add_wr(b, 1, into=2048, dst=4096))
        assert b.buf.u64(4096) == 1

    @pytest.mark.parametrize("side", ["sender", "receiver"])
    def test_a_late_message_comes_when_it_was_said(self, pair: Any, softrdma_faults: Any, side: str) -> None:
        a, b = pair
        softrdma_faults.add("delay", ms=30, side=side)
        start = time.monotonic()
        a.do(a.write_wr(b))
        assert 0.03 <= time.monotonic() - start < seconds(1)

    def test_datagrams_are_lost_doubled_and_overtaken(self, datagrams: Any, softrdma_faults: Any) -> None:
        a, b, ah = datagrams
        with ah:
            softrdma_faults.add("drop")
            a.qp.post_send([datagram(a, b, ah, 1), datagram(a, b, ah, 2)])
            a.sent(2)
            assert [wc.byte_len - 40 for wc in b.received(1)] == [2]
            softrdma_faults.add("duplicate")
            a.do(datagram(a, b, ah, 3))
            assert [wc.byte_len - 40 for wc in b.received(2)] == [3, 3]
            softrdma_faults.add("reorder")
            a.qp.post_send([datagram(a, b, ah, 4), datagram(a, b, ah, 5), datagram(a, b, ah, 6)])
            a.sent(3)
            assert [wc.byte_len - 40 for wc in b.received(3)] == [5, 4, 6]
            softrdma_faults.add("reorder", ms=5)
            a.do(datagram(a, b, ah, 7))
            assert [wc.byte_len - 40 for wc in b.received(1)] == [7]
            expect_none(b.recv_cq)


class TestQueues:
    def test_an_overrun_kills_the_queue_and_everything_on_it(
        self, ib: Any, make: Make, pair: Any, softrdma_faults: Any
    ) -> None:
        a, b = pair
        softrdma_faults.add("overrun", qp=a.qp.qp_num)
        a.qp.post_send(a.write_wr(b))
        event = next_event(a.ctx)
        assert event.event_type == CQ_ERR and event.cq is a.send_cq
        event = next_event(a.ctx)
        assert event.event_type == QP_FATAL and event.qp is a.qp
        assert a.qp.state == ERR
        expect_none(a.send_cq)

    def test_a_queue_pair_breaks(self, pair: Any, softrdma_faults: Any) -> None:
        a, b = pair
        b.post_recv(wr_id=5)
        softrdma_faults.add("qp_error", qp=b.qp.qp_num)
        event = next_event(b.ctx)
        assert event.event_type == QP_FATAL and event.qp is b.qp
        (wc,) = poll_for(b.recv_cq, 1)
        assert (wc.wr_id, wc.status) == (5, WR_FLUSH)
        assert b.qp.state == ERR and a.qp.state != ERR

    def test_a_queue_pair_breaks_at_a_request(self, pair: Any, softrdma_faults: Any) -> None:
        a, b = pair
        softrdma_faults.add("qp_error", op="rdma_read")
        a.do(a.write_wr(b))
        a.qp.post_send(a.read_wr(b))
        event = next_event(a.ctx)
        assert event.event_type == QP_FATAL and event.qp is a.qp and a.qp.state == ERR

    @pytest.mark.needs("srq")
    def test_a_shared_queue_says_that_it_runs_low(self, make: Make, softrdma_faults: Any) -> None:
        a = make(with_srq=True)
        a.post_recv()
        a.srq.modify(srq_limit=1)
        softrdma_faults.add("srq_limit")
        event = next_event(a.ctx)
        assert event.event_type == SRQ_LIMIT_REACHED and event.srq is a.srq
        assert a.srq.query()["srq_limit"] == 0

    @pytest.mark.needs("srq")
    def test_a_shared_queue_breaks_with_its_users(self, make: Make, softrdma_faults: Any) -> None:
        a, b = make(), make(with_srq=True)
        connect(a, b)
        softrdma_faults.add("srq_error")
        event = next_event(b.ctx)
        assert event.event_type == SRQ_ERR and event.srq is b.srq
        assert b.qp.state == ERR and a.qp.state != ERR

    def test_any_event_can_be_had_alone(self, pair: Any, softrdma_faults: Any) -> None:
        a, b = pair
        softrdma_faults.add("event", type="COMM_EST", qp=b.qp.qp_num)
        event = next_event(b.ctx)
        assert event.event_type == COMM_EST and event.qp is b.qp
        a.do(a.write_wr(b))


class TestCalls:
    @pytest.mark.parametrize(
        ("call", "do"),
        [
            ("alloc_pd", lambda ctx, pd: ctx.alloc_pd()),
            ("create_cq", lambda ctx, pd: ctx.create_cq(4)),
            ("create_comp_channel", lambda ctx, pd: ctx.create_comp_channel()),
            ("query_device", lambda ctx, pd: ctx.query_device()),
            ("query_port", lambda ctx, pd: ctx.query_port(1)),
            ("create_srq", lambda ctx, pd: pd.create_srq()),
        ],
    )
    def test_the_nth_call_fails(
        self, ib: Any, ctx: Any, pd: Any, softrdma_faults: Any, call: str, do: Any
    ) -> None:
        softrdma_faults.fail_call(call, "ENFILE", nth=2)
        made = [do(ctx, pd)]
        with pytest.raises(ib.VerbsError) as caught:
            do(ctx, pd)
        assert caught.value.errno == errno.ENFILE
        made.append(do(ctx, pd))
        for thing in made:
            getattr(thing, "close", lambda: None)()

    def test_opening_fails(self, ib: Any, node: Node, softrdma_faults: Any) -> None:
        softrdma_faults.fail_call("open_device", "EACCES")
        with pytest.raises(ib.VerbsError):  # with ENOENT: libibverbs looks under another name, which is not there
            node.open()
        node.open().close()

    def test_a_destroy_that_fails_may_be_tried_again(self, ib: Any, ctx: Any, softrdma_faults: Any) -> None:
        pd = ctx.alloc_pd()
        softrdma_faults.fail_call("dealloc_pd", "EBUSY")
        with pytest.raises(ib.VerbsError):
            pd.close()
        pd.close()

    def test_posting_fails(self, ib: Any, pair: Any, softrdma_faults: Any) -> None:
        a, b = pair
        softrdma_faults.fail_call("post_send", "ENOMEM")
        with pytest.raises(ib.VerbsError) as caught:
            a.qp.post_send(a.write_wr(b))
        assert caught.value.errno == errno.ENOMEM

    def test_memory_is_limited(self, ib: Any, pd: Any, softrdma_faults: Any) -> None:
        buf = Buffer(4 * mmap.PAGESIZE)
        softrdma_faults.add("memlock", limit=3 * mmap.PAGESIZE)
        kept = pd.reg_mr(buf.addr, 2 * mmap.PAGESIZE, 1)
        with pytest.raises(ib.VerbsError) as caught:
            pd.reg_mr(buf.addr, 2 * mmap.PAGESIZE, 1)
        assert caught.value.errno == errno.ENOMEM
        pd.reg_mr(buf.addr, mmap.PAGESIZE, 1).close()
        kept.close()
        pd.reg_mr(buf.addr, 3 * mmap.PAGESIZE, 1).close()
        softrdma_faults.clear()
        pd.reg_mr(buf.addr, 4 * mmap.PAGESIZE, 1).close()


class TestNics:
    def test_a_link_comes_up_again_by_itself(self, ctx: Any, node: Node, softrdma_faults: Any) -> None:
        softrdma_faults.link_down(node.name, for_=0.02)
        assert ctx.query_port(1).state == 1
        assert next_event(ctx).event_type == PORT_ERR
        event = next_event(ctx)
        assert event.event_type == PORT_ACTIVE and event.port_num == 1
        assert ctx.query_port(1).state == 4

    def test_a_link_goes_down_at_a_request(self, pair: Any, node: Node, softrdma_faults: Any) -> None:
        a, b = pair
        softrdma_faults.add("link", state="down", device=node.name, op="rdma_write", nth=2)
        a.do(a.write_wr(b))
        a.qp.post_send(a.write_wr(b))
        assert next_event(a.ctx).event_type == PORT_ERR
        assert poll_for(a.send_cq, 1)[0].status == RETRY_EXC

    def test_files_show_a_link_that_is_down(self, node: Node, softrdma_faults: Any) -> None:
        softrdma_faults.link_down(node.name)
        with open(f"{node.sysfs}/ports/1/state", encoding="ascii") as state:
            assert state.read() == "1: DOWN\n"
        softrdma_faults.link_up(node.name)
        with open(f"{node.sysfs}/ports/1/state", encoding="ascii") as state:
            assert state.read() == "4: ACTIVE\n"

    def test_an_address_moves_to_another_index(self, ib: Any, ctx: Any, node: Node, softrdma_faults: Any) -> None:
        softrdma_faults.set_gid(node.name, node.gid_index, None)
        assert next_event(ctx).event_type == GID_CHANGE
        assert not any(bytes(ctx.query_gid(1, node.gid_index)))
        softrdma_faults.set_gid(node.name, 5, node.gid)
        event = next_event(ctx)
        assert event.event_type == GID_CHANGE and event.port_num == 1
        assert bytes(ctx.query_gid(1, 5)) == node.gid

    def test_a_connection_dies_with_its_address(self, pair: Any, node: Node, softrdma_faults: Any) -> None:
        a, b = pair
        a.do(a.write_wr(b))
        softrdma_faults.set_gid(node.name, node.gid_index, "10.99.0.77")
        a.qp.post_send(a.write_wr(b))
        assert poll_for(a.send_cq, 1)[0].status == RETRY_EXC

    def test_a_nic_that_breaks_says_so_and_answers_eio(self, ib: Any, pair: Any, softrdma_faults: Any) -> None:
        a, b = pair
        b.post_recv(wr_id=9)
        softrdma_faults.add("fatal")
        event = next_event(a.ctx)
        assert event.event_type == DEVICE_FATAL
        assert poll_for(b.recv_cq, 1)[0].status == WR_FLUSH
        for call in (a.ctx.query_device, a.ctx.alloc_pd, lambda: a.qp.post_send(a.write_wr(b))):
            with pytest.raises(ib.VerbsError) as caught:
                call()
            assert caught.value.errno == errno.EIO
        softrdma_faults.reset()
        assert a.ctx.query_port(1).state == 4 and a.qp.state == ERR

    @own_process
    def test_a_nic_that_is_pulled_out_is_gone_and_wakes_who_waits(
        self, ib: Any, make: Make, node: Node, softrdma_faults: Any
    ) -> None:
        a = make(with_channel=True)
        softrdma_faults.add("remove", device=node.name)
        assert node.name not in [device.name for device in ib.get_device_list()]
        assert next_event(a.ctx).event_type == DEVICE_FATAL
        with pytest.raises(ib.VerbsError):
            a.channel.get_cq_event(timeout=seconds(5))
        with pytest.raises(ib.VerbsError):
            a.ctx.query_port(1)
        a.close()
        with pytest.raises(ib.VerbsError) as caught:
            node.open()
        assert caught.value.errno == errno.ENODEV
        softrdma_faults.reset()
        with node.open() as ctx:
            assert ctx.query_port(1).state == 4


class TestControl:
    def test_what_is_not_understood_is_said_and_changes_nothing(self, softrdma_faults: Any) -> None:
        for text, word in [
            ("bogus", "bogus"),
            ("completion", "status"),
            ("completion:status=SUCCESS", "SUCCESS"),
            ("errno:call=fly,errno=EIO", "fly"),
            ("link:state=sideways", "sideways"),
            ("drop:colour=red", "colour"),
            ("drop:probability=2", "probability"),
            ("drop;drop:nth=0", "nth"),
            ("gid:index=99,gid=none", "index"),
        ]:
            with pytest.raises(ValueError, match=word):
                softrdma_faults.add(text)
        assert softrdma_faults.rules() == []

    def test_rules_are_many_and_old_ones_make_room(self, node: Node, softrdma_faults: Any) -> None:
        for _ in range(100):
            softrdma_faults.link_down(node.name)
            softrdma_faults.link_up(node.name)
        softrdma_faults.clear()
        for _ in range(64):
            softrdma_faults.add("drop", times=0)
        with pytest.raises(ValueError, match="64"):
            softrdma_faults.add("drop", times=0)

    def other(self, program: str, **env: str) -> subprocess.Popen[str]:
        """Another process of this fabric; it says "ready" when it is, and ends when its input does."""
        return subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env={**os.environ, **env},
        )

    def test_a_program_that_runs_is_reached_from_outside(self, place: Place, softrdma_faults: Any) -> None:
        from softrdma import faults

        child = self.other(
            """
            import ibverbs, sys
            ctx = ibverbs.get_device_list()[0].open()
            print("ready", flush=True)
            print(ctx.get_async_event(timeout=20).event_type, flush=True)
            sys.stdin.read()
            """
        )
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        with faults.attach(pid=child.pid) as theirs:
            theirs.link_down()
            assert child.stdout.readline() == f"{PORT_ERR}\n"
            theirs.add("die")
            assert child.wait(seconds(5)) == -signal.SIGKILL
            with pytest.raises(ProcessLookupError):
                faults.attach(pid=child.pid)
        for pipe in (child.stdin, child.stdout, child.stderr):
            assert pipe is not None
            pipe.close()

    def test_the_environment_says_what_goes_wrong_and_the_seed_is_printed(self, softrdma_faults: Any) -> None:
        child = self.other(
            """
            import errno, ibverbs
            ctx = ibverbs.get_device_list()[0].open()
            try:
                ctx.alloc_pd()
            except ibverbs.VerbsError as error:
                print(errno.errorcode[error.errno])
            """,
            SOFTRDMA_FAULTS="seed=99; errno:call=alloc_pd,errno=ENOSPC; drop:probability=0.5",
        )
        out, err = child.communicate(timeout=seconds(20))
        assert out == "ENOSPC\n" and "99" in err

    def test_an_environment_that_is_not_understood_ends_the_program(self, softrdma_faults: Any) -> None:
        child = self.other("print('ran')", SOFTRDMA_FAULTS="drop:often=yes")
        out, err = child.communicate(timeout=seconds(20))
        assert child.returncode == 2 and out == "" and "often" in err


class TestWhatIsShown:
    """docs/faults.md and the example are tests themselves."""

    def pytest(self, file: Path) -> None:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "softrdma._plugin", "-c", os.devnull, str(file)]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds(60), check=False,
            cwd=file.parent,
        )  # fmt: skip
        assert done.returncode == 0 and "passed" in done.stdout, done.stdout

    def test_the_page_runs(self, place: Place, softrdma_faults: Any, tmp_path: Path) -> None:
        page = (ROOT / "docs" / "faults.md").read_text()
        blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        (tmp_path / "test_page.py").write_text("\n".join(blocks))
        self.pytest(tmp_path / "test_page.py")

    def test_the_example_runs(self, place: Place, softrdma_faults: Any) -> None:
        self.pytest(ROOT / "examples" / "test_error_paths.py")
