# SPDX-License-Identifier: BSD-3-Clause
"""Objects that misbehave in the middle of a call: they raise, close what is in use, change the list, run the collector.

Nothing may crash; nothing is posted of a call that raises; what is posted was complete.
"""

from __future__ import annotations

import builtins
import errno
import gc
import sys
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any, Callable

import pytest
from collector import eager_collector
from packages import error_of, open_device
from stub_fixtures import UD, Rig

pytestmark = pytest.mark.needs("stub")


class Angry(Exception):
    pass


def raising(*_: Any) -> Any:
    raise Angry


def nothing_posted(rig: Rig, act: Callable[[], Any], kind: Any = Angry) -> Any:
    before = rig.stub.calls(rig.post_verb) + rig.stub.calls("post_recv")
    with pytest.raises(kind) as caught:
        act()
    assert rig.stub.calls(rig.post_verb) + rig.stub.calls("post_recv") == before
    return caught.value


def post(qp: Any, make: Callable[..., Any], *arguments: Any) -> None:
    qp.post_send(make(*arguments))


def test_an_iterator_that_raises_posts_nothing(rig: Rig) -> None:
    qp = rig.qp()

    def some(n: int) -> Iterator[Any]:
        for i in range(n):
            yield rig.wr(i)
        raise Angry

    for n in (0, 1, 63, 64, 65, 200):
        nothing_posted(rig, partial(post, qp, some, n))
    nothing_posted(rig, lambda: qp.post_send(type("I", (), {"__iter__": raising})()))
    nothing_posted(rig, lambda: qp.post_send(type("I", (), {"__iter__": lambda s: s, "__next__": raising})()))


def test_an_iterator_that_closes_the_queue_pair_posts_nothing(rig: Rig) -> None:
    ib = rig.ib
    for n in (0, 1, 70):
        qp = rig.make_qp()

        def some(qp: Any = qp, n: int = n) -> Iterator[Any]:
            for i in range(n):
                yield rig.wr(i)
            qp.close()
            yield rig.wr(99)

        error = nothing_posted(rig, partial(post, qp, some), error_of(ib))
        assert error.errno == errno.EBADF
        assert qp.closed


def test_an_iterator_that_closes_the_region_or_the_address_posts_nothing(rig: Rig) -> None:
    ib, qp, ud = rig.ib, rig.qp(), rig.qp(UD)
    for n in (0, 1, 70):
        mr = rig.pd.reg_mr(0x1000, 0x1000, 1)
        ah = rig.make_ah()

        def on_region(mr: Any = mr, n: int = n) -> Iterator[Any]:
            yield rig.wr(sg_list=[mr.sge(1)])
            for i in range(n):
                yield rig.wr(i)
            mr.close()

        def to_address(ah: Any = ah, n: int = n) -> Iterator[Any]:
            yield rig.wr(ah=ah)
            for _ in range(n):
                yield rig.wr(ah=ah)
            ah.close()

        assert nothing_posted(rig, lambda: qp.post_send(on_region()), error_of(ib)).index == 0
        assert nothing_posted(rig, lambda: ud.post_send(to_address()), error_of(ib)).index == 0


class Region:
    """Has addr, length and lkey, and does something whenever they are read."""

    def __init__(self, act: Callable[[], None]) -> None:
        self.act = act

    def _read(self, value: int) -> int:
        self.act()
        return value

    addr = property(lambda self: self._read(0x1000))
    length = property(lambda self: self._read(0x1000))
    lkey = property(lambda self: self._read(5))


def test_a_region_of_ones_own_is_read_when_the_sge_is_made_and_not_in_a_post(rig: Rig) -> None:
    count = 0

    def act() -> None:
        nonlocal count
        count += 1

    sge = rig.ib.SGE(Region(act), 16)
    read = count
    qp = rig.qp()
    qp.post_send([rig.wr(sg_list=[sge])] * 70)
    assert count == read
    rig.drain()
    with pytest.raises(Angry):
        rig.ib.SGE(Region(raising), 16)


def test_a_list_that_shrinks_and_grows_under_the_collector(rig: Rig) -> None:
    """Requests and entries are allocated while a post runs only if the post allocates; then anything may happen."""
    qp = rig.qp()
    wrs = [rig.wr(i) for i in range(200)]

    class Cycle:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            del wrs[100:]
            for w in wrs[:50]:
                w.sg_list.clear()

    with eager_collector(1, 1, 1):
        for _ in range(50):
            Cycle()
            try:
                qp.post_send(wrs)
            except (RuntimeError, IndexError, ValueError):
                pass
            rig.drain()
            wrs[:] = [rig.wr(i) for i in range(200)]


def test_a_generator_may_change_the_lists_it_gave(rig: Rig) -> None:
    """Requests that came earlier are looked at when the post is made: it sees them as they are then."""
    ib, qp = rig.ib, rig.qp()
    first = rig.wr(1, sg_list=[ib.SGE(1, 2, 3)] * 4)

    def some() -> Iterator[Any]:
        yield first
        first.sg_list.clear()
        first.sg_list.append(ib.SGE(7, 8, 9))
        gc.collect()
        yield rig.wr(2)

    rig.stub.capture()
    qp.post_send(some())
    (sges, _) = (g.sges for g in rig.stub.captured())
    assert sges in ([(7, 8, 9)], [(1, 2, 3)] * 4)
    rig.drain()


def test_an_sg_list_subclass_with_its_own_ideas_is_a_list_or_is_refused(rig: Rig) -> None:
    ib, qp = rig.ib, rig.qp()

    class Odd(list):  # type: ignore[type-arg]
        __iter__ = __len__ = __getitem__ = raising

    w = rig.wr()
    try:
        w.sg_list = Odd([ib.SGE(1, 2, 3)])
    except TypeError:
        return
    rig.stub.capture()
    qp.post_send(w)
    (got,) = rig.stub.captured()
    assert got.sges == [(1, 2, 3)]
    rig.drain()


def test_index_that_closes_what_the_call_is_on(rig: Rig) -> None:
    ib = rig.ib

    def closing(handle: Any, value: int) -> Any:
        def index(_: Any) -> int:
            handle.close()
            return value

        return type("Closing", (), {"__index__": index})()

    cases: list[tuple[Any, Callable[[Any], Any]]] = []
    for _ in range(1):
        cq = rig.ctx.create_cq(16)
        cases.append((cq, lambda h: h.poll(closing(h, 4))))
        channel = rig.ctx.create_comp_channel()
        event_cq = rig.keep(rig.ctx.create_cq(16, rig.keep(rig.ctx.create_comp_channel())))
        cases.append((channel, lambda h: rig.ctx.create_cq(closing(h, 4), h)))
        pd = rig.ctx.alloc_pd()
        cases.append((pd, lambda h: h.reg_mr(0x1000, closing(h, 16), 1)))
        pd2 = rig.ctx.alloc_pd()
        cases.append((pd2, lambda h: h.reg_mr(0x1000, 16, closing(h, 1))))
        mr = rig.pd.reg_mr(0x1000, 0x1000, 1)
        cases.append((mr, lambda h: h.sge(closing(h, 16))))
        mr2 = rig.pd.reg_mr(0x1000, 0x1000, 1)
        cases.append((mr2, lambda h: ib.SGE(h, closing(h, 16))))
        qp = rig.make_qp(state=0)
        cases.append((qp, lambda h: h.modify(closing(h, 1), qp_state=1)))
        qp2 = rig.make_qp(state=0)
        cases.append((qp2, lambda h: h.to_init(closing(h, 1))))
        if not rig.efa:
            pd3, srq = rig.ctx.alloc_pd(), rig.pd.create_srq()
            cases.append((pd3, lambda h: h.create_srq(closing(h, 16))))
            cases.append((srq, lambda h: h.modify(srq_limit=closing(h, 1))))
        ctx = open_device(ib)
        cases.append((ctx, lambda h: h.query_port(closing(h, 1))))
        ctx2 = open_device(ib)
        cases.append((ctx2, lambda h: h.create_cq(closing(h, 1))))
        del event_cq
    for handle, act in cases:
        with pytest.raises(error_of(ib)) as caught:
            act(handle)
        assert caught.value.errno == errno.EBADF, act
        assert handle.closed


def test_an_attribute_that_is_not_there_is_named_by_the_cause(rig: Rig) -> None:
    class Region:
        addr, length = 4096, 16

    class Init:
        send_cq = recv_cq = rig.cq
        qp_type = rig.reliable

    cases: list[tuple[Callable[..., Any], tuple[Any, ...], str]] = [
        (rig.ib.SGE, (Region(), 1), "lkey"),
        (rig.pd.create_qp, (Init(),), "max_send_wr"),
    ]
    for call, arguments, missing in cases:
        with pytest.raises(TypeError, match="must be") as caught:
            call(*arguments)
        assert isinstance(caught.value.__cause__, AttributeError) and f"'{missing}'" in str(caught.value.__cause__)


def test_an_attribute_whose_own_code_fails_so_is_no_riddle(rig: Rig) -> None:
    class Region:
        addr, length = 4096, 16

        @property
        def lkey(self) -> int:
            number: int = self.mistyped  # type: ignore[attr-defined]
            return number

    with pytest.raises(TypeError, match="target must be") as caught:
        rig.ib.SGE(Region(), 1)
    cause = caught.value.__cause__
    assert isinstance(cause, AttributeError) and "'mistyped'" in str(cause) and cause.__traceback__ is not None


def test_init_attr_whose_attributes_close_the_parents(rig: Rig) -> None:
    ib = rig.ib
    cq = rig.ctx.create_cq(16)

    class Attr:
        qp_type, max_send_wr, max_recv_wr, max_send_sge, max_recv_sge = rig.reliable, 1, 1, 1, 1
        max_inline_data, srq, sq_sig_all = 0, None, False
        send_ops_flags, sl, unsolicited_write_recv = None, 0, False
        send_cq = recv_cq = cq

    class Closing(Attr):
        @property
        def sq_sig_all(self) -> bool:  # type: ignore[override]
            cq.close()
            return False

    rig.pd.create_qp(Attr()).close()
    last = ("send_ops_flags", "sl", "unsolicited_write_recv") if rig.efa else ("srq",)
    for name in ("send_cq", "recv_cq", "qp_type", "max_send_wr", "max_inline_data", *last, "sq_sig_all"):
        bad = type("Bad", (Attr,), {name: property(raising)})
        with pytest.raises(Angry):
            rig.pd.create_qp(bad())
        if name in ("send_cq", "recv_cq", "max_send_wr"):
            without = type("Without", (), {k: v for k, v in vars(Attr).items() if k != name and k[0] != "_"})
            with pytest.raises(TypeError, match="init_attr"):
                rig.pd.create_qp(without())
    with pytest.raises(error_of(ib)) as caught:
        rig.pd.create_qp(Closing())
    assert caught.value.errno == errno.EBADF


@pytest.mark.only("ibverbs")
def test_the_first_field_of_a_peer_that_raises_comes_out_and_no_other_is_read(rig: Rig) -> None:
    read: list[str] = []

    class Remote:
        qp_num = property(raising)

        @property
        def psn(self) -> int:
            read.append("psn")
            return 0

    qp = rig.qp(state=1)
    with pytest.raises(Angry):
        qp.to_rtr(Remote(), 0)
    assert read == []


def test_a_truth_that_raises_comes_out(rig: Rig) -> None:
    ib = rig.ib

    class Never:
        __bool__ = raising

    with pytest.raises(Angry):
        rig.cq.req_notify(Never())
    with pytest.raises(Angry):
        rig.pd.create_qp(ib.QPInitAttr(rig.cq, rig.cq, sq_sig_all=Never()))
    assert rig.stub.calls("req_notify_cq") == 0 and rig.stub.calls(rig.verb_of_qp) == 0


def test_comparing_with_a_raising_object_comes_out(rig: Rig) -> None:
    ib = rig.ib

    class Never:
        __eq__ = raising
        __hash__ = None  # type: ignore[assignment]

    for value in (ib.Gid(bytes(16)), ib.AHAttr(), rig.ctx.query_device()):
        with pytest.raises(Angry):
            value == Never()  # noqa: B015


@pytest.mark.parametrize("what", ["init failed", "new only"])
def test_objects_whose_construction_did_not_finish_are_harmless(rig: Rig, what: str) -> None:
    ib = rig.ib
    classes = [ib.SendWR, ib.RecvWR, ib.SGE, ib.Gid, ib.AHAttr, ib.QPInitAttr, ib.Device, ib.WC]
    for cls in classes:
        halves: list[Any] = []

        def init(self: Any, *_: Any, halves: list[Any] = halves) -> None:
            halves.append(self)
            raise Angry

        try:
            if what == "new only":
                halves.append(cls.__new__(cls))
            else:  # some classes cannot be derived from, some need arguments
                type("Sub", (cls,), {"__init__": init})()
        except (TypeError, Angry):
            pass
        for half in halves:
            repr(half)
            half == half  # noqa: B015, PLR0124
            for name in dir(half):
                if not name.startswith("__") and name not in ("open",):
                    try:
                        getattr(half, name)
                    except (AttributeError, error_of(ib)):
                        pass
            try:
                rig.qp().post_send(half)
            except (TypeError, ValueError, error_of(ib)):
                pass
    rig.drain()


def test_handles_cannot_be_made_without_the_library(rig: Rig) -> None:
    ib = rig.ib
    for name in ("Context", "PD", "MR", "CQ", "CompChannel", "QP", "CQEx" if rig.efa else "SRQ", "AH", "AsyncEvent"):
        cls = getattr(ib, name)
        for make in (
            cls,
            lambda cls=cls: cls(1),
            lambda cls=cls: cls.__new__(cls),
            lambda cls=cls: object.__new__(cls),
        ):
            with pytest.raises(TypeError):
                make()


def test_deep_recursion_in_an_iterator_ends_in_an_exception(rig: Rig) -> None:
    qp = rig.qp()

    def deeper(n: int) -> Any:
        qp.post_send(deeper(n + 1) for _ in range(1))
        return rig.wr(n)

    with pytest.raises(RecursionError):
        deeper(0)
    assert rig.stub.calls(rig.post_verb) == 0


def test_a_post_inside_a_post_goes_first(rig: Rig) -> None:
    qp = rig.qp()

    def outer() -> Iterator[Any]:
        yield rig.wr(1)
        qp.post_send([rig.wr(2)] * 65)
        yield rig.wr(3)

    qp.post_send(outer())
    assert [wc.wr_id for wc in rig.drain()] == [2] * 65 + [1, 3]


def test_weakref_callbacks_and_finalizers_may_use_the_objects(rig: Rig) -> None:
    import weakref

    seen: list[Any] = []
    cq = rig.ctx.create_cq(8)
    weakref.finalize(cq, lambda ctx: seen.append(ctx.query_port(1).state), rig.ctx)
    ref = weakref.ref(cq, lambda _: seen.append(rig.cq.poll(1)))
    del cq
    gc.collect()
    assert ref() is None
    assert sorted(map(str, seen)) == ["4", "[]"]


class WhenCollected:
    """A cycle that does something when the collector finds it."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self.me, self.act = self, act

    def __del__(self) -> None:
        self.act()


@pytest.mark.parametrize("allocations", range(1, 6))
def test_a_region_that_the_collector_closes_while_an_sge_is_made_of_it(rig: Rig, allocations: int) -> None:
    mr = rig.pd.reg_mr(0x1000, 4096, 1)
    lkey = mr.lkey
    gc.collect()
    gc.disable()
    WhenCollected(mr.close)
    with eager_collector(allocations):
        gc.enable()
        try:
            assert mr.sge(16).lkey == lkey
        except rig.Error as error:
            assert error.errno == errno.EBADF
    mr.close()


@pytest.mark.parametrize("allocations", range(1, 16))
def test_parents_that_the_collector_closes_while_a_queue_pair_is_made(rig: Rig, allocations: int) -> None:
    """One between the looks at it, and another while the error about the first is made: it waits for no call."""
    pd, cq = rig.ctx.alloc_pd(), rig.ctx.create_cq(16)

    def close_first() -> None:
        cq.close()
        WhenCollected(pd.close)
        gc.set_threshold(1)

    init = rig.ib.QPInitAttr(cq, cq)
    gc.collect()
    gc.disable()
    WhenCollected(close_first)
    with eager_collector(allocations):
        gc.enable()
        try:
            pd.create_qp(init).close()
        except rig.Error as error:
            assert error.errno == errno.EBADF
    gc.collect()
    cq.close()
    pd.close()


def test_a_handle_closed_on_its_way_to_ctypes_is_no_null_pointer(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    mr = rig.pd.reg_mr(0x1000, 4096, 1)
    original = builtins.__import__

    def import_and_close(name: str, *arguments: Any) -> Any:
        mr.close()
        return original(name, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(builtins, "__import__", import_and_close)
        with pytest.raises(rig.Error) as caught:
            assert mr._as_parameter_
    assert caught.value.errno == errno.EBADF


def test_unsupported_operations_on_handles_do_not_crash(rig: Rig) -> None:
    import copy
    import pickle

    qp, ah = rig.qp(), rig.ah()
    more = rig.keep(rig.ctx.create_cq_ex(8) if rig.efa else rig.pd.create_srq())
    channel = rig.keep(rig.ctx.create_comp_channel())
    for handle in (rig.ctx, rig.pd, rig.cq, rig.mr, qp, ah, more, channel):
        for act in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError):
                act(handle)
        with pytest.raises((TypeError, AttributeError)):
            handle.no_such_attribute = 1
        assert handle == handle and handle != 7  # noqa: PLR0124
        hash(handle)
        assert type(handle).__name__ in repr(handle)


def test_a_memory_error_in_the_middle_of_making_completions_loses_none(rig: Rig) -> None:
    testcapi = pytest.importorskip("_testcapi", reason="needs the interpreter's own test module")
    rig.qp().post_send([rig.wr(i) for i in range(40)])
    got: list[int] = []
    failures = 0
    for n in range(200):
        testcapi.set_nomemory(n, n + 1)
        try:
            found = rig.cq.poll(7)
        except MemoryError:
            failures += 1
            found = []
        finally:
            testcapi.remove_mem_hooks()
        got += [wc.wr_id for wc in found]
    assert failures
    assert got == list(range(40))
    assert sys.getrefcount(rig.cq) < 100


class Emptying:
    """An integer whose conversion empties every dictionary that holds it, the arguments of the call too, and makes
    other objects where those were that went with it."""

    def __index__(self) -> int:
        for found in gc.get_objects():
            if type(found) is dict and any(value is self for value in list(found.values())):
                found.clear()
        self.others = [(2**50 + i, f"other text {i:05}", [None], Emptying()) for i in range(2000)]
        return 1


@pytest.mark.parametrize("call", ["SGE", "SendWR", "RecvWR", "QPInitAttr", "Device", "AHAttr", "VerbsError", "modify"])
def test_arguments_emptied_by_a_conversion_are_read_to_the_end(rig: Rig, call: str) -> None:
    """The collector's list of objects shows the dictionary that keyword arguments travel in, and alone holds them."""
    ib = rig.ib

    def number() -> int:
        return int("1099511627777")  # an object of its own, which nothing else holds

    def text() -> str:
        return f"some text {len(call):05}"

    if call == "SGE":
        sge = ib.SGE(**{"length": Emptying(), "target": number(), "offset": number()})
        assert (sge.addr, sge.length) == (2 * number(), 1)
    elif call == "SendWR":
        wr = ib.SendWR(**{"wr_id": Emptying(), "remote_addr": number(), "sg_list": []})
        assert (wr.wr_id, wr.remote_addr, wr.sg_list) == (1, number(), [])
    elif call == "RecvWR":
        assert ib.RecvWR(**{"wr_id": Emptying(), "sg_list": []}).sg_list == []
    elif call == "QPInitAttr":
        attr = ib.QPInitAttr(**{"max_send_wr": Emptying(), "send_cq": text(), "recv_cq": text()})
        assert (attr.max_send_wr, attr.send_cq, attr.recv_cq) == (1, text(), text())
    elif call == "Device":
        assert ib.Device(**{"guid": Emptying(), "name": text()}).name == text()
    elif call == "AHAttr":  # its arguments are read one by one, and what is gone is not read
        assert ib.AHAttr(**{"port_num": Emptying(), "hop_limit": 3}).port_num == 1
    elif call == "VerbsError":
        error = rig.Error(**{"err": Emptying(), "operation": text(), "detail": text()})
        assert (error.operation, error.detail) == (text(), text())
    else:
        qp = rig.qp()
        qp.modify(ib.QPAttrMask.STATE, qp_state=0)
        with pytest.raises(ib.RangeError, match="attr_mask.*1099511627777"):
            qp.modify(**{"attr_mask": number(), "qkey": Emptying()})


@pytest.mark.parametrize("kind", ["SGE", "QPInitAttr", "several each", "alternating", "RecvWR"])
def test_the_end_of_a_long_chain_of_values_does_not_exhaust_the_stack(rig: Rig, kind: str) -> None:
    ib = rig.ib

    class Init(ib.QPInitAttr):  # type: ignore[misc]
        addr, length, lkey = 4096, 64, 1

    class Recv(ib.RecvWR):  # type: ignore[misc]
        addr, length, lkey = 4096, 64, 1

    def end_one() -> None:
        chain: Any = ib.SGE(rig.mr, 16)
        for i in range(20000):
            if kind == "SGE" or (kind == "alternating" and i % 2):
                chain = ib.SGE(chain, 8)
            elif kind == "alternating":
                chain = Init(chain, None)
            elif kind == "RecvWR":
                chain = ib.SGE(Recv(1, [chain]), 8)
            elif kind == "QPInitAttr":
                chain = ib.QPInitAttr(None, chain)
            else:
                more = {"send_ops_flags" if rig.efa else "srq": ib.QPInitAttr(None, None)}
                chain = ib.QPInitAttr(ib.QPInitAttr(None, None), chain, **more)
        del chain
        ended.append(kind)

    # CPython 3.13 counts on the stack that the first thread has: its own tuples overrun less, as do ours.
    ended: list[str] = []
    before = threading.stack_size(8 << 20 if sys.version_info[:2] == (3, 13) else 256 << 10)
    try:
        thread = threading.Thread(target=end_one)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    assert ended == [kind]


@pytest.mark.only("efa")
def test_a_destination_that_gives_the_half_made_request_another_handle(rig: Rig) -> None:
    """The collector's list of objects shows a request before its constructor is through."""
    first, second = rig.pd.create_ah(bytes(range(16))), rig.pd.create_ah(bytes(range(16)))

    class Meddling:
        qp_num, qkey = 1, 2

        @property
        def ah(self) -> Any:
            for found in gc.get_objects():
                if type(found) is rig.ib.SendWR:
                    found.ah = second
            return first

    before = sys.getrefcount(second)
    for _ in range(10):
        assert rig.ib.SendWR(dest=Meddling()).ah is first
    assert sys.getrefcount(second) < before + 5
