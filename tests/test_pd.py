# SPDX-License-Identifier: BSD-3-Clause
"""Protection domains: what they hold, and that they are not closed under it."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from endpoints import Buffer
from packages import error_of
from place import Node

pytestmark = pytest.mark.needs("device")


def test_a_pd_knows_its_context(ctx: Any, pd: Any) -> None:
    assert pd.context is ctx


def test_many_pds_of_one_context_are_distinct(ctx: Any) -> None:
    pds = [ctx.alloc_pd() for _ in range(8)]
    assert len({pd.ptr for pd in pds}) == 8
    for pd in pds:
        pd.close()


def test_close_twice_is_harmless_and_closed_shows(pd: Any) -> None:
    assert not pd.closed
    pd.close()
    pd.close()
    assert pd.closed


def test_a_closed_pd_raises_ebadf_naming_the_method(ib: Any, pd: Any) -> None:
    pd.close()
    with pytest.raises(error_of(ib)) as caught:
        pd.reg_mr(4096, 4096, 0)
    assert caught.value.errno == errno.EBADF
    assert "reg_mr" in str(caught.value) and "PD" in str(caught.value)


def test_the_way_up_works_on_a_closed_pd(ctx: Any, pd: Any) -> None:
    pd.close()
    assert pd.context is ctx


def test_close_is_refused_while_a_region_is_registered(ib: Any, pd: Any) -> None:
    buf = Buffer(4096)
    with pd.reg_mr(buf.addr, 4096, ib.AccessFlags.LOCAL_WRITE):
        with pytest.raises(error_of(ib)) as caught:
            pd.close()
        assert caught.value.errno == errno.EBUSY
        assert "1 MR" in str(caught.value)
    pd.close()


@pytest.mark.only("ibverbs")
@pytest.mark.needs("rc", "srq", "ud")
def test_close_is_refused_with_a_count_of_every_kind(ib: Any, ctx: Any, pd: Any, node: Node) -> None:
    with ctx.create_cq(4) as cq, pd.create_srq(), pd.create_qp(ib.QPInitAttr(cq, cq)) as qp:
        with pd.create_qp(ib.QPInitAttr(cq, cq)):
            with pd.create_ah(ib.AHAttr(dgid=node.gid, sgid_index=node.gid_index, port_num=node.port)):
                with pytest.raises(error_of(ib)) as caught:
                    pd.close()
                message = str(caught.value)
                assert "2 QP" in message and "1 SRQ" in message and "1 AH" in message
        assert qp.pd is pd


def test_a_dropped_pd_does_not_block_its_context(node: Node) -> None:
    ctx = node.open()
    ctx.alloc_pd()
    ctx.close()
