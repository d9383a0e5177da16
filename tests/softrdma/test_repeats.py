# SPDX-License-Identifier: BSD-3-Clause
"""The same again, many times: what works by chance does not work thirty times in a row, nor beside others."""

from __future__ import annotations

from pathlib import Path

import pytest
from host import Host, ended

HERE = Path(__file__).parent
TIMES = 30
#: Topics without long timers: under a second together.
TOPICS = ["rc", "uc", "ud", "srq", "events", "windows", "atomics"]


def test_rdma_cores_own_tests_thirty_times(host: Host, suite: Path) -> None:
    """The suite draws numbers and ports by chance; what it skips and passes stays the same."""
    command = ["/usr/bin/python3", HERE / "pyverbs_results.py", suite, "rxe0"]
    first = host.run(command).must()
    assert ": ok" in first and ": failed" not in first, first
    for number in range(1, TIMES):
        assert host.run(command).must() == first, f"run {number + 1} of {TIMES}"


def test_answers_do_not_depend_on_the_run(host: Host, probe: Path) -> None:
    first = host.run([probe, *TOPICS]).must()
    for number in range(3):
        assert host.run([probe, *TOPICS]).must() == first, f"run {number + 2}"


@pytest.mark.parametrize("fabric", ["one fabric", "a fabric each"])
def test_answers_do_not_depend_on_others_at_work(host: Host, probe: Path, fabric: str) -> None:
    """Four probes at once."""
    expected = host.run([probe, *TOPICS]).must()
    hosts = [host if fabric == "one fabric" else Host(host.library) for _ in range(4)]
    programs = [each.start([probe, *TOPICS]) for each in hosts]
    for program in programs:
        with ended(program):
            assert program.finish(60).must() == expected
