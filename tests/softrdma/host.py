# SPDX-License-Identifier: BSD-3-Clause
"""Running programs on the software host: alone, and two that talk to each other."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

Word = object  # of a command line: a string, a path, a number
_numbers = itertools.count()


class Finished(NamedTuple):
    status: int
    output: str

    def must(self, status: int = 0) -> str:
        """The output, if the program ended as it should."""
        assert self.status == status, f"exit status {self.status}:\n{self.output[-4000:]}"
        return self.output


class Running:
    """A program in a session of its own, so that the whole of it can be ended."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid

    def finish(self, timeout: float = 60) -> Finished:
        try:
            output, _ = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.end()
            output, _ = self.process.communicate()
            return Finished(124, f"{output}\n(still running after {timeout:g} s)")
        return Finished(self.process.returncode, output)

    def alive(self) -> bool:
        return self.process.poll() is None

    def read_until(self, word: str) -> str:
        """Reads lines up to one that holds the word, which has to come."""
        assert self.process.stdout is not None
        seen = []
        for line in self.process.stdout:
            seen.append(line)
            if word in line:
                return "".join(seen)
        raise AssertionError(f"'{word}' never came:\n{''.join(seen)}")

    def end(self) -> None:
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


class Host:
    """The library under judgement, and a fabric that nobody else uses."""

    def __init__(self, library: Path, fabric: str | None = None) -> None:
        self.library = library
        self.fabric = fabric or f"judge-{os.getpid()}-{next(_numbers)}"

    def env(self, **more: Any) -> dict[str, str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith(("SOFTRDMA_", "LD_PRELOAD"))}
        before = more.pop("LD_PRELOAD", "")
        if before is not None:  # None: the command itself names the library
            env["LD_PRELOAD"] = f"{before}:{self.library}".lstrip(":")
        env["SOFTRDMA_FABRIC"] = self.fabric
        return {**env, **more}

    def start(self, command: Sequence[Word], stdin: bool = False, **env: Any) -> Running:
        return Running(
            subprocess.Popen(
                [str(word) for word in command],
                env=self.env(**env),
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        )

    def run(self, command: Sequence[Word], timeout: float = 60, **env: Any) -> Finished:
        with ended(self.start(command, **env)) as program:
            return program.finish(timeout)

    def pair(
        self,
        server: Sequence[Word],
        client: Sequence[Word],
        timeout: float = 60,
        port_option: str = "-p",
        **env: Any,
    ) -> tuple[Finished, Finished]:
        """Runs a server and, once something listens at the TCP port of its command line, a client; both have to end."""
        with ended(self.start(server, **env)) as first:
            port = tcp_port(server, port_option)
            deadline = time.monotonic() + 20
            while not listening(port) and first.alive() and time.monotonic() < deadline:
                time.sleep(0.02)
            with ended(self.start(client, **env)) as second:
                after = second.finish(timeout)
                return first.finish(timeout if after.status == 0 else 5), after


@contextmanager
def ended(program: Running) -> Iterator[Running]:
    try:
        yield program
    finally:
        if program.alive():
            program.end()


def tcp_port(command: Sequence[Word], option: str = "-p") -> int:
    words = [str(word) for word in command]
    return int(words[words.index(option) + 1])


def listening(port: int) -> bool:
    """Whether a TCP socket of this machine listens there; asking it by connecting would disturb the programs."""
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[1].endswith(wanted) and fields[3] == "0A":
                return True
    return False


def free_port() -> int:
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def compile_program(target: Path, sources: Sequence[Path], flags: Sequence[str] = ()) -> Path:
    """Builds a C program of ours; a test without a compiler is skipped by its fixture, not here."""
    include = sources[0].parent
    words: list[Any] = [
        "cc",
        "-std=gnu11",
        "-O1",
        "-g",
        "-Wall",
        "-Wextra",
        f"-I{include}",
        *flags,
        "-o",
        target,
        *sources,
        "-libverbs",
        "-lpthread",
    ]
    done = subprocess.run(
        [str(word) for word in words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    assert done.returncode == 0, done.stdout
    return target
