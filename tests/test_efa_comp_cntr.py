# SPDX-License-Identifier: BSD-3-Clause
"""Completion counters: their values, where they lie, what they are attached to, and how long they live."""

from __future__ import annotations

import ctypes
import errno
import gc

import pytest
from stub_fixtures import Rig

pytestmark = [pytest.mark.needs("stub"), pytest.mark.only("efa")]


def test_both_values_are_read_set_and_added_to(rig: Rig) -> None:
    with rig.ctx.create_comp_cntr() as cntr:
        assert (cntr.read(), cntr.read_errors()) == (0, 0)
        cntr.set(2**64 - 2)
        cntr.set_errors(value=7)
        cntr.add(1)
        cntr.add_errors(3)
        assert (cntr.read(), cntr.read_errors()) == (2**64 - 1, 10)
        for method in (cntr.set, cntr.add, cntr.set_errors, cntr.add_errors):
            with pytest.raises(rig.ib.RangeError, match="value"):
                method(2**64)
            with pytest.raises(TypeError):
                method("1")
        assert cntr.context is rig.ctx
    assert cntr.closed and cntr.context is rig.ctx
    with pytest.raises(rig.Error) as caught:
        cntr.read()
    assert caught.value.errno == errno.EBADF and "CompCntr.read" in str(caught.value)


def test_the_values_may_lie_in_memory_of_the_programs(rig: Rig) -> None:
    words = (ctypes.c_uint64 * 2)()
    addr = ctypes.addressof(words)
    with rig.ctx.create_comp_cntr(False, comp_memory=addr, err_memory=addr + 8) as cntr:
        cntr.set(5)
        cntr.set_errors(6)
        assert list(words) == [5, 6]
    with rig.ctx.create_comp_cntr(comp_memory=(3, 4096)) as cntr:  # a dma-buf
        assert cntr.read() == 0
    for wrong in ("x", (1, 2, 3), (-1, 0), (1, 2**64), 2**64):
        with pytest.raises((TypeError, ValueError)):
            rig.ctx.create_comp_cntr(comp_memory=wrong)


def test_a_queue_pair_keeps_its_counters_until_it_is_gone(rig: Rig) -> None:
    ops = rig.ib.CompCntrOps
    qp = rig.make_qp()
    cntr = rig.ctx.create_comp_cntr()
    qp.attach_comp_cntr(cntr, ops.SEND | ops.REMOTE_RDMA_WRITE)
    assert cntr.read() == ops.SEND | ops.REMOTE_RDMA_WRITE  # the stub's way to say what it was asked for
    qp.attach_comp_cntr(cntr=rig.ctx.create_comp_cntr(), ops=ops.RECV)
    del cntr
    gc.collect()
    assert rig.stub.live("comp_cntr") == 2
    qp.close()
    del qp
    gc.collect()
    assert rig.stub.live("comp_cntr") == 0


def test_what_cannot_be_attached_is_refused(rig: Rig) -> None:
    qp, cntr = rig.qp(), rig.ctx.create_comp_cntr()
    for ops in (0, 64, -1):
        with pytest.raises(rig.ib.RangeError, match="ops"):
            qp.attach_comp_cntr(cntr, ops)
    for wrong in (None, rig.cq, 5):
        with pytest.raises(TypeError, match="CompCntr"):
            qp.attach_comp_cntr(wrong, 1)
    with rig.ib.get_efa_device_list()[0].open() as other, other.create_comp_cntr() as foreign:
        with pytest.raises(ValueError, match="another Context"):
            qp.attach_comp_cntr(foreign, 1)
    rig.stub.fail("qp_attach_comp_cntr", errno.EBUSY)
    with pytest.raises(rig.Error, match="ibv_qp_attach_comp_cntr") as caught:
        qp.attach_comp_cntr(cntr, 1)
    assert caught.value.errno == errno.EBUSY
    cntr.close()
    with pytest.raises(rig.Error) as caught:
        qp.attach_comp_cntr(cntr, 1)
    assert caught.value.errno == errno.EBADF


def test_a_context_is_not_closed_under_a_counter(rig: Rig) -> None:
    ctx = rig.ib.get_efa_device_list()[0].open()
    cntr = ctx.create_comp_cntr()
    with pytest.raises(rig.Error, match="1 CompCntr") as caught:
        ctx.close()
    assert caught.value.errno == errno.EBUSY
    cntr.close()
    ctx.close()


@pytest.mark.parametrize("err", [errno.ENOMEM, errno.EINVAL])
def test_a_failure_names_the_verb_and_leaves_nothing(rig: Rig, err: int) -> None:
    rig.stub.fail("efadv_create_comp_cntr", err)
    with pytest.raises(rig.Error, match="efadv_create_comp_cntr") as caught:
        rig.ctx.create_comp_cntr()
    assert caught.value.errno == err and rig.stub.live("comp_cntr") == 0


def test_bytes_are_counted_by_no_library_yet(rig: Rig) -> None:
    with pytest.raises(rig.ib.UnsupportedError, match="efadv_create_comp_cntr.*count_bytes=True"):
        rig.ctx.create_comp_cntr(count_bytes=True)
    assert rig.stub.live("comp_cntr") == 0


def test_a_device_without_counters_says_so(rig: Rig) -> None:
    rig.stub.set_efa_caps(0x3F)
    with rig.ib.get_efa_device_list()[0].open() as ctx:
        with pytest.raises(rig.ib.UnsupportedError, match="no completion counters"):
            ctx.create_comp_cntr()
        assert not rig.ib.capabilities(ctx).comp_cntr
