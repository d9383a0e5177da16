# SPDX-License-Identifier: BSD-3-Clause
"""Bytes that travel between GPU memories land where the tensors are and nowhere else, through a real provider."""

from __future__ import annotations

from typing import Any

import pytest
from cuda_control import PAGE, DeviceTensor, Driver

MIB = 1 << 20
LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ = 1, 2, 4


@pytest.mark.only("efa")
@pytest.mark.needs("device", "srd")
@pytest.mark.parametrize(
    ("offset", "length"), [(0, MIB), (5 * PAGE + 257, 100), (MIB - 4, 4), (PAGE - 1, 2 * PAGE + 2)]
)
def test_a_write_fills_the_tensor_and_nothing_around_it(
    cuda: Any, driver: Driver, make: Any, ib: Any, offset: int, length: int
) -> None:
    a, b = make(), make()
    source, target = driver.alloc(MIB), driver.alloc(MIB)
    data = bytes(i * 7 % 251 + 1 for i in range(length))
    driver.view(source + offset, length)[:] = data
    with (
        cuda.register_tensor(a.pd, DeviceTensor(source + offset, length), LOCAL_WRITE) as src,
        cuda.register_tensor(b.pd, DeviceTensor(target + offset, length), LOCAL_WRITE | REMOTE_WRITE) as dst,
    ):
        a.connect(b)
        b.connect(a)
        a.qp.post_send(ib.SendWR(1, [src.sge()], ib.WROpcode.RDMA_WRITE, 2, dst.addr, dst.rkey, dest=a.peer))
        (wc,) = a.poll(1)
        wc.raise_for_status()
        got = bytes(driver.view(target, MIB))
    assert got[offset : offset + length] == data
    assert not any(got[:offset]) and not any(got[offset + length :])
