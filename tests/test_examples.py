# SPDX-License-Identifier: BSD-3-Clause
"""Each example does what its first paragraph says, with one command."""

from __future__ import annotations

import hashlib
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from place import Node, seconds

pytestmark = pytest.mark.needs("rc")
EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def run(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name), *words],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds(60), check=False,
    )  # fmt: skip


def test_pingpong_tells_the_time_of_a_round_trip(node: Node) -> None:
    done = run("pingpong.py", "--device", node.name, "--rounds", "50", "--size", "100")
    assert done.returncode == 0, done.stdout
    assert re.search(rf"^50 round trips of 100 bytes on {node.name}: [\d.]+ us each$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("length", [1, 4096, 300_001])
def test_push_file_shows_progress_and_the_digest_of_what_arrived(node: Node, tmp_path: Path, length: int) -> None:
    file = tmp_path / "file"
    file.write_bytes(random.Random(length).randbytes(length) if length > 1 else b"x")
    done = run("push_file.py", str(file), "--device", node.name, "--chunk", "10000")
    assert done.returncode == 0, done.stdout
    assert "100 %" in done.stdout
    assert hashlib.sha256(file.read_bytes()).hexdigest() in done.stdout


def test_push_file_refuses_an_empty_file(node: Node, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    done = run("push_file.py", str(file), "--device", node.name)
    assert done.returncode == 1 and "is empty" in done.stdout


@pytest.mark.needs("cm")
def test_kv_store_serves_gets_and_says_how_many(node: Node) -> None:
    done = run("kv_store.py", "--seconds", "0.3", "--keys", "50", "--depth", "8")
    assert done.returncode == 0, done.stdout
    assert re.search(r"^[\d,]+ PUTs a second, one at a time, of 1024 bytes$", done.stdout, re.MULTILINE)
    assert re.search(r"^[\d,]+ GETs a second, 8 under way, all data right; \d+ read again$", done.stdout, re.MULTILINE)
