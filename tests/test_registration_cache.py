# SPDX-License-Identifier: BSD-3-Clause
"""Registrations that are kept: what hits, what is registered anew, what is dropped, on the host and on a GPU."""

from __future__ import annotations

import ctypes
import errno
import gc
import os
import signal
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from cuda_control import DeviceTensor, Driver
from cuda_fixtures import Recorder
from hypothesis import given
from hypothesis import strategies as st
from packages import error_of
from stub_fixtures import examples

MIB = 1 << 20
ACCESS = 1


@pytest.fixture
def cache(ib: Any, recorder: Recorder) -> Iterator[Any]:
    with ib.RegistrationCache(recorder, ACCESS) as cache:
        yield cache


def counts(cache: Any) -> tuple[int, int, int, int]:
    s = cache.statistics
    return s.hits, s.misses, s.stale, s.entries


# ---- on a GPU ------------------------------------------------------------------------------------------------------


def test_every_tensor_of_an_allocation_uses_one_registration(cache: Any, driver: Driver, recorder: Recorder) -> None:
    base = driver.alloc(4 * MIB)
    for offset, length in ((0, 100), (100, 5000), (MIB + 7, MIB), (0, 4 * MIB)):
        sge = cache.sge(DeviceTensor(base + offset, length))
        assert (sge.addr, sge.length) == (base + offset, length)
    assert recorder.exports == [(0, 4 * MIB, base, ACCESS)]
    assert counts(cache) == (3, 1, 0, 1)
    assert cache.statistics.bytes == 4 * MIB


def test_mappings_are_registered_from_the_first_to_the_last_under_the_tensor(
    cache: Any, driver: Driver, recorder: Recorder
) -> None:
    base = driver.reserve(20 * MIB)
    for i in range(4):
        driver.map(base + i * 2 * MIB, 2 * MIB)
    cache.sge(DeviceTensor(base + 3 * MIB, 2 * MIB))
    assert recorder.exports == [(0, 4 * MIB, base + 2 * MIB, ACCESS)]
    cache.sge(DeviceTensor(base + 2 * MIB, 100))
    assert counts(cache)[:2] == (1, 1)
    cache.sge(DeviceTensor(base, 3 * MIB))  # reaches out of it: the wider one takes its place
    assert counts(cache) == (1, 2, 0, 1)


def test_memory_that_was_freed_and_allocated_anew_at_its_address_is_not_taken_for_the_old(
    cache: Any, driver: Driver, recorder: Recorder
) -> None:
    base = driver.reserve(4 * MIB)
    driver.map(base, 2 * MIB)
    first = cache.region(DeviceTensor(base, 100))
    driver.free(base)
    driver.map(base, 2 * MIB)
    second = cache.region(DeviceTensor(base, 100))
    assert second is not first
    assert counts(cache) == (0, 2, 1, 1)


def test_a_mapping_in_the_middle_that_was_mapped_anew_is_noticed(cache: Any, driver: Driver) -> None:
    base = driver.reserve(20 * MIB)
    for i in range(3):
        driver.map(base + i * 2 * MIB, 2 * MIB)
    whole = DeviceTensor(base, 6 * MIB)
    first = cache.region(whole)
    driver.free(base + 2 * MIB)
    driver.map(base + 2 * MIB, 2 * MIB)
    assert cache.region(DeviceTensor(base, 10)) is not first
    assert cache.statistics.stale == 1


def test_memory_that_was_freed_is_refused_and_its_entry_dropped(cache: Any, driver: Driver) -> None:
    base = driver.alloc(MIB)
    cache.region(DeviceTensor(base, 100))
    driver.free(base)
    with pytest.raises(ValueError, match="freed"):
        cache.region(DeviceTensor(base, 100))
    assert counts(cache) == (0, 1, 1, 0)


def test_a_dropped_registration_lives_as_long_as_an_sge_uses_it(cache: Any, driver: Driver) -> None:
    base = driver.alloc(MIB)
    sge = cache.sge(DeviceTensor(base, 100))
    region = weakref.ref(sge.owner)
    assert cache.purge() == 1
    gc.collect()
    assert not region().closed
    del sge
    gc.collect()
    assert region() is None


def test_where_the_whole_allocation_does_not_fit_the_tensor_is_registered(
    cache: Any, driver: Driver, recorder: Recorder
) -> None:
    base = driver.alloc(4 * MIB)
    recorder.refuse_export = [OSError(errno.ENOMEM, "BAR1 is full")]
    recorder.refuse_plain = [OSError(errno.EFAULT, "Bad address")]
    region = cache.region(DeviceTensor(base + MIB, 4096))
    assert (region.addr, region.length) == (base + MIB, 4096)
    assert counts(cache) == (0, 1, 0, 1)


def test_an_allocation_above_the_bound_of_a_region_is_not_registered_whole(
    ib: Any, driver: Driver, recorder: Recorder
) -> None:
    base = driver.alloc(4 * MIB)
    with ib.RegistrationCache(recorder, ACCESS, max_region=MIB) as cache:
        assert cache.region(DeviceTensor(base + 4096, 4096)).length == 4096
        assert cache.region(DeviceTensor(base, 2 * MIB)).length == 2 * MIB
        assert (cache.statistics.uncached, cache.statistics.entries) == (1, 1)


def test_the_least_recently_used_goes_first(ib: Any, driver: Driver, recorder: Recorder) -> None:
    bases = [driver.alloc(MIB) for _ in range(4)]
    with ib.RegistrationCache(recorder, ACCESS, max_count=3) as cache:
        for base in (*bases[:3], bases[0], bases[3]):
            cache.region(DeviceTensor(base, 100))
        assert cache.statistics.evicted == 1
        hits = cache.statistics.hits
        for base in (bases[0], bases[2], bases[3]):
            cache.region(DeviceTensor(base, 100))
        assert cache.statistics.hits == hits + 3
        cache.region(DeviceTensor(bases[1], 100))
        assert cache.statistics.hits == hits + 3


def test_a_bound_in_bytes_holds(ib: Any, driver: Driver, recorder: Recorder) -> None:
    with ib.RegistrationCache(recorder, ACCESS, max_bytes=2 * MIB) as cache:
        for _ in range(5):
            cache.region(DeviceTensor(driver.alloc(MIB), 100))
            assert cache.statistics.bytes <= 2 * MIB
        cache.region(DeviceTensor(driver.alloc(3 * MIB), 3 * MIB))  # fits nowhere: registered, not kept
        assert (cache.statistics.uncached, cache.statistics.bytes) == (1, 2 * MIB)


def test_what_cannot_be_registered_leaves_the_cache_as_it_was(cache: Any, driver: Driver, recorder: Recorder) -> None:
    base = driver.alloc(MIB)
    cache.region(DeviceTensor(base, 100))
    before = counts(cache)
    recorder.refuse_export = [OSError(errno.ENOMEM, "no")] * 2
    recorder.refuse_plain = [OSError(errno.EFAULT, "no")] * 2
    with pytest.raises(RuntimeError):
        cache.region(DeviceTensor(driver.alloc(MIB), 100))
    assert (counts(cache)[0], counts(cache)[3]) == (before[0], before[3])


# ---- on the host ---------------------------------------------------------------------------------------------------


@pytest.fixture
def host_cache(ib: Any, gpu_pd: Any) -> Iterator[Any]:
    with ib.RegistrationCache(gpu_pd, ACCESS) as cache:
        yield cache


def test_views_of_a_buffer_use_the_registration_of_the_buffer(host_cache: Any) -> None:
    buffer = bytearray(1 << 16)
    whole = memoryview(buffer)
    first = host_cache.region(whole[100:200])
    assert first.length == 1 << 16
    assert host_cache.region(whole[5000:]) is first
    assert counts(host_cache) == (1, 1, 0, 1)


def test_slices_of_an_array_use_the_registration_of_the_array(host_cache: Any) -> None:
    numpy = pytest.importorskip("numpy")
    array = numpy.zeros((64, 256), dtype="f4")
    sges = [host_cache.sge(row) for row in array]
    assert {sge.length for sge in sges} == {1024}
    assert [sge.addr - sges[0].addr for sge in sges] == [1024 * i for i in range(64)]
    assert counts(host_cache) == (63, 1, 0, 1)


def test_the_owner_lives_as_long_as_the_cache_has_it(host_cache: Any) -> None:
    numpy = pytest.importorskip("numpy")
    array = numpy.zeros(4096)
    alive = weakref.ref(array)
    host_cache.region(array[:10])
    del array
    gc.collect()
    assert alive() is not None
    host_cache.purge()
    gc.collect()
    assert alive() is None


def test_a_part_of_a_tensor_is_in_bytes_and_checked(host_cache: Any, ib: Any) -> None:
    buffer = bytearray(1000)
    whole = host_cache.sge(buffer)
    part = host_cache.sge(buffer, 10, offset=20)
    assert (part.addr, part.length) == (whole.addr + 20, 10)
    for length, offset in ((1001, 0), (1, 1000), (None, 1001), (5, -1)):
        with pytest.raises(ib.RangeError):
            host_cache.sge(buffer, length, offset=offset)


def test_read_only_memory_is_refused_where_the_access_writes(host_cache: Any) -> None:
    with pytest.raises(ValueError, match="read-only"):
        host_cache.region(b"x" * 100)


def test_a_closed_cache_says_so(host_cache: Any, ib: Any) -> None:
    host_cache.region(bytearray(100))
    host_cache.close()
    host_cache.close()
    assert host_cache.closed
    for use in (lambda: host_cache.region(bytearray(1)), host_cache.purge):
        with pytest.raises(error_of(ib)) as caught:
            use()
        assert caught.value.errno == errno.EBADF


@pytest.mark.parametrize("bound", ["max_bytes", "max_count", "max_region"])
def test_bounds_are_at_least_one(ib: Any, gpu_pd: Any, bound: str) -> None:
    with pytest.raises(ValueError, match=bound):
        ib.RegistrationCache(gpu_pd, ACCESS, **{bound: 0})


def test_a_child_of_a_fork_starts_empty(host_cache: Any) -> None:
    host_cache.region(bytearray(100))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            host_cache.purge()
            os.write(writer, str(host_cache.statistics.entries).encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    assert os.read(reader, 10) == b"0"
    os.close(reader)
    assert host_cache.statistics.entries == 1


def test_threads_share_a_cache(host_cache: Any) -> None:
    buffers = [bytearray(4096) for _ in range(4)]
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for i in range(200):
                sge = host_cache.sge(buffers[i % 4], 8, offset=i)
                assert sge.length == 8
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert counts(host_cache) == (796, 4, 0, 4)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4000), st.integers(1, 96)), max_size=40), st.integers(1, 4))
@examples
def test_any_order_of_look_ups_gives_a_region_that_covers(
    ib: Any, gpu_pd: Any, lookups: list[tuple[int, int, int]], most: int
) -> None:
    buffers = [bytearray(4096) for _ in range(4)]
    with ib.RegistrationCache(gpu_pd, ACCESS, max_count=most) as cache:
        for which, offset, length in lookups:
            view = memoryview(buffers[which])[offset : offset + length]
            region = cache.region(view)
            addr, size = ib.tensor_addr_len(view)
            assert region.addr <= addr and addr + size <= region.addr + region.length
            assert cache.statistics.entries <= most
        assert cache.statistics.hits + cache.statistics.misses == len(lookups)


def test_memory_that_the_driver_has_no_identity_for_is_not_kept(
    cache: Any, ib: Any, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = sys.modules[ib.__name__ + "._cuda_driver"]
    ranges = inner.ranges

    def nameless(*arguments: Any) -> Any:
        found, stopped, error = ranges(*arguments)
        return [mapping._replace(buffer_id=0) for mapping in found], stopped, error

    monkeypatch.setattr(inner, "ranges", nameless)
    tensor = DeviceTensor(driver.alloc(MIB), 100)
    assert cache.region(tensor) is not cache.region(tensor)  # it may have been freed and allocated anew in between
    assert (cache.statistics.uncached, cache.statistics.entries) == (2, 0)


def test_an_owner_that_moved_its_memory_is_registered_anew(host_cache: Any) -> None:
    class Resizable:
        def __init__(self) -> None:
            self.buffers = [ctypes.create_string_buffer(4096), ctypes.create_string_buffer(4096)]

        def data_ptr(self) -> int:
            return ctypes.addressof(self.buffers[0])

        nbytes = 4096

    thing = Resizable()
    first = host_cache.region(thing)
    old = memoryview(thing.buffers[0])  # what is at these addresses afterwards
    assert host_cache.region(thing) is first
    thing.buffers.reverse()
    assert host_cache.region(old) is not first
    assert host_cache.statistics.stale == 1


def test_a_child_does_not_wait_for_a_thread_of_its_parent(host_cache: Any) -> None:
    go, held = threading.Event(), threading.Event()

    def hold() -> None:
        with host_cache._lock:
            held.set()
            go.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(5)
        try:
            host_cache.purge()
        finally:
            os._exit(0)
    go.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
