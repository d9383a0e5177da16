# SPDX-License-Identifier: BSD-3-Clause
"""QPInfo: a mutable value, checked whenever it changes, and 28 bytes that every peer reads alike."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import struct
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.only("ibverbs")

ibverbs = pytest.importorskip("ibverbs")
from ibverbs import MTU, Gid, QPInfo  # noqa: E402

local_qp_info: Any = ibverbs.local_qp_info  # which is given things that only look like queue pairs

GID = bytes(range(16))
LIMITS = {"qp_num": (0, 2**24 - 1), "psn": (0, 2**24 - 1), "lid": (0, 2**16 - 1), "port": (1, 255), "mtu": (1, 5)}
examples = settings(deadline=None, database=None)


def info(**changes: Any) -> QPInfo:
    return QPInfo(**{"qp_num": 0x123456, "psn": 0xABCDEF, "lid": 0x77, "gid": GID, "port": 1, "mtu": 3, **changes})


infos = st.builds(
    QPInfo,
    gid=st.binary(min_size=16, max_size=16),
    **{name: st.integers(*limits) for name, limits in LIMITS.items()},
)

# ---- the wire ------------------------------------------------------------------------------------------------------


def test_the_bytes_are_the_fields_in_network_order() -> None:
    assert info().to_bytes() == bytes.fromhex("00123456 00abcdef 0077 000102030405060708090a0b0c0d0e0f 01 03")


@examples
@given(infos)
def test_what_is_sent_is_what_arrives(value: QPInfo) -> None:
    data = value.to_bytes()
    assert len(data) == 28
    assert data == struct.pack("!IIH16sBB", value.qp_num, value.psn, value.lid, value.gid, value.port, value.mtu)
    assert QPInfo.from_bytes(data) == value


@examples
@given(st.binary(max_size=64))
def test_any_bytes_are_a_qpinfo_or_a_value_error(data: bytes) -> None:
    try:
        value = QPInfo.from_bytes(data)
    except ValueError:
        return
    assert value.to_bytes() == data


@examples
@given(st.binary(min_size=28, max_size=28))
def test_bytes_of_the_right_length_are_refused_for_their_fields_only(data: bytes) -> None:
    fields = dict(zip(("qp_num", "psn", "lid", "gid", "port", "mtu"), struct.unpack("!IIH16sBB", data)))
    wrong = [name for name, (least, most) in LIMITS.items() if not least <= fields[name] <= most]
    if wrong:
        with pytest.raises(ValueError, match=wrong[0]):
            QPInfo.from_bytes(data)
    else:
        assert dataclasses.asdict(QPInfo.from_bytes(data)) == fields


@pytest.mark.parametrize("length", [0, 1, 27, 29, 56])
def test_another_length_is_a_value_error(length: int) -> None:
    with pytest.raises(ValueError, match="28 bytes"):
        QPInfo.from_bytes(bytes(length))


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_bytes_of_any_kind_are_read(wrap: Any) -> None:
    assert QPInfo.from_bytes(wrap(info().to_bytes())) == info()
    assert QPInfo.from_bytes(data=wrap(info().to_bytes())) == info()


@pytest.mark.parametrize("data", ["x" * 28, 28, None, [0] * 28])
def test_what_is_not_bytes_is_a_type_error(data: Any) -> None:
    with pytest.raises(TypeError):
        QPInfo.from_bytes(data)


# ---- the fields ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LIMITS)
def test_a_field_takes_its_range_and_nothing_beyond(name: str) -> None:
    least, most = LIMITS[name]
    value = info()
    for number in (least, most):
        setattr(value, name, number)
        assert getattr(value, name) == number == getattr(info(**{name: number}), name)
    for number in (least - 1, most + 1, -(2**70), 2**70):
        with pytest.raises(ValueError, match=rf"{name} must be between {least} and {most}, got {number}"):
            setattr(value, name, number)
        with pytest.raises(ibverbs.RangeError):
            info(**{name: number})
    assert getattr(value, name) == most


@examples
@given(st.sampled_from(sorted(LIMITS)), st.integers())
def test_any_integer_is_kept_or_refused(name: str, number: int) -> None:
    least, most = LIMITS[name]
    if least <= number <= most:
        assert getattr(info(**{name: number}), name) == number
    else:
        with pytest.raises(ValueError):
            info(**{name: number})


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("value", ["1", 1.0, None, b"1"])
def test_a_field_of_another_type_is_a_type_error(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"QPInfo.{name} must be an integer, not {type(value).__name__}"):
        info(**{name: value})
    with pytest.raises(TypeError):
        setattr(info(), name, value)


def test_enum_members_become_plain_integers() -> None:
    assert type(info(mtu=MTU.MTU_4096).mtu) is int


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, Gid], ids=lambda w: w.__name__)
def test_a_gid_of_any_kind_is_kept_as_bytes(wrap: Any) -> None:
    value = info(gid=wrap(GID))
    assert type(value.gid) is bytes and value.gid == GID
    value.gid = bytes(16)
    value.gid = wrap(GID)
    assert type(value.gid) is bytes and value == info()


def test_a_gid_is_copied() -> None:
    gid = bytearray(GID)
    value = info(gid=gid)
    gid[0] = 0xFF
    assert value.gid == GID


@pytest.mark.parametrize("gid", [b"", bytes(15), bytes(17), bytearray(28)])
def test_a_gid_of_another_length_is_a_value_error(gid: Any) -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        info(gid=gid)
    with pytest.raises(ValueError, match="16 bytes"):
        info().gid = gid


@pytest.mark.parametrize("gid", ["fe80::1", 16, None, [0] * 16])
def test_a_gid_of_another_type_is_a_type_error(gid: Any) -> None:
    with pytest.raises(TypeError):
        info(gid=gid)


# ---- the value -----------------------------------------------------------------------------------------------------


def test_it_is_compared_by_value() -> None:
    assert info() == info() and not info() != info()
    for name in ("qp_num", "psn", "lid", "port", "mtu"):
        assert info() != info(**{name: 2})
    assert info() != info(gid=bytes(16)) and info() != object()


def test_it_is_mutable_and_so_has_no_hash() -> None:
    with pytest.raises(TypeError):
        hash(info())


def test_it_is_a_dataclass() -> None:
    assert [f.name for f in dataclasses.fields(QPInfo)] == ["qp_num", "psn", "lid", "gid", "port", "mtu"]
    assert dataclasses.replace(info(), psn=9) == info(psn=9)
    assert dataclasses.asdict(info())["gid"] == GID
    with pytest.raises(ValueError):
        dataclasses.replace(info(), psn=-1)


def test_its_repr_makes_it_again() -> None:
    assert eval(repr(info()), {"QPInfo": QPInfo}) == info()


@examples
@given(infos)
def test_it_pickles_and_copies(value: QPInfo) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(value, protocol))
        assert again == value and type(again) is QPInfo
    assert copy.copy(value) == copy.deepcopy(value) == value


def test_a_subclass_reads_itself() -> None:
    class Extended(QPInfo):
        pass

    assert type(Extended.from_bytes(info().to_bytes())) is Extended


def test_positions_are_those_of_the_wire() -> None:
    assert QPInfo(0x123456, 0xABCDEF, 0x77, GID, 1, 3) == info()


# ---- local_qp_info -------------------------------------------------------------------------------------------------


def test_local_qp_info_takes_each_field_from_its_place() -> None:
    qp, port_attr = SimpleNamespace(qp_num=17), SimpleNamespace(lid=4, active_mtu=5)
    assert local_qp_info(qp, port_attr, Gid(GID), port=2) == QPInfo(17, 0, 4, GID, 2, 5)
    assert local_qp_info(qp, port_attr, GID, port=2, psn=99) == QPInfo(17, 99, 4, GID, 2, 5)
    with pytest.raises(TypeError):
        local_qp_info(qp, port_attr, GID, 2)
    with pytest.raises(ValueError):
        local_qp_info(qp, port_attr, GID, port=0)
