# SPDX-License-Identifier: BSD-3-Clause
"""Where the memory of a tensor, an array or a buffer lies, and its registration.

No framework is imported: an object says what it is by what it offers (``data_ptr()``, ``__array_interface__``, the
buffer protocol, DLPack). What is read here is only addresses and sizes, never data.
"""

from __future__ import annotations

import ctypes
import re
import struct
import weakref
from collections.abc import Iterable
from operator import index
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from ._extension import extension
from .wire import integer

__all__ = ["Memory", "memory_of", "reg_tensor", "tensor_addr_len"]

# LOCAL_WRITE, REMOTE_WRITE, REMOTE_ATOMIC: as numbers, because not every package lists the last.
_WRITING = 1 | 2 | 8

_MR = TypeVar("_MR")
_MR_co = TypeVar("_MR_co", covariant=True)


class Registers(Protocol[_MR_co]):
    """What ``reg_tensor`` asks of a PD."""

    def reg_mr(self, addr: int, length: int, access: int) -> _MR_co:
        """Register memory at an address."""


class Memory(NamedTuple):
    """What an object says about its memory."""

    addr: int
    length: int
    readonly: bool
    device: str | None
    """None for host memory, else what the object calls the place."""
    hold: Any
    """An export that keeps the memory where it is, or None where the object itself does."""


def tensor_addr_len(tensor: Any) -> tuple[int, int]:
    """Return the address and the number of bytes of a tensor's memory.

    Takes a torch tensor or anything with its ``data_ptr()``, a NumPy array, or any other object that exports memory:
    ``__array_interface__``, the buffer protocol, DLPack on the CPU. An empty one gives ``(address, 0)``. Raises
    ``ValueError`` for one that is not contiguous in C order, ``TypeError`` for an object with no memory to show.
    The address of a tensor on a device, where it has one, is its address there.
    """
    memory = memory_of(tensor)
    return memory.addr, memory.length


def reg_tensor(pd: Registers[_MR], tensor: Any, access: int) -> _MR:
    """Register the memory of a tensor (see ``tensor_addr_len``) and return the MR, which keeps the tensor.

    ``mr.owner`` is the tensor. Until ``mr.close()`` an export through the buffer protocol stays open, so that a
    ``bytearray`` cannot be resized, nor a ``mmap`` closed, under the device. Raises ``ValueError`` for an empty
    tensor, for a tensor on a device (the package's ``.cuda.register_tensor`` takes those), and for read-only memory
    with an access flag that writes. ``ibv_reg_mr``; other threads run meanwhile.

    ``pd`` may be any object with ``reg_mr(addr, length, access)``, such as a wrapper. An MR of this package keeps the
    tensor, also one that is returned by another PD or is the ``mr`` of what that returns. Of anything else, the tensor
    and its export live until it is about to go, provided it takes weak references.
    """
    access = integer("access", access, 0, 2**32 - 1)
    memory = memory_of(tensor)
    kind = type(tensor).__name__
    if memory.device is not None:
        package = __name__.rpartition(".")[0]
        raise ValueError(
            f"the {kind} is on device {memory.device}: register it with {package}.cuda.register_tensor(pd, tensor, "
            "access)"
        )
    check_access(tensor, memory, access)

    if isinstance(pd, extension.PD):
        region: Any = pd.reg_mr(memory.addr, memory.length, access, owner=tensor, hold=memory.hold)
        return cast(_MR, region)
    mr = pd.reg_mr(memory.addr, memory.length, access)
    for ours in (mr, getattr(mr, "mr", None)):
        if isinstance(ours, extension.MR) and ours._keep(tensor, memory.hold):
            return mr
    _keep(mr, (tensor, memory.hold))
    return mr


def check_access(tensor: Any, memory: Memory, access: int) -> None:
    """Refuse memory that is not there, or that must not be written where the access lets it be."""
    kind = type(tensor).__name__
    if memory.length == 0:
        raise ValueError(f"the {kind} is empty: there is no memory to register")
    if memory.readonly and access & _WRITING:
        raise ValueError(f"the memory of the {kind} is read-only, and access {access:#x} lets it be written")


def memory_of(tensor: Any) -> Memory:
    """Find the memory of an object by the first way that it offers."""
    for way in (_from_data_ptr, _from_array_interface, _from_device_array, _from_buffer, _from_dlpack):
        memory = way(tensor)
        if memory is not None:
            return _checked(tensor, memory)
    raise TypeError(
        f"{type(tensor).__name__} exports no memory: it has neither data_ptr(), __array_interface__, the buffer "
        "protocol nor DLPack"
    )


def device_memory_of(tensor: Any) -> Memory:
    """The same for an object that may lie on a GPU, which DLPack says more of than ``__cuda_array_interface__``."""
    memory = _from_data_ptr(tensor)
    if memory is None:
        try:
            memory = _from_dlpack_anywhere(tensor)
        except TypeError:  # it has no booleans, for one
            memory = _from_device_array(tensor)
            if memory is None:
                raise
    memory = memory or _from_device_array(tensor)
    if memory is not None:
        return _checked(tensor, memory)
    if hasattr(tensor, "__array_interface__"):
        return memory_of(tensor)
    try:
        memoryview(tensor)
    except TypeError:
        raise TypeError(
            f"{type(tensor).__name__} shows no memory on a GPU: it has neither data_ptr(), DLPack nor "
            "__cuda_array_interface__"
        ) from None
    return memory_of(tensor)


def _checked(tensor: Any, memory: Memory) -> Memory:
    """Refuse what an object says of its memory and cannot be."""
    addr, length = memory.addr, memory.length
    if addr < 0 or length < 0 or addr + length > 1 << 64:
        raise ValueError(
            f"the {type(tensor).__name__} claims {length} bytes at {addr:#x}, which is no range of addresses"
        )
    return memory


# ---- keeping -------------------------------------------------------------------------------------------------------

_kept: dict[int, tuple[weakref.ref[Any], Any]] = {}


def _keep(mr: Any, thing: Any) -> None:
    """Keep something until the object is gone, by its identity: another package's handles compare as they like."""
    key = id(mr)

    def let_go(_: Any) -> None:
        _kept.pop(key, None)

    try:
        _kept[key] = weakref.ref(mr, let_go), thing
    except TypeError:
        pass


# ---- what is refused -----------------------------------------------------------------------------------------------


def _not_contiguous(tensor: Any) -> ValueError:
    return ValueError(
        f"the {type(tensor).__name__} is not contiguous in C order, so its bytes are not one range: make a contiguous "
        "copy, or register what it is a view of"
    )


def _holds_references(tensor: Any) -> TypeError:
    return TypeError(f"the {type(tensor).__name__} holds references to Python objects, not data")


def _is_contiguous(shape: Iterable[int], strides: Iterable[int], step: int) -> bool:
    """Whether an array that is not empty lies in one piece, the last index running fastest in steps of ``step``."""
    expected = step
    for extent, stride in zip(reversed(tuple(shape)), reversed(tuple(strides))):
        if extent != 1:
            if stride != expected:
                return False
            expected *= extent
    return True


def _product(shape: Iterable[int]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count


def _address(tensor: Any, value: Any) -> int:
    if not hasattr(value, "__index__"):
        raise TypeError(f"the {type(tensor).__name__} says that its memory is at {value!r}, which is no address")
    return int(index(value))


# ---- data_ptr() ----------------------------------------------------------------------------------------------------


def _from_data_ptr(tensor: Any) -> Memory | None:
    data_ptr = getattr(tensor, "data_ptr", None)
    if not callable(data_ptr):
        return None
    if hasattr(tensor, "element_size"):
        length = int(tensor.numel()) * int(tensor.element_size())
    else:
        length = int(tensor.nbytes)
    is_contiguous = getattr(tensor, "is_contiguous", None)
    if length and callable(is_contiguous) and not is_contiguous():
        raise _not_contiguous(tensor)
    try:
        addr = _address(tensor, data_ptr())
    except (RuntimeError, NotImplementedError) as error:  # sparse, meta and fake tensors
        raise TypeError(f"the {type(tensor).__name__} has no memory: {error}") from error
    if length and not addr:
        raise TypeError(f"the {type(tensor).__name__} has no memory: data_ptr() is 0")
    return Memory(addr, length, False, _device_of(tensor), None)


def _device_of(tensor: Any) -> str | None:
    device = getattr(tensor, "device", None)
    kind = getattr(device, "type", None)
    if isinstance(kind, str):
        return None if kind == "cpu" else str(device)
    if getattr(tensor, "is_cuda", False) is True:
        return "cuda"
    return _dlpack_place(tensor)


# ---- __array_interface__, __cuda_array_interface__ -----------------------------------------------------------------


def _array_length(tensor: Any, interface: dict[str, Any]) -> int:
    for key in ("shape", "typestr"):
        if key not in interface:
            raise TypeError(f"the {type(tensor).__name__} does not tell the {key} of its array")
    shape, strides = interface["shape"], interface.get("strides")
    element = re.match(r"[<>|=]?([a-zA-Z?])(\d*)", interface["typestr"])  # "<M8[ns]" says more behind
    if getattr(getattr(tensor, "dtype", None), "hasobject", False) or (element and element[1] == "O"):
        raise _holds_references(tensor)
    if element is None or not element[2]:
        raise TypeError(f"the {type(tensor).__name__} has elements of an unknown type, {interface['typestr']!r}")
    itemsize = int(element[2]) * (4 if element[1] == "U" else 1)
    length = _product(shape) * itemsize
    if length and strides is not None and not _is_contiguous(shape, strides, itemsize):
        raise _not_contiguous(tensor)
    return length


def _from_array_interface(tensor: Any) -> Memory | None:
    interface = getattr(tensor, "__array_interface__", None)
    if not isinstance(interface, dict):
        return None
    data = interface.get("data")
    if data is None or "__ref" in interface:  # of a NumPy scalar it is about a copy, which that holds
        return None  # the buffer protocol has it
    if not isinstance(data, tuple):
        raise TypeError(
            f"the __array_interface__ of the {type(tensor).__name__} refers to a {type(data).__name__}, which may be "
            "a copy: pass that object"
        )
    return Memory(_address(tensor, data[0]), _array_length(tensor, interface), bool(data[1]), None, None)


def _from_device_array(tensor: Any) -> Memory | None:
    interface = getattr(tensor, "__cuda_array_interface__", None)
    if not isinstance(interface, dict):
        return None
    if interface.get("mask") is not None:
        raise ValueError(f"the {type(tensor).__name__} has a mask: register the array and its mask by themselves")
    addr, readonly = interface["data"]
    return Memory(_address(tensor, addr), _array_length(tensor, interface), bool(readonly), "cuda", None)


# ---- the buffer protocol -------------------------------------------------------------------------------------------


_Buffer = ctypes.c_void_p * 16
"""Room for a ``Py_buffer``, which has 80 bytes on 64-bit machines and begins with the address."""
_get_buffer = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int)(
    ("PyObject_GetBuffer", ctypes.pythonapi)
)
_release_buffer = ctypes.PYFUNCTYPE(None, ctypes.POINTER(_Buffer))(("PyBuffer_Release", ctypes.pythonapi))
_PYBUF_FULL_RO = 0x011C


def _from_buffer(tensor: Any) -> Memory | None:
    try:
        view = memoryview(tensor)
    except TypeError:
        return None
    except BufferError as error:
        raise TypeError(f"the {type(tensor).__name__} does not export its memory: {error}") from error
    if "O" in re.sub(":[^:]*:", "", view.format):  # without the names of fields
        raise _holds_references(tensor)
    if view.nbytes and not view.c_contiguous:
        raise _not_contiguous(tensor)
    # A memoryview does not tell its address. A second export does, and is given back: the view stays.
    buffer = _Buffer()
    _get_buffer(view, ctypes.byref(buffer), _PYBUF_FULL_RO)
    addr = buffer[0] or 0
    _release_buffer(ctypes.byref(buffer))
    return Memory(addr, view.nbytes, view.readonly, None, view)


# ---- DLPack --------------------------------------------------------------------------------------------------------


class _DLTensor(NamedTuple):
    """``DLTensor``, as it lies in a capsule."""

    data: int
    device_type: int
    device_id: int
    ndim: int
    code: int
    bits: int
    lanes: int
    shape: int
    strides: int
    byte_offset: int


# A DLManagedTensor begins with the DLTensor. A DLManagedTensorVersioned has before it: major, minor, manager_ctx,
# deleter, flags; later versions of DLPack keep the first two where they are.
_DL_TENSOR = struct.Struct("@PiiiBBHPPQ")
_DL_VERSIONED = struct.Struct("@IIPPQ")
_DL_READ_ONLY, _DL_COPIED, _DL_PADDED = 1, 2, 4
_DL_MOST_DIMENSIONS = 1024  # far more than anybody has; a capsule with garbage is not followed
_DL_HANDLE = 3  # type code of an opaque handle: the elements are no data
_DL_HOST = {1: "cpu", 3: "cuda_host", 11: "rocm_host"}
_DL_DEVICE = {2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 13: "cuda_managed", 14: "oneapi"}

_capsule_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _dlpack_place(tensor: Any) -> str | None:
    """The device that an object names for DLPack, None for host memory or where it names none."""
    dlpack_device = getattr(tensor, "__dlpack_device__", None)
    if not callable(dlpack_device):
        return None
    kind, number = (int(part) for part in dlpack_device())
    return None if kind in _DL_HOST else f"{_DL_DEVICE.get(kind, f'type {kind}')}:{number}"


def _dlpack_export(tensor: Any, place: str | None) -> Any:
    """Ask for a capsule in the newest way that the object understands, and for no copy where it can be told.

    Of an object on a device, also for no waiting: no data is touched here.
    """
    stream: dict[str, Any] = {} if place is None else {"stream": -1}
    newest: dict[str, Any] = {"max_version": (1, 0)}
    for keywords in ({**stream, **newest, "copy": False}, {**stream, **newest}, stream, {}):
        try:
            return tensor.__dlpack__(**keywords)
        except TypeError:
            if not keywords:
                raise
    return None


def _dlpack_read(name: str, capsule: Any) -> tuple[_DLTensor, int]:
    """Read what a capsule holds, and its flags."""
    flags = 0
    if _capsule_is_valid(capsule, b"dltensor_versioned"):
        pointer = _capsule_pointer(capsule, b"dltensor_versioned")
        major, minor, _, _, flags = _DL_VERSIONED.unpack(ctypes.string_at(pointer, _DL_VERSIONED.size))
        if major != 1:
            raise TypeError(f"the {name} speaks DLPack {major}.{minor}, not 1.x")
        pointer += _DL_VERSIONED.size
    elif _capsule_is_valid(capsule, b"dltensor"):
        pointer = _capsule_pointer(capsule, b"dltensor")
    else:
        raise TypeError(f"the __dlpack__ of the {name} gave no DLPack capsule")
    return _DLTensor(*_DL_TENSOR.unpack(ctypes.string_at(pointer, _DL_TENSOR.size))), flags


def _dlpack_length(tensor: Any, dl: _DLTensor, padded: bool) -> int:
    if not 0 <= dl.ndim <= _DL_MOST_DIMENSIONS or (dl.ndim and not dl.shape):
        raise TypeError(f"the DLPack capsule of the {type(tensor).__name__} has {dl.ndim} dimensions and no shape")
    numbers = ctypes.c_int64 * dl.ndim
    shape = numbers.from_address(dl.shape)[:] if dl.ndim else []
    bits = dl.bits * dl.lanes
    if padded or bits % 8 == 0:
        length = _product(shape) * ((bits + 7) // 8)
    else:  # several elements share a byte
        length = (_product(shape) * bits + 7) // 8
    if length and dl.ndim and dl.strides and not _is_contiguous(shape, numbers.from_address(dl.strides)[:], 1):
        raise _not_contiguous(tensor)
    return length


def _from_dlpack(tensor: Any) -> Memory | None:
    if not callable(getattr(tensor, "__dlpack__", None)):
        return None
    name = type(tensor).__name__
    place = _dlpack_place(tensor)
    if place is not None:
        raise ValueError(
            f"the {name} is on device {place}: its memory is reached with {__name__.rpartition('.')[0]}.cuda, "
            ".cuda.register_tensor(pd, tensor, access)"
        )
    return _from_dlpack_anywhere(tensor)


def _from_dlpack_anywhere(tensor: Any) -> Memory | None:
    """The memory wherever it lies; ``device`` says where."""
    if not callable(getattr(tensor, "__dlpack__", None)):
        return None
    name = type(tensor).__name__
    place = _dlpack_place(tensor)
    try:
        capsule = _dlpack_export(tensor, place)
    except (BufferError, RuntimeError) as error:
        raise TypeError(f"the {name} does not export its memory: {error}") from error

    dl, flags = _dlpack_read(name, capsule)
    if flags & _DL_COPIED:
        raise TypeError(f"the {name} exports only a copy of its memory")
    if dl.code == _DL_HANDLE:
        raise TypeError(f"the {name} holds opaque handles, not data")
    length = _dlpack_length(tensor, dl, bool(flags & _DL_PADDED))
    return Memory(dl.data + dl.byte_offset, length, bool(flags & _DL_READ_ONLY), place, capsule)
