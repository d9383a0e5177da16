# SPDX-License-Identifier: BSD-3-Clause
"""Any call of the driver may fail: then an error names it, or another way is taken, and nothing is left behind."""

from __future__ import annotations

import functools
import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from typing import Any, Callable

import pytest
from cuda_control import MANAGED, PAGE, PINNED, POOL, DeviceTensor, Driver, descriptors
from cuda_fixtures import Recorder
from own_process import own_process
from place import seconds
from together import together

MIB = 1 << 20
ACCESS = 1
CODE = 999


def mapped(driver: Driver) -> int:
    base = driver.reserve(8 * MIB)
    for i in range(3):
        driver.map(base + i * 2 * MIB, 2 * MIB, device=1)
    return base


MEMORY: dict[str, Callable[[Driver], tuple[int, int]]] = {
    "allocated": lambda driver: (driver.alloc(3 * PAGE, device=1) + 257, 5000),
    "small": lambda driver: (driver.alloc(100, shift=512), 100),
    "mapped": lambda driver: (mapped(driver) + 2 * MIB - PAGE, 2 * PAGE),
    "of a pool": lambda driver: (driver.alloc(PAGE, POOL, device=1), PAGE),
    "managed": lambda driver: (driver.alloc(PAGE, MANAGED), PAGE),
    "pinned": lambda driver: (driver.alloc(PAGE, PINNED), PAGE),
    "not mapped": lambda driver: (driver.reserve(MIB), MIB),
}

CALLS: dict[str, Callable[[Any, Any, Recorder, DeviceTensor], Any]] = {
    "register": lambda ib, cuda, recorder, tensor: cuda.register_tensor(recorder, tensor, ACCESS).close(),
    "over pcie": lambda ib, cuda, recorder, tensor: cuda.register_tensor(recorder, tensor, ACCESS, pcie=True).close(),
    "cache": lambda ib, cuda, recorder, tensor: twice(ib.RegistrationCache(recorder, ACCESS), tensor),
    "flush": lambda ib, cuda, recorder, tensor: cuda.GpuMR(recorder, tensor.data_ptr(), 1).flush(all_devices=True),
    "synchronize": lambda ib, cuda, recorder, tensor: cuda.synchronize(),
    "support": lambda ib, cuda, recorder, tensor: cuda.gpudirect_support(1),
}


def twice(cache: Any, tensor: DeviceTensor) -> None:
    with cache:
        cache.region(tensor)
        cache.region(tensor)


def said(work: Callable[[], Any]) -> BaseException | None:
    try:
        work()
    except (RuntimeError, ValueError) as error:
        return error
    return None


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", MEMORY)
def test_whichever_call_of_the_driver_fails_nothing_is_left(
    ib: Any, cuda: Any, driver: Driver, recorder: Recorder, kind: str, call: str
) -> None:
    """Every call in turn: the thread's contexts, the primary ones and the descriptors are as they were before."""
    n = 0
    while True:
        n += 1
        driver.reset()
        driver.lib.cuInit(0)
        addr, length = MEMORY[kind](driver)
        outer = [driver.context(0), driver.context(1)]
        for context in outer:
            driver.push(context)
        driver.pcie(0)
        before, calls = descriptors(), len(driver.log())
        driver.fail("", CODE, n=n)
        error = said(partial(CALLS[call], ib, cuda, recorder, DeviceTensor(addr, length)))
        made = driver.log()[calls:]
        driver.forget()
        assert descriptors() == before
        if len(made) >= n:
            failed = made[n - 1][0]
            if failed == "cuDevicePrimaryCtxRelease_v2":  # it did not do it, and says so
                driver.lib.cuDevicePrimaryCtxRelease_v2(1)
            assert error is None or str(error), failed
        assert [driver.retained(i) for i in range(2)] == [0, 0]
        for context in reversed(outer):
            assert driver.current() == context
            driver.pop()
        assert driver.current() is None
        if len(made) < n:
            return


def test_failures_at_random_leave_nothing_over_time(cuda: Any, driver: Driver, recorder: Recorder) -> None:
    """Ten thousand registrations, each third of which fails at some call of the driver."""
    tensors = [DeviceTensor(driver.alloc(MIB) + 8, 5000), DeviceTensor(mapped(driver), 100)]
    chance = random.Random(1)

    def run(count: int) -> None:
        for i in range(count):
            if i % 3 == 0:
                driver.forget()
                driver.fail("", CODE, n=chance.randrange(1, 60))
                recorder.refuse_plain = [OSError(14, "Bad address")]
            said(partial(CALLS["register"], None, cuda, recorder, tensors[i % 2]))
            while driver.retained(1):  # where the release itself failed
                driver.lib.cuDevicePrimaryCtxRelease_v2(1)
            recorder.exports.clear(), recorder.plain.clear(), recorder.sizes.clear()

    run(120)
    gc.collect()
    before, blocks = descriptors(), sys.getallocatedblocks()
    run(10_000)
    gc.collect()
    assert descriptors() == before
    assert sys.getallocatedblocks() - blocks < 300
    assert driver.current() is None


@own_process
def test_while_the_driver_takes_its_time_other_threads_run(
    ib: Any, cuda: Any, driver: Driver, recorder: Recorder
) -> None:
    """Each function is held up in the driver. Where a call kept the interpreter, nobody could let it go on."""
    signal.alarm(int(seconds(10)))  # of which no Python code would be told
    tensor = DeviceTensor(mapped(driver), PAGE)
    calls = {**CALLS, "flush the current": lambda *_: cuda.flush_gpudirect_writes()}

    def work(call: Callable[[Any, Any, Recorder, DeviceTensor], Any]) -> None:
        driver.push(driver.context(1))
        said(partial(call, ib, cuda, recorder, tensor))
        driver.pop()

    for call in calls.values():
        driver.forget()
        work(call)
        for function in {line[0] for line in driver.log()}:
            driver.stop_at(function)
            thread = threading.Thread(target=work, args=(call,))
            thread.start()
            while not driver.stopped():
                time.sleep(1e-4)
            driver.stop_at("")
            thread.join()
    signal.alarm(0)


LEAVES = """
import importlib, os, pathlib, sys
from cuda_control import Driver, DeviceTensor
from cuda_fixtures import Region
package = importlib.import_module(sys.argv[1])
cuda = importlib.import_module(sys.argv[1] + ".cuda")
driver = Driver(pathlib.Path(os.environ["RDMA_CUDA_LIBRARY_PATH"]))
driver.reset()
class PD:
    def reg_dmabuf_mr(self, offset, length, iova, fd, access): return Region(iova, length)
tensor = DeviceTensor(driver.alloc(1 << 20), 1 << 20)
driver.lib.cuInit(0)
cache = package.RegistrationCache(PD(), 1)
kept = [cuda.register_tensor(PD(), tensor, 1), cache.region(tensor), cache.sge(tensor)]
circle = [kept, cache]; circle.append(circle)
driver.fail("", -1)  # a call from now on ends the process
"""


def test_a_driver_that_is_gone_at_exit_is_not_called(ib: Any, cuda_driver: Driver) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEAVES, ib.__name__],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_threads_that_fail_and_threads_that_do_not_share_the_driver(
    cuda: Any, driver: Driver, recorder: Recorder
) -> None:
    """No thread's failure is another's, and none waits for one that has the interpreter."""
    tensors = [DeviceTensor(driver.alloc(PAGE, device=i % 2), PAGE) for i in range(4)]
    managed = DeviceTensor(driver.alloc(PAGE, MANAGED), PAGE)

    def work(tensor: DeviceTensor) -> None:
        for _ in range(100):
            cuda.register_tensor(recorder, tensor, ACCESS).close()
            assert isinstance(said(lambda: cuda.register_tensor(recorder, managed, ACCESS)), ValueError)

    together(*(functools.partial(work, tensor) for tensor in tensors), timeout=60)
