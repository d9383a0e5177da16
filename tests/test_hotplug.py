# SPDX-License-Identifier: BSD-3-Clause
"""Devices that come, change and go, on a kernel that can make one from a network interface."""

from __future__ import annotations

import errno
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from place import seconds
from test_async_events import wait_for

pytestmark = [pytest.mark.needs("device", "soft_devices"), pytest.mark.only("ibverbs")]

DEVICE_FATAL, GID_CHANGE = 8, 18


def run(command: str) -> None:
    subprocess.run(command.split(), check=True)


class Plug:
    """A device of our own, rxe9, on a pair of network interfaces of our own."""

    name, netdev = "rxe9", "plug0"

    def __init__(self) -> None:
        self.inside = False
        commands = [
            f"link add {self.netdev} mtu 4200 type veth peer name plug1 mtu 4200",
            f"address add 10.99.9.1/24 dev {self.netdev}",
            f"link set {self.netdev} up",
            "link set plug1 up",
        ]
        subprocess.run(["ip", "-batch", "-"], input="\n".join(commands), text=True, check=True)

    def put_in(self) -> None:
        run(f"rdma link add {self.name} type rxe netdev {self.netdev}")
        self.inside = True

    def pull_out(self) -> None:
        """Returns when the kernel has let go of the device."""
        run(f"rdma link delete {self.name}")
        self.inside = False

    def remove(self) -> None:
        run(f"ip link delete {self.netdev}")


@pytest.fixture(scope="module")
def interface() -> Iterator[Plug]:
    plug = Plug()
    yield plug
    plug.remove()


@pytest.fixture
def plug(interface: Plug) -> Plug:
    if not interface.inside:
        interface.put_in()
    return interface


def find(ib: Any, name: str) -> Any:
    return next((device for device in ib.get_device_list() if device.name == name), None)


def test_a_new_device_is_in_the_next_list(ib: Any, plug: Plug) -> None:
    assert find(ib, plug.name) is not None
    plug.pull_out()
    assert find(ib, plug.name) is None
    plug.put_in()
    with find(ib, plug.name).open() as ctx:
        assert ctx.name == plug.name


def test_a_device_that_was_removed_is_enodev(ib: Any, plug: Plug) -> None:
    device = find(ib, plug.name)
    plug.pull_out()
    with pytest.raises(ib.VerbsError) as caught:
        device.open()
    assert caught.value.errno == errno.ENODEV
    assert plug.name in str(caught.value)


def test_another_device_of_the_same_name_is_enodev(ib: Any, plug: Plug) -> None:
    device = find(ib, plug.name)
    plug.pull_out()
    run(f"ip link set {plug.netdev} address 02:00:00:00:99:01")
    plug.put_in()
    assert find(ib, plug.name).guid != device.guid
    with pytest.raises(ib.VerbsError) as caught:
        device.open()
    assert caught.value.errno == errno.ENODEV


class TestPullingOut:
    """A device that goes while it is open: rxe of 6.1 says nothing and waits, that of 7.3 says so and goes."""

    @pytest.fixture
    def pulled(self, ib: Any, plug: Plug) -> Iterator[tuple[Any, threading.Thread]]:
        """A CQ of the device, with a channel, and the thread that is pulling the device out."""
        with find(ib, plug.name).open() as ctx, ctx.create_comp_channel() as channel, ctx.create_cq(4, channel) as cq:
            puller = threading.Thread(target=plug.pull_out, daemon=True)
            puller.start()
            time.sleep(0.05)
            yield cq, puller
        puller.join(seconds(5))
        assert not puller.is_alive()

    def test_it_is_gone_when_everything_is_closed(self, ib: Any, plug: Plug, pulled: Any) -> None:
        cq, puller = pulled
        for thing in (cq, cq.channel, cq.context):
            thing.close()
        puller.join(seconds(5))
        assert not puller.is_alive()
        assert find(ib, plug.name) is None

    def test_it_is_an_event_where_the_kernel_raises_it(self, pulled: Any) -> None:
        cq, _ = pulled
        event = wait_for(cq.context, DEVICE_FATAL, timeout=0.2)  # 1 s in a slow VM
        if event is None:
            pytest.skip("needs a kernel that takes a device away from who has it open (6.1 waits for them instead)")
        assert event.port_num is None and event.qp is None and event.cq is None and event.srq is None

    def test_waits_and_calls_end_with_errors_not_for_ever(self, ib: Any, pulled: Any) -> None:
        cq, puller = pulled
        ctx, channel = cq.context, cq.channel
        puller.join(0.5)
        if puller.is_alive():
            pytest.skip("needs a kernel that takes a device away from who has it open (6.1 waits for them instead)")
        for call in (ctx.query_device, ctx.alloc_pd, lambda: channel.get_cq_event(timeout=seconds(5))):
            with pytest.raises(ib.VerbsError) as caught:
                call()
            assert caught.value.errno in (errno.EIO, errno.ENODEV)


def test_a_new_mtu_shows_in_the_port(ib: Any, plug: Plug) -> None:
    with find(ib, plug.name).open() as ctx:
        assert ctx.query_port(1).active_mtu == ib.MTU.MTU_4096
        run(f"ip link set {plug.netdev} mtu 1500")
        deadline = time.monotonic() + seconds(5)
        while ctx.query_port(1).active_mtu != ib.MTU.MTU_1024 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert ctx.query_port(1).active_mtu == ib.MTU.MTU_1024
        run(f"ip link set {plug.netdev} mtu 4200")


def test_a_new_address_is_a_new_gid_and_an_event(ib: Any, plug: Plug) -> None:
    want = bytes(10) + b"\xff\xff" + bytes([10, 99, 9, 77])
    with find(ib, plug.name).open() as ctx:
        assert want not in [bytes(ctx.query_gid(1, i)) for i in range(8)]
        run(f"ip address add 10.99.9.77/24 dev {plug.netdev}")
        event = wait_for(ctx, GID_CHANGE)
        assert event is not None and event.port_num == 1
        assert want in [bytes(ctx.query_gid(1, i)) for i in range(8)]
