# SPDX-License-Identifier: BSD-3-Clause
"""Random sequences of operations between two queue pairs leave both memories as a model in Python says."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from endpoints import SIGNALED, Endpoint, Pair
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = [pytest.mark.needs("rc", "atomics"), pytest.mark.only("ibverbs")]

SIZE = 600
MASK = 2**64 - 1

#: Each operation names who acts; offsets and lengths are cut to fit when it is carried out.
span = st.tuples(st.integers(0, SIZE - 1), st.integers(0, SIZE - 1), st.integers(0, 200))
cuts = st.lists(st.integers(1, 60), max_size=3)
word = st.integers(0, SIZE // 8 - 1)
value = st.one_of(st.integers(0, MASK), st.sampled_from([0, 1, MASK, 1 << 63]))
operation = st.one_of(
    st.tuples(st.sampled_from(["write", "read", "send", "write_imm"]), st.booleans(), span, cuts),
    st.tuples(st.just("add"), st.booleans(), word, word, value),
    st.tuples(st.just("swap"), st.booleans(), word, word, value, value, st.booleans()),
)
quick = settings(
    max_examples=20, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def pieces(end: Endpoint, offset: int, length: int, at: list[int]) -> list[Any]:
    """A range as a list of up to four scatter/gather entries."""
    out = []
    for cut in at:
        if 0 < cut < length:
            out.append(end.mr.sge(cut, offset))
            offset, length = offset + cut, length - cut
    if length:
        out.append(end.mr.sge(length, offset))
    return out


class Model:
    """What the two memories should hold."""

    def __init__(self, a: Endpoint, b: Endpoint) -> None:
        self.ends = a, b
        self.memory = [bytearray(a.buf.fill(1)), bytearray(b.buf.fill(128))]

    def sides(self, first: bool) -> tuple[Endpoint, Endpoint, bytearray, bytearray]:
        i = 0 if first else 1
        return self.ends[i], self.ends[1 - i], self.memory[i], self.memory[1 - i]

    def get(self, memory: bytearray, index: int) -> int:
        return int.from_bytes(memory[8 * index : 8 * index + 8], sys.byteorder)

    def put(self, memory: bytearray, index: int, number: int) -> None:
        memory[8 * index : 8 * index + 8] = number.to_bytes(8, sys.byteorder)

    def check(self) -> None:
        for end, memory in zip(self.ends, self.memory):
            assert end.buf[:] == memory


def carry_out(ib: Any, model: Model, op: tuple[Any, ...]) -> None:
    kind, first = op[:2]
    me, peer, mine, theirs = model.sides(first)
    if kind == "add":
        _, _, here, there, addend = op
        old = model.get(theirs, there)
        me.do(me.fetch_add_wr(peer, addend, 8 * here, 8 * there))
        model.put(theirs, there, (old + addend) & MASK)
        model.put(mine, here, old)
    elif kind == "swap":
        _, _, here, there, compare, swap, hit = op
        old = model.get(theirs, there)
        me.do(me.cmp_swp_wr(peer, old if hit else compare, swap, 8 * here, 8 * there))
        if hit or old == compare:
            model.put(theirs, there, swap)
        model.put(mine, here, old)
    else:
        _, _, (here, there, length), at = op
        move(ib, me, peer, mine, theirs, kind, here, there, length, at)


def move(
    ib: Any, me: Endpoint, peer: Endpoint, mine: bytearray, theirs: bytearray,
    kind: str, here: int, there: int, length: int, at: list[int],
) -> None:  # fmt: skip
    length = min(length, SIZE - here, SIZE - there)
    local = pieces(me, here, length, at)
    if kind == "read":
        me.do(me.read_wr(peer, sg_list=local, src=there))
        mine[here : here + length] = theirs[there : there + length]
        return
    if kind == "write":
        me.do(me.write_wr(peer, sg_list=local, dst=there))
    elif kind == "write_imm":
        peer.qp.post_recv(ib.RecvWR(7))
        me.do(me.rdma_wr(ib.WROpcode.RDMA_WRITE_WITH_IMM, peer, sg_list=local, dst=there, imm_data=length))
        (got,) = peer.received()
        assert (got.wr_id, got.byte_len, got.imm_data) == (7, length, length)
    else:
        peer.qp.post_recv(ib.RecvWR(8, pieces(peer, there, length, at[::-1])))
        me.do(me.send_wr(sg_list=local))
        (got,) = peer.received()
        assert (got.wr_id, got.byte_len) == (8, length)
    theirs[there : there + length] = mine[here : here + length]


def test_one_after_the_other(ib: Any, rc_pair: Pair) -> None:
    a, b = rc_pair(size=SIZE)

    @quick
    @given(st.lists(operation, min_size=1, max_size=12))
    def run(operations: list[tuple[Any, ...]]) -> None:
        model = Model(a, b)
        for op in operations:
            carry_out(ib, model, op)
        model.check()

    run()


def test_a_batch_takes_effect_in_order(ib: Any, rc_pair: Pair) -> None:
    """Writes that overlap, and sends between them, posted in one call: later ones lie on top."""
    a, b = rc_pair(size=SIZE)

    @quick
    @given(st.lists(st.tuples(st.booleans(), span, cuts), min_size=1, max_size=24))
    def run(batch: list[tuple[bool, tuple[int, int, int], list[int]]]) -> None:
        model = Model(a, b)
        wrs, receives = [], []
        for i, (is_send, (here, there, length), at) in enumerate(batch):
            length = min(length, SIZE - here, SIZE - there)
            local, flags = pieces(a, here, length, at), SIGNALED if i == len(batch) - 1 else 0
            if is_send:
                receives.append(ib.RecvWR(i, pieces(b, there, length, at)))
                wrs.append(a.send_wr(sg_list=local, wr_id=i, send_flags=flags))
            else:
                wrs.append(a.write_wr(b, sg_list=local, dst=there, wr_id=i, send_flags=flags))
            model.memory[1][there : there + length] = model.memory[0][here : here + length]
        b.qp.post_recv(receives)
        assert a.do(wrs)[0].wr_id == len(batch) - 1
        if receives:
            assert [wc.wr_id for wc in b.received(len(receives))] == [r.wr_id for r in receives]
        model.check()

    run()
