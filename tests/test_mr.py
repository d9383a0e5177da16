# SPDX-License-Identifier: BSD-3-Clause
"""Memory regions on a real device: registration, bounds, access rights and who keeps the memory."""

from __future__ import annotations

import ctypes
import errno
import gc
import json
import mmap
import os
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
from endpoints import Buffer
from packages import error_of

pytestmark = pytest.mark.needs("device")
PEERS = Path(__file__).parent / "peers"


@pytest.fixture
def local(ib: Any) -> Any:
    return ib.AccessFlags.LOCAL_WRITE


@pytest.mark.parametrize("kind", ["mmap", "bytearray", "ctypes"])
def test_a_region_says_what_was_registered(pd: Any, local: Any, kind: str) -> None:
    buf = Buffer(10_000, kind)
    with pd.reg_mr(buf.addr, 10_000, local) as mr:
        assert (mr.addr, mr.length) == (buf.addr, 10_000)
        assert mr.pd is pd
        assert mr.lkey != 0 and mr.handle >= 0


def test_regions_have_keys_of_their_own(ib: Any, pd: Any) -> None:
    buf = Buffer(4096)
    access = ib.AccessFlags.LOCAL_WRITE | ib.AccessFlags.REMOTE_WRITE
    regions = [pd.reg_mr(buf.addr, 4096, access) for _ in range(16)]
    assert len({mr.lkey for mr in regions}) == len({mr.rkey for mr in regions}) == 16
    for mr in regions:
        mr.close()


def test_a_region_need_not_be_aligned(pd: Any, local: Any) -> None:
    buf = Buffer(8192)
    with pd.reg_mr(buf.addr + 4093, 7, local) as mr:
        assert (mr.addr, mr.length) == (buf.addr + 4093, 7)


def test_the_address_may_be_anything_with_index(pd: Any, local: Any) -> None:
    class Address:
        def __init__(self, value: int) -> None:
            self.value = value

        def __index__(self) -> int:
            return self.value

    buf = Buffer(4096)
    with pd.reg_mr(Address(buf.addr), Address(4096), local) as mr:
        assert mr.addr == buf.addr


def test_parameters_can_be_given_by_keyword(pd: Any, local: Any) -> None:
    buf = Buffer(4096)
    with pd.reg_mr(addr=buf.addr, length=4096, access=local) as mr:
        assert mr.length == 4096


class TestSge:
    """mr.sge(): a part of a region, never beyond it."""

    @pytest.fixture
    def mr(self, pd: Any, local: Any) -> Any:
        buf = Buffer(1000)
        with pd.reg_mr(buf.addr, 1000, local, buf) as region:
            yield region

    def test_the_default_is_the_whole_region(self, mr: Any) -> None:
        sge = mr.sge()
        assert (sge.addr, sge.length, sge.lkey) == (mr.addr, 1000, mr.lkey)

    def test_an_offset_alone_reaches_to_the_end(self, mr: Any) -> None:
        sge = mr.sge(offset=400)
        assert (sge.addr, sge.length) == (mr.addr + 400, 600)

    def test_a_part(self, mr: Any) -> None:
        sge = mr.sge(10, 20)
        assert (sge.addr, sge.length) == (mr.addr + 20, 10)

    def test_it_keeps_the_region(self, mr: Any) -> None:
        assert mr.sge(1).owner is mr

    @pytest.mark.parametrize("length, offset", [(1001, 0), (1000, 1), (1, 1000), (None, 1001), (-1, 0), (1, -1)])
    def test_beyond_the_region_is_a_value_error(self, mr: Any, length: Any, offset: int) -> None:
        with pytest.raises(ValueError):
            mr.sge(length, offset)

    def test_a_closed_region_gives_none(self, ib: Any, mr: Any) -> None:
        mr.close()
        with pytest.raises(error_of(ib)) as caught:
            mr.sge()
        assert caught.value.errno == errno.EBADF


@pytest.mark.parametrize("right", ["REMOTE_WRITE", "REMOTE_ATOMIC"])
def test_a_remote_right_to_write_needs_local_write(ib: Any, pd: Any, right: str) -> None:
    if right not in ib.AccessFlags.__members__:
        pytest.skip("needs a package with that right")
    buf = Buffer(4096)
    with pytest.raises(error_of(ib)) as caught:
        pd.reg_mr(buf.addr, 4096, ib.AccessFlags[right])
    assert caught.value.errno == errno.EINVAL
    assert caught.value.operation == "ibv_reg_mr"


def test_unmapped_memory_is_efault(ib: Any, pd: Any, local: Any) -> None:
    hole = mmap.mmap(-1, 4 * mmap.PAGESIZE)
    addr = ctypes.addressof(ctypes.c_char.from_buffer(hole))
    gc.collect()
    hole.close()
    with pytest.raises(error_of(ib)) as caught:
        pd.reg_mr(addr, 4 * mmap.PAGESIZE, local)
    assert caught.value.errno == errno.EFAULT


def test_read_only_memory_with_local_write_is_efault(ib: Any, pd: Any, local: Any) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pin = ctypes.c_char.from_buffer(page)
    addr = ctypes.addressof(pin)
    assert libc.mprotect(ctypes.c_void_p(addr), ctypes.c_size_t(mmap.PAGESIZE), mmap.PROT_READ) == 0
    with pytest.raises(error_of(ib)) as caught:
        pd.reg_mr(addr, mmap.PAGESIZE, local)
    assert caught.value.errno == errno.EFAULT
    with pd.reg_mr(addr, mmap.PAGESIZE, ib.AccessFlags.REMOTE_READ) as mr:
        assert mr.length == mmap.PAGESIZE


def test_a_range_that_wraps_round_is_refused(ib: Any, pd: Any, local: Any) -> None:
    with pytest.raises(ib.RangeError) as caught:
        pd.reg_mr(2**64 - 4096, 8192, local)
    assert hex(2**64 - 4096) in str(caught.value) and "8192" in str(caught.value)


def test_an_empty_region_is_refused(ib: Any, pd: Any, local: Any) -> None:
    buf = Buffer(4096)
    with pytest.raises((error_of(ib), ValueError)):
        pd.reg_mr(buf.addr, 0, local)


def test_optional_access_bits_never_make_registration_fail(ib: Any, pd: Any, local: Any) -> None:
    buf = Buffer(4096)
    with pd.reg_mr(buf.addr, 4096, local | ib.AccessFlags.RELAXED_ORDERING) as mr:
        assert mr.length == 4096


def test_a_large_region(pd: Any, local: Any) -> None:
    length = (64 << 20) + 3
    buf = Buffer(length)
    with pd.reg_mr(buf.addr, length, local) as mr:
        assert mr.sge().length == length


class TestOwner:
    """The region keeps the object whose memory it is, for as long as it is registered."""

    def test_reg_mr_keeps_what_it_is_given(self, pd: Any, local: Any) -> None:
        buf = Buffer(4096)
        alive = weakref.ref(buf)
        mr = pd.reg_mr(buf.addr, 4096, local, buf)
        del buf
        gc.collect()
        assert mr.owner is alive()
        assert mr.owner is not None
        mr.close()
        assert mr.owner is None
        gc.collect()
        assert alive() is None

    def test_reg_mr_keeps_nothing_by_default(self, pd: Any, local: Any) -> None:
        buf = Buffer(4096)
        with pd.reg_mr(buf.addr, 4096, local) as mr:
            assert mr.owner is None

    def test_a_dropped_region_lets_the_owner_go(self, pd: Any, local: Any) -> None:
        buf = Buffer(4096)
        alive = weakref.ref(buf)
        mr = pd.reg_mr(buf.addr, 4096, local, buf)
        del buf, mr
        gc.collect()
        assert alive() is None

    def test_a_registered_bytearray_cannot_be_resized(self, ib: Any, pd: Any, local: Any) -> None:
        data = bytearray(4096)
        with ib.reg_tensor(pd, data, local) as mr:
            assert mr.owner is data
            with pytest.raises(BufferError):
                data.extend(b"x")
        data.extend(b"x")


def test_closed_regions_raise_ebadf_and_still_lead_up(ib: Any, pd: Any, local: Any) -> None:
    buf = Buffer(4096)
    mr = pd.reg_mr(buf.addr, 4096, local)
    mr.close()
    mr.close()
    assert mr.closed and mr.pd is pd
    for name in ("lkey", "rkey", "addr", "length", "handle"):
        with pytest.raises(error_of(ib)) as caught:
            getattr(mr, name)
        assert caught.value.errno == errno.EBADF
        assert name in str(caught.value)


def test_registration_gives_no_descriptor_away(pd: Any, local: Any) -> None:
    buf = Buffer(4096)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        pd.reg_mr(buf.addr, 4096, local).close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_descriptor_that_is_no_dmabuf_is_refused(ib: Any, pd: Any, local: Any) -> None:
    fd = os.open("/dev/null", os.O_RDWR)
    try:
        with pytest.raises(error_of(ib)) as caught:
            pd.reg_dmabuf_mr(0, 8192, 0, fd, local)
    finally:
        os.close(fd)
    assert caught.value.operation == "ibv_reg_dmabuf_mr"
    # rxe has no dma-buf regions at all; a NIC that has them looks at the descriptor
    assert caught.value.errno in (errno.EOPNOTSUPP, errno.EINVAL, errno.EBADF)


@pytest.mark.needs("memlock")
def test_enomem_names_the_locked_memory_limit_and_the_size() -> None:
    command = [sys.executable, str(PEERS / "register_over_memlock.py"), str(64 << 10), str(1 << 20)]
    said = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=120).stdout)
    assert said["errno"] == errno.ENOMEM
    assert "RLIMIT_MEMLOCK" in said["message"]
    assert str(64 << 10) in said["message"] and str(1 << 20) in said["message"]
