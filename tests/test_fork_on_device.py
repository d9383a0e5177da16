# SPDX-License-Identifier: BSD-3-Clause
"""After a fork: what was made before it raises in the child, frees nothing there, and works on in the parent."""

from __future__ import annotations

import functools
import gc
import os
import subprocess
import sys
import traceback
from typing import Any, Callable

import pytest
from efa_endpoints import new_endpoint
from endpoints import Endpoint, Make, connect
from packages import error_of
from place import seconds
from test_channels import Waiter

pytestmark = pytest.mark.needs("writes")


def in_child(body: Callable[[], None]) -> None:
    """Runs `body` in a forked child; its exception fails the test here."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(reader)
            body()
            code = 0
        except BaseException:
            os.write(writer, traceback.format_exc().encode())
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode()
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, said


def moves(a: Endpoint, b: Endpoint, word: bytes) -> None:
    a.buf[0 : len(word)] = word
    a.do(a.write_wr(b, len(word), 0, 100))
    assert b.buf[100 : 100 + len(word)] == word


def test_objects_made_before_it_raise_in_the_child(ib: Any, pair: tuple[Endpoint, Endpoint]) -> None:
    a, b = pair

    def child() -> None:
        calls = (
            a.ctx.query_device, a.ctx.alloc_pd, lambda: a.send_cq.poll(1), lambda: a.qp.post_send(a.write_wr(b)),
            a.qp.query, lambda: a.pd.reg_mr(a.buf.addr, 4096, 1), lambda: a.ctx.get_async_event(timeout=0),
        )  # fmt: skip
        for call in calls:
            with pytest.raises(error_of(ib), match="fork"):
                call()

    in_child(child)
    moves(a, b, b"parent")


def test_a_child_that_drops_them_frees_nothing(make: Make) -> None:
    ends = [make(), make()]
    connect(ends[0], ends[1])
    moves(ends[0], ends[1], b"before")

    def child() -> None:
        nonlocal ends
        ends = []
        gc.collect()

    in_child(child)
    moves(ends[0], ends[1], b"after")


def test_a_child_that_closes_them_frees_nothing(ib: Any, make: Make) -> None:
    a, b = make(), make()
    connect(a, b)

    def child() -> None:
        for thing in (a.qp, a.mr, a.send_cq, a.recv_cq, a.pd, a.ctx):
            try:
                thing.close()
            except error_of(ib):
                pass

    in_child(child)
    moves(a, b, b"after")


def test_a_child_makes_its_own(ib: Any, make: Make, node: Any) -> None:
    a, b = make(), make()
    connect(a, b)

    def child() -> None:
        with new_endpoint(ib, node) as one, new_endpoint(ib, node) as other:
            connect(one, other)
            moves(one, other, b"child")

    in_child(child)
    moves(a, b, b"parent")


def test_a_waiter_in_the_parent_is_not_disturbed(ib: Any, make: Make) -> None:
    a, b = make(), make(with_channel=True)
    connect(a, b)
    b.post_recv()
    b.recv_cq.req_notify()
    in_child(lambda: None)
    a.do(a.send_wr())
    assert b.channel.get_cq_event(timeout=seconds(5)) is b.recv_cq


def test_fork_init_before_all_else_makes_registered_memory_safe(ib: Any, node: Any) -> None:
    """Whatever the kernel: protected by the library, or by the kernel itself."""
    try:
        ib.fork_status()
    except ib.UnsupportedError:
        pytest.skip("needs a libibverbs that tells its state: rdma-core 35")
    code = f"""
import {ib.__name__} as ib
ib.fork_init()
assert ib.fork_status() in (ib.ForkStatus.ENABLED, ib.ForkStatus.UNNEEDED), ib.fork_status()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=seconds(60))
    assert (done.returncode, done.stderr) == (0, "")


WORKER = """
import multiprocessing, sys, time
sys.path.insert(0, {tests!r})
import {package} as ib
from efa_endpoints import new_endpoint
from endpoints import connect
from place import Place

def work(n):
    node = Place({package!r}).nodes[0]
    with new_endpoint(ib, node, with_channel=True) as a, new_endpoint(ib, node, with_channel=True) as b:
        connect(a, b)
        b.post_recv()
        a.qp.post_send(a.send_wr(16))
        for cq in (a.send_cq, b.recv_cq):
            for wc in cq.wait(1, 20):
                wc.raise_for_status()
    return n

if __name__ == "__main__":
    assert work(0) == 0
    node = Place({package!r}).nodes[0]
    kept = new_endpoint(ib, node)
    with multiprocessing.get_context({method!r}).Pool(2) as pool:
        assert pool.map(work, range(4)) == list(range(4))
    assert work(1) == 1
    kept.close()
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_moves_data_with_every_start_method(ib: Any, node: Any, method: str, tmp_path: Any) -> None:
    script = tmp_path / "script.py"
    script.write_text(WORKER.format(tests=os.path.dirname(__file__), package=ib.__name__, method=method))
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=seconds(60), check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_child_that_is_forked_amid_waits_ends_them_for_itself_alone(ib: Any, pair: tuple[Endpoint, Endpoint]) -> None:
    """Threads of the parent sleep and spin in waits; the child has none of them, and its own objects work."""
    a, b = pair
    with a.ctx.create_comp_channel() as channel, a.ctx.create_cq(4, channel) as idle:
        threads = [Waiter(functools.partial(idle.wait, 1, None, spin)) for spin in (None, 30)]

        def child() -> None:
            with pytest.raises(error_of(ib), match="fork"):
                idle.wait(1, 1)
            with a.node.open() as ctx, ctx.create_comp_channel() as own, ctx.create_cq(4, own) as cq:
                assert cq.wait(1, 0.01) == []

        in_child(child)
        moves(a, b, b"parent")
        assert all(thread.is_alive() for thread in threads)
        idle.close()
        for thread in threads:
            with pytest.raises(error_of(ib)):
                thread.finish()
