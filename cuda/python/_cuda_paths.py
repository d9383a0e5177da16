# SPDX-License-Identifier: BSD-3-Clause
"""What the kernel says of the ways between a GPU and a NIC: how they are wired, and whether peer memory is there."""

from __future__ import annotations

import os

__all__ = ["PCIE_VARIABLE", "has_peermem", "nic_is_below_gpu_bridge", "wants_pcie"]

PCIE_VARIABLE = "RDMA_CUDA_PCIE"
"""The environment variable that decides for all registrations: ``auto``, ``pcie`` or ``default``."""

_SYS = "/sys"
_PEERMEM = (
    "module/nvidia_peermem",
    "kernel/mm/memory_peers/nv_mem",
    "kernel/mm/memory_peers/nv_mem_nc",
    "kernel/mm/memory_peers/nvidia-peermem",
)
_NO_PCIE_PATH = ("mlx5_core",)
"""Drivers of NICs that take a mapping through the bus and fail when it is used, without a verb of their own."""


def has_peermem() -> bool:
    """Whether a kernel module is there that gives a GPU's memory to NICs by its address."""
    return any(os.path.exists(f"{_SYS}/{place}") for place in _PEERMEM)


def _bridges(device: str) -> list[str]:
    """The PCI bridges above a device, the outermost first: the folders between its root complex and itself."""
    parts = os.path.realpath(device).split("/")
    roots = [i for i, part in enumerate(parts) if part.startswith("pci")]
    return parts[roots[-1] + 1 : -1] if roots else []


def _driver_of(rdma_device: str) -> str:
    """The kernel driver of a NIC's function, "" where sysfs does not tell."""
    path = f"{_SYS}/class/infiniband/{rdma_device}/device/driver"
    return os.path.basename(os.path.realpath(path)) if os.path.exists(path) else ""


def nic_is_below_gpu_bridge(rdma_device: str, gpu_address: str) -> bool:
    """Whether a NIC and a GPU share a PCI bridge below the root complex.

    ``rdma_device`` is a name as in /sys/class/infiniband, ``gpu_address`` a PCI address in lower case. False where
    sysfs does not tell.
    """
    nic = _bridges(f"{_SYS}/class/infiniband/{rdma_device}/device")
    gpu = _bridges(f"{_SYS}/bus/pci/devices/{gpu_address}")
    # The outermost folder is the root port: two devices below one root port hang off one switch.
    return bool(nic and gpu and nic[0] == gpu[0])


def wants_pcie(rdma_device: str | None, gpu_address: str | None) -> bool:
    """Whether to ask for a mapping through the PCIe bus, unless the environment says."""
    said = os.environ.get(PCIE_VARIABLE, "auto")
    if said not in ("auto", "pcie", "default"):
        raise ValueError(f"{PCIE_VARIABLE} is {said!r}: it may be auto, pcie or default")
    if said != "auto":
        return said == "pcie"
    if not rdma_device or not gpu_address or _driver_of(rdma_device) in _NO_PCIE_PATH:
        return False
    return nic_is_below_gpu_bridge(rdma_device, gpu_address)
