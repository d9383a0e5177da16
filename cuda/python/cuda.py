# SPDX-License-Identifier: BSD-3-Clause
"""GPU memory for RDMA: registration of what CUDA allocated, and the order of what CUDA and a NIC write.

Nothing of CUDA is needed to build or to import this; ``libcuda.so.1``, which comes with NVIDIA's driver, is opened by
the first call that needs it (from the directory in ``RDMA_CUDA_LIBRARY_PATH`` if that is set). That call also
initialises CUDA, which reads ``CUDA_VISIBLE_DEVICES`` once and for all. No framework is ever imported. The driver is
called without the GIL, under the context that owns the memory, and the calling thread's own context is as it was
afterwards.
"""

from __future__ import annotations

import errno
import os
from operator import index
from typing import Any, NamedTuple

from . import _cuda_driver as driver
from ._cuda_driver import CudaError
from ._cuda_paths import has_peermem, wants_pcie
from ._extension import extension
from .closing import Closing
from .tensors import Memory, check_access, device_memory_of

__all__ = [
    "CudaError",
    "GpuMR",
    "GpuRegistrationError",
    "GpuSupport",
    "dmabuf_fd",
    "flush_gpudirect_writes",
    "gpudirect_support",
    "register_tensor",
    "synchronize",
    "tensor_ptr_len",
]

_PACKAGE = __name__.rpartition(".")[0]
_ENOTSUPP = 524
"""What the kernel answers where GPU and NIC cannot talk directly; user space has no name for it."""
_TO_OWNER, _TO_ALL_DEVICES = 100, 200


def _page_size() -> int:
    return os.sysconf("SC_PAGE_SIZE")


# ---- the region ----------------------------------------------------------------------------------------------------


class GpuMR(Closing):
    """A registration of GPU memory: an MR, with the device address that requests use and the tensor that it keeps.

    It serves wherever an MR does. ``register_tensor`` makes them; one can also be made around an MR at hand, whose
    range from ``addr`` on, ``length`` bytes, it then stands for.
    """

    # Dropped without close(), a region loses its members in the order of their names: the registration ends before
    # what owns its memory.
    __slots__ = ("__weakref__", "_addr", "_closed", "_length", "_mr", "_owner", "_tensor", "_way")

    def __init__(self, mr: Any, addr: int, length: int, tensor: Any = None) -> None:
        self._mr = mr
        self._addr = index(addr)
        self._length = index(length)
        self._tensor = tensor
        self._owner: Any = None
        self._way: str | None = None
        self._closed = False

    @property
    def mr(self) -> Any:
        """The MR that stands behind it."""
        return self._mr

    @property
    def addr(self) -> int:
        """The device address of the first byte, which is what requests and peers name it by."""
        self._check_open("addr")
        return self._addr

    @property
    def length(self) -> int:
        """The length in bytes."""
        self._check_open("length")
        return self._length

    @property
    def lkey(self) -> int:
        """The key for local access."""
        self._check_open("lkey")
        return int(self._mr.lkey)

    @property
    def rkey(self) -> int:
        """The key that a peer needs."""
        self._check_open("rkey")
        return int(self._mr.rkey)

    @property
    def tensor(self) -> Any:
        """The tensor that was registered and is kept; None if unknown, or when closed."""
        return self._tensor

    @property
    def way(self) -> str | None:
        """How the NIC's driver got at the memory: "dmabuf", "dmabuf-pcie" or "peermem"; None where nobody said."""
        return self._way

    @property
    def closed(self) -> bool:
        """Whether it was closed, itself or the MR behind it."""
        return self._closed or bool(getattr(self._mr, "closed", False))

    def sge(self, length: int | None = None, offset: int = 0) -> Any:
        """Return an SGE for a part of the region; without a length, to its end. The SGE keeps this region.

        Raises ``RangeError`` for a part that leaves the region or that one SGE cannot hold (2**32 - 1 bytes).
        """
        self._check_open("sge")
        offset = index(offset)
        length = max(self._length - offset, 0) if length is None else index(length)
        return extension.SGE(self, length, 0, offset)

    def flush(self, *, all_devices: bool = False) -> None:
        """Make what a NIC wrote to this region visible to CUDA work that is already running.

        Work that is launched after the completion was polled sees it anyhow. Runs under the context that owns the
        memory; calls the driver only where the device says that it is needed. Raises ``CudaError``; with code -2 where
        a flush is needed and the host has none. ``cuFlushGPUDirectRDMAWrites``.
        """
        self._check_open("flush")
        driver.ready()
        pointer = driver.pointer(self._addr)
        if pointer.ordinal < 0:
            raise ValueError(f"the memory at {self._addr:#x} is no device's any more: it was freed")
        driver.flush(pointer, _TO_ALL_DEVICES if all_devices else _TO_OWNER)

    def close(self) -> None:
        """Deregister the memory and let go of the tensor. Twice is harmless."""
        if self._closed:
            return
        self._mr.close()
        self._closed = True
        self._tensor = self._owner = None

    def __repr__(self) -> str:
        if self.closed:
            return "<GpuMR, closed>"
        way = f" by {self._way}" if self._way else ""
        return (
            f"<GpuMR addr={self._addr:#x} length={self._length} lkey={self._mr.lkey:#x} rkey={self._mr.rkey:#x}{way}>"
        )


# ---- tensors -------------------------------------------------------------------------------------------------------


def tensor_ptr_len(tensor: Any) -> tuple[int, int]:
    """Return the device address and the number of bytes of a tensor on a GPU.

    Takes a torch tensor or anything with its methods, DLPack, and ``__cuda_array_interface__``; imports nothing and
    asks no driver. An empty one gives ``(address, 0)``. Raises ``ValueError`` for one that is not contiguous in C
    order or lies in host memory, ``TypeError`` for an object with no device memory to show.
    """
    memory = device_memory_of(tensor)
    _check_on_device(tensor, memory)
    return memory.addr, memory.length


def _check_on_device(tensor: Any, memory: Memory) -> None:
    if memory.device is None:
        raise ValueError(
            f"the {type(tensor).__name__} is in host memory: register it with {_PACKAGE}.reg_tensor(pd, tensor, access)"
        )
    if memory.device.startswith("cuda_managed"):
        raise ValueError(_MANAGED)


_MANAGED = (
    "managed memory (cudaMallocManaged) moves between host and GPU and cannot be registered: allocate with cudaMalloc, "
    "or copy"
)


def _refusal(address: int, kind: str) -> str | None:
    """Why memory of a kind is not exported or registered here; None where it may be tried."""
    place = f"the memory at {address:#x}"
    return {
        "host": f"{place} is not CUDA's: it is host memory, which {_PACKAGE}.reg_tensor(pd, tensor, access) registers, "
        "or it was freed",
        "pinned": f"{place} is host memory that CUDA pinned: register it with {_PACKAGE}.reg_tensor(pd, tensor, "
        "access), or with pd.reg_mr",
        "managed": _MANAGED,
        "vmm-host": f"{place} is mapped by CUDA and lies in host memory: register it with pd.reg_mr",
        "unmapped": f"{place} is reserved, and nothing is mapped there",
    }.get(kind)


def _classify(address: int) -> driver.Pointer:
    """Ask the driver what an address is, and refuse what must not be exported."""
    driver.ready()
    pointer = driver.pointer(address)
    refusal = _refusal(address, pointer.kind)
    if refusal:
        raise ValueError(refusal)
    return pointer


_LEAST_ALIGNMENT = 256
"""Of what CUDA allocates, in bytes."""


def _first_known(ptr: int, page: int) -> int:
    """The first address of a page that the driver knows: small allocations may begin inside of one. Else its start."""
    driver.ready()
    for address in range(ptr, ptr + page, _LEAST_ALIGNMENT):
        if driver.pointer(address).kind != "host":
            return address
    return ptr


def _check_mapped(
    pointer: driver.Pointer, address: int, length: int, start: int | None = None, page: int = 1
) -> list[driver.Range]:
    """The mappings under a range; ``ValueError`` where one registration cannot cover it.

    Allocations may begin and end inside of a page: where a range was rounded to pages, ``start`` is where to begin,
    and ``page`` their size, of which the last may be there in part.
    """
    start, end = address if start is None else start, address + length
    found, stopped, error = driver.ranges(pointer, start, end - start)
    if error is not None and start < stopped and end < stopped + page:
        found, stopped, error = driver.ranges(pointer, start, stopped - start)
    devices = {mapping.ordinal for mapping in found}
    if error is not None:
        if error.code not in (driver.INVALID_VALUE, driver.NOT_FOUND):
            raise error
        there = driver.pointer(stopped)
        if there.kind in ("host", "unmapped"):
            raise ValueError(
                f"{length} bytes at {address:#x} are not all mapped: there is nothing at {stopped:#x}, "
                f"{stopped - address} bytes in"
            )
        devices = {pointer.ordinal, there.ordinal}  # one device's context does not know what is another's
    if len(devices) > 1:
        raise ValueError(
            f"{length} bytes at {address:#x} lie on several devices ({', '.join(map(str, sorted(devices)))}): register "
            "the part on each by itself"
        )
    if error is not None:
        raise error
    beyond = found[0].base + found[0].size
    if pointer.kind in ("device", "pool") and beyond + page <= end:  # into another's
        raise ValueError(f"{length} bytes at {address:#x} reach beyond the allocation, which ends at {beyond:#x}")
    return found


# ---- dma-bufs ------------------------------------------------------------------------------------------------------


def dmabuf_fd(ptr: int, length: int, *, pcie: bool = False) -> int:
    """Export GPU memory as a dma-buf and return its descriptor, which the caller closes.

    ``ptr`` and ``length`` must be multiples of the host's page size, else ``ValueError``; so also for memory that
    cannot be exported (managed, host, with a hole, on two devices). ``pcie`` asks for a mapping through the PCIe bus on
    machines where CPU and GPU share memory; others refuse it. Raises ``CudaError`` where the driver refuses.
    ``cuMemGetHandleForAddressRange``, CUDA 11.7.
    """
    ptr, length, page = index(ptr), index(length), _page_size()
    for name, value in (("ptr", ptr), ("length", length)):
        if value % page:
            raise ValueError(f"{name} {value:#x} is not a multiple of the host's page size, {page}")
    if not 0 < ptr < 1 << 64 or not 0 < length <= (1 << 64) - ptr:
        raise ValueError(f"{length} bytes at {ptr:#x} are no range of addresses")
    first = _first_known(ptr, page)
    pointer = _classify(first)
    try:
        return driver.export(pointer, ptr, length, bool(pcie))
    except CudaError as error:
        if error.code == driver.INVALID_VALUE and not pcie:  # says what is wrong with the range, if it is the range
            inside = first if length == page or pointer.kind == "vmm" else ptr + page - 1
            _check_mapped(pointer, ptr, length, inside, page)
        raise


_own_dmabuf_fd = dmabuf_fd


# ---- registration --------------------------------------------------------------------------------------------------


class GpuRegistrationError(RuntimeError):
    """Neither way of registering GPU memory worked: ``dmabuf`` and ``peermem`` are the errors of each."""

    def __init__(self, message: str, dmabuf: BaseException | None = None, peermem: BaseException | None = None) -> None:
        super().__init__(message, dmabuf, peermem)
        self.dmabuf = dmabuf
        self.peermem = peermem

    def __str__(self) -> str:
        return str(self.args[0])


def register_tensor(pd: Any, tensor: Any, access: int, *, pcie: bool | None = None) -> GpuMR:
    """Register the memory of a tensor on a GPU and return its GpuMR, which keeps the tensor.

    The pages that hold the tensor are exported as a dma-buf, and exactly its bytes are registered; where that is not
    possible the address itself is tried, which needs peer memory (``nvidia_peermem``). ``GpuMR.way`` says which it
    was. ``pcie`` overrides the choice of the path on machines where CPU and GPU share memory (also the environment
    variable ``RDMA_CUDA_PCIE``: auto, pcie, default). Nothing is synchronized: call ``synchronize()`` before a NIC
    reads what CUDA wrote.

    Raises ``ValueError`` for a tensor that is empty, not contiguous, in host memory, managed or read-only with an
    access that writes, and for a range with a hole or on two devices; ``GpuRegistrationError``, a ``RuntimeError``,
    with both reasons where both ways fail. ``pd`` may be any object with ``reg_dmabuf_mr`` and ``reg_mr``.
    """
    access = index(access)
    memory = device_memory_of(tensor)
    _check_on_device(tensor, memory)
    check_access(tensor, memory, access)
    mr, way = register_range(pd, memory.addr, memory.length, access, tensor, pcie)
    region = GpuMR(mr, memory.addr, memory.length, tensor)
    region._owner, region._way = memory.hold, way
    return region


class _Attempt(NamedTuple):
    """One registration: what the driver knows of the memory, and how many mappings it lies in."""

    pointer: driver.Pointer | None
    mappings: int


def register_range(pd: Any, address: int, length: int, access: int, owner: Any, pcie: bool | None) -> tuple[Any, str]:
    """Register a range of device memory by the first way that works; the MR, and the way."""
    attempt = _look_up(address, length)
    try:
        return _by_dmabuf(pd, address, length, access, owner, pcie, attempt.pointer)
    except ValueError:
        raise  # the range itself is wrong
    except Exception as error:
        dmabuf = error.with_traceback(None)  # which holds this frame, and so the tensor, in a circle
    if attempt.mappings > 1:
        peermem: Exception = RuntimeError(
            f"not tried: the range lies in {attempt.mappings} mappings, and peer memory reaches one"
        )
    else:
        try:
            return _register(pd.reg_mr, (address, length, access), owner), "peermem"
        except Exception as error:
            peermem = error.with_traceback(None)
    raise GpuRegistrationError(_both_failed(address, length, attempt, dmabuf, peermem), dmabuf, peermem) from dmabuf


def _look_up(address: int, length: int) -> _Attempt:
    """What the driver says of a range; nothing where there is no driver to ask."""
    try:
        pointer = _classify(address)
    except CudaError:
        return _Attempt(None, 1)
    mapped = _check_mapped(pointer, address, length) if pointer.kind == "vmm" else ()
    return _Attempt(pointer, max(len(mapped), 1))


def _register(verb: Any, arguments: tuple[int, ...], owner: Any) -> Any:
    """Call a registering method; one of a PD of this package keeps the owner as long as the region."""
    if isinstance(getattr(verb, "__self__", None), extension.PD):
        return verb(*arguments, owner=owner)
    return verb(*arguments)


def _by_dmabuf(
    pd: Any, address: int, length: int, access: int, owner: Any, pcie: bool | None, pointer: driver.Pointer | None
) -> tuple[Any, str]:
    page = _page_size()
    base = address - address % page
    size = -(-(address + length - base) // page) * page
    if pcie is None:  # a replacement of dmabuf_fd need not know of it
        pcie = dmabuf_fd is _own_dmabuf_fd and wants_pcie(_rdma_device(pd), _gpu_address(pointer))
    if pcie:
        try:
            return _export_and_register(pd, base, size, address, length, access, owner, True), "dmabuf-pcie"
        except (CudaError, OSError):  # refused here or by the NIC's driver: 1, 801, errno 524 and what else there is
            pass
    return _export_and_register(pd, base, size, address, length, access, owner, False), "dmabuf"


def _export_and_register(
    pd: Any, base: int, size: int, address: int, length: int, access: int, owner: Any, pcie: bool
) -> Any:
    # The two-argument form is the one that a replacement must have.
    fd = dmabuf_fd(base, size, pcie=True) if pcie else dmabuf_fd(base, size)
    try:
        return _register(pd.reg_dmabuf_mr, (address - base, length, address, fd, access), owner)
    finally:
        os.close(fd)


def _rdma_device(pd: Any) -> str | None:
    return str(pd.context.name) if isinstance(pd, extension.PD) else None


def _gpu_address(pointer: driver.Pointer | None) -> str | None:
    if pointer is None:
        return None
    try:
        return driver.device_names(pointer.ordinal)[1]
    except CudaError:
        return None


# ---- what to do about it -------------------------------------------------------------------------------------------


def _both_failed(address: int, length: int, attempt: _Attempt, dmabuf: BaseException, peermem: BaseException) -> str:
    lines = [
        f"{length} bytes of device memory at {address:#x} could not be registered",
        f"  as a dma-buf: {_words(dmabuf)}",
        f"  by peer memory: {_words(peermem)}",
    ]
    return "\n".join(lines + [f"  hint: {hint}" for hint in _hints(attempt, dmabuf, peermem)])


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__


_REGISTRATION_HINTS = {
    errno.EOPNOTSUPP: "the NIC's driver, or the kernel, cannot import a dma-buf",
    errno.EPROTONOSUPPORT: "this kernel cannot import a dma-buf for RDMA: Linux 5.12 brought that",
    errno.ENOMEM: "the GPU's BAR1 window (nvidia-smi -q -d MEMORY) or the IOMMU (try iommu=pt) may be too small, or "
    "RLIMIT_MEMLOCK (ulimit -l; docker --ulimit memlock=-1)",
    _ENOTSUPP: "GPU and NIC cannot reach each other directly over PCIe",
}


def _hints(attempt: _Attempt, dmabuf: BaseException, peermem: BaseException) -> list[str]:
    hints = []
    code = getattr(dmabuf, "errno", None)
    if code in _REGISTRATION_HINTS:
        hints.append(_REGISTRATION_HINTS[code])
    pointer = attempt.pointer
    if pointer is not None and not _has_dmabuf(pointer.ordinal):
        hints.append(
            f"device {pointer.ordinal} exports no dma-buf: that takes the open kernel modules of NVIDIA's driver "
            "(/proc/driver/nvidia/version says which are loaded)"
        )
    if pointer is not None and pointer.kind == "pool":
        hints.append("the memory comes from a pool (cudaMallocAsync), which drivers do not export: use cudaMalloc")
    if pointer is not None and pointer.kind == "vmm":
        hints.append(
            "the memory is mapped piece by piece; with torch, PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False "
            "allocates in one piece"
        )
    if _PACKAGE == "efa":
        hints.append("EFA needs the dma-buf: its driver in the kernel has no peer memory")
    elif not has_peermem():
        hints.append("nvidia_peermem is not loaded (modprobe nvidia_peermem)")
    elif getattr(peermem, "errno", None) == errno.EFAULT:
        hints.append("peer memory reaches only what this very process allocated, not memory of another by CUDA IPC")
    return hints


# ---- order ---------------------------------------------------------------------------------------------------------


def synchronize() -> None:
    """Wait until the GPU has done what the current CUDA context was given, so that a NIC reads what CUDA wrote.

    On a thread with no current context, waits for every device whose primary context is in use; where CUDA is not
    in use at all there is nothing to wait for. Raises ``CudaError``, among others while a stream is being captured
    into a graph. Other threads run meanwhile. ``cuCtxSynchronize``.
    """
    driver.synchronize()


def flush_gpudirect_writes(*, all_devices: bool = False) -> None:
    """Make what a NIC wrote visible to CUDA work of the current context's device that is already running.

    ``all_devices`` extends it to work on other devices. Work that is launched after the completion was polled sees
    the writes without it. Nothing is done where the device says that nothing is needed. Raises ``CudaError``: 201
    without a current context (``GpuMR.flush()`` finds the owner's), -2 where the host has no flush to call.
    ``cuFlushGPUDirectRDMAWrites``, CUDA 11.3.
    """
    driver.ready()
    driver.flush_current(_TO_ALL_DEVICES if all_devices else _TO_OWNER)


# ---- support -------------------------------------------------------------------------------------------------------

_RDMA_WITH_VMM, _RDMA, _FLUSH_OPTIONS, _WRITES_ORDERING, _DMA_BUF = 110, 116, 117, 118, 124


class GpuSupport(NamedTuple):
    """What a device and its driver can do for a NIC."""

    device: int
    """Its number, as the driver counts them."""
    name: str
    pci_address: str
    """As sysfs writes it."""
    driver_version: int
    """The newest CUDA that the driver knows: 12080 is 12.8."""
    dma_buf: bool
    """Memory can be exported as a dma-buf."""
    peer_memory: bool
    """The device can give its memory to nvidia_peermem."""
    peer_memory_vmm: bool
    """The same for memory that is mapped piece by piece."""
    peermem_loaded: bool
    """The kernel module nvidia_peermem, or nv_peer_mem before it, is there."""
    flush_from_host: bool
    """The host can flush a NIC's writes."""
    flush_from_stream: bool
    """A stream can, by a memory operation."""
    ordering: int
    """For whom a NIC's writes are in order without a flush: 0 nobody, 100 the owning device, 200 all devices."""


def _has_dmabuf(ordinal: int) -> bool:
    try:
        return bool(driver.attribute(ordinal, _DMA_BUF))
    except CudaError:
        return False


def gpudirect_support(device: int = 0) -> GpuSupport:
    """Report what a device, by its number, and its driver can do for RDMA.

    Initialises CUDA, which reads CUDA_VISIBLE_DEVICES once for the life of the process. Raises ``CudaError``.
    """
    device = index(device)
    driver.ready()
    count = driver.device_count()
    if not 0 <= device < count:
        raise ValueError(f"device {device} is not among the {count} that the driver shows")
    name, address = driver.device_names(device)
    options = driver.attribute(device, _FLUSH_OPTIONS)
    return GpuSupport(
        device=device,
        name=name,
        pci_address=address,
        driver_version=driver.version(),
        dma_buf=_has_dmabuf(device),
        peer_memory=bool(driver.attribute(device, _RDMA)),
        peer_memory_vmm=bool(driver.attribute(device, _RDMA_WITH_VMM)),
        peermem_loaded=has_peermem(),
        flush_from_host=bool(options & 1),
        flush_from_stream=bool(options & 2),
        ordering=driver.attribute(device, _WRITES_ORDERING),
    )
