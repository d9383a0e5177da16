# SPDX-License-Identifier: BSD-3-Clause
"""The controls of the stand-in libcuda (tests/cuda), and tensors that lie in its memory."""

from __future__ import annotations

import ctypes
import os
import pathlib
from collections.abc import Iterator
from typing import Any

DEVICE, POOL, MANAGED, PINNED = 1, 2, 3, 4
ON_DEVICE, ON_HOST = 1, 2
INVALID_VALUE, NOT_SUPPORTED = 1, 801
PAGE = os.sysconf("SC_PAGESIZE")


def folder(ib: Any, variant: str) -> pathlib.Path | None:
    """Where a build of the stand-in lies: beside the package's build, or where RDMA_TEST_CUDA says."""
    said = os.environ.get("RDMA_TEST_CUDA")
    places = [pathlib.Path(said)] if said else [p / "tests/cuda" for p in pathlib.Path(ib.__file__).resolve().parents]
    for place in places:
        if (place / variant / "libcuda.so.1").exists():
            return place / variant
    return None


class Driver:
    """The stand-in, as the package under test has it open."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.lib: Any = ctypes.CDLL(str(path / "libcuda.so.1"))
        for name in ("fake_alloc", "fake_reserve"):
            getattr(self.lib, name).restype = ctypes.c_uint64
        self.lib.fake_log.restype = ctypes.c_char_p
        for name in ("fake_view", "fake_context"):
            getattr(self.lib, name).restype = ctypes.c_void_p

    def reset(self) -> None:
        self.lib.fake_reset()

    def alloc(self, size: int, kind: int = DEVICE, device: int = 0, shift: int = 0) -> int:
        return int(self.lib.fake_alloc(kind, device, ctypes.c_uint64(size), ctypes.c_uint64(shift)))

    def place(self, addr: int, size: int, kind: int = DEVICE, device: int = 0) -> None:
        self.lib.fake_place(kind, device, ctypes.c_uint64(addr), ctypes.c_uint64(size))

    def reserve(self, size: int) -> int:
        return int(self.lib.fake_reserve(ctypes.c_uint64(size)))

    def map(self, addr: int, size: int, device: int = 0, location: int = ON_DEVICE, properties: int = 0) -> None:
        self.lib.fake_map(ctypes.c_uint64(addr), ctypes.c_uint64(size), device, location, properties)

    def free(self, addr: int) -> None:
        assert self.lib.fake_free(ctypes.c_uint64(addr)) == 0

    def view(self, addr: int, length: int) -> Any:
        """The bytes at a device address, to read and write."""
        return (ctypes.c_uint8 * length).from_address(self.lib.fake_view(ctypes.c_uint64(addr)))

    def fail(self, function: str, code: int, n: int = 0) -> None:
        self.lib.fake_fail(function.encode(), n, code)

    def forget(self) -> None:
        self.lib.fake_forget()

    def stop_at(self, function: str) -> None:
        self.lib.fake_stop_at(function.encode())

    def stopped(self) -> bool:
        return bool(self.lib.fake_stopped())

    def pcie(self, code: int) -> None:
        self.lib.fake_pcie(code)

    def attribute(self, attribute: int, value: int, device: int = 0) -> None:
        self.lib.fake_attribute(device, attribute, value)

    def log(self, function: str = "") -> list[list[str]]:
        """The calls of a function: its name, the current device (-1: no context), its arguments."""
        lines = [line.split() for line in self.lib.fake_log().decode().splitlines()]
        return [line for line in lines if not function or line[0] == function]

    def retained(self, device: int = 0) -> int:
        return int(self.lib.fake_retained(device))

    def context(self, device: int) -> int:
        return int(self.lib.fake_context(device))

    def current(self) -> int | None:
        context = ctypes.c_void_p()
        assert self.lib.cuCtxGetCurrent(ctypes.byref(context)) == 0
        return context.value

    def push(self, context: int) -> None:
        assert self.lib.cuCtxPushCurrent_v2(ctypes.c_void_p(context)) == 0

    def pop(self) -> None:
        assert self.lib.cuCtxPopCurrent_v2(None) == 0


class DeviceTensor:
    """A tensor on a GPU, as torch's looks."""

    def __init__(self, addr: int, nbytes: int, itemsize: int = 1, contiguous: bool = True) -> None:
        self._addr, self._nbytes, self._itemsize, self._contiguous = addr, nbytes, itemsize, contiguous
        self.device = type("device", (), {"type": "cuda", "index": 0, "__str__": lambda _: "cuda:0"})()
        self.is_cuda = True

    def data_ptr(self) -> int:
        return self._addr

    def element_size(self) -> int:
        return self._itemsize

    def numel(self) -> int:
        return self._nbytes // self._itemsize

    def is_contiguous(self) -> bool:
        return self._contiguous


class Interface:
    """What speaks ``__cuda_array_interface__`` only."""

    def __init__(self, addr: int, shape: tuple[int, ...], typestr: str = "|u1", **more: Any) -> None:
        readonly = more.pop("readonly", False)
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": typestr,
            "data": (addr, readonly),
            "version": 3,
            **more,
        }


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_uint64),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _DLTensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", _Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    ]


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_capsule_is = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is.argtypes = [ctypes.py_object, ctypes.c_char_p]
_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


class DLPack:
    """What speaks DLPack only; counts how often its deleter was called."""

    def __init__(
        self,
        addr: int,
        shape: tuple[int, ...],
        *,
        device: int = 2,
        bits: int = 8,
        lanes: int = 1,
        code: int = 1,
        strides: tuple[int, ...] | None = None,
        offset: int = 0,
        versioned: bool = True,
        major: int = 1,
        flags: int = 0,
    ) -> None:
        self.deleted = 0
        self.calls: list[dict[str, Any]] = []
        self._device, self._versioned = device, versioned
        self._shape = (ctypes.c_int64 * len(shape))(*shape)
        self._strides = (ctypes.c_int64 * len(shape))(*strides) if strides is not None else None
        tensor = _DLTensor(
            addr - offset,
            device,
            0,
            len(shape),
            code,
            bits,
            lanes,
            ctypes.addressof(self._shape),
            ctypes.addressof(self._strides) if self._strides is not None else None,
            offset,
        )
        self._deleter = _Deleter(self._delete)
        self._held: Any = (
            _Versioned(major, 0, None, self._deleter, flags, tensor)
            if versioned
            else _Managed(tensor, None, self._deleter)
        )
        self._destructor = _Destructor(self._destroy)

    def _delete(self, _: int | None) -> None:
        self.deleted += 1

    def _destroy(self, _: int | None) -> None:
        self._delete(None)  # the capsule goes with the name that it was made with: nobody consumed it

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device, 0

    def __dlpack__(self, **keywords: Any) -> Any:
        self.calls.append(keywords)
        if not self._versioned and "max_version" in keywords:
            raise TypeError("an older exporter knows no max_version")
        name = b"dltensor_versioned" if self._versioned else b"dltensor"
        return _new_capsule(ctypes.addressof(self._held), name, ctypes.cast(self._destructor, ctypes.c_void_p))


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def calls_until(driver: Driver, names: tuple[str, ...]) -> Iterator[str]:
    """The functions among those named that were called, in order."""
    for line in driver.log():
        if line[0] in names:
            yield line[0]
