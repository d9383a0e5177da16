# SPDX-License-Identifier: BSD-3-Clause
"""Programs built with sanitizers run on softrdma, and softrdma built with sanitizers has nothing to report."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Callable

import pytest
from host import Host
from sanitizers import runtime

#: All but those whose questions are timers.
TOPICS = [
    "limits",
    "memory",
    "refusals",
    "rc",
    "faults",
    "uc",
    "ud",
    "multicast",
    "srq",
    "events",
    "windows",
    "atomics",
    "extended",
    "fork",
]


def clean(output: str) -> str:
    for word in ("ERROR: AddressSanitizer", "runtime error", "WARNING: ThreadSanitizer", "DEADLYSIGNAL"):
        assert word not in output, output[output.index(word) :][:4000]
    return output


def test_a_program_built_with_sanitizers_gets_the_same_answers(
    host: Host, probe: Path, built: Callable[..., Path]
) -> None:
    sanitized = built("probe-asan", "probe/*.c", flags=("-fsanitize=address,undefined",))
    first = ":".join(runtime(name) for name in ("libasan.so", "libubsan.so"))
    answers = clean(host.run([sanitized, *TOPICS], LD_PRELOAD=first, ASAN_OPTIONS="detect_leaks=0").must())
    assert answers == host.run([probe, *TOPICS]).must()


def test_softrdma_built_with_sanitizers_reports_nothing(host: Host, sanitized: Host, probe: Path) -> None:
    answers = clean(sanitized.run([probe, *TOPICS]).must())
    assert answers == host.run([probe, *TOPICS]).must()


def test_softrdma_built_with_sanitizers_serves_two_processes(sanitized: Host, built: Callable[..., Path]) -> None:
    from peers import go, introduced

    peer = built("peer", "programs/peer.c", "programs/rig.c")
    with introduced(sanitized, peer, 2) as (a, b):
        go(a, b)
        for program in (a, b):
            clean(program.read_until("rounds"))
        for program in (a, b):
            clean(program.finish(20).must())


@pytest.mark.parametrize("tool", ["memcheck"])
def test_valgrind_has_nothing_to_report_of_the_data_path(host: Host, probe: Path, tool: str) -> None:
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        pytest.skip("needs valgrind")
    command = [valgrind, f"--tool={tool}", "--error-exitcode=9", "--quiet", probe, "rc", "atomics", "srq"]
    assert "end of the questions" in host.run(command, timeout=90).must()
