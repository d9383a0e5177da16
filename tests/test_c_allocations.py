# SPDX-License-Identifier: BSD-3-Clause
"""The C library has no memory: each malloc of the extension, and of libibverbs, libefa and their providers, fails in
turn. MemoryError or the verb's ENOMEM and nothing else, and no block is left. (test_allocations.py starves Python's own
allocators.)"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from place import seconds

SCRIPT = Path(__file__).parent / "peers" / "starve.py"


def library(ib: Any) -> Path:
    """libstarve.so lies in the development build, beside the stub."""
    preloaded = os.environ.get("LD_PRELOAD", "")
    if any(name in preloaded for name in ("asan", "tsan")):
        pytest.skip("needs the C library's own malloc, which a sanitizer replaces")
    folders = [Path(os.environ.get("RDMA_LIBRARY_PATH", "/nowhere"))]
    folders += [folder / "tests" / "stub" for folder in Path(ib.__file__).parents]
    for folder in folders:
        if (folder / "libstarve.so").exists():
            return folder / "libstarve.so"
    pytest.skip("needs libstarve.so of the development build")


def starve(ib: Any, whom: str) -> dict[str, Any]:
    path = library(ib)
    before = os.environ.get("LD_PRELOAD")
    # what is preloaded last is asked last: malloc is nobody else's
    env = {**os.environ, "LD_PRELOAD": f"{before} {path}" if before else str(path)}
    env["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run([sys.executable, SCRIPT, ib.__name__, path, whom], stdout=subprocess.PIPE, text=True,
                          env=env, timeout=seconds(100), check=False)  # fmt: skip
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer


def check_the_extension(ib: Any) -> None:
    answer = starve(ib, "extension")
    assert answer["wrong"] == []
    assert "MemoryError" in answer["told"]
    assert answer["failures"] >= 4


@pytest.mark.needs("stub")
def test_an_extension_without_memory_raises_and_leaves_nothing_on_the_stub(ib: Any) -> None:
    check_the_extension(ib)


@pytest.mark.needs("device", "cq_events")
def test_an_extension_without_memory_raises_and_leaves_nothing_on_a_device(ib: Any) -> None:
    check_the_extension(ib)


@pytest.mark.needs("software_host", "cq_events")  # below a kernel, libibverbs keeps blocks then, or lists no device
def test_libraries_without_memory_are_the_verbs_that_failed(ib: Any) -> None:
    answer = starve(ib, "libraries")
    assert answer["wrong"] == []
    assert {"ibv_open_device", "ibv_alloc_pd"} <= set(answer["told"])
    assert "MemoryError" not in answer["told"]
