# SPDX-License-Identifier: BSD-3-Clause
"""connect_rc and what peers tell each other: defaults, choices, limits, and the way back after an error."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from endpoints import Endpoint, Make, Pair, all_access, connect, poll_for

pytestmark = [pytest.mark.needs("rc"), pytest.mark.only("ibverbs")]


def moves(a: Endpoint, b: Endpoint, word: bytes = b"word") -> None:
    """Bytes go both ways."""
    for one, other in ((a, b), (b, a)):
        one.buf[0 : len(word)] = word
        one.do(one.write_wr(other, len(word), 0, 4096))
        assert other.buf[4096 : 4096 + len(word)] == word


def test_a_connected_queue_pair_is_ready_to_send(ib: Any, rc_pair: Pair) -> None:
    a, b = rc_pair()
    assert a.qp.state == b.qp.state == ib.QPState.RTS
    moves(a, b)


def test_local_info_describes_the_queue_pair(ib: Any, make: Make) -> None:
    end = make()
    port = end.ctx.query_port(end.node.port)
    info = ib.local_qp_info(end.qp, port, end.ctx.query_gid(1, end.node.gid_index), port=end.node.port, psn=5)
    assert (info.qp_num, info.psn, info.lid, info.port) == (end.qp.qp_num, 5, port.lid, end.node.port)
    assert info.gid == end.node.gid and info.mtu == port.active_mtu


def test_info_survives_the_wire(ib: Any, rc_pair: Pair) -> None:
    a, b = rc_pair(connected=False)
    for one, other in ((a, b), (b, a)):
        remote = ib.QPInfo.from_bytes(other.info(psn=9).to_bytes())
        ib.connect_rc(
            one.qp, remote, port=one.node.port, sgid_index=one.node.gid_index, access=all_access(ib), local_psn=9
        )
    moves(a, b)


def test_defaults_are_those_that_are_documented(ib: Any, rc_pair: Pair) -> None:
    a, b = rc_pair()
    attr, _ = a.qp.query()
    want = {"timeout": 14, "retry_cnt": 7, "rnr_retry": 7, "max_rd_atomic": 1, "max_dest_rd_atomic": 1,
            "min_rnr_timer": 12, "sq_psn": 0, "rq_psn": 0, "dest_qp_num": b.qp.qp_num}  # fmt: skip
    assert {name: attr[name] for name in want} == want


def test_options_reach_the_queue_pair(rc_pair: Pair) -> None:
    options = {"timeout": 18, "retry_cnt": 3, "rnr_retry": 2, "max_rd_atomic": 4, "max_dest_rd_atomic": 8,
               "min_rnr_timer": 5, "hop_limit": 3}  # fmt: skip
    a, b = rc_pair(options=options)
    attr, _ = a.qp.query()
    assert {name: attr[name] for name in options if name in attr} == {
        name: value for name, value in options.items() if name in attr
    }
    moves(a, b)


def test_mtu_none_is_the_smaller_of_both(ib: Any, make: Make) -> None:
    a, b = make(), make()
    remote = b.info()
    remote.mtu = 1
    ib.connect_rc(a.qp, remote, port=a.node.port, sgid_index=a.node.gid_index, access=0)
    assert a.qp.query()[0]["path_mtu"] == 1
    remote = a.info()
    remote.mtu = 5
    ib.connect_rc(b.qp, remote, port=b.node.port, sgid_index=b.node.gid_index, access=0)
    assert b.qp.query()[0]["path_mtu"] == b.ctx.query_port(b.node.port).active_mtu


def test_a_given_mtu_is_taken(rc_pair: Pair) -> None:
    a, b = rc_pair(options={"mtu": 2})
    assert a.qp.query()[0]["path_mtu"] == b.qp.query()[0]["path_mtu"] == 2
    moves(a, b, b"w" * 3000)


@pytest.mark.parametrize("option, given", [("max_rd_atomic", 200), ("max_dest_rd_atomic", 250)])
def test_a_depth_over_the_device_is_refused_with_the_limit(
    ib: Any, make: Make, option: str, given: int
) -> None:
    a, b = make(), make()
    most = a.ctx.query_device().max_qp_rd_atom
    if given <= most:
        pytest.skip(f"needs a device with a depth below {given}")
    with pytest.raises((ib.VerbsError, ValueError)) as caught:
        a.connect(b, **{option: given})
    assert option in str(caught.value) and str(most) in str(caught.value)
    if isinstance(caught.value, ib.VerbsError):
        assert caught.value.errno == errno.EINVAL


def test_an_unknown_option_is_a_type_error(make: Make) -> None:
    a, b = make(), make()
    with pytest.raises(TypeError):
        a.connect(b, rnr_retries=3)


def test_access_is_what_the_peer_may_do(ib: Any, make: Make) -> None:
    a, b = make(), make()
    a.connect(b)
    b.connect(a, access=ib.AccessFlags.REMOTE_WRITE)
    a.do(a.write_wr(b))
    a.qp.post_send(a.read_wr(b))
    (wc,) = poll_for(a.send_cq, 1)
    assert wc.status == ib.WCStatus.REM_INV_REQ_ERR


def test_an_unreachable_peer_is_told_at_once(ib: Any, make: Make) -> None:
    """An address of another family than ours cannot be reached from here."""
    a = make()
    if not a.node.is_ethernet:
        pytest.skip("needs a device on Ethernet")
    remote = a.info()
    remote.gid = bytes.fromhex("20010db8000000000000000000000001")
    with pytest.raises(ib.VerbsError) as caught:
        ib.connect_rc(a.qp, remote, port=a.node.port, sgid_index=a.node.gid_index, access=0)
    assert caught.value.errno in (errno.EINVAL, errno.ENETUNREACH, errno.ETIMEDOUT, errno.EHOSTUNREACH)
    assert caught.value.operation == "ibv_modify_qp"


class TestRecovery:
    """Reset and reconnect: the way back after an error, with the same queue pairs."""

    def break_it(self, ib: Any, a: Endpoint, b: Endpoint) -> None:
        a.qp.post_send(a.write_wr(b, rkey=b.mr.rkey ^ 0x5A5A00))
        (wc,) = poll_for(a.send_cq, 1)
        assert wc.status == ib.WCStatus.REM_ACCESS_ERR
        assert a.qp.state == b.qp.state == ib.QPState.ERR

    def test_reset_and_reconnect(self, ib: Any, rc_pair: Pair) -> None:
        a, b = rc_pair()
        for round_ in range(3):
            self.break_it(ib, a, b)
            for end in (a, b):
                end.set_state(ib.QPState.RESET)
                assert end.qp.state == ib.QPState.RESET
            connect(a, b)
            moves(a, b, b"round %d" % round_)

    def test_receives_are_posted_anew(self, ib: Any, rc_pair: Pair) -> None:
        a, b = rc_pair()
        b.post_recv(wr_id=1)
        self.break_it(ib, a, b)
        assert [wc.status for wc in poll_for(b.recv_cq, 1)] == [ib.WCStatus.WR_FLUSH_ERR]
        for end in (a, b):
            end.set_state(ib.QPState.RESET)
        connect(a, b)
        b.post_recv(wr_id=2)
        a.do(a.send_wr(3))
        (got,) = b.received()
        assert (got.wr_id, got.byte_len) == (2, 3)

    def test_a_full_queue_is_empty_after_a_reset(self, ib: Any, make: Make) -> None:
        a, b = make(depth=4), make()
        connect(a, b, rnr_retry=0)
        a.qp.post_send([a.send_wr(wr_id=i) for i in range(4)])
        poll_for(a.send_cq, 4)
        for end in (a, b):
            end.set_state(ib.QPState.RESET)
        connect(a, b)
        a.do([a.write_wr(b, wr_id=i) for i in range(4)], 4)

    def test_one_side_replaced(self, ib: Any, make: Make) -> None:
        a, b = make(), make()
        connect(a, b, timeout=8, retry_cnt=1)
        b.close()
        a.qp.post_send(a.write_wr(a))
        poll_for(a.send_cq, 1)
        assert a.qp.state == ib.QPState.ERR
        c = make()
        a.set_state(ib.QPState.RESET)
        connect(a, c)
        moves(a, c)
