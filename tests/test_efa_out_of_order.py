# SPDX-License-Identifier: BSD-3-Clause
"""SRD delivers in any order: requests complete and messages arrive as they like, each once and whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from place import seconds

pytestmark = [pytest.mark.needs("efa", "software_host"), pytest.mark.only("efa")]

SCRIPT = Path(__file__).parent / "peers" / "out_of_order.py"


def run(seed: int | None, *arguments: str) -> dict[str, list[int]]:
    env = {**os.environ, "SOFTRDMA_FABRIC": f"out-of-order-{os.getpid()}"}
    env.pop("SOFTRDMA_REORDER", None)
    if seed is not None:
        env["SOFTRDMA_REORDER"] = str(seed)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        env=env, capture_output=True, text=True, timeout=seconds(60), check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[int]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("arguments", [[], pytest.param(["--cq-ex"], marks=pytest.mark.needs("cq_ex"))])
@pytest.mark.parametrize("seed", [1, 7, 2026])
def test_everything_arrives_once_and_whole_in_another_order(ib: Any, seed: int, arguments: list[str]) -> None:
    orders = run(seed, *arguments)
    for order in orders.values():
        assert order != sorted(order), "the device did deliver in order: nothing was tried"


def test_without_it_the_device_keeps_the_order(ib: Any) -> None:
    """Else the test above would prove nothing of the device's doing."""
    for order in run(None).values():
        assert order == sorted(order)
