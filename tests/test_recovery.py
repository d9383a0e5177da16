# SPDX-License-Identifier: BSD-3-Clause
"""The way back: a queue pair that failed, for whatever reason, is reset and connected again, and nothing of its former
life comes up in the new one. docs/recovery.md says how."""

from __future__ import annotations

import errno
import time
from typing import Any, Callable

import pytest
from endpoints import Endpoint, Make, connect, expect_none, poll_for
from place import Node, seconds

pytestmark = [pytest.mark.needs("rc"), pytest.mark.only("ibverbs")]

GID_CHANGE = 18


def drain(end: Endpoint, sends: int, receives: int) -> None:
    """Take the completions of all that is outstanding: in the error state each request has one.

    Those of the sends come first and by themselves: moved to the error state before the peer's answer is there, the
    queue pair would say "flushed" of the request that failed.
    """
    if sends:
        poll_for(end.send_cq, sends)
    if end.qp.state != end.ib.QPState.ERR:
        end.set_state(end.ib.QPState.ERR)
    if receives:
        poll_for(end.recv_cq, receives)


def reconnect(a: Endpoint, b: Endpoint, psn: int, **options: Any) -> None:
    """Both ends begin anew, from other packet numbers than before, with receives where the peer expects them."""
    for end in (a, b):
        end.set_state(end.ib.QPState.RESET)
    a.connect(b, psn=psn, peer_psn=psn + 7, recv=[a.recv_wr(wr_id=900)], **options)
    b.connect(a, psn=psn + 7, peer_psn=psn, recv=[b.recv_wr(wr_id=900)], **options)


def works(a: Endpoint, b: Endpoint) -> None:
    """Both directions, both kinds of transfer, and no completion that nobody waits for."""
    for one, other in ((a, b), (b, a)):
        one.buf[0:5] = b"fresh"
        one.do(one.send_wr(5))
        (wc,) = other.received()
        assert wc.wr_id == 900 and other.buf[0:5] == b"fresh"
        one.do(one.write_wr(other, 5, 0, 128))
        assert other.buf[128:133] == b"fresh"
        assert one.qp.first_error is None
    for end in (a, b):
        expect_none(end.send_cq, 0.01)
        expect_none(end.recv_cq, 0.01)


def wrong_key(a: Endpoint, b: Endpoint) -> int:
    a.qp.post_send([a.write_wr(b, rkey=b.mr.rkey ^ 0x5A5A00), a.write_wr(b), a.write_wr(b)])
    return 3


def no_receive(a: Endpoint, b: Endpoint) -> int:
    a.qp.post_send([a.send_wr(), a.send_wr()])
    return 2


def moved_to_error(a: Endpoint, b: Endpoint) -> int:
    a.set_state(a.ib.QPState.ERR)
    a.qp.post_send([a.write_wr(b), a.write_wr(b)])
    return 2


def peer_in_error(a: Endpoint, b: Endpoint) -> int:
    b.set_state(b.ib.QPState.ERR)
    a.qp.post_send([a.write_wr(b), a.write_wr(b)])
    return 2


@pytest.mark.parametrize("fail", [wrong_key, no_receive, moved_to_error, peer_in_error])
def test_a_queue_pair_works_again_after_a_failure(make: Make, fail: Callable[[Endpoint, Endpoint], int]) -> None:
    a, b = make(), make()
    connect(a, b, timeout=8, retry_cnt=1, rnr_retry=0, min_rnr_timer=1)
    for i in range(3):
        a.post_recv(wr_id=i)
    drain(a, fail(a, b), 3)
    drain(b, 0, 0)
    reconnect(a, b, psn=1000)
    works(a, b)


def test_it_may_happen_again_and_again(make: Make) -> None:
    a, b = make(), make()
    connect(a, b)
    for turn in range(10):
        drain(a, wrong_key(a, b), 0)
        drain(b, 0, 0)
        reconnect(a, b, psn=10_000 * (turn + 1))
        works(a, b)


def test_old_packet_numbers_do_as_well(make: Make) -> None:
    """Within one process nothing of the former connection is under way any more."""
    a, b = make(), make()
    connect(a, b)
    drain(a, wrong_key(a, b), 0)
    for end in (a, b):
        end.set_state(end.ib.QPState.RESET)
    connect(a, b)
    a.do(a.write_wr(b))


def test_one_end_alone_that_begins_anew_is_not_connected(ib: Any, make: Make) -> None:
    """The peer still expects the packet numbers of before, so both have to be reset."""
    a, b = make(), make()
    connect(a, b, timeout=8, retry_cnt=1)
    a.do([a.write_wr(b)] * 3, 3)
    a.set_state(ib.QPState.RESET)
    a.connect(b, psn=5000, timeout=8, retry_cnt=1)
    a.qp.post_send(a.write_wr(b))
    assert poll_for(a.send_cq, 1)[0].status == ib.WCStatus.RETRY_EXC_ERR
    reconnect(a, b, psn=7000)
    works(a, b)


def test_a_new_queue_pair_is_the_other_way_back(ib: Any, make: Make) -> None:
    a, b = make(), make()
    connect(a, b)
    drain(a, wrong_key(a, b), 0)
    number = a.qp.qp_num
    a.qp.close()
    a.qp = a.pd.create_qp(a.init_attr)
    assert a.qp.first_error is None and not a.qp.closed and number
    b.set_state(ib.QPState.RESET)
    connect(a, b)
    a.do(a.write_wr(b))
    a.qp.close()


def test_the_cause_is_at_hand_until_the_reset(ib: Any, make: Make) -> None:
    a, b = make(), make()
    connect(a, b)
    drain(a, wrong_key(a, b), 0)
    assert a.qp.first_error.status == ib.WCStatus.REM_ACCESS_ERR
    a.set_state(ib.QPState.RESET)
    assert a.qp.first_error is None


@pytest.mark.needs("roce")
def test_a_gid_that_moves_is_found_by_its_value(ib: Any, make: Make, node: Node, softrdma_faults: Any) -> None:
    """A port that goes down and up may fill its table in another order; peers know the address, not the index."""
    a, b = make(), make()
    connect(a, b, timeout=8, retry_cnt=1)
    gid = ib.select_gid(a.ctx, node.port).gid
    before = ib.select_gid(a.ctx, node.port, gid=gid).gid_index
    softrdma_faults.set_gid(node.name, before, None)
    softrdma_faults.set_gid(node.name, before + 2, bytes(gid))

    event = a.ctx.get_async_event(timeout=seconds(3))
    assert event is not None and event.event_type == GID_CHANGE and event.port_num == node.port
    after = ib.select_gid(a.ctx, node.port, gid=gid).gid_index
    assert after == before + 2
    for end in (a, b):
        end.set_state(ib.QPState.RESET)
    with pytest.raises(ib.VerbsError, match=f"sgid_index={before} is an empty entry") as caught:
        ib.connect_rc(a.qp, b.info(), port=node.port, sgid_index=before, access=7)
    assert caught.value.errno in (errno.EINVAL, errno.ENODATA)
    port_attr = a.ctx.query_port(node.port)
    for end, peer in ((a, b), (b, a)):  # a from INIT, where the attempt left it
        remote = ib.local_qp_info(peer.qp, port_attr, gid, port=node.port)
        ib.connect_rc(end.qp, remote, port=node.port, sgid_index=after, access=7)
    a.do(a.write_wr(b))


@pytest.mark.parametrize("index_is_wrong", ["link-local", "empty"])
@pytest.mark.needs("roce")
def test_a_wrong_gid_index_is_an_error_at_once(ib: Any, make: Make, node: Node, index_is_wrong: str) -> None:
    """Not a connection that times out later: the state does not change, and what is right connects."""
    a, b = make(), make()
    table = a.ctx.query_gid_table(node.port)
    if index_is_wrong == "empty":
        used = {entry.gid_index for entry in table}
        index = next(i for i in range(256) if i not in used)
    else:
        found = [e.gid_index for e in table if bytes(e.gid)[:2] == b"\xfe\x80"]
        if not found:
            pytest.skip("needs a link-local entry")
        index = found[0]
    start = time.monotonic()
    with pytest.raises(ib.VerbsError, match="sgid_index=|peer's address"):
        ib.connect_rc(a.qp, b.info(), port=node.port, sgid_index=index, access=7)
    assert time.monotonic() - start < seconds(10)
    assert a.qp.state == ib.QPState.INIT
    connect(a, b)
    a.do(a.write_wr(b))
