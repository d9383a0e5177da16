# SPDX-License-Identifier: BSD-3-Clause
"""The path between a GPU and a NIC as sysfs tells it, and which mapping it asks for; over a sysfs made by hand."""

from __future__ import annotations

import errno
import importlib
import pathlib
from typing import Any

import pytest
from cuda_control import DeviceTensor, Driver
from cuda_fixtures import Recorder

GPU = "0000:4a:00.0"
SWITCH = "pci0000:47/0000:47:01.0/0000:48:00.0"
"""A root complex, its root port and the port of a switch below it."""


@pytest.fixture
def sys_folder(ib: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setattr(importlib.import_module(f"{ib.__name__}._cuda_paths"), "_SYS", str(tmp_path))
    monkeypatch.delenv("RDMA_CUDA_PCIE", raising=False)
    return tmp_path


@pytest.fixture
def paths(ib: Any, sys_folder: pathlib.Path) -> Any:
    return importlib.import_module(f"{ib.__name__}._cuda_paths")


def link(place: pathlib.Path, target: pathlib.Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


def wire(root: pathlib.Path, nic: str, driver: str) -> None:
    """A GPU below the switch, and a NIC where it is said."""
    link(root / f"bus/pci/devices/{GPU}", root / f"devices/{SWITCH}/0000:49:00.0/{GPU}")
    link(root / "class/infiniband/nic0/device", root / f"devices/{nic}")
    link(root / f"devices/{nic}/driver", root / f"bus/pci/drivers/{driver}")


@pytest.mark.parametrize(
    ("nic", "driver", "wanted"),
    [
        (f"{SWITCH}/0000:49:04.0/0000:4c:00.0", "efa", True),  # the same switch
        (f"{SWITCH}/0000:49:04.0/0000:4c:00.0", "mlx5_core", False),  # registers, and fails when it is used
        ("pci0000:47/0000:47:02.0/0000:4d:00.0", "efa", False),  # another port of the same root complex
        ("pci0000:00/0000:00:01.0/0000:01:00.0", "efa", False),
        ("virtual/net/lo", "rdma_rxe", False),
    ],
)
def test_a_mapping_through_the_bus_is_for_a_nic_below_the_gpus_own_bridge(
    paths: Any, sys_folder: pathlib.Path, nic: str, driver: str, wanted: bool
) -> None:
    wire(sys_folder, nic, driver)
    assert paths.wants_pcie("nic0", GPU) is wanted


def test_where_sysfs_does_not_tell_no_mapping_through_the_bus_is_asked_for(paths: Any) -> None:
    assert [paths.wants_pcie(*pair) for pair in (("nic0", GPU), (None, GPU), ("nic0", None))] == [False] * 3


@pytest.mark.parametrize(
    "place",
    ["module/nvidia_peermem", "kernel/mm/memory_peers/nv_mem", "kernel/mm/memory_peers/nv_mem_nc"],
)
def test_each_module_that_brings_peer_memory_is_known(
    cuda: Any, driver: Driver, sys_folder: pathlib.Path, place: str
) -> None:
    assert not cuda.gpudirect_support().peermem_loaded
    (sys_folder / place).mkdir(parents=True)
    assert cuda.gpudirect_support().peermem_loaded


@pytest.mark.parametrize("loaded", [False, True])
def test_what_to_do_where_peer_memory_fails_fits_the_package(
    cuda: Any, ib: Any, driver: Driver, recorder: Recorder, sys_folder: pathlib.Path, loaded: bool
) -> None:
    """EFA's driver has no peer memory, whatever modules there are."""
    if loaded:
        (sys_folder / "module/nvidia_peermem").mkdir(parents=True)
    recorder.refuse_export = [OSError(errno.EOPNOTSUPP, "no")]
    recorder.refuse_plain = [OSError(errno.EFAULT, "Bad address")]
    with pytest.raises(cuda.GpuRegistrationError) as caught:
        cuda.register_tensor(recorder, DeviceTensor(driver.alloc(4096), 4096), 1)
    other = "CUDA IPC" if loaded else "modprobe"
    words = {"efa": "EFA needs the dma-buf", "ibverbs": other}
    for package, word in words.items():
        assert (word in str(caught.value)) is (package == ib.__name__), word
