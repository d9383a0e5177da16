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
STARTED = (
    "import ctypes, os, runpy, sys; "
    "ctypes.CDLL(os.environ['RDMA_CUDA_LIBRARY_PATH'] + '/libcuda.so.1').fake_reset(); "
    "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
)


def test_the_gpu_check_runs_over_the_stand_in(ib: Any) -> None:
    place = folder(ib, "driver")
    if place is None:
        pytest.skip("needs the stand-in libcuda: a build folder, or RDMA_TEST_CUDA")
    done = subprocess.run(
        [sys.executable, "-c", STARTED, str(SCRIPT), ib.__name__],
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
    ):
        assert rows[what].startswith(" "), rows[what]
    assert not [line for line in done.stdout.splitlines() if line.startswith("!")]
