# SPDX-License-Identifier: BSD-3-Clause
"""Flushes, synchronization and what a device says that it can do, over a stand-in driver."""

from __future__ import annotations

import os
import pathlib
import pickle
import subprocess
import sys
from typing import Any

import pytest
from cuda_control import DeviceTensor, Driver, folder

MIB = 1 << 20
FLUSH_OPTIONS, ORDERING = 117, 118
OWNER, ALL = 100, 200


@pytest.mark.parametrize("all_devices", [False, True])
@pytest.mark.parametrize("ordering", [0, OWNER, ALL])
@pytest.mark.parametrize("options", [0, 1, 2, 3])
def test_a_flush_is_made_where_the_driver_needs_one_and_has_one(
    cuda: Any, driver: Driver, gpu_pd: Any, options: int, ordering: int, all_devices: bool
) -> None:
    scope = ALL if all_devices else OWNER
    for device in (0, 1):
        driver.attribute(FLUSH_OPTIONS, options, device)
        driver.attribute(ORDERING, ordering, device)
    mr = cuda.register_tensor(gpu_pd, DeviceTensor(driver.alloc(MIB, device=1), MIB), 1)
    needed = scope > ordering
    if needed and not options & 1:
        with pytest.raises(cuda.CudaError) as caught:
            mr.flush(all_devices=all_devices)
        assert caught.value.code == -2
        assert "RDMA read" in str(caught.value)
    else:
        mr.flush(all_devices=all_devices)
    calls = [line[1:] for line in driver.log("cuFlushGPUDirectRDMAWrites")]
    assert calls == ([["1", "0", str(scope)]] if needed and options & 1 else [])  # under the owner's context
    mr.close()


def test_a_flush_of_the_current_device_needs_a_current_context(cuda: Any, driver: Driver) -> None:
    driver.attribute(ORDERING, 0)
    with pytest.raises(cuda.CudaError) as caught:
        cuda.flush_gpudirect_writes()
    assert caught.value.code == 201
    driver.push(driver.context(0))
    cuda.flush_gpudirect_writes()
    cuda.flush_gpudirect_writes(all_devices=True)
    assert [line[3] for line in driver.log("cuFlushGPUDirectRDMAWrites")] == ["100", "200"]
    driver.pop()


def test_a_flush_of_memory_that_was_freed_says_so(cuda: Any, driver: Driver, gpu_pd: Any) -> None:
    addr = driver.alloc(MIB)
    with cuda.register_tensor(gpu_pd, DeviceTensor(addr, MIB), 1) as mr:
        driver.free(addr)
        with pytest.raises(ValueError, match=f"{addr:#x}.*freed"):
            mr.flush()


def test_a_device_that_cannot_be_asked_what_a_flush_takes_is_no_device_without_one(cuda: Any, driver: Driver) -> None:
    driver.push(driver.context(0))
    for n in (1, 2):
        driver.attribute(ORDERING, 0)
        driver.fail("cuDeviceGetAttribute", 700, n=n)
        with pytest.raises(cuda.CudaError) as caught:
            cuda.flush_gpudirect_writes()
        assert (caught.value.operation, caught.value.code) == ("cuDeviceGetAttribute", 700)
        driver.reset()
        driver.lib.cuInit(0)
        driver.push(driver.context(0))
    driver.pop()


def test_synchronize_waits_for_the_current_context(cuda: Any, driver: Driver) -> None:
    driver.push(driver.context(1))
    cuda.synchronize()
    driver.pop()
    assert [line[1] for line in driver.log("cuCtxSynchronize")] == ["1"]


def test_synchronize_without_a_context_waits_for_the_devices_in_use(cuda: Any, driver: Driver) -> None:
    cuda.synchronize()
    assert driver.log("cuCtxSynchronize") == []
    driver.lib.cuDevicePrimaryCtxRetain(bytes(8), 1)
    cuda.synchronize()
    assert [line[1] for line in driver.log("cuCtxSynchronize")] == ["1"]
    driver.lib.cuDevicePrimaryCtxRelease_v2(1)


def test_synchronize_before_anybody_used_cuda_has_nothing_to_wait_for(cuda: Any, driver: Driver) -> None:
    driver.reset()
    cuda.synchronize()
    assert driver.log("cuInit") == []
    driver.lib.cuInit(0)


@pytest.mark.parametrize(("code", "name"), [(900, "CAPTURE"), (700, "ILLEGAL_ADDRESS"), (12345, "12345")])
def test_a_failure_has_its_name_and_its_number(cuda: Any, driver: Driver, code: int, name: str) -> None:
    driver.push(driver.context(0))
    driver.fail("cuCtxSynchronize", code)
    with pytest.raises(RuntimeError, match=name) as caught:
        cuda.synchronize()
    driver.pop()
    assert (caught.value.operation, caught.value.code) == ("cuCtxSynchronize", code)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.code) == (str(caught.value), code)


def test_what_a_device_can_do(cuda: Any, driver: Driver) -> None:
    driver.attribute(124, 0, 1)
    driver.attribute(FLUSH_OPTIONS, 3, 1)
    driver.attribute(ORDERING, ALL, 1)
    first, second = cuda.gpudirect_support(), cuda.gpudirect_support(1)
    assert (first.dma_buf, first.flush_from_host, first.flush_from_stream, first.ordering) == (True, True, False, OWNER)
    assert (second.dma_buf, second.flush_from_stream, second.ordering) == (False, True, ALL)
    assert (second.name, second.pci_address, second.driver_version) == ("Stand-in 1", "0000:4b:00.0", 12080)
    with pytest.raises(ValueError, match="device 2"):
        cuda.gpudirect_support(2)


@pytest.mark.parametrize("code", [100, 803, 999])
def test_a_driver_that_does_not_start_says_why_each_time(cuda: Any, driver: Driver, code: int) -> None:
    driver.fail("cuInit", code)
    for _ in range(2):
        with pytest.raises(cuda.CudaError) as caught:
            cuda.gpudirect_support()
        assert caught.value.code == code


SCRIPT = """
import importlib, sys
package = sys.argv[1]
importlib.import_module(package)
cuda = importlib.import_module(package + ".cuda")
class Tensor:
    device = "cuda:0"; is_cuda = True; nbytes = 4096
    def data_ptr(self): return 0x7000_0000_0000
class PD:
    def reg_dmabuf_mr(self, *a): raise AssertionError("exported")
    def reg_mr(self, *a): raise OSError(14, "Bad address")
try:
    cuda.register_tensor(PD(), Tensor(), 1)
except RuntimeError as error:
    print(type(error).__name__, error)
try:
    cuda.synchronize()
except RuntimeError as error:
    print(type(error).__name__, error)
"""


def run_with(ib: Any, path: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, ib.__name__],
        env={**os.environ, "RDMA_CUDA_LIBRARY_PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def variant(ib: Any, name: str) -> str:
    place = folder(ib, name)
    if place is None:
        pytest.skip("needs the stand-in libcuda: a build folder, or RDMA_TEST_CUDA")
    return str(place)


def test_without_a_driver_the_import_works_and_both_errors_are_told(ib: Any, tmp_path: pathlib.Path) -> None:
    text = run_with(ib, str(tmp_path))
    for word in ("GpuRegistrationError", "libcuda.so.1 cannot be loaded", "NVIDIA's driver", "Bad address"):
        assert word in text


def test_the_stub_of_the_toolkit_is_recognised(ib: Any) -> None:
    text = run_with(ib, variant(ib, "toolkit-stub"))
    assert "stub of the CUDA toolkit" in text
    assert "LD_LIBRARY_PATH" in text


def test_a_driver_too_old_to_export_is_told_from_one_that_refuses(ib: Any) -> None:
    path = variant(ib, "old")
    script = SCRIPT.replace(
        "class Tensor",
        f"""
import ctypes
fake = ctypes.CDLL({path!r} + "/libcuda.so.1"); fake.fake_alloc.restype = ctypes.c_uint64
fake.fake_reset(); addr = fake.fake_alloc(1, 0, ctypes.c_uint64(4096), ctypes.c_uint64(0))
class Tensor""",
    ).replace("0x7000_0000_0000", "addr")
    done = subprocess.run(
        [sys.executable, "-c", script, ib.__name__],
        env={**os.environ, "RDMA_CUDA_LIBRARY_PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "cuMemGetHandleForAddressRange" in done.stdout
    assert "CUDA 11.7" in done.stdout


@pytest.mark.parametrize("first", ["cuda.gpudirect_support()", "fake.cuInit(0)"])
def test_a_child_of_a_fork_is_told_that_cuda_does_not_survive_it(ib: Any, first: str) -> None:
    """Whoever initialised it, this package or a framework."""
    path = variant(ib, "driver")
    script = f"""
import ctypes, importlib, os, sys
cuda = importlib.import_module(sys.argv[1] + ".cuda")
fake = ctypes.CDLL({path!r} + "/libcuda.so.1"); fake.fake_reset()
{first}
child = os.fork()
if child == 0:
    fake.fake_fail(b"cuInit", 0, 3)
    try:
        cuda.gpudirect_support()
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, ib.__name__],
        env={**os.environ, "RDMA_CUDA_LIBRARY_PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "forked" in done.stdout, done.stderr
