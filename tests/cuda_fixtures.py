# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures for tests of GPU memory: the stand-in driver, a PD that takes dma-bufs, and what both are asked."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cuda_control import Driver, descriptors, folder
from place import in_user_mode_linux


@pytest.fixture(scope="session")
def stand_in_libcuda(ib: Any) -> Path:
    """The folder of the stand-in libcuda."""
    if in_user_mode_linux():
        pytest.skip("needs no kernel, and runs everywhere else")
    place = folder(ib, "driver")
    if place is None:
        pytest.skip("needs the stand-in libcuda: a build folder, or RDMA_TEST_CUDA")
    return place


@pytest.fixture(scope="session")
def cuda_driver(stand_in_libcuda: Path) -> Driver:
    """The stand-in libcuda, where the package finds it."""
    os.environ["RDMA_CUDA_LIBRARY_PATH"] = str(stand_in_libcuda)
    return Driver(stand_in_libcuda)


@pytest.fixture
def cuda(ib: Any, cuda_driver: Driver) -> Iterator[Any]:
    """The package's .cuda, over a driver as new; nothing may be left of a test: no context, no descriptor."""
    cuda_driver.reset()
    cuda_driver.lib.cuInit(0)
    before = descriptors()
    yield importlib.import_module(f"{ib.__name__}.cuda")
    gc.collect()
    assert cuda_driver.current() is None, "a context was left on the thread"
    assert [cuda_driver.retained(i) for i in range(2)] == [0, 0], "a primary context was left retained"
    assert not {fd for fd in descriptors() - before if _is_export(fd)}, "a descriptor was left open"
    cuda_driver.reset()


def _is_export(fd: str) -> bool:
    try:
        return "stand-in" in os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return False


@pytest.fixture
def driver(cuda: Any, cuda_driver: Driver) -> Driver:
    return cuda_driver


@pytest.fixture
def gpu_pd(ib: Any) -> Iterator[Any]:
    """A PD of the first device that registers dma-bufs."""
    with contextlib.ExitStack() as undo:
        for device in ib.get_device_list():
            context = undo.enter_context(device.open())
            pd = undo.enter_context(context.alloc_pd())
            if _takes_dmabufs(pd):
                yield pd
                return
        pytest.skip("needs a device that registers dma-bufs")


def _takes_dmabufs(pd: Any) -> bool:
    fd = os.memfd_create("probe")
    try:
        os.ftruncate(fd, 4096)
        pd.reg_dmabuf_mr(0, 4096, 0, fd, 1).close()
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


class Recorder:
    """A PD as seen by what registers: notes what is asked, and lets either way fail."""

    def __init__(self, pd: Any) -> None:
        self.pd = pd
        self.exports: list[tuple[int, ...]] = []
        self.sizes: list[int] = []
        self.plain: list[tuple[int, ...]] = []
        self.refuse_export: list[BaseException] = []
        self.refuse_plain: list[BaseException] = []

    def reg_dmabuf_mr(self, offset: int, length: int, iova: int, fd: int, access: int) -> Any:
        self.exports.append((offset, length, iova, access))
        self.sizes.append(os.lseek(fd, 0, os.SEEK_END))
        if self.refuse_export:
            raise self.refuse_export.pop(0)
        return self.pd.reg_dmabuf_mr(offset, length, iova, fd, access)

    def reg_mr(self, addr: int, length: int, access: int) -> Any:
        self.plain.append((addr, length, access))
        if self.refuse_plain:
            raise self.refuse_plain.pop(0)
        return Region(addr, length)


class Region:
    """What a registration by peer memory would give."""

    def __init__(self, addr: int, length: int) -> None:
        self.addr, self.length, self.lkey, self.rkey, self.closed = addr, length, 7, 8, False

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def recorder(gpu_pd: Any) -> Recorder:
    return Recorder(gpu_pd)
