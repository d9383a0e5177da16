# SPDX-License-Identifier: BSD-3-Clause
"""NumPy arrays, registered as they are, move between queue pairs."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from endpoints import Pair, all_access

np = pytest.importorskip("numpy", reason="needs NumPy")
pytestmark = pytest.mark.needs("writes")


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64", "complex128", "int16"])
def test_an_array_is_written_into_another(ib: Any, far_pair: Pair, dtype: str) -> None:
    a, b = far_pair()
    source = np.arange(1000).astype(dtype).reshape(10, 100)
    target = np.zeros_like(source)
    access = all_access(ib)
    with ib.reg_tensor(a.pd, source, access) as mine, ib.reg_tensor(b.pd, target, access) as theirs:
        assert (mine.addr, mine.length) == ib.tensor_addr_len(source) == (source.ctypes.data, source.nbytes)
        wr = a.send_wr(
            sg_list=[mine.sge()], opcode=ib.WROpcode.RDMA_WRITE, remote_addr=theirs.addr, rkey=theirs.rkey
        )
        a.do(wr)
    assert np.array_equal(source, target)


def test_rows_of_an_array_are_read(ib: Any, far_pair: Pair) -> None:
    a, b = far_pair()
    source = np.arange(64, dtype="float32").reshape(8, 8)
    target = np.zeros((8, 8), dtype="float32")
    row = source.strides[0]
    access = all_access(ib)
    with ib.reg_tensor(b.pd, source, access) as theirs, ib.reg_tensor(a.pd, target, access) as mine:
        for i in range(8):  # upside down
            wr = a.send_wr(
                sg_list=[mine.sge(row, row * (7 - i))], opcode=ib.WROpcode.RDMA_READ,
                remote_addr=theirs.addr + row * i, rkey=theirs.rkey,
            )  # fmt: skip
            a.do(wr)
    assert np.array_equal(target, source[::-1])


def test_addresses_may_be_numpy_scalars(ib: Any, far_pair: Pair) -> None:
    a, b = far_pair()
    source = np.full(16, 7, dtype="uint8")
    with a.pd.reg_mr(np.uint64(source.ctypes.data), np.int64(16), ib.AccessFlags.LOCAL_WRITE) as mine:
        wr = a.send_wr(
            sg_list=[ib.SGE(np.uint64(mine.addr), np.int32(16), mine.lkey)], opcode=ib.WROpcode.RDMA_WRITE,
            remote_addr=np.uint64(b.mr.addr), rkey=b.mr.rkey,
        )  # fmt: skip
        a.do(wr)
    assert b.buf[0:16] == bytes([7]) * 16


def test_the_region_keeps_the_array(ib: Any, pd: Any) -> None:
    array = np.zeros(1000, dtype="float32")
    alive = weakref.ref(array)
    mr = ib.reg_tensor(pd, array, ib.AccessFlags.LOCAL_WRITE)
    assert mr.owner is array
    del array
    gc.collect()
    assert alive() is not None
    mr.close()
    gc.collect()
    assert alive() is None


def test_an_array_in_pieces_is_refused(ib: Any, pd: Any) -> None:
    array = np.zeros((8, 8))
    with pytest.raises(ValueError):
        ib.reg_tensor(pd, array[:, ::2], ib.AccessFlags.LOCAL_WRITE)


def test_read_only_memory_is_refused_for_writing(ib: Any, pd: Any) -> None:
    array = np.zeros(1000)
    array.flags.writeable = False
    with pytest.raises(ValueError):
        ib.reg_tensor(pd, array, ib.AccessFlags.LOCAL_WRITE)
    with ib.reg_tensor(pd, array, ib.AccessFlags.REMOTE_READ) as mr:
        assert mr.length == 8000
