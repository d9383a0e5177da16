# SPDX-License-Identifier: BSD-3-Clause
"""Two copies of programs/peer.c, introduced to each other by the test that starts them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from host import Host, Running, Word, ended


def say(program: Running, text: str) -> None:
    assert program.process.stdin is not None
    program.process.stdin.write(text)
    program.process.stdin.flush()


def address(program: Running) -> str:
    return program.read_until("address").splitlines()[-1] + "\n"


def go(*programs: Running) -> None:
    for program in programs:
        say(program, "g")


@contextmanager
def introduced(
    host: Host,
    peer: Path,
    seconds: float,
    modes: Sequence[str] = ("work", "work"),
    wrapper: Sequence[Word] = (),
    **env: Any,
) -> Iterator[tuple[Running, Running]]:
    """Both are connected and wait for the word to go."""
    commands = [[*wrapper, peer, device, str(seconds), mode] for device, mode in enumerate(modes)]
    with ended(host.start(commands[0], stdin=True, **env)) as a, ended(host.start(commands[1], stdin=True, **env)) as b:
        first, second = address(a), address(b)
        say(a, second)
        say(b, first)
        a.read_until("connected")
        b.read_until("connected")
        yield a, b
