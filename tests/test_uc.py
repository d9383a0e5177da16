# SPDX-License-Identifier: BSD-3-Clause
"""Unreliable connections: sends and writes arrive, nothing is acknowledged, what does not fit is dropped."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from endpoints import Pair, expect_none, poll_for

pytestmark = [pytest.mark.needs("uc"), pytest.mark.only("ibverbs")]


def test_send_delivers_the_bytes(ib: Any, uc_pair: Pair) -> None:
    a, b = uc_pair()
    sent = a.buf.fill(1)
    b.post_recv(6000, offset=3, wr_id=8)
    (done,) = a.do(a.send_wr(5000, offset=2))
    (got,) = b.received()
    assert b.buf[3:5003] == sent[2:5002]
    assert (got.wr_id, got.opcode, got.byte_len) == (8, ib.WCOpcode.RECV, 5000)
    assert done.opcode == ib.WCOpcode.SEND


def test_send_with_immediate(ib: Any, uc_pair: Pair) -> None:
    a, b = uc_pair()
    b.post_recv()
    a.do(a.send_wr(4, opcode=ib.WROpcode.SEND_WITH_IMM, imm_data=0xCAFEBABE))
    (got,) = b.received()
    assert got.imm_data == 0xCAFEBABE and got.wc_flags & ib.WCFlags.WITH_IMM


def test_write_changes_the_bytes_named(uc_pair: Pair) -> None:
    a, b = uc_pair()
    sent = a.buf.fill(1)
    a.do(a.write_wr(b, 5000, src=1, dst=77))
    b.post_recv(0)
    a.do(a.send_wr(0))  # a write has no completion there; a send after it has
    b.received()
    assert b.buf[77:5077] == sent[1:5001] and not any(b.buf[:77])


def test_write_with_immediate(ib: Any, uc_pair: Pair) -> None:
    a, b = uc_pair()
    sent = a.buf.fill(1)
    b.post_recv(0, wr_id=4)
    a.do(a.rdma_wr(ib.WROpcode.RDMA_WRITE_WITH_IMM, b, 100, 0, 9, imm_data=5))
    (got,) = b.received()
    assert (got.wr_id, got.opcode, got.byte_len, got.imm_data) == (4, ib.WCOpcode.RECV_RDMA_WITH_IMM, 100, 5)
    assert b.buf[9:109] == sent[:100]


def test_a_send_without_a_receive_is_dropped_and_succeeds(ib: Any, uc_pair: Pair) -> None:
    a, b = uc_pair()
    a.do(a.send_wr(4))
    expect_none(b.recv_cq)
    assert a.qp.state == b.qp.state == ib.QPState.RTS


def test_a_write_with_a_bad_key_is_dropped_and_succeeds(ib: Any, uc_pair: Pair) -> None:
    a, b = uc_pair()
    before = b.buf.fill(1)
    a.do(a.write_wr(b, rkey=b.mr.rkey ^ 0x5A5A00))
    expect_none(b.recv_cq)
    assert b.buf[:] == before
    assert a.qp.state == ib.QPState.RTS


@pytest.mark.parametrize("kind", ["read", "fetch_add"])
def test_what_needs_an_answer_is_refused(ib: Any, uc_pair: Pair, kind: str) -> None:
    a, b = uc_pair()
    before = b.buf.fill(1)
    wr = a.read_wr(b) if kind == "read" else a.fetch_add_wr(b, 1)
    try:
        a.qp.post_send(wr)
    except (ib.VerbsError, ValueError) as error:
        assert isinstance(error, ValueError) or error.errno == errno.EINVAL
    else:
        (wc,) = poll_for(a.send_cq, 1)
        # rxe: 6.1 says LOC_QP_OP_ERR, 7.3 WR_FLUSH_ERR for every error that the requester finds
        assert wc.status in (ib.WCStatus.LOC_QP_OP_ERR, ib.WCStatus.WR_FLUSH_ERR)
    assert b.buf[:] == before


def test_query_shows_the_type(ib: Any, uc_pair: Pair) -> None:
    a, b = uc_pair()
    assert a.qp.qp_type == ib.QPType.UC
    attr, _ = a.qp.query()
    assert attr["qp_state"] == ib.QPState.RTS and attr["dest_qp_num"] == b.qp.qp_num
