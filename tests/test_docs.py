# SPDX-License-Identifier: BSD-3-Clause
"""Each page of docs/ does what it says: its Python blocks run one after the other, in an interpreter of their own."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import packages
import pytest
from place import seconds

DOCS = pathlib.Path(__file__).parent.parent / "docs"
#: Pages whose blocks cannot just be run.
NOT_RUN = {
    "faults": "its blocks are tests themselves, which test_faults_on_demand.py runs",
    "gpudirect": "it needs a GPU",
}


def blocks(page: pathlib.Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


PAGES = sorted(page.stem for page in DOCS.glob("*.md") if blocks(page))


def run(page: str, arguments: list[str], text: str) -> Any:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.run([sys.executable, *arguments], input=text, env=env, cwd=DOCS, timeout=seconds(100),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)  # fmt: skip


@pytest.mark.only("ibverbs")
@pytest.mark.needs("rc")
@pytest.mark.parametrize("page", [page for page in PAGES if page not in NOT_RUN])
def test_what_a_page_shows_runs(ib: Any, page: str) -> None:
    texts = blocks(DOCS / f"{page}.md")
    imported = {name for name in packages.ALL if re.search(rf"^\s*import {name}\b", "\n".join(texts), re.MULTILINE)}
    missing = imported - set(packages.built())
    if missing:
        pytest.skip(f"needs {', '.join(missing)}, built")
    done = run(page, ["-"], "\n".join(texts))
    too_old = re.search(r"UnsupportedError: .* installed lib\w+ has no such function; (rdma-core \d+)", done.stdout)
    if too_old:
        pytest.skip(f"needs {too_old[1]}")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("page", sorted(NOT_RUN))
def test_what_a_page_shows_compiles(page: str) -> None:
    for text in blocks(DOCS / f"{page}.md"):
        compile(text, page, "exec")


def test_every_page_stands_in_the_contents() -> None:
    contents = (DOCS.parent / "mkdocs.yml").read_text()
    assert [page.name for page in DOCS.glob("*.md") if f": {page.name}\n" not in contents] == []
