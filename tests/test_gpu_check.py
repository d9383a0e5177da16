# SPDX-License-Identifier: BSD-3-Clause
"""The check for machines with a GPU runs to its end over the stand-in driver, and finds what the package rests on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parent / "gpu_check.py"


def check(ib: Any, *modules: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs the check of a package, with folders of modules before all others."""
    paths = os.pathsep.join([*map(str, modules), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, str(SCRIPT), ib.__name__],
        env={**os.environ, "GPU_CHECK_COUNT": "20", "PYTHONPATH": paths, **env},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_gpu_check_runs_over_the_stand_in(ib: Any, stand_in_libcuda: Path) -> None:
    done = check(ib, RDMA_CUDA_LIBRARY_PATH=str(stand_in_libcuda))
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


FRAMEWORKS = """
import ctypes, os
driver = ctypes.CDLL(os.environ["RDMA_CUDA_LIBRARY_PATH"] + "/libcuda.so.1")
driver.cuInit(0)
context = ctypes.c_void_p()
driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
driver.cuCtxPushCurrent_v2(context)
__version__ = "made by hand"
float32, uint8, bfloat16, float8_e4m3fn = 4, 1, 2, 1
class Tensor:
    is_cuda, device = True, "cuda:0"
    def __init__(self, count, size, addr=None):
        self.count, self.size, self.addr = count, size, ctypes.c_uint64(addr or 0)
        if addr is None:
            assert driver.cuMemAlloc_v2(ctypes.byref(self.addr), ctypes.c_size_t(count * size)) == 0
        self.data = type("Memory", (), {"ptr": self.addr.value})
    def __getitem__(self, part):
        return Tensor(part.stop - part.start, self.size, self.addr.value + part.start * self.size)
    def data_ptr(self): return self.addr.value
    def element_size(self): return self.size
    def numel(self): return self.count
    def is_contiguous(self): return True
def empty(count, *, dtype, device): return Tensor(count, dtype)
def ones(count, *, device, requires_grad): return Tensor(count, 4)
def arange(count, *, dtype, device=None): return Tensor(count, dtype if isinstance(dtype, int) else 8)
"""


def test_the_gpu_check_looks_at_what_frameworks_allocate(ib: Any, tmp_path: Path, stand_in_libcuda: Path) -> None:
    for name in ("torch", "cupy"):
        (tmp_path / f"{name}.py").write_text(FRAMEWORKS)
    done = check(ib, tmp_path, RDMA_CUDA_LIBRARY_PATH=str(stand_in_libcuda))
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    for what in ("cupy made by hand: export", "torch made by hand: export of a slice", "torch made by hand: bytes of"):
        assert any(line[2:].startswith(what) and "not done" not in line for line in lines), done.stdout
    assert any("expandable, torch made by hand: export of 200 MiB" in line for line in lines), done.stdout


def test_the_gpu_check_has_said_what_it_saw_when_something_ends_the_process(
    ib: Any, tmp_path: Path, stand_in_libcuda: Path
) -> None:
    (tmp_path / "torch.py").write_text("import os\nos.abort()\n")
    done = check(ib, tmp_path, RDMA_CUDA_LIBRARY_PATH=str(stand_in_libcuda))
    assert done.returncode < 0 and "Fatal Python error" in done.stderr
    assert "mapped: one export over all four" in done.stdout


@pytest.mark.parametrize("missing", ["RDMA_CUDA_LIBRARY_PATH", "RDMA_LIBRARY_PATH"])
def test_the_gpu_check_says_what_it_lacks(ib: Any, tmp_path: Path, missing: str) -> None:
    done = check(ib, **{missing: str(tmp_path)})
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.startswith("cannot check: ") and str(tmp_path) in done.stderr
