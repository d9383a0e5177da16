# SPDX-License-Identifier: BSD-3-Clause
"""The programs that are measured, each a process that obeys lines: how they are started, and how they are asked."""
from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
#: The C side of each package.
PROGRAMS = {"ibverbs": "calls", "efa": "calls_efa"}


@dataclass(frozen=True)
class Side:
    """One column of the tables: C, or an interpreter (by its version)."""

    name: str
    python: Path | None

    @property
    def minor(self) -> int:
        return int(self.name.split(".")[1])


C = Side("C", None)


def python_side(version: str, path: Path) -> Side:
    return Side(version, path)


@dataclass
class Setting:
    """What is measured, on which library, and how."""

    build: Path
    library: Path
    package: str

    def command(self, side: Side) -> list[str]:
        if side.python is None:
            return [str(self.build / "bench" / PROGRAMS[self.package])]
        return [str(side.python), "-B", str(HERE / "worker.py"), self.package,
                str(self.build / "subprojects" / self.package)]

    def environment(self) -> Mapping[str, str]:
        return {**os.environ, "RDMA_LIBRARY_PATH": str(self.library), "PYTHONHASHSEED": "0", "PYTHONPATH": ""}

    @cached_property
    def urgent(self) -> Sequence[str]:
        """The start of a command that keeps other programs away; empty where that is not allowed."""
        cpu = max(os.sched_getaffinity(0))
        prefix = ["taskset", "-c", str(cpu), "chrt", "-f", "1"]
        if not all(map(shutil.which, ("taskset", "chrt"))):
            return []
        allowed = subprocess.run([*prefix, "true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        return prefix if allowed.returncode == 0 else []

    def how(self) -> str:
        if self.urgent:
            return f"real-time priority on CPU {self.urgent[2]}"
        return "ordinary priority (no right to another), so other programs disturb"

    def build_type(self) -> str:
        """How the build folder was configured, as far as speed goes."""
        told = self.build / "meson-info" / "intro-buildoptions.json"
        if not told.exists():
            return "build type unknown"
        options = {option["name"]: option["value"] for option in json.loads(told.read_text())}
        return f"build type {options['buildtype']}, -O{options['optimization']}{', LTO' if options['b_lto'] else ''}"


class Worker:
    """A running side."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, line: str) -> Any:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"bench/run: {self._process.args!r} ended at {line!r}")
        return json.loads(answer)

    def time(self, row: str, count: int) -> int:
        return int(self.ask(f"time {row} {count}"))


@contextmanager
def running(setting: Setting, side: Side, prefix: Sequence[str] = ()) -> Iterator[Worker]:
    process = subprocess.Popen([*prefix, *setting.command(side)], env=setting.environment(), text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield Worker(process)
        assert process.stdin
        process.stdin.close()
        if process.wait():
            raise SystemExit(f"bench/run: {side.name} ended with status {process.returncode}")
    finally:
        process.kill()
        process.wait()
        assert process.stdout
        process.stdout.close()


@contextmanager
def all_running(setting: Setting, sides: Sequence[Side], prefix: Sequence[str] = ()) -> Iterator[dict[Side, Worker]]:
    with ExitStack() as stack:
        yield {side: stack.enter_context(running(setting, side, prefix)) for side in sides}


def callgrind_total(path: Path) -> int:
    """The instructions of one dump."""
    found = re.search(r"^(?:totals|summary): (\d+)", path.read_text(errors="replace"), re.MULTILINE)
    return int(found[1]) if found else 0
