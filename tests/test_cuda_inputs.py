# SPDX-License-Identifier: BSD-3-Clause
"""What may be given as GPU memory: torch-like objects, DLPack and ``__cuda_array_interface__``, made by hand."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from cuda_control import DEVICE, DeviceTensor, DLPack, Driver, Interface
from cuda_fixtures import Recorder
from hypothesis import given
from hypothesis import strategies as st
from stub_fixtures import examples

MIB = 1 << 20
LOCAL_WRITE, REMOTE_READ = 1, 4


def registered(cuda: Any, recorder: Recorder, thing: Any, access: int = REMOTE_READ) -> tuple[int, int]:
    with cuda.register_tensor(recorder, thing, access) as mr:
        return mr.addr, mr.length


@pytest.mark.parametrize("itemsize", [1, 2, 4])
def test_a_torch_like_tensor_is_count_times_size(cuda: Any, driver: Driver, recorder: Recorder, itemsize: int) -> None:
    addr = driver.alloc(MIB)
    assert registered(cuda, recorder, DeviceTensor(addr, 64 * itemsize, itemsize)) == (addr, 64 * itemsize)
    assert cuda.tensor_ptr_len(DeviceTensor(addr, 64 * itemsize, itemsize)) == (addr, 64 * itemsize)


def test_a_tensor_that_is_not_contiguous_is_refused(cuda: Any, driver: Driver, recorder: Recorder) -> None:
    addr = driver.alloc(MIB)
    for thing in (
        DeviceTensor(addr, 64, contiguous=False),
        Interface(addr, (4, 4), strides=(8, 1)),
        DLPack(addr, (4, 4), strides=(1, 4)),
    ):
        with pytest.raises(ValueError, match="contiguous"):
            cuda.register_tensor(recorder, thing, REMOTE_READ)


def test_strides_of_extents_of_one_do_not_count(cuda: Any, driver: Driver, recorder: Recorder) -> None:
    addr = driver.alloc(MIB)
    assert registered(cuda, recorder, Interface(addr, (1, 8), strides=(999, 1))) == (addr, 8)
    assert registered(cuda, recorder, DLPack(addr, (1, 8), strides=(999, 1))) == (addr, 8)


@pytest.mark.parametrize(("typestr", "size"), [("<f2", 2), ("<V2", 2), ("|u1", 1), ("<f8", 8), ("|V1", 1)])
def test_an_array_interface_tells_its_elements(
    cuda: Any, driver: Driver, recorder: Recorder, typestr: str, size: int
) -> None:
    addr = driver.alloc(MIB)
    assert registered(cuda, recorder, Interface(addr, (3, 5), typestr, strides=None)) == (addr, 15 * size)


def test_a_mask_is_refused(cuda: Any, driver: Driver, recorder: Recorder) -> None:
    with pytest.raises(ValueError, match="mask"):
        cuda.register_tensor(recorder, Interface(driver.alloc(MIB), (8,), mask=object()), REMOTE_READ)


def test_what_is_read_only_is_refused_where_the_access_writes(cuda: Any, driver: Driver, recorder: Recorder) -> None:
    addr = driver.alloc(MIB)
    for thing in (Interface(addr, (8,), readonly=True), DLPack(addr, (8,), flags=1)):
        assert registered(cuda, recorder, thing) == (addr, 8)
        with pytest.raises(ValueError, match="read-only"):
            cuda.register_tensor(recorder, thing, LOCAL_WRITE)


@pytest.mark.parametrize("versioned", [True, False])
def test_dlpack_is_read_in_both_versions_and_its_deleter_called_once(
    cuda: Any, driver: Driver, recorder: Recorder, versioned: bool
) -> None:
    addr = driver.alloc(MIB)
    thing = DLPack(addr + 256, (4, 8), bits=16, offset=256, versioned=versioned)
    mr = cuda.register_tensor(recorder, thing, REMOTE_READ)
    assert (mr.addr, mr.length) == (addr + 256, 64)
    assert thing.calls[0].get("stream") == -1  # nothing waits for it
    gc.collect()
    assert thing.deleted == 0
    mr.close()
    del mr
    gc.collect()
    assert thing.deleted == 1


@pytest.mark.parametrize(
    ("code", "bits", "lanes", "count", "length"),
    [(4, 16, 1, 8, 16), (10, 8, 1, 8, 8), (17, 4, 1, 9, 5), (17, 4, 2, 9, 9), (15, 6, 1, 8, 6)],
)
def test_dlpack_elements_are_bits_whatever_they_mean(
    cuda: Any, driver: Driver, recorder: Recorder, code: int, bits: int, lanes: int, count: int, length: int
) -> None:
    addr = driver.alloc(MIB)
    thing = DLPack(addr, (count,), code=code, bits=bits, lanes=lanes)
    assert registered(cuda, recorder, thing) == (addr, length)


def test_dlpack_of_another_major_version_or_of_a_copy_is_refused_and_freed(
    cuda: Any, driver: Driver, recorder: Recorder
) -> None:
    addr = driver.alloc(MIB)
    for thing in (DLPack(addr, (8,), major=2), DLPack(addr, (8,), flags=2)):
        with pytest.raises(TypeError, match="DLPack 2|copy"):
            cuda.register_tensor(recorder, thing, REMOTE_READ)
        gc.collect()
        assert thing.deleted == 1


def test_dlpack_says_where_it_lies(cuda: Any, ib: Any, driver: Driver, recorder: Recorder) -> None:
    addr = driver.alloc(MIB)
    with pytest.raises(ValueError, match="managed"):
        cuda.register_tensor(recorder, DLPack(addr, (8,), device=13), REMOTE_READ)
    for device in (1, 3):  # the host, pinned or not
        with pytest.raises(ValueError, match=f"{ib.__name__}.reg_tensor"):
            cuda.register_tensor(recorder, DLPack(addr, (8,), device=device), REMOTE_READ)


def test_the_first_way_that_an_object_offers_is_taken(cuda: Any, driver: Driver, recorder: Recorder) -> None:
    addr = driver.alloc(MIB)

    class All(DeviceTensor):
        @property
        def __cuda_array_interface__(self) -> Any:
            raise RuntimeError("requires grad")

        def __dlpack_device__(self) -> Any:
            raise BufferError("requires grad")

    assert registered(cuda, recorder, All(addr, 64)) == (addr, 64)


def test_what_dlpack_cannot_tell_the_array_interface_may(cuda: Any, driver: Driver, recorder: Recorder) -> None:
    addr = driver.alloc(MIB)

    class OfBooleans(Interface):
        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

        def __dlpack__(self, **keywords: Any) -> Any:
            raise BufferError("DLPack has no booleans")

    assert registered(cuda, recorder, OfBooleans(addr, (16,), "|b1")) == (addr, 16)
    only_dlpack = OfBooleans(addr, (16,))
    del only_dlpack.__cuda_array_interface__
    with pytest.raises(TypeError, match="no booleans"):
        cuda.register_tensor(recorder, only_dlpack, REMOTE_READ)


def test_what_shows_no_memory_is_a_type_error(cuda: Any, recorder: Recorder) -> None:
    for thing in (object(), 5, None, "text"):
        with pytest.raises(TypeError, match="memory"):
            cuda.register_tensor(recorder, thing, REMOTE_READ)
        with pytest.raises(TypeError):
            cuda.tensor_ptr_len(thing)


def test_empty_ones_have_a_length_of_nothing(cuda: Any, recorder: Recorder) -> None:
    for thing in (Interface(0, (0, 4)), DLPack(0, (3, 0)), DeviceTensor(0, 0)):
        assert cuda.tensor_ptr_len(thing)[1] == 0
        with pytest.raises(ValueError, match="empty"):
            cuda.register_tensor(recorder, thing, REMOTE_READ)


def test_addresses_are_as_long_as_they_are(cuda: Any) -> None:
    for addr in (2**31, 2**32, 2**47 + 5, 2**63):
        assert cuda.tensor_ptr_len(DeviceTensor(addr, 2**33)) == (addr, 2**33)
        assert cuda.tensor_ptr_len(Interface(addr, (2**33,))) == (addr, 2**33)


@given(shape=st.lists(st.integers(0, 5), max_size=4), bits=st.integers(1, 64), lanes=st.integers(1, 4))
@examples
def test_any_shape_has_the_bytes_of_its_elements(
    cuda: Any, driver: Driver, shape: list[int], bits: int, lanes: int
) -> None:
    count = 1
    for extent in shape:
        count *= extent
    bits_each = bits * lanes
    expected = count * (bits_each // 8) if bits_each % 8 == 0 else (count * bits_each + 7) // 8
    assert cuda.tensor_ptr_len(DLPack(4096, tuple(shape), bits=bits, lanes=lanes)) == (4096, expected)


def test_a_type_of_memory_that_is_no_kind_of_ours_is_left_to_the_driver(
    cuda: Any, driver: Driver, recorder: Recorder
) -> None:
    addr = driver.alloc(MIB, DEVICE)
    assert registered(cuda, recorder, Interface(addr, (16,), stream=7)) == (addr, 16)


@pytest.mark.parametrize("shape", [(-4,), (2, -3), (2**64 + 5,), (2**40, 2**40)])
@pytest.mark.parametrize("kind", ["malloc", "mapped"])
def test_what_claims_more_memory_than_there_can_be_is_refused(
    cuda: Any, driver: Driver, recorder: Recorder, shape: tuple[int, ...], kind: str
) -> None:
    addr = driver.alloc(MIB) if kind == "malloc" else driver.reserve(4 * MIB)
    if kind == "mapped":
        driver.map(addr, 2 * MIB)
    with pytest.raises(ValueError, match="no range of addresses"):
        cuda.register_tensor(recorder, Interface(addr, shape), REMOTE_READ)
    with pytest.raises(ValueError, match="no range of addresses"):
        cuda.register_tensor(recorder, Interface(-addr, (8,)), REMOTE_READ)
    assert (recorder.exports, recorder.plain) == ([], [])


@pytest.mark.parametrize("ndim", [1, -1, 1 << 30])
def test_a_capsule_without_a_shape_is_refused_and_freed(
    cuda: Any, driver: Driver, recorder: Recorder, ndim: int
) -> None:
    thing = DLPack(driver.alloc(MIB), (8,))
    thing._held.tensor.ndim, thing._held.tensor.shape = ndim, None
    with pytest.raises(TypeError, match="no shape"):
        cuda.register_tensor(recorder, thing, REMOTE_READ)
    gc.collect()
    assert thing.deleted == 1
