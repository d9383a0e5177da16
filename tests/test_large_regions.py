# SPDX-License-Identifier: BSD-3-Clause
"""Regions and pieces beyond 31 and 32 bits: nothing is cut, and the last byte is the last byte."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from typing import Any, Callable

import pytest
from endpoints import Endpoint, all_access, connect, poll_for
from place import Place
from stub_fixtures import Rig

GIB4 = 1 << 32
BOUNDARIES = [2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**32, 2**32 + 1, 2**33, 2**40 - 4096]
LENGTH = GIB4 + (1 << 16)
PLACES = [0, 2**31 - 8, 2**31, 2**32 - 16, 2**32 - 8, 2**32, LENGTH - 16]


class TestOnTheStub:
    @pytest.mark.parametrize("length", BOUNDARIES)
    def test_a_registration_reaches_the_library_whole(self, rig: Rig, length: int) -> None:
        mr = rig.keep(rig.pd.reg_mr(0x10000, length, rig.ib.AccessFlags.LOCAL_WRITE))
        assert rig.stub.last_registration().length == length == mr.length

    @pytest.mark.parametrize("length", BOUNDARIES)
    def test_a_piece_of_more_than_one_entry_holds_is_refused_and_no_less(self, rig: Rig, length: int) -> None:
        mr = rig.keep(rig.pd.reg_mr(0x10000, 2**40, rig.ib.AccessFlags.LOCAL_WRITE))
        if length < 2**32:
            assert mr.sge(length).length == rig.ib.SGE(mr, length).length == length
            return
        makers: list[Callable[[], Any]] = [
            lambda: mr.sge(length), lambda: rig.ib.SGE(mr, length), lambda: rig.ib.SGE(0x10000, length)
        ]  # fmt: skip
        for make in makers:
            with pytest.raises(rig.ib.RangeError, match="4294967295"):
                make()

    @pytest.mark.parametrize("offset", [*BOUNDARIES, 2**40 - 1])
    def test_an_offset_beyond_32_bits_is_an_address_beyond_32_bits(self, rig: Rig, offset: int) -> None:
        mr = rig.keep(rig.pd.reg_mr(0x10000, 2**40, rig.ib.AccessFlags.LOCAL_WRITE))
        assert mr.sge(1, offset).addr == 0x10000 + offset == rig.ib.SGE(mr, 1, offset=offset).addr
        with pytest.raises(rig.ib.RangeError, match="beyond the region"):
            mr.sge(2, 2**40 - 1)

    def test_one_registration_serves_any_number_of_pieces(self, rig: Rig) -> None:
        """Registering once and cutting pieces is what makes many tensors cheap."""
        mr = rig.keep(rig.pd.reg_mr(0x10000, 1 << 20, rig.ib.AccessFlags.LOCAL_WRITE))
        before = rig.stub.calls()
        pieces = [mr.sge(1024, 1024 * i) for i in range(1024)]
        assert rig.stub.calls() == before
        assert {p.lkey for p in pieces} == {mr.lkey} and pieces[-1].addr + 1024 == 0x10000 + mr.length
        assert all(p.owner is mr for p in pieces)


class SmallMemory:
    """A range of more than 4 GiB that shows a file of 64 MiB again and again: to register it costs no memory. The
    file's length is no power of two, so what is 2**31 or 2**32 bytes apart lies in different pages."""

    CHUNK = 16381 * mmap.PAGESIZE

    def __init__(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        arguments: list[Any] = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        libc.mmap.argtypes, libc.munmap.argtypes = arguments, arguments[:2]
        self._unmap = libc.munmap
        fd = os.memfd_create("small")
        os.ftruncate(fd, self.CHUNK)
        reserved = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # MAP_NORESERVE
        self.addr = libc.mmap(None, LENGTH, 0, reserved, -1, 0)
        assert self.addr != ctypes.c_void_p(-1).value
        fixed = mmap.MAP_SHARED | 0x10  # MAP_FIXED
        for at in range(0, LENGTH, self.CHUNK):
            length = min(self.CHUNK, LENGTH - at)
            assert libc.mmap(self.addr + at, length, mmap.PROT_READ | mmap.PROT_WRITE, fixed, fd, 0) == self.addr + at
        os.close(fd)

    def close(self) -> None:
        self._unmap(self.addr, LENGTH)


@pytest.fixture(scope="module")
def large(ib: Any, place: Place) -> Iterator[tuple[Endpoint, Endpoint, Any, int]]:
    """Two connected ends, the second with a region of more than 4 GiB, and where that begins."""
    if not place.emulated:
        pytest.skip("needs the software host: a kernel counts and pins every page of a region")
    memory = SmallMemory()
    with Endpoint(ib, place.nodes[0]) as a, Endpoint(ib, place.nodes[0]) as b:
        connect(a, b)
        with b.pd.reg_mr(memory.addr, LENGTH, all_access(ib)) as mr:
            yield a, b, mr, memory.addr
    memory.close()


@pytest.mark.needs("rc")
@pytest.mark.only("ibverbs")
class TestOnTheHost:
    def test_it_is_as_long_as_the_memory(self, large: Any) -> None:
        _, _, mr, address = large
        assert (mr.addr, mr.length) == (address, LENGTH)

    @staticmethod
    def elsewhere(at: int) -> set[int]:
        """Where it would land if an address lost bits."""
        found = {at % 2**31, at % 2**32, (at + 2**31) % 2**32}
        return {place for place in found if abs(place - at) >= 16 and place <= LENGTH - 16}

    @pytest.mark.parametrize("at", PLACES)
    def test_writes_and_reads_land_where_they_are_meant_to(self, large: Any, at: int) -> None:
        a, b, mr, address = large
        a.buf[0:16] = bytes(range(1, 17))
        for elsewhere in self.elsewhere(at):
            ctypes.memset(address + elsewhere, 0, 16)
        a.do(a.write_wr(b, 16, remote_addr=mr.addr + at, rkey=mr.rkey))
        assert ctypes.string_at(address + at, 16) == bytes(range(1, 17))
        for elsewhere in self.elsewhere(at):
            assert ctypes.string_at(address + elsewhere, 16) == bytes(16)
        a.do(a.read_wr(b, 16, 64, remote_addr=mr.addr + at, rkey=mr.rkey))
        assert a.buf[64:80] == bytes(range(1, 17))

    @pytest.mark.parametrize("at", PLACES)
    def test_pieces_of_its_own_side_too(self, large: Any, at: int) -> None:
        a, b, mr, address = large
        ctypes.memset(address + at, 0x5A, 16)
        b.do(b.write_wr(a, sg_list=[mr.sge(16, at)]))
        assert a.buf[0:16] == b"\x5a" * 16

    def test_one_byte_more_than_it_has_is_refused_by_both_sides(self, ib: Any, large: Any) -> None:
        a, b, mr, _ = large
        with pytest.raises(ib.RangeError, match="beyond the region"):
            mr.sge(17, LENGTH - 16)
        a.qp.post_send(a.write_wr(b, 17, remote_addr=mr.addr + LENGTH - 16, rkey=mr.rkey))
        assert poll_for(a.send_cq, 1)[0].status == ib.WCStatus.REM_ACCESS_ERR
        for end in (a, b):
            end.set_state(ib.QPState.RESET)
        connect(a, b)
