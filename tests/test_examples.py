# SPDX-License-Identifier: BSD-3-Clause
"""Each example does what its first paragraph says, with one command."""

from __future__ import annotations

import contextlib
import hashlib
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
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


@pytest.mark.parametrize(
    "command",
    [
        "pingpong.py --size 0",
        "pingpong.py --rounds -1",
        "pingpong.py --device no_such_device",
        "push_file.py /no/such/file",
        "push_file.py / --chunk 4096",
        "push_file.py file --chunk 0",
        "demo.py --gid-index 999",
        "kv_store.py load",
        "kv_store.py serve --host 192.0.2.1",
        "kv_store.py --value-size 70000",
    ],
)
def test_a_mistake_of_the_user_is_told_in_a_line(node: Node, command: str) -> None:
    done = run(*command.split())
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stdout
    assert re.search(r"^(\w+\.py: \S|no RDMA device \S)", done.stdout, re.MULTILINE), done.stdout


@contextlib.contextmanager
def start(*words: str) -> Iterator[subprocess.Popen[str]]:
    """The example as a child that heeds Ctrl-C, as those of a shell's background job do not; it ends with the block."""
    command = [sys.executable, str(EXAMPLES / words[0]), *words[1:]]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        try:
            yield process
        finally:
            process.kill()


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.mark.needs("cm")
def test_ctrl_c_ends_a_server_without_a_traceback(node: Node) -> None:
    with start("kv_store.py", "serve") as server:
        assert "serving" in first_line(server)
        server.send_signal(signal.SIGINT)
        assert server.communicate(timeout=seconds(20))[0] == ""
    assert server.returncode == 130


@pytest.mark.needs("cm")
def test_a_client_whose_server_is_killed_says_so_and_ends(node: Node) -> None:
    with start("kv_store.py", "serve") as server:
        (port,) = re.findall(r"port (\d+)", first_line(server))
        with start("kv_store.py", "load", "--port", port, "--keys", "10", "--seconds", "30") as client:
            assert "PUTs" in first_line(client)
            server.kill()
            said = client.communicate(timeout=seconds(60))[0]
    assert client.returncode == 1
    assert said.startswith("kv_store.py: ") and "Traceback" not in said
