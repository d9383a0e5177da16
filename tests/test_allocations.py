# SPDX-License-Identifier: BSD-3-Clause
"""No memory from the n-th allocation on, and none for good: MemoryError and nothing else, nothing left in the library,
nothing lost. (test_faults.py lets single allocations fail, and every call of the library.)"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Callable

import pytest
from packages import is_efa, open_device
from stub_control import Stub
from stub_fixtures import UD, Rig

pytestmark = pytest.mark.needs("stub")

COMM_EST = 4


def starved(act: Callable[..., Any], allocations: int, *arguments: Any) -> tuple[Any, bool]:
    """What `act` returns where only so many more allocations succeed, and whether that was enough.

    The interpreter's own needs count too, so that `act` is best a method of the package itself.
    """
    testcapi = pytest.importorskip("_testcapi", reason="needs the interpreter's own test module")
    result: Any = None
    enough = False
    testcapi.set_nomemory(allocations, 0)
    try:
        result = act(*arguments)
        enough = True
    except MemoryError:
        pass
    finally:
        testcapi.remove_mem_hooks()
    return result, enough


@pytest.mark.parametrize("status", [0, 10])
@pytest.mark.parametrize("asked", [1, 8, 50, 64, 65, 300])
def test_completions_that_could_not_be_delivered_come_with_the_next_poll(rig: Rig, asked: int, status: int) -> None:
    waiting = 200
    expected = [(n, n * 3) for n in range(waiting)]
    poll = rig.cq.poll
    for allocations in [*range(20), *range(20, 330, 7)]:
        for n in range(waiting):
            rig.stub.push_wc(rig.cq, wr_id=n, status=status, wc_flags=2, imm=n * 3)
        got = list(starved(poll, allocations, asked)[0] or [])
        assert len(got) <= asked
        got += rig.drain()
        assert [(wc.wr_id, wc.imm_data) for wc in got] == expected, f"with {allocations} allocations"


def test_an_asynchronous_event_that_could_not_be_delivered_comes_with_the_next_call(rig: Rig) -> None:
    qp = rig.qp()
    get = rig.ctx.get_async_event
    failures = 0
    for allocations in (0, 0, 0, 1, 2, 8):  # a first call may need more than the event
        rig.stub.raise_event(rig.ctx, COMM_EST, qp)
        event, enough = starved(get, allocations, 0)
        failures += not enough
        event = event or get(timeout=0)
        assert event is not None and event.qp is qp
        assert get(timeout=0) is None
        assert rig.stub.unacked == 0
    assert 1 <= failures < 6


def test_a_completion_event_that_could_not_be_delivered_comes_with_the_next_call(rig: Rig) -> None:
    channel = rig.keep(rig.ctx.create_comp_channel())
    cq = rig.keep(rig.ctx.create_cq(8, channel))
    get = channel.get_cq_event
    for allocations in range(6):
        rig.stub.push_cq_event(cq)
        assert (starved(get, allocations, 0)[0] or get(timeout=0)) is cq
        assert get(timeout=0) is None
        cq.ack_events()


def test_a_post_without_memory_posts_everything_or_nothing(rig: Rig) -> None:
    qp, ud = rig.qp(), rig.qp(UD)
    send, to = rig.wr(), rig.wr(ah=rig.ah())
    receive = rig.ib.RecvWR(1, [rig.mr.sge(8)])
    # What is posted is made while there is memory: a generator expression without any brings CPython down
    # (3.12 and 3.13).
    posts: list[tuple[Callable[[Any], None], Callable[[], Any], int]] = [
        (qp.post_send, lambda: send, 1),
        (qp.post_send, lambda: [send] * 300, 300),
        (qp.post_send, lambda: (x for x in (send,) * 40), 40),
        (ud.post_send, lambda: (to, to, to), 3),
        (qp.post_recv, lambda: [receive] * 300, 300),
    ]
    for post, requests, completions in posts:
        for allocations in range(100):
            enough = starved(post, allocations, requests())[1]
            assert len(rig.drain()) == (completions if enough else 0)
            if enough:
                break
        else:
            pytest.fail("never enough")


def test_a_refused_post_without_memory_is_a_memory_error_or_the_refusal(rig: Rig) -> None:
    qp, send = rig.qp(), rig.wr()
    posted = 0 if rig.efa else 1
    for allocations in range(100):
        rig.stub.refuse(rig.post_verb, after=1)
        try:
            assert not starved(lambda: qp.post_send([send] * 3), allocations)[1]
        except rig.Error as error:
            assert error.posted in (posted, None) and allocations > 1
            if error.posted == posted and (rig.efa or error.index == 1) and error.__context__ is None:
                rig.drain()
                return
        rig.stub.reset()
        rig.drain()
    pytest.fail("the refusal never came through")


def build_efa(ib: Any) -> None:
    ctx = open_device(ib)
    ctx.query_device()
    ctx.query_efa_device()
    port, gid = ctx.query_port(), ctx.query_gid()
    pd = ctx.alloc_pd()
    mr = pd.reg_mr(0x10000, 64, 1)
    channel = ctx.create_comp_channel()
    cq, cq_ex = ctx.create_cq(8, channel), ctx.create_cq_ex(8, channel, sgid=True)
    qp = pd.create_qp(ib.QPInitAttr(cq, cq_ex)).prepare(1)
    qp.query()
    ah = pd.create_ah(gid)
    # Nothing written in Python: CPython itself may lose the arguments of a function whose frame finds no memory.
    qp.post_send(ib.SendWR(1, [mr.sge(8)], 2, 2, ah=ah, remote_qpn=1, remote_qkey=1))
    cq.poll(4)
    repr([ctx, pd, mr, cq, cq_ex, qp, port, gid, ah, mr.sge()])
    for handle in (ah, qp, cq_ex):
        handle.close()


def build(ib: Any) -> None:
    """Makes one of everything, asks it everything, and drops it."""
    if is_efa(ib):
        build_efa(ib)
        return
    ctx = open_device(ib)
    ctx.query_device()
    port, gid = ctx.query_port(1), ctx.query_gid(1, 0)
    repr(ctx.query_gid_table(1))
    repr(ib.WC(status=5, first_error=ib.WC(status=10)))
    pd = ctx.alloc_pd()
    mr = ib.reg_tensor(pd, bytearray(64), 1)
    cq = ctx.create_cq(8, ctx.create_comp_channel())
    srq = pd.create_srq(max_wr=16, srq_limit=3)
    srq.query()
    qp = pd.create_qp(ib.QPInitAttr(cq, cq, srq=srq))
    ib.connect_rc(qp, ib.local_qp_info(qp, port, gid, port=1), port=1, sgid_index=0, access=1)
    qp.query()
    ah = pd.create_ah(ib.AHAttr(dgid=gid))
    ib.SendWR(1, [mr.sge(8)], 2, 2)
    repr([ctx, pd, mr, cq, srq, qp, port, gid, ah, mr.sge()])
    for handle in (ah, qp, srq):
        handle.close()


def clear_kept_frames() -> None:
    """Lets go of what the frames of old exceptions hold.

    Where there is no memory for one, the interpreter raises a MemoryError that it keeps for that, and with it the
    frames that it went through; and pytest keeps one that nobody could catch until the test is over.
    """
    for kept in gc.get_objects():
        frame = kept.tb_frame if isinstance(kept, TracebackType) else None
        while frame is not None:
            with contextlib.suppress(RuntimeError):  # it is running
                frame.clear()
            frame = frame.f_back


def check_nothing_left(stub: Stub, what: str) -> None:
    clear_kept_frames()  # whose loop would itself keep the last object that it looked at
    gc.collect()
    assert stub.live_objects() == {}, what
    assert stub.violations == 0, what


def test_a_construction_without_memory_leaves_nothing(ib: Any, stub: Stub) -> None:
    build(ib)
    check_nothing_left(stub, "with all memory")
    for allocations in range(3000):
        enough = starved(lambda: build(ib), allocations)[1]
        check_nothing_left(stub, f"with {allocations} allocations")
        if enough:
            break
    else:
        pytest.fail("never enough")
    assert allocations > 30


@pytest.fixture
def collector_callback() -> Iterator[None]:
    """The collector calls a function, as it does where somebody measures it, which may find no memory either."""

    def callback(phase: str, info: dict[str, int]) -> None:
        str(info)

    gc.callbacks.append(callback)
    yield
    gc.callbacks.remove(callback)


@pytest.mark.parametrize("collector", ["as usual", "always"])
@pytest.mark.parametrize("length", [2, 5])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_failures_in_a_row_leave_nothing(
    ib: Any, stub: Stub, length: int, collector: str, collector_callback: None
) -> None:
    """The second allocation fails in what the first one's failure had to undo, or in the raising of it."""
    testcapi = pytest.importorskip("_testcapi", reason="needs the interpreter's own test module")
    usual = gc.get_threshold()
    build(ib)
    for first in range(0, 200):
        if collector == "always":
            gc.set_threshold(1, 1, 1)
        try:
            testcapi.set_nomemory(first, first + length)
            build(ib)
        except MemoryError:
            pass
        finally:
            testcapi.remove_mem_hooks()
            gc.set_threshold(*usual)
        check_nothing_left(stub, f"without allocations {first} to {first + length}")
