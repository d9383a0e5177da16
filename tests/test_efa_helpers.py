# SPDX-License-Identifier: BSD-3-Clause
"""EndpointInfo, Peer, and the cutting of long transfers: properties of values, which need no device."""

from __future__ import annotations

import copy
import errno
import pickle
import struct
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stub_fixtures import Rig, examples

pytestmark = pytest.mark.only("efa")

gids = st.binary(min_size=16, max_size=16)
qpns, qkeys = st.integers(0, 2**24 - 1), st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)
GB = 2**30


# ---- EndpointInfo ------------------------------------------------------------------------------------------------


@examples
@given(gids, qpns, qkeys)
def test_an_endpoint_travels_in_24_bytes_of_network_order(ib: Any, gid: bytes, qp_num: int, qkey: int) -> None:
    info = ib.EndpointInfo(gid, qp_num, qkey)
    data = info.to_bytes()
    assert data == gid + struct.pack("!II", qp_num, qkey) and type(data) is bytes
    for raw in (data, bytearray(data), memoryview(data)):
        assert ib.EndpointInfo.from_bytes(raw) == info
    assert (info.gid, info.qp_num, info.qkey) == (gid, qp_num, qkey)
    for same in (copy.copy(info), copy.deepcopy(info), pickle.loads(pickle.dumps(info))):
        assert type(same) is ib.EndpointInfo and same == info
    assert str(qp_num) in repr(info) or hex(qp_num) in repr(info)
    assert ib.EndpointInfo(ib.Gid(gid), qp_num, qkey) == info


@examples
@given(st.binary(max_size=60).filter(lambda b: len(b) != 24))
def test_any_other_length_is_a_value_error(ib: Any, data: bytes) -> None:
    with pytest.raises(ValueError, match="24"):
        ib.EndpointInfo.from_bytes(data)


@examples
@given(st.binary(min_size=24, max_size=24))
def test_24_bytes_are_an_endpoint_or_a_value_error(ib: Any, data: bytes) -> None:
    try:
        info = ib.EndpointInfo.from_bytes(data)
    except ValueError:
        assert data[16], "a queue pair number of 24 bits was refused"
    else:
        assert not data[16] and info.to_bytes() == data


def test_fields_are_checked_whenever_they_are_set(ib: Any) -> None:
    info = ib.EndpointInfo(bytes(16), 1, 2)
    for name, bad in {"qp_num": (-1, 2**24, 2**70), "qkey": (-1, 2**32), "gid": (bytes(15), bytes(17), b"")}.items():
        for value in bad:
            before = getattr(info, name)
            with pytest.raises(ValueError):
                setattr(info, name, value)
            assert getattr(info, name) == before
            with pytest.raises(ValueError):
                ib.EndpointInfo(**{"gid": bytes(16), "qp_num": 1, "qkey": 2, name: value})
    for name, wrong in {"qp_num": ("1", 1.0, None), "qkey": ("1", None), "gid": ("0" * 16, 16, None)}.items():
        for value in wrong:
            with pytest.raises(TypeError):
                setattr(info, name, value)
    info.gid = bytearray(range(16))
    assert info.gid == bytes(range(16)) and type(info.gid) is bytes


# ---- cutting -----------------------------------------------------------------------------------------------------


class Region:
    """What serves as an MR, of any size: nothing is registered."""

    def __init__(self, addr: int, length: int) -> None:
        self.addr, self.length, self.lkey = addr, length, 0x77


sizes = st.one_of(
    st.integers(1, 5000),
    st.sampled_from([n * GB + d for n in (1, 2, 4, 5, 9) for d in (-1, 0, 1)]),
    st.integers(1, 40 * GB),
)


@pytest.mark.needs("stub")
@examples
@given(st.data(), sizes, st.booleans())
def test_pieces_cover_the_range_without_gaps_or_overlaps(rig: Rig, data: Any, length: int, reads: bool) -> None:
    """Every byte exactly once, each piece where it belongs, numbered in order, none longer than a chunk or an SGE."""
    ib = rig.ib
    make = ib.read_wrs if reads else ib.write_wrs
    fewest = -(-length // 300)
    around = st.sampled_from([length - 1, length, length + 1])
    chunk = data.draw(st.one_of(st.integers(fewest, length + 2), around), "chunk")
    chunk = min(max(chunk, fewest, 1), 2**32 - 1)
    offset = data.draw(st.integers(0, 2**20), "offset")
    addr = data.draw(st.integers(0, 2**48), "addr")
    remote = data.draw(st.integers(0, 2**64 - 1 - length), "remote")
    first = data.draw(st.integers(0, 2**64 - 400), "wr_id")
    region = Region(addr, offset + length + data.draw(st.integers(0, 10), "rest"))
    dest = SimpleNamespace(ah=rig.to()["ah"], qp_num=5, qkey=6)
    wrs = make(region, dest, remote, 9, length=length, offset=offset, chunk=chunk, wr_id=first)
    at, there = addr + offset, remote
    for i, wr in enumerate(wrs):
        (sge,) = wr.sg_list
        assert (sge.addr, wr.remote_addr, sge.lkey) == (at, there, 0x77)
        assert 1 <= sge.length <= chunk
        assert sge.length == chunk or wr is wrs[-1]
        assert (wr.wr_id, wr.rkey, wr.remote_qpn, wr.remote_qkey) == (first + i, 9, 5, 6)
        assert wr.opcode == (ib.WROpcode.RDMA_READ if reads else ib.WROpcode.RDMA_WRITE)
        assert wr.send_flags == ib.SendFlags.SIGNALED and wr.ah is dest.ah
        at, there = at + sge.length, there + sge.length
    assert at == addr + offset + length and len(wrs) == -(-length // chunk)


@pytest.mark.needs("stub")
@pytest.mark.parametrize("chunk", [1, 2, 7, 4096])
@pytest.mark.parametrize("off", [-1, 0, 1])
def test_the_boundaries_of_a_chunk(rig: Rig, chunk: int, off: int) -> None:
    length = 3 * chunk + off
    dest = SimpleNamespace(ah=rig.to()["ah"], qp_num=5, qkey=6)
    wrs = rig.ib.write_wrs(Region(0, length), dest, 0, 0, chunk=chunk)
    pieces = [wr.sg_list[0].length for wr in wrs]
    assert sum(pieces) == length and pieces[:-1] == [chunk] * (len(pieces) - 1)
    assert len(pieces) == (3 if off <= 0 else 4) - (off < 0 and chunk == 1)


@pytest.mark.needs("stub")
def test_more_than_four_gigabytes_go_in_pieces_of_one_each_by_default(rig: Rig) -> None:
    dest = SimpleNamespace(ah=rig.to()["ah"], qp_num=5, qkey=6)
    length = 5 * GB + 17
    wrs = rig.ib.write_wrs(Region(1 << 40, length), dest, 1 << 50, 3)
    assert [(wr.sg_list[0].addr - (1 << 40), wr.sg_list[0].length, wr.remote_addr - (1 << 50)) for wr in wrs] == [
        (i * GB, GB if i < 5 else 17, i * GB) for i in range(6)
    ]
    assert [wr.wr_id for wr in wrs] == list(range(6))


@pytest.mark.needs("stub")
def test_ranges_outside_of_the_region_are_value_errors(rig: Rig) -> None:
    dest = SimpleNamespace(ah=rig.to()["ah"], qp_num=5, qkey=6)
    region = Region(0, 1000)
    for make in (rig.ib.write_wrs, rig.ib.read_wrs):
        for options in (
            {"length": 0}, {"length": -1}, {"length": 1001}, {"length": 1, "offset": 1000}, {"offset": 1000},
            {"offset": -1}, {"length": 500, "offset": 501}, {"chunk": 0}, {"chunk": -1}, {"length": 2**65},
        ):  # fmt: skip
            with pytest.raises(ValueError):
                make(region, dest, 0, 0, **options)
        odd: list[dict[str, Any]] = [{"length": 1.5}, {"offset": "1"}, {"chunk": None}, {"wr_id": 1.0}]
        for wrong in odd:
            with pytest.raises(TypeError):
                make(region, dest, 0, 0, **wrong)
        assert [wr.sg_list[0].length for wr in make(region, dest, 0, 0, length=1, offset=999)] == [1]
        for no_region in (object(), None, 5, SimpleNamespace(addr=0, length="1", lkey=0)):
            with pytest.raises(TypeError, match="mr must be an MR|integer"):
                make(no_region, dest, 0, 0)
        with pytest.raises(TypeError):
            make(region, object(), 0, 0)


@pytest.mark.needs("stub")
def test_remote_addresses_and_numbers_that_do_not_fit_are_refused_and_never_cut(rig: Rig) -> None:
    dest = SimpleNamespace(ah=rig.to()["ah"], qp_num=5, qkey=6)
    region = Region(0, 1000)
    for arguments, options in (
        ((2**64 - 10, 0), {"chunk": 5}), ((2**64, 0), {}), ((-1, 0), {}), ((0, 2**32), {}),
        ((0, 0), {"wr_id": 2**64 - 1, "chunk": 100}), ((0, 0), {"wr_id": -1}),
    ):  # fmt: skip
        with pytest.raises(ValueError):
            rig.ib.write_wrs(region, dest, *arguments, **options)


@pytest.mark.needs("stub")
def test_a_registered_region_is_kept_by_its_requests_and_found_when_closed(rig: Rig) -> None:
    mr = rig.pd.reg_mr(0x1000, 4096, 1)
    dest = SimpleNamespace(ah=rig.to()["ah"], qp_num=5, qkey=6)
    wrs = rig.ib.write_wrs(mr, dest, 0, 0, chunk=1000)
    assert all(wr.sg_list[0].owner is mr for wr in wrs)
    qp = rig.qp()
    qp.post_send(wrs)
    rig.drain()
    mr.close()
    with pytest.raises(rig.Error) as caught:
        qp.post_send(wrs)
    assert caught.value.errno == errno.EBADF
    with pytest.raises(rig.Error):
        rig.ib.write_wrs(mr, dest, 0, 0)


# ---- Peer --------------------------------------------------------------------------------------------------------


@pytest.mark.needs("stub")
def test_a_peer_owns_its_address_handle(rig: Rig) -> None:
    ib = rig.ib
    before = rig.stub.live("ah")
    with ib.EndpointInfo(bytes(range(16)), 7, 8).peer(rig.pd) as peer:
        assert rig.stub.live("ah") == before + 1
        assert bytes(rig.stub.last_ah().grh.dgid) == bytes(range(16)) and rig.stub.last_ah().is_global == 1
        assert (peer.qp_num, peer.qkey) == (7, 8) and type(peer.ah) is ib.AH
        wr = ib.SendWR(dest=peer)
        assert (wr.ah, wr.remote_qpn, wr.remote_qkey) == (peer.ah, 7, 8)
    assert peer.ah is None and wr.ah.closed and rig.stub.live("ah") == before
    peer.close()
    with pytest.raises(ValueError, match="dest"):
        ib.SendWR(dest=peer)
    dropped = ib.EndpointInfo(bytes(range(16)), 1, 2).peer(rig.pd)
    del dropped
    assert rig.stub.live("ah") == before


@pytest.mark.needs("stub")
def test_a_closed_peer_is_not_entered(rig: Rig) -> None:
    peer = rig.ib.EndpointInfo(bytes(range(16)), 7, 8).peer(rig.pd)
    peer.close()
    with pytest.raises(rig.Error, match="Peer is closed") as caught:
        peer.__enter__()
    assert (caught.value.errno, caught.value.operation) == (errno.EBADF, "Peer.__enter__")


@pytest.mark.needs("stub")
def test_a_peer_may_be_closed_by_several_threads_at_once(rig: Rig) -> None:
    """What one looked at, another may have let go of: seen here as an attribute that changes from look to look."""

    class Elsewhere(rig.ib.Peer):  # type: ignore[name-defined,misc]
        looks = 0

        @property
        def ah(self) -> Any:
            self.looks += 1
            return handle if self.looks == 1 else None

    handle = rig.to()["ah"]
    assert not Elsewhere(handle, 1, 2).closed
    Elsewhere(handle, 1, 2).close()
    assert handle.closed


@pytest.mark.needs("stub")
def test_a_class_over_peer_is_asked_for_what_it_says(rig: Rig) -> None:
    class Rail(rig.ib.Peer):  # type: ignore[name-defined,misc]
        @property
        def qp_num(self) -> int:
            return 77

    handle = rig.to()["ah"]
    wr = rig.ib.SendWR(dest=Rail(handle, 1, 2))
    assert (wr.ah, wr.remote_qpn, wr.remote_qkey) == (handle, 77, 2)


@pytest.mark.needs("stub")
def test_thousands_of_peers(rig: Rig) -> None:
    """Of hundreds of instances each has several: one handle, one request, and nothing left of any."""
    ib, count = rig.ib, 5000
    before = rig.stub.live("ah")
    peers = [ib.EndpointInfo(i.to_bytes(16, "big"), i, i ^ 0xFF).peer(rig.pd) for i in range(1, count + 1)]
    assert rig.stub.live("ah") == before + count
    with pytest.raises(rig.Error) as caught:
        rig.pd.close()
    assert caught.value.errno == errno.EBUSY and f"{count}" in str(caught.value)
    qp = rig.qp()
    rig.stub.capture()
    for start in range(0, count, 500):
        qp.post_send([ib.SendWR(p.qp_num, [rig.mr.sge(8)], 2, 2, dest=p) for p in peers[start : start + 500]])
        assert len(rig.cq.poll(1000)) == 500
    assert [(g.wr.wr_id, g.to) for g in rig.stub.captured()] == [
        (p.qp_num, (p.ah.ptr, p.qp_num, p.qkey)) for p in peers
    ]
    for peer in peers[::2]:
        peer.close()
    del peers, peer
    assert rig.stub.live("ah") == before


def test_capabilities_are_those_of_a_context(ib: Any) -> None:
    for wrong in (5, "efa_0", ib.Gid(bytes(16))):
        with pytest.raises(TypeError, match="context must be a Context or None"):
            ib.capabilities(wrong)


@pytest.mark.needs("stub")
def test_an_endpoint_of_a_queue_pair(rig: Rig) -> None:
    ib, qp = rig.ib, rig.qp()
    gid = bytes(rig.ctx.query_gid())
    assert ib.local_endpoint_info(qp, 5) == ib.EndpointInfo(gid, qp.qp_num, 5)
    assert ib.local_endpoint_info(qp, 6, gid=bytes(16)).gid == bytes(16)
    with pytest.raises(rig.Error):
        ib.local_endpoint_info(qp, 5, gid_index=99)
    with pytest.raises(TypeError):
        ib.local_endpoint_info(qp, 5, bytes(16))


@pytest.mark.needs("stub")
def test_address_handles_are_made_of_what_was_given(rig: Rig) -> None:
    ib = rig.ib
    gid = bytes(range(16))
    for addr in (gid, bytearray(gid), ib.Gid(gid), ib.AHAttr(gid)):
        with rig.pd.create_ah(addr) as ah:
            attr = rig.stub.last_ah()
            assert (bytes(attr.grh.dgid), attr.is_global, attr.port_num, attr.grh.sgid_index) == (gid, 1, 1, 0)
            assert ah.pd is rig.pd
    with rig.pd.create_ah(gid, sgid_index=3, port_num=1):
        assert rig.stub.last_ah().grh.sgid_index == 3
    with rig.pd.create_ah(ib.AHAttr(gid, 1, 1, 9, 8, 7)):
        attr = rig.stub.last_ah()
        assert (attr.grh.sgid_index, attr.grh.hop_limit, attr.grh.traffic_class, attr.grh.flow_label) == (1, 9, 8, 7)
    for bad in (bytes(15), bytes(17)):
        with pytest.raises(ValueError):
            rig.pd.create_ah(bad)
