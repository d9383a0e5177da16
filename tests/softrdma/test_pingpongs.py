# SPDX-License-Identifier: BSD-3-Clause
"""libibverbs' own examples, each between two processes."""

from __future__ import annotations

from typing import Any, Callable

import pytest
from host import Host, free_port

EVENTS = ["-e"]


@pytest.mark.parametrize(
    "options", [[], EVENTS, ["-s", "65536"], [*EVENTS, "-s", "1"]], ids=lambda o: " ".join(o) or "plain"
)
@pytest.mark.parametrize("name", ["rc", "uc", "srq"])
def test_two_processes_play(host: Host, program: Callable[[str], str], name: str, options: list[str]) -> None:
    play(host, program(f"ibv_{name}_pingpong"), options)


@pytest.mark.parametrize("options", [[], EVENTS, ["-s", "1024"]], ids=lambda o: " ".join(o) or "plain")
def test_two_processes_play_with_datagrams(host: Host, program: Callable[[str], str], options: list[str]) -> None:
    play(host, program("ibv_ud_pingpong"), options)


@pytest.mark.parametrize("option", ["-N", "-c"], ids=["new interface", "checked bytes"])
def test_rc_pingpong_plays_with(host: Host, program: Callable[[str], str], option: str) -> None:
    play(host, program("ibv_rc_pingpong"), [option])


@pytest.mark.parametrize("copy", ["process_vm", "agent"])
def test_two_processes_play_by_either_way_of_copying(host: Host, program: Callable[[str], str], copy: str) -> None:
    play(host, program("ibv_rc_pingpong"), ["-c"], SOFTRDMA_COPY=copy)


def test_one_device_plays_with_itself(host: Host, program: Callable[[str], str]) -> None:
    play(host, program("ibv_rc_pingpong"), [], devices=("rxe0", "rxe0"))


def play(host: Host, name: str, options: list[str], devices: tuple[str, str] = ("rxe0", "rxe1"), **env: Any) -> None:
    """Sleeping on events is quick on any machine; polling processes on few cores take turns: fewer rounds there."""
    common = ["-p", str(free_port()), "-g", "1", "-n", "500" if "-e" in options else "100", *options]
    server = [name, "-d", devices[0], *common]
    client = [name, "-d", devices[1], *common, "localhost"]
    for finished in host.pair(server, client, **env):
        assert "bytes in" in finished.must() or "iters in" in finished.output, finished.output
