# SPDX-License-Identifier: BSD-3-Clause
"""What a real GPU and its driver do with the memory that RDMA would register: one command, no NIC needed.

    python gpu_check.py [ibverbs|efa]

Needs NVIDIA's driver and the package, installed from its wheel; nothing is built. A machine without libibverbs can
point RDMA_LIBRARY_PATH at any library that stands in for it, since no RDMA device is opened. Uses torch and CuPy where
they are installed. Prints a table: what was asked, what the package rests on, and what was seen; a row that begins with
"!" differs from what the package rests on, "?" was not known before. Ends with status 1 if there is a "!".
"""

from __future__ import annotations

import ctypes
import importlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable

PAGE = os.sysconf("SC_PAGESIZE")
COUNT = int(os.environ.get("GPU_CHECK_COUNT", "2000"))
MIB = 1 << 20
ANY = object()

Rows = list[tuple[str, str, Any, Any]]


class Cuda:
    """The driver by ctypes: only what makes memory to look at. Each call raises with the code that came back."""

    def __init__(self) -> None:
        folder = os.environ.get("RDMA_CUDA_LIBRARY_PATH")
        self.lib = ctypes.CDLL(os.path.join(folder, "libcuda.so.1") if folder else "libcuda.so.1")

    def __call__(self, name: str, *arguments: Any) -> None:
        code = getattr(self.lib, name)(*arguments)
        if code:
            raise RuntimeError(f"{name}: {code}")

    def address(self, name: str, *arguments: Any) -> int:
        value = ctypes.c_uint64()
        self(name, ctypes.byref(value), *arguments)
        return int(value.value)

    def context(self, device: int) -> Any:
        context = ctypes.c_void_p()
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        return context


class Report:
    """The table. A check that raises is a row too."""

    def __init__(self) -> None:
        self.rows: Rows = []

    def note(self, what: str, expected: Any, seen: Any) -> None:
        mark = "?" if expected is ANY else " " if expected == seen else "!"
        self.rows.append((mark, what, "" if expected is ANY else expected, seen))

    def check(self, title: str, run: Callable[[], None]) -> None:
        try:
            run()
        except Exception as error:
            self.rows.append(("?", title, "", f"not done: {type(error).__name__}: {error}"))

    def print(self) -> int:
        width = max(len(row[1]) for row in self.rows)
        print(f"  {'what':<{width}}  {'rests on':<28}  seen")
        for mark, what, expected, seen in self.rows:
            print(f"{mark} {what:<{width}}  {expected!s:<28}  {seen}")
        return int(any(row[0] == "!" for row in self.rows))


def outcome(call: Callable[[], Any]) -> str:
    """What a call says, in a word or two."""
    try:
        value = call()
    except Exception as error:
        code = getattr(error, "code", None)
        return f"{type(error).__name__} {code}" if code is not None else f"{type(error).__name__}: {error}"[:70]
    if isinstance(value, int) and not isinstance(value, bool):
        os.close(value)
        return "exported"
    return str(value)


class Checks:
    def __init__(self, package: str) -> None:
        self.package = importlib.import_module(package)
        self.cuda: Any = importlib.import_module(f"{package}.cuda")
        self.driver: Any = importlib.import_module(f"{package}._cuda_driver")
        self.report = Report()
        self.raw = Cuda()

    @contextmanager
    def memory(self, size: int, name: str = "cuMemAlloc_v2", *more: Any, free: str = "cuMemFree_v2") -> Iterator[int]:
        addr = self.raw.address(name, ctypes.c_size_t(size), *more)
        try:
            yield addr
        finally:
            self.raw(free, ctypes.c_uint64(addr))

    def pages(self, addr: int, length: int) -> tuple[int, int]:
        base = addr - addr % PAGE
        return base, -(-(addr + length - base) // PAGE) * PAGE

    def export(self, addr: int, length: int, **more: Any) -> str:
        return outcome(lambda: self.cuda.dmabuf_fd(*self.pages(addr, length), **more))

    # ---- the checks ----

    def devices(self) -> None:
        self.driver.ready()
        for ordinal in range(self.driver.device_count()):
            for name, value in self.cuda.gpudirect_support(ordinal)._asdict().items():
                self.report.note(f"device {ordinal}: {name}", ANY, value)

    def plain(self) -> None:
        note = self.report.note
        with self.memory(4 * MIB) as addr:
            pointer = self.driver.pointer(addr)
            note("cuMemAlloc: kind", "device", pointer.kind)
            note("cuMemAlloc: has a context", True, pointer.context != 0)
            note("cuMemAlloc: peer memory may pin it", ANY, pointer.peer_memory)
            (found,), _, _ = self.driver.ranges(pointer, addr + 5, 1)
            note("cuMemAlloc: range is what was asked for", (addr, 4 * MIB), (found.base, found.size))
            fd = self.cuda.dmabuf_fd(addr - addr % PAGE, 4 * MIB)
            note("export: size by lseek", 4 * MIB, os.lseek(fd, 0, os.SEEK_END))
            note("export: closed on exec", False, os.get_inheritable(fd))
            os.close(fd)
            note("export of a part", "exported", self.export(addr + MIB + 257, 100))
            note("export past the end", ANY, self.export(addr, 64 * MIB))
            note("export with the PCIe flag", ANY, self.export(addr, MIB, pcie=True))
            note(
                "export of what is not pages, by the driver",
                ANY,
                outcome(lambda: self.driver.export(pointer, addr + 8, 100, False)),
            )
        note("freed: kind", "host", self.driver.pointer(addr).kind)

    def small(self) -> None:
        with self.memory(100) as addr, self.memory(100) as second:
            self.report.note("two of 100 bytes: distance", ANY, second - addr)
            self.report.note("100 bytes, page-rounded export", "exported", self.export(addr, 100))
            self.report.note("its base is a page's", ANY, addr % PAGE == 0)

    def identities(self) -> None:
        seen = set()
        for _ in range(3):
            with self.memory(2 * MIB) as addr:
                seen.add(self.driver.pointer(addr).buffer_id)
        self.report.note("buffer ids of three allocations", 3, len(seen))

    def managed(self) -> None:
        with self.memory(MIB, "cuMemAllocManaged", 1) as addr:
            self.report.note("managed: kind", "managed", self.driver.pointer(addr).kind)
            self.report.note("managed: refused without an export", True, "managed memory" in self.export(addr, MIB))

    def pinned(self) -> None:
        with self.memory(MIB, "cuMemHostAlloc", 0, free="cuMemFreeHost") as addr:
            self.report.note("pinned: kind", "pinned", self.driver.pointer(addr).kind)

    def pool(self) -> None:
        with self.memory(MIB, "cuMemAllocAsync", None, free="cuMemFree_v2") as addr:
            pointer = self.driver.pointer(addr)
            self.report.note("pool: kind", "pool", pointer.kind)
            self.report.note("pool: has a context", False, pointer.context != 0)
            self.report.note("pool: peer memory may pin it", ANY, pointer.peer_memory)
            self.report.note("pool: export", ANY, self.export(addr, MIB))

    def mapped(self) -> None:
        """Four mappings in a row, the fourth taken out again."""
        raw, note = self.raw, self.report.note
        prop = (ctypes.c_uint8 * 32)()
        ctypes.c_int.from_buffer(prop, 0).value = 1  # pinned
        ctypes.c_int.from_buffer(prop, 8).value = 1  # on a device, number 0
        prop[25] = 1  # GPUDirect RDMA capable
        size = ctypes.c_size_t()
        raw("cuMemGetAllocationGranularity", ctypes.byref(size), prop, 0)
        step = int(size.value)
        base = raw.address("cuMemAddressReserve", ctypes.c_size_t(6 * step), ctypes.c_size_t(0), ctypes.c_uint64(0), 0)
        handles = []
        access = (ctypes.c_int * 3)(1, 0, 3)  # a device, number 0, read and write
        for i in range(4):
            handle = raw.address("cuMemCreate", ctypes.c_size_t(step), prop, ctypes.c_uint64(0))
            handles.append(handle)
            raw(
                "cuMemMap",
                ctypes.c_uint64(base + i * step),
                ctypes.c_size_t(step),
                ctypes.c_size_t(0),
                ctypes.c_uint64(handle),
                ctypes.c_uint64(0),
            )
        raw("cuMemSetAccess", ctypes.c_uint64(base), ctypes.c_size_t(4 * step), access, ctypes.c_size_t(1))
        pointer = self.driver.pointer(base)
        note("mapped: kind", "vmm", pointer.kind)
        note("mapped: has a context", False, pointer.context != 0)
        note("mapped: peer memory may pin it", ANY, pointer.peer_memory)
        found, _, error = self.driver.ranges(pointer, base + step // 2, 3 * step)
        note("mapped: mappings under three and a half", 4, len(found))
        note("mapped: each is known by itself", 4, len({row.buffer_id for row in found}))
        note("mapped: walk ends well", None, error)
        note("mapped: one export over all four", "exported", self.export(base, 4 * step))
        note("mapped: export of a page inside", "exported", self.export(base + step + PAGE, PAGE))
        raw("cuMemUnmap", ctypes.c_uint64(base + 2 * step), ctypes.c_size_t(step))
        note("a hole: kind of its address", "unmapped", self.driver.pointer(base + 2 * step).kind)
        note("a hole: named", True, "nothing at" in self.export(base, 4 * step))
        note("a hole: what the driver says", ANY, outcome(lambda: self.driver.export(pointer, base, 4 * step, False)))
        for i in (0, 1, 3):
            raw("cuMemUnmap", ctypes.c_uint64(base + i * step), ctypes.c_size_t(step))
        for handle in handles:
            raw("cuMemRelease", ctypes.c_uint64(handle))
        raw("cuMemAddressFree", ctypes.c_uint64(base), ctypes.c_size_t(6 * step))

    def threads(self) -> None:
        with self.memory(MIB) as addr:
            said: list[str] = []
            thread = threading.Thread(target=lambda: said.append(self.export(addr, MIB)))
            thread.start()
            thread.join()
            self.report.note("export in a thread without a context", "exported", said[0])
            current = ctypes.c_void_p()
            self.raw("cuCtxGetCurrent", ctypes.byref(current))
            before = current.value
            self.export(addr, MIB)
            self.raw("cuCtxGetCurrent", ctypes.byref(current))
            self.report.note("the current context afterwards", before, current.value)

    def order(self) -> None:
        self.report.note("synchronize", "None", outcome(self.cuda.synchronize))
        self.report.note("flush to the owner", ANY, outcome(self.cuda.flush_gpudirect_writes))
        self.report.note("flush to all", ANY, outcome(lambda: self.cuda.flush_gpudirect_writes(all_devices=True)))
        fault = self.driver.CudaError
        self.report.note("errors have names", True, "INVALID_VALUE" in str(fault("f", 1)))

    def endurance(self) -> None:
        with self.memory(8 * MIB) as addr:
            base, size = self.pages(addr, 4 * MIB)
            for _ in range(10):
                os.close(self.cuda.dmabuf_fd(base, size))
            before, started, count = len(os.listdir("/proc/self/fd")), time.perf_counter(), COUNT
            for _ in range(count):
                os.close(self.cuda.dmabuf_fd(base, size))
            each = (time.perf_counter() - started) / count
            self.report.note("export and close of 4 MiB, each", ANY, f"{each * 1e6:.1f} us")
            self.report.note(f"descriptors left by {count} exports", 0, len(os.listdir("/proc/self/fd")) - before)
            started = time.perf_counter()
            for _ in range(count):
                self.driver.pointer(addr)
            self.report.note("classification, each", ANY, f"{(time.perf_counter() - started) / count * 1e6:.1f} us")

    def fork(self) -> None:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writer, outcome(self.driver.ready).encode())
            finally:
                os._exit(0)
        os.close(writer)
        os.waitpid(child, 0)
        self.report.note("cuInit in a child of a fork", ANY, os.read(reader, 200).decode())
        os.close(reader)

    def torch(self, segments: str = "") -> None:
        import torch  # type: ignore[import-not-found, unused-ignore]

        title = f"torch {torch.__version__}{segments}"
        tensor = torch.arange(3_000_000, device="cuda", dtype=torch.float32)
        addr, length = self.cuda.tensor_ptr_len(tensor)
        self.report.note(f"{title}: bytes", 12_000_000, length)
        self.report.note(f"{title}: kind", ANY, self.driver.pointer(addr).kind)
        self.report.note(f"{title}: export of its pages", "exported", self.export(addr, length))
        self.report.note(
            f"{title}: export of a slice", "exported", self.export(*self.cuda.tensor_ptr_len(tensor[77:99]))
        )
        big = torch.empty(200 * MIB, dtype=torch.uint8, device="cuda")
        addr, length = self.cuda.tensor_ptr_len(big)
        found, _, _ = self.driver.ranges(self.driver.pointer(addr), addr, length)
        self.report.note(f"{title}: allocations under 200 MiB", ANY, len(found))
        self.report.note(f"{title}: export of 200 MiB", "exported", self.export(addr, length))
        for name in ("bfloat16", "float8_e4m3fn"):
            if hasattr(torch, name):
                small = torch.empty(100, dtype=getattr(torch, name), device="cuda")
                self.report.note(
                    f"{title}: bytes of 100 {name}", 100 * small.element_size(), self.cuda.tensor_ptr_len(small)[1]
                )
        grad = torch.ones(8, device="cuda", requires_grad=True)
        self.report.note(f"{title}: one that requires grad", 32, self.cuda.tensor_ptr_len(grad)[1])

    def torch_expandable(self) -> None:
        if os.environ.get("GPU_CHECK_CHILD"):
            return
        child = subprocess.run(
            [sys.executable, __file__, self.package.__name__],
            env={**os.environ, "GPU_CHECK_CHILD": "1", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
            stdout=subprocess.PIPE,
            text=True,
            timeout=120,
        )
        for line in child.stdout.splitlines():
            if line[2:].startswith("torch"):
                mark, (what, *rest) = line[0], line[2:].split("  ", 1)
                self.report.rows.append((mark, f"expandable, {what}", "", " ".join(rest).strip()))

    def cupy(self) -> None:
        import cupy  # type: ignore[import-not-found, unused-ignore]

        array = cupy.arange(1_000_000, dtype="f8")
        addr, length = self.cuda.tensor_ptr_len(array)
        self.report.note(f"cupy {cupy.__version__}: address and bytes", (array.data.ptr, 8_000_000), (addr, length))
        self.report.note(f"cupy {cupy.__version__}: export", "exported", self.export(addr, length))

    def run(self) -> int:
        self.report.check("devices", self.devices)
        if not os.environ.get("GPU_CHECK_CHILD"):
            self.raw("cuInit", 0)
            context = self.raw.context(0)
            self.raw("cuCtxPushCurrent_v2", context)
            for check in (
                self.plain,
                self.small,
                self.identities,
                self.managed,
                self.pinned,
                self.pool,
                self.mapped,
                self.threads,
                self.order,
                self.endurance,
                self.cupy,
            ):
                self.report.check(check.__name__, check)
        self.report.check("torch", self.torch)
        self.report.check("torch, expandable segments", self.torch_expandable)
        self.report.check("fork", self.fork)
        return self.report.print()


if __name__ == "__main__":
    sys.exit(Checks(sys.argv[1] if len(sys.argv) > 1 else "ibverbs").run())
