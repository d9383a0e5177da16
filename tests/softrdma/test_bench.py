# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark measures everything that it says it does.

What it measures depends on the machine and its other work: `bench --check` holds the promises, on a quiet machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def test_bench_fills_its_table(judged: Path) -> None:
    command = [sys.executable, HERE / "bench", "--no-vm"]
    env = {**os.environ, "SOFTRDMA_JUDGED_LIBRARY": str(judged)}
    done = subprocess.run(
        [str(word) for word in command],
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=200,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout
    rows = [line for line in done.stdout.splitlines() if line[60:75].strip() not in ("", "softrdma")]
    assert len(rows) == 18 and not any(line[60:75].strip() == "-" for line in rows), done.stdout
