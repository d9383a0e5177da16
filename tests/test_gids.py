# SPDX-License-Identifier: BSD-3-Clause
"""GID tables: what the device answers, and that a Gid goes wherever a GID is taken."""

from __future__ import annotations

import ipaddress
import re
import subprocess
from typing import Any

import pytest
from packages import error_of
from place import Node

pytestmark = pytest.mark.needs("device")


@pytest.mark.needs("devinfo")
def test_entries_are_those_of_devinfo(ctx: Any, node: Node) -> None:
    command = ["ibv_devinfo", "-v", "-d", node.name, "-i", str(node.port)]
    text = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout
    said = re.findall(r"GID\[\s*(\d+)\]:\s*([0-9a-f:.]+)", text)
    assert said
    for index, address in said:
        assert bytes(ctx.query_gid(node.port, int(index))) == ipaddress.IPv6Address(address).packed


def test_an_empty_entry_is_all_zero(ctx: Any, node: Node) -> None:
    length = ctx.query_port(node.port).gid_tbl_len
    entries = [bytes(ctx.query_gid(node.port, i)) for i in range(min(length, 16))]
    if all(map(any, entries)):
        pytest.skip("needs a GID table with an empty entry among the first 16")
    assert bytes(16) in entries


def test_an_index_outside_the_table_raises(ib: Any, ctx: Any, node: Node) -> None:
    outside = ctx.query_port(node.port).gid_tbl_len + 5
    with pytest.raises(error_of(ib)) as caught:
        ctx.query_gid(node.port, outside)
    assert caught.value.operation == "ibv_query_gid"
    assert caught.value.errno


def test_halves_are_big_endian_integers(ctx: Any, node: Node) -> None:
    gid = ctx.query_gid(node.port, 0)
    assert gid.subnet_prefix.to_bytes(8, "big") + gid.interface_id.to_bytes(8, "big") == gid.raw == bytes(gid)


@pytest.mark.needs("roce")
def test_link_local_entry_is_made_from_the_hardware_address(ctx: Any, node: Node) -> None:
    assert ctx.query_gid(node.port, 0).subnet_prefix == 0xFE80000000000000


def test_two_queries_give_equal_gids(ctx: Any, node: Node) -> None:
    one, two = (ctx.query_gid(node.port, node.gid_index) for _ in range(2))
    assert one == two == node.gid
    assert hash(one) == hash(two) == hash(node.gid)
    assert {one: 1}[node.gid] == 1


def test_address_handles_take_a_gid_or_its_bytes(ib: Any, ctx: Any, pd: Any, node: Node) -> None:
    gid = ctx.query_gid(node.port, node.gid_index)
    for dgid in (gid, bytes(gid), bytearray(bytes(gid))):
        with pd.create_ah(ib.AHAttr(dgid=dgid, sgid_index=node.gid_index, port_num=node.port)) as ah:
            assert ah.pd is pd
