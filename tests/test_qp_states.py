# SPDX-License-Identifier: BSD-3-Clause
"""Queue pair states: the way up for each type, what query shows of it, and which steps are refused."""

from __future__ import annotations

import errno
import time
from typing import Any, Callable

import pytest
from endpoints import QKEY, RC, UC, UD, Endpoint, Make, all_access, poll_for
from place import seconds

pytestmark = [pytest.mark.needs("device"), pytest.mark.only("ibverbs")]

TYPES = [
    pytest.param(RC, id="RC", marks=pytest.mark.needs("rc")),
    pytest.param(UC, id="UC", marks=pytest.mark.needs("uc")),
    pytest.param(UD, id="UD", marks=pytest.mark.needs("ud")),
]


def up(end: Endpoint, state: str) -> Endpoint:
    """Brings a queue pair, with itself as the peer, from RESET to a state by the shortest way."""
    ways = ["RESET", "INIT", "RTR", "RTS"]
    port, info = end.node.port, end.info(psn=7)
    steps: list[Callable[[], Any]] = [
        lambda: end.qp.to_init(port, qkey=QKEY) if end.qp_type == UD else end.qp.to_init(port, all_access(end.ib)),
        lambda: end.qp.to_rtr(None, 0) if end.qp_type == UD else end.qp.to_rtr(info, end.node.gid_index),
        lambda: end.qp.to_rts(7),
    ]
    if state in ("SQD", "ERR"):
        up(end, "RTS")
        end.set_state(end.ib.QPState[state])
        return end
    for step in steps[: ways.index(state)]:
        step()
    return end


@pytest.mark.parametrize("qp_type", TYPES)
class TestWayUp:
    def test_every_step_is_shown(self, ib: Any, make: Make, qp_type: int) -> None:
        end = make(qp_type)
        seen = []
        for state in ("RESET", "INIT", "RTR", "RTS"):
            if state != "RESET":
                end.set_state(ib.QPState.RESET)
                up(end, state)
            seen.append(end.qp.state)
            assert end.qp.query()[0]["qp_state"] == end.qp.state
        assert seen == [ib.QPState.RESET, ib.QPState.INIT, ib.QPState.RTR, ib.QPState.RTS]
        assert all(type(state) is int for state in seen)

    def test_type_and_number(self, ib: Any, make: Make, qp_type: int) -> None:
        end = make(qp_type)
        assert end.qp.qp_type == qp_type and type(end.qp.qp_type) is int
        assert 0 < end.qp.qp_num < 1 << 24
        assert end.qp.pd is end.pd
        assert end.qp.send_cq is end.send_cq and end.qp.recv_cq is end.recv_cq and end.qp.srq is None

    def test_error_and_back_from_any_state(self, ib: Any, make: Make, qp_type: int) -> None:
        end = make(qp_type)
        for state in ("INIT", "RTR", "RTS"):
            up(end, state)
            end.set_state(ib.QPState.ERR)
            assert end.qp.state == ib.QPState.ERR
            end.set_state(ib.QPState.RESET)
            assert end.qp.state == ib.QPState.RESET

    def test_query_has_every_field(self, make: Make, qp_type: int) -> None:
        attr, cap = up(make(qp_type), "RTS").qp.query()
        assert set(attr) >= {
            "qp_state", "path_mtu", "qkey", "rq_psn", "sq_psn", "dest_qp_num", "qp_access_flags", "port_num",
            "timeout", "retry_cnt", "rnr_retry", "min_rnr_timer", "max_rd_atomic", "max_dest_rd_atomic",
        }  # fmt: skip
        assert cap.max_send_wr >= 64 and cap.max_recv_wr >= 64 and cap.max_send_sge >= 4

    @pytest.mark.parametrize("start, step", [("RESET", "to_rtr"), ("RESET", "to_rts"), ("INIT", "to_rts"),
                                             ("RTR", "to_init"), ("RTS", "to_init"), ("ERR", "to_init"),
                                             ("RTS", "to_rtr"), ("ERR", "to_rts")])  # fmt: skip
    def test_a_wrong_step_is_einval_and_names_the_state(
        self, ib: Any, make: Make, qp_type: int, start: str, step: str
    ) -> None:
        end = up(make(qp_type), start)
        calls: dict[str, Callable[[], Any]] = {
            "to_init": lambda: end.qp.to_init(end.node.port),
            "to_rtr": lambda: end.qp.to_rtr(None if qp_type == UD else end.info(), end.node.gid_index),
            "to_rts": lambda: end.qp.to_rts(0),
        }
        with pytest.raises(ib.VerbsError) as caught:
            calls[step]()
        assert caught.value.errno == errno.EINVAL
        assert caught.value.operation == "ibv_modify_qp"
        assert start in str(caught.value)
        assert end.qp.state == ib.QPState[start]


@pytest.mark.needs("rc")
class TestQuery:
    def test_shows_what_to_init_was_given(self, ib: Any, make: Make) -> None:
        end = make()
        access = ib.AccessFlags.REMOTE_WRITE | ib.AccessFlags.REMOTE_READ
        end.qp.to_init(end.node.port, access)
        attr, _ = end.qp.query()
        assert attr["port_num"] == end.node.port
        assert attr["qp_access_flags"] & all_access(ib) & ~ib.AccessFlags.LOCAL_WRITE == access

    def test_shows_what_to_rtr_was_given(self, ib: Any, make: Make) -> None:
        end = up(make(), "INIT")
        remote = end.info(psn=0x123456)
        end.qp.to_rtr(remote, end.node.gid_index, mtu=1, min_rnr_timer=17, max_dest_rd_atomic=4)
        attr, _ = end.qp.query()
        assert attr["path_mtu"] == 1
        assert attr["rq_psn"] == 0x123456
        assert attr["dest_qp_num"] == end.qp.qp_num
        assert attr["min_rnr_timer"] == 17
        assert attr["max_dest_rd_atomic"] == 4

    def test_mtu_none_is_that_of_the_peer(self, make: Make) -> None:
        end = up(make(), "INIT")
        remote = end.info()
        remote.mtu = 2
        end.qp.to_rtr(remote, end.node.gid_index)
        assert end.qp.query()[0]["path_mtu"] == 2

    def test_shows_what_to_rts_was_given(self, make: Make) -> None:
        end = up(make(), "RTR")
        end.qp.to_rts(0xABCDEF, timeout=20, retry_cnt=5, rnr_retry=3, max_rd_atomic=8)
        attr, _ = end.qp.query()
        want = {"sq_psn": 0xABCDEF, "timeout": 20, "retry_cnt": 5, "rnr_retry": 3, "max_rd_atomic": 8}
        assert {name: attr[name] for name in want} == want

    def test_depths_are_at_least_those_asked_for(self, make: Make) -> None:
        end = up(make(), "INIT")
        end.qp.to_rtr(end.info(), end.node.gid_index, max_dest_rd_atomic=5)
        end.qp.to_rts(0, max_rd_atomic=5)
        attr, _ = end.qp.query()
        assert attr["max_dest_rd_atomic"] >= 5 and attr["max_rd_atomic"] >= 5

    def test_the_send_number_moves_on_with_the_packets(self, make: Make) -> None:
        end = up(make(), "RTS")
        end.do(end.write_wr(end, 64, 0, 1000))
        assert end.qp.query()[0]["sq_psn"] == 8

    @pytest.mark.needs("ud")
    def test_shows_the_key_of_datagrams(self, make: Make) -> None:
        assert up(make(UD), "RTS").qp.query()[0]["qkey"] == QKEY


@pytest.mark.needs("rc")
class TestModify:
    def test_the_whole_way_by_hand(self, ib: Any, make: Make) -> None:
        end, m = make(), ib.QPAttrMask
        end.qp.modify(
            m.STATE | m.PKEY_INDEX | m.PORT | m.ACCESS_FLAGS,
            qp_state=ib.QPState.INIT,
            pkey_index=0,
            port_num=end.node.port,
            qp_access_flags=all_access(ib),
        )
        end.qp.modify(
            m.STATE | m.AV | m.PATH_MTU | m.DEST_QPN | m.RQ_PSN | m.MAX_DEST_RD_ATOMIC | m.MIN_RNR_TIMER,
            end.ah_attr(end),
            qp_state=ib.QPState.RTR,
            path_mtu=ib.MTU.MTU_1024,
            dest_qp_num=end.qp.qp_num,
            rq_psn=33,
            max_dest_rd_atomic=1,
            min_rnr_timer=12,
        )
        end.qp.modify(
            m.STATE | m.TIMEOUT | m.RETRY_CNT | m.RNR_RETRY | m.SQ_PSN | m.MAX_QP_RD_ATOMIC,
            qp_state=ib.QPState.RTS,
            timeout=14,
            retry_cnt=7,
            rnr_retry=7,
            sq_psn=33,
            max_rd_atomic=1,
        )
        end.buf[0:4] = b"hand"
        end.do(end.write_wr(end, 4, 0, 100))
        assert end.buf[100:104] == b"hand"

    def test_a_missing_attribute_is_einval_and_the_step_is_named(self, ib: Any, make: Make) -> None:
        end, m = make(), ib.QPAttrMask
        with pytest.raises(ib.VerbsError) as caught:
            end.qp.modify(m.STATE | m.PKEY_INDEX | m.PORT, qp_state=ib.QPState.INIT, pkey_index=0, port_num=1)
        assert caught.value.errno == errno.EINVAL
        for word in ("RESET", "INIT", "PKEY_INDEX", "PORT"):
            assert word in str(caught.value)

    def test_a_surplus_attribute_is_einval_and_named(self, ib: Any, make: Make) -> None:
        end, m = make(), ib.QPAttrMask
        with pytest.raises(ib.VerbsError) as caught:
            end.qp.modify(
                m.STATE | m.PKEY_INDEX | m.PORT | m.ACCESS_FLAGS | m.TIMEOUT,
                qp_state=ib.QPState.INIT, pkey_index=0, port_num=1, qp_access_flags=0, timeout=14,
            )  # fmt: skip
        assert caught.value.errno == errno.EINVAL
        assert "TIMEOUT" in str(caught.value)

    def test_a_field_that_does_not_exist_is_a_type_error(self, ib: Any, make: Make) -> None:
        end = make()
        with pytest.raises(TypeError, match="qp_stat"):
            end.qp.modify(ib.QPAttrMask.STATE, qp_stat=ib.QPState.INIT)

    @pytest.mark.parametrize("port", [0, 2, 99])
    def test_a_port_that_is_not_there_is_einval(self, ib: Any, make: Make, port: int) -> None:
        end = make()
        if port <= end.ctx.query_device().phys_port_cnt and port:
            pytest.skip(f"needs a device without port {port}")
        with pytest.raises((ib.VerbsError, ValueError)) as caught:
            end.qp.to_init(port)
        assert isinstance(caught.value, ValueError) or caught.value.errno == errno.EINVAL

    def test_an_empty_gid_index_is_refused(self, ib: Any, make: Make) -> None:
        end = up(make(), "INIT")
        table = min(end.ctx.query_port(end.node.port).gid_tbl_len, 16)
        empty = [i for i in range(table) if not any(bytes(end.ctx.query_gid(end.node.port, i)))]
        if not empty:
            pytest.skip("needs a GID table with an empty entry among the first 16")
        with pytest.raises(ib.VerbsError) as caught:
            end.qp.to_rtr(end.info(), empty[0])
        assert caught.value.errno in (errno.ENODATA, errno.EINVAL)
        assert end.qp.state == ib.QPState.INIT

    def test_access_may_be_changed_while_running(self, ib: Any, rc: tuple[Endpoint, Endpoint]) -> None:
        a, b = rc
        a.do(a.write_wr(b))
        b.qp.modify(ib.QPAttrMask.ACCESS_FLAGS, qp_access_flags=ib.AccessFlags.REMOTE_READ)
        a.do(a.read_wr(b))
        a.qp.post_send(a.write_wr(b))
        (wc,) = poll_for(a.send_cq, 1)
        assert wc.status == ib.WCStatus.REM_INV_REQ_ERR

    def test_draining_and_back(self, ib: Any, make: Make) -> None:
        end = up(make(), "RTS")
        end.set_state(ib.QPState.SQD)
        assert end.qp.state == ib.QPState.SQD
        assert end.ctx.get_async_event(timeout=seconds(5)) is not None  # drained; before that RTS may be refused
        deadline = time.monotonic() + seconds(5)
        while True:
            try:
                end.set_state(ib.QPState.RTS)
                break
            except ib.VerbsError:
                assert time.monotonic() < deadline
                time.sleep(0.005)
        end.buf[0:4] = b"back"
        end.do(end.write_wr(end, 4, 0, 100))
        assert end.buf[100:104] == b"back"

    def test_current_state_is_checked(self, ib: Any, make: Make) -> None:
        end, m = up(make(), "RTS"), ib.QPAttrMask
        with pytest.raises(ib.VerbsError) as caught:
            end.qp.modify(m.STATE | m.CUR_STATE, qp_state=ib.QPState.RTS, cur_qp_state=ib.QPState.INIT)
        assert caught.value.errno == errno.EINVAL


@pytest.mark.needs("rc")
class TestPostingByState:
    def test_receives_may_be_posted_from_init_on(self, make: Make) -> None:
        end = up(make(), "INIT")
        end.post_recv(16, offset=100, wr_id=4)
        end.qp.to_rtr(end.info(), end.node.gid_index)
        end.qp.to_rts(0)
        end.do(end.send_wr(4))
        assert end.received()[0].wr_id == 4

    @pytest.mark.parametrize("state", ["RESET", "INIT", "RTR"])
    def test_sends_before_rts_are_refused(self, ib: Any, make: Make, state: str) -> None:
        end = up(make(), state)
        with pytest.raises(ib.VerbsError) as caught:
            end.qp.post_send(end.write_wr(end))
        assert caught.value.errno == errno.EINVAL
        assert caught.value.operation == "ibv_post_send"
        assert state in str(caught.value)


@pytest.mark.needs("rc")
def test_a_closed_queue_pair_raises_ebadf_and_still_leads_up(ib: Any, make: Make) -> None:
    end = make()
    qp = end.qp
    qp.close()
    qp.close()
    calls = (
        lambda: qp.qp_num, lambda: qp.state, qp.query, lambda: qp.to_init(1), lambda: qp.post_send(end.send_wr()),
        lambda: qp.post_recv(end.recv_wr()), lambda: qp.modify(ib.QPAttrMask.STATE, qp_state=6),
    )  # fmt: skip
    for call in calls:
        with pytest.raises(ib.VerbsError) as caught:
            call()
        assert caught.value.errno == errno.EBADF
    assert qp.pd is end.pd and qp.send_cq is end.send_cq and qp.recv_cq is end.recv_cq and qp.srq is None
