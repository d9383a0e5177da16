# SPDX-License-Identifier: BSD-3-Clause
"""Every call of the library made to fail in turn, over everything that can be made: the right exception, and nothing
left behind."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import resource
import warnings
from collections.abc import Iterator
from typing import Any, Callable

import pytest
from packages import devices_of, error_of, is_efa, open_device, some_ah
from stub_control import NO_ERRNO, Stub

pytestmark = pytest.mark.needs("stub")


def build(ib: Any, stub: Stub, undo: contextlib.ExitStack) -> None:
    """Makes and uses one of everything."""
    if is_efa(ib):
        build_efa(ib, stub, undo)
        return
    keep = undo.enter_context
    devices = ib.get_device_list()
    ctx = keep(devices[0].open())
    ctx.query_device()
    port = ctx.query_port(1)
    gid = ctx.query_gid(1, 0)
    pd = keep(ctx.alloc_pd())
    buffer = bytearray(4096)
    mr = keep(ib.reg_tensor(pd, buffer, ib.AccessFlags.LOCAL_WRITE | ib.AccessFlags.REMOTE_WRITE))
    keep(pd.reg_dmabuf_mr(0, 4096, 0x1000, 3, ib.AccessFlags.LOCAL_WRITE))
    channel = keep(ctx.create_comp_channel())
    cq = keep(ctx.create_cq(64, channel))
    srq = keep(pd.create_srq(max_wr=16, srq_limit=3))
    srq.query()
    srq.modify(srq_limit=2)
    qps = [keep(pd.create_qp(ib.QPInitAttr(cq, cq, srq=s))) for s in (srq, None)]
    ud = keep(pd.create_qp(ib.QPInitAttr(cq, cq, qp_type=ib.QPType.UD)))
    for qp in qps:
        peer = ib.local_qp_info(qp, port, gid, port=1)
        ib.connect_rc(qp, peer, port=1, sgid_index=0, access=ib.AccessFlags.REMOTE_WRITE)
        qp.query()
        assert qp.state == ib.QPState.RTS
    ud.to_init(1, qkey=1)
    ud.to_rtr(None, 0)
    ud.to_rts(0)
    ah = keep(pd.create_ah(ib.AHAttr(dgid=gid)))
    cq.req_notify()
    signaled = ib.SendFlags.SIGNALED
    qps[0].post_send(ib.SendWR(1, [mr.sge(8)], ib.WROpcode.SEND, signaled))
    qps[1].post_recv([ib.RecvWR(2, [mr.sge(8)])] * 3)
    ud.post_send(ib.SendWR(3, [mr.sge(8)], ib.WROpcode.SEND, signaled, ah=ah))
    srq.post_recv(ib.RecvWR(4, [mr.sge(8)]))
    assert channel.get_cq_event(timeout=5) is cq
    cq.ack_events()
    while cq.poll(16):
        pass
    stub.raise_event(ctx, 1, qps[0])
    ctx.ack_async_event(ctx.get_async_event(timeout=5))


def build_efa(ib: Any, stub: Stub, undo: contextlib.ExitStack) -> None:
    keep = undo.enter_context
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a device that could not be asked
        ib.get_efa_device_list()
    ctx = keep(ib.get_device_list()[2].open())
    ctx.query_device()
    ctx.query_efa_device()
    ctx.query_port()
    pd = keep(ctx.alloc_pd())
    buffer = bytearray(4096)
    mr = keep(ib.reg_tensor(pd, buffer, ib.AccessFlags.LOCAL_WRITE | ib.AccessFlags.REMOTE_WRITE))
    keep(pd.reg_dmabuf_mr(0, 4096, 0x1000, 3, ib.AccessFlags.LOCAL_WRITE))
    mr.query_efa()
    channel = keep(ctx.create_comp_channel())
    cq = keep(ctx.create_cq(64, channel))
    cq_ex = keep(ctx.create_cq_ex(64, channel, sgid=True, unsolicited=True))
    srd = keep(pd.create_qp(ib.QPInitAttr(cq_ex, cq_ex)))
    ud = keep(pd.create_qp(ib.QPInitAttr(cq, cq, qp_type=ib.QPType.UD)))
    for qp in (srd, ud):
        qp.prepare(qkey=1)
        qp.query()
        assert qp.state == ib.QPState.RTS
    srd.query_wqs()
    cq_ex.query_efa()
    peer = keep(ib.local_endpoint_info(srd, 1).peer(pd))
    signaled = ib.SendFlags.SIGNALED
    for queue in (cq, cq_ex):
        queue.req_notify()
    srd.post_send(ib.write_wrs(mr, peer, 0x1000, 5, chunk=1024))
    srd.post_recv([ib.RecvWR(2, [mr.sge(8)])] * 3)
    ud.post_send(ib.SendWR(3, [mr.sge(8)], ib.WROpcode.SEND, signaled, dest=peer))
    for _ in range(2):
        channel.get_cq_event(timeout=5).ack_events()
    for queue in (cq, cq_ex):
        while queue.poll(16):
            pass
    stub.raise_event(ctx, 1, srd)
    ctx.ack_async_event(ctx.get_async_event(timeout=5))


def attempt(ib: Any, stub: Stub, seen: set[Any]) -> None:
    with contextlib.ExitStack() as undo:
        try:
            build(ib, stub, undo)
        except error_of(ib) as error:
            seen.add((error.operation, error.errno))
            # References of the frames that the traceback holds would keep what was made alive.
            error.__traceback__ = None
            raise


@pytest.mark.parametrize("err", [errno.ENOMEM, errno.EIO, NO_ERRNO])
def test_every_call_of_a_construction_may_fail_and_nothing_is_left(ib: Any, stub: Stub, err: int) -> None:
    seen: set[Any] = set()
    attempt(ib, stub, seen)
    assert stub.live_objects() == {} and not seen
    failures = 0
    for nth in range(1, 1000):
        stub.fail_any(nth, err)
        try:
            attempt(ib, stub, seen)
        except error_of(ib):
            failures += 1
        if stub.fault_pending:
            break
        gc.collect()
        assert stub.live_objects() == {}, f"after the failure of call {nth}"
        assert stub.violations == 0
    else:
        pytest.fail("the construction never came to its end")
    stub.fail_any(0)
    assert failures >= 25
    operations = {operation for operation, _ in seen}
    verbs = "get_device_list open_device query_port alloc_pd create_cq create_qp modify_qp poll_cq".split()
    verbs += ["create_ah", "reg_mr"] if is_efa(ib) else ["post_send"]
    for verb in verbs:
        assert any(o.startswith(f"ibv_{verb}") for o in operations), verb
    if is_efa(ib):
        for verb in ("efadv_query_device", "efadv_create_qp_ex", "efadv_create_cq", "ibv_start_poll"):
            assert verb in operations, verb


def test_every_destroy_may_fail_too_and_the_next_one_frees(ib: Any, stub: Stub) -> None:
    """A close() that failed leaves the object open; the collector destroys it, children first."""
    seen: set[Any] = set()
    failed_closes = 0
    for nth in range(1, 1000):
        stub.reset()
        stub.fail_any(nth, errno.EIO, destroys=True)
        try:
            attempt(ib, stub, seen)
        except error_of(ib) as error:
            failed_closes += any(error.operation.startswith(f"ibv_{v}") for v in ("de", "close"))
            del error
        if stub.fault_pending:
            break
        gc.collect()
        assert stub.live_objects() == {}, f"after the failure of call {nth}"
    assert failed_closes >= (8 if is_efa(ib) else 10)
    stub.fail_any(0)


@pytest.mark.parametrize("make", ["ctx", "pd", "cq", "channel", "srq", "qp", "mr", "ah"])
def test_descriptors_do_not_leak_where_making_fails(ib: Any, stub: Stub, make: str) -> None:
    verbs = {
        "ctx": "open_device", "pd": "alloc_pd", "cq": "create_cq", "channel": "create_comp_channel",
        "srq": "create_srq", "qp": "create_qp", "mr": "reg_mr_iova2", "ah": "create_ah",
    }  # fmt: skip
    if is_efa(ib):
        if make == "srq":
            pytest.skip("needs a package with shared receive queues")
        verbs["qp"] = "efadv_create_qp_ex"
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        stub.fail(verbs[make])
        with contextlib.suppress(error_of(ib)), contextlib.ExitStack() as undo:
            build(ib, stub, undo)
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


@contextlib.contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """The process can open only so many more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    plugs: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                plugs.append(os.dup(0))
        for _ in range(count):
            os.close(plugs.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in plugs:
            os.close(fd)


def test_no_descriptors_left_is_an_error_and_no_leak(ib: Any, stub: Stub) -> None:
    """The library's descriptor and our own fail in turn; the others are closed again."""
    devices = devices_of(ib)
    with devices[0].open() as ctx:
        for make, needs in ((ctx.create_comp_channel, 4), (devices[0].open, 3)):
            before = len(os.listdir("/proc/self/fd")), stub.live_objects()
            for left in range(needs):
                with descriptors_left(left), pytest.raises(error_of(ib)) as caught:
                    make()
                assert caught.value.errno == errno.EMFILE, (make, left)
                assert (len(os.listdir("/proc/self/fd")), stub.live_objects()) == before
            with descriptors_left(needs):
                handle = make()
            handle.close()
            assert len(os.listdir("/proc/self/fd")) == before[0]


def every_allocation(act: Callable[[], Any], most: int) -> int:
    """Runs `act` with each allocation of the interpreter failing in turn; returns how many runs failed."""
    testcapi = pytest.importorskip("_testcapi", reason="needs the interpreter's own test module")
    failures = 0
    gc.disable()  # the callbacks that others have in the collector would fail too
    try:
        for n in range(most):
            testcapi.set_nomemory(n, n + 1)
            try:
                act()
            except MemoryError:
                failures += 1
            finally:
                testcapi.remove_mem_hooks()
    finally:
        gc.enable()
    return failures


def test_every_allocation_of_the_data_path_may_fail(ib: Any, stub: Stub) -> None:
    with open_device(ib) as ctx, ctx.alloc_pd() as pd, ctx.create_cq(512) as cq:
        attr = ib.QPInitAttr(cq, cq, max_send_sge=4)
        with pd.create_qp(attr) as qp, pd.reg_mr(0x1000, 64, 1) as mr, some_ah(ib, pd) as ah:
            stub.set_lenient()
            qp.modify(1, qp_state=3)
            stub.set_lenient(False)
            to = {"ah": ah} if is_efa(ib) else {}
            w = ib.SendWR(1, [mr.sge()], 2, 2, **to)
            many, pair = [w] * 100, (w, w)
            acts: list[Callable[[], Any]] = [
                lambda: qp.post_send(w),
                lambda: qp.post_send(many),
                lambda: qp.post_send(iter(pair)),
                lambda: cq.poll(300),
                lambda: ib.SendWR(1, [mr.sge(1), ib.SGE(mr, 2)], 2, 2, **to),
                lambda: mr.sge(1),
            ]
            for act in acts:
                every_allocation(act, 12)
                while cq.poll(512):
                    pass


def test_every_allocation_of_a_construction_may_fail(ib: Any, stub: Stub) -> None:
    def act() -> None:
        with open_device(ib) as ctx:
            with ctx.alloc_pd() as pd, ctx.create_comp_channel() as channel, ctx.create_cq(4, channel) as cq:
                with pd.reg_mr(0x1000, 64, 1), pd.create_srq() as srq:
                    with pd.create_qp(ib.QPInitAttr(cq, cq, srq=srq)), pd.create_ah(ib.AHAttr(dgid=bytes(15) + b"\1")):
                        pass

    def act_efa() -> None:
        with open_device(ib) as ctx:
            with ctx.alloc_pd() as pd, ctx.create_comp_channel() as channel, ctx.create_cq_ex(4, channel) as cq:
                with pd.reg_mr(0x1000, 64, 1), pd.create_ah(bytes(15) + b"\1"), pd.create_qp(ib.QPInitAttr(cq, cq)):
                    pass

    failures = every_allocation(act_efa if is_efa(ib) else act, 150)
    gc.collect()
    assert failures > 20
    assert stub.live_objects() == {}
