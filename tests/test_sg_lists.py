# SPDX-License-Identifier: BSD-3-Clause
"""What a request keeps of its entries: a list to whoever looks, while a single entry is kept without one until then."""

from __future__ import annotations

import contextlib
import errno
import gc
import sys
import threading
import tracemalloc
import weakref
from collections.abc import Iterator
from typing import Any, Callable

import pytest
from stub_fixtures import Rig

pytestmark = pytest.mark.needs("stub")

ENTRY, OTHER = (0x1000, 16, 7), (0x2000, 32, 8)

Kind = Callable[..., Any]


@pytest.fixture(params=["SendWR", "RecvWR"])
def kind(rig: Rig, request: pytest.FixtureRequest) -> Kind:
    """A request with these entries, of which nobody has read the list."""
    if request.param == "SendWR":
        return lambda entries: rig.wr(sg_list=entries)
    return lambda entries: rig.ib.RecvWR(1, entries)


def posted(rig: Rig, qp: Any, wr: Any) -> list[tuple[int, int, int]]:
    """The entries that the library was given."""
    rig.stub.capture()
    (qp.post_recv if isinstance(wr, rig.ib.RecvWR) else qp.post_send)(wr)
    (given,) = rig.stub.captured()
    rig.drain()
    return given.sges


def traced(make: Callable[[], list[Any]]) -> int:
    """The bytes that are allocated for what is made; it is made once before, so that nothing else is."""
    del make()[:]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = make()
        return tracemalloc.get_traced_memory()[0] - before - sys.getsizeof(kept)
    finally:
        tracemalloc.stop()


def test_a_single_entry_takes_no_memory_for_a_list(rig: Rig, kind: Kind) -> None:
    entries = [rig.ib.SGE(*ENTRY)]
    without = traced(lambda: [kind(None) for _ in range(100)])
    assert traced(lambda: [kind(entries) for _ in range(100)]) == without
    assert traced(lambda: [kind(entries * 2) for _ in range(100)]) > without


@pytest.mark.parametrize("make", [list, tuple, iter, lambda x: (e for e in x), type("Sub", (list,), {})])
def test_one_entry_is_posted_and_read_alike_whatever_it_came_in(rig: Rig, kind: Kind, make: Any) -> None:
    qp, sge = rig.qp(), rig.ib.SGE(*ENTRY)
    wr = kind(make([sge]))
    assert posted(rig, qp, wr) == [ENTRY]
    read = wr.sg_list
    assert type(read) is list and read == [sge] and read[0] is sge
    assert posted(rig, qp, wr) == [ENTRY]


@pytest.mark.parametrize("none", [None, [], ()])
def test_no_entry_is_a_list_too(rig: Rig, kind: Kind, none: Any) -> None:
    wr = kind(none)
    read = wr.sg_list
    assert type(read) is list and read == [] and wr.sg_list is read
    read.append(rig.ib.SGE(*ENTRY))
    assert posted(rig, rig.qp(), wr) == [ENTRY]


@pytest.mark.parametrize("first_post", [False, True])
def test_the_list_is_the_same_on_each_read_and_its_changes_count(rig: Rig, kind: Kind, first_post: bool) -> None:
    qp, wr = rig.qp(), kind([rig.ib.SGE(*ENTRY)])
    if first_post:
        assert posted(rig, qp, wr) == [ENTRY]
    read = wr.sg_list
    assert wr.sg_list is read
    read.append(rig.ib.SGE(*OTHER))
    assert posted(rig, qp, wr) == [ENTRY, OTHER]
    del read[0]
    assert posted(rig, qp, wr) == [OTHER]
    assert wr.sg_list is read


def test_a_change_of_the_entry_counts_whether_or_not_the_list_was_read(rig: Rig, kind: Kind) -> None:
    qp, sge = rig.qp(), rig.ib.SGE(*ENTRY)
    wr = kind([sge])
    sge.addr, sge.length, sge.lkey = OTHER
    assert posted(rig, qp, wr) == [OTHER]
    wr.sg_list[0].length = 1
    assert sge.length == 1 and posted(rig, qp, wr)[0][1] == 1


def test_the_list_that_a_request_was_made_from_is_not_its_own(rig: Rig, kind: Kind) -> None:
    entries = [rig.ib.SGE(*ENTRY)]
    wr, other = kind(entries), kind(entries)
    entries[0] = rig.ib.SGE(*OTHER)
    entries.clear()
    assert posted(rig, rig.qp(), wr) == [ENTRY]
    assert wr.sg_list is not entries and wr.sg_list is not other.sg_list
    assert wr.sg_list == other.sg_list


def test_a_repr_shows_the_entry_and_changes_nothing(rig: Rig, kind: Kind) -> None:
    qp, wr = rig.qp(), kind([rig.ib.SGE(*ENTRY)])
    assert "[SGE(0x1000, 16, 0x7)]" in repr(wr) and repr(wr) == repr(wr)
    assert posted(rig, qp, wr) == [ENTRY]


def test_an_entry_of_a_derived_class_is_posted_and_read(rig: Rig, kind: Kind) -> None:
    class Piece(rig.ib.SGE):  # type: ignore[misc, name-defined]
        def __eq__(self, other: object) -> bool:
            raise AssertionError("nobody has to compare entries")

    piece = Piece(*ENTRY)
    wr = kind([piece])
    assert posted(rig, rig.qp(), wr) == [ENTRY]
    assert wr.sg_list[0] is piece


@pytest.mark.parametrize("read", [False, True])
def test_an_entry_may_change_its_class(rig: Rig, kind: Kind, read: bool) -> None:
    class Piece(rig.ib.SGE):  # type: ignore[misc, name-defined]
        __slots__ = ()

    qp, sge = rig.qp(), rig.ib.SGE(*ENTRY)
    wr = kind([sge])
    if read:
        assert wr.sg_list == [sge]
    sge.__class__ = Piece
    assert posted(rig, qp, wr) == [ENTRY]
    assert wr.sg_list[0] is sge and repr(wr).count("SGE(") == 1
    assert posted(rig, qp, wr) == [ENTRY]


@pytest.mark.parametrize("read", [False, True])
def test_a_closed_region_is_told_with_its_place(rig: Rig, kind: Kind, read: bool) -> None:
    mr = rig.pd.reg_mr(0x1000, 64, rig.ib.AccessFlags.LOCAL_WRITE)
    wr = kind([mr.sge()])
    if read:
        assert len(wr.sg_list) == 1
    mr.close()
    with pytest.raises(rig.Error, match=r"request 0: sg_list\[0\] is in .*MR") as caught:
        posted(rig, rig.qp(), wr)
    assert caught.value.errno == errno.EBADF and caught.value.index == 0


def test_entries_are_held_once_and_let_go(rig: Rig, kind: Kind) -> None:
    sge = rig.ib.SGE(*ENTRY)
    entries = [sge]
    before = sys.getrefcount(sge)
    wr = kind(entries)
    assert sys.getrefcount(sge) == before + 1
    posted(rig, rig.qp(), wr)
    assert sys.getrefcount(sge) == before + 1
    read = wr.sg_list
    assert sys.getrefcount(sge) == before + 1
    wr.sg_list = []
    assert sys.getrefcount(sge) == before + 1
    del read
    assert sys.getrefcount(sge) == before
    for _ in range(100):
        kind(entries)
        kind(entries).sg_list.append(None)
        kind(entries).sg_list = entries
    assert sys.getrefcount(sge) == before


@pytest.mark.parametrize("read", [False, True])
def test_a_cycle_through_a_single_entry_is_collected(rig: Rig, kind: Kind, read: bool) -> None:
    class Region:
        addr, length, lkey = ENTRY
        held: Any = None

    region = Region()
    region.held = kind([rig.ib.SGE(region, 1)])
    if read:
        assert len(region.held.sg_list) == 1
    ref = weakref.ref(region)
    del region
    gc.collect()
    assert ref() is None


def test_the_collector_sees_what_a_request_holds(rig: Rig, kind: Kind) -> None:
    sge = rig.ib.SGE(*ENTRY)
    wr = kind([sge])
    assert any(found is sge for found in gc.get_referents(wr))
    read = wr.sg_list
    assert any(found is read for found in gc.get_referents(wr))
    assert not any(found is sge for found in gc.get_referents(wr))


@contextlib.contextmanager
def at_each_collection(run: Callable[[], None]) -> Iterator[None]:
    """Runs code at nearly every other allocation of a container: in the midst of a call, before CPython 3.12."""

    def callback(phase: str, info: Any) -> None:
        if phase == "start":
            run()

    spare = [[] for _ in range(200)]  # type: ignore[var-annotated]  # those that the interpreter keeps for new lists
    old = gc.get_threshold()
    gc.callbacks.append(callback)
    gc.set_threshold(1)
    try:
        yield
    finally:
        gc.set_threshold(*old)
        gc.callbacks.remove(callback)
        del spare


class Reading:
    """Reads the lists of requests, each for the first time, and does something to the request in the midst of that."""

    def __init__(self, act: Callable[[Any], None]) -> None:
        self.act, self.wr, self.times = act, None, 0

    def interrupt(self) -> None:
        if self.wr is not None:
            wr, self.wr = self.wr, None
            self.times += 1
            self.act(wr)

    def lists(self, wrs: list[Any]) -> list[Any]:
        read: list[Any] = []
        with at_each_collection(self.interrupt):
            for wr in wrs:
                self.wr = wr
                read.append(wr.sg_list)
        self.wr = None
        assert self.times > 1 or sys.version_info >= (3, 12), "the collector did not come in between"
        return read


@pytest.mark.parametrize("entries", [1, 0])
def test_code_that_reads_the_list_while_it_is_made_gets_the_same_one(rig: Rig, kind: Kind, entries: int) -> None:
    made = [rig.ib.SGE(*ENTRY)] if entries else None
    wrs = [kind(made) for _ in range(20)]
    seen: dict[int, Any] = {}
    read = Reading(lambda wr: seen.update({id(wr): wr.sg_list})).lists(wrs)
    for wr, found in zip(wrs, read):
        assert found == (made or [])
        assert wr.sg_list is found and seen.get(id(wr), found) is found


def test_code_that_sets_the_list_while_it_is_made_is_not_undone(rig: Rig, kind: Kind) -> None:
    entries, mine, qp = [rig.ib.SGE(*ENTRY)], [rig.ib.SGE(*OTHER)], rig.qp()
    wrs = [kind(entries) for _ in range(20)]
    changed: list[Any] = []

    def change(wr: Any) -> None:
        wr.sg_list = mine
        changed.append(wr)

    read = Reading(change).lists(wrs)
    for wr, found in zip(wrs, read):
        if wr in changed:
            assert wr.sg_list is mine and posted(rig, qp, wr) == [OTHER]
        else:
            assert wr.sg_list is found and posted(rig, qp, wr) == [ENTRY]


def test_threads_that_read_a_list_first_get_the_same_one(rig: Rig, kind: Kind) -> None:
    rounds, readers = 200, 4
    wrs = [kind([rig.ib.SGE(*ENTRY)]) for _ in range(rounds)]
    seen: list[list[Any]] = [[] for _ in range(readers)]
    start = threading.Barrier(readers)

    def read(mine: list[Any]) -> None:
        start.wait()
        mine.extend(wr.sg_list for wr in wrs)

    threads = [threading.Thread(target=read, args=(mine,)) for mine in seen]
    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(old)
    for lists in zip(*seen):
        assert all(one is lists[0] for one in lists)


def test_a_list_may_be_read_and_changed_while_another_thread_posts(rig: Rig, kind: Kind) -> None:
    """Each post sees the entry, no entry or both, and never anything between."""
    qp, first, second = rig.qp(), rig.ib.SGE(*ENTRY), rig.ib.SGE(*OTHER)
    wrs = [kind([first]) for _ in range(300)]
    done = threading.Event()

    def change() -> None:
        for wr in wrs:
            wr.sg_list.append(second)
        done.set()

    thread = threading.Thread(target=change)
    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    counts = set()
    try:
        thread.start()
        while not done.is_set():
            for wr in wrs[:8]:
                counts.add(tuple(posted(rig, qp, wr)))
    finally:
        sys.setswitchinterval(old)
        thread.join()
    assert counts <= {(ENTRY,), (ENTRY, OTHER)}
    assert {tuple(posted(rig, qp, wr)) for wr in wrs} == {(ENTRY, OTHER)}
