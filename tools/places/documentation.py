# SPDX-License-Identifier: BSD-3-Clause
"""The documentation: every Python block of it runs on softrdma, and the site builds without a warning."""
from __future__ import annotations

import subprocess
from pathlib import Path

import host
import pythons
from place import BUILD, ROOT, Runs, build_path, pytest, quietly, report_for, run

VENV = pythons.VENVS / "docs"
WANTED = ROOT / "docs" / "requirements.txt"
#: That of the theme's tools: an older one gets older tools, which build other pages.
FLOOR = (3, 10)


def run_docs(runs: Runs) -> None:
    with runs.outcome("docs, what stands in them") as outcome:
        report = report_for(outcome.name)
        env = {"PYTHONPATH": build_path(), "RDMA_TEST_REQUIRE": host.SOFTRDMA_HAS}
        tests = pytest(ROOT / ".venv/bin/python", report, "tests/test_readme.py", "tests/test_docs.py")
        outcome.add_report(report, run([*host.under_softrdma("docs"), *tests], env))
    with runs.outcome("docs, the site") as outcome:
        python = _with_tools()
        if python is None:
            outcome.skip("needs CPython 3.10 or newer, for mkdocs and its plugins")
            return
        env = {"RDMA_DOCS_PATH": build_path(), "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": ""}
        # with --quiet it would not count the warnings that --strict fails for
        quietly([python, "-m", "mkdocs", "build", "--strict", "--site-dir", BUILD / "docs"], env)
        outcome.check(f"mkdocs build --strict, {len(list((BUILD / 'docs').rglob('*.html')))} pages", True)


def _with_tools() -> Path | None:
    made = VENV / "made-from"
    wanted = f"{ROOT} {WANTED.read_text()}"
    python = VENV / "bin" / "python"
    if made.exists() and made.read_text() == wanted:
        return python
    for version in reversed(pythons.at_hand()):
        if tuple(map(int, version.split("."))) < FLOOR:
            continue
        try:
            pythons.make(version, VENV, "-r", WANTED)
        except subprocess.CalledProcessError:
            continue
        made.write_text(wanted)
        return python
    return None
