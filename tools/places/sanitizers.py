# SPDX-License-Identifier: BSD-3-Clause
"""The suite on the stub library, in a build where gcc's address and undefined-behaviour sanitizers watch."""
from __future__ import annotations

from place import ROOT, Runs, build_path, pytest, quietly, report_for, run

BUILD = ROOT / "build-sanitized"


def run_sanitized(runs: Runs) -> None:
    with runs.outcome("sanitizers, stub") as outcome:
        if not (BUILD / "build.ninja").exists():
            quietly(["meson", "setup", BUILD, "-Db_sanitize=address,undefined", "-Db_lundef=false"])
        quietly(["ninja", "-C", BUILD])
        libraries = [quietly(["gcc", f"-print-file-name={name}"]).strip() for name in ("libasan.so", "libubsan.so")]
        report = report_for(outcome.name)
        env = {
            "PYTHONPATH": build_path(BUILD),
            "RDMA_LIBRARY_PATH": str(BUILD / "tests" / "stub"),
            "RDMA_TEST_REQUIRE": "stub",
            "LD_PRELOAD": " ".join(libraries),
            "PYTHONMALLOC": "malloc",       # Python's own allocator would hide blocks from them
            # interpreters leave memory behind at exit by design; the tests count what the module leaves
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:handle_segv=0",
            "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        }
        outcome.add_report(report, run(pytest(ROOT / ".venv/bin/python", report), env))
