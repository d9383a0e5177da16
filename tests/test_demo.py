# SPDX-License-Identifier: BSD-3-Clause
"""The demonstration runs, checks what it moved, prints its table, and fails when data is wrong."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from place import Node, seconds

pytestmark = pytest.mark.needs("rc", "atomics")
DEMO = Path(__file__).resolve().parent.parent / "examples" / "demo.py"


#: Runs the demonstration with other data than its peer, a plain one, expects.
SPOILED = f"""
import sys
sys.path.insert(0, {str(DEMO.parent)!r})
import demo
demo.pattern = bytes
sys.exit(demo.main())
"""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words, "--quick"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds(60), check=False,
    )  # fmt: skip


def test_it_runs_and_prints_a_table(node: Node) -> None:
    done = run(str(DEMO), "--device", node.name)
    assert done.returncode == 0, done.stdout
    assert node.name in done.stdout
    for operation in ("RDMA write", "RDMA read", "send", "fetch and add", "compare and swap"):
        assert re.search(rf"^{operation} +\d+ B +\d+ +[\d.]+ +[\d.]+$", done.stdout, re.MULTILINE), done.stdout


def test_wrong_data_is_told_by_the_exit_status(node: Node) -> None:
    done = run("-c", SPOILED, "--device", node.name)
    assert done.returncode != 0
    assert "differ" in done.stdout


def test_a_device_that_is_not_there_is_told_by_the_exit_status(node: Node) -> None:
    done = run(str(DEMO), "--device", "no_such_device")
    assert done.returncode != 0
    assert "no_such_device" in done.stdout and "Traceback" not in done.stdout
