# SPDX-License-Identifier: BSD-3-Clause
"""What libefa tells of devices, regions, handles and queues, on the stub."""

from __future__ import annotations

import ctypes
import errno
from typing import Any, Callable

import pytest
from stub_fixtures import Rig

pytestmark = [pytest.mark.needs("stub"), pytest.mark.only("efa")]


@pytest.fixture
def ah(rig: Rig) -> Any:
    return rig.ah()


def test_what_libefa_tells_of_objects(rig: Rig, ah: Any) -> None:
    ib = rig.ib
    attr = rig.ctx.query_efa_device()
    assert (attr.max_sq_wr, attr.max_rq_wr, attr.max_sq_sge, attr.max_rq_sge) == (4096, 32768, 8, 8)
    assert (attr.inline_buf_size, attr.device_caps, attr.max_rdma_size) == (32, 0x7F, 1 << 31)
    assert attr.device_caps & ib.EfaDeviceCaps.RDMA_WRITE
    assert ah.ahn == ah_handle(ah) & 0xFFFF
    mr = rig.mr.query_efa()
    assert (mr.ic_id_validity, mr.recv_ic_id) == (5, rig.mr.handle & 0xFFFF)
    assert (mr.rdma_read_ic_id, mr.rdma_recv_ic_id) == (0, 3)
    qp = rig.qp(max_send_wr=64, max_recv_wr=32)
    send, receive = qp.query_wqs()
    assert (send.num_entries, send.entry_size, send.max_batch) == (64, 64, 16)
    assert (receive.num_entries, receive.entry_size, receive.max_batch) == (32, 16, 8)
    assert send.buffer_addr and send.doorbell_addr and receive.buffer_addr
    cq = rig.cq.query_efa()
    assert (cq.num_entries, cq.entry_size) == (4096, 16) and cq.buffer_addr


def ah_handle(ah: Any) -> int:
    """The number at its place in struct ibv_ah, behind two pointers."""
    return ctypes.c_uint32.from_address(ah.ptr + 16).value


@pytest.mark.parametrize("err", [errno.EIO, errno.EOPNOTSUPP, -errno.EIO])
def test_what_libefa_refuses_to_tell_is_raised_with_its_name(rig: Rig, err: int, ah: Any) -> None:
    qp = rig.qp()
    acts: dict[str, Callable[[], Any]] = {
        "efadv_query_device": rig.ctx.query_efa_device,
        "efadv_query_ah": lambda: ah.ahn,
        "efadv_query_mr": rig.mr.query_efa,
        "efadv_query_cq": rig.cq.query_efa,
        "efadv_query_qp_wqs": qp.query_wqs,
    }
    for verb, act in acts.items():
        rig.stub.fail(verb, err)
        with pytest.raises(rig.Error) as caught:
            act()
        assert (caught.value.errno, caught.value.operation) == (abs(err), verb)
        act()


def test_devices_that_are_not_efa_are_told_apart(ib: Any, stub: Any) -> None:
    every, ours = ib.get_device_list(), ib.get_efa_device_list()
    assert [d.name for d in every] == ["stub0", "stub1", "stub2"] and [d.name for d in ours] == ["stub2"]
    assert ours[0] == every[2]
    with every[0].open() as other, ours[0].open() as ctx:
        assert not other.is_efa() and ctx.is_efa()
        with pytest.raises(ib.EfaError) as caught:
            other.query_efa_device()
        assert (caught.value.errno, caught.value.operation) == (errno.EOPNOTSUPP, "efadv_query_device")
        with other.alloc_pd() as pd, other.create_cq(4) as cq:
            makers: list[Callable[[], Any]] = [
                lambda: other.create_cq_ex(4),
                lambda: pd.create_qp(ib.QPInitAttr(cq, cq)),
            ]
            for make in makers:
                with pytest.raises(ib.EfaError) as caught:
                    make()
                assert caught.value.errno == errno.EOPNOTSUPP
    assert stub.live_objects() == {}
