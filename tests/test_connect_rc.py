# SPDX-License-Identifier: BSD-3-Clause
"""The rules of connect_rc, on a queue pair that only writes down what it is told, and two orders of states that need
a device."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import pytest
from endpoints import Make, all_access, poll_for

pytestmark = pytest.mark.only("ibverbs")

ibverbs = pytest.importorskip("ibverbs")
connect_rc: Any = ibverbs.connect_rc  # which is given things that only look like queue pairs

UNSPECIFIED, INFINIBAND, ETHERNET = 0, 1, 2
LINK_LOCAL = bytes.fromhex("fe80000000000000")
OTHER_SUBNET = bytes.fromhex("fec0000000000001")


class Context:
    name = "rdma7"

    def __init__(self, **port: Any) -> None:
        self.port = {"link_layer": ETHERNET, "flags": 0, "active_mtu": 5, "lid": 0, **port}
        self.asked: list[Any] = []

    def query_port(self, port_num: int) -> Any:
        self.asked.append(("port", port_num))
        return SimpleNamespace(**self.port)

    def query_gid(self, port_num: int, index: int) -> Any:
        self.asked.append(("gid", port_num, index))
        return ibverbs.Gid(LINK_LOCAL + bytes(7) + b"\1")

    def query_device(self) -> Any:
        self.asked.append("device")
        return SimpleNamespace(max_qp_rd_atom=16, max_qp_init_rd_atom=8)


class QP:
    """Takes down each call under the names of the parameters that the real class lists."""

    srq: Any = None

    def __init__(self, **port: Any) -> None:
        self.pd = SimpleNamespace(context=Context(**port))
        self.calls: list[str] = []
        self.arguments: dict[str, dict[str, Any]] = {}

    def _note(self, name: str, *args: Any, **kwargs: Any) -> None:
        self.calls.append(name)
        bound = inspect.signature(getattr(ibverbs.QP, name)).bind(self, *args, **kwargs)
        bound.apply_defaults()
        self.arguments[name] = bound.arguments

    def to_init(self, *args: Any, **kwargs: Any) -> None:
        self._note("to_init", *args, **kwargs)

    def post_recv(self, wrs: Any) -> None:
        wrs = list(wrs)
        if wrs:
            self.calls.append("post_recv")
            self.posted = wrs

    def to_rtr(self, *args: Any, **kwargs: Any) -> None:
        self._note("to_rtr", *args, **kwargs)

    def to_rts(self, *args: Any, **kwargs: Any) -> None:
        self._note("to_rts", *args, **kwargs)


def peer(prefix: bytes = LINK_LOCAL, **changes: Any) -> Any:
    return ibverbs.QPInfo(
        **{"qp_num": 5, "psn": 6, "lid": 0, "gid": prefix + bytes(7) + b"\2", "port": 1, "mtu": 3, **changes}
    )


def connect(qp: QP, remote: Any = None, **changes: Any) -> dict[str, dict[str, Any]]:
    remote = peer() if remote is None else remote
    assert connect_rc(qp, remote, **{"port": 1, "sgid_index": 0, "access": 7, **changes}) is None
    return qp.arguments


def test_it_goes_through_the_states_in_order() -> None:
    qp = QP()
    remote = peer()
    told = connect(qp, remote, port=2, sgid_index=3, access=9, local_psn=77)
    assert qp.calls == ["to_init", "to_rtr", "to_rts"]
    assert (told["to_init"]["port"], told["to_init"]["access"]) == (2, 9)
    assert told["to_rtr"]["remote"] is remote and told["to_rtr"]["sgid_index"] == 3
    assert told["to_rts"]["psn"] == 77
    assert ("port", 2) in qp.pd.context.asked


def test_the_defaults_are_those_of_the_methods() -> None:
    told = connect(QP())
    assert (told["to_rtr"]["min_rnr_timer"], told["to_rtr"]["max_dest_rd_atomic"]) == (12, 1)
    assert (told["to_rtr"]["sl"], told["to_rtr"]["traffic_class"]) == (0, 0)
    assert {k: v for k, v in told["to_rts"].items() if k not in ("self", "psn")} == {
        "timeout": 14, "retry_cnt": 7, "rnr_retry": 7, "max_rd_atomic": 1,
    }  # fmt: skip
    assert told["to_rts"]["psn"] == 0


# ---- the MTU -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ours", "theirs", "used"), [(5, 3, 3), (3, 5, 3), (4, 4, 4)])
def test_the_mtu_is_the_smaller_of_both_ports(ours: int, theirs: int, used: int) -> None:
    assert connect(QP(active_mtu=ours), peer(mtu=theirs))["to_rtr"]["mtu"] == used


def test_a_given_mtu_is_used() -> None:
    assert connect(QP(active_mtu=5), peer(mtu=3), mtu=1)["to_rtr"]["mtu"] == 1


# ---- the address vector --------------------------------------------------------------------------------------------


def routed(qp: QP, remote: Any, **changes: Any) -> bool:
    return bool(connect(qp, remote, **changes)["to_rtr"]["is_global"])


@pytest.mark.parametrize("lid", [0, 9])
@pytest.mark.parametrize("prefix", [LINK_LOCAL, OTHER_SUBNET])
def test_ethernet_always_has_a_global_header(lid: int, prefix: bytes) -> None:
    assert routed(QP(link_layer=ETHERNET), peer(prefix, lid=lid))


@pytest.mark.parametrize("layer", [INFINIBAND, UNSPECIFIED])
def test_infiniband_within_a_subnet_goes_by_lid(layer: int) -> None:
    qp = QP(link_layer=layer, lid=1)
    assert not routed(qp, peer(lid=9), sgid_index=2)
    assert ("gid", 1, 2) in qp.pd.context.asked


def test_infiniband_between_subnets_has_a_global_header() -> None:
    assert routed(QP(link_layer=INFINIBAND, lid=1), peer(OTHER_SUBNET, lid=9))


def test_infiniband_to_a_peer_without_a_lid_has_a_global_header() -> None:
    assert routed(QP(link_layer=INFINIBAND, lid=1), peer(lid=0))


def test_infiniband_has_a_global_header_where_the_port_demands_it() -> None:
    assert routed(QP(link_layer=INFINIBAND, lid=1, flags=1), peer(lid=9))


@pytest.mark.parametrize("choice", [True, False])
@pytest.mark.parametrize("layer", [INFINIBAND, ETHERNET])
def test_a_given_choice_of_header_is_used(layer: int, choice: bool) -> None:
    for remote in (peer(lid=9), peer(OTHER_SUBNET, lid=0)):
        assert routed(QP(link_layer=layer), remote, is_global=choice) is choice


def test_a_global_route_has_64_hops_and_a_local_one_has_1() -> None:
    assert connect(QP())["to_rtr"]["hop_limit"] == 64
    assert connect(QP(link_layer=INFINIBAND), peer(OTHER_SUBNET, lid=9))["to_rtr"]["hop_limit"] == 64
    assert connect(QP(link_layer=INFINIBAND), peer(lid=9))["to_rtr"]["hop_limit"] == 1
    assert connect(QP(link_layer=INFINIBAND), peer(lid=9), is_global=True)["to_rtr"]["hop_limit"] == 64


def test_a_given_hop_limit_is_used() -> None:
    assert connect(QP(), hop_limit=3)["to_rtr"]["hop_limit"] == 3


# ---- depths and timers ---------------------------------------------------------------------------------------------


def test_depths_up_to_the_limits_of_the_device_are_used() -> None:
    told = connect(QP(), max_dest_rd_atomic=16, max_rd_atomic=8)
    assert told["to_rtr"]["max_dest_rd_atomic"] == 16 and told["to_rts"]["max_rd_atomic"] == 8


@pytest.mark.parametrize(
    ("name", "depth", "limit"),
    [("max_dest_rd_atomic", 17, 16), ("max_rd_atomic", 9, 8), ("max_dest_rd_atomic", -1, 16), ("max_rd_atomic", -1, 8)],
)
def test_a_depth_that_the_device_lacks_names_the_limit_and_touches_nothing(name: str, depth: int, limit: int) -> None:
    qp = QP()
    with pytest.raises(ValueError, match=f"{name} must be between 0 and {limit}.* of device rdma7, got {depth}"):
        connect(qp, **{name: depth})
    assert not qp.calls


def test_the_device_is_not_asked_about_depths_that_nobody_gave() -> None:
    qp = QP()
    connect(qp)
    assert "device" not in qp.pd.context.asked


def test_timers_and_retries_reach_their_methods() -> None:
    told = connect(QP(), min_rnr_timer=1, timeout=10, retry_cnt=3, rnr_retry=2)
    assert told["to_rtr"]["min_rnr_timer"] == 1
    assert [told["to_rts"][n] for n in ("timeout", "retry_cnt", "rnr_retry")] == [10, 3, 2]


# ---- mistakes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["psn", "qkey", "time_out", "sl", "remote_psn"])
def test_another_keyword_is_a_type_error_before_anything_is_touched(name: str) -> None:
    qp = QP()
    with pytest.raises(TypeError, match=name):
        connect(qp, **{name: 1})
    assert not qp.calls and not qp.pd.context.asked


@pytest.mark.parametrize(
    ("name", "value"),
    [("sgid_index", 256), ("access", -1), ("local_psn", 1 << 24), ("min_rnr_timer", 32), ("hop_limit", 256), ("mtu", 0),
     ("mtu", 6), ("timeout", 32), ("retry_cnt", 8), ("rnr_retry", -1), ("max_rd_atomic", 300),
     ("max_dest_rd_atomic", 300)],
)  # fmt: skip
def test_a_value_out_of_range_is_a_range_error_before_anything_is_touched(name: str, value: int) -> None:
    qp = QP()
    with pytest.raises(ibverbs.RangeError, match=f"^{name} must be between .* got {value}$"):
        connect(qp, **{name: value})
    with pytest.raises(TypeError, match=f"^{name} must be an integer, not str"):
        connect(qp, **{name: "1"})
    assert not qp.calls


def test_so_is_a_peer_whose_mtu_is_none() -> None:
    qp = QP()
    with pytest.raises(ibverbs.RangeError, match="remote.mtu must be between 1 and 5, got 0"):
        connect(qp, SimpleNamespace(qp_num=1, psn=2, lid=0, gid=bytes(16), mtu=0))
    assert not qp.calls


@pytest.mark.parametrize("remote", [b"x" * 28, SimpleNamespace(qp_num=1), 5])
def test_a_peer_of_another_type_is_a_type_error_before_anything_is_touched(remote: Any) -> None:
    qp = QP()
    with pytest.raises(TypeError, match="QPInfo"):
        connect(qp, remote)
    assert not qp.calls


@pytest.mark.parametrize(
    "wrong", [{"gid": 2**40}, {"gid": None}, {"gid": "x" * 16}, {"gid": bytes(15)}, {"qp_num": 2**24}, {"psn": -1},
              {"lid": 2**16}, {"lid": "1"}],
    ids=str,
)  # fmt: skip
def test_what_is_wrong_with_a_peer_is_said_by_name_before_anything_is_touched(wrong: dict[str, Any]) -> None:
    qp = QP(link_layer=INFINIBAND, lid=1)
    remote = SimpleNamespace(**{"qp_num": 1, "psn": 2, "lid": 3, "gid": bytes(16), "mtu": 2, **wrong})
    with pytest.raises((TypeError, ValueError), match=f"remote.{next(iter(wrong))} must"):
        connect(qp, remote)
    assert not qp.calls and not qp.pd.context.asked


def test_any_object_with_the_attributes_is_a_peer() -> None:
    remote = SimpleNamespace(qp_num=1, psn=2, lid=0, gid=bytearray(16), mtu=2)
    assert connect(QP(), remote)["to_rtr"]["remote"] is remote


@pytest.mark.parametrize("missing", ["port", "sgid_index", "access"])
def test_what_has_no_default_must_be_given(missing: str) -> None:
    arguments = {"port": 1, "sgid_index": 0, "access": 0}
    del arguments[missing]
    with pytest.raises(TypeError, match=missing):
        connect_rc(QP(), peer(), **arguments)


def test_options_are_given_by_keyword_only() -> None:
    with pytest.raises(TypeError):
        connect_rc(QP(), peer(), 1, 0, 7)


def test_what_a_query_raises_comes_through_before_anything_is_touched() -> None:
    qp = QP()
    qp.pd.context.query_port = lambda port: (_ for _ in ()).throw(OSError(22, "no such port"))
    with pytest.raises(OSError):
        connect(qp)
    assert not qp.calls


# ---- receives ------------------------------------------------------------------------------------------------------


def test_receives_are_posted_between_init_and_rtr() -> None:
    qp = QP()
    wrs = [ibverbs.RecvWR(i) for i in range(3)]
    connect(qp, recv=iter(wrs))
    assert qp.calls == ["to_init", "post_recv", "to_rtr", "to_rts"]
    assert qp.posted == wrs


def test_they_go_to_the_shared_queue_where_there_is_one() -> None:
    qp, srq = QP(), QP()
    qp.srq = srq
    connect(qp, recv=[ibverbs.RecvWR(1)])
    assert srq.calls == ["post_recv"] and "post_recv" not in qp.calls


def test_a_refused_receive_leaves_the_queue_pair_before_the_peer_can_reach_it() -> None:
    qp = QP()
    qp.post_recv = lambda wrs: (_ for _ in ()).throw(ValueError("too many entries"))  # type: ignore[method-assign]
    with pytest.raises(ValueError):
        connect(qp, recv=[ibverbs.RecvWR(1)])
    assert qp.calls == ["to_init"]


# ---- other states to begin in --------------------------------------------------------------------------------------


def info_of(end: Any) -> Any:
    return ibverbs.local_qp_info(end.qp, end.node.port_attr, end.node.gid, port=end.node.port)


def connect_end(end: Any, to: Any, **options: Any) -> None:
    index = end.node.gid_index
    connect_rc(end.qp, info_of(to), port=end.node.port, sgid_index=index, access=all_access(ibverbs), **options)


@pytest.mark.needs("rc")
def test_receives_posted_in_init_are_there_for_the_first_send(make: Make) -> None:
    a, b = make(), make()
    b.qp.to_init(b.node.port, all_access(ibverbs))
    b.qp.post_recv(ibverbs.RecvWR(7, [b.mr.sge(16)]))
    connect_end(b, a)
    connect_end(a, b)
    a.buf[0:5] = b"first"
    a.qp.post_send(ibverbs.SendWR(1, [a.mr.sge(5)], ibverbs.WROpcode.SEND, ibverbs.SendFlags.SIGNALED))
    assert poll_for(a.send_cq, 1)[0].is_success
    assert poll_for(b.recv_cq, 1)[0].wr_id == 7
    assert b.buf[0:5] == b"first"


@pytest.mark.needs("rc")
@pytest.mark.parametrize("shared", [pytest.param(True, marks=pytest.mark.needs("srq")), False])
def test_a_peer_that_is_ahead_finds_the_receives_of_connect_rc(make: Make, shared: bool) -> None:
    """The first send is under way before the other end is connected; it never finds a queue pair without receives."""
    a, b = make(), make(with_srq=shared)
    connect_end(a, b, timeout=16, rnr_retry=0)
    a.buf[0:5] = b"first"
    a.qp.post_send([a.send_wr(5, wr_id=i) for i in range(3)])
    connect_end(b, a, recv=[b.recv_wr(16, 64 * i, wr_id=10 + i) for i in range(3)])
    assert [wc.wr_id for wc in b.received(3)] == [10, 11, 12]
    assert len(a.sent(3)) == 3
    assert b.buf[0:5] == b.buf[64:69] == b.buf[128:133] == b"first"


@pytest.mark.needs("rc")
def test_one_receive_needs_no_list(make: Make) -> None:
    a, b = make(), make()
    connect_end(b, a, recv=b.recv_wr(wr_id=3))
    connect_end(a, b)
    a.do(a.send_wr())
    assert b.received()[0].wr_id == 3


@pytest.mark.needs("rc")
def test_it_goes_on_from_init_after_a_refused_receive(ib: Any, make: Make) -> None:
    a, b = make(), make(sges=1)
    most = b.qp.query()[1].max_recv_sge
    with pytest.raises(ValueError, match="sg_list"):
        connect_end(b, a, recv=[ib.RecvWR(1, [b.mr.sge(1)] * (most + 1))])
    assert b.qp.state == ib.QPState.INIT
    connect_end(b, a, recv=[b.recv_wr(wr_id=4)])
    connect_end(a, b)
    a.do(a.send_wr())
    assert b.received()[0].wr_id == 4


@pytest.mark.needs("rc")
def test_a_connected_queue_pair_has_to_be_reset_first(make: Make) -> None:
    a, b = make(), make()
    for _ in range(2):
        connect_end(a, b)
        connect_end(b, a)
        a.qp.post_send(ibverbs.SendWR(
            1, [a.mr.sge(5)], ibverbs.WROpcode.RDMA_WRITE, ibverbs.SendFlags.SIGNALED, b.mr.addr, b.mr.rkey
        ))  # fmt: skip
        assert poll_for(a.send_cq, 1)[0].is_success
        with pytest.raises(ibverbs.VerbsError, match="from RTS to INIT"):
            connect_end(a, b)
        for end in (a, b):
            end.qp.modify(ibverbs.QPAttrMask.STATE, qp_state=ibverbs.QPState.RESET)
