# SPDX-License-Identifier: BSD-3-Clause
"""Registrations that are kept: a whole allocation is registered once, and every tensor inside it uses that.

For memory on a GPU and on the host alike.
"""

from __future__ import annotations

import bisect
import os
import threading
import weakref
from operator import index
from typing import Any, NamedTuple

from . import _cuda_driver as driver
from . import cuda
from ._extension import extension
from .closing import Closing
from .forks import watch_forks
from .tensors import Memory, check_access, device_memory_of, memory_of, reg_tensor

__all__ = ["CacheStatistics", "RegistrationCache"]


class CacheStatistics(NamedTuple):
    """What a cache did since it was made, and what it holds."""

    hits: int
    """Look-ups that found a registration."""
    misses: int
    """Look-ups that registered."""
    stale: int
    """Entries dropped because their memory was freed or mapped anew."""
    evicted: int
    """Entries dropped to stay within the bounds."""
    uncached: int
    """Registrations that did not fit the bounds and were not kept."""
    entries: int
    """Registrations held now."""
    bytes: int
    """Bytes that they cover."""


class _Extent(NamedTuple):
    """What is registered for a tensor: a range, and by what it is known again."""

    addr: int
    length: int
    identity: tuple[driver.Range, ...]
    """The mappings of GPU memory; nothing for host memory, whose owner the entry keeps."""
    owner: Any


class _Entry:
    """One registration of the cache's, in the order of use."""

    __slots__ = ("extent", "region", "used")

    def __init__(self, extent: _Extent, region: Any) -> None:
        self.extent = extent
        self.region = region
        self.used = 0

    @property
    def end(self) -> int:
        return self.extent.addr + self.extent.length


_caches: weakref.WeakSet[RegistrationCache] = weakref.WeakSet()


def _renew_in_child() -> None:
    for cache in list(_caches):
        cache._lock = threading.RLock()  # another thread of the parent may have had it


class RegistrationCache(Closing):
    """Registrations of whole allocations, kept for every tensor that lies inside.

    ``region(tensor)`` gives what to make requests from (an MR, or a GpuMR for memory on a GPU), ``sge(tensor)`` an SGE
    for exactly the tensor. On a GPU the allocation is what the driver says it is, from the first mapping under the
    tensor to the last; on the host it is the object that owns the memory in the end (a NumPy array's ``base``, a torch
    storage), which the cache keeps.

    At every look-up the driver is asked for the identity of each mapping of an entry, and an owner on the host where
    its memory is: what was freed, mapped anew or moved is dropped, never returned. Memory that the driver has no
    identity for is registered and not kept. Nothing notices that memory is freed *before* the next look-up, and its
    pages stay pinned until then: ``purge()`` after freeing a lot. A dropped registration lives on as long as a region
    or an SGE that was given out. A queue pair keeps neither: keep one of them (or the request) until the completion, or
    an eviction takes the memory from under the NIC.

    ``max_bytes`` and ``max_count`` bound what is kept, the least recently used goes first; what does not fit at all
    is registered for the tensor alone and not kept. ``max_region`` is the largest allocation that is registered
    whole (a framework's pool may be most of a GPU). Threads may share a cache. A child made by fork starts empty.
    """

    def __init__(
        self,
        pd: Any,
        access: int,
        *,
        max_bytes: int | None = None,
        max_count: int | None = None,
        max_region: int | None = None,
    ) -> None:
        for name, value in (("max_bytes", max_bytes), ("max_count", max_count), ("max_region", max_region)):
            if value is not None and index(value) < 1:
                raise ValueError(f"{name} must be at least 1, or None for no bound, got {value}")
        self._pd = pd
        self._access = index(access)
        self._max_bytes, self._max_count, self._max_region = max_bytes, max_count, max_region
        self._lock = threading.RLock()
        self._entries: list[_Entry] = []  # by address; they do not overlap
        self._starts: list[int] = []
        self._bytes = self._clock = 0
        self._hits = self._misses = self._stale = self._evicted = self._uncached = 0
        self._closed = False
        self._process = os.getpid()
        watch_forks(_renew_in_child)
        _caches.add(self)

    # ---- use ----

    def region(self, tensor: Any) -> Any:
        """Return a registration that covers a tensor, from the cache or made now.

        Its range is that of the allocation: take addresses from the tensor, or use ``sge``. Raises as ``reg_tensor``
        and ``cuda.register_tensor`` do.
        """
        return self._find(tensor, _memory(tensor))

    def sge(self, tensor: Any, length: int | None = None, offset: int = 0) -> Any:
        """Return an SGE for a tensor or a part of it, over a registration that covers it and that the SGE keeps.

        ``offset`` and ``length`` are in bytes and count from the tensor's start; one SGE holds at most 2**32 - 1.
        """
        memory = _memory(tensor)
        offset = index(offset)
        length = memory.length - offset if length is None else index(length)
        if not 0 <= offset <= memory.length or not 0 <= length <= memory.length - offset:
            raise extension.RangeError(
                f"offset {offset} + length {length} is beyond the tensor's {memory.length} bytes"
            )
        region = self._find(tensor, memory)
        return extension.SGE(region, length, 0, memory.addr + offset - region.addr)

    def purge(self) -> int:
        """Drop every registration and return how many there were; those in use go when their last user does."""
        with self._lock:
            self._check_open("purge")
            self._leave_parent()
            return self._drop(list(self._entries))

    @property
    def statistics(self) -> CacheStatistics:
        """Counts since the cache was made, and what it holds now."""
        with self._lock:
            return CacheStatistics(
                self._hits, self._misses, self._stale, self._evicted, self._uncached, len(self._entries), self._bytes
            )

    @property
    def closed(self) -> bool:
        """Whether ``close()`` was called."""
        return self._closed

    def close(self) -> None:
        """Drop every registration and take no further look-ups. Twice is harmless."""
        with self._lock:
            if not self._closed:
                self._drop(list(self._entries))
                self._closed = True

    def __repr__(self) -> str:
        if self._closed:
            return "<RegistrationCache, closed>"
        return f"<RegistrationCache {len(self._entries)} regions, {self._bytes} bytes>"

    # ---- look-up, under the lock ----

    def _leave_parent(self) -> None:
        """In a child made by fork: forget the parent's entries, which are nothing here."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._drop(list(self._entries))

    def _find(self, tensor: Any, memory: Memory) -> Any:
        check_access(tensor, memory, self._access)
        with self._lock:
            self._check_open("region")
            self._leave_parent()
            entry = self._covering(memory)
            if entry is not None and self._is_stale(entry):
                self._stale += self._drop([entry])
                entry = None
            if entry is None:
                region = self._add(tensor, memory)
                self._misses += 1
                return region
            self._hits += 1
            self._touch(entry)
            return entry.region

    def _covering(self, memory: Memory) -> _Entry | None:
        at = bisect.bisect_right(self._starts, memory.addr) - 1
        if at < 0 or self._entries[at].end < memory.addr + memory.length:
            return None
        return self._entries[at]

    def _is_stale(self, entry: _Entry) -> bool:
        if getattr(entry.region, "closed", False):
            return True
        extent = entry.extent
        if extent.identity:
            return _identity(extent.addr, extent.length) != extent.identity
        try:  # an owner may have moved its memory: storage.resize_(), array.resize()
            memory = memory_of(extent.owner)
        except (TypeError, ValueError):
            return True
        return (memory.addr, memory.length) != (extent.addr, extent.length)

    def _touch(self, entry: _Entry) -> None:
        self._clock += 1
        entry.used = self._clock

    # ---- making and dropping ----

    def _add(self, tensor: Any, memory: Memory) -> Any:
        whole = _allocation(tensor, memory)
        # What overlaps and does not cover is of an earlier life of these addresses, or a part of what is coming.
        overlapping = self._overlapping(whole)
        self._stale += self._drop([entry for entry in overlapping if self._is_stale(entry)])
        exact = _Extent(memory.addr, memory.length, whole.identity and _identity(memory.addr, memory.length), tensor)
        if not self._is_too_large(whole) and (whole.identity or memory.device is None):
            try:
                return self._keep(whole, memory)
            except (OSError, RuntimeError):
                if whole.addr == exact.addr and whole.length == exact.length:
                    raise  # there is no smaller range to try
        if self._is_too_large(exact) or (memory.device is not None and not exact.identity):
            region = self._register(exact, memory)
            self._uncached += 1
            return region
        return self._keep(exact, memory)

    def _is_too_large(self, extent: _Extent) -> bool:
        return any(bound is not None and extent.length > bound for bound in (self._max_bytes, self._max_region))

    def _register(self, extent: _Extent, memory: Memory) -> Any:
        if memory.device is None:
            return reg_tensor(self._pd, extent.owner, self._access)
        mr, way = cuda.register_range(self._pd, extent.addr, extent.length, self._access, None, None)
        region = cuda.GpuMR(mr, extent.addr, extent.length)
        region._way = way
        return region

    def _keep(self, extent: _Extent, memory: Memory) -> Any:
        region = self._register(extent, memory)
        self._drop(self._overlapping(extent))
        entry = _Entry(extent, region)
        at = bisect.bisect_left(self._starts, extent.addr)
        self._entries.insert(at, entry)
        self._starts.insert(at, extent.addr)
        self._bytes += extent.length
        self._touch(entry)
        self._shrink(entry)
        return region

    def _overlapping(self, extent: _Extent) -> list[_Entry]:
        return [e for e in self._entries if e.extent.addr < extent.addr + extent.length and extent.addr < e.end]

    def _shrink(self, newest: _Entry) -> None:
        while (self._max_count is not None and len(self._entries) > self._max_count) or (
            self._max_bytes is not None and self._bytes > self._max_bytes
        ):
            oldest = min((e for e in self._entries if e is not newest), key=lambda e: e.used)
            self._evicted += self._drop([oldest])

    def _drop(self, entries: list[_Entry]) -> int:
        """Forget entries. Nothing is closed: a registration goes with its last user, which may be this cache."""
        for entry in entries:
            at = self._entries.index(entry)
            del self._entries[at], self._starts[at]
            self._bytes -= entry.extent.length
        return len(entries)


# ---- what to register ----------------------------------------------------------------------------------------------


def _memory(tensor: Any) -> Memory:
    memory = memory_of(tensor) if _is_on_host(tensor) else device_memory_of(tensor)
    if memory.device is not None:
        driver.ready()
    return memory


def _is_on_host(tensor: Any) -> bool:
    return hasattr(tensor, "__array_interface__") or not any(
        hasattr(tensor, name) for name in ("data_ptr", "__dlpack__", "__cuda_array_interface__")
    )


def _identity(addr: int, length: int) -> tuple[driver.Range, ...]:
    """The mappings under a range of GPU memory; nothing where it is not all mapped any more, or where the driver has
    no identity for a part, so that memory freed and allocated anew would look the same."""
    found, _, error = driver.ranges(driver.pointer(addr), addr, length)
    return () if error or not all(mapping.buffer_id for mapping in found) else tuple(found)


def _allocation(tensor: Any, memory: Memory) -> _Extent:
    if memory.device is None:
        return _host_allocation(tensor, memory)
    mappings = _identity(memory.addr, memory.length)
    if not mappings:
        return _Extent(memory.addr, memory.length, (), None)
    start, end = mappings[0].base, mappings[-1].base + mappings[-1].size
    return _Extent(start, end - start, mappings, None)


def _host_allocation(tensor: Any, memory: Memory) -> _Extent:
    """The outermost object whose memory holds the tensor's."""
    extent = _Extent(memory.addr, memory.length, (), tensor)
    holder = tensor
    while True:
        holder = _holder_of(holder)
        if holder is None:
            return extent
        try:
            outer = memory_of(holder)
        except (TypeError, ValueError):
            return extent
        if outer.device is not None or outer.readonly > memory.readonly:
            return extent
        if outer.addr > memory.addr or outer.addr + outer.length < memory.addr + memory.length:
            return extent
        extent = _Extent(outer.addr, outer.length, (), holder)


class _Storage:
    """A torch storage, in the terms in which a tensor tells its memory."""

    def __init__(self, storage: Any) -> None:
        self.storage = storage
        self.data_ptr = storage.data_ptr

    @property
    def nbytes(self) -> int:
        return int(self.storage.nbytes())


def _holder_of(thing: Any) -> Any:
    """What an array is a view of, or what holds a torch tensor's elements; None at the end."""
    storage = getattr(thing, "untyped_storage", None)
    if callable(storage):
        return _Storage(storage())
    if isinstance(thing, memoryview):
        return thing.obj
    return getattr(thing, "base", None)
