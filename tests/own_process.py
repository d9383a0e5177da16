# SPDX-License-Identifier: BSD-3-Clause
"""Tests that need a process of their own: after a NIC was pulled out, what libraries keep open of it (librdmacm does)
is dead for the rest of the process."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

from place import seconds

ROOT = Path(__file__).resolve().parent.parent
VARIABLE = "RDMA_TEST_OWN_PROCESS"


def own_process(test: Callable[..., None]) -> Callable[..., None]:
    """Runs the test by a pytest of its own."""

    @functools.wraps(test)
    def run(*args: Any, **fixtures: Any) -> None:
        if os.environ.get(VARIABLE):
            test(*args, **fixtures)
            return
        name = os.environ["PYTEST_CURRENT_TEST"].rpartition(" (")[0]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", name], cwd=ROOT, env={**os.environ, VARIABLE: "1"}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds(60), check=False,
        )  # fmt: skip
        assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout

    return run
