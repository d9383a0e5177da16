# SPDX-License-Identifier: BSD-3-Clause
"""Every number, text and address that goes into C: it fits and arrives whole, or the exception says what was wrong.

What needs only the value classes runs over any libibverbs; what needs a handle runs on the stub.
"""

from __future__ import annotations

from typing import Any, Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from packages import error_of
from stub_fixtures import Rig, examples

U7, U8, U16, U24, U32, U64 = (2**bits - 1 for bits in (7, 8, 16, 24, 32, 64))
INT = 2**31 - 1

#: Numbers around every limit that a C field may have.
numbers = st.one_of(
    st.integers(-(2**70), 2**70),
    st.sampled_from([b + d for b in (0, U7, U8, U16, U24, INT, U32, 2**63 - 1, U64) for d in (-2, -1, 0, 1, 2)]),
)

#: What is no integer, and must not be taken for one.
NOT_INTEGERS = [1.0, 1.5, float("nan"), "1", b"1", b"", [], (), {}, object(), 1j, type, Ellipsis]


class Index:
    """Anything with __index__ is an integer."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


def assert_range_error(ib: Any, caught: Any, name: str, value: int, limit: int) -> None:
    error = caught.value
    assert isinstance(error, ib.RangeError)
    assert isinstance(error, OverflowError) and isinstance(error, ValueError)
    words = str(error)
    assert name in words, words
    assert str(value) in words, words
    assert str(limit) in words or hex(limit) in words, words


def attribute_rows(ib: Any) -> list[tuple[str, Callable[[], Any], str, int]]:
    """(what, how to make one, attribute, most) for every writable number of a value class."""
    rows: list[tuple[str, Callable[[], Any], str, int]] = []
    for name, most in {
        "wr_id": U64, "remote_addr": U64, "rkey": U32, "imm_data": U32, "compare_add": U64, "swap": U64,
        "remote_qpn": U32, "remote_qkey": U32, "opcode": U32, "send_flags": U32,
    }.items():  # fmt: skip
        rows.append(("SendWR", ib.SendWR, name, most))
    rows.append(("RecvWR", ib.RecvWR, "wr_id", U64))
    for name, most in {"addr": U64, "length": U32, "lkey": U32}.items():
        rows.append(("SGE", lambda: ib.SGE(0, 0), name, most))
    for name, most in {
        "sgid_index": U8, "dlid": U16, "port_num": U8, "hop_limit": U8, "traffic_class": U8, "sl": U8,
        "flow_label": U32, "src_path_bits": U8, "static_rate": U8,
    }.items():  # fmt: skip
        rows.append(("AHAttr", ib.AHAttr, name, most))
    return rows


ATTRIBUTES = [
    ("SendWR", n)
    for n in "wr_id remote_addr rkey imm_data compare_add swap remote_qpn remote_qkey opcode send_flags".split()
] + [("RecvWR", "wr_id")] + [("SGE", n) for n in ("addr", "length", "lkey")] + [
    ("AHAttr", n)
    for n in "sgid_index dlid port_num hop_limit traffic_class sl flow_label src_path_bits static_rate".split()
]  # fmt: skip

#: Fields that the protocol gives fewer bits than the C structure has.
NARROWER = {"send_flags": 31, "flow_label": 2**20 - 1, "sl": 15, "remote_qpn": U24, "src_path_bits": U7}


@pytest.fixture(scope="session")
def rows(ib: Any) -> dict[tuple[str, str], tuple[Callable[[], Any], int]]:
    return {
        (what, name): (make, most) for what, make, name, most in attribute_rows(ib) if hasattr(getattr(ib, what), name)
    }


def row(rows: Any, what: str, name: str) -> Any:
    if (what, name) not in rows:
        pytest.skip(f"needs a package with {what}.{name}")
    return rows[what, name]


def writable(target: Any, name: str) -> bool:
    try:
        setattr(target, name, getattr(target, name))
    except AttributeError:
        return False
    return True


@pytest.mark.parametrize(("what", "name"), ATTRIBUTES)
def test_an_attribute_holds_every_value_that_fits_and_refuses_the_rest(
    ib: Any, rows: Any, what: str, name: str
) -> None:
    make, most = row(rows, what, name)
    target = make()
    if not writable(target, name):
        pytest.skip(f"{what}.{name} cannot be set")

    @examples
    @given(numbers)
    @example(0)
    @example(most)
    @example(most + 1)
    @example(-1)
    def check(value: int) -> None:
        before = getattr(target, name)
        try:
            setattr(target, name, value)
        except ib.RangeError as error:
            assert not 0 <= value <= NARROWER.get(name, most), str(error)
            words = str(error)
            assert name in words and str(value) in words and ("limit" in words or any(c.isdigit() for c in words))
            assert getattr(target, name) == before
        else:
            assert 0 <= value <= most
            assert getattr(target, name) == value

    check()


@pytest.mark.parametrize(("what", "name"), ATTRIBUTES)
def test_an_attribute_takes_integers_only(ib: Any, rows: Any, what: str, name: str) -> None:
    make, _ = row(rows, what, name)
    target = make()
    if not writable(target, name):
        pytest.skip(f"{what}.{name} cannot be set")
    before = getattr(target, name)
    for wrong in [*NOT_INTEGERS, None]:
        with pytest.raises(TypeError, match=name):
            setattr(target, name, wrong)
        assert getattr(target, name) == before
    setattr(target, name, Index(7))
    assert getattr(target, name) == 7
    setattr(target, name, True)
    assert getattr(target, name) == 1
    with pytest.raises((TypeError, AttributeError)):
        delattr(target, name)


@pytest.mark.parametrize(("what", "name"), [(w, n) for w, n in ATTRIBUTES if w != "SGE"])
def test_a_constructor_converts_as_the_attribute_does(ib: Any, rows: Any, what: str, name: str) -> None:
    _, most = row(rows, what, name)
    make = getattr(ib, what)
    assert getattr(make(**{name: 3}), name) == 3
    for value in (-1, most + 1, 2**200, -(2**200)):
        with pytest.raises(ib.RangeError) as caught:
            make(**{name: value})
        assert name in str(caught.value)
    for wrong in NOT_INTEGERS:
        with pytest.raises(TypeError, match=name):
            make(**{name: wrong})


def test_a_range_error_names_field_value_and_limit(ib: Any) -> None:
    with pytest.raises(ib.RangeError) as caught:
        ib.SendWR(rkey=2**32)
    assert_range_error(ib, caught, "rkey", 2**32, U32)
    with pytest.raises(ib.RangeError) as caught:
        ib.SGE(0, 2**32)
    assert_range_error(ib, caught, "length", 2**32, U32)
    with pytest.raises(ib.RangeError) as caught:
        ib.AHAttr(sgid_index=256)
    assert_range_error(ib, caught, "sgid_index", 256, U8)
    for value in (2**31, -(2**31) - 1, 2**70):
        with pytest.raises(ib.RangeError) as caught:
            ib.DeviceAttr(max_qp=value)
        assert_range_error(ib, caught, "max_qp", value, -(2**31))
    with pytest.raises(TypeError, match="max_qp must be an integer"):
        ib.DeviceAttr(max_qp=1.5)
    assert ib.DeviceAttr(max_qp=-(2**31)).max_qp == -(2**31)


@examples
@given(numbers, numbers, numbers, numbers)
def test_an_sge_is_made_whole_or_not_at_all(ib: Any, addr: int, length: int, lkey: int, offset: int) -> None:
    fits = 0 <= addr <= U64 and 0 <= length <= U32 and 0 <= lkey <= U32 and 0 <= offset and addr + offset <= U64
    try:
        sge = ib.SGE(addr, length, lkey, offset)
    except ib.RangeError:
        assert not fits
    else:
        assert fits
        assert (sge.addr, sge.length, sge.lkey) == (addr + offset, length, lkey)


@pytest.mark.parametrize("wrong", NOT_INTEGERS)
def test_an_sge_takes_integers_and_regions_only(ib: Any, wrong: Any) -> None:
    with pytest.raises(TypeError):
        ib.SGE(wrong, 1)
    with pytest.raises(TypeError):
        ib.SGE(1, wrong)
    with pytest.raises(TypeError):
        ib.SGE(1, 1, wrong)
    with pytest.raises(TypeError):
        ib.SGE(1, 1, 1, wrong)


def test_anything_with_addr_length_and_lkey_is_a_region(ib: Any) -> None:
    class Region:
        addr, length, lkey = 0x1000, 0x100, 0x77

    region = Region()
    sge = ib.SGE(region, 0x80, offset=0x40)
    assert (sge.addr, sge.length, sge.lkey) == (0x1040, 0x80, 0x77)
    assert sge.owner is region


@examples
@given(st.binary(max_size=20))
def test_a_gid_is_any_sixteen_bytes(ib: Any, raw: bytes) -> None:
    makers: list[Callable[[bytes], Any]] = [ib.Gid, lambda b: ib.Gid(bytearray(b)), lambda b: ib.Gid(memoryview(b))]
    for make in makers:
        if len(raw) != 16:
            with pytest.raises(ValueError, match="16"):
                make(raw)
            continue
        gid = make(raw)
        assert bytes(gid) == raw == gid.raw
        assert gid == raw and raw == gid and hash(gid) == hash(raw)
        assert (gid.subnet_prefix, gid.interface_id) == (
            int.from_bytes(raw[:8], "big"),
            int.from_bytes(raw[8:], "big"),
        )
        assert ib.Gid(gid) == gid
        attr = ib.AHAttr(dgid=gid)
        assert attr.dgid == raw


@pytest.mark.parametrize("wrong", ["fe80::1", "0123456789abcdef", 16, 1.0, None, [0] * 16, object()])
def test_a_gid_is_bytes_only(ib: Any, wrong: Any) -> None:
    with pytest.raises(TypeError):
        ib.Gid(wrong)


@examples
@given(st.text(max_size=8), numbers)
def test_a_device_is_a_name_and_a_guid(ib: Any, name: str, guid: int) -> None:
    if not 0 <= guid <= U64:
        with pytest.raises(ib.RangeError):
            ib.Device("name", guid)
        return
    try:
        device = ib.Device(name, guid)
    except ValueError:
        # A name that C cannot hold.
        assert "\0" in name or any(0xD800 <= ord(c) <= 0xDFFF for c in name)
        return
    assert (device.name, device.guid) == (name, guid)


# On the stub: what takes a handle.

Call = Callable[[Rig, Any], Any]

#: (name of the parameter, call with a value, least, most); what fits may still be refused by the library.
CALLS: dict[str, tuple[str, Call, int, int]] = {
    "reg_mr addr": ("addr", lambda r, v: r.pd.reg_mr(v, 0, 0), 0, U64),
    "reg_mr length": ("length", lambda r, v: r.pd.reg_mr(0, v, 0), 0, U64),
    "reg_mr access": ("access", lambda r, v: r.pd.reg_mr(0, 0, v), 0, U32),
    "reg_dmabuf_mr offset": ("offset", lambda r, v: r.pd.reg_dmabuf_mr(v, 0, 0, 0, 0), 0, U64),
    "reg_dmabuf_mr length": ("length", lambda r, v: r.pd.reg_dmabuf_mr(0, v, 0, 0, 0), 0, U64),
    "reg_dmabuf_mr iova": ("iova", lambda r, v: r.pd.reg_dmabuf_mr(0, 0, v, 0, 0), 0, U64),
    "reg_dmabuf_mr fd": ("fd", lambda r, v: r.pd.reg_dmabuf_mr(0, 0, 0, v, 0), 0, INT),
    "reg_dmabuf_mr access": ("access", lambda r, v: r.pd.reg_dmabuf_mr(0, 0, 0, 0, v), 0, U32),
    "create_cq cqe": ("cqe", lambda r, v: r.ctx.create_cq(v), 1, INT),
    "create_cq comp_vector": ("comp_vector", lambda r, v: r.ctx.create_cq(1, None, v), 0, INT),
    "query_port port_num": ("port_num", lambda r, v: r.ctx.query_port(v), 0, U8),
    "query_gid port_num": ("port_num", lambda r, v: r.ctx.query_gid(v, 0), 0, U8),
    "query_gid index": ("index", lambda r, v: r.ctx.query_gid(1, v), 0, INT),
    "create_srq max_wr": ("max_wr", lambda r, v: r.pd.create_srq(max_wr=v), 0, U32),
    "create_srq max_sge": ("max_sge", lambda r, v: r.pd.create_srq(max_sge=v), 0, U32),
    "create_srq srq_limit": ("srq_limit", lambda r, v: r.pd.create_srq(srq_limit=v), 0, U32),
    "create_qp max_send_wr": ("max_send_wr", lambda r, v: r.make_qp(max_send_wr=v), 0, U32),
    "create_qp max_recv_wr": ("max_recv_wr", lambda r, v: r.make_qp(max_recv_wr=v), 0, U32),
    "create_qp max_send_sge": ("max_send_sge", lambda r, v: r.make_qp(max_send_sge=v), 0, U32),
    "create_qp max_recv_sge": ("max_recv_sge", lambda r, v: r.make_qp(max_recv_sge=v), 0, U32),
    "create_qp max_inline_data": ("max_inline_data", lambda r, v: r.make_qp(max_inline_data=v), 0, U32),
    "create_qp qp_type": ("qp_type", lambda r, v: r.make_qp(v), 0, U8),
    "mr.sge length": ("length", lambda r, v: r.mr.sge(v), 0, U32),
    "mr.sge offset": ("offset", lambda r, v: r.mr.sge(0, v), 0, U64),
}


def the_call(rig: Rig, call: str) -> Any:
    if rig.efa and "srq" in call:
        pytest.skip("needs a package with shared receive queues")
    return CALLS[call]


def close(made: Any) -> None:
    if hasattr(made, "close"):
        made.close()


@pytest.mark.needs("stub")
@pytest.mark.parametrize("call", CALLS)
def test_a_call_takes_what_fits_its_field_and_names_what_does_not(rig: Rig, call: str) -> None:
    name, act, least, most = the_call(rig, call)
    ib = rig.ib

    @examples
    @given(numbers)
    @example(least)
    @example(most)
    @example(most + 1)
    @example(least - 1)
    def check(value: int) -> None:
        try:
            close(act(rig, value))
        except ib.RangeError as error:
            words = str(error)
            # mr.sge knows the bounds of its region, which are narrower.
            assert "mr.sge" in call or not least <= value <= most, words
            assert name in words and str(value) in words, words
        except error_of(ib):
            assert least <= value <= most
        except ValueError as error:  # what fits the field and no queue pair of EFA can have
            assert rig.efa and name in ("max_recv_sge", "qp_type") and name in str(error)
        else:
            assert least <= value <= most

    check()


@pytest.mark.needs("stub")
@pytest.mark.parametrize("call", CALLS)
def test_a_call_takes_integers_only(rig: Rig, call: str) -> None:
    name, act, _, _ = the_call(rig, call)
    for wrong in NOT_INTEGERS:
        before = rig.stub.calls()
        with pytest.raises(TypeError, match=name):
            act(rig, wrong)
        assert rig.stub.calls() == before, "something reached the library"
    try:
        close(act(rig, Index(rig.reliable if name == "qp_type" else 1)))
    except rig.Error:
        pass


@pytest.mark.needs("stub")
@pytest.mark.parametrize("value", [0, -1, -(2**40)])
def test_fewer_than_one_completion_cannot_be_asked_for(rig: Rig, value: int) -> None:
    with pytest.raises(ValueError, match="num_entries"):
        rig.cq.poll(value)
    with pytest.raises(ValueError, match="num_entries"):
        rig.cq.poll(num_entries=value)


@pytest.mark.needs("stub")
def test_more_completions_than_a_c_int_may_be_refused_but_are_never_cut(rig: Rig) -> None:
    for value in (1, 16, 17, 1000, INT, 2**31, 2**32, 2**32 + 1, 2**64, 2**65):
        rig.stub.push_wc(rig.cq, wr_id=value % 1000)
        rig.stub.push_wc(rig.cq, wr_id=2)
        try:
            got = rig.cq.poll(value)
        except (ValueError, MemoryError):
            assert value > INT
            got = rig.drain()
        assert [wc.wr_id for wc in got + rig.drain()] == [value % 1000, 2]
        assert len(got) == min(value, 2)


@pytest.mark.needs("stub")
@pytest.mark.parametrize("wrong", [*NOT_INTEGERS, None])
def test_poll_takes_integers_only(rig: Rig, wrong: Any) -> None:
    with pytest.raises(TypeError, match="num_entries"):
        rig.cq.poll(wrong)


#: Bit of QPAttrMask, and the most that goes through structure, kernel and packets without being cut.
QP_FIELDS = {
    "qp_state": (1, U8), "cur_qp_state": (2, U8), "qp_access_flags": (8, U32), "pkey_index": (16, U16),
    "port_num": (32, U8), "qkey": (64, U32), "path_mtu": (256, U8), "timeout": (512, 31), "retry_cnt": (1024, 7),
    "rnr_retry": (2048, 7), "rq_psn": (4096, U24), "max_rd_atomic": (8192, U8), "min_rnr_timer": (32768, 31),
    "sq_psn": (65536, U24), "max_dest_rd_atomic": (131072, U8), "dest_qp_num": (1048576, U24),
    "rate_limit": (33554432, U32), "path_mig_state": (262144, U8),
}  # fmt: skip


EFA_QP_FIELDS = {"qp_state", "cur_qp_state", "pkey_index", "port_num", "qkey", "rnr_retry", "rq_psn", "sq_psn"}


@pytest.mark.needs("stub")
@pytest.mark.parametrize("name", QP_FIELDS)
def test_a_modified_field_fits_or_is_named(rig: Rig, name: str) -> None:
    if rig.efa and name not in EFA_QP_FIELDS:
        pytest.skip("needs a device with that field")
    bit, most = QP_FIELDS[name]
    qp = rig.qp(state=0)
    rig.stub.set_lenient()

    @examples
    @given(numbers)
    @example(most)
    @example(most + 1)
    def check(value: int) -> None:
        before = rig.stub.calls("modify_qp")
        try:
            qp.modify(bit, **{name: value})
        except ValueError as error:
            assert isinstance(error, rig.ib.RangeError) or 0 <= value <= most
            assert name in str(error)
            assert rig.stub.calls("modify_qp") == before
        else:
            assert 0 <= value <= most
            mask, attr = rig.stub.last_modify()
            assert mask == bit and getattr(attr, name) % 2**32 == value

    check()
    for wrong in NOT_INTEGERS:
        with pytest.raises(TypeError, match=name):
            qp.modify(bit, **{name: wrong})


@pytest.mark.needs("stub")
def test_a_field_that_no_queue_pair_has_is_a_type_error(rig: Rig) -> None:
    qp = rig.qp(state=0)
    for name in ("no_such_field", "state", "mtu", " "):
        with pytest.raises(TypeError, match=name):
            qp.modify(1, **{name: 1})
    assert rig.stub.calls("modify_qp") == 0


@pytest.mark.needs("stub")
def test_handles_of_the_wrong_kind_are_type_errors(rig: Rig) -> None:
    ib, before = rig.ib, rig.stub.calls()
    qp = rig.qp()
    queue = rig.qp() if rig.efa else rig.keep(rig.pd.create_srq())
    rig.wr()  # which makes an address handle where one is needed
    before = rig.stub.calls()
    wrong_ways: list[Callable[[], Any]] = [
        lambda: rig.ctx.create_cq(4, rig.cq),
        lambda: rig.ctx.create_cq(4, 7),
        lambda: rig.pd.create_ah(rig.pd),
        lambda: rig.pd.create_ah(None),
        lambda: rig.pd.create_qp(ib.QPInitAttr(rig.pd, rig.cq)),
        lambda: rig.pd.create_qp(ib.QPInitAttr(rig.cq, None)),
        lambda: rig.pd.create_qp(ib.QPInitAttr(rig.cq, rig.cq, **{"sl" if rig.efa else "srq": qp})),
        lambda: qp.post_send(None),
        lambda: qp.post_send(1),
        lambda: qp.post_send(object()),
        lambda: qp.post_send([1]),
        lambda: qp.post_send([None]),
        lambda: qp.post_send(ib.RecvWR()),
        lambda: qp.post_send([rig.wr(), ib.RecvWR()]),
        lambda: qp.post_recv(rig.wr()),
        lambda: qp.post_recv("wr"),
        lambda: queue.post_recv([rig.wr()]),
        lambda: qp.modify(128, 7),
        lambda: rig.ctx.ack_async_event(7),
        lambda: ib.SendWR(ah=7),
        lambda: ib.SendWR(ah=rig.mr),
        lambda: ib.SendWR(sg_list=7),
        lambda: ib.SendWR(sg_list=[7]),
        lambda: ib.RecvWR(sg_list=[None]),
    ]
    for i, wrong in enumerate(wrong_ways):
        with pytest.raises(TypeError):
            wrong()
            pytest.fail(f"way {i} raised nothing")
    # What stands for a description may be any object that has the attributes; these have none.
    lacks: list[tuple[str, Callable[[], Any]]] = [
        ("init_attr", lambda: rig.pd.create_qp(None)),
    ]
    if not rig.efa:
        lacks += [("remote", lambda: qp.to_rtr(7, 0)), ("remote", lambda: qp.to_rtr(None, 0))]
    for argument, lacking in lacks:
        with pytest.raises(TypeError, match=f"^{argument} must be"):
            lacking()
    assert rig.stub.calls() == before, "something reached the library"


@pytest.mark.needs("stub")
def test_a_seconds_argument_is_a_number_that_is_not_negative(rig: Rig) -> None:
    channel = rig.keep(rig.ctx.create_comp_channel())
    for wait in (channel.get_cq_event, rig.ctx.get_async_event):
        for wrong in ("1", b"1", [], object(), 1j):
            with pytest.raises(TypeError, match="^timeout must be a number of seconds or None"):
                wait(wrong)
        for value in (-1, -0.001, float("nan"), float("-inf")):
            with pytest.raises(ValueError):
                wait(value)
        for value in (0, 0.0, 0.001):
            assert wait(value) is None
        assert wait(Index(0)) is None
        assert wait(timeout=0) is None


@pytest.mark.needs("stub")
def test_numpy_integers_are_integers_and_numpy_floats_are_not(rig: Rig) -> None:
    np = pytest.importorskip("numpy")
    with rig.pd.reg_mr(np.uint64(0x1000), np.int32(16), np.uint8(1)) as mr:
        assert (mr.addr, mr.length) == (0x1000, 16)
    assert rig.ib.SendWR(np.uint64(2**64 - 1)).wr_id == 2**64 - 1
    with pytest.raises(TypeError):
        rig.pd.reg_mr(np.float64(1), 16, 1)


def test_index_may_raise_anything_and_that_comes_out(ib: Any) -> None:
    class Bad:
        def __index__(self) -> int:
            raise ZeroDivisionError("from __index__")

    acts: list[Callable[[], Any]] = [
        lambda: ib.SendWR(Bad()),
        lambda: ib.SGE(Bad(), 1),
        lambda: ib.AHAttr(hop_limit=Bad()),
    ]
    for act in acts:
        with pytest.raises(ZeroDivisionError, match="from __index__"):
            act()
