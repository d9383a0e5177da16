# SPDX-License-Identifier: BSD-3-Clause
"""Value objects and exceptions: repr, equality, hash, pickle, copy. Needs libibverbs, but no device."""

from __future__ import annotations

import copy
import errno
import os
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packages import error_of, is_efa, open_device
from stub_fixtures import Rig, examples

u8, u16, u32, u64 = (st.integers(0, 2**bits - 1) for bits in (8, 16, 32, 64))

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


def copies(value: Any) -> list[Any]:
    return [copy.copy(value), copy.deepcopy(value), *(pickle.loads(pickle.dumps(value, p)) for p in PROTOCOLS)]


@examples
@given(st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16))
def test_gids_are_values(ib: Any, raw: bytes, other: bytes) -> None:
    gid = ib.Gid(raw)
    for same in copies(gid):
        assert type(same) is ib.Gid and same == gid and hash(same) == hash(gid) and bytes(same) == raw
    assert (ib.Gid(other) == gid) == (other == raw) == (gid == other)
    assert (ib.Gid(other) != gid) == (other != raw)
    assert {gid: 1}[raw] == 1
    assert "Gid" in repr(gid) and (ib.Gid(other) == gid or repr(ib.Gid(other)) != repr(gid))
    assert gid != 7 and gid != "x" and not gid == None  # noqa: E711
    with pytest.raises((AttributeError, TypeError)):
        gid.raw = other


ah_fields = {
    "dgid": st.none() | st.binary(min_size=16, max_size=16).filter(any),
    "sgid_index": u8, "dlid": u16, "is_global": st.integers(0, 1), "port_num": u8, "hop_limit": u8,
    "traffic_class": u8, "sl": st.integers(0, 15), "flow_label": st.integers(0, 2**20 - 1),
    "src_path_bits": st.integers(0, 127), "static_rate": u8,
}  # fmt: skip


@examples
@given(st.fixed_dictionaries(ah_fields), st.sampled_from(sorted(ah_fields)))
def test_address_attributes_are_values(ib: Any, f: dict[str, Any], changed: str) -> None:
    f = {name: value for name, value in f.items() if hasattr(ib.AHAttr, name)}
    changed = changed if changed in f else "hop_limit"
    attr = ib.AHAttr(**f)
    for same in [*copies(attr), ib.AHAttr(**f)]:
        assert type(same) is ib.AHAttr and same == attr
        for name, value in f.items():
            assert getattr(same, name) == (value if value is not None else getattr(attr, name))
    assert "AHAttr" in repr(attr)
    for name in {"sl", "dlid", "hop_limit"} & set(f):
        assert name in repr(attr) and str(f[name]) in repr(attr)
    other = copy.copy(attr)
    if changed == "dgid":
        other.dgid = bytes(b ^ 1 for b in (f["dgid"] or bytes(16)))
    elif changed == "is_global":
        other.is_global = 1 - f["is_global"]
    else:
        setattr(other, changed, f[changed] ^ 1)
    assert other != attr
    assert getattr(attr, changed) == (f[changed] if f[changed] is not None else getattr(attr, changed))
    with pytest.raises(TypeError):
        hash(attr)


@pytest.mark.only("ibverbs")
def test_address_attributes_have_the_listed_defaults(ib: Any) -> None:
    attr = ib.AHAttr()
    assert (attr.sgid_index, attr.dlid, attr.is_global, attr.port_num, attr.hop_limit) == (0, 0, 1, 1, 1)
    assert (attr.traffic_class, attr.sl, attr.flow_label, attr.src_path_bits, attr.static_rate) == (0, 0, 0, 0, 0)
    assert ib.AHAttr(bytes(range(16)), 1, 2, 0, 3, 4, 5, 6, 7, 8, 9) == ib.AHAttr(
        dgid=ib.Gid(bytes(range(16))), sgid_index=1, dlid=2, is_global=0, port_num=3, hop_limit=4, traffic_class=5,
        sl=6, flow_label=7, src_path_bits=8, static_rate=9,
    )  # fmt: skip


wc_fields = {
    "wr_id": u64, "status": st.integers(0, 23), "opcode": st.integers(0, 135), "vendor_err": u32, "byte_len": u32,
    "imm_data": u32, "qp_num": u32, "src_qp": u32, "wc_flags": st.integers(0, 127),
}  # fmt: skip


@examples
@given(st.fixed_dictionaries(wc_fields))
def test_completions_are_values(ib: Any, f: dict[str, int]) -> None:
    wc = ib.WC(**f)
    for same in [*copies(wc), ib.WC(**f)]:
        assert type(same) is ib.WC and same == wc and hash(same) == hash(wc)
        assert all(getattr(same, name) == value for name, value in f.items())
    assert ib.WC(**{**f, "wr_id": f["wr_id"] ^ 1}) != wc
    assert "WC" in repr(wc) and str(f["wr_id"]) in repr(wc)
    assert wc.is_success == (f["status"] == 0)
    if wc.is_success:
        assert wc.raise_for_status() is None
    else:
        with pytest.raises(ib.CompletionError) as caught:
            wc.raise_for_status()
        assert caught.value.wc == wc
    with pytest.raises(AttributeError):
        wc.wr_id = 1


@examples
@given(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=20), u64)
def test_devices_are_values(ib: Any, name: str, guid: int) -> None:
    device = ib.Device(name, guid)
    for same in copies(device):
        assert type(same) is ib.Device and same == device and hash(same) == hash(device)
        assert (same.name, same.guid) == (name, guid)
    assert ib.Device(name, guid ^ 1) != device
    assert "Device" in repr(device)
    raw = guid.to_bytes(8, "little")
    assert device.guid_str == ":".join(raw[i : i + 2].hex() for i in (0, 2, 4, 6))


@pytest.mark.needs("stub")
def test_answers_of_queries_are_values(rig: Rig) -> None:
    qp = rig.qp()
    more = [rig.ctx.query_efa_device()] if rig.efa else []
    for value in (rig.ctx.query_device(), rig.ctx.query_port(1), qp.query()[1], *more):
        for same in copies(value):
            assert type(same) is type(value) and same == value
            for name in dir(value):
                if not name.startswith("_"):
                    assert getattr(same, name) == getattr(value, name), name
        assert type(value).__name__ in repr(value)
        assert value != 7
        try:
            assert hash(value) == hash(copy.copy(value))
        except TypeError:
            pass
    before = rig.ctx.query_port(1)
    assert rig.ctx.query_port(1) == before
    rig.stub.set_port(2 if rig.efa else 0, 1, lid=77)
    assert rig.ctx.query_port(1).lid == 77 and rig.ctx.query_port(1) != before


@examples
@given(u64, st.integers(0, 2**32 - 1), u32)
def test_entries_are_copied_whole(ib: Any, addr: int, length: int, lkey: int) -> None:
    sge = ib.SGE(addr, length, lkey)
    assert "SGE" in repr(sge)
    for text in (str(length), str(lkey)):
        assert text in repr(sge) or hex(int(text)) in repr(sge)


def test_requests_have_the_listed_defaults_and_a_repr(ib: Any) -> None:
    w = ib.SendWR()
    opcode = 2 if is_efa(ib) else 0
    assert (w.wr_id, w.sg_list, w.opcode, w.send_flags, w.remote_addr, w.rkey) == (0, [], opcode, 0, 0, 0)
    assert (w.imm_data, w.ah, w.remote_qpn, w.remote_qkey) == (0, None, 0, 0)
    assert is_efa(ib) or (w.compare_add, w.swap) == (0, 0)
    r = ib.RecvWR()
    assert (r.wr_id, r.sg_list) == (0, [])
    assert "SendWR" in repr(w) and "RecvWR" in repr(r)
    assert "0x" in repr(ib.SendWR(rkey=255)) or "255" in repr(ib.SendWR(rkey=255))


@pytest.mark.only("ibverbs")
def test_requests_take_their_parameters_in_the_listed_order(ib: Any) -> None:
    sge = ib.SGE(1, 2, 3)
    w = ib.SendWR(1, (sge,), 2, 3, 4, 5, 6, 7, 8, None, 9, 10)
    assert (w.wr_id, w.opcode, w.send_flags, w.remote_addr, w.rkey, w.imm_data) == (1, 2, 3, 4, 5, 6)
    assert (w.compare_add, w.swap, w.ah, w.remote_qpn, w.remote_qkey) == (7, 8, None, 9, 10)
    assert w.sg_list == [sge] and w.sg_list[0] is sge
    with pytest.raises(TypeError):
        ib.SendWR(*range(13))
    with pytest.raises(TypeError):
        ib.SendWR(wrid=1)
    with pytest.raises(TypeError):
        ib.SendWR(1, wr_id=1)
    with pytest.raises(TypeError):
        ib.RecvWR(1, [], 2)


@examples
@given(st.sampled_from([1, 2, 9, 12, 16, 22, 95, 110, 524, 100000]), st.none() | st.text(max_size=20))
def test_verbs_errors_are_os_errors_that_pickle_and_copy(ib: Any, err: int, detail: Any) -> None:
    error = error_of(ib)("ibv_reg_mr", err, detail)
    assert isinstance(error, OSError) and not isinstance(error, RuntimeError)
    for same in [error, *copies(error)]:
        assert type(same) is error_of(ib)
        assert (same.operation, same.errno, same.strerror) == ("ibv_reg_mr", err, error.strerror)
        assert str(same) == str(error)
    assert "ibv_reg_mr" in str(error) and isinstance(error.strerror, str) and error.strerror
    if detail:
        assert detail in str(error)


def test_errors_keep_what_was_added_through_pickle(ib: Any) -> None:
    for error in (
        error_of(ib)("ibv_post_send", errno.ENOMEM),
        ib.CompletionError(ib.WC(status=12)),
        ib.RangeError("x"),
    ):
        error.index, error.posted = 3, 2
        error.note = "added"
        for same in copies(error):
            assert (same.index, same.posted, same.note) == (3, 2, "added")


def test_every_exception_pickles_and_copies(ib: Any) -> None:
    wc = ib.WC(status=12, wr_id=5, vendor_err=7)
    errors = [
        error_of(ib)("ibv_x", 5),
        error_of(ib)(operation="ibv_x", err=5, detail="why"),
        ib.UnsupportedError("ibv_y", errno.EOPNOTSUPP, "why"),
        ib.RangeError("too much"),
        ib.CompletionError(wc),
        ib.CompletionError(wc=wc),
    ]
    for error in errors:
        for same in copies(error):
            assert type(same) is type(error) and str(same) == str(error)
            assert getattr(same, "errno", None) == getattr(error, "errno", None)
    for same in copies(ib.CompletionError(wc)):
        assert (same.wc, same.status, same.vendor_err, same.errno) == (wc, 12, 7, errno.EIO)


def test_an_error_put_in_the_place_of_its_own_completion_does_not_ask_itself_without_end(ib: Any) -> None:
    error = ib.CompletionError(ib.WC(status=12))
    error._wc = error
    for name in ("wc", "status", "first_error", "vendor_err"):
        with pytest.raises(TypeError, match="_wc must be a WC, not CompletionError"):
            getattr(error, name)
    with pytest.raises(TypeError, match="_wc must be a WC"):
        error.__reduce__()


def test_the_tree_of_exceptions(ib: Any) -> None:
    assert issubclass(error_of(ib), OSError)
    assert issubclass(ib.UnsupportedError, error_of(ib)) and issubclass(ib.UnsupportedError, RuntimeError)
    assert issubclass(ib.RangeError, OverflowError) and issubclass(ib.RangeError, ValueError)
    assert issubclass(ib.CompletionError, error_of(ib))
    for cls in (error_of(ib), ib.UnsupportedError, ib.RangeError, ib.CompletionError):
        assert cls.__module__ == ib.__name__

        class Mine(cls):  # type: ignore[misc, valid-type]
            pass

    with pytest.raises(TypeError):
        error_of(ib)()
    with pytest.raises(TypeError):
        error_of(ib)("op")
    with pytest.raises(TypeError):
        error_of(ib)("op", "x")
    with pytest.raises(TypeError):
        ib.CompletionError()
    with pytest.raises(TypeError):
        ib.CompletionError(7)


@pytest.mark.parametrize("err", [-1, 2**31, 2**70])
def test_an_error_number_that_no_int_holds_is_a_range_error(ib: Any, err: int) -> None:
    with pytest.raises(ib.RangeError, match=rf"err must be between 0 and 2147483647, got {err}"):
        error_of(ib)("ibv_x", err)


@pytest.mark.only("ibverbs")
def test_query_port_needs_its_port(stub: Any, ib: Any) -> None:
    with open_device(ib) as ctx:
        with pytest.raises(TypeError, match="port_num"):
            ctx.query_port()


def test_the_message_of_an_error_names_call_and_error(ib: Any) -> None:
    words = str(error_of(ib)("ibv_reg_mr", errno.ENOMEM, "the limit is 7"))
    assert "ibv_reg_mr" in words and os.strerror(errno.ENOMEM) in words and "the limit is 7" in words


@pytest.mark.only("ibverbs")
def test_qp_init_attr_is_plain_and_writable(ib: Any) -> None:
    a, b = object(), object()
    attr = ib.QPInitAttr(a, b)
    assert (attr.send_cq, attr.recv_cq, attr.qp_type, attr.max_send_wr, attr.max_recv_wr) == (a, b, 2, 128, 128)
    assert (attr.max_send_sge, attr.max_recv_sge, attr.max_inline_data, attr.srq, attr.sq_sig_all) == (
        1, 1, 0, None, False,
    )  # fmt: skip
    for name in (
        "send_cq", "recv_cq", "qp_type", "max_send_wr", "max_recv_wr", "max_send_sge", "max_recv_sge",
        "max_inline_data", "srq", "sq_sig_all",
    ):  # fmt: skip
        setattr(attr, name, 5)
        assert getattr(attr, name) == (True if name == "sq_sig_all" else 5)
    assert "QPInitAttr" in repr(attr)


def test_an_error_can_be_derived_from_beside_another(ib: Any) -> None:
    class Lost(ConnectionResetError, error_of(ib)):  # type: ignore[misc]
        """The other base is the first, and the one that the memory's layout comes from."""

        def __init__(self, *args: Any) -> None:
            error_of(ib).__init__(self, *args)

    error = Lost("ibv_post_send", errno.ECONNRESET, "the peer is gone")
    assert (error.operation, error.detail, error.errno) == ("ibv_post_send", "the peer is gone", errno.ECONNRESET)
    assert isinstance(error, ConnectionResetError) and isinstance(error, error_of(ib))
    copied = copy.copy(error)
    assert (type(copied), copied.operation, copied.errno) == (Lost, "ibv_post_send", errno.ECONNRESET)


def test_a_device_name_too_long_for_its_field_is_a_range_error(ib: Any) -> None:
    assert ib.Device("d" * 63, 1).name == "d" * 63
    with pytest.raises(ib.RangeError, match="name.*63.*64"):
        ib.Device("d" * 64, 1)
    with pytest.raises(ValueError, match="NUL"):
        ib.Device("d\0", 1)
