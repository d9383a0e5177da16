# SPDX-License-Identifier: BSD-3-Clause
"""The pytest plugin: with ``--softrdma`` pytest starts itself again under the library.

The second pytest has a fabric of its own, so that two test runs on one machine do not meet, unless SOFTRDMA_FABRIC
names one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from . import faults, is_loaded, library, preload

#: Of both kinds, so that one run serves tests of either.
DEVICES = "rxe:2,efa:2,iwarp:1"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("softrdma", "software RDMA host")
    group.addoption("--softrdma", action="store_true", help="run the tests on the software RDMA host")
    group.addoption("--softrdma-devices", metavar="LIST", default=None, help=f"its NICs ({DEVICES})")


def _interpreter_flags() -> list[str]:
    """What stood between the interpreter and the program on the first command line (-X, -W and such)."""
    original = getattr(sys, "orig_argv", [])  # 3.10
    flags: list[str] = []
    for argument in original[1:]:
        if not argument.startswith("-") or argument in ("-m", "-c", "-"):
            break
        flags.append(argument)
        if argument in ("-X", "-W"):  # their value is an argument of its own
            return flags[:-1]
    return flags


def _restart(config: pytest.Config, devices: str | None) -> None:
    env = dict(os.environ)
    fabric = env.get("SOFTRDMA_FABRIC", f"pytest-{os.getpid()}")
    preload(env, devices=devices or env.get("SOFTRDMA_DEVICES", DEVICES), fabric=fabric)
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:  # the second pytest writes to the real descriptors
        capture.stop_global_capturing()
    sys.stdout.flush()
    sys.stderr.flush()
    arguments = [str(argument) for argument in config.invocation_params.args]
    os.chdir(config.invocation_params.dir)
    os.execve(sys.executable, [sys.executable, *_interpreter_flags(), "-m", "pytest", *arguments], env)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    options = early_config.known_args_namespace
    if options.softrdma and not is_loaded():
        _restart(early_config, options.softrdma_devices)


def pytest_report_header(config: pytest.Config) -> str | None:
    if not is_loaded():
        return None
    devices = os.environ.get("SOFTRDMA_DEVICES", "rxe:2")
    return f"softrdma: {devices}, fabric {os.environ.get('SOFTRDMA_FABRIC', 'default')}, {library()}"


@pytest.fixture
def softrdma_faults() -> Iterator[faults.Faults]:
    """Faults of the test's own process, all undone when it ends; what they were is shown when it fails."""
    if not is_loaded():
        pytest.skip("needs the software RDMA host: pytest --softrdma")
    with faults.here() as mine:
        yield mine


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """A test that failed shows its faults."""
    outcome = yield
    report = outcome.get_result()
    mine = getattr(item, "funcargs", {}).get("softrdma_faults")
    if report.when == "call" and report.failed and isinstance(mine, faults.Faults):
        rules = "".join(f"\n{r.text}: struck {r.fired} of {r.seen} times" for r in mine.rules())
        report.sections.append(("softrdma faults", f"seed {mine.seed}{rules}"))
