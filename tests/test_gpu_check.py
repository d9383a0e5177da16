# SPDX-License-Identifier: BSD-3-Clause
"""The check for machines with a GPU runs to its end over the stand-in driver, and finds what the package rests on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cuda_control import folder

SCRIPT = Path(__file__).parent / "gpu_check.py"


def test_the_gpu_check_runs_over_the_stand_in(ib: Any) -> None:
    place = folder(ib, "driver")
    if place is None:
        pytest.skip("needs the stand-in libcuda: a build folder, or RDMA_TEST_CUDA")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), ib.__name__],
        env={**os.environ, "RDMA_CUDA_LIBRARY_PATH": str(place), "GPU_CHECK_COUNT": "20"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {line[2:].split("  ")[0]: line for line in done.stdout.splitlines()}
    for what in (
        "cuMemAlloc: kind",
        "100 bytes, page-rounded export",
        "managed: refused without an export",
        "pinned: kind",
        "pool: kind",
        "export in a thread without a context",
        "the current context afterwards",
        "register_tensor: bytes and address asked of the NIC",
        "cache: freed and allocated anew is noticed",
        "mapped: one export over all four",
        "a hole: named",
        "mapped anew: another buffer id",
        "mapped on the host: kind",
        "two devices: named",
        "attributes that need a context",
        "imported by IPC: export",
    ):
        assert rows[what][0] in " ?", rows[what]
    assert not [line for line in done.stdout.splitlines() if line.startswith("!")]
    undone = {line.split("  ")[0] for line in done.stdout.splitlines() if "not done" in line}
    assert undone <= {"? kernel module", "? cupy", "? torch", "? expandable, torch"}


@pytest.mark.parametrize("missing", ["RDMA_CUDA_LIBRARY_PATH", "RDMA_LIBRARY_PATH"])
def test_the_gpu_check_says_what_it_lacks(ib: Any, tmp_path: Path, missing: str) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), ib.__name__],
        env={**os.environ, missing: str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.startswith("cannot check: ") and str(tmp_path) in done.stderr
