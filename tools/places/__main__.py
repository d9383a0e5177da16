# SPDX-License-Identifier: BSD-3-Clause
"""Runs the tests in every place that this machine offers, or in those that are named; see tools/test."""
from __future__ import annotations

import argparse
import os
import pickle
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

import benchmark
import c_units
import compilers
import documentation
import fuzzing
import host
import host_itself
import judges
import kernel_vm
import memcheck
import rdma_core
import sanitizers
import soak
import type_checks
import wheel
from place import Outcome, Place, Runs

PLACES = [
    Place("c", "the C units, without Python", c_units.run_c),
    Place("plain", "on this machine, without a device", host.run_without_device),
    Place("softrdma", "on the software host", host.run_on_softrdma),
    Place("host", "the software host's own programs", host_itself.run_host_itself),
    Place("stub", "on the stub library", host.run_on_stub),
    Place("stubs", "the same with every Python at hand: only when named, for wheel does it too",
          host.run_on_stub_with_all, only_when_named=True),
    Place("sanitizers", "on stub and software host, built with the address and undefined-behaviour sanitizers",
          sanitizers.run_sanitized),
    Place("tsan", "threads on the software host, built with the thread sanitizer", sanitizers.run_threads_sanitized),
    Place("memcheck", "part of the suite in valgrind, on stub and software host", memcheck.run_memcheck),
    Place("memcheck-all", "the whole suite in valgrind, half an hour and more: only when named",
          memcheck.run_memcheck_on_all, only_when_named=True),
    Place("fuzz", "the C units under a fuzzer, for seconds (RDMA_TEST_FUZZ_SECONDS)", fuzzing.run_fuzzers),
    Place("vm", "on a real kernel's verbs, in the kernel VM", kernel_vm.run_in_vm),
    Place("vm2", "the same with the kernel that RDMA_UML_KERNEL_SECOND names", kernel_vm.run_in_second_vm),
    Place("vm-sanitizers", "in the kernel VM, built with the address and undefined-behaviour sanitizers",
          sanitizers.run_sanitized_in_vm),
    Place("debian11", "in the kernel VM over the rdma-core of Debian 11", rdma_core.run_on_debian_11),
    Place("debian13", "in the kernel VM over the rdma-core and Python of Debian 13", rdma_core.run_on_debian_13),
    Place("efa-debian11", "efa on the software host over the rdma-core of Debian 11", rdma_core.run_efa_on_debian_11),
    Place("efa-debian13", "efa on the software host over the rdma-core and Python of Debian 13",
          rdma_core.run_efa_on_debian_13),
    Place("judges", "others judge the software host, and it is held beside real kernels", judges.run_judges),
    Place("soak-short", "a minute of traffic on the software host under random faults (RDMA_TEST_SOAK_SEED)",
          soak.run_short_soak),
    Place("soak", "ten minutes of that: only when named (RDMA_TEST_SOAK_SECONDS)", soak.run_soak, only_when_named=True),
    Place("testing", "the same of Debian testing, a moving target: only when named", rdma_core.run_on_debian_testing,
          only_when_named=True),
    Place("efa-testing", "efa on the software host over Debian testing, what rdma-core 65 brings too: only when named",
          rdma_core.run_efa_on_debian_testing, only_when_named=True),
    Place("docs", "the documentation: what stands in it runs on softrdma, and its site builds", documentation.run_docs),
    Place("types", "mypy, stubtest and ruff", type_checks.run_type_checks),
    Place("wheel", "sdist, wheel, and the wheel on the stub with every Python at hand", wheel.run_wheel),
    Place("bench", "the benchmark's short form: a report", benchmark.run_bench),
    Place("compilers", "warnings are errors, with gcc and clang", compilers.run_compilers),
]


#: With two processors these run beside the others: what takes long, in builds of its own.
BESIDE = {"sanitizers", "tsan", "vm-sanitizers", "wheel"}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/test", description="Runs the tests in the places named, or in all.")
    parser.add_argument("place", nargs="*", help="see --list")
    parser.add_argument("--list", action="store_true", help="list the places")
    args = parser.parse_args()
    known = {place.name for place in PLACES}
    for name in args.place:
        if name not in known:
            parser.error(f"no place is called {name}: {', '.join(sorted(known))}")
    return args


def never_ran(outcomes: list[Outcome]) -> dict[str, list[str]]:
    """The tests that every place skipped, by the reason that the last one gave."""
    ran = set().union(*(outcome.ran for outcome in outcomes))
    reasons = {name: why for outcome in outcomes for name, why in outcome.skips.items() if name not in ran}
    return {why: sorted(name for name in reasons if reasons[name] == why) for why in sorted(set(reasons.values()))}


def summary(outcomes: list[Outcome]) -> int:
    print("\n=== summary ===")
    width = max(len(outcome.name) for outcome in outcomes)
    for outcome in outcomes:
        print(f"{outcome.name:<{width}}  {outcome.passed:6} passed  {outcome.failed:3} failed  "
              f"{outcome.skipped:4} skipped  {outcome.seconds:5.0f} s")
    for why, names in never_ran(outcomes).items():
        print(f"ran nowhere: {len(names)} tests ({why}): {', '.join(names[:3])}{', …' if len(names) > 3 else ''}")
    passed, failed, skipped = (sum(getattr(o, what) for o in outcomes) for what in ("passed", "failed", "skipped"))
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if failed or not passed else 0


def main() -> int:
    args = arguments()
    if args.list:
        for place in PLACES:
            print(f"{place.name:13} {place.about}")
        return 0
    chosen = [place for place in PLACES if place.name in args.place or not (args.place or place.only_when_named)]
    beside = [place for place in chosen if place.name in BESIDE]
    if args.place or not beside or (os.cpu_count() or 1) < 2:
        return summary(run_all(chosen))
    with tempfile.TemporaryDirectory(prefix="beside-") as folder:
        other = start_beside(beside, Path(folder))
        outcomes = run_all([place for place in chosen if place not in beside])
        return summary(outcomes + finish_beside(other, Path(folder)))


def run_all(places: Sequence[Place]) -> list[Outcome]:
    runs = Runs()
    for place in places:
        place.run(runs)
    return runs.outcomes


def start_beside(places: Sequence[Place], folder: Path) -> int:
    """Runs places in a child process, which keeps what it prints and counts in the folder."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        log = os.open(folder / "log", os.O_CREAT | os.O_WRONLY)
        os.dup2(log, 1)
        os.dup2(log, 2)
        (folder / "outcomes").write_bytes(pickle.dumps(run_all(places)))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def finish_beside(child: int, folder: Path) -> list[Outcome]:
    """Waits for it, prints what it printed, and returns what it counted."""
    _, status = os.waitpid(child, 0)
    print((folder / "log").read_text(errors="replace"), flush=True)
    if status:
        return [Outcome("what ran beside: it ended before its end", failed=1)]
    outcomes: list[Outcome] = pickle.loads((folder / "outcomes").read_bytes())
    return outcomes


if __name__ == "__main__":
    sys.exit(main())
