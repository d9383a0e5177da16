# SPDX-License-Identifier: BSD-3-Clause
"""What the library is given when Python posts, modifies and registers: every field, compared with the C structures."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stub_control import QpAttr, SendWr
from stub_fixtures import RC, UC, UD, Rig, examples

u8, u16, u32, u64 = (st.integers(0, 2**bits - 1) for bits in (8, 16, 32, 64))
psn = st.integers(0, 2**24 - 1)

RDMA_WRITE, RDMA_WRITE_WITH_IMM, SEND, SEND_WITH_IMM, RDMA_READ, CMP_SWP, FETCH_ADD = range(7)
SIGNALED, INLINE = 2, 8
OPCODES = {RC: range(7), UC: range(7), UD: (SEND, SEND_WITH_IMM)}

fields = st.fixed_dictionaries(
    {
        "wr_id": u64,
        "remote_addr": u64,
        "rkey": u32,
        "imm_data": u32,
        "compare_add": u64,
        "swap": u64,
        "remote_qpn": psn,
        "remote_qkey": u32,
        "send_flags": st.integers(0, 31).map(lambda bits: bits & ~INLINE),
    }
)
sges = st.lists(st.tuples(u64, u32, u32), max_size=8)


def expected_wr(opcode: int, qp_type: int, f: dict[str, int], ah: int) -> SendWr:
    """struct ibv_send_wr as ibv_post_send(3) describes it, without the pointers."""
    wr = SendWr(wr_id=f["wr_id"], opcode=opcode, send_flags=f["send_flags"])
    if opcode in (RDMA_WRITE_WITH_IMM, SEND_WITH_IMM):
        wr.imm_bytes[:] = f["imm_data"].to_bytes(4, "big")
    if qp_type == UD:
        wr.wr.ud.ah, wr.wr.ud.remote_qpn, wr.wr.ud.remote_qkey = ah, f["remote_qpn"], f["remote_qkey"]
    elif opcode in (CMP_SWP, FETCH_ADD):
        atomic = wr.wr.atomic
        atomic.remote_addr, atomic.rkey = f["remote_addr"], f["rkey"]
        atomic.compare_add, atomic.swap = f["compare_add"], f["swap"]
    elif opcode in (RDMA_WRITE, RDMA_WRITE_WITH_IMM, RDMA_READ):
        wr.wr.rdma.remote_addr, wr.wr.rdma.rkey = f["remote_addr"], f["rkey"]
    return wr


def without_pointers(wr: SendWr) -> bytes:
    copy = SendWr.from_buffer_copy(wr)
    copy.next = copy.sg_list = 0
    return bytes(copy)


@pytest.mark.only("ibverbs")
@pytest.mark.parametrize(("qp_type", "opcode"), [(t, op) for t, ops in OPCODES.items() for op in ops])
def test_a_send_request_reaches_the_library_field_by_field(rig: Rig, qp_type: int, opcode: int) -> None:
    qp, ah = rig.qp(qp_type), rig.ah() if qp_type == UD else None
    ib, stub = rig.ib, rig.stub

    @examples
    @given(fields, sges)
    def check(f: dict[str, int], entries: list[tuple[int, int, int]]) -> None:
        stub.capture()
        wr = ib.SendWR(opcode=opcode, sg_list=[ib.SGE(a, n, k) for a, n, k in entries], ah=ah, **f)
        qp.post_send(wr)
        (got,) = stub.captured()
        expected = expected_wr(opcode, qp_type, f, ah.ptr if ah else 0)
        expected.num_sge = len(entries)
        assert without_pointers(got.wr) == bytes(expected)
        assert got.sges == entries
        assert got.wr.next == 0 and got.kind == 0 and got.queue == qp.ptr
        rig.drain()

    check()


def request(ib: Any, draw: Any) -> tuple[Any, dict[str, int], int, list[tuple[int, int, int]]]:
    f, opcode, entries = draw(fields), draw(st.integers(0, 6)), draw(st.lists(st.tuples(u64, u32, u32), max_size=3))
    wr = ib.SendWR(opcode=opcode, sg_list=[ib.SGE(a, n, k) for a, n, k in entries], **f)
    return wr, f, opcode, entries


@pytest.mark.only("ibverbs")
@examples
@given(st.data(), st.integers(1, 80))
def test_requests_of_one_post_form_one_chain_in_order(rig: Rig, data: Any, count: int) -> None:
    ib, stub = rig.ib, rig.stub
    with rig.make_qp() as qp:
        made = [request(ib, data.draw) for _ in range(min(count, 5))]
        wanted = [made[i % len(made)] for i in range(count)]
        stub.capture()
        qp.post_send([wr for wr, _, _, _ in wanted])
        got = stub.captured()
        assert [g.call for g in got] == [0] * count
        assert [g.wr.next for g in got] == [g.at for g in got[1:]] + [0]
        for g, (_, f, opcode, entries) in zip(got, wanted):
            expected = expected_wr(opcode, RC, f, 0)
            expected.num_sge = len(entries)
            assert without_pointers(g.wr) == bytes(expected)
            assert g.sges == entries
        rig.drain()


@pytest.mark.parametrize("shared", [False, True])
def test_a_receive_request_reaches_the_library_field_by_field(rig: Rig, shared: bool) -> None:
    if rig.efa and shared:
        pytest.skip("needs a package with shared receive queues")
    ib, stub = rig.ib, rig.stub
    queue = rig.keep(rig.pd.create_srq(max_wr=4096, max_sge=8)) if shared else rig.qp()
    user = rig.qp(srq=queue) if shared else queue

    # A queue pair of EFA takes no receive without entries, and its libraries differ beyond 65535 bytes.
    entries = st.lists(st.tuples(u64, st.integers(0, 65535), u32), min_size=1, max_size=8) if rig.efa else sges

    @examples
    @given(st.lists(st.tuples(u64, entries), min_size=1, max_size=5))
    def check(wanted: list[tuple[int, list[tuple[int, int, int]]]]) -> None:
        stub.capture()
        queue.post_recv([ib.RecvWR(wr_id, [ib.SGE(a, n, k) for a, n, k in entries]) for wr_id, entries in wanted])
        got = stub.captured()
        assert [(g.wr.wr_id, g.sges) for g in got] == wanted
        assert {g.kind for g in got} == {2 if shared else 1}
        assert {g.queue for g in got} == {queue.ptr}
        assert [g.wr.next for g in got] == [g.at for g in got[1:]] + [0]
        assert [wc.wr_id for wc in rig.drain(user.recv_cq)] == [wr_id for wr_id, _ in wanted]

    check()


@examples
@given(st.lists(st.binary(max_size=15), min_size=1, max_size=8))
def test_inline_data_is_what_lies_at_the_address(rig: Rig, pieces: list[bytes]) -> None:
    ib, stub = rig.ib, rig.stub
    if rig.efa:
        pieces = pieces[:2]
    buffers = [ctypes.create_string_buffer(piece, len(piece) + 1) for piece in pieces]
    with rig.make_qp(max_inline_data=32 if rig.efa else 480) as qp:
        stub.capture(inline=True)
        entries = [ib.SGE(ctypes.addressof(b), len(piece)) for b, piece in zip(buffers, pieces)]
        qp.post_send(rig.wr(sg_list=entries, send_flags=SIGNALED | INLINE))
        (got,) = stub.captured()
        assert got.inline == b"".join(pieces)
        rig.drain()


@examples
@given(st.integers(0, 1 << 20), st.integers(0, 1 << 20))
def test_an_sge_of_a_region_has_its_address_and_key(rig: Rig, offset: int, length: int) -> None:
    ib, mr = rig.ib, rig.mr
    if offset + length > mr.length:
        return
    for sge in (mr.sge(length, offset), ib.SGE(mr, length, offset=offset)):
        assert (sge.addr, sge.length, sge.lkey) == (mr.addr + offset, length, mr.lkey)
        assert sge.owner is mr
    rest = mr.sge(offset=offset)
    assert (rest.addr, rest.length) == (mr.addr + offset, mr.length - offset)


@examples
@given(u64, u32, u32, u32)
def test_an_sge_of_an_address_is_what_was_given(rig: Rig, addr: int, length: int, lkey: int, offset: int) -> None:
    sge = rig.ib.SGE(addr, length, lkey)
    assert (sge.addr, sge.length, sge.lkey, sge.owner) == (addr, length, lkey, None)
    if addr + offset < 2**64:
        assert rig.ib.SGE(addr, length, lkey, offset).addr == addr + offset


wc_fields = st.fixed_dictionaries(
    {
        "wr_id": u64,
        "status": st.integers(0, 30) | st.integers(-(2**31), 2**31 - 1),
        "opcode": st.integers(0, 140) | st.integers(-(2**31), 2**31 - 1),
        "vendor_err": u32,
        "byte_len": u32,
        "qp_num": u32,
        "src_qp": u32,
        "wc_flags": u32,
    }
)


def as_c_enum(value: int) -> set[int]:
    """An enum of C may be read as signed or unsigned."""
    return {value, value % 2**32}


@examples
@given(wc_fields, u32)
def test_a_completion_comes_up_field_by_field(rig: Rig, f: dict[str, int], imm: int) -> None:
    rig.stub.push_wc(rig.cq, False, imm, **f)
    (wc,) = rig.cq.poll(1)
    for name, value in f.items():
        if name in ("status", "opcode"):
            assert getattr(wc, name) in as_c_enum(value)
        else:
            assert getattr(wc, name) == value
        assert type(getattr(wc, name)) is int
    if f["wc_flags"] & 2:  # without it the bytes are something else
        assert wc.imm_data == imm
    assert wc.is_success == (f["status"] == 0)
    assert isinstance(wc.status_str, str) and wc.status_str


@examples
@given(u64, st.integers(0, 1 << 39), st.integers(0, 0x3FF))
def test_a_registration_asks_for_what_was_given(rig: Rig, addr: int, length: int, access: int) -> None:
    stub = rig.stub
    if rig.efa:
        access &= 7
    if access & 0b1010 and not access & 1 or addr + length >= 2**64:
        return
    with rig.pd.reg_mr(addr, length, access | 1 << 20) as mr:
        asked = stub.last_registration()
        assert (asked.addr, asked.length, asked.iova) == (addr, length, addr)
        assert (asked.access, asked.verb) == (access | 1 << 20, 1)
        assert (mr.addr, mr.length) == (addr, length)


@examples
@given(st.integers(0, 1 << 40), st.integers(0, 1 << 39), u64, st.integers(0, 2**31 - 1))
def test_a_dmabuf_registration_asks_for_what_was_given(rig: Rig, offset: int, length: int, iova: int, fd: int) -> None:
    if iova + length >= 2**64:
        return
    with rig.pd.reg_dmabuf_mr(offset, length, iova, fd, 7) as mr:
        asked = rig.stub.last_registration()
        assert (asked.offset, asked.length, asked.iova, asked.fd) == (offset, length, iova, fd)
        assert (asked.access, asked.verb) == (7, 2)
        assert (mr.addr, mr.length) == (iova, length)


ah_fields = st.fixed_dictionaries(
    {
        "dgid": st.binary(min_size=16, max_size=16),
        "sgid_index": u8,
        "dlid": u16,
        "is_global": st.integers(0, 1),
        "port_num": u8,
        "hop_limit": u8,
        "traffic_class": u8,
        "sl": st.integers(0, 15),
        "flow_label": st.integers(0, 2**20 - 1),
        "src_path_bits": st.integers(0, 127),
        "static_rate": u8,
    }
)


def check_ah(got: Any, f: dict[str, Any]) -> None:
    assert bytes(got.grh.dgid) == f["dgid"]
    for name in ("flow_label", "sgid_index", "hop_limit", "traffic_class"):
        assert getattr(got.grh, name) == f[name], name
    for name in ("dlid", "sl", "src_path_bits", "static_rate", "is_global", "port_num"):
        assert getattr(got, name) == f[name], name


@pytest.mark.only("ibverbs")
@examples
@given(ah_fields)
def test_an_address_handle_is_made_of_what_was_given(rig: Rig, f: dict[str, Any]) -> None:
    rig.stub.set_lenient()
    with rig.pd.create_ah(rig.ib.AHAttr(**f)):
        check_ah(rig.stub.last_ah(), f)


#: Bit of QPAttrMask, fields it covers.
QP_FIELDS: list[tuple[int, dict[str, Any]]] = [
    (1, {"qp_state": st.integers(0, 6)}),
    (2, {"cur_qp_state": st.integers(0, 6)}),
    (8, {"qp_access_flags": u32}),
    (16, {"pkey_index": u16}),
    (32, {"port_num": u8}),
    (64, {"qkey": u32}),
    (256, {"path_mtu": st.integers(1, 5)}),
    (512, {"timeout": st.integers(0, 31)}),
    (1024, {"retry_cnt": st.integers(0, 7)}),
    (2048, {"rnr_retry": st.integers(0, 7)}),
    (4096, {"rq_psn": psn}),
    (8192, {"max_rd_atomic": u8}),
    (32768, {"min_rnr_timer": st.integers(0, 31)}),
    (65536, {"sq_psn": psn}),
    (131072, {"max_dest_rd_atomic": u8}),
    (262144, {"path_mig_state": st.integers(0, 2)}),
    (1048576, {"dest_qp_num": psn}),
    (33554432, {"rate_limit": u32}),
]


@pytest.mark.only("ibverbs")
@examples
@given(st.data())
def test_modify_gives_the_mask_and_fields_and_zeros_elsewhere(rig: Rig, data: Any) -> None:
    ib, stub = rig.ib, rig.stub
    mask, values = 0, {}
    for bit, named in QP_FIELDS:
        if data.draw(st.booleans()):
            mask |= bit
            values.update({name: data.draw(value, label=name) for name, value in named.items()})
    route = data.draw(st.none() | ah_fields)
    stub.set_lenient()
    with rig.make_qp(state=0) as qp:
        stub.set_lenient()
        if route is None:
            qp.modify(mask, **values)
        else:
            mask |= 128
            qp.modify(mask, ib.AHAttr(**route), **values)
        got_mask, got = stub.last_modify()
        stub.set_lenient(False)
    assert got_mask == mask
    expected = QpAttr(**values)
    for name, *_ in QpAttr._fields_:
        if name not in ("ah_attr", "alt_ah_attr", "cap"):
            assert getattr(got, name) == getattr(expected, name), name
    if route is None:
        assert bytes(got.ah_attr) == bytes(len(bytes(got.ah_attr)))
    else:
        check_ah(got.ah_attr, route)


@pytest.mark.only("ibverbs")
@pytest.mark.parametrize("qp_type", [RC, UC, UD])
def test_a_queue_pair_is_made_of_what_was_given(rig: Rig, qp_type: int) -> None:
    ib, stub = rig.ib, rig.stub
    other = rig.keep(rig.ctx.create_cq(16))
    attr = ib.QPInitAttr(
        rig.cq,
        other,
        qp_type=qp_type,
        max_send_wr=11,
        max_recv_wr=12,
        max_send_sge=13,
        max_recv_sge=14,
        max_inline_data=15,
        sq_sig_all=True,
    )
    with rig.pd.create_qp(attr) as qp:
        asked = stub.last_qp_init()
        cap = asked.cap
        assert (asked.send_cq, asked.recv_cq, asked.srq) == (rig.cq.ptr, other.ptr, 0)
        assert (cap.max_send_wr, cap.max_recv_wr, cap.max_send_sge, cap.max_recv_sge) == (11, 12, 13, 14)
        assert (cap.max_inline_data, asked.qp_type, asked.sq_sig_all) == (15, qp_type, 1)
        # The stub grants even depths, and inline data in steps of 16.
        granted = qp.query()[1]
        assert (granted.max_send_wr, granted.max_recv_wr, granted.max_inline_data) == (12, 12, 16)
    assert (attr.max_send_wr, attr.max_inline_data) == (11, 15)


@pytest.mark.only("ibverbs")
def test_a_queue_pair_on_a_shared_receive_queue_asks_for_no_receives(rig: Rig) -> None:
    srq = rig.keep(rig.pd.create_srq())
    qp = rig.qp(srq=srq, max_recv_wr=10**9, max_recv_sge=10**9)
    asked = rig.stub.last_qp_init()
    assert asked.srq == srq.ptr
    assert qp.srq is srq


@pytest.mark.only("ibverbs")
def test_the_three_steps_of_a_connection_set_what_they_say(rig: Rig) -> None:
    ib, stub, mask = rig.ib, rig.stub, rig.ib.QPAttrMask
    gid = bytes(range(16, 32))
    qp = rig.qp(state=0)

    qp.to_init(1, ib.AccessFlags.REMOTE_READ, pkey_index=1)
    bits, attr = stub.last_modify()
    assert bits == mask.STATE | mask.PKEY_INDEX | mask.PORT | mask.ACCESS_FLAGS
    assert (attr.qp_state, attr.port_num, attr.qp_access_flags, attr.pkey_index) == (1, 1, 4, 1)

    qp.to_rtr(ib.QPInfo(0x123456, 0x654321, 9, gid, 1, 3), 2, None, 33, 11, 5, 6, 7)
    bits, attr = stub.last_modify()
    assert bits == (
        mask.STATE
        | mask.AV
        | mask.PATH_MTU
        | mask.DEST_QPN
        | mask.RQ_PSN
        | mask.MAX_DEST_RD_ATOMIC
        | mask.MIN_RNR_TIMER
    )
    assert (attr.qp_state, attr.path_mtu, attr.dest_qp_num, attr.rq_psn) == (2, 3, 0x123456, 0x654321)
    assert (attr.max_dest_rd_atomic, attr.min_rnr_timer) == (5, 11)
    assert bytes(attr.ah_attr.grh.dgid) == gid
    assert (attr.ah_attr.is_global, attr.ah_attr.dlid, attr.ah_attr.port_num) == (1, 9, 1)
    grh = attr.ah_attr.grh
    assert (grh.sgid_index, grh.hop_limit, grh.traffic_class, attr.ah_attr.sl) == (2, 33, 7, 6)

    qp.to_rts(0xABCDEF, 15, 5, 4, 3)
    bits, attr = stub.last_modify()
    assert bits == mask.STATE | mask.TIMEOUT | mask.RETRY_CNT | mask.RNR_RETRY | mask.SQ_PSN | mask.MAX_QP_RD_ATOMIC
    assert (attr.qp_state, attr.sq_psn, attr.timeout, attr.retry_cnt) == (3, 0xABCDEF, 15, 5)
    assert (attr.rnr_retry, attr.max_rd_atomic) == (4, 3)
    assert qp.state == 3


@pytest.mark.only("ibverbs")
@pytest.mark.parametrize("qp_type", [UC, UD])
def test_the_steps_of_other_types_set_what_those_take(rig: Rig, qp_type: int) -> None:
    ib, mask = rig.ib, rig.ib.QPAttrMask
    qp = rig.qp(qp_type, state=0)
    qp.to_init(1, qkey=0x1234)
    common = mask.STATE | mask.PKEY_INDEX | mask.PORT
    assert rig.stub.last_modify()[0] == common | (mask.QKEY if qp_type == UD else mask.ACCESS_FLAGS)
    qp.to_rtr(None, 0) if qp_type == UD else qp.to_rtr(ib.QPInfo(1, 2, 0, bytes(16), 1, 3), 0)
    route = mask.AV | mask.PATH_MTU | mask.DEST_QPN | mask.RQ_PSN
    assert rig.stub.last_modify()[0] == mask.STATE | (0 if qp_type == UD else route)
    qp.to_rts(77)
    assert rig.stub.last_modify()[0] == mask.STATE | mask.SQ_PSN
    assert rig.stub.last_modify()[1].sq_psn == 77


@pytest.mark.only("ibverbs")
def test_query_gives_back_what_modify_set(rig: Rig) -> None:
    ib = rig.ib
    qp = rig.qp(state=0)
    qp.to_init(1, ib.AccessFlags.REMOTE_WRITE)
    qp.to_rtr(ib.QPInfo(0x42, 0x43, 0, bytes(15) + b"\1", 1, 4), 0, min_rnr_timer=9, max_dest_rd_atomic=8)
    qp.to_rts(0x44, timeout=13, retry_cnt=6, rnr_retry=5, max_rd_atomic=7)
    values, cap = qp.query()
    wanted = {
        "qp_state": 3,
        "path_mtu": 4,
        "qkey": 0,
        "rq_psn": 0x43,
        "sq_psn": 0x44,
        "dest_qp_num": 0x42,
        "qp_access_flags": 2,
        "port_num": 1,
        "timeout": 13,
        "retry_cnt": 6,
        "rnr_retry": 5,
        "min_rnr_timer": 9,
        "max_rd_atomic": 7,
        "max_dest_rd_atomic": 8,
    }
    assert {name: values[name] for name in wanted} == wanted
    assert (cap.max_send_wr, cap.max_send_sge) == (1024, 8)


@pytest.mark.only("ibverbs")
def test_a_shared_receive_queue_asks_and_answers(rig: Rig) -> None:
    stub = rig.stub
    srq = rig.keep(rig.pd.create_srq(max_wr=31, max_sge=5, srq_limit=7))
    assert srq.query() == {"max_wr": 32, "max_sge": 5, "srq_limit": 7}
    srq.modify(srq_limit=9)
    mask, attr = stub.last_srq_modify()
    assert (mask, attr.srq_limit) == (2, 9)
    srq.modify(max_wr=64)
    mask, attr = stub.last_srq_modify()
    assert (mask, attr.max_wr) == (1, 64)
    srq.modify(128, 3)
    mask, attr = stub.last_srq_modify()
    assert (mask, attr.max_wr, attr.srq_limit) == (3, 128, 3)
    assert srq.query() == {"max_wr": 128, "max_sge": 5, "srq_limit": 3}


@pytest.mark.only("ibverbs")
def test_device_and_port_attributes_hold_what_the_structures_hold(rig: Rig) -> None:
    attr = rig.ctx.query_device()
    assert (attr.fw_ver, attr.vendor_id, attr.vendor_part_id, attr.hw_ver) == ("1.2.3", 0x57B, 0x1234, 7)
    assert (attr.max_mr_size, attr.max_qp, attr.max_qp_wr, attr.max_sge) == (1 << 40, 1 << 17, 16384, 32)
    assert (attr.max_cq, attr.max_cqe, attr.max_mr, attr.max_pd) == (1 << 17, 1 << 16, 1 << 20, 1 << 16)
    assert (attr.max_qp_rd_atom, attr.max_ah, attr.max_srq, attr.max_srq_wr) == (16, 1 << 16, 1 << 12, 8192)
    assert (attr.max_srq_sge, attr.max_pkeys, attr.phys_port_cnt) == (30, 2, 1)
    eui = 0x0200C0FFFE000001
    assert attr.node_guid == int.from_bytes(eui.to_bytes(8, "big"), "little")
    assert attr.node_guid_str == "0200:c0ff:fe00:0001"
    port = rig.ctx.query_port(1)
    assert (port.state, port.max_mtu, port.active_mtu, port.gid_tbl_len) == (4, 5, 3, 8)
    assert (port.port_cap_flags, port.max_msg_sz, port.pkey_tbl_len) == (0x04010000, 1 << 30, 2)
    assert (port.lid, port.sm_lid, port.lmc, port.active_width, port.active_speed) == (0, 0, 1, 2, 32)
    assert port.link_layer == 2
    assert bytes(rig.ctx.query_gid(1, 0)) == bytes.fromhex("fe80000000000000") + eui.to_bytes(8, "big")
    assert bytes(rig.ctx.query_gid(1, 5)) == bytes(16)
