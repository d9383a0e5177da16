# SPDX-License-Identifier: BSD-3-Clause
"""Registering GPU memory: what is exported, what is registered, and what is refused, over a stand-in driver."""

from __future__ import annotations

import errno
import functools
import gc
import os
import pickle
import sys
import threading
import weakref
from typing import Any

import pytest
from cuda_control import (
    DEVICE,
    INVALID_VALUE,
    MANAGED,
    NOT_SUPPORTED,
    ON_HOST,
    PAGE,
    PINNED,
    POOL,
    DeviceTensor,
    Driver,
    descriptors,
)
from cuda_fixtures import Recorder
from packages import error_of
from together import together

MIB = 1 << 20
ACCESS = 1


def test_a_whole_allocation_is_one_export_and_one_region(cuda: Any, driver: Driver, recorder: Recorder) -> None:
    addr = driver.alloc(4 * MIB)
    before = descriptors()
    mr = cuda.register_tensor(recorder, DeviceTensor(addr, 4 * MIB), ACCESS)
    assert recorder.exports == [(0, 4 * MIB, addr, ACCESS)]
    assert recorder.sizes == [4 * MIB]
    assert [line[2:] for line in driver.log("cuMemGetHandleForAddressRange")] == [[f"{addr:x}", str(4 * MIB), "1", "0"]]
    assert descriptors() == before  # closed at once
    assert (mr.addr, mr.length, mr.mr.addr, mr.mr.length) == (addr, 4 * MIB, addr, 4 * MIB)
    assert mr.way == "dmabuf"
    mr.close()


@pytest.mark.parametrize("length", [1, 100, PAGE, PAGE + 1])
def test_a_part_of_an_allocation_exports_its_pages_and_registers_its_bytes(
    cuda: Any, driver: Driver, recorder: Recorder, length: int
) -> None:
    base = driver.alloc(MIB)
    addr = base + 5 * PAGE + 257
    with cuda.register_tensor(recorder, DeviceTensor(addr, length), ACCESS) as mr:
        assert (mr.addr, mr.length) == (addr, length)
    offset, registered, iova, _ = recorder.exports[0]
    assert (offset, registered, iova) == (257, length, addr)
    exported, size = (int(driver.log("cuMemGetHandleForAddressRange")[0][2], 16), recorder.sizes[0])
    assert exported % PAGE == 0 and size % PAGE == 0
    assert exported <= addr and addr + length <= exported + size < addr + length + PAGE + PAGE


def test_a_suballocation_that_begins_inside_of_a_page_is_rounded_at_both_ends(
    cuda: Any, driver: Driver, recorder: Recorder
) -> None:
    addr = driver.alloc(100, shift=512)
    cuda.register_tensor(recorder, DeviceTensor(addr, 100), ACCESS).close()
    assert recorder.exports == [(512, 100, addr, ACCESS)]
    assert recorder.sizes == [PAGE]


def test_allocations_that_share_a_page_are_exported_with_it(cuda: Any, driver: Driver, recorder: Recorder) -> None:
    first = driver.alloc(100)
    driver.place(first + 512, 3 * PAGE)
    cuda.register_tensor(recorder, DeviceTensor(first + 512, 3 * PAGE), ACCESS).close()
    assert recorder.exports == [(512, 3 * PAGE, first + 512, ACCESS)]
    assert recorder.sizes == [4 * PAGE]


@pytest.mark.parametrize("shape", ["whole pages", "begins inside", "ends inside", "shares its first page"])
def test_what_a_driver_calls_invalid_for_no_fault_of_the_range_is_tried_by_address(
    cuda: Any, driver: Driver, recorder: Recorder, shape: str
) -> None:
    """The pages at both ends belong to the allocation only in part, which is no hole in the tensor."""
    addr, length = driver.alloc(100), 3 * PAGE
    if shape == "shares its first page":
        addr += 512
        driver.place(addr, length)
    else:
        length += 100 if shape == "ends inside" else 0
        addr = driver.alloc(length, shift=512 if shape == "begins inside" else 0)
    driver.fail("cuMemGetHandleForAddressRange", INVALID_VALUE)
    with cuda.register_tensor(recorder, DeviceTensor(addr, length), ACCESS) as mr:
        assert mr.way == "peermem"
    assert recorder.plain == [(addr, length, ACCESS)]


def test_rounding_follows_the_hosts_page_size(
    cuda: Any, driver: Driver, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "_page_size", lambda: 16 * PAGE)
    base = driver.alloc(MIB)
    addr = -(-base // (16 * PAGE)) * 16 * PAGE + 3 * PAGE
    cuda.register_tensor(recorder, DeviceTensor(addr, PAGE), ACCESS).close()
    assert recorder.exports == [(3 * PAGE, PAGE, addr, ACCESS)]
    assert recorder.sizes == [16 * PAGE]


def mapped(driver: Driver, count: int, size: int = 2 * MIB, **third: int) -> int:
    """Addresses with so many mappings one behind the other; the third may differ."""
    base = driver.reserve((count + 4) * size)
    for i in range(count):
        driver.map(base + i * size, size, **(third if i == 2 else {}))
    return base


def test_a_tensor_inside_one_mapping_does_not_export_the_reservation(
    cuda: Any, driver: Driver, recorder: Recorder
) -> None:
    base = mapped(driver, 4)
    cuda.register_tensor(recorder, DeviceTensor(base + MIB, 4096), ACCESS).close()
    assert recorder.sizes == [4096]


def test_a_tensor_over_several_mappings_is_one_export_and_one_region(
    cuda: Any, driver: Driver, recorder: Recorder
) -> None:
    base = mapped(driver, 4)
    addr, length = base + MIB, 4 * MIB
    with cuda.register_tensor(recorder, DeviceTensor(addr, length), ACCESS) as mr:
        assert (mr.addr, mr.length) == (addr, length)
    assert recorder.exports == [(0, length, addr, ACCESS)]


def test_a_hole_is_named_and_nothing_else_is_tried(cuda: Any, driver: Driver, recorder: Recorder) -> None:
    base = mapped(driver, 2)
    with pytest.raises(ValueError, match=f"nothing at {base + 4 * MIB:#x}"):
        cuda.register_tensor(recorder, DeviceTensor(base, 5 * MIB), ACCESS)
    assert (recorder.exports, recorder.plain) == ([], [])


def test_mappings_on_two_devices_are_named(cuda: Any, driver: Driver, recorder: Recorder) -> None:
    base = mapped(driver, 4, device=1)
    with pytest.raises(ValueError, match=r"several devices \(0, 1\)"):
        cuda.register_tensor(recorder, DeviceTensor(base, 8 * MIB), ACCESS)
    assert (recorder.exports, recorder.plain) == ([], [])


def test_mappings_of_two_makes_are_refused_by_the_driver_and_not_tried_by_address(
    cuda: Any, driver: Driver, recorder: Recorder
) -> None:
    base = mapped(driver, 4, properties=1)
    with pytest.raises(cuda.GpuRegistrationError) as caught:
        cuda.register_tensor(recorder, DeviceTensor(base, 8 * MIB), ACCESS)
    assert recorder.plain == []
    assert "4 mappings" in str(caught.value)
    assert "expandable_segments" in str(caught.value)


def test_addresses_that_are_reserved_and_not_mapped_are_refused(cuda: Any, driver: Driver, recorder: Recorder) -> None:
    base = driver.reserve(MIB)
    with pytest.raises(ValueError, match="reserved, and nothing is mapped"):
        cuda.register_tensor(recorder, DeviceTensor(base, 100), ACCESS)


def test_mapped_memory_that_lies_on_the_host_is_refused_without_an_export(
    cuda: Any, driver: Driver, recorder: Recorder
) -> None:
    base = driver.reserve(4 * MIB)
    driver.map(base, 2 * MIB, location=ON_HOST)
    with pytest.raises(ValueError, match="host memory"):
        cuda.register_tensor(recorder, DeviceTensor(base, 100), ACCESS)
    assert driver.log("cuMemGetHandleForAddressRange") == []


def test_pool_memory_that_cannot_be_exported_names_the_pool(cuda: Any, driver: Driver, recorder: Recorder) -> None:
    addr = driver.alloc(MIB, POOL)
    recorder.refuse_plain = [OSError(errno.EFAULT, "Bad address")]
    with pytest.raises(RuntimeError) as caught:
        cuda.register_tensor(recorder, DeviceTensor(addr, MIB), ACCESS)
    for word in ("dma-buf", "NOT_SUPPORTED", "peer memory", "Bad address", "cudaMallocAsync"):
        assert word in str(caught.value)
    assert isinstance(caught.value.dmabuf, cuda.CudaError)
    assert isinstance(caught.value.peermem, OSError)


def test_managed_memory_is_refused_before_any_export(cuda: Any, driver: Driver, recorder: Recorder) -> None:
    addr = driver.alloc(MIB, MANAGED)  # the stand-in aborts the process if it is asked to export this
    with pytest.raises(ValueError, match="managed"):
        cuda.register_tensor(recorder, DeviceTensor(addr, MIB), ACCESS)
    with pytest.raises(ValueError, match="managed"):
        cuda.dmabuf_fd(addr, PAGE)
    assert (recorder.exports, recorder.plain) == ([], [])


@pytest.mark.parametrize("n", range(1, 8))
def test_nothing_is_registered_as_long_as_the_driver_cannot_say_what_memory_is(
    cuda: Any, driver: Driver, recorder: Recorder, n: int
) -> None:
    """The stand-in aborts where managed memory is exported, as it would be if "I cannot say" were "not managed"."""
    addr = driver.alloc(PAGE, MANAGED)
    driver.fail("cuPointerGetAttribute", 999, n=n)
    with pytest.raises((ValueError, cuda.CudaError), match="managed|cuPointerGetAttribute"):
        cuda.dmabuf_fd(addr, PAGE)


def test_host_memory_is_sent_to_reg_tensor(cuda: Any, ib: Any, driver: Driver, recorder: Recorder) -> None:
    pinned = driver.alloc(MIB, PINNED)
    freed = driver.alloc(MIB)
    driver.free(freed)
    for addr in (pinned, freed, id(driver)):
        with pytest.raises(ValueError, match=f"{ib.__name__}.reg_tensor"):
            cuda.register_tensor(recorder, DeviceTensor(addr, 100), ACCESS)
    with pytest.raises(ValueError, match=f"{ib.__name__}.reg_tensor"):
        cuda.register_tensor(recorder, bytearray(100), ACCESS)
    assert (recorder.exports, recorder.plain) == ([], [])


def test_reg_tensor_sends_a_device_tensor_here(cuda: Any, ib: Any, driver: Driver, gpu_pd: Any) -> None:
    with pytest.raises(ValueError, match=f"{ib.__name__}.cuda.register_tensor"):
        ib.reg_tensor(gpu_pd, DeviceTensor(driver.alloc(MIB), MIB), ACCESS)


def test_an_empty_tensor_is_refused_before_the_driver_is_asked(cuda: Any, driver: Driver, recorder: Recorder) -> None:
    driver.reset()
    with pytest.raises(ValueError, match="empty"):
        cuda.register_tensor(recorder, DeviceTensor(0, 0), ACCESS)
    assert driver.log() == []
    driver.lib.cuInit(0)


# ---- contexts ------------------------------------------------------------------------------------------------------


def test_the_owning_context_is_current_for_the_export_and_the_threads_own_afterwards(
    cuda: Any, driver: Driver, recorder: Recorder
) -> None:
    addr = driver.alloc(MIB, device=1)
    contexts = [driver.context(0) for _ in range(3)]
    for context in contexts:
        driver.push(context)
    cuda.register_tensor(recorder, DeviceTensor(addr, MIB), ACCESS).close()
    assert driver.log("cuMemGetHandleForAddressRange")[0][1] == "1"
    for context in reversed(contexts):
        assert driver.current() == context
        driver.pop()


def test_memory_without_a_context_is_exported_under_the_primary_one_of_its_device(
    cuda: Any, driver: Driver, recorder: Recorder
) -> None:
    base = driver.reserve(4 * MIB)
    driver.map(base, 2 * MIB, device=1)
    cuda.register_tensor(recorder, DeviceTensor(base, MIB), ACCESS).close()
    assert {line[1] for line in driver.log("cuMemGetHandleForAddressRange")} == {"1"}
    assert driver.retained(1) == 0


def test_a_thread_without_a_context_registers(cuda: Any, driver: Driver, recorder: Recorder) -> None:
    addr = driver.alloc(MIB)
    made: list[Any] = []
    thread = threading.Thread(
        target=lambda: made.append(cuda.register_tensor(recorder, DeviceTensor(addr, MIB), ACCESS))
    )
    thread.start()
    thread.join(10)
    assert made[0].length == MIB
    made[0].close()


@pytest.mark.parametrize(
    "function",
    [
        "cuDevicePrimaryCtxRetain",
        "cuCtxGetCurrent",
        "cuCtxPushCurrent_v2",
        "cuMemGetAddressRange_v2",
        "cuMemGetHandleForAddressRange",
        "cuCtxPopCurrent_v2",
        "cuDevicePrimaryCtxRelease_v2",
    ],
)
def test_a_call_that_fails_is_named_and_nothing_is_left(
    cuda: Any, driver: Driver, recorder: Recorder, function: str
) -> None:
    base = driver.reserve(4 * MIB)
    driver.map(base, 2 * MIB)
    recorder.refuse_plain = [OSError(errno.EFAULT, "Bad address")]
    outer = driver.context(0)
    driver.push(outer)
    driver.fail(function, 999, n=1)
    with pytest.raises(RuntimeError) as caught:
        cuda.register_tensor(recorder, DeviceTensor(base, MIB), ACCESS)
    assert function.partition("_v")[0] in str(caught.value)
    assert "999" in str(caught.value)
    assert driver.current() == outer
    driver.pop()
    if function == "cuDevicePrimaryCtxRelease_v2":  # what it did not do
        driver.lib.cuDevicePrimaryCtxRelease_v2(0)
        while driver.retained(0):
            driver.lib.cuDevicePrimaryCtxRelease_v2(0)


# ---- the path over PCIe --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("refusal", [INVALID_VALUE, NOT_SUPPORTED])
def test_a_pcie_mapping_that_is_refused_is_asked_for_again_without(
    cuda: Any, driver: Driver, recorder: Recorder, refusal: int
) -> None:
    driver.pcie(refusal)
    addr = driver.alloc(MIB)
    with cuda.register_tensor(recorder, DeviceTensor(addr, MIB), ACCESS, pcie=True) as mr:
        assert mr.way == "dmabuf"
    assert [line[-1] for line in driver.log("cuMemGetHandleForAddressRange")] == ["1", "0"]


def test_a_pcie_mapping_that_the_nic_cannot_use_is_asked_for_again_without(
    cuda: Any, driver: Driver, recorder: Recorder
) -> None:
    driver.pcie(0)
    recorder.refuse_export = [OSError(524, "ENOTSUPP")]
    addr = driver.alloc(MIB)
    with cuda.register_tensor(recorder, DeviceTensor(addr, MIB), ACCESS, pcie=True) as mr:
        assert mr.way == "dmabuf"
    assert len(recorder.exports) == 2


@pytest.mark.parametrize("code", [errno.ENOMEM, errno.EINVAL, errno.EOPNOTSUPP])
def test_any_failure_over_pcie_is_tried_again_without(cuda: Any, driver: Driver, recorder: Recorder, code: int) -> None:
    driver.pcie(0)
    recorder.refuse_export = [OSError(code, "no")]
    with cuda.register_tensor(recorder, DeviceTensor(driver.alloc(MIB), MIB), ACCESS, pcie=True) as mr:
        assert mr.way == "dmabuf"
    driver.pcie(999)
    with cuda.register_tensor(recorder, DeviceTensor(driver.alloc(MIB), MIB), ACCESS, pcie=True) as mr:
        assert mr.way == "dmabuf"


def test_the_way_that_was_taken_is_visible(cuda: Any, driver: Driver, recorder: Recorder) -> None:
    driver.pcie(0)
    tensor = DeviceTensor(driver.alloc(MIB), MIB)
    with cuda.register_tensor(recorder, tensor, ACCESS, pcie=True) as mr:
        assert mr.way == "dmabuf-pcie"
        assert "dmabuf-pcie" in repr(mr)
    driver.attribute(124, 0)
    with cuda.register_tensor(recorder, tensor, ACCESS) as mr:
        assert mr.way == "peermem"


def test_the_environment_overrides_the_path(
    cuda: Any, driver: Driver, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.pcie(0)
    tensor = DeviceTensor(driver.alloc(MIB), MIB)
    monkeypatch.setenv("RDMA_CUDA_PCIE", "pcie")
    with cuda.register_tensor(recorder, tensor, ACCESS) as mr:
        assert mr.way == "dmabuf-pcie"
    monkeypatch.setenv("RDMA_CUDA_PCIE", "sideways")
    with pytest.raises(ValueError, match="sideways"):
        cuda.register_tensor(recorder, tensor, ACCESS)


# ---- both ways fail ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "hint"),
    [(errno.EOPNOTSUPP, "import"), (errno.EPROTONOSUPPORT, "5.12"), (errno.ENOMEM, "BAR1"), (524, "PCIe")],
)
def test_a_registration_that_fails_both_ways_reports_both_and_what_to_do(
    cuda: Any, driver: Driver, recorder: Recorder, code: int, hint: str
) -> None:
    recorder.refuse_export = [OSError(code, "the first")]
    recorder.refuse_plain = [OSError(errno.EFAULT, "the second")]
    with pytest.raises(RuntimeError) as caught:
        cuda.register_tensor(recorder, DeviceTensor(driver.alloc(MIB), MIB), ACCESS)
    for word in ("the first", "the second", hint):
        assert word in str(caught.value)
    assert (caught.value.dmabuf.errno, caught.value.peermem.errno) == (code, errno.EFAULT)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value)


def test_a_driver_that_exports_nothing_says_what_it_takes(cuda: Any, driver: Driver, recorder: Recorder) -> None:
    driver.attribute(124, 0)
    recorder.refuse_plain = [OSError(errno.EFAULT, "Bad address")]
    with pytest.raises(RuntimeError, match="open kernel modules"):
        cuda.register_tensor(recorder, DeviceTensor(driver.alloc(MIB), MIB), ACCESS)


# ---- dmabuf_fd -----------------------------------------------------------------------------------------------------


def test_a_descriptor_has_the_size_that_was_asked_for(cuda: Any, driver: Driver) -> None:
    fd = cuda.dmabuf_fd(driver.alloc(MIB), 3 * PAGE)
    assert os.lseek(fd, 0, os.SEEK_END) == 3 * PAGE
    os.close(fd)


@pytest.mark.parametrize(("shift", "length", "name"), [(1, PAGE, "ptr"), (0, PAGE + 8, "length"), (0, 0, "range")])
def test_a_descriptor_of_what_is_not_pages_is_refused(
    cuda: Any, driver: Driver, shift: int, length: int, name: str
) -> None:
    with pytest.raises(ValueError, match=name):
        cuda.dmabuf_fd(driver.alloc(MIB) + shift, length)


def test_a_descriptor_beyond_the_allocation_is_refused(cuda: Any, driver: Driver) -> None:
    with pytest.raises(ValueError, match="beyond the allocation|nothing at"):
        cuda.dmabuf_fd(driver.alloc(MIB), 2 * MIB)


def test_a_descriptor_that_reaches_into_the_next_allocation_is_refused(cuda: Any, driver: Driver) -> None:
    addr = driver.alloc(2 * PAGE)
    driver.place(addr + 2 * PAGE, 2 * PAGE)
    with pytest.raises(ValueError, match=f"beyond the allocation, which ends at {addr + 2 * PAGE:#x}"):
        cuda.dmabuf_fd(addr, 4 * PAGE)


def test_a_descriptor_up_to_the_end_of_all_addresses_is_refused(cuda: Any, driver: Driver) -> None:
    addr = driver.alloc(MIB)
    with pytest.raises(ValueError, match="nothing at"):
        cuda.dmabuf_fd(addr, (1 << 64) - addr)


def test_a_users_own_export_is_used(
    cuda: Any, driver: Driver, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(cuda, "wants_pcie", lambda nic, gpu: True)  # of which a function of two arguments knows nothing

    def own(ptr: int, length: int) -> int:
        asked.append((ptr, length))
        fd = os.memfd_create("own")
        os.ftruncate(fd, length)
        return fd

    monkeypatch.setattr(cuda, "dmabuf_fd", own)
    addr = driver.alloc(MIB) + 100
    cuda.register_tensor(recorder, DeviceTensor(addr, 100), ACCESS).close()
    assert asked == [(addr - 100, PAGE)]
    assert recorder.exports == [(100, 100, addr, ACCESS)]


# ---- the region ----------------------------------------------------------------------------------------------------


def test_a_region_keeps_its_tensor_until_it_is_closed(cuda: Any, driver: Driver, gpu_pd: Any) -> None:
    tensor = DeviceTensor(driver.alloc(MIB), MIB)
    alive = weakref.ref(tensor)
    mr = cuda.register_tensor(gpu_pd, tensor, ACCESS)
    assert mr.tensor is tensor
    del tensor
    gc.collect()
    assert alive() is not None
    mr.close()
    mr.close()
    gc.collect()
    assert alive() is None
    assert (mr.closed, mr.tensor, repr(mr)) == (True, None, "<GpuMR, closed>")


@pytest.mark.parametrize("outcome", ["peermem", "neither"])
def test_a_tensor_goes_when_its_last_user_does_and_not_at_a_collection(
    cuda: Any, driver: Driver, recorder: Recorder, outcome: str
) -> None:
    tensor = DeviceTensor(driver.alloc(MIB), MIB)
    alive = weakref.ref(tensor)
    recorder.refuse_export = [OSError(errno.ENOMEM, "no room")]
    gc.collect()
    gc.disable()
    try:
        if outcome == "peermem":
            cuda.register_tensor(recorder, tensor, ACCESS).close()
        else:
            recorder.refuse_plain = [OSError(errno.EFAULT, "Bad address")]
            try:
                cuda.register_tensor(recorder, tensor, ACCESS)
            except cuda.GpuRegistrationError:
                pass
        del tensor
        assert alive() is None
    finally:
        gc.enable()


def test_a_closed_region_says_so(cuda: Any, ib: Any, driver: Driver, gpu_pd: Any) -> None:
    mr = cuda.register_tensor(gpu_pd, DeviceTensor(driver.alloc(MIB), MIB), ACCESS)
    mr.close()
    for use in ("addr", "length", "lkey", "rkey", "sge", "flush"):
        with pytest.raises(error_of(ib)) as caught:
            value = getattr(mr, use)
            value()
        assert caught.value.errno == errno.EBADF
        assert f"GpuMR.{use}" in str(caught.value)


def test_an_sge_of_a_region_keeps_it_and_stays_inside(cuda: Any, ib: Any, driver: Driver, gpu_pd: Any) -> None:
    addr = driver.alloc(MIB)
    mr = cuda.register_tensor(gpu_pd, DeviceTensor(addr + 64, 1000), ACCESS)
    sge = mr.sge()
    assert (sge.addr, sge.length, sge.lkey, sge.owner) == (addr + 64, 1000, mr.lkey, mr)
    part = mr.sge(10, offset=90)
    assert (part.addr, part.length) == (addr + 64 + 90, 10)
    for length, offset in ((1001, 0), (1, 1000), (None, 1001), (-1, 0)):
        with pytest.raises(ValueError):
            mr.sge(length, offset)
    mr.close()


def test_a_region_around_an_mr_at_hand(cuda: Any, ib: Any) -> None:
    class Own:
        lkey, rkey, closed = 5, 6, False

        def close(self) -> None:
            self.closed = True

    own = Own()
    mr = cuda.GpuMR(own, 0x7000, 128)
    assert (mr.mr, mr.addr, mr.length, mr.lkey, mr.rkey, mr.tensor, mr.closed) == (own, 0x7000, 128, 5, 6, None, False)
    assert mr.sge(8).addr == 0x7000
    with mr:
        pass
    assert own.closed


def test_a_dropped_region_ends_its_registration_before_what_owns_the_memory(cuda: Any) -> None:
    ended: list[str] = []

    class Member:
        def __init__(self, name: str) -> None:
            self.name = name

        def __del__(self) -> None:
            ended.append(self.name)

    region = cuda.GpuMR(Member("registration"), 0x7000, 128, Member("tensor"))
    region._owner = Member("export")
    del region
    assert ended[0] == "registration" and sorted(ended[1:]) == ["export", "tensor"]


# ---- endurance -----------------------------------------------------------------------------------------------------


def test_descriptors_and_memory_do_not_grow(cuda: Any, driver: Driver, recorder: Recorder) -> None:
    tensor = DeviceTensor(driver.alloc(MIB) + 8, 5000)

    def run(count: int) -> None:
        for i in range(count):
            if i % 3 == 0:
                recorder.refuse_export = [OSError(errno.ENOMEM, "no room")]
                recorder.refuse_plain = [OSError(errno.EFAULT, "Bad address")]
                with pytest.raises(RuntimeError):
                    cuda.register_tensor(recorder, tensor, ACCESS)
            else:
                cuda.register_tensor(recorder, tensor, ACCESS).close()
            recorder.exports.clear(), recorder.plain.clear(), recorder.sizes.clear()

    run(60)
    gc.collect()
    before, blocks = descriptors(), sys.getallocatedblocks()
    run(10_000)
    gc.collect()
    assert descriptors() == before
    assert sys.getallocatedblocks() - blocks < 300


def test_threads_register_at_once_while_others_hold_the_interpreter(cuda: Any, driver: Driver, gpu_pd: Any) -> None:
    tensors = [DeviceTensor(driver.alloc(MIB, device=i % 2), MIB) for i in range(8)]

    def work(tensor: DeviceTensor) -> None:
        for _ in range(50):
            cuda.register_tensor(gpu_pd, tensor, ACCESS).close()

    together(*(functools.partial(work, tensor) for tensor in tensors), timeout=60)


def test_kinds_of_memory_are_what_the_driver_says(cuda: Any, driver: Driver) -> None:
    inner = sys.modules[cuda.__name__.rpartition(".")[0] + "._cuda_driver"]
    base = driver.reserve(4 * MIB)
    driver.map(base, 2 * MIB)
    kinds = {
        driver.alloc(100, DEVICE): "device",
        driver.alloc(100, POOL): "pool",
        driver.alloc(100, MANAGED): "managed",
        driver.alloc(100, PINNED): "pinned",
        base: "vmm",
        base + 3 * MIB: "unmapped",
        4096: "host",
    }
    assert {addr: inner.pointer(addr).kind for addr in kinds} == kinds
