# SPDX-License-Identifier: BSD-3-Clause
"""perftest's latency and bandwidth programs, each between two processes."""

from __future__ import annotations

from typing import Callable

import pytest
from host import Host, free_port

RUNS = [
    "ib_send_lat -s 8",
    "ib_send_lat -s 4096 -e",
    "ib_send_lat -c UC -s 8",
    "ib_send_lat -c UD -s 8",
    "ib_write_lat -s 8",
    "ib_write_lat -c UC -s 4096",
    "ib_read_lat -s 8",
    "ib_atomic_lat -A FETCH_AND_ADD",
    "ib_atomic_lat -A CMP_AND_SWAP",
    "ib_send_bw -s 65536",
    "ib_send_bw -s 65536 -e",
    "ib_send_bw -c UC -s 4096",
    "ib_send_bw -c UD -s 1024",
    "ib_send_bw -s 4096 -b",
    "ib_send_bw -s 4096 -q 2 --use-srq",
    "ib_write_bw -s 65536",
    "ib_write_bw -s 1048576 -q 2",
    "ib_write_bw -s 4096 -b",
    "ib_write_bw -c UC -s 65536",
    "ib_read_bw -s 65536",
    "ib_read_bw -s 65536 -q 4",
    "ib_atomic_bw -A FETCH_AND_ADD",
    "ib_atomic_bw -A CMP_AND_SWAP",
]


@pytest.mark.parametrize("run", RUNS)
def test_two_processes_measure(host: Host, program: Callable[[str], str], run: str) -> None:
    name, *options = run.split()
    iterations = "40" if name.endswith("_lat") and "-e" not in options else "200"
    command = [program(name), "-F", "-x", "1", "-p", str(free_port()), "-n", iterations, *options]
    server, client = host.pair([*command, "-d", "rxe0"], [*command, "-d", "rxe1", "localhost"])
    assert "#bytes" in client.must(), client.output
    server.must()
    assert "Failed" not in client.output and "error" not in client.output.lower(), client.output
