# SPDX-License-Identifier: BSD-3-Clause
"""Whole GID tables, and the choice of an entry: the right one, with the reason, or each with the reason against it."""

from __future__ import annotations

import copy
import errno
import ipaddress
import os
import pickle
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from packages import error_of
from place import Node
from stub_fixtures import Rig

IB, ROCE_V1, ROCE_V2 = 0, 1, 2


def read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


# ---- the table ------------------------------------------------------------------------------------------------------


@pytest.mark.needs("device")
class TestOnADevice:
    def test_it_has_every_entry_that_is_not_empty(self, ctx: Any, node: Node) -> None:
        length = ctx.query_port(node.port).gid_tbl_len
        gids = [(i, ctx.query_gid(node.port, i)) for i in range(length)]
        table = ctx.query_gid_table(node.port)
        assert [(e.gid_index, e.gid) for e in table] == [(i, gid) for i, gid in gids if any(bytes(gid))]
        assert all(e.port_num == node.port for e in table)

    def test_types_and_network_devices_are_those_of_sysfs(self, ib: Any, ctx: Any, node: Node) -> None:
        attrs = f"{node.sysfs}/ports/{node.port}/gid_attrs"
        for entry in ctx.query_gid_table(node.port):
            said = read(f"{attrs}/types/{entry.gid_index}")
            assert ib.GidType(entry.gid_type) == entry.gid_type
            assert entry.gid_type_str == said or said in ("", "IB/RoCE v1")
            assert entry.netdev == read(f"{attrs}/ndevs/{entry.gid_index}")
            assert bool(entry.ndev_ifindex) == bool(entry.netdev)

    def test_a_port_that_is_not_there_raises(self, ib: Any, ctx: Any) -> None:
        with pytest.raises(error_of(ib), match="port 9") as caught:
            ctx.query_gid_table(9)
        assert caught.value.operation == "ibv_query_gid_table" and caught.value.errno == errno.EINVAL

    @pytest.mark.needs("roce")
    def test_the_choice_reaches_beyond_the_link(self, ib: Any, ctx: Any, node: Node) -> None:
        choice = ib.select_gid(ctx, node.port)
        assert choice.gid_index == node.gid_index and bytes(choice.gid) == node.gid
        assert choice.entry.gid_type == ROCE_V2

    @pytest.mark.needs("roce", "rc")
    def test_what_is_chosen_connects(self, ib: Any, make: Any, node: Node) -> None:
        a, b = make(), make()
        index = ib.select_gid(a.ctx, node.port, family=socket.AF_INET, netdev=node.netdev or None).gid_index
        for end, peer in ((a, b), (b, a)):
            ib.connect_rc(end.qp, peer.info(), port=node.port, sgid_index=index, access=7)
        a.do(a.write_wr(b))


class TestOnTheStub:
    def test_ports_have_tables_of_their_own(self, ib: Any, stub: Any) -> None:
        with ib.get_device_list()[1].open() as ctx:
            for port in (1, 2):
                assert [e.port_num for e in ctx.query_gid_table(port)] == [port]
                assert [e.gid_type for e in ctx.query_gid_table(port)] == [IB]

    def test_an_empty_table_is_an_empty_list(self, rig: Rig) -> None:
        for i in range(8):
            rig.stub.set_gid(int(rig.ctx.name[-1]), i, bytes(16))
        assert rig.ctx.query_gid_table(1) == []

    @pytest.mark.parametrize("verb", ["query_gid_table", "query_device", "query_port"])
    def test_a_failure_is_raised_with_the_port(self, rig: Rig, verb: str) -> None:
        rig.stub.fail(verb, errno.EIO)
        with pytest.raises(error_of(rig.ib), match=f"port 1 of {rig.ctx.name}") as caught:
            rig.ctx.query_gid_table(1)
        assert caught.value.errno == errno.EIO and caught.value.operation == "ibv_query_gid_table"

    def test_of_a_closed_context_it_is_ebadf(self, rig: Rig, ib: Any) -> None:
        ctx = ib.get_device_list()[0].open()
        ctx.close()
        with pytest.raises(error_of(ib)) as caught:
            ctx.query_gid_table(1)
        assert caught.value.errno == errno.EBADF

    @pytest.mark.only("ibverbs")
    def test_a_library_without_the_call_is_read_entry_by_entry(self, rig: Rig) -> None:
        old = os.path.join(rig.stub.folder, "old")
        code = (
            "import pickle, sys, ibverbs as ib\n"
            "tables = [d.open().query_gid_table(1) for d in ib.get_device_list()[:2]]\n"
            "sys.stdout.buffer.write(pickle.dumps(tables))\n"
        )
        env = {**os.environ, "RDMA_LIBRARY_PATH": old}
        done = subprocess.run([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, timeout=60, check=True)
        roce, infiniband = pickle.loads(done.stdout)
        here = [d.open().query_gid_table(1) for d in rig.ib.get_device_list()[:2]]
        for theirs, ours in zip((roce, infiniband), here):
            assert [(e.gid_index, e.gid) for e in theirs] == [(e.gid_index, e.gid) for e in ours]
        assert {e.gid_type for e in roce} == {ROCE_V1}, "sysfs says nothing of the stub's devices"
        assert {e.gid_type for e in infiniband} == {IB}


class TestValue:
    def test_it_compares_pickles_and_shows_its_fields(self, ib: Any) -> None:
        entry = ib.GidEntry(gid=bytes(range(16)), gid_index=3, port_num=1, gid_type=2, ndev_ifindex=7, netdev="eth0")
        assert entry == ib.GidEntry(bytes(range(16)), 3, 1, 2, 7, "eth0") != ib.GidEntry(bytes(range(16)), 4, 1, 2, 7)
        for other in (pickle.loads(pickle.dumps(entry)), copy.copy(entry)):
            assert other == entry and hash(other) == hash(entry)
        assert "gid_index=3" in repr(entry) and entry.gid_type_str == "RoCE v2"
        assert ib.GidEntry(gid_type=9).gid_type_str == "unknown"


# ---- the choice -----------------------------------------------------------------------------------------------------


def mapped(address: str) -> bytes:
    return bytes(10) + b"\xff\xff" + ipaddress.IPv4Address(address).packed


def v6(address: str) -> bytes:
    return ipaddress.IPv6Address(address).packed


@pytest.fixture
def nic(ib: Any) -> Any:
    """A NIC with two network devices, as the kernel fills in its port: each address as v1 and as v2."""
    rows: list[Any] = []
    for netdev, addresses in {
        "eth0": [v6("fe80::1"), v6("2001:db8::5"), mapped("10.0.0.1")],
        "eth0.7": [v6("fe80::2"), mapped("10.7.0.1")],
    }.items():
        for address in addresses:
            for kind in (ROCE_V1, ROCE_V2):
                rows.append(ib.GidEntry(address, len(rows), 1, kind, 1, netdev))
    return SimpleNamespace(name="nic0", query_gid_table=lambda port: rows if port == 1 else [])


class TestChoice:
    def test_the_first_is_routable_v2_over_ipv4(self, ib: Any, nic: Any) -> None:
        choice = ib.select_gid(nic, 1)
        assert (choice.gid_index, str(choice.gid)) == (5, "::ffff:10.0.0.1")
        assert choice.entry.netdev == "eth0"

    @pytest.mark.parametrize(
        ("asked", "index"),
        [
            ({"gid_type": ROCE_V1}, 4),
            ({"family": socket.AF_INET6}, 3),
            ({"netdev": "eth0.7"}, 9),
            ({"netdev": "eth0.7", "family": socket.AF_INET6}, 7),
            ({"gid_type": ROCE_V1, "netdev": "eth0.7"}, 8),
            ({"gid": "10.7.0.1"}, 9),
            ({"gid": ipaddress.ip_address("10.7.0.1"), "gid_type": ROCE_V1}, 8),
            ({"gid": "2001:db8::5"}, 3),
            ({"gid": v6("fe80::2")}, 7),
        ],
    )
    def test_what_is_given_must_fit(self, ib: Any, nic: Any, asked: dict[str, Any], index: int) -> None:
        assert ib.select_gid(nic, 1, **asked).gid_index == index

    def test_it_finds_a_value_wherever_it_has_moved_to(self, ib: Any, nic: Any) -> None:
        gid = ib.select_gid(nic, 1).gid
        table = nic.query_gid_table(1)
        moved = [ib.GidEntry(e.gid, e.gid_index + 4, 1, e.gid_type, 1, e.netdev) for e in table]
        nic.query_gid_table = lambda port: moved
        for given in (gid, bytes(gid)):
            assert ib.select_gid(nic, 1, gid=given).gid_index == 9

    def test_infiniband_takes_the_lowest_index(self, ib: Any) -> None:
        rows = [ib.GidEntry(v6(a), i, 1, IB) for i, a in enumerate(("fe80::1", "fec0::1"))]
        choice = ib.select_gid(SimpleNamespace(name="mlx4_0", query_gid_table=lambda port: rows), 1)
        assert choice.gid_index == 0

    def test_the_reason_names_the_entry_and_those_behind_it(self, ib: Any, nic: Any) -> None:
        reason = ib.select_gid(nic, 1, netdev="eth0.7", gid_type=ROCE_V2).reason
        for word in ("index 9", "10.7.0.1", "RoCE v2", "IPv4", "eth0.7", "index 7", "link-local"):
            assert word in reason
        assert "only one" in ib.select_gid(nic, 1, gid="10.7.0.1", gid_type=ROCE_V2).reason


class TestNone:
    def test_every_entry_is_listed_with_the_reason_against_it(self, ib: Any, nic: Any) -> None:
        with pytest.raises(ib.GidNotFoundError) as caught:
            ib.select_gid(nic, 1, family=socket.AF_INET, gid_type=ROCE_V2, netdev="eth1")
        error = caught.value
        assert issubclass(ib.GidNotFoundError, LookupError)
        assert [entry.gid_index for entry, _ in error.passed_over] == list(range(10))
        why = {entry.gid_index: reason for entry, reason in error.passed_over}
        assert why[0] == "is RoCE v1, not RoCE v2"
        assert why[1] == "is IPv6, not IPv4"
        assert why[5] == "is on eth0, not eth1"
        lines = str(error).splitlines()
        assert "port 1 of nic0" in lines[0] and len(lines) == 11
        for (entry, reason), line in zip(error.passed_over, lines[1:]):
            assert str(entry.gid) in line and reason in line

    def test_another_value_names_it(self, ib: Any, nic: Any) -> None:
        with pytest.raises(LookupError, match=r"is not ::ffff:10\.9\.9\.9"):
            ib.select_gid(nic, 1, gid="10.9.9.9")

    def test_an_empty_table_says_so(self, ib: Any, nic: Any) -> None:
        with pytest.raises(LookupError, match="port 2 of nic0.*empty"):
            ib.select_gid(nic, 2)

    def test_infiniband_has_no_families(self, ib: Any) -> None:
        rows = [ib.GidEntry(v6("fe80::1"), 0, 1, IB)]
        with pytest.raises(LookupError, match="no family"):
            ib.select_gid(SimpleNamespace(name="x", query_gid_table=lambda p: rows), 1, family=socket.AF_INET6)

    def test_the_error_pickles(self, ib: Any, nic: Any) -> None:
        with pytest.raises(ib.GidNotFoundError) as caught:
            ib.select_gid(nic, 1, netdev="eth1")
        other = pickle.loads(pickle.dumps(caught.value))
        assert str(other) == str(caught.value) and other.passed_over == caught.value.passed_over


def test_wrong_arguments_are_told(ib: Any, nic: Any) -> None:
    with pytest.raises(ValueError, match="family"):
        ib.select_gid(nic, 1, family=1)
    with pytest.raises(ValueError, match="10.0.0.300"):
        ib.select_gid(nic, 1, gid="10.0.0.300")
    with pytest.raises((ValueError, TypeError)):
        ib.select_gid(nic, 1, gid=b"short")
    with pytest.raises(TypeError, match="gid_type must be an integer, not str"):
        ib.select_gid(nic, 1, gid_type="RoCE v2")
    with pytest.raises(TypeError, match="netdev must be .* not int"):
        ib.select_gid(nic, 1, netdev=3)
