# SPDX-License-Identifier: BSD-3-Clause
"""What NVIDIA's driver is asked, and the one place that raises for what it answers.

The calls themselves are in the extension: each runs without the GIL, under the right CUDA context, and gives the
context back on every path.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from ._extension import extension

__all__ = [
    "CudaError",
    "Pointer",
    "Range",
    "attribute",
    "device_count",
    "device_names",
    "export",
    "flush",
    "flush_current",
    "pointer",
    "ranges",
    "ready",
    "synchronize",
    "version",
]

_calls: Any = extension._cuda
_MISSING = -1
INVALID_VALUE, NOT_INITIALIZED, NOT_FOUND, NOT_SUPPORTED = 1, 3, 500, 801

_NAMES = {
    -3: "the driver names a range that does not hold the address",
    -2: "a flush is needed, and the device has none that the host can call",
    _MISSING: "not there",
    INVALID_VALUE: "CUDA_ERROR_INVALID_VALUE",
    2: "CUDA_ERROR_OUT_OF_MEMORY",
    NOT_INITIALIZED: "CUDA_ERROR_NOT_INITIALIZED",
    4: "CUDA_ERROR_DEINITIALIZED",
    34: "CUDA_ERROR_STUB_LIBRARY",
    46: "CUDA_ERROR_DEVICE_UNAVAILABLE",
    100: "CUDA_ERROR_NO_DEVICE",
    101: "CUDA_ERROR_INVALID_DEVICE",
    201: "CUDA_ERROR_INVALID_CONTEXT",
    304: "CUDA_ERROR_OPERATING_SYSTEM",
    400: "CUDA_ERROR_INVALID_HANDLE",
    NOT_FOUND: "CUDA_ERROR_NOT_FOUND",
    700: "CUDA_ERROR_ILLEGAL_ADDRESS",
    709: "CUDA_ERROR_CONTEXT_IS_DESTROYED",
    800: "CUDA_ERROR_NOT_PERMITTED",
    NOT_SUPPORTED: "CUDA_ERROR_NOT_SUPPORTED",
    803: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    804: "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
    900: "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
    906: "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
    999: "CUDA_ERROR_UNKNOWN",
}

_HINTS = {
    -2: "read one byte back through the NIC (RDMA read to itself), or synchronize the context",
    34: "this libcuda is a stub of the CUDA toolkit, made for linking only: take its folder out of LD_LIBRARY_PATH",
    100: "no GPU is visible: look at CUDA_VISIBLE_DEVICES, /dev/nvidia* and, in a container, its GPU options",
    201: "no CUDA context is current on this thread",
    700: "an earlier kernel of this context read or wrote where it must not; the context is lost",
    803: "the user half of the driver and the kernel module are of different versions",
    900: "a stream of this context is being captured into a graph",
    906: "a stream of this context is being captured into a graph",
}


class CudaError(RuntimeError):
    """A call into NVIDIA's driver failed: ``operation`` says which, ``code`` is its ``CUresult``.

    A negative code is an answer of this package's own: -1, the driver or the function is not there; -2, a flush is
    needed and the device has none for the host; -3, the driver names a range that does not hold the address.
    """

    def __init__(self, operation: str, code: int, detail: str | None = None) -> None:
        super().__init__(operation, code, detail)
        self.operation = operation
        self.code = code
        self.detail = detail

    def __str__(self) -> str:
        text = f"{self.operation}: {_NAMES.get(self.code, 'error')}"
        if self.code > 0:
            text += f" ({self.code})"
        return f"{text}: {self.detail}" if self.detail else text


class Pointer(NamedTuple):
    """What the driver says of an address."""

    kind: str
    """"host", "pinned", "managed", "device", "pool", "vmm", "vmm-host", "unmapped" or "other"."""
    context: int
    """The context that owns the memory, 0 where none does."""
    ordinal: int
    """The device's number, as the driver counts them."""
    buffer_id: int
    """A number of the allocation that no other gets, as long as the process lives."""
    peer_memory: bool
    """Whether the driver lets a NIC's driver pin it by its address."""


class Range(NamedTuple):
    """One allocation, or one mapping where memory is mapped piece by piece."""

    base: int
    size: int
    buffer_id: int
    ordinal: int


_initialized_in: int | None = None


def _value(answer: tuple[str, int, Any]) -> Any:
    operation, code, value = answer
    if code == 0:
        return value
    raise _error(operation, code)


def _error(operation: str, code: int) -> CudaError:
    name = operation.partition("_v")[0]
    detail = _HINTS.get(code)
    if code == _MISSING:
        detail = f"the installed driver has no such function; CUDA {_calls.since(operation)} brought it"
    elif code == NOT_INITIALIZED and (operation == "cuInit" or _initialized_in not in (None, os.getpid())):
        detail = "CUDA does not work in a child that was forked after it was initialised: start it with spawn"
    return CudaError(name, code, detail)


def ready() -> None:
    """Open and initialise the driver, which fixes CUDA_VISIBLE_DEVICES for the life of the process."""
    global _initialized_in
    reason = _calls.open()
    if reason is not None:
        raise CudaError(
            "dlopen",
            _MISSING,
            f"{reason}\nlibcuda comes with NVIDIA's driver, not with the CUDA toolkit; "
            "in a container it needs NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        )
    _value(_calls.init())
    if _initialized_in is None:
        _initialized_in = os.getpid()


def pointer(address: int) -> Pointer:
    """Classify an address."""
    return Pointer(*_value(_calls.pointer(address)))


def ranges(place: Pointer, address: int, length: int) -> tuple[list[Range], int, CudaError | None]:
    """The allocations that a range lies in; where the driver stopped to know, the address and why."""
    operation, code, (found, stopped) = _calls.ranges(place.context, place.ordinal, address, length)
    return [Range(*row) for row in found], stopped, _error(operation, code) if code else None


def export(place: Pointer, address: int, length: int, pcie: bool) -> int:
    """Export a range as a dma-buf and return its descriptor."""
    return int(_value(_calls.export(place.context, place.ordinal, address, length, int(pcie))))


def flush(place: Pointer, scope: int) -> None:
    """Flush under the context that owns the memory."""
    _value(_calls.flush(place.context, place.ordinal, scope))


def flush_current(scope: int) -> None:
    """Flush under the current context."""
    _value(_calls.flush_current(scope))


def synchronize() -> None:
    """Wait for the work of the current context, or of all active ones where none is current."""
    reason = _calls.open()
    if reason is not None:
        ready()  # raises
    _value(_calls.synchronize())


def version() -> int:
    """The newest CUDA that the driver knows: 1000 times the major release and ten times the minor one."""
    return int(_value(_calls.version()))


def device_count() -> int:
    """How many devices the driver shows."""
    return int(_value(_calls.device_count()))


def device_names(ordinal: int) -> tuple[str, str]:
    """A device's name, and its PCI address as sysfs writes it."""
    name, address = _value(_calls.device_names(ordinal))
    return str(name), str(address).lower()


def attribute(ordinal: int, which: int) -> int:
    """A device attribute; 0 where the driver is too old to know it."""
    operation, code, value = _calls.device_attribute(ordinal, which)
    if code == INVALID_VALUE:
        return 0
    return int(_value((operation, code, value)))
