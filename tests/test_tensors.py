# SPDX-License-Identifier: BSD-3-Clause
"""Where the memory of tensors, arrays and buffers lies, and their registration; no framework and no device needed.

torch is played by a class with the same few methods, so that its rules are tested where it is not installed.
"""

from __future__ import annotations

import array
import ctypes
import gc
import io
import mmap
import sys
import weakref
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packages import error_of

LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC = 1, 2, 4, 8


class Device:
    def __init__(self, type: str, index: int = 0) -> None:
        self.type, self.index = type, index

    def __str__(self) -> str:
        return self.type if self.type == "cpu" else f"{self.type}:{self.index}"


class Tensor:
    """As much of a torch tensor as is looked at."""

    def __init__(self, count: int = 6, size: int = 4, device: str = "cpu", contiguous: bool = True) -> None:
        self.memory = ctypes.create_string_buffer(max(count * size, 1))
        self.count, self.size, self.contiguous = count, size, contiguous
        self.device = Device(device)
        self.is_cuda = device == "cuda"

    def data_ptr(self) -> int:
        return ctypes.addressof(self.memory) if self.count else 0

    def element_size(self) -> int:
        return self.size

    def numel(self) -> int:
        return self.count

    def is_contiguous(self) -> bool:
        return self.contiguous


class MetaTensor(Tensor):
    def data_ptr(self) -> int:
        return 0


class SparseTensor(Tensor):
    def data_ptr(self) -> int:
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")


class Region:
    pass


class Domain:
    """A PD of somebody else's, with the one method that is promised to be used."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int, int]] = []

    def reg_mr(self, addr: int, length: int, access: int) -> Region:
        self.calls.append((addr, length, access))
        return Region()


class Interface:
    """An object with an __array_interface__ and nothing else."""

    def __init__(self, memory: Any = None, name: str = "__array_interface__", **changes: Any) -> None:
        self.memory = memory if memory is not None else ctypes.create_string_buffer(64)
        self.interface = {
            "data": (ctypes.addressof(self.memory), False),
            "shape": (2, 8),
            "typestr": "<f4",
            "version": 3,
            **changes,
        }
        self.name = name

    def __getattr__(self, name: str) -> Any:
        if name == self.__dict__["name"]:
            return self.interface
        raise AttributeError(name)


@pytest.fixture
def where(ib: Any) -> Any:
    return ib.tensor_addr_len


@pytest.fixture
def domain() -> Domain:
    return Domain()


# ---- torch ---------------------------------------------------------------------------------------------------------


def test_a_tensor_gives_its_data_ptr_and_size(where: Any) -> None:
    tensor = Tensor(6, 4)
    assert where(tensor) == (tensor.data_ptr(), 24)


def test_a_tensor_on_a_device_gives_its_address_there(where: Any) -> None:
    tensor = Tensor(6, 4, device="cuda")
    assert where(tensor) == (tensor.data_ptr(), 24)


def test_an_empty_tensor_gives_length_zero(where: Any) -> None:
    assert where(Tensor(0)) == (0, 0)
    assert where(Tensor(0, contiguous=False)) == (0, 0)


def test_a_tensor_in_pieces_is_a_value_error(where: Any) -> None:
    with pytest.raises(ValueError, match="contiguous"):
        where(Tensor(contiguous=False))


@pytest.mark.parametrize("kind", [MetaTensor, SparseTensor])
def test_a_tensor_without_storage_is_a_type_error(where: Any, kind: Any) -> None:
    with pytest.raises(TypeError, match="no memory"):
        where(kind())


def test_a_real_torch_tensor(ib: Any, domain: Domain) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    tensor = torch.arange(12, dtype=torch.bfloat16).reshape(3, 4)
    assert ib.tensor_addr_len(tensor) == (tensor.data_ptr(), 24)
    with pytest.raises(ValueError, match="contiguous"):
        ib.tensor_addr_len(tensor.t())
    with pytest.raises(TypeError):
        ib.tensor_addr_len(torch.empty(4, device="meta"))
    ib.reg_tensor(domain, tensor, LOCAL_WRITE)
    assert domain.calls == [(tensor.data_ptr(), 24, LOCAL_WRITE)]


# ---- NumPy and __array_interface__ ---------------------------------------------------------------------------------


def test_numpy_arrays_of_every_kind_of_number(where: Any) -> None:
    np = pytest.importorskip("numpy", reason="needs NumPy")
    for dtype in "?bBhHiIlLqQefdgFDG":
        a = np.zeros((3, 5), dtype=dtype)
        assert where(a) == (a.ctypes.data, a.nbytes)
    padded = np.dtype("i4, f8", align=True)
    others: Any = ("S7", "U3", "M8[ns]", "m8[D]", [("x", "i4"), ("y", "f8")], "V9", ">i4", padded)
    for dtype in others:
        a = np.zeros(4, dtype=dtype)
        assert where(a) == (a.ctypes.data, a.nbytes)


def test_numpy_shapes(where: Any) -> None:
    np = pytest.importorskip("numpy", reason="needs NumPy")
    a = np.zeros((4, 1, 6))
    for view in (a, a[1:3], a[2], a[:, 0], a.reshape(-1), a[..., np.newaxis], a.transpose(1, 0, 2), a[0, 0, 3]):
        view = np.asarray(view)
        if view.base is not None or view is a:
            assert where(view) == (view.ctypes.data, view.nbytes)
    fortran, repeated = np.asfortranarray(np.zeros((3, 4))), np.broadcast_to(a[0], (4, 1, 6))
    for view in (a[::2], a[:, :, ::2], a[::-1], a.T, fortran, repeated):
        with pytest.raises(ValueError, match="contiguous"):
            where(view)
    assert where(a[:0]) == (a[:0].ctypes.data, 0)
    assert where(np.zeros((3, 0, 4)))[1] == 0
    assert where(np.array(5, dtype="i2"))[1] == 2


def test_numpy_arrays_of_objects_are_no_memory(where: Any) -> None:
    np = pytest.importorskip("numpy", reason="needs NumPy")
    with pytest.raises(TypeError, match="Python objects"):
        where(np.array([object()]))
    with pytest.raises(TypeError, match="Python objects"):
        where(np.zeros(3, dtype=[("number", "i8"), ("thing", "O")]))


def test_references_are_no_data_through_the_buffer_protocol_either(where: Any) -> None:
    with pytest.raises(TypeError, match="Python objects"):
        where((ctypes.py_object * 2)())
    np = pytest.importorskip("numpy", reason="needs NumPy")
    for dtype in ("O", [("number", "i8"), ("thing", "O")]):
        with pytest.raises(TypeError, match="the memoryview holds references to Python objects"):
            where(memoryview(np.zeros(3, dtype=dtype)))
    assert where(memoryview(np.zeros(3, dtype=[("Offset", "i8"), ("O", "f4")])))[1] == 36


def test_array_interface_alone_is_enough(where: Any) -> None:
    thing = Interface()
    address = ctypes.addressof(thing.memory)
    assert where(thing) == (address, 64)
    assert where(Interface(thing.memory, strides=(32, 4))) == (address, 64)
    assert where(Interface(thing.memory, strides=None, shape=())) == (address, 4)
    assert where(Interface(thing.memory, shape=(0, 9))) == (address, 0)
    with pytest.raises(ValueError, match="contiguous"):
        where(Interface(strides=(64, 8)))


def test_array_interface_that_may_be_a_copy_is_refused(where: Any) -> None:
    with pytest.raises(TypeError, match="copy"):
        where(Interface(data=b"0" * 64))


@pytest.mark.parametrize("key", ["shape", "typestr"])
def test_array_interface_that_lacks_a_part_is_a_type_error(where: Any, key: str) -> None:
    thing = Interface()
    del thing.interface[key]
    with pytest.raises(TypeError, match=f"the Interface does not tell the {key}"):
        where(thing)


@pytest.mark.parametrize("address", [4096.5, "4096", None])
def test_an_address_that_is_no_integer_is_a_type_error(where: Any, address: Any) -> None:
    thing: Any = Interface(data=(address, False))
    with pytest.raises(TypeError, match="the Interface says that its memory is at .*, which is no address"):
        where(thing)


@pytest.mark.parametrize("kind", ["float64", "int8", "complex64", "datetime64", "str_", "bytes_", "void"])
def test_a_scalar_has_its_own_memory_not_that_of_a_copy(ib: Any, where: Any, domain: Domain, kind: str) -> None:
    """NumPy's scalars tell of a copy in __array_interface__, which is gone when the dictionary is."""
    np = pytest.importorskip("numpy", reason="needs NumPy")
    scalar = getattr(np, kind)({"datetime64": "2030-01-02", "void": b"abc", "bytes_": b"abc"}.get(kind, "17"))
    others = [getattr(np, kind)(scalar) for _ in range(3)]
    address, length = where(scalar)
    assert ctypes.string_at(address, length) == bytes(memoryview(scalar)) and others
    view = memoryview(scalar)
    assert where(view) == (address, length)
    with pytest.raises(ValueError, match="read-only"):
        ib.reg_tensor(domain, scalar, LOCAL_WRITE)


def test_array_interface_with_elements_nobody_knows(where: Any) -> None:
    with pytest.raises(TypeError, match="unknown type"):
        where(Interface(typestr="weird"))


# ---- the buffer protocol -------------------------------------------------------------------------------------------


def address_of(buffer: Any) -> int:
    return ctypes.addressof((ctypes.c_char * 1).from_buffer(buffer))


def test_buffers_of_every_kind(where: Any) -> None:
    numbers, ints = array.array("d", range(5)), (ctypes.c_int * 10)()
    for buffer in (bytearray(40), numbers, mmap.mmap(-1, 4096), ints, io.BytesIO(b"x" * 9).getbuffer()):
        assert where(buffer) == (address_of(buffer), memoryview(buffer).nbytes)


def test_a_part_of_a_buffer_begins_where_the_part_begins(where: Any) -> None:
    data = bytearray(100)
    assert where(memoryview(data)[30:50]) == (address_of(data) + 30, 20)
    assert where(memoryview(data)[32:64].cast("I", (2, 4))) == (address_of(data) + 32, 32)


def test_read_only_buffers_have_an_address_too(where: Any) -> None:
    data = b"some bytes"
    address, length = where(data)
    assert length == len(data) and ctypes.string_at(address, length) == data


def test_empty_buffers_give_length_zero(where: Any) -> None:
    for buffer in (b"", bytearray(), memoryview(bytearray(9))[4:4], memoryview(bytearray(9))[::2][:0]):
        assert where(buffer)[1] == 0


def test_a_buffer_in_pieces_is_a_value_error(where: Any) -> None:
    with pytest.raises(ValueError, match="contiguous"):
        where(memoryview(bytearray(10))[::2])
    with pytest.raises(ValueError, match="contiguous"):
        where(memoryview(bytearray(10))[::-1])


def test_asking_keeps_no_export_open(where: Any) -> None:
    data = bytearray(16)
    where(data)
    data.extend(b"more")


@settings(deadline=None, database=None)
@given(st.integers(0, 300), st.integers(-310, 310), st.integers(-310, 310), st.sampled_from([1, 2, 3, -1]))
def test_any_slice_of_a_buffer(size: int, start: int, stop: int, step: int) -> None:
    where = pytest.importorskip("ibverbs").tensor_addr_len
    data = bytearray(size)
    view = memoryview(data)[start:stop:step]
    begin = range(size)[start:stop:step]
    if len(begin) > 1 and step != 1:
        with pytest.raises(ValueError):
            where(view)
    else:
        address, length = where(view)
        assert length == len(begin)
        if length:
            assert address == where(data)[0] + begin[0]


@pytest.mark.parametrize("thing", ["text", 5, None, 1.5, [1, 2], {}, object(), Tensor, memoryview], ids=repr)
def test_objects_with_no_memory_are_a_type_error(where: Any, thing: Any) -> None:
    with pytest.raises(TypeError):
        where(thing)


def test_a_released_memoryview_is_refused(where: Any) -> None:
    view = memoryview(b"abc")
    view.release()
    with pytest.raises(ValueError):
        where(view)


# ---- DLPack --------------------------------------------------------------------------------------------------------


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class Managed(ctypes.Structure):
    _fields_ = [("dl_tensor", DLTensor), ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class ManagedVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("dl_tensor", DLTensor),
    ]  # fmt: skip


new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)


class Exporter:
    """An object that offers DLPack alone, of the kind that is asked for."""

    def __init__(
        self,
        shape: tuple[int, ...] = (2, 8),
        strides: tuple[int, ...] | None = None,
        bits: int = 32,
        lanes: int = 1,
        code: int = 2,
        offset: int = 0,
        version: tuple[int, int] | None = (1, 0),
        flags: int = 0,
        device: tuple[int, int] = (1, 0),
        keywords: tuple[str, ...] = ("max_version", "copy"),
    ) -> None:
        self.memory = ctypes.create_string_buffer(256)
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.strides = (ctypes.c_int64 * len(shape))(*strides) if strides is not None else None
        self.version, self.device, self.keywords = version, device, keywords
        self.asked: list[dict[str, Any]] = []
        dl = DLTensor(
            ctypes.addressof(self.memory), *device, len(shape), code, bits, lanes,
            ctypes.cast(self.shape, ctypes.POINTER(ctypes.c_int64)),
            ctypes.cast(self.strides, ctypes.POINTER(ctypes.c_int64)) if self.strides else None, offset,
        )  # fmt: skip
        self.managed = Managed(dl, None, None) if version is None else ManagedVersioned(*version, None, None, flags, dl)
        self.name = b"dltensor" if version is None else b"dltensor_versioned"

    @property
    def address(self) -> int:
        return ctypes.addressof(self.memory)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **keywords: Any) -> Any:
        self.asked.append(keywords)
        if not set(keywords) <= set(self.keywords):
            raise TypeError("unexpected keyword argument")
        return new_capsule(ctypes.addressof(self.managed), self.name, None)


@pytest.mark.parametrize("version", [None, (1, 0), (1, 9)])
def test_dlpack_capsules_of_each_kind(where: Any, version: Any) -> None:
    thing = Exporter(version=version)
    assert where(thing) == (thing.address, 64)
    thing = Exporter(version=version, offset=16, strides=(8, 1))
    assert where(thing) == (thing.address + 16, 64)


@pytest.mark.parametrize("keywords", [(), ("max_version",), ("max_version", "copy")])
def test_dlpack_is_asked_in_the_newest_way_that_is_understood(where: Any, keywords: Any) -> None:
    thing = Exporter(keywords=keywords)
    assert where(thing) == (thing.address, 64)
    assert set(thing.asked[-1]) == set(keywords)


@pytest.mark.parametrize(
    ("options", "length"),
    [
        ({"shape": ()}, 4),
        ({"shape": (0, 4)}, 0),
        ({"shape": (7,), "bits": 16}, 14),
        ({"shape": (5,), "bits": 32, "lanes": 4}, 80),
        ({"shape": (5,), "bits": 4}, 3),
        ({"shape": (5,), "bits": 4, "flags": 4}, 5),
        ({"shape": (2, 1, 3), "strides": (3, 77, 1)}, 24),
    ],
    ids=str,
)
def test_dlpack_sizes(where: Any, options: Any, length: int) -> None:
    assert where(Exporter(**options))[1] == length


@pytest.mark.parametrize("strides", [(16, 2), (1, 2), (-8, 1), (0, 1)])
def test_dlpack_in_pieces_is_a_value_error(where: Any, strides: Any) -> None:
    with pytest.raises(ValueError, match="contiguous"):
        where(Exporter(strides=strides))


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"version": (2, 0)}, "DLPack 2.0"), ({"flags": 2}, "copy"), ({"code": 3}, "handles")],
    ids=str,
)
def test_dlpack_that_cannot_be_used_is_a_type_error(where: Any, options: Any, reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        where(Exporter(**options))


def test_dlpack_on_a_device_names_the_way(ib: Any, domain: Domain) -> None:
    for place in ((2, 1), (10, 0), (99, 0)):
        with pytest.raises(ValueError, match=r"\.cuda\.register_tensor"):
            ib.tensor_addr_len(Exporter(device=place))
        with pytest.raises(ValueError, match=r"\.cuda\.register_tensor"):
            ib.reg_tensor(domain, Exporter(device=place), LOCAL_WRITE)
    assert not domain.calls


def test_dlpack_of_pinned_host_memory_is_host_memory(where: Any) -> None:
    thing = Exporter(device=(3, 0))
    assert where(thing) == (thing.address, 64)


def test_dlpack_of_numpy(where: Any) -> None:
    np = pytest.importorskip("numpy", reason="needs NumPy")
    if not hasattr(np.ndarray, "__dlpack__"):
        pytest.skip("needs a NumPy with DLPack")
    a = np.arange(12.0).reshape(3, 4)

    class Only:
        def __dlpack__(self, **keywords: Any) -> Any:
            return a.__dlpack__(**keywords)

        def __dlpack_device__(self) -> Any:
            return a.__dlpack_device__()

    before = sys.getrefcount(a)
    for _ in range(100):
        assert where(Only()) == (a.ctypes.data, 96)
    assert sys.getrefcount(a) == before


# ---- registration --------------------------------------------------------------------------------------------------


def test_registration_hands_on_address_length_and_access(ib: Any, domain: Domain) -> None:
    data = bytearray(100)
    ib.reg_tensor(domain, data, ib.AccessFlags.LOCAL_WRITE | ib.AccessFlags.REMOTE_READ)
    assert domain.calls == [(address_of(data), 100, 5)]


def test_parameters_of_registration_by_keyword(ib: Any, domain: Domain) -> None:
    ib.reg_tensor(pd=domain, tensor=bytearray(8), access=0)
    assert ib.tensor_addr_len(tensor=b"12")[1] == 2


@pytest.mark.parametrize("thing", [bytearray(), b"", Tensor(0), Interface(shape=(0,)), Exporter(shape=(0,))], ids=repr)
def test_registering_nothing_is_a_value_error(ib: Any, domain: Domain, thing: Any) -> None:
    with pytest.raises(ValueError, match="empty"):
        ib.reg_tensor(domain, thing, LOCAL_WRITE)
    assert not domain.calls


@pytest.mark.parametrize("place", ["cuda", "xpu", "npu", "mps"])
def test_registering_a_device_tensor_names_the_way(ib: Any, domain: Domain, place: str) -> None:
    with pytest.raises(ValueError, match=r"\.cuda\.register_tensor"):
        ib.reg_tensor(domain, Tensor(device=place), LOCAL_WRITE)
    assert not domain.calls


def test_registering_a_device_array_names_the_way(ib: Any, domain: Domain) -> None:
    with pytest.raises(ValueError, match=r"\.cuda\.register_tensor"):
        ib.reg_tensor(domain, Interface(name="__cuda_array_interface__"), LOCAL_WRITE)
    assert not domain.calls


def read_only_things() -> list[Any]:
    memory = ctypes.create_string_buffer(64)
    return [
        b"bytes",
        memoryview(bytearray(8)).toreadonly(),
        Interface(memory, data=(ctypes.addressof(memory), True)),
        Exporter(flags=1),
    ]


@pytest.mark.parametrize("access", [LOCAL_WRITE, REMOTE_WRITE, REMOTE_ATOMIC, LOCAL_WRITE | REMOTE_READ])
def test_read_only_memory_is_not_registered_for_writing(ib: Any, domain: Domain, access: int) -> None:
    for thing in read_only_things():
        with pytest.raises(ValueError, match="read-only"):
            ib.reg_tensor(domain, thing, access)
    assert not domain.calls


@pytest.mark.parametrize("access", [0, REMOTE_READ])
def test_read_only_memory_is_registered_for_reading(ib: Any, domain: Domain, access: int) -> None:
    for thing in read_only_things():
        ib.reg_tensor(domain, thing, access)
    assert len(domain.calls) == 4


@pytest.mark.parametrize("access", ["LOCAL_WRITE", None, 1.0])
def test_access_of_another_type_is_a_type_error(ib: Any, domain: Domain, access: Any) -> None:
    with pytest.raises(TypeError, match=f"^access must be an integer, not {type(access).__name__}$"):
        ib.reg_tensor(domain, bytearray(8), access)
    assert not domain.calls


def test_somebody_elses_region_keeps_the_tensor_while_it_lives(ib: Any, domain: Domain) -> None:
    tensor = Tensor()
    alive = weakref.ref(tensor)
    mr = ib.reg_tensor(domain, tensor, LOCAL_WRITE)
    del tensor
    gc.collect()
    assert alive() is not None
    del mr
    gc.collect()
    assert alive() is None


def test_somebody_elses_region_keeps_the_export_too(ib: Any, domain: Domain) -> None:
    data = bytearray(8)
    mr = ib.reg_tensor(domain, data, LOCAL_WRITE)
    with pytest.raises(BufferError):
        data.append(1)
    del mr
    gc.collect()
    data.append(1)


def test_a_region_that_takes_no_weak_references_is_returned_all_the_same(ib: Any) -> None:
    class Bare:
        def reg_mr(self, addr: int, length: int, access: int) -> tuple[int, int]:
            return addr, length

    data = bytearray(8)
    assert ib.reg_tensor(Bare(), data, 0) == (address_of(data), 8)


def test_what_reg_mr_raises_comes_through(ib: Any) -> None:
    class Refusing:
        def reg_mr(self, addr: int, length: int, access: int) -> None:
            raise MemoryError("no")

    with pytest.raises(MemoryError):
        ib.reg_tensor(Refusing(), bytearray(8), 0)


# ---- registration with a PD of the package -------------------------------------------------------------------------


@pytest.fixture
def real_pd(ib: Any) -> Any:
    """A PD of any device there is, be it the stub's."""
    devices = ib.get_device_list()
    if not devices:
        pytest.skip("needs a verbs device, or the stub libibverbs")
    with devices[0].open() as ctx, ctx.alloc_pd() as pd:
        yield pd


def test_the_region_names_its_owner_and_place(ib: Any, real_pd: Any) -> None:
    for thing in (bytearray(64), Exporter(), Interface(), Tensor(), mmap.mmap(-1, 4096), array.array("i", range(16))):
        with ib.reg_tensor(real_pd, thing, LOCAL_WRITE) as mr:
            assert mr.owner is thing
            assert (mr.addr, mr.length) == ib.tensor_addr_len(thing)
        assert mr.owner is None


def test_a_buffer_cannot_move_while_it_is_registered(ib: Any, real_pd: Any) -> None:
    data = bytearray(64)
    mr = ib.reg_tensor(real_pd, data, LOCAL_WRITE)
    with pytest.raises(BufferError):
        data.extend(b"x" * 10000)
    mr.close()
    data.extend(b"x" * 10000)


def test_a_mapping_cannot_be_closed_while_it_is_registered(ib: Any, real_pd: Any) -> None:
    memory = mmap.mmap(-1, 4096)
    mr = ib.reg_tensor(real_pd, memory, LOCAL_WRITE)
    with pytest.raises(BufferError):
        memory.close()
    mr.close()
    memory.close()


def test_a_collected_region_lets_go_of_the_buffer(ib: Any, real_pd: Any) -> None:
    data = bytearray(64)
    mr = ib.reg_tensor(real_pd, data, LOCAL_WRITE)
    del mr
    gc.collect()
    data.extend(b"x")


def test_a_refused_registration_lets_go_of_the_buffer(ib: Any, real_pd: Any) -> None:
    data = bytearray(64)
    real_pd.close()
    with pytest.raises(error_of(ib)):
        ib.reg_tensor(real_pd, data, LOCAL_WRITE)
    data.extend(b"x")


def test_the_region_keeps_the_tensor_alive(ib: Any, real_pd: Any) -> None:
    tensor = Tensor()
    alive = weakref.ref(tensor)
    mr = ib.reg_tensor(real_pd, tensor, LOCAL_WRITE)
    del tensor
    gc.collect()
    assert alive() is mr.owner is not None
    mr.close()
    gc.collect()
    assert alive() is None


def test_a_region_in_a_cycle_with_its_tensor_is_collected(ib: Any, real_pd: Any) -> None:
    tensor = Tensor()
    alive = weakref.ref(tensor)
    tensor.mr = ib.reg_tensor(real_pd, tensor, LOCAL_WRITE)  # type: ignore[attr-defined]
    del tensor
    gc.collect()
    assert alive() is None
