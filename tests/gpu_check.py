# SPDX-License-Identifier: BSD-3-Clause
"""What a real GPU and its driver do with the memory that RDMA would register: one command, no NIC needed.

    python gpu_check.py [ibverbs|efa]

Needs NVIDIA's driver and the package, installed from its wheel; nothing is built. A machine without libibverbs can
point RDMA_LIBRARY_PATH at any library that stands in for it, since no RDMA device is opened. Uses torch and CuPy where
they are installed. Prints a table: what was asked, what the package rests on, and what was seen; a row that begins with
"!" differs from what the package rests on, "?" was not known before. Ends with status 1 if there is a "!", with 2 where
package or driver cannot be loaded.
"""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import os
import signal
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


class Cuda:
    """The driver by ctypes: only what makes memory to look at. Each call raises with the code that came back."""

    def __init__(self) -> None:
        folder = os.environ.get("RDMA_CUDA_LIBRARY_PATH")
        self.lib = ctypes.CDLL(os.path.join(folder, "libcuda.so.1") if folder else "libcuda.so.1")

    def code(self, name: str, *arguments: Any) -> int:
        return int(getattr(self.lib, name)(*arguments))

    def __call__(self, name: str, *arguments: Any) -> None:
        code = self.code(name, *arguments)
        if code:
            raise RuntimeError(f"{name}: {code}")

    def attribute(self, which: int, addr: int) -> tuple[int, int]:
        """What a pointer attribute gives: the code and the value."""
        value = ctypes.c_uint64()
        return self.code("cuPointerGetAttribute", ctypes.byref(value), which, ctypes.c_uint64(addr)), int(value.value)

    def address(self, name: str, *arguments: Any) -> int:
        value = ctypes.c_uint64()
        self(name, ctypes.byref(value), *arguments)
        return int(value.value)

    def context(self, device: int) -> Any:
        context = ctypes.c_void_p()
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        return context


class Report:
    """The table, a row at a time: a driver may end the process. A check that raises is a row too."""

    WIDTH = 56

    def __init__(self) -> None:
        self.differs = False
        self.row(" ", "what", "rests on", "seen")

    def row(self, mark: str, what: str, expected: Any, seen: Any) -> None:
        print(f"{mark} {what:<{self.WIDTH}}  {expected!s:<28}  {seen}", flush=True)
        self.differs |= mark == "!"

    def note(self, what: str, expected: Any, seen: Any) -> None:
        mark = "?" if expected is ANY else " " if expected == seen else "!"
        self.row(mark, what, "" if expected is ANY else expected, seen)

    def check(self, title: str, run: Callable[[], None]) -> None:
        try:
            run()
        except Exception as error:
            self.row("?", title, "", f"not done: {type(error).__name__}: {error}")


def outcome(call: Callable[[], Any]) -> str:
    """What a call says, in a word or two."""
    try:
        value = call()
    except Exception as error:
        code = getattr(error, "code", None)
        return f"{type(error).__name__} {code}" if code is not None else f"{type(error).__name__}: {error}"[:160]
    if isinstance(value, int) and not isinstance(value, bool):
        os.close(value)
        return "exported"
    return str(value)


class Pd:
    """A PD for what registers: takes any descriptor, and notes what is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, ...]] = []

    def reg_dmabuf_mr(self, offset: int, length: int, iova: int, fd: int, access: int) -> Any:
        self.asked.append((offset, length, iova, os.lseek(fd, 0, os.SEEK_END)))
        return Region()

    def reg_mr(self, addr: int, length: int, access: int) -> Any:
        raise OSError("no dma-buf was given")


class Region:
    lkey = rkey = 1
    closed = False

    def close(self) -> None:
        self.closed = True


class Array:
    """A range of device memory, as ``__cuda_array_interface__`` shows it."""

    def __init__(self, addr: int, length: int) -> None:
        self.__cuda_array_interface__ = {"shape": (length,), "typestr": "|u1", "data": (addr, False), "version": 3}


class Mappings:
    """Addresses, and memory mapped there piece by piece; all of it is given back."""

    def __init__(self, raw: Cuda, count: int) -> None:
        self.raw, self.handles, self.mapped = raw, list[int](), set[int]()
        size = ctypes.c_size_t()
        raw("cuMemGetAllocationGranularity", ctypes.byref(size), self._properties(1, 0, True), 0)
        self.step, self.count = int(size.value), count
        self.base = raw.address(
            "cuMemAddressReserve", self._size(count), ctypes.c_size_t(0), ctypes.c_uint64(0), ctypes.c_uint64(0)
        )

    def _size(self, steps: int) -> ctypes.c_size_t:
        return ctypes.c_size_t(steps * self.step)

    def at(self, i: int) -> int:
        return self.base + i * self.step

    @staticmethod
    def _properties(location: int, number: int, rdma: bool) -> Any:
        properties = (ctypes.c_uint8 * 32)()
        ctypes.c_int.from_buffer(properties, 0).value = 1  # pinned
        ctypes.c_int.from_buffer(properties, 8).value = location
        ctypes.c_int.from_buffer(properties, 12).value = number
        properties[25] = rdma
        return properties

    def map(self, i: int, location: int = 1, number: int = 0, rdma: bool = True) -> None:
        handle = self.raw.address(
            "cuMemCreate", self._size(1), self._properties(location, number, rdma), ctypes.c_uint64(0)
        )
        self.handles.append(handle)
        addr = ctypes.c_uint64(self.at(i))
        self.raw("cuMemMap", addr, self._size(1), ctypes.c_size_t(0), ctypes.c_uint64(handle), ctypes.c_uint64(0))
        self.mapped.add(i)
        access = (ctypes.c_int * 3)(1, number, 3)  # from a device, read and write
        self.raw("cuMemSetAccess", addr, self._size(1), access, ctypes.c_size_t(1))

    def unmap(self, i: int) -> None:
        self.mapped.discard(i)
        self.raw("cuMemUnmap", ctypes.c_uint64(self.at(i)), self._size(1))

    def __enter__(self) -> Mappings:
        return self

    def __exit__(self, *_: object) -> None:
        for i in sorted(self.mapped):
            self.unmap(i)
        for handle in self.handles:
            self.raw("cuMemRelease", ctypes.c_uint64(handle))
        self.raw("cuMemAddressFree", ctypes.c_uint64(self.base), self._size(self.count))


class IpcHandle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint8 * 64)]


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

    def driver_export(self, addr: int, length: int) -> str:
        """What the driver itself says, under the current context."""
        fd = ctypes.c_int(-1)
        code = self.raw.code(
            "cuMemGetHandleForAddressRange",
            ctypes.byref(fd),
            ctypes.c_uint64(addr),
            ctypes.c_size_t(length),
            1,
            ctypes.c_ulonglong(0),
        )
        if fd.value >= 0:
            os.close(fd.value)
        return f"{code}{'' if (fd.value >= 0) is (code == 0) else f', and descriptor {fd.value}'}"

    # ---- the checks ----

    def kernel(self) -> None:
        with open("/proc/driver/nvidia/version", encoding="utf-8") as file:
            self.report.note("kernel module", ANY, file.readline().strip())

    def before_init(self) -> None:
        version = ctypes.c_int()
        code = self.raw.code("cuDriverGetVersion", ctypes.byref(version))
        self.report.note("before cuInit: cuDriverGetVersion", ANY, f"{code}, {version.value}")
        self.report.note("before cuInit: a pointer attribute", ANY, self.raw.attribute(2, 4096)[0])
        context = ctypes.c_void_p()
        self.report.note("before cuInit: cuCtxGetCurrent", 3, self.raw.code("cuCtxGetCurrent", ctypes.byref(context)))

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
            handle = ctypes.c_uint64()
            code = self.raw.code("cuMemRetainAllocationHandle", ctypes.byref(handle), ctypes.c_void_p(addr))
            note("cuMemAlloc: cuMemRetainAllocationHandle", ANY, code)
            note("cuMemAlloc: setting SYNC_MEMOPS", ANY, self.sync_memops(addr))
            fd = self.cuda.dmabuf_fd(addr - addr % PAGE, 4 * MIB)
            note("export: size by lseek", 4 * MIB, os.lseek(fd, 0, os.SEEK_END))
            note("export: closed on exec", False, os.get_inheritable(fd))
            os.close(fd)
            note("export of a part", "exported", self.export(addr + MIB + 257, 100))
            note("export past the end", True, self.export(addr, 64 * MIB).startswith(("ValueError", "CudaError 1")))
            note("export past the end, by the driver", ANY, self.driver_export(addr, 64 * MIB))
            note("export with the PCIe flag", ANY, self.export(addr, MIB, pcie=True))
            note("export of what is not pages, by the driver", ANY, self.driver_export(addr + 8, 100))
        note("freed: kind", "host", self.driver.pointer(addr).kind)
        note("freed: export, by the driver", ANY, self.driver_export(addr, 4 * MIB))

    def sync_memops(self, addr: int) -> int:
        yes = ctypes.c_uint(1)
        return self.raw.code("cuPointerSetAttribute", ctypes.byref(yes), 6, ctypes.c_uint64(addr))

    def register(self) -> None:
        """The whole way but for the NIC: a PD that takes any descriptor."""
        note, pd = self.report.note, Pd()
        with self.memory(4 * MIB) as addr:
            start = addr + MIB + 257
            before = len(os.listdir("/proc/self/fd"))
            mr = self.cuda.register_tensor(pd, Array(start, 100), 1)
            offset, length, iova, size = pd.asked[-1]
            note("register_tensor: way", "dmabuf", mr.way)
            note("register_tensor: bytes and address asked of the NIC", (100, start), (length, iova))
            note("register_tensor: inside of its export", True, offset + length <= size)
            note("register_tensor: descriptors left", 0, len(os.listdir("/proc/self/fd")) - before)
            note("flush of the region", ANY, outcome(mr.flush))
            mr.close()
            cache = self.package.RegistrationCache(pd, 1)
            for part in (addr, addr + MIB, addr + 3 * MIB):
                cache.region(Array(part, MIB))
            note("cache: look-ups that found the allocation", 2, cache.statistics.hits)
            note("cache: bytes registered", 4 * MIB, cache.statistics.bytes)
        with self.memory(4 * MIB) as again:
            cache.region(Array(again, MIB))
            stale = cache.statistics.stale if again == addr else "other addresses were given"
            note("cache: freed and allocated anew is noticed", 1 if again == addr else stale, stale)
        cache.close()

    def freed_under_export(self) -> None:
        """Whether memory that was freed stays as long as a descriptor of it is open."""

        def available() -> int:
            free, total = ctypes.c_size_t(), ctypes.c_size_t()
            self.raw("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
            return int(free.value)

        size = 256 * MIB
        start = available()
        with self.memory(size) as addr:
            fd = self.cuda.dmabuf_fd(addr, size)
        try:
            held = start - available()
        finally:
            os.close(fd)
        self.report.note("freed under a descriptor: still taken, MiB", ANY, held // MIB)
        self.report.note("the descriptor closed: still taken, MiB", ANY, (start - available()) // MIB)

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
            self.report.note("pool: setting SYNC_MEMOPS", ANY, self.sync_memops(addr))
            with self.memory(MIB, "cuMemAllocAsync", None) as second:
                ids = {self.driver.pointer(at).buffer_id for at in (addr, second)}
            self.report.note("pool: two have their own buffer ids", ANY, len(ids) == 2 and 0 not in ids)

    def mapped(self) -> None:
        """Four mappings in a row, the third taken out again."""
        note = self.report.note
        with Mappings(self.raw, 6) as space:
            for i in range(4):
                space.map(i)
            base, step = space.base, space.step
            pointer = self.driver.pointer(base)
            note("mapped: kind", "vmm", pointer.kind)
            note("mapped: has a context", False, pointer.context != 0)
            note("mapped: peer memory may pin it", ANY, pointer.peer_memory)
            note("mapped: attribute RANGE_SIZE is the reservation", True, self.raw.attribute(12, base)[1] == 6 * step)
            note("mapped: setting SYNC_MEMOPS", ANY, self.sync_memops(base))
            found, _, error = self.driver.ranges(pointer, base + step // 2, 3 * step)
            note("mapped: mappings under three and a half", 4, len(found))
            note("mapped: each is known by itself", 4, len({row.buffer_id for row in found}))
            note("mapped: walk ends well", None, error)
            note("mapped: one export over all four", "exported", self.export(base, 4 * step))
            note("mapped: export of a page inside", "exported", self.export(base + step + PAGE, PAGE))
            note("mapped: export over a seam", "exported", self.export(base + step - PAGE, 2 * PAGE))
            space.unmap(2)
            note("a hole: kind of its address", "unmapped", self.driver.pointer(space.at(2)).kind)
            note("a hole: named", True, "nothing at" in self.export(base, 4 * step))
            note("a hole: what the driver says", ANY, self.driver_export(base, 4 * step))
            old = found[2].buffer_id
            space.map(2)
            note("mapped anew: another buffer id", True, self.driver.pointer(space.at(2)).buffer_id != old)

    def mapped_of_two_makes(self) -> None:
        with Mappings(self.raw, 2) as space:
            space.map(0)
            space.map(1, rdma=False)
            self.report.note("two makes: export, by the driver", ANY, self.driver_export(space.base, 2 * space.step))

    def mapped_on_host(self) -> None:
        with Mappings(self.raw, 1) as space:
            space.map(0, location=3, rdma=False)  # its NUMA node 0
            self.report.note("mapped on the host: kind", "vmm-host", self.driver.pointer(space.base).kind)
            self.report.note("mapped on the host: export, by the driver", ANY, self.driver_export(space.base, PAGE))

    def two_devices(self) -> None:
        if self.driver.device_count() < 2:
            self.report.note("two devices", ANY, "there is one")
            return
        with Mappings(self.raw, 2) as space:
            space.map(0)
            space.map(1, number=1)
            self.report.note("two devices: export, by the driver", ANY, self.driver_export(space.base, 2 * space.step))
            self.report.note("two devices: named", True, "several devices" in self.export(space.base, 2 * space.step))
            code = self.raw.code("cuMemGetAddressRange_v2", None, None, ctypes.c_uint64(space.at(1)))
            self.report.note("two devices: range of the other's memory", ANY, code)
            self.report.note("two devices: export of the other's memory", "exported", self.export(space.at(1), PAGE))

    def threads(self) -> None:
        with self.memory(MIB) as addr:
            said: list[str] = []
            thread = threading.Thread(target=lambda: said.append(self.export(addr, MIB)))
            thread.start()
            thread.join()
            self.report.note("export in a thread without a context", "exported", said[0])
            codes: dict[int, int] = {}
            asked = (1, 2, 7, 8, 9, 12, 13, 15, 17)
            thread = threading.Thread(
                target=lambda: codes.update((which, self.raw.attribute(which, addr)[0]) for which in asked)
            )
            thread.start()
            thread.join()
            self.report.note("attributes that need a context", {}, {k: code for k, code in codes.items() if code})
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

    def capture(self) -> None:
        """synchronize() while a stream is captured into a graph, and whether that spoils the capture."""
        stream, graph = ctypes.c_void_p(), ctypes.c_void_p()
        self.raw("cuStreamCreate", ctypes.byref(stream), 0)
        self.raw("cuStreamBeginCapture_v2", stream, 0)
        self.report.note("capture: synchronize", ANY, outcome(self.cuda.synchronize))
        code = self.raw.code("cuStreamEndCapture", stream, ctypes.byref(graph))
        self.report.note("capture: its end afterwards", ANY, code)
        self.raw("cuStreamDestroy_v2", stream)

    def imported(self) -> None:
        """What another process sees of memory by CUDA IPC."""
        handle = IpcHandle()
        with self.memory(4 * MIB) as addr:
            self.raw("cuIpcGetMemHandle", ctypes.byref(handle), ctypes.c_uint64(addr))
            child = self.child(GPU_CHECK_IPC=bytes(handle.bytes).hex())
        for line in child.stdout.splitlines():
            what, _, seen = line.partition("=")
            self.report.note(f"imported by IPC: {what}", ANY, seen)

    def open_imported(self, handle: str) -> None:
        self.driver.ready()
        self.raw("cuCtxPushCurrent_v2", self.raw.context(0))
        opened = self.raw.address("cuIpcOpenMemHandle_v2", IpcHandle.from_buffer_copy(bytes.fromhex(handle)), 1)
        pointer = self.driver.pointer(opened)
        print(f"kind={pointer.kind}")
        print(f"peer memory may pin it={pointer.peer_memory}")
        print(f"export={self.export(opened, MIB)}")

    def child(self, **environment: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, __file__, self.package.__name__],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            text=True,
            timeout=90,
        )
        if done.returncode not in (0, 1):
            self.report.note(f"a process of its own for {', '.join(environment)}", ANY, f"ended with {done.returncode}")
        return done

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
            signal.alarm(20)  # whatever the driver does in there
            try:
                os.write(writer, outcome(self.driver.ready).encode())
            finally:
                os._exit(0)
        os.close(writer)
        _, status = os.waitpid(child, 0)
        said = os.read(reader, 200).decode()
        self.report.note("cuInit in a child of a fork", ANY, said or f"ended with status {status}")
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
        child = self.child(GPU_CHECK_CHILD="1", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
        for line in child.stdout.splitlines():
            if line[2:].startswith("torch"):
                mark, (what, *rest) = line[0], line[2:].split("  ", 1)
                self.report.row(mark, f"expandable, {what}", "", " ".join(rest).strip())

    def cupy(self) -> None:
        import cupy  # type: ignore[import-not-found, unused-ignore]

        array = cupy.arange(1_000_000, dtype="f8")
        addr, length = self.cuda.tensor_ptr_len(array)
        self.report.note(f"cupy {cupy.__version__}: address and bytes", (array.data.ptr, 8_000_000), (addr, length))
        self.report.note(f"cupy {cupy.__version__}: export", "exported", self.export(addr, length))

    def run(self) -> int:
        if os.environ.get("GPU_CHECK_CHILD"):  # one of torch's allocators, in a process of its own
            self.report.check("driver", self.driver.ready)
            self.report.check("torch", self.torch)
            return int(self.report.differs)
        self.report.check("kernel module", self.kernel)
        self.report.check("before cuInit", self.before_init)
        self.report.check("devices", self.devices)
        self.report.check("a current context", self.enter)
        for check in (
            self.plain,
            self.small,
            self.register,
            self.identities,
            self.managed,
            self.pinned,
            self.pool,
            self.mapped,
            self.mapped_of_two_makes,
            self.mapped_on_host,
            self.two_devices,
            self.threads,
            self.order,
            self.capture,
            self.freed_under_export,
            self.imported,
            self.endurance,
            self.cupy,
            self.torch,
            self.torch_expandable,
            self.fork,
        ):
            self.report.check(check.__name__.replace("_", " "), check)
        return int(self.report.differs)

    def enter(self) -> None:
        self.raw("cuInit", 0)
        self.raw("cuCtxPushCurrent_v2", self.raw.context(0))


def main(package: str) -> int:
    faulthandler.enable()
    try:
        checks = Checks(package)
    except (ImportError, OSError) as error:
        print(f"cannot check: {error}", file=sys.stderr)
        return 2
    handle = os.environ.get("GPU_CHECK_IPC")
    if handle:
        checks.open_imported(handle)
        return 0
    return checks.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "ibverbs"))
