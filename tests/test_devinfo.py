# SPDX-License-Identifier: BSD-3-Clause
"""``python -m`` of a package: what devices there are, and of each that does not show up why that is."""

from __future__ import annotations

import errno
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from place import Node


@pytest.fixture(scope="session")
def devinfo(ib: Any) -> Any:
    return importlib.import_module(f"{ib.__name__}.devinfo")


class Machine:
    """A machine's files, as far as they matter."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, path: str, text: str = "") -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def add_device(self, name: str = "mlx5_0", node: str | None = "uverbs0", dev: bool = True) -> None:
        self.put(f"sys/class/infiniband/{name}/node_type", "1: CA\n")
        if node is not None:
            self.put(f"sys/class/infiniband_verbs/{node}/ibdev", f"{name}\n")
        if node is not None and dev:
            self.put(f"dev/infiniband/{node}")

    def add_driver(self, name: str, driver: str) -> None:
        (self.root / "drivers" / driver).mkdir(parents=True)
        folder = self.root / "sys/class/infiniband" / name / "device"
        folder.mkdir()
        (folder / "driver").symlink_to(self.root / "drivers" / driver)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def causes(devinfo: Any, machine: Machine, *listed: str) -> str:
    return "\n".join(devinfo.find_causes(listed, machine.root))


class TestCauses:
    def test_no_kernel_module(self, devinfo: Any, machine: Machine) -> None:
        text = causes(devinfo, machine)
        assert "no RDMA device" in text and "ib_core is not loaded" in text and "rdma_rxe" in text

    def test_a_kernel_without_devices(self, devinfo: Any, machine: Machine) -> None:
        (machine.root / "sys/class/infiniband").mkdir(parents=True)
        text = causes(devinfo, machine)
        assert "/sys/class/infiniband is empty" in text and "ib_core" not in text

    @pytest.mark.parametrize(
        ("vendor", "device", "kind", "words"),
        [
            ("0x1d0f", "0xefa1", "0x020000", "0000:00:06.0 is an EFA adapter: load the kernel module efa"),
            ("0x15b3", "0x101b", "0x020700", "0000:00:06.0 (0x15b3:0x101b) is an InfiniBand adapter"),
        ],
    )
    def test_a_card_without_its_driver(
        self, devinfo: Any, machine: Machine, vendor: str, device: str, kind: str, words: str
    ) -> None:
        for name, text in (("vendor", vendor), ("device", device), ("class", kind)):
            machine.put(f"sys/bus/pci/devices/0000:00:06.0/{name}", text + "\n")
        machine.put("sys/bus/pci/devices/0000:00:07.0/class", "0x010802\n")
        text = causes(devinfo, machine)
        assert words in text and "0000:00:07.0" not in text and "rdma_rxe" not in text

    def test_no_way_for_programs(self, devinfo: Any, machine: Machine) -> None:
        machine.add_device(node=None)
        assert "mlx5_0" in causes(devinfo, machine) and "ib_uverbs" in causes(devinfo, machine)

    def test_no_device_file(self, devinfo: Any, machine: Machine) -> None:
        machine.add_device(dev=False)
        text = causes(devinfo, machine)
        assert "there is no /dev/infiniband/uverbs0" in text and "--device=/dev/infiniband" in text

    def test_no_permission(self, devinfo: Any, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
        machine.add_device()
        os.chmod(machine.root / "dev/infiniband/uverbs0", 0o600)
        monkeypatch.setattr(os, "access", lambda path, mode: False)
        text = causes(devinfo, machine)
        assert "may not open /dev/infiniband/uverbs0, which is -rw-------" in text and "group" in text

    def test_no_provider_at_all(self, devinfo: Any, machine: Machine) -> None:
        machine.add_device()
        text = causes(devinfo, machine)
        assert "no provider at all" in text and "ibverbs-providers" in text

    def test_no_provider_for_this_one(self, devinfo: Any, machine: Machine) -> None:
        machine.add_device()
        machine.add_driver("mlx5_0", "mlx5_core")
        machine.put("etc/libibverbs.d/rxe.driver", "driver rxe\n")
        machine.put("etc/libibverbs.d/efa.driver", "driver efa\n")
        machine.put("etc/libibverbs.d/README", "driver nonsense\n")
        text = causes(devinfo, machine)
        assert "mlx5_0 (kernel driver mlx5_core)" in text and "there are efa, rxe." in text

    def test_each_that_is_missing_is_explained_and_no_other(self, devinfo: Any, machine: Machine) -> None:
        machine.add_device("mlx5_0", "uverbs0")
        machine.add_device("mlx5_1", "uverbs1", dev=False)
        machine.add_device("rxe0", "uverbs2")
        text = causes(devinfo, machine, "rxe0")
        assert [line.partition(":")[0] for line in text.splitlines()] == ["mlx5_0", "mlx5_1"]

    def test_nothing_is_said_where_all_are_there(self, devinfo: Any, machine: Machine) -> None:
        machine.add_device()
        assert causes(devinfo, machine, "mlx5_0") == ""
        assert devinfo.find_causes(["stub0"], machine.root / "nowhere") == []


class TestCommand:
    def test_one_broken_device_hides_no_other(
        self, devinfo: Any, stub: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        stub.fail("open_device", errno.EACCES)
        assert devinfo.main([]) == 1
        text = capsys.readouterr().out
        broken, _, rest = text.partition("stub1\n")
        assert "stub0" in broken and "cannot be used" in broken and os.strerror(errno.EACCES) in broken
        assert "port 2:" in rest and "cannot be used" not in rest

    @pytest.mark.parametrize("verb", ["query_device", "query_port", "query_gid_table"])
    def test_nor_does_one_that_does_not_answer(
        self, devinfo: Any, stub: Any, capsys: pytest.CaptureFixture[str], verb: str
    ) -> None:
        stub.fail(verb, errno.EIO)
        assert devinfo.main([]) == 1
        text = capsys.readouterr().out
        assert text.count("cannot be used") == 1 and "stub1" in text

    def test_it_prints_what_devices_and_ports_say(
        self, ib: Any, devinfo: Any, stub: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert devinfo.main(["stub1"]) == 0
        out, err = capsys.readouterr()
        words = [line.split(None, 1) for line in out.splitlines()]
        facts = {w[0]: w[1] for w in words if len(w) == 2}
        assert facts["node_guid:"] == ib.get_device_list()[1].guid_str
        assert (facts["state:"], facts["link_layer:"], facts["active_mtu:"]) == ("ACTIVE", "InfiniBand", "4096")
        assert facts["GID[0]:"].endswith(", IB") and facts["libibverbs:"].startswith(stub.folder)
        assert "stub0" not in out and err == ""
        assert devinfo.main(["-v", "stub1"]) == 0
        assert "max_qp_wr:" in capsys.readouterr().out

    @pytest.mark.only("efa")
    def test_of_efa_it_prints_the_library_and_what_each_device_can(
        self, ib: Any, devinfo: Any, stub: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        devinfo.main([])
        out = capsys.readouterr().out
        assert re.search(r"^libefa: /\S+/libefa\.so\.1$", out, re.MULTILINE)
        assert out.count("    can: ") == len(ib.get_efa_device_list()) > 0
        assert re.search(r"^ +can: +rdma_read, rdma_write,", out, re.MULTILINE)

    def test_names_alone_can_be_asked_for(self, ib: Any, devinfo: Any, stub: Any, capsys: Any) -> None:
        assert devinfo.main(["--list"]) == 0
        assert capsys.readouterr().out.split() == [d.name for d in ib.get_device_list()]

    def test_a_name_that_is_none_is_told(self, devinfo: Any, stub: Any, capsys: pytest.CaptureFixture[str]) -> None:
        assert devinfo.main(["nope"]) == 1
        assert "nope: there is no such device" in capsys.readouterr().err

    def test_none_at_all_is_told(self, devinfo: Any, stub: Any, capsys: pytest.CaptureFixture[str]) -> None:
        stub.set_devices(0)
        assert devinfo.main([]) == 1
        assert "No RDMA device." in capsys.readouterr().err

    @pytest.mark.needs("device")
    def test_it_runs_as_a_program(self, ib: Any, node: Node) -> None:
        command = [sys.executable, "-m", ib.__name__, node.name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        assert node.name in done.stdout.splitlines()
        with node.open() as ctx:
            for entry in ctx.query_gid_table(node.port):
                assert f"GID[{entry.gid_index}]:" in done.stdout and str(entry.gid) in done.stdout
