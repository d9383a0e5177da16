# SPDX-License-Identifier: BSD-3-Clause
"""Fetch-and-add and compare-and-swap: the value that was there comes back, the right one stays."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from endpoints import Pair, poll_for

pytestmark = [pytest.mark.needs("rc", "atomics"), pytest.mark.only("ibverbs")]

MAX = 2**64 - 1
THERE, BACK = 1024, 64  # offsets: the word at the peer, the answer at home


@pytest.mark.parametrize(
    "start, add",
    [(0, 1), (40, 2), (MAX, 1), (0, MAX), (5, MAX), (1 << 63, 1 << 63), (0x0123456789ABCDEF, 0x1111111111111111)],
)
def test_fetch_and_add_returns_the_old_value_and_wraps(ib: Any, rc_pair: Pair, start: int, add: int) -> None:
    a, b = rc_pair()
    b.buf.set_u64(THERE, start)
    (done,) = a.do(a.fetch_add_wr(b, add, BACK, THERE, wr_id=3))
    assert a.buf.u64(BACK) == start
    assert b.buf.u64(THERE) == (start + add) & MAX
    assert (done.wr_id, done.opcode, done.byte_len) == (3, ib.WCOpcode.FETCH_ADD, 8)


def test_neighbours_are_left_alone(rc_pair: Pair) -> None:
    a, b = rc_pair()
    mine, theirs = a.buf.fill(1), b.buf.fill(2)
    a.do(a.fetch_add_wr(b, 1, BACK, THERE))
    assert a.buf[:BACK] == mine[:BACK] and a.buf[BACK + 8 :] == mine[BACK + 8 :]
    assert b.buf[:THERE] == theirs[:THERE] and b.buf[THERE + 8 :] == theirs[THERE + 8 :]


@pytest.mark.parametrize("value", [0, 1, 1 << 63, MAX, 0x0123456789ABCDEF])
def test_compare_and_swap_stores_when_equal(ib: Any, rc_pair: Pair, value: int) -> None:
    a, b = rc_pair()
    b.buf.set_u64(THERE, value)
    (done,) = a.do(a.cmp_swp_wr(b, value, 0xFEDCBA9876543210, BACK, THERE))
    assert a.buf.u64(BACK) == value
    assert b.buf.u64(THERE) == 0xFEDCBA9876543210
    assert (done.opcode, done.byte_len) == (ib.WCOpcode.COMP_SWAP, 8)


@pytest.mark.parametrize("value, compare", [(7, 8), (0, 1 << 63), (MAX, MAX - 1), (1 << 32, 1)])
def test_compare_and_swap_keeps_when_not_equal(rc_pair: Pair, value: int, compare: int) -> None:
    a, b = rc_pair()
    b.buf.set_u64(THERE, value)
    a.do(a.cmp_swp_wr(b, compare, 99, BACK, THERE))
    assert a.buf.u64(BACK) == value
    assert b.buf.u64(THERE) == value


def test_a_batch_counts_every_one(rc_pair: Pair) -> None:
    a, b = rc_pair(options={"max_rd_atomic": 4, "max_dest_rd_atomic": 4})
    a.do([a.fetch_add_wr(b, 3, 8 * i, THERE, wr_id=i) for i in range(50)], 50)
    assert [a.buf.u64(8 * i) for i in range(50)] == [3 * i for i in range(50)]
    assert b.buf.u64(THERE) == 150


def test_both_sides_count_at_once(rc_pair: Pair) -> None:
    """Both directions at once; each side's word gets what the other adds."""
    a, b = rc_pair()
    for i in range(10):
        a.qp.post_send(a.fetch_add_wr(b, 1, 8 * i, THERE))
        b.qp.post_send(b.fetch_add_wr(a, 1, 8 * i, THERE))
    a.sent(10)
    b.sent(10)
    for end in (a, b):
        assert end.buf.u64(THERE) == 10
        assert [end.buf.u64(8 * i) for i in range(10)] == list(range(10))


def test_a_lock_is_taken_by_one_only(rc_pair: Pair) -> None:
    a, b = rc_pair()
    a.do(a.cmp_swp_wr(b, 0, 1111, BACK, THERE))
    a.do(a.cmp_swp_wr(b, 0, 2222, BACK + 8, THERE))
    assert (a.buf.u64(BACK), a.buf.u64(BACK + 8)) == (0, 1111)
    assert b.buf.u64(THERE) == 1111


@pytest.mark.parametrize("kind", ["fetch_add", "cmp_swp"])
def test_a_word_that_is_not_aligned_is_refused(ib: Any, rc_pair: Pair, kind: str) -> None:
    a, b = rc_pair()
    if kind == "fetch_add":
        wr = a.fetch_add_wr(b, 1, BACK, THERE + 4)
    else:
        wr = a.cmp_swp_wr(b, 0, 1, BACK, THERE + 1)
    try:
        a.qp.post_send(wr)
    except ib.VerbsError as error:  # rxe's provider looks before it posts
        assert error.errno == errno.EINVAL
        assert (error.index, error.posted) == (0, 0)
    else:
        (wc,) = poll_for(a.send_cq, 1)
        assert wc.status in (ib.WCStatus.REM_INV_REQ_ERR, ib.WCStatus.REM_ACCESS_ERR)
    assert not any(b.buf[:])


@pytest.mark.parametrize("field", ["compare_add", "swap"])
def test_operands_have_64_bits(ib: Any, rc_pair: Pair, field: str) -> None:
    a, b = rc_pair()
    with pytest.raises(ib.RangeError) as caught:
        a.rdma_wr(ib.WROpcode.ATOMIC_CMP_AND_SWP, b, 8, **{field: 2**64})
    assert field in str(caught.value)
