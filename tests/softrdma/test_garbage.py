# SPDX-License-Identifier: BSD-3-Clause
"""Garbage in the queues and in the calls: errors, never a crash, a hang, or a write where nobody may write.

SOFTRDMA_FUZZ_SECONDS lengthens the runs; a failed run names its seed, which `fuzz SECONDS SEED` takes.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable

import pytest
from host import Host

SECONDS = os.environ.get("SOFTRDMA_FUZZ_SECONDS", "6")


@pytest.fixture(scope="module")
def fuzz(built: Callable[..., Path]) -> Path:
    return built("fuzz", "fuzz/*.c", flags=("-ldl",))


def run_fuzz(host: Host, fuzz: Path, **env: str) -> None:
    finished = host.run([fuzz, SECONDS], timeout=float(SECONDS) + 60, **env)
    assert "rounds" in finished.must(), finished.output
    assert "ERROR" not in finished.output and "runtime error" not in finished.output, finished.output


def test_garbage_is_refused(host: Host, fuzz: Path) -> None:
    run_fuzz(host, fuzz)


def test_garbage_is_refused_under_sanitizers(sanitized: Host, fuzz: Path) -> None:
    """The library itself is built with ASan and UBSan here."""
    run_fuzz(sanitized, fuzz)


def test_garbage_harms_no_other_process(host: Host, fuzz: Path, built: Callable[..., Path]) -> None:
    from peers import go, introduced

    peer = built("peer", "programs/peer.c", "programs/rig.c")
    with introduced(host, peer, float(SECONDS)) as (a, b):
        go(a, b)
        run_fuzz(host, fuzz)
        for program in (a, b):
            program.read_until("rounds")
        for program in (a, b):
            program.finish(20).must()
