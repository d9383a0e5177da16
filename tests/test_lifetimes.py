# SPDX-License-Identifier: BSD-3-Clause
"""Any order of closing, dropping and collecting is safe, frees everything once, and children before parents.

The stub aborts the process when a destroyed handle is used, and counts what lives; so each test here also proves that
nothing was used after its end.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import os
import random
import sys
import threading
import time
import weakref
from typing import Any, Callable

import pytest
from packages import error_of, is_efa, open_device, some_ah
from stub_control import Stub
from stub_fixtures import RC, SRD, UC, UD, Rig

pytestmark = pytest.mark.needs("stub")

SEEDS = range(int(os.environ.get("RDMA_TEST_SEEDS", "25")))


class Made:
    """One object of a random run, as the model knows it."""

    def __init__(self, kind: str, handle: Any, parents: list[Made]) -> None:
        self.kind, self.parents = kind, parents
        self.handle: Any | None = handle
        self.open = True


class Model:
    """Makes, closes and drops objects at random and knows what must be alive."""

    PARENTS = {
        "context": [], "pd": ["context"], "channel": ["context"], "cq": ["context"], "mr": ["pd"], "ah": ["pd"],
        "srq": ["pd"], "qp": ["pd", "cq", "cq"], "cq_ex": ["context"],
    }  # fmt: skip

    def __init__(self, ib: Any, stub: Stub, seed: int) -> None:
        self.ib, self.stub, self.random = ib, stub, random.Random(seed)
        self.kinds = [kind for kind in self.PARENTS if kind != ("srq" if is_efa(ib) else "cq_ex")]
        self.all: list[Made] = []
        self.in_cycles: set[Made] = set()

    def held(self) -> list[Made]:
        return [m for m in self.all if m.handle is not None]

    def alive(self) -> set[Made]:
        """What some reference leads to: ours, those of cycles nobody collected yet, and upwards from there."""
        found: set[Made] = set()
        todo = self.held() + list(self.in_cycles)
        while todo:
            made = todo.pop()
            if made not in found:
                found.add(made)
                todo += made.parents
        return found

    def open_children(self, made: Made) -> list[Made]:
        return [m for m in self.alive() if m.open and made in m.parents]

    def pick(self, kind: str, context: Made | None = None) -> Made | None:
        found = [
            m for m in self.held() if m.kind == kind and m.open and (context is None or self.context_of(m) is context)
        ]
        return self.random.choice(found) if found else None

    def context_of(self, made: Made) -> Made:
        return made if made.kind == "context" else self.context_of(made.parents[0])

    def make(self) -> None:
        kind = self.random.choice(self.kinds)
        chosen: list[Made] = []
        context: Made | None = None
        for needed in self.PARENTS[kind]:
            parent = self.pick(needed, context)
            if parent is None:
                kind, chosen = "context", []
                break
            chosen.append(parent)
            context = self.context_of(parent)
        handle = getattr(self, f"make_{kind}")(context, chosen)
        self.all.append(Made("cq" if kind == "cq_ex" else kind, handle, chosen))

    def make_context(self, context: Any, parents: list[Made]) -> Any:
        if is_efa(self.ib):
            return open_device(self.ib)
        return self.ib.get_device_list()[self.random.randrange(2)].open()

    def make_pd(self, context: Any, parents: list[Made]) -> Any:
        return self.handle(parents[0]).alloc_pd()

    def make_channel(self, context: Any, parents: list[Made]) -> Any:
        return self.handle(parents[0]).create_comp_channel()

    def make_cq(self, context: Any, parents: list[Made], call: str = "create_cq") -> Any:
        create = getattr(self.handle(parents[0]), call)
        channel = self.pick("channel", context) if self.random.random() < 0.5 else None
        if channel is not None:
            parents.append(channel)
            return create(16, self.handle(channel))
        return create(16)

    def make_cq_ex(self, context: Any, parents: list[Made]) -> Any:
        return self.make_cq(context, parents, "create_cq_ex")

    def make_mr(self, context: Any, parents: list[Made]) -> Any:
        return self.handle(parents[0]).reg_mr(0x1000, 64, 1)

    def make_ah(self, context: Any, parents: list[Made]) -> Any:
        return some_ah(self.ib, self.handle(parents[0]))

    def make_srq(self, context: Any, parents: list[Made]) -> Any:
        return self.handle(parents[0]).create_srq()

    def make_qp(self, context: Any, parents: list[Made]) -> Any:
        srq = self.pick("srq", context) if self.random.random() < 0.5 else None
        pd, send, recv = (self.handle(p) for p in parents)
        types = [UD, SRD] if is_efa(self.ib) else [RC, UC, UD]
        attr = self.ib.QPInitAttr(send, recv, qp_type=self.random.choice(types))
        if srq is not None:
            parents.append(srq)
            attr.srq = self.handle(srq)
        return pd.create_qp(attr)

    @staticmethod
    def handle(made: Made) -> Any:
        assert made.handle is not None
        return made.handle

    def close(self) -> None:
        if not self.held():
            return
        made = self.random.choice(self.held())
        children = self.open_children(made) if made.open else []
        try:
            self.handle(made).close()
        except error_of(self.ib) as error:
            assert error.errno == errno.EBUSY and children, error
        else:
            assert not children, f"closed a {made.kind} under {[c.kind for c in children]}"
            made.open = False
        assert self.handle(made).closed is not made.open

    def drop(self) -> None:
        if self.held():
            self.random.choice(self.held()).handle = None

    def tie(self) -> None:
        """Puts some of what we hold into a cycle, and lets go of it."""
        chosen = [m for m in self.held() if self.random.random() < 0.3]
        knot: list[Any] = [m.handle for m in chosen]
        knot.append(knot)
        for made in chosen:
            made.handle = None
        self.in_cycles.update(chosen)

    def collect(self) -> None:
        gc.collect()
        self.in_cycles.clear()

    def check(self) -> None:
        wanted: dict[str, int] = {}
        for made in self.alive():
            if made.open:
                wanted[made.kind] = wanted.get(made.kind, 0) + 1
        assert self.stub.live_objects() == wanted


@pytest.mark.parametrize("seed", SEEDS)
def test_random_lives_free_what_is_out_of_reach_and_nothing_else(ib: Any, stub: Stub, seed: int) -> None:
    model = Model(ib, stub, seed)
    gc.disable()
    try:
        for _ in range(300):
            act: Callable[[], None] = model.random.choices(
                [model.make, model.close, model.drop, model.tie, model.collect], [10, 3, 4, 0.3, 0.3]
            )[0]
            act()
            model.check()
        order = model.held()
        model.random.shuffle(order)
        for made in order:
            made.handle = None
            model.check()
        model.collect()
        model.check()
    finally:
        gc.enable()
    assert stub.live_objects() == {}


@pytest.mark.parametrize("seed", range(5))
def test_a_whole_tree_goes_in_one_collection(ib: Any, stub: Stub, seed: int) -> None:
    model = Model(ib, stub, seed)
    for _ in range(200):
        model.make()
    knot: list[Any] = [m.handle for m in model.all]
    model.random.shuffle(knot)
    knot.append(knot)
    del knot
    model.all.clear()
    assert stub.live() > 100
    gc.collect()
    assert stub.live_objects() == {}


def everything(rig: Rig) -> dict[str, Any]:
    """One open object of each kind, with the attributes that lead up from it."""
    channel = rig.ctx.create_comp_channel()
    cq = rig.ctx.create_cq(16, channel)
    shared = {} if rig.efa else {"srq": rig.pd.create_srq()}
    return {
        "ctx": rig.open(),
        "pd": rig.ctx.alloc_pd(),
        "mr": rig.pd.reg_mr(0x1000, 64, 1),
        "ah": rig.make_ah(),
        "qp": rig.make_qp(None, 0, send_cq=cq, recv_cq=rig.cq, **shared),
        **shared,
        "cq": cq,
        "channel": channel,
    }


ATTRIBUTES = {
    "ctx": ["async_fd"],
    "pd": [],
    "mr": ["addr", "length", "lkey", "rkey", "handle"],
    "ah": [],
    "qp": ["qp_num", "qp_type", "state"],
    "srq": [],
    "cq": ["cqe"],
    "channel": ["fd"],
}

METHODS: dict[str, dict[str, tuple[Any, ...]]] = {
    "ctx": {
        "alloc_pd": (), "create_cq": (4,), "create_comp_channel": (), "query_device": (), "query_port": (1,),
        "query_gid": (1, 0), "get_async_event": (0,),
    },
    "pd": {"reg_mr": (0, 1, 1), "reg_dmabuf_mr": (0, 1, 0, 0, 1), "create_srq": ()},
    "mr": {"sge": ()},
    "ah": {},
    "qp": {"query": (), "to_init": (1,), "to_rts": (1,), "modify": (1,), "post_send": ([],), "post_recv": ([],)},
    "srq": {"query": (), "modify": (1,), "post_recv": ([],)},
    "cq": {"poll": (1,), "req_notify": (), "ack_events": ()},
    "channel": {"get_cq_event": (0,)},
}  # fmt: skip

KIND_NAMES = {
    "ctx": "Context", "pd": "PD", "mr": "MR", "ah": "AH", "qp": "QP", "srq": "SRQ", "cq": "CQ",
    "channel": "CompChannel",
}  # fmt: skip


@pytest.mark.parametrize("which", KIND_NAMES)
def test_a_closed_object_raises_ebadf_naming_method_and_object(rig: Rig, which: str) -> None:
    objects = everything(rig)
    if which not in objects:
        pytest.skip("needs a package with shared receive queues")
    handle = objects[which]
    if which in ("cq", "srq", "channel"):
        objects["qp"].close()
    if which == "channel":
        objects["cq"].close()
    assert handle.closed is False
    assert isinstance(handle.ptr, int) and handle.ptr > 0
    handle.close()
    assert handle.closed is True
    calls = rig.stub.calls()
    for name, arguments in METHODS[which].items():
        if rig.efa and name == "create_srq":
            continue
        with pytest.raises(rig.Error) as caught:
            getattr(handle, name)(*arguments)
        error = caught.value
        assert error.errno == errno.EBADF, name
        assert error.operation == f"{KIND_NAMES[which]}.{name}"
        assert name in str(error) and KIND_NAMES[which] in str(error)
    for name in [*ATTRIBUTES[which], "ptr", "_as_parameter_"]:
        with pytest.raises(rig.Error) as caught:
            getattr(handle, name)
        assert caught.value.errno == errno.EBADF, name
        assert name in str(caught.value) and KIND_NAMES[which] in str(caught.value)
    with pytest.raises(rig.Error) as caught:
        with handle:
            pass
    assert caught.value.errno == errno.EBADF
    assert KIND_NAMES[which] in repr(handle) and "closed" in repr(handle)
    handle.close()
    assert rig.stub.calls() == calls, "something reached the library"


def test_the_way_up_works_on_closed_objects(rig: Rig) -> None:
    o = everything(rig)
    for name in ("qp", "cq", "srq", "channel", "mr", "ah", "pd"):
        if name in o:
            o[name].close()
    assert o["qp"].pd is rig.pd and o["qp"].send_cq is o["cq"] and o["qp"].recv_cq is rig.cq
    assert o["cq"].context is rig.ctx and o["cq"].channel is o["channel"] and rig.cq.channel is None
    assert o["channel"].context is rig.ctx and o["pd"].context is rig.ctx
    assert o["mr"].pd is rig.pd and o["ah"].pd is rig.pd
    if not rig.efa:
        assert o["srq"].pd is rig.pd and o["qp"].srq is o["srq"]
    assert o["mr"].owner is None


def test_parents_refuse_to_close_and_say_which_children_are_open(rig: Rig) -> None:
    ib = rig.ib
    ctx = rig.keep(open_device(ib))
    pd, pd2 = ctx.alloc_pd(), ctx.alloc_pd()
    channel = ctx.create_comp_channel()
    cqs = [ctx.create_cq(4, channel) for _ in range(3)]
    mrs = [pd.reg_mr(0, 1, 1) for _ in range(4)]
    shared = {} if rig.efa else {"srq": pd.create_srq()}
    qps = [pd.create_qp(ib.QPInitAttr(cqs[0], cqs[1], **shared)) for _ in range(2)]
    ah = some_ah(ib, pd)
    for parent, words in (
        (ctx, ["2 PD", "3 CQ", "1 CompChannel"]),
        (pd, ["4 MR", "2 QP", "1 AH"] + [f"1 {name.upper()}" for name in shared]),
        (channel, ["3 CQ"]),
        *((srq, ["2 QP"]) for srq in shared.values()),
        (cqs[0], ["2 QP"]),
        (cqs[1], ["2 QP"]),
    ):
        before = rig.stub.calls()
        with pytest.raises(error_of(ib)) as caught:
            parent.close()
        assert caught.value.errno == errno.EBUSY
        for part in words:
            assert part in str(caught.value), str(caught.value)
        assert not parent.closed and rig.stub.calls() == before
    for child in [*qps, *shared.values(), ah, *mrs, *cqs, channel, pd, pd2, ctx]:
        child.close()


def test_with_closes_even_when_the_body_raises(rig: Rig) -> None:
    with pytest.raises(ZeroDivisionError):
        with rig.ctx.alloc_pd() as pd:
            assert not pd.closed
            raise ZeroDivisionError
    assert pd.closed
    with rig.ctx.alloc_pd() as pd:
        pd.close()
    assert pd.closed


def test_with_does_not_hide_the_bodys_error_behind_that_of_close(rig: Rig) -> None:
    with pytest.raises(rig.Error) as caught:
        with rig.ctx.alloc_pd() as pd:
            mr = pd.reg_mr(0, 1, 1)
            raise ZeroDivisionError
    assert caught.value.errno == errno.EBUSY and isinstance(caught.value.__context__, ZeroDivisionError)
    mr.close()
    pd.close()


def test_children_keep_their_parents(rig: Rig) -> None:
    ib, stub = rig.ib, rig.stub
    base = stub.live()
    ctx = open_device(ib)
    pd = ctx.alloc_pd()
    cq = ctx.create_cq(4, ctx.create_comp_channel())
    qp = pd.create_qp(ib.QPInitAttr(cq, cq, **({} if rig.efa else {"srq": pd.create_srq()})))
    del ctx, pd, cq
    gc.collect()
    assert stub.live() == base + (5 if rig.efa else 6)
    assert qp.send_cq.channel.context.query_port(1).state == 4
    del qp
    assert stub.live() == base


def test_values_keep_what_they_name(rig: Rig) -> None:
    ib, stub = rig.ib, rig.stub
    sge = rig.pd.reg_mr(0x1000, 64, 1).sge()
    w = ib.SendWR(sg_list=[sge], ah=rig.make_ah())
    shared = 0 if rig.efa else 1
    attr = ib.QPInitAttr(
        rig.ctx.create_cq(4), rig.ctx.create_cq(4), **({"srq": rig.pd.create_srq()} if shared else {})
    )
    gc.collect()
    assert (stub.live("mr"), stub.live("ah"), stub.live("cq"), stub.live("srq")) == (2, 1, 3, shared)
    del sge
    assert stub.live("mr") == 2
    del w
    assert (stub.live("mr"), stub.live("ah")) == (1, 0)
    del attr
    assert (stub.live("cq"), stub.live("srq")) == (1, 0)


def test_cycles_through_values_are_collected(rig: Rig) -> None:
    ib, stub = rig.ib, rig.stub
    mr = rig.pd.reg_mr(0x1000, 64, 1)
    w = ib.SendWR(sg_list=[mr.sge()], ah=rig.make_ah())
    w.sg_list.append(w)
    r = ib.RecvWR(sg_list=[mr.sge()])
    r.sg_list.append([r, w])

    class Region:
        addr, length, lkey = 1, 2, 3

    region = Region()
    region.sge = ib.SGE(region, 1)  # type: ignore[attr-defined]
    ref = weakref.ref(region)
    attr = ib.QPInitAttr(rig.ctx.create_cq(4), rig.cq)
    attr.send_cq, attr.recv_cq = attr, attr.send_cq
    del mr, w, r, region, attr
    gc.collect()
    assert ref() is None
    assert (stub.live("mr"), stub.live("ah"), stub.live("cq")) == (1, 0, 1)


def test_an_exception_with_its_traceback_keeps_no_handle_for_good(rig: Rig) -> None:
    def failing() -> None:
        mr = rig.pd.reg_mr(0x1000, 64, 1)
        rig.qp(max_send_sge=1).post_send(rig.wr(sg_list=[mr.sge()] * 2))

    with contextlib.suppress(ValueError):
        failing()
    gc.collect()
    assert rig.stub.live("mr") == 1


class Memory:
    """Owns memory, and tells when it goes."""

    def __init__(self, gone: Callable[[], None]) -> None:
        self.gone = gone

    def __del__(self) -> None:
        self.gone()


@pytest.mark.parametrize("how", ["close", "drop"])
def test_the_owner_of_memory_goes_after_the_registration(rig: Rig, how: str) -> None:
    order: list[int] = []
    before = rig.stub.live("mr")
    mr = rig.pd.reg_mr(0x1000, 64, 1, owner=Memory(lambda: order.append(rig.stub.live("mr"))))
    assert isinstance(mr.owner, Memory) and not order
    if how == "close":
        mr.close()
        assert mr.owner is None
    else:
        del mr
    assert order == [before], "the memory was let go while it was registered"


@pytest.mark.parametrize("wrapped", [False, True])
def test_memory_registered_by_somebody_elses_pd_goes_after_the_registration(rig: Rig, wrapped: bool) -> None:
    class Wrapper:
        """A region around one of ours, or a domain that returns such."""

        def __init__(self, mr: Any = None) -> None:
            self.mr = mr

        def reg_mr(self, addr: int, length: int, access: int) -> Any:
            mr = rig.pd.reg_mr(addr, length, access)
            return Wrapper(mr) if wrapped else mr

    class Tensor(Memory):
        nbytes = 16

        def data_ptr(self) -> int:
            return 0x1000

    live: list[int] = []
    before = rig.stub.live("mr")
    region = rig.ib.reg_tensor(Wrapper(), Tensor(lambda: live.append(rig.stub.live("mr"))), 1)
    gc.collect()
    assert not live and isinstance((region.mr if wrapped else region).owner, Tensor)
    del region
    assert live == [before], "the memory was let go while it was registered"


def test_a_region_keeps_what_it_was_made_with(rig: Rig) -> None:
    class Wrapper:
        def reg_mr(self, addr: int, length: int, access: int) -> Any:
            return rig.pd.reg_mr(addr, length, access, owner=self)

    data, domain = bytearray(16), Wrapper()
    mr = rig.ib.reg_tensor(domain, data, 1)
    assert mr.owner is domain
    with pytest.raises(BufferError):
        data.append(1)
    mr.close()
    with pytest.raises(rig.Error, match="closed"):
        mr._keep(1, 2)
    del mr
    data.append(1)


def test_an_owner_that_holds_its_registration_is_collected(rig: Rig) -> None:
    memory = Memory(lambda: None)
    memory.mr = rig.pd.reg_mr(0x1000, 64, 1, owner=memory)  # type: ignore[attr-defined]
    ref = weakref.ref(memory)
    del memory
    gc.collect()
    assert ref() is None and rig.stub.live("mr") == 1


_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)


def _owner_in_a_cycle(kind: str, pd: Any, gone: Callable[[], None]) -> Any:
    """Garbage: an owner that holds its memory in a field, and the region of that memory.

    The memory is nothing that the collector knows, as an array's: it goes when the field is cleared. Returns what has
    to live as long.
    """
    destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(lambda _: gone())
    memory = _capsule(1, None, ctypes.cast(destructor, ctypes.c_void_p))
    assert not gc.is_tracked(memory)
    if kind == "list":
        owner: Any = [memory]
        owner.append(pd.reg_mr(0x1000, 64, 1, owner=owner))
        return destructor
    owner = type("Owner", (), {"__slots__": ("memory", "mr")} if kind == "slots" else {})()
    owner.memory = memory
    owner.mr = pd.reg_mr(0x1000, 64, 1, owner=owner)
    return destructor


@pytest.mark.parametrize("kind", ["instance", "slots", "list"])
def test_what_an_owner_in_a_cycle_holds_goes_after_the_registration(rig: Rig, kind: str) -> None:
    live: list[int] = []
    before = rig.stub.live("mr")
    kept = _owner_in_a_cycle(kind, rig.pd, lambda: live.append(rig.stub.live("mr")))
    gc.collect()
    assert live == [before] and kept, "the memory was let go while it was registered"


@pytest.mark.parametrize("kind", ["instance", "slots", "list"])
def test_what_an_owner_in_a_cycle_holds_stays_where_the_registration_cannot_be_ended(
    rig: Rig, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda info: told.append(str(info.exc_value)))
    pointers: list[int] = []
    gone: list[int] = []

    class PD:
        def reg_mr(self, *args: Any, **kwargs: Any) -> Any:
            mr = rig.pd.reg_mr(*args, **kwargs)
            pointers.append(mr.ptr)
            return mr

    kept = _owner_in_a_cycle(kind, PD(), lambda: gone.append(1))
    rig.stub.fail("dereg_mr", errno.EBUSY)
    gc.collect()
    gc.collect()
    assert kept and not gone and len(told) == 1 and "ibv_dereg_mr" in told[0]
    function = rig.stub.lib.ibv_dereg_mr
    function.argtypes = [ctypes.c_void_p]
    assert function(pointers[0]) == 0


def test_a_region_that_del_brings_back_from_a_cycle_is_closed(rig: Rig) -> None:
    back: list[Any] = []

    class Owner:
        def __del__(self) -> None:
            back.append(self)

    owner: Any = Owner()
    owner.mr = rig.pd.reg_mr(0x1000, 64, 1, owner=owner)
    before = rig.stub.live("mr")
    del owner
    gc.collect()
    (owner,) = back
    assert owner.mr.closed and owner.mr.owner is None and rig.stub.live("mr") == before - 1
    with pytest.raises(rig.Error) as caught:
        owner.mr.sge(1)
    assert caught.value.errno == errno.EBADF
    owner.mr.close()


def test_a_region_that_a_thread_closes_is_left_to_it_by_the_collector(rig: Rig) -> None:
    """A ``__del__`` gave it to the thread, and the collector comes to it next."""
    threads: list[threading.Thread] = []

    class Owner:
        mr: Any

        def __del__(self) -> None:
            threads.append(threading.Thread(target=self.mr.close))
            threads[0].start()
            deadline = time.monotonic() + 10
            while not rig.stub.inside("dereg_mr") and time.monotonic() < deadline:
                time.sleep(0.001)

    gc.disable()  # of one age, they come in the order in which they were made; else the collector could close it itself
    try:
        owner = Owner()
        owner.mr = rig.pd.reg_mr(0x1000, 64, 1, owner=owner)
        live, calls = rig.stub.live("mr"), rig.stub.calls("dereg_mr")
        rig.stub.close_gate("dereg_mr")
        del owner
        gc.collect()
    finally:
        gc.enable()
        rig.stub.open_gate("dereg_mr")
    threads[0].join()
    assert rig.stub.live("mr") == live - 1 and rig.stub.calls("dereg_mr") == calls + 1


def test_memory_whose_registration_could_not_be_ended_is_not_freed(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device may still write there."""
    monkeypatch.setattr(sys, "unraisablehook", lambda info: None)
    owner: Any = type("Owner", (), {})()
    mr: Any = rig.pd.reg_mr(0x1000, 64, 1, owner)
    pointer, freed = mr.ptr, weakref.ref(owner)
    rig.stub.fail("dereg_mr", errno.EBUSY)
    del mr, owner
    gc.collect()
    assert freed() is not None
    function = rig.stub.lib.ibv_dereg_mr
    function.argtypes = [ctypes.c_void_p]
    assert function(pointer) == 0


def test_a_long_chain_of_regions_that_own_each_other_ends_without_recursion(rig: Rig) -> None:
    mr: Any = None
    for _ in range(100_000):
        mr = rig.pd.reg_mr(0x1000, 16, 1, mr)
    del mr
    assert rig.stub.live("mr") == 1  # the rig's own


def test_a_failed_registration_keeps_no_owner(rig: Rig) -> None:
    gone: list[int] = []
    rig.stub.fail("reg_mr_iova2", errno.EFAULT)
    with pytest.raises(rig.Error):
        rig.pd.reg_mr(0x1000, 64, 1, owner=Memory(lambda: gone.append(1)))
    gc.collect()
    assert gone == [1]


DESTROYS: dict[str, tuple[str, Callable[[Rig], Any]]] = {
    "mr": ("dereg_mr", lambda r: r.pd.reg_mr(0x1000, 64, 1)),
    "ah": ("destroy_ah", lambda r: r.make_ah()),
    "qp": ("destroy_qp", lambda r: r.make_qp(UD, 0)),
    "srq": ("destroy_srq", lambda r: r.pd.create_srq()),
    "cq": ("destroy_cq", lambda r: r.ctx.create_cq(4)),
    "channel": ("destroy_comp_channel", lambda r: r.ctx.create_comp_channel()),
    "pd": ("dealloc_pd", lambda r: r.ctx.alloc_pd()),
    "context": ("close_device", lambda r: r.open()),
}


@pytest.mark.parametrize("kind", DESTROYS)
@pytest.mark.parametrize("err", [errno.EBUSY, errno.EIO, -errno.EIO])
def test_a_failed_destroy_is_raised_by_close_and_the_object_stays_open(rig: Rig, kind: str, err: int) -> None:
    if rig.efa and kind == "srq":
        pytest.skip("needs a package with shared receive queues")
    verb, make = DESTROYS[kind]
    handle = make(rig)
    rig.stub.fail(verb, abs(err) if kind == "context" else err)
    with pytest.raises(rig.Error) as caught:
        handle.close()
    assert (caught.value.errno, caught.value.operation) == (abs(err), f"ibv_{verb}")
    assert not handle.closed and handle.ptr
    assert rig.stub.live(kind) == (1 if kind in ("ah", "qp", "srq", "channel") else 2)
    if kind == "channel":
        assert handle.get_cq_event(timeout=0) is None
    elif kind == "context":
        assert handle.get_async_event(timeout=0) is None and handle.query_port(1).state == 4
    handle.close()
    assert handle.closed


@pytest.mark.parametrize("kind", DESTROYS)
@pytest.mark.parametrize("how", ["drop", "cycle"])
def test_a_failed_destroy_of_a_dropped_object_goes_to_unraisablehook(
    rig: Rig, kind: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if rig.efa and kind == "srq":
        pytest.skip("needs a package with shared receive queues")
    verb, make = DESTROYS[kind]
    handle = make(rig)
    pointer = handle.ptr
    told: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda info: told.append((type(info.exc_value), str(info.exc_value))))
    rig.stub.fail(verb, errno.EIO)
    if how == "cycle":
        knot: list[Any] = [handle]
        knot.append(knot)
        del knot
    del handle
    gc.collect()
    monkeypatch.undo()
    assert len(told) == 1
    kind_of_error, words = told[0]
    assert issubclass(kind_of_error, OSError) and f"ibv_{verb}" in words
    # It is the library's now; take it away by hand, so that its parents can go.
    function = getattr(rig.stub.lib, f"ibv_{verb}")
    function.argtypes = [ctypes.c_void_p]
    assert function(pointer) == 0


def test_a_dropped_object_makes_no_noise(rig: Rig, recwarn: Any) -> None:
    everything(rig)
    gc.collect()
    assert not list(recwarn)


def test_handles_can_be_weakly_referenced(rig: Rig) -> None:
    o = everything(rig)
    refs = {name: weakref.ref(handle) for name, handle in o.items()}
    for name, ref in refs.items():
        assert ref() is o[name]
    o.clear()
    gc.collect()
    assert all(ref() is None for ref in refs.values())


def test_handles_pass_to_ctypes_as_they_are(rig: Rig) -> None:
    for name, handle in everything(rig).items():
        parameter = handle._as_parameter_
        assert isinstance(parameter, ctypes.c_void_p) and parameter.value == handle.ptr, name
    identity = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda p: p)
    assert identity(rig.mr) == rig.mr.ptr


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident_kb() -> int:
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def one_round(rig: Rig, close: bool) -> None:
    ib = rig.ib
    ctx = open_device(ib)
    pd = ctx.alloc_pd()
    channel = ctx.create_comp_channel()
    cq = ctx.create_cq(16, channel)
    mr = pd.reg_mr(0x1000, 4096, 1)
    shared = {} if rig.efa else {"srq": pd.create_srq()}
    qp = pd.create_qp(ib.QPInitAttr(cq, cq, **shared))
    ah = some_ah(ib, pd)
    rig.stub.push_wc(cq, wr_id=1)
    rig.stub.push_cq_event(cq)
    rig.stub.raise_event(ctx, 1, qp)
    assert channel.get_cq_event(timeout=1) is cq
    cq.ack_events()
    assert ctx.get_async_event(timeout=1).qp is qp
    assert [wc.wr_id for wc in cq.poll(4)] == [1]
    assert cq.wait(4, 0.00001, None) == []
    rig.stub.push_cq_event(cq)
    rig.stub.raise_event(ctx, 1, qp)
    if close:
        for handle in (ah, qp, *shared.values(), mr, cq, channel, pd, ctx):
            handle.close()


@pytest.mark.parametrize("close", [True, False])
def test_thousands_of_rounds_leave_memory_and_descriptors_flat(rig: Rig, close: bool) -> None:
    rounds = int(os.environ.get("RDMA_TEST_ROUNDS", "2000"))
    for _ in range(rounds // 4):
        one_round(rig, close)
    gc.collect()
    descriptors, memory, objects = open_descriptors(), resident_kb(), len(gc.get_objects())
    blocks = sys.getallocatedblocks()
    for _ in range(rounds):
        one_round(rig, close)
    gc.collect()
    assert open_descriptors() == descriptors
    assert len(gc.get_objects()) <= objects + 20
    assert sys.getallocatedblocks() <= blocks + 200
    if not hasattr(ctypes.CDLL(None), "__asan_init"):  # which keeps what was freed
        assert resident_kb() <= memory + 1024
