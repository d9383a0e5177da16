# SPDX-License-Identifier: BSD-3-Clause
"""Devices, contexts and what they answer when asked: the same as ibv_devinfo says."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from typing import Any

import pytest
from packages import error_of
from place import Node, Place

pytestmark = pytest.mark.needs("device")

NUMBERS = (
    "max_ah max_cq max_cqe max_mr max_mr_size max_pd max_pkeys max_qp max_qp_rd_atom max_qp_wr max_sge max_srq "
    "max_srq_sge max_srq_wr phys_port_cnt vendor_id vendor_part_id hw_ver"
).split()
PORT_NUMBERS = {
    "state": "state",
    "max_mtu": "max_mtu",
    "active_mtu": "active_mtu",
    "sm_lid": "sm_lid",
    "lid": "port_lid",
    "lmc": "port_lmc",
    "max_msg_sz": "max_msg_sz",
    "port_cap_flags": "port_cap_flags",
    "gid_tbl_len": "gid_tbl_len",
    "pkey_tbl_len": "pkey_tbl_len",
    "active_width": "active_width",
    "active_speed": "active_speed",
}


def number(text: str) -> int:
    """'4096 (5)' is 5, '0x800000' and '17' are themselves."""
    in_brackets = re.search(r"\((\d+)\)$", text)
    return int(in_brackets.group(1)) if in_brackets else int(text, 0)


@pytest.fixture(scope="session")
def devinfo(place: Place) -> dict[str, dict[str, str]]:
    """What `ibv_devinfo -v` prints, as text, by device."""
    reason = place.missing("devinfo")
    if reason is not None:
        pytest.skip(reason)
    text = subprocess.run(["ibv_devinfo", "-v"], stdout=subprocess.PIPE, text=True, check=False).stdout
    found: dict[str, dict[str, str]] = {}
    current: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.strip().partition(":\t")
        if name == "hca_id":
            found[value.strip()] = current = {}
        elif colon:
            current.setdefault(re.sub(r"\s+", "", name), value.strip())
    return found


def raw_guid(text: str) -> int:
    return int.from_bytes(bytes.fromhex(text.replace(":", "")), sys.byteorder)


def test_list_has_the_devices_that_devinfo_has(ib: Any, devinfo: dict[str, Any]) -> None:
    assert sorted(d.name for d in ib.get_device_list()) == sorted(devinfo)


def test_guid_is_raw_and_guid_str_is_what_devinfo_prints(ib: Any, devinfo: dict[str, dict[str, str]]) -> None:
    for device in ib.get_device_list():
        text = devinfo[device.name]["node_guid"]
        assert device.guid_str == text
        assert device.guid == raw_guid(text)


def test_device_attributes_are_those_of_devinfo(ctx: Any, node: Node, devinfo: dict[str, dict[str, str]]) -> None:
    said, attr = devinfo[node.name], ctx.query_device()
    numbers = [n for n in NUMBERS if n in said]  # of a device without SRQs their limits are not printed
    assert {n: getattr(attr, n) for n in numbers} == {n: number(said[n]) for n in numbers}
    assert attr.fw_ver == said["fw_ver"]
    assert attr.node_guid == raw_guid(said["node_guid"])
    assert attr.node_guid_str == said["node_guid"]
    assert attr.sys_image_guid == raw_guid(said["sys_image_guid"])
    assert attr.sys_image_guid_str == said["sys_image_guid"]


def test_port_attributes_are_those_of_devinfo(ctx: Any, node: Node, devinfo: dict[str, dict[str, str]]) -> None:
    said, attr = devinfo[node.name], ctx.query_port(node.port)
    got = {name: getattr(attr, name) for name in PORT_NUMBERS}
    assert got == {name: number(said[theirs]) for name, theirs in PORT_NUMBERS.items()}
    assert said["link_layer"] == {0: "Unspecified", 1: "InfiniBand", 2: "Ethernet"}[attr.link_layer]


def test_comp_vectors_are_those_of_devinfo(ctx: Any, node: Node, devinfo: dict[str, dict[str, str]]) -> None:
    said = devinfo[node.name].get("num_comp_vectors")
    if said is None:
        pytest.skip("needs an ibv_devinfo that prints num_comp_vectors (that of rdma-core 33 does not)")
    assert ctx.num_comp_vectors == number(said)


def test_port_state_equals_the_enum_member(ib: Any, ctx: Any, node: Node) -> None:
    state = ctx.query_port(node.port).state
    assert type(state) is int
    assert state == ib.PortState.ACTIVE


@pytest.mark.parametrize("port", [0, 200])
def test_query_of_a_port_that_is_not_there_is_einval(ib: Any, ctx: Any, port: int) -> None:
    with pytest.raises(error_of(ib)) as caught:
        ctx.query_port(port)
    assert caught.value.errno == errno.EINVAL
    assert caught.value.operation == "ibv_query_port"


def test_open_twice_gives_two_contexts(node: Node) -> None:
    with node.open() as first, node.open() as second:
        assert first is not second
        assert first.async_fd != second.async_fd
        first.close()
        assert second.query_device().max_qp > 0


def test_context_knows_its_device_name(ctx: Any, node: Node) -> None:
    assert ctx.name == node.name


def test_device_made_by_hand_opens_the_device_of_that_name(ib: Any, node: Node) -> None:
    with ib.Device(node.name, node.device.guid).open() as ctx:
        assert ctx.name == node.name


def test_open_of_a_device_that_is_gone_is_enodev(ib: Any) -> None:
    with pytest.raises(error_of(ib)) as caught:
        ib.Device("no_such_device", 1).open()
    assert caught.value.errno == errno.ENODEV
    assert "no_such_device" in str(caught.value)


def test_open_of_a_name_that_now_belongs_to_another_guid_is_enodev(ib: Any, node: Node) -> None:
    with pytest.raises(error_of(ib)) as caught:
        ib.Device(node.name, node.device.guid ^ 1).open()
    assert caught.value.errno == errno.ENODEV


def test_close_is_harmless_twice_and_then_calls_raise_ebadf(ib: Any, node: Node) -> None:
    ctx = node.open()
    ctx.close()
    ctx.close()
    assert ctx.closed
    for call in (ctx.query_device, ctx.alloc_pd, lambda: ctx.query_port(1), lambda: ctx.async_fd):
        with pytest.raises(error_of(ib)) as caught:
            call()
        assert caught.value.errno == errno.EBADF
    assert node.name in repr(ctx)


def test_close_of_a_context_names_the_children_that_are_open(ib: Any, ctx: Any) -> None:
    with ctx.alloc_pd(), ctx.alloc_pd(), ctx.create_comp_channel() as channel, ctx.create_cq(4, channel):
        with pytest.raises(error_of(ib)) as caught:
            ctx.close()
        assert caught.value.errno == errno.EBUSY
        assert "2 PD" in str(caught.value) and "CQ" in str(caught.value)
    assert not ctx.closed


def test_a_dropped_context_gives_its_descriptors_back(node: Node) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        node.open()
    assert len(os.listdir("/proc/self/fd")) <= before


@pytest.mark.needs("siw")
def test_an_iwarp_device_answers_queries(place: Place) -> None:
    with place.iwarp[0].open() as ctx:
        assert ctx.query_device().phys_port_cnt == 1
        assert ctx.query_port(1).active_mtu >= 1


@pytest.mark.needs("siw")
@pytest.mark.only("ibverbs")
def test_an_iwarp_device_registers_memory_and_makes_queues(ib: Any, place: Place) -> None:
    data = bytearray(4096)
    with place.iwarp[0].open() as ctx, ctx.alloc_pd() as pd, ctx.create_cq(16) as cq:
        with ib.reg_tensor(pd, data, ib.AccessFlags.LOCAL_WRITE) as mr, pd.create_qp(ib.QPInitAttr(cq, cq)) as qp:
            assert mr.length == 4096
            assert qp.qp_num > 0 and qp.qp_type == ib.QPType.RC


# ---- what sysfs and the library say of a device that is not open ----------------------------------------------


def test_node_type_is_that_of_sysfs(ib: Any, node: Node) -> None:
    with open(f"{node.sysfs}/node_type", encoding="ascii") as f:
        said = int(f.read().partition(":")[0])
    assert node.device.node_type == said and type(node.device.node_type) is int
    assert ib.NodeType(said) in (ib.NodeType.CA, ib.NodeType.RNIC, ib.NodeType.UNSPECIFIED)


def test_transport_follows_the_node_type(ib: Any, node: Node) -> None:
    kinds = {ib.NodeType.CA: ib.TransportType.IB, ib.NodeType.RNIC: ib.TransportType.IWARP,
             ib.NodeType.UNSPECIFIED: ib.TransportType.UNSPECIFIED}  # fmt: skip
    assert node.device.transport_type == kinds[node.device.node_type]


def test_network_devices_are_those_under_the_gids(ctx: Any, node: Node) -> None:
    names = {entry.netdev for entry in ctx.query_gid_table(node.port)} - {""}
    assert names <= set(node.device.netdevs)
    assert node.device.netdevs == sorted(set(node.device.netdevs))


def test_a_software_device_is_on_no_bus(node: Node) -> None:
    if os.path.exists(f"{node.sysfs}/device"):
        pytest.skip("needs a device without hardware")
    assert node.device.pci_address is None and node.device.numa_node is None


def test_one_made_by_hand_finds_the_same_facts(ib: Any) -> None:
    for device in ib.get_device_list():
        twin = ib.Device(device.name, device.guid)
        for name in ("node_type", "transport_type", "index", "pci_address", "numa_node", "netdevs"):
            assert getattr(twin, name) == getattr(device, name)


def test_the_facts_of_a_device_that_is_not_there_are_enodev(ib: Any) -> None:
    device = ib.get_device_list()[0]
    for wrong, why in ((ib.Device("nope", 1), "there is no device nope"), (ib.Device(device.name, 1), "GUID")):
        for name in ("node_type", "transport_type", "index", "pci_address", "numa_node", "netdevs"):
            with pytest.raises(error_of(ib), match=why) as caught:
                getattr(wrong, name)
            assert caught.value.errno == errno.ENODEV and caught.value.operation == f"Device.{name}"


def test_facts_are_no_part_of_the_value(ib: Any) -> None:
    device = ib.get_device_list()[0]
    twin = ib.Device(device.name, device.guid)
    assert twin == device and hash(twin) == hash(device) and repr(twin) == repr(device)
    assert twin.node_type == device.node_type
    assert twin == device
