# SPDX-License-Identifier: BSD-3-Clause
"""Threads: close() while others post, poll, ask or wait. Calls end whole or with EBADF, close() waits for short calls
and wakes long ones, and nobody's handle is freed under him (the stub aborts the process if it is).

Rounds come from RDMA_TEST_RACES (default 10000) and stop early when RDMA_TEST_RACE_SECONDS (default 1) are over.
"""

from __future__ import annotations

import errno
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, Callable

import pytest
from packages import error_of, some_ah
from stub_fixtures import UD, Rig, wait_until

pytestmark = pytest.mark.needs("stub")

RACES = int(os.environ.get("RDMA_TEST_RACES", "10000"))
SECONDS = float(os.environ.get("RDMA_TEST_RACE_SECONDS", "1"))


@pytest.fixture
def quick_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


class Worker(threading.Thread):
    """Does the same thing over and over on whatever is in the box, and takes EBADF for an answer."""

    def __init__(self, ib: Any, act: Callable[[Any], Any]) -> None:
        super().__init__(daemon=True)
        self.ib, self.act = ib, act
        self.box: Any = None
        self.done = self.refused = 0
        self.failure: Any = None
        self.stop = False

    def run(self) -> None:
        while not self.stop:
            handle = self.box
            if handle is None:
                time.sleep(0)
                continue
            try:
                self.act(handle)
                self.done += 1
            except error_of(self.ib) as error:
                if error.errno != errno.EBADF:
                    self.failure = error
                    return
                self.refused += 1
                if self.box is handle:
                    self.box = None
            except BaseException as error:
                self.failure = error
                return


def race(rig: Rig, make: Callable[[], Any], *acts: Callable[[Any], Any]) -> list[Worker]:
    """Closes object after object under workers that use it."""
    workers = [Worker(rig.ib, act) for act in acts]
    for w in workers:
        w.start()
    rng = random.Random(1)
    deadline = time.monotonic() + SECONDS
    rounds = 0
    while rounds < RACES and time.monotonic() < deadline and not any(w.failure for w in workers):
        handle = make()
        for w in workers:
            w.box = handle
        for _ in range(rng.randrange(3)):
            time.sleep(0)
        handle.close()
        assert handle.closed
        rounds += 1
    for w in workers:
        w.stop = True
    for w in workers:
        w.join(30)
        assert not w.is_alive()
        assert w.failure is None, repr(w.failure)
    assert rounds > 10
    return workers


def test_close_while_others_post(rig: Rig, quick_switches: None) -> None:
    send, receive = rig.wr(), rig.ib.RecvWR(1, [rig.mr.sge(8)])

    def post(qp: Any) -> None:
        try:
            qp.post_send([send] * 3)
            qp.post_recv(receive)
        except rig.Error as error:
            if error.errno != errno.ENOMEM:  # the CQ is full until somebody polls
                raise
            rig.cq.poll(4096)

    def post_many(qp: Any) -> None:
        try:
            qp.post_send([send] * 200)
        except rig.Error as error:
            if error.errno != errno.ENOMEM:
                raise
            rig.cq.poll(4096)

    rig.stub.set_lenient()
    state = rig.ib.QPAttrMask.STATE

    def make() -> Any:
        qp = rig.pd.create_qp(rig.ib.QPInitAttr(rig.cq, rig.cq, max_send_wr=512))
        qp.modify(state, qp_state=3)
        return qp

    workers = race(rig, make, post, post_many)
    assert all(w.done or w.refused for w in workers)
    rig.drain()


def test_close_while_others_poll(rig: Rig, quick_switches: None) -> None:
    channel = rig.keep(rig.ctx.create_comp_channel())

    def make() -> Any:
        cq = rig.ctx.create_cq(64, channel)
        for i in range(8):
            rig.stub.push_wc(cq, wr_id=i)
        return cq

    race(rig, make, lambda cq: cq.poll(4), lambda cq: (cq.poll(100), cq.req_notify()), lambda cq: cq.wait(4))


def test_close_while_others_ask_without_the_gil(rig: Rig, quick_switches: None) -> None:
    def make() -> Any:
        return rig.make_qp(None, 0)

    race(rig, make, lambda qp: qp.query(), lambda qp: qp.state)


def test_close_while_others_register(rig: Rig, quick_switches: None) -> None:
    """A parent closes, or refuses because of a child that came in between; never both, never neither."""
    made: list[Any] = []
    pds = 0
    stop = threading.Event()
    box: list[Any] = [None]
    failures: list[Any] = []

    def register() -> None:
        while not stop.is_set():
            pd = box[0]
            if pd is None:
                time.sleep(0)
                continue
            try:
                mr = pd.reg_mr(0x1000, 64, 1)
                if pd.closed:
                    failures.append("a child of a closed parent")
                mr.close()
            except rig.Error as error:
                if error.errno != errno.EBADF:
                    failures.append(error)

    threads = [threading.Thread(target=register, daemon=True) for _ in range(2)]
    for t in threads:
        t.start()
    deadline = time.monotonic() + SECONDS
    while pds < RACES and time.monotonic() < deadline and not failures:
        box[0] = pd = rig.ctx.alloc_pd()
        time.sleep(0)
        while not pd.closed:
            try:
                pd.close()
            except rig.Error as error:
                assert error.errno == errno.EBUSY
        pds += 1
    stop.set()
    for t in threads:
        t.join(30)
    assert not failures and not made and pds > 10


def test_a_wait_is_woken_by_close_with_ebadf_every_time(rig: Rig, quick_switches: None) -> None:
    channels: queue.SimpleQueue[Any] = queue.SimpleQueue()
    results: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def wait() -> None:
        for channel in iter(channels.get, None):
            try:
                results.put(channel.get_cq_event(timeout=60))
            except rig.Error as error:
                results.put(error)

    waiters = [threading.Thread(target=wait, daemon=True) for _ in range(2)]
    for t in waiters:
        t.start()
    rng = random.Random(2)
    deadline = time.monotonic() + SECONDS
    rounds = 0
    while rounds < RACES and time.monotonic() < deadline:
        channel = rig.ctx.create_comp_channel()
        for _ in waiters:
            channels.put(channel)
        for _ in range(rng.randrange(4)):
            time.sleep(0)
        if rng.random() < 0.2:
            time.sleep(0.0005)
        channel.close()
        for _ in waiters:
            result = results.get(timeout=30)
            assert isinstance(result, rig.Error) and result.errno == errno.EBADF, result
            assert "get_cq_event" in str(result) and "CompChannel" in str(result)
        rounds += 1
    for _ in waiters:
        channels.put(None)
    for t in waiters:
        t.join(30)
    assert rounds > 10


def test_an_async_wait_is_woken_by_close(rig: Rig) -> None:
    for _ in range(20):
        ctx = rig.open()
        seen: list[Any] = []

        def wait(ctx: Any = ctx, seen: list[Any] = seen) -> None:
            try:
                seen.append(ctx.get_async_event())
            except rig.Error as error:
                seen.append(error)

        waiters = [threading.Thread(target=wait, daemon=True) for _ in range(3)]
        for t in waiters:
            t.start()
        time.sleep(0.002)
        ctx.close()
        for t in waiters:
            t.join(30)
        assert [e.errno for e in seen] == [errno.EBADF] * 3


def test_each_event_wakes_one_of_two_waiters_and_none_is_lost(rig: Rig) -> None:
    channel = rig.keep(rig.ctx.create_comp_channel())
    cq = rig.keep(rig.ctx.create_cq(16, channel))
    count = 400
    got: list[Any] = []

    def wait() -> None:
        while len(got) < count:
            event = channel.get_cq_event(timeout=0.05)
            if event is not None:
                got.append(event)
                cq.ack_events()

    waiters = [threading.Thread(target=wait, daemon=True) for _ in range(2)]
    for t in waiters:
        t.start()
    for _ in range(count):
        rig.stub.push_cq_event(cq)
    for t in waiters:
        t.join(30)
        assert not t.is_alive()
    assert len(got) == count and all(e is cq for e in got)
    with pytest.raises(ValueError):
        cq.ack_events()


#: A call that gives up the GIL: the verb it ends in, and the object that close() is tried on.
SHORT_CALLS: dict[str, tuple[str, Callable[[Rig], Any], Callable[[Rig, Any], Any]]] = {
    "query_port": ("context", lambda r: r.open(), lambda r, h: h.query_port(1)),
    "query_gid": ("context", lambda r: r.open(), lambda r, h: h.query_gid(1, 0)),
    "modify_qp": ("qp", lambda r: r.make_qp(None, 0), lambda r, h: h.modify(1, qp_state=6)),
    "query_qp": ("qp", lambda r: r.make_qp(UD, 0), lambda r, h: h.query()),
    "query_srq": ("srq", lambda r: r.pd.create_srq(), lambda r, h: h.query()),
    "modify_srq": ("srq", lambda r: r.pd.create_srq(), lambda r, h: h.modify(srq_limit=1)),
}


@pytest.mark.parametrize("verb", SHORT_CALLS)
def test_close_waits_for_a_short_call_of_another_thread(rig: Rig, verb: str) -> None:
    if rig.efa and "srq" in verb:
        pytest.skip("needs a package with shared receive queues")
    _, make, act = SHORT_CALLS[verb]
    handle = make(rig)
    results: dict[str, Any] = {}

    def run(name: str, do: Callable[[], Any]) -> threading.Thread:
        def body() -> None:
            try:
                results[name] = do()
            except BaseException as error:
                results[name] = error

        thread = threading.Thread(target=body, daemon=True)
        thread.start()
        return thread

    rig.stub.close_gate(verb)
    try:
        calling = run("call", lambda: act(rig, handle))
        wait_until(lambda: rig.stub.inside(verb) == 1, "the call is inside")
        closing = run("close", handle.close)
        time.sleep(0.02)
        assert "close" not in results, "close() did not wait"
        # While it waits, the object takes no new calls.
        with pytest.raises(rig.Error) as caught:
            act(rig, handle)
        assert caught.value.errno == errno.EBADF
    finally:
        rig.stub.open_gate(verb)
    calling.join(30)
    closing.join(30)
    assert not isinstance(results["call"], BaseException), results
    assert results["close"] is None and handle.closed


MAKING_CALLS: dict[str, tuple[Callable[[Rig], Any], Callable[[Rig, Any], Any]]] = {
    "alloc_pd": (lambda r: r.open(), lambda r, h: h.alloc_pd()),
    "create_cq": (lambda r: r.open(), lambda r, h: h.create_cq(4)),
    "create_comp_channel": (lambda r: r.open(), lambda r, h: h.create_comp_channel()),
    "reg_mr_iova2": (lambda r: r.ctx.alloc_pd(), lambda r, h: h.reg_mr(0x1000, 8, 1)),
    "create_srq": (lambda r: r.ctx.alloc_pd(), lambda r, h: h.create_srq()),
    "create_ah": (lambda r: r.ctx.alloc_pd(), lambda r, h: some_ah(r.ib, h)),
    "create_qp": (lambda r: r.ctx.create_cq(4), lambda r, h: r.pd.create_qp(r.ib.QPInitAttr(h, h))),
}


@pytest.mark.parametrize("verb", MAKING_CALLS)
def test_close_of_a_parent_while_a_child_is_being_made(rig: Rig, verb: str) -> None:
    if rig.efa and "srq" in verb:
        pytest.skip("needs a package with shared receive queues")
    make, act = MAKING_CALLS[verb]
    verb = rig.verb_of_qp if verb == "create_qp" else verb
    parent = make(rig)
    results: dict[str, Any] = {}

    def body(name: str, do: Callable[[], Any]) -> None:
        try:
            results[name] = do()
        except BaseException as error:
            results[name] = error

    rig.stub.close_gate(verb)
    calling = threading.Thread(target=body, args=("call", lambda: act(rig, parent)), daemon=True)
    closing = threading.Thread(target=body, args=("close", parent.close), daemon=True)
    calling.start()
    wait_until(lambda: rig.stub.inside(verb) == 1, "the call is inside")
    closing.start()
    time.sleep(0.02)
    rig.stub.open_gate(verb)
    calling.join(30)
    closing.join(30)
    made, closed = results["call"], results["close"]
    if isinstance(made, rig.Error):
        assert made.errno == errno.EBADF and closed is None and parent.closed
    else:
        assert isinstance(closed, rig.Error) and closed.errno == errno.EBUSY and not parent.closed
        made.close()
        parent.close()


@pytest.mark.parametrize("verb", ["destroy_qp", "dereg_mr", "destroy_cq", "dealloc_pd", "close_device"])
def test_two_threads_closing_one_object_destroy_it_once(rig: Rig, verb: str) -> None:
    make: dict[str, Callable[[], Any]] = {
        "destroy_qp": rig.make_qp,
        "dereg_mr": lambda: rig.pd.reg_mr(0x1000, 8, 1),
        "destroy_cq": lambda: rig.ctx.create_cq(4),
        "dealloc_pd": rig.ctx.alloc_pd,
        "close_device": lambda: rig.open(),
    }
    handle = make[verb]()
    before = rig.stub.calls(verb)
    failures: list[Any] = []

    def close() -> None:
        try:
            handle.close()
        except BaseException as error:
            failures.append(error)

    rig.stub.delay(verb, 0.02)
    threads = [threading.Thread(target=close) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(30)
    assert handle.closed and not failures
    assert rig.stub.calls(verb) == before + 1


def test_a_slow_call_leaves_the_interpreter_to_others(rig: Rig) -> None:
    verbs: dict[str, Callable[[], Any]] = {
        "query_port": lambda: rig.ctx.query_port(1),
        "alloc_pd": lambda: rig.ctx.alloc_pd().close(),
        "dealloc_pd": lambda: rig.ctx.alloc_pd().close(),
        "reg_mr_iova2": lambda: rig.pd.reg_mr(0x1000, 8, 1).close(),
        "dereg_mr": lambda: rig.pd.reg_mr(0x1000, 8, 1).close(),
        "create_cq": lambda: rig.ctx.create_cq(4).close(),
        "destroy_cq": lambda: rig.ctx.create_cq(4).close(),
        rig.verb_of_qp: lambda: rig.make_qp(None, 0).close(),
        "modify_qp": lambda: rig.make_qp().close(),
        "query_qp": lambda: rig.make_qp(None, 0).query(),
        "destroy_qp": lambda: rig.make_qp(None, 0).close(),
        "create_ah": lambda: rig.make_ah().close(),
        "open_device": lambda: rig.open().close(),
        "close_device": lambda: rig.open().close(),
        "get_device_list": lambda: rig.ib.get_device_list(),
    }
    for verb, act in verbs.items():
        rig.stub.close_gate(verb)
        thread = threading.Thread(target=act, daemon=True)
        thread.start()
        # This line runs at all only if the call gave up the GIL.
        wait_until(lambda verb=verb: rig.stub.inside(verb) == 1, f"{verb} is inside")  # type: ignore[misc]
        rig.stub.open_gate(verb)
        thread.join(30)
        assert not thread.is_alive(), verb


def test_memory_that_a_long_post_reads_is_not_freed_under_it(rig: Rig) -> None:
    """Inline data is read while the requests are posted: no other thread may close its region meanwhile."""
    inside: list[int] = []

    class Owner:
        def __del__(self) -> None:
            inside.append(rig.stub.inside(rig.post_verb))

    qp = rig.qp(max_inline_data=32)
    mr = rig.pd.reg_mr(0x1000, 64, 1, Owner())
    flags = rig.ib.SendFlags.INLINE | rig.ib.SendFlags.SIGNALED
    requests = [rig.wr(0, sg_list=[])] * 300 + [rig.wr(1, sg_list=[mr.sge(0)], send_flags=flags)]

    def close() -> None:
        time.sleep(0.05)
        mr.close()

    rig.stub.delay(rig.post_verb, 0.3)
    thread = threading.Thread(target=close)
    thread.start()
    qp.post_send(requests)
    thread.join(30)
    assert inside == [0]


def test_a_dropped_object_does_not_hold_up_the_interpreter_either(rig: Rig) -> None:
    mr: Any = rig.pd.reg_mr(0x1000, 8, 1)
    rig.stub.close_gate("dereg_mr")
    box = [mr]
    del mr
    thread = threading.Thread(target=box.clear, daemon=True)
    thread.start()
    wait_until(lambda: rig.stub.inside("dereg_mr") == 1, "the finalizer is inside")
    rig.stub.open_gate("dereg_mr")
    thread.join(30)


@pytest.mark.parametrize("timeout", [0, 0.05])
@pytest.mark.parametrize("source", ["channel", "device"])
def test_a_wait_keeps_its_time_while_a_destroy_takes_long(rig: Rig, source: str, timeout: float) -> None:
    """Reading an event and destroying what it may be about exclude each other, and 0 never blocks."""
    channel = rig.keep(rig.ctx.create_comp_channel())
    cq = rig.ctx.create_cq(16, channel)
    wait = channel.get_cq_event if source == "channel" else rig.ctx.get_async_event
    rig.stub.close_gate("destroy_cq")
    thread = threading.Thread(target=cq.close, daemon=True)
    thread.start()
    wait_until(lambda: rig.stub.inside("destroy_cq") == 1, "close is inside")
    opener = threading.Timer(5, rig.stub.open_gate, ["destroy_cq"])  # what waits for the destroy comes back then
    opener.start()
    began = time.monotonic()
    assert wait(timeout=timeout) is None
    took = time.monotonic() - began
    opener.cancel()
    rig.stub.open_gate("destroy_cq")
    thread.join(30)
    assert timeout <= took < timeout + 2


def test_an_event_that_came_while_a_destroy_took_long_is_read_after_it(rig: Rig) -> None:
    channel = rig.keep(rig.ctx.create_comp_channel())
    cq, other = rig.ctx.create_cq(16, channel), rig.keep(rig.ctx.create_cq(16, channel))
    rig.stub.close_gate("destroy_cq")
    thread = threading.Thread(target=cq.close, daemon=True)
    thread.start()
    wait_until(lambda: rig.stub.inside("destroy_cq") == 1, "close is inside")
    rig.stub.push_cq_event(other)
    opener = threading.Timer(0.1, rig.stub.open_gate, ["destroy_cq"])
    opener.start()
    assert channel.get_cq_event(timeout=20) is other
    thread.join(30)
    opener.join()


def test_destroying_while_another_thread_reads_events_never_hangs(rig: Rig, quick_switches: None) -> None:
    """An event that is read and not acknowledged would block the destroy of its CQ or QP for good."""
    channel = rig.keep(rig.ctx.create_comp_channel())
    stop = threading.Event()
    failures: list[Any] = []

    def read_cq_events() -> None:
        while not stop.is_set():
            try:
                channel.get_cq_event(timeout=0.01)
            except BaseException as error:
                failures.append(error)
                return

    def read_async_events() -> None:
        while not stop.is_set():
            try:
                event = rig.ctx.get_async_event(timeout=0.01)
                if event is not None:
                    rig.ctx.ack_async_event(event)
            except BaseException as error:
                failures.append(error)
                return

    threads = [threading.Thread(target=t, daemon=True) for t in (read_cq_events, read_async_events, read_async_events)]
    for t in threads:
        t.start()
    deadline = time.monotonic() + SECONDS
    rounds = 0
    while rounds < RACES and time.monotonic() < deadline and not failures:
        cq = rig.ctx.create_cq(16, channel)
        qp = rig.pd.create_qp(rig.ib.QPInitAttr(cq, cq))
        for _ in range(3):
            rig.stub.push_cq_event(cq)
            rig.stub.raise_event(rig.ctx, 1, qp)
            rig.stub.raise_event(rig.ctx, 0, cq)
        if rounds % 2:
            qp.close()
            cq.close()
        del qp, cq
        rounds += 1
    stop.set()
    for t in threads:
        t.join(30)
        assert not t.is_alive()
    assert not failures and rounds > 10


def alone(code: str, timeout: float = 60) -> str:
    """Runs code in an interpreter of its own: a hang is a failure here, not the end of the run."""
    prelude = f"import sys; sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})\n"
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", prelude + code],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


SIGNALS = """
import errno, signal, threading, time, {package} as ib
from packages import error_of, open_device
from stub_control import Stub
stub = Stub()
ctx = open_device(ib)
channel = ctx.create_comp_channel()
cq = ctx.create_cq(4, channel)
"""


def test_a_signal_handler_runs_during_a_wait_and_the_wait_goes_on(ib: Any, stub: Any) -> None:
    alone(
        SIGNALS.format(package=ib.__name__)
        + """
count = 0
def handler(*_):
    global count
    count += 1
    if count == 5:
        stub.push_cq_event(cq)
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
assert channel.get_cq_event(timeout=30) is cq
signal.setitimer(signal.ITIMER_REAL, 0)
assert count >= 5
"""
    )


def test_an_exception_of_a_signal_handler_ends_the_wait(ib: Any, stub: Any) -> None:
    alone(
        SIGNALS.format(package=ib.__name__)
        + """
def handler(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, handler)
for wait in (channel.get_cq_event, ctx.get_async_event):
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    try:
        wait()
    except KeyboardInterrupt:
        pass
    else:
        raise SystemExit("not interrupted")
stub.push_cq_event(cq)
assert channel.get_cq_event(timeout=5) is cq
"""
    )


def test_a_signal_handler_may_close_what_is_waited_on(ib: Any, stub: Any) -> None:
    alone(
        SIGNALS.format(package=ib.__name__)
        + """
def handler(*_):
    try:
        channel.close()
    except error_of(ib) as error:
        assert error.errno in (errno.EBUSY, errno.EDEADLK), error
        raise TimeoutError
signal.signal(signal.SIGALRM, handler)
cq.close()
signal.setitimer(signal.ITIMER_REAL, 0.02)
try:
    channel.get_cq_event()
except error_of(ib) as error:
    assert error.errno == errno.EBADF and channel.closed
except TimeoutError:
    assert not channel.closed
    channel.close()
else:
    raise SystemExit("it returned")
"""
    )


def test_a_timeout_is_kept_although_signals_come(ib: Any, stub: Any) -> None:
    alone(
        SIGNALS.format(package=ib.__name__)
        + """
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
start = time.monotonic()
assert channel.get_cq_event(timeout=0.2) is None
signal.setitimer(signal.ITIMER_REAL, 0)
assert 0.15 < time.monotonic() - start < 5
"""
    )


def test_exit_with_a_daemon_thread_in_a_wait_is_quiet(ib: Any, stub: Any) -> None:
    alone(
        SIGNALS.format(package=ib.__name__)
        + """
threading.Thread(target=channel.get_cq_event, daemon=True).start()
threading.Thread(target=ctx.get_async_event, daemon=True).start()
time.sleep(0.05)
"""
    )


def test_sigint_in_the_main_thread_interrupts_a_wait(ib: Any, stub: Any) -> None:
    # Where the tests themselves run in the background of a script, SIGINT is ignored, and children inherit that.
    heed = "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code = SIGNALS.format(package=ib.__name__) + heed + "print('ready', flush=True)\nchannel.get_cq_event()\n"
    prelude = f"import sys; sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})\n"
    process = subprocess.Popen(
        [sys.executable, "-c", prelude + code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in words
