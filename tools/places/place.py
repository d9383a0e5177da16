# SPDX-License-Identifier: BSD-3-Clause
"""What a place of tests is, what a run there yields, and how its commands are run."""
from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
STUB = BUILD / "tests" / "stub"
RESULTS = BUILD / "results"     # the reports of the test runners
#: The distributions that users of verbs install; each has a folder, a stub of its extension, an sdist and a wheel.
PACKAGES = ("ibverbs", "efa")
#: What is the same wherever data moves; each has a place where it runs.
ELSEWHERE = ("tests/packaging", "tests/test_stubs.py", "tests/softrdma")
#: The suite of the bindings.
SUITE = ("tests", *(f"--ignore={path}" for path in ELSEWHERE))
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ibverbs-tests"


@dataclass
class Outcome:
    """The counts of one place. `ran` and `skips` name tests, where a runner that names them ran."""

    name: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    ran: set[str] = field(default_factory=set)
    skips: dict[str, str] = field(default_factory=dict)

    def check(self, what: str, good: bool) -> bool:
        """Counts one check that is no test of a runner."""
        print(f"{'ok' if good else 'FAILED'}: {what}", flush=True)
        self.passed += good
        self.failed += not good
        return good

    def skip(self, why: str) -> None:
        print(f"skipped: {why}", flush=True)
        self.skipped += 1

    def add_report(self, report: Path, status: int) -> None:
        """Adds what a JUnit report says; a runner that failed without saying what counts as one failure."""
        cases = list(xml.parse(report).iter("testcase")) if report.exists() else []
        if status < 0:
            print(f"the runner was ended by signal {-status}", flush=True)
        failed = 0
        for case in cases:
            name = f"{case.get('classname')}.{case.get('name')}"
            skip = case.find("skipped")
            if skip is not None and skip.get("type") != "pytest.xfail":
                self.skipped += 1
                self.skips[name] = skip.get("message") or ""
            elif case.find("failure") is not None or case.find("error") is not None:
                failed += 1
                self.ran.add(name)
            else:
                self.passed += 1
                self.ran.add(name)
        self.failed += failed or (status != 0 or not cases)


@dataclass
class Place:
    """Its name, what it is, and what runs it; that adds as many outcomes as it likes."""

    name: str
    about: str
    run: Callable[[Runs], None]
    only_when_named: bool = False


class Runs:
    """Collects the outcomes of a run of places, printing a heading for each."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    @contextmanager
    def outcome(self, name: str) -> Iterator[Outcome]:
        print(f"\n=== {name} ===", flush=True)
        one = Outcome(name)
        self.outcomes.append(one)
        start = time.monotonic()
        try:
            yield one
        except subprocess.CalledProcessError as error:
            one.check(f"{' '.join(map(str, error.cmd))} (exit status {error.returncode})", False)
        finally:
            one.seconds = time.monotonic() - start
            print(f"--- {name}: {one.passed} passed, {one.failed} failed, {one.skipped} skipped, "
                  f"{one.seconds:.0f} s", flush=True)


def run(command: Sequence[object], env: Mapping[str, str] | None = None, **options: object) -> int:
    """Runs a command in the root of the tree, showing what it prints, and returns its exit status."""
    done = subprocess.run([str(word) for word in command], cwd=ROOT, stdin=subprocess.DEVNULL,
                          env={**os.environ, **(env or {})}, check=False, **options)  # type: ignore[call-overload]
    return int(done.returncode)


def quietly(command: Sequence[object], env: Mapping[str, str] | None = None, cwd: Path = ROOT) -> str:
    """Runs a command that has to succeed and returns what it prints; shows it only if it fails."""
    done = subprocess.run([str(word) for word in command], cwd=cwd, stdin=subprocess.DEVNULL, check=False,
                          env={**os.environ, **(env or {})}, text=True, errors="replace",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        print(done.stdout, flush=True)
        raise subprocess.CalledProcessError(done.returncode, done.args, done.stdout)
    return done.stdout


def report_for(name: str) -> Path:
    RESULTS.mkdir(parents=True, exist_ok=True)
    report = RESULTS / (re.sub(r"[^a-zA-Z0-9.]+", "-", name) + ".xml")
    report.unlink(missing_ok=True)
    return report


def pytest(python: Path, report: Path, *tests: object) -> list[object]:
    """The command that runs these tests, the whole suite by default; what is skipped stands in the report."""
    return [python, "-m", "pytest", "-q", "-rfE", "--tb=short", f"--junitxml={report}", *(tests or SUITE)]


@functools.cache
def build_path(build: Path = BUILD) -> str:
    """The PYTHONPATH that makes the packages of a build folder importable."""
    dump = quietly(["meson", "devenv", "-C", build, "--dump"], env={"PYTHONPATH": ""})
    found = re.search(r'^PYTHONPATH="?([^"\n]*?):*(\$PYTHONPATH)?"?$', dump, re.MULTILINE)
    if not found:
        sys.exit("the build folder's environment has no PYTHONPATH")
    return found[1]
