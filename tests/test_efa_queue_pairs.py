# SPDX-License-Identifier: BSD-3-Clause
"""Queue pairs of efa on the stub: what their making asks of the library and what it refuses, and their way to RTS."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from stub_fixtures import RESET, SRD, UD, Rig

pytestmark = [pytest.mark.needs("stub"), pytest.mark.only("efa")]

ALL_OPS = 0b11111


@pytest.mark.parametrize("caps", [0, 1, 1 | 2, 8 | 1])
def test_none_enables_what_type_device_and_library_support(rig: Rig, caps: int) -> None:
    rig.stub.set_efa_caps(caps)
    with rig.device.open() as ctx, ctx.alloc_pd() as pd, ctx.create_cq(8) as cq:
        sends, reads, writes = 4 | 8, 16 if caps & 1 else 0, 1 | 2 if caps & 8 else 0
        with pd.create_qp(rig.ib.QPInitAttr(cq, cq)) as qp:
            assert qp.send_ops_flags == sends | reads | writes
            assert rig.stub.last_qp_init_ex()[0] == sends | reads | writes
        with pd.create_qp(rig.ib.QPInitAttr(cq, cq, qp_type=UD)) as qp:
            assert qp.send_ops_flags == sends


def test_what_is_asked_for_by_name_and_not_there_is_unsupported(rig: Rig) -> None:
    ib = rig.ib
    rig.stub.set_efa_caps(0)
    ops = ib.QPExSendOpsFlags
    with rig.device.open() as ctx, ctx.alloc_pd() as pd, ctx.create_cq(8) as cq:
        for options in (
            {"send_ops_flags": ops.RDMA_WRITE}, {"send_ops_flags": ops.SEND | ops.RDMA_READ},
            {"unsolicited_write_recv": True}, {"inline_write": True},
        ):  # fmt: skip
            before = rig.stub.calls("efadv_create_qp_ex")
            with pytest.raises(ib.UnsupportedError, match=f"device {ctx.name} does not have it") as caught:
                pd.create_qp(ib.QPInitAttr(cq, cq, **options))
            assert caught.value.errno == errno.EOPNOTSUPP
            assert rig.stub.live("qp") == 0 and rig.stub.calls("efadv_create_qp_ex") == before


def test_creation_passes_what_was_given(rig: Rig) -> None:
    qp = rig.qp(state=RESET, sl=3, unsolicited_write_recv=True, max_send_wr=9, max_recv_wr=10, max_send_sge=2,
                max_recv_sge=3, max_inline_data=20, sq_sig_all=True)  # fmt: skip
    asked = rig.stub.last_qp_init()
    cap = asked.cap
    assert (cap.max_send_wr, cap.max_recv_wr, cap.max_send_sge, cap.max_recv_sge) == (9, 10, 2, 3)
    assert (cap.max_inline_data, asked.qp_type, asked.sq_sig_all, asked.srq) == (20, 255, 1, 0)
    assert rig.stub.last_qp_init_ex() == (ALL_OPS, 1, 3)
    assert (qp.qp_type, qp.send_cq, qp.recv_cq, qp.pd) == (SRD, rig.cq, rig.cq, rig.pd)


def test_a_queue_pair_without_receive_entries_is_refused(rig: Rig) -> None:
    """libefa divides by their number."""
    before = rig.stub.calls("efadv_create_qp_ex")
    for qp_type in (SRD, UD):
        with pytest.raises(ValueError, match="max_recv_sge"):
            rig.make_qp(qp_type, RESET, max_recv_sge=0)
    assert rig.stub.calls("efadv_create_qp_ex") == before


def test_a_queue_pair_too_deep_for_its_entries_says_so_in_numbers(rig: Rig) -> None:
    with pytest.raises(rig.Error) as caught:
        rig.make_qp(max_recv_wr=20000, max_recv_sge=2)
    words = str(caught.value)
    assert caught.value.errno == errno.EINVAL
    for part in ("max_recv_wr", "20000", "16384", "max_recv_sge"):
        assert part in words, words
    with pytest.raises(rig.Error) as caught:
        rig.make_qp(max_send_wr=4096, max_inline_data=128)
    words = str(caught.value)
    for part in ("max_send_wr", "4096", "2048", "max_inline_data"):
        assert part in words, words


# ---- states --------------------------------------------------------------------------------------------------------


def test_prepare_goes_through_all_states_and_returns_the_queue_pair(rig: Rig) -> None:
    mask = rig.ib.QPAttrMask
    qp = rig.qp(state=RESET)
    steps: list[tuple[int, Any]] = []
    real = rig.stub.calls("modify_qp")
    assert qp.prepare(0x1234, psn=77, rnr_retry=5) is qp
    assert rig.stub.calls("modify_qp") == real + 3
    steps.append(rig.stub.last_modify())
    bits, attr = steps[0]
    assert bits == mask.STATE | mask.SQ_PSN | mask.RNR_RETRY
    assert (attr.qp_state, attr.sq_psn, attr.rnr_retry) == (3, 77, 5)
    values, cap = qp.query()
    assert (values["qp_state"], values["qkey"], values["sq_psn"]) == (3, 0x1234, 77)
    assert (values["port_num"], values["pkey_index"], values["rnr_retry"]) == (1, 0, 5)
    assert cap.max_send_wr == 1024


def test_each_step_sets_what_it_says(rig: Rig) -> None:
    mask = rig.ib.QPAttrMask
    qp = rig.qp(state=RESET)
    qp.to_init(0x99)
    bits, attr = rig.stub.last_modify()
    assert bits == mask.STATE | mask.PKEY_INDEX | mask.PORT | mask.QKEY
    assert (attr.qp_state, attr.qkey, attr.port_num, attr.pkey_index) == (1, 0x99, 1, 0)
    qp.to_rtr()
    assert rig.stub.last_modify()[0] == mask.STATE
    qp.to_rts(5)
    bits, attr = rig.stub.last_modify()
    assert bits == mask.STATE | mask.SQ_PSN and attr.sq_psn == 5
    assert qp.state == 3


@pytest.mark.parametrize("rnr_retry", [-1, 8, 256])
def test_rnr_retry_is_from_0_to_7(rig: Rig, rnr_retry: int) -> None:
    qp = rig.qp(state=RESET)
    with pytest.raises(ValueError, match="rnr_retry"):
        qp.prepare(1, rnr_retry=rnr_retry)
    assert qp.state == RESET, "nothing is half done"


def test_rnr_retry_needs_the_capability(rig: Rig) -> None:
    rig.stub.set_efa_caps(1)
    with rig.device.open() as ctx, ctx.alloc_pd() as pd, ctx.create_cq(8) as cq:
        with pd.create_qp(rig.ib.QPInitAttr(cq, cq)) as qp:
            with pytest.raises(rig.Error) as caught:
                qp.prepare(1, rnr_retry=3)
            assert caught.value.errno == errno.EOPNOTSUPP and qp.state == RESET
            assert qp.prepare(1).state == 3


def test_a_prepare_that_fails_says_which_step_and_can_be_tried_again_from_reset(rig: Rig) -> None:
    for nth in (1, 2, 3):
        qp = rig.qp(state=RESET)
        rig.stub.fail("modify_qp", errno.EIO, nth=nth)
        with pytest.raises(rig.Error) as caught:
            qp.prepare(1)
        assert (caught.value.errno, caught.value.operation) == (errno.EIO, "ibv_modify_qp")
    assert rig.qp(state=RESET).prepare(1).state == 3
