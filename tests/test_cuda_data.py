# SPDX-License-Identifier: BSD-3-Clause
"""Bytes that travel between GPU memories land where the tensors are and nowhere else, through a real provider."""

from __future__ import annotations

from typing import Any

import pytest
from cuda_control import PAGE, DeviceTensor, Driver
from endpoints import poll_for

MIB = 1 << 20
LOCAL_WRITE = 1
EXPOSED = 5  # LOCAL_WRITE, REMOTE_READ
SIGNALED = 2


@pytest.mark.only("efa")
@pytest.mark.needs("rdma_read")
@pytest.mark.usefixtures("gpu_pd")
@pytest.mark.parametrize(
    ("offset", "length"), [(0, MIB), (5 * PAGE + 257, 100), (MIB - 4, 4), (PAGE - 1, 2 * PAGE + 2)]
)
def test_a_read_fills_the_tensor_and_nothing_around_it(
    cuda: Any, driver: Driver, make: Any, ib: Any, offset: int, length: int
) -> None:
    a, b = make(), make()
    target, source = driver.alloc(MIB), driver.alloc(MIB)
    data = bytes(i * 7 % 251 + 1 for i in range(length))
    driver.view(source + offset, length)[:] = data
    mine, theirs = DeviceTensor(target + offset, length), DeviceTensor(source + offset, length)
    with cuda.register_tensor(a.pd, mine, LOCAL_WRITE) as into, cuda.register_tensor(b.pd, theirs, EXPOSED) as out_of:
        a.connect(b)
        b.connect(a)
        a.qp.post_send(
            ib.SendWR(1, [into.sge()], ib.WROpcode.RDMA_READ, SIGNALED, out_of.addr, out_of.rkey, dest=a.peer)
        )
        a.sent()
        got = bytes(driver.view(target, MIB))
    assert got[offset : offset + length] == data
    assert not any(got[:offset]) and not any(got[offset + length :])


@pytest.mark.only("efa")
@pytest.mark.needs("rdma_read")
@pytest.mark.usefixtures("gpu_pd")
def test_a_read_beyond_the_tensor_is_refused_though_its_page_was_exported(
    cuda: Any, driver: Driver, make: Any, ib: Any
) -> None:
    a, b = make(), make()
    mine, theirs = DeviceTensor(driver.alloc(MIB), MIB), DeviceTensor(driver.alloc(MIB) + 512, 100)
    with cuda.register_tensor(a.pd, mine, LOCAL_WRITE) as into, cuda.register_tensor(b.pd, theirs, EXPOSED) as out_of:
        a.connect(b)
        b.connect(a)
        a.qp.post_send(
            ib.SendWR(1, [into.sge(101)], ib.WROpcode.RDMA_READ, SIGNALED, out_of.addr, out_of.rkey, dest=a.peer)
        )
        (wc,) = poll_for(a.send_cq, 1)
        assert not wc.is_success
