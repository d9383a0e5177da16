# SPDX-License-Identifier: BSD-3-Clause
"""fork(): in the child, what was made before raises and frees nothing; new objects work; the parent does not notice."""

from __future__ import annotations

import asyncio
import errno
import gc
import importlib
import json
import os
import subprocess
import sys
import traceback
from typing import Any, Callable

import pytest
from packages import error_of, open_device, some_ah
from stub_fixtures import Rig

pytestmark = pytest.mark.needs("stub")


def in_child(body: Callable[[], Any]) -> Any:
    """Runs `body` in a forked child and returns what it returns; fails with the child's traceback."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        try:
            answer = {"value": body()}
        except BaseException:
            answer = {"error": traceback.format_exc()}
        with os.fdopen(writer, "w") as pipe:
            json.dump(answer, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        words = pipe.read()
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"the child ended with status {status:#x}"
    answer = json.loads(words)
    assert "error" not in answer, answer["error"]
    return answer["value"]


def test_objects_of_the_parent_raise_in_the_child(rig: Rig) -> None:
    ib = rig.ib
    qp = rig.qp()
    channel = rig.keep(rig.ctx.create_comp_channel())
    announced = rig.keep(rig.ctx.create_cq(4, channel))
    extension = importlib.import_module(f"{ib.__name__}._extension").extension
    waiter = extension.Waiter(announced)
    srq, ah = None if rig.efa else rig.keep(rig.pd.create_srq()), rig.ah()
    w, r = rig.wr(), ib.RecvWR(1)
    calls: dict[str, Callable[[], Any]] = {
        "poll": lambda: rig.cq.poll(1),
        "req_notify": lambda: rig.cq.req_notify(),
        "post_send": lambda: qp.post_send(w),
        "post_recv": lambda: qp.post_recv(r),
        "query": lambda: qp.query(),
        "state": lambda: qp.state,
        "reg_mr": lambda: rig.pd.reg_mr(0x1000, 8, 1),
        "create_qp": lambda: rig.make_qp(None, 0),
        "create_cq": lambda: rig.ctx.create_cq(4),
        "alloc_pd": lambda: rig.ctx.alloc_pd(),
        "query_port": lambda: rig.ctx.query_port(1),
        "get_cq_event": lambda: channel.get_cq_event(timeout=0),
        "wait": lambda: announced.wait(1),
        "wait_async": lambda: asyncio.run(announced.wait_async(1)),
        "next_cq_event": lambda: asyncio.run(channel.next_cq_event()),
        "next_async_event": lambda: asyncio.run(rig.ctx.next_async_event()),
        "Waiter": lambda: extension.Waiter(announced),
        "arm": lambda: waiter.arm(),
        "get_async_event": lambda: rig.ctx.get_async_event(timeout=0),
        "create_ah": lambda: rig.make_ah(),
        "sge": lambda: rig.mr.sge(),
        "lkey": lambda: rig.mr.lkey,
        "fd": lambda: channel.fd,
        "ptr": lambda: ah.ptr,
    }
    if srq is not None:
        calls["srq.post_recv"] = lambda: srq.post_recv(r)

    def body() -> list[str]:
        wrong = []
        before = rig.stub.calls()
        for name, call in calls.items():
            try:
                call()
                wrong.append(f"{name} worked")
            except error_of(ib) as error:
                if "fork" not in str(error):
                    wrong.append(f"{name}: {error}")
        if rig.stub.calls() != before:
            wrong.append("something reached the library")
        return wrong

    assert in_child(body) == []
    qp.post_send(w)
    assert len(rig.cq.poll(4)) == 1


def test_a_request_that_names_an_object_from_before_the_fork_is_refused(rig: Rig) -> None:
    w = rig.wr()

    def body() -> Any:
        with rig.open() as ctx, ctx.alloc_pd() as pd, ctx.create_cq(4) as cq:
            with pd.create_qp(rig.ib.QPInitAttr(cq, cq)) as qp:
                rig.set_state(qp, 3)
                try:
                    qp.post_send([w])
                except rig.Error as error:
                    return [error.index, rig.stub.calls(rig.post_verb)]
        return None

    assert in_child(body) == [0, 0]


def test_dropping_and_closing_in_the_child_frees_nothing(rig: Rig) -> None:
    ib = rig.ib

    def make() -> dict[str, Any]:
        ctx = open_device(ib)
        pd, cq = ctx.alloc_pd(), ctx.create_cq(4, ctx.create_comp_channel())
        cq.wait(1, 0.001)
        return {
            "waiter": importlib.import_module(f"{ib.__name__}._extension").extension.Waiter(cq),
            "qp": pd.create_qp(ib.QPInitAttr(cq, cq, **({} if rig.efa else {"srq": pd.create_srq()}))),
            "mr": pd.reg_mr(0x1000, 8, 1),
            "ah": some_ah(ib, pd),
        }

    dropped, closed, knotted = make(), make(), make()
    knotted["me"] = knotted

    def body() -> dict[str, int]:
        nonlocal knotted
        verbs = "destroy_qp destroy_ah dereg_mr dealloc_pd destroy_cq destroy_comp_channel destroy_srq close_device"
        before = {verb: rig.stub.calls(verb) for verb in verbs.split()}
        fds = len(os.listdir("/proc/self/fd"))
        for handle in closed.values():
            try:
                handle.close()
            except error_of(ib):
                pass
        closed.clear()
        dropped.clear()
        knotted = {}
        gc.collect()
        changed = {verb: rig.stub.calls(verb) - n for verb, n in before.items() if rig.stub.calls(verb) != n}
        if len(os.listdir("/proc/self/fd")) > fds:
            changed["descriptors"] = len(os.listdir("/proc/self/fd")) - fds
        return changed

    assert in_child(body) == {}
    assert closed["qp"].query()[0]["qp_state"] == 0


def test_a_daemon_that_closed_all_descriptors_loses_no_new_one_to_what_it_inherited(rig: Rig) -> None:
    """Closing everything and opening anew gives the numbers of the parent's descriptors to other files."""
    ctx = rig.open()
    channel = ctx.create_comp_channel()
    cq = ctx.create_cq(4, channel)
    cq.wait(1, 0.001)
    extension = importlib.import_module(f"{rig.ib.__name__}._extension").extension
    handles = [*(extension.Waiter(source) for source in (cq, channel, ctx)), cq, channel, ctx]
    del ctx, channel, cq

    def body() -> list[int]:
        spared = os.dup2(writer, 250)
        os.closerange(3, spared)
        opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(40)]
        for handle in handles:
            handle.close()
        handles.clear()
        gc.collect()
        return [fd for fd in opened if not os.path.exists(f"/proc/self/fd/{fd}")]

    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(250, json.dumps(body()).encode())
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        lost = pipe.read()
    os.waitpid(pid, 0)
    assert lost == "[]"


def test_closed_repr_and_the_way_up_work_in_the_child(rig: Rig) -> None:
    qp = rig.qp()

    def body() -> list[Any]:
        return [
            type(qp.closed).__name__,
            "QP" in repr(qp),
            qp.pd is rig.pd,
            qp.send_cq is rig.cq,
            rig.mr.pd.context is rig.ctx,
        ]

    assert in_child(body) == ["bool", True, True, True, True]


def test_the_child_can_open_a_device_of_its_own(rig: Rig) -> None:
    def body() -> int:
        before = rig.stub.live()
        with rig.open() as ctx, ctx.alloc_pd() as pd, ctx.create_cq(4) as cq:
            with pd.create_qp(rig.ib.QPInitAttr(cq, cq)) as qp, pd.reg_mr(0x1000, 8, 1) as mr:
                rig.set_state(qp, 3)
                to = {"ah": some_ah(rig.ib, pd)} if rig.efa else {}
                qp.post_send(rig.ib.SendWR(7, [mr.sge()], 2, 2, **to))
                to.clear()
                assert cq.poll(4)[0].wr_id == 7
        gc.collect()
        return rig.stub.live() - before

    assert in_child(body) == 0


def test_a_grandchild_counts_from_its_own_fork(rig: Rig) -> None:
    def body() -> Any:
        ctx = rig.open()

        def inner() -> list[bool]:
            refused = []
            for handle in (rig.ctx, ctx):
                try:
                    handle.query_port(1)
                    refused.append(False)
                except rig.Error:
                    refused.append(True)
            rig.open().close()
            return refused

        result = in_child(inner)
        ctx.query_port(1)
        return result

    assert in_child(body) == [True, True]


#: The head of a program of its own, for one of the packages.
PROGRAM = f"""
import os, sys
sys.path.append({os.path.dirname(os.path.abspath(__file__))!r})
import {{package}} as ib
from packages import open_device
"""


def test_a_child_that_exits_normally_is_quiet(ib: Any, stub: Any) -> None:
    code = """
ctx = open_device(ib)
pd = ctx.alloc_pd()
cq = ctx.create_cq(16)
keep = [pd.reg_mr(0x1000, 64, 1), pd.create_qp(ib.QPInitAttr(cq, cq))]
keep.append(keep)
pid = os.fork()
if pid:
    sys.exit(os.waitpid(pid, 0)[1] != 0)
"""
    code = PROGRAM.format(package=ib.__name__) + code
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_works_with_every_start_method(ib: Any, stub: Any, method: str, tmp_path: Any) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        PROGRAM.format(package=ib.__name__)
        + f"""
import multiprocessing

def work(n):
    with open_device(ib) as ctx, ctx.alloc_pd() as pd, pd.reg_mr(0x1000, n, 1) as mr:
        return mr.length

if __name__ == "__main__":
    ctx = open_device(ib)
    pd = ctx.alloc_pd()
    with multiprocessing.get_context({method!r}).Pool(2) as pool:
        assert pool.map(work, range(1, 9)) == list(range(1, 9))
    pd.close()
    ctx.close()
"""
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_asks_for_the_children_of_forks_is_called_once_in_each(ib: Any) -> None:
    forks = importlib.import_module(f"{ib.__name__}.forks")
    calls: list[int] = []

    def renew() -> None:
        calls.append(1)

    for _ in range(3):
        forks.watch_forks(renew)
    assert in_child(lambda: len(calls)) == 1
    assert calls == []


def test_fork_init_is_the_librarys_and_fork_status_says_so(ib: Any, stub: Any) -> None:
    code = """
assert ib.fork_status() == ib.ForkStatus.DISABLED
assert ib.fork_init() is None
assert ib.fork_status() == ib.ForkStatus.ENABLED
ib.fork_init()
"""
    code = PROGRAM.format(package=ib.__name__) + code
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_fork_init_after_a_registration_says_that_it_comes_too_late(ib: Any, stub: Any) -> None:
    stub.fail("fork_init", errno.EINVAL)
    with pytest.raises(error_of(ib), match="ibv_fork_init.*too late") as caught:
        ib.fork_init()
    assert caught.value.errno == errno.EINVAL
    stub.fail("fork_init", errno.ENOSYS)
    with pytest.raises(error_of(ib), match="ibv_fork_init") as caught:
        ib.fork_init()
    assert caught.value.errno == errno.ENOSYS
