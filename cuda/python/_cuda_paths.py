# SPDX-License-Identifier: BSD-3-Clause
"""How a GPU and a NIC are wired, as far as it decides by which path the NIC should reach the GPU's memory."""

from __future__ import annotations

import os

__all__ = ["PCIE_VARIABLE", "nic_is_below_gpu_bridge", "wants_pcie"]

PCIE_VARIABLE = "RDMA_CUDA_PCIE"
"""The environment variable that decides for all registrations: ``auto``, ``pcie`` or ``default``."""

_SYS = "/sys"


def _bridges(device: str) -> list[str]:
    """The PCI bridges above a device, the outermost first: the folders between its root complex and itself."""
    parts = os.path.realpath(device).split("/")
    roots = [i for i, part in enumerate(parts) if part.startswith("pci")]
    return parts[roots[-1] + 1 : -1] if roots else []


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
    return bool(rdma_device and gpu_address) and nic_is_below_gpu_bridge(str(rdma_device), str(gpu_address))
