# SPDX-License-Identifier: BSD-3-Clause
"""The suite in a build where gcc's address and undefined-behaviour sanitizers watch, on the stub library, on the
software host and in the kernel VM; and the software host's program of many threads, where the thread sanitizer does."""
from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import host
import kernel_vm
from place import ROOT, Outcome, Runs, build_path, pytest, quietly, report_for, run

BUILD = ROOT / "build-sanitized"
THREADS_BUILD = ROOT / "build-sanitized-threads"
#: Writes behind the end of a block of the C library's; a sanitizer that lets it pass watches nothing.
FAULT = "import ctypes; c = ctypes.CDLL(None); c.malloc.restype = ctypes.c_void_p; ctypes.memset(c.malloc(8), 0, 9)"


#: In the guest each page that is touched for the first time costs a hand-over between two processes: what was freed is
#: used again soon, and notes are cleared where they lie.
FEW_PAGES = ":quarantine_size_mb=8:clear_shadow_mmap_threshold=4294967296:allocator_release_to_os_interval_ms=-1"


def _environment() -> dict[str, str]:
    libraries = [quietly(["gcc", f"-print-file-name={name}"]).strip() for name in ("libasan.so", "libubsan.so")]
    return {
        "PYTHONPATH": build_path(BUILD),
        "LD_PRELOAD": " ".join(libraries),
        "PYTHONMALLOC": "malloc",       # Python's own allocator would hide blocks from them
        # interpreters leave memory behind at exit by design; the tests count what the module leaves
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:handle_segv=0",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    }


def _build(folder: Path, source: str, *options: object) -> None:
    if not (folder / "build.ninja").exists():
        quietly(["meson", "setup", *options, "-Db_lundef=false", folder, source])
    quietly(["ninja", "-C", folder])


def _check_that_it_watches(outcome: Outcome, env: Mapping[str, str]) -> None:
    done = subprocess.run([ROOT / ".venv/bin/python", "-c", FAULT], env={**os.environ, **env}, check=False,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    outcome.check("a fault is found", done.returncode != 0 and "heap-buffer-overflow" in done.stderr)


def run_sanitized(runs: Runs) -> None:
    python = ROOT / ".venv/bin/python"
    with runs.outcome("sanitizers, stub") as outcome:
        _build(BUILD, ".", "-Db_sanitize=address,undefined")
        env = _environment()
        _check_that_it_watches(outcome, env)
        report = report_for(outcome.name)
        env.update(RDMA_LIBRARY_PATH=str(BUILD / "tests" / "stub"), RDMA_TEST_REQUIRE="stub")
        outcome.add_report(report, run(pytest(python, report), env))
    with runs.outcome("sanitizers, softrdma") as outcome:
        env = _environment()
        report = report_for(outcome.name)
        env.update(RDMA_TEST_REQUIRE=host.SOFTRDMA_HAS)
        outcome.add_report(report, run([*host.under_softrdma("sanitized"), *pytest(python, report)], env))


def run_sanitized_in_vm(runs: Runs) -> None:
    python = ROOT / ".venv/bin/python"
    with runs.outcome("sanitizers, kernel VM") as outcome:
        kernel = Path(os.environ.get("RDMA_UML_KERNEL_SECOND") or kernel_vm.kernel())
        _build(BUILD, ".", "-Db_sanitize=address,undefined")
        env = _environment()
        if not _has_room_for_shadows(kernel, env):
            outcome.skip("needs a User Mode Linux kernel with page tables of four levels (6.13 or newer)")
            return
        env["ASAN_OPTIONS"] += FEW_PAGES
        env["RDMA_TEST_REQUIRE"] = kernel_vm.REQUIRED
        report = report_for(outcome.name)
        outcome.add_report(report, kernel_vm.in_vm(kernel, pytest(python, report), env, memory="4G"))


def _has_room_for_shadows(kernel: Path, env: Mapping[str, str]) -> bool:
    """The address sanitizer keeps its notes at 128 TiB; with page tables of three levels a process ends at 512 GiB."""
    return kernel_vm.in_vm(kernel, ["true"], env, stderr=subprocess.DEVNULL) == 0


def run_threads_sanitized(runs: Runs) -> None:
    with runs.outcome("thread sanitizer") as outcome:
        _build(THREADS_BUILD, "softrdma", "--buildtype=debugoptimized", "-Dtests=true", "-Db_sanitize=thread")
        env = {
            "LD_PRELOAD": str(THREADS_BUILD / "softrdma" / "libsoftrdma.so"),
            # what looks like a cycle of locks has in it the one that says a process lives: nobody waits for that
            "TSAN_OPTIONS": "detect_deadlocks=0",
        }
        for way in ("process_vm", "agent"):
            more = {"SOFTRDMA_FABRIC": f"tsan-{way}-{os.getpid()}"}
            if way == "agent":
                more["SOFTRDMA_COPY"] = way
            status = run([THREADS_BUILD / "tests" / "threads"], {**env, **more})
            outcome.check(f"threads, {way}", status == 0)
