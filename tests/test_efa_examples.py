# SPDX-License-Identifier: BSD-3-Clause
"""The example of efa does what its first paragraph says, and the one in its README runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from place import Node, seconds

pytestmark = [pytest.mark.needs("device"), pytest.mark.only("efa")]
HOME = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(("workers", "chunk"), [(1, 1 << 20), (3, 300_001)])
def test_push_weights_shows_progress_and_that_all_of_it_arrived(ib: Any, node: Node, workers: int, chunk: int) -> None:
    done = subprocess.run(
        [sys.executable, str(HOME / "examples/push_weights.py"), "--device", node.name, "--megabytes", "2",
         "--workers", str(workers), "--chunk", str(chunk)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds(60), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    for number in range(workers):
        assert re.search(rf"worker {number}.*: 100 %", done.stdout)
    assert f"2 MiB arrived at {workers} workers" in done.stdout


@pytest.mark.parametrize("words", ["--workers 0", "--megabytes -1", "--chunk 1", "--device no_such_device"])
def test_a_mistake_of_the_user_is_told_in_a_line(ib: Any, node: Node, words: str) -> None:
    done = subprocess.run(
        [sys.executable, str(HOME / "examples/push_weights.py"), *words.split()],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds(60), check=False,
    )  # fmt: skip
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stdout
    assert re.search(r"^(push_weights\.py: \S|no EFA device \S)", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.needs("cq_ex")
def test_the_program_in_the_readme_runs(ib: Any) -> None:
    text = (HOME / "efa/README.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(program, "README.md", "exec"), {})
