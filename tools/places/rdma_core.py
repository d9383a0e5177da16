# SPDX-License-Identifier: BSD-3-Clause
"""The suite over other versions of rdma-core than this machine's: on the kernel VM's devices, and that of EFA, which no
kernel can play, on softrdma's."""
from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import debian
from host import under_softrdma
from kernel_vm import REQUIRED, in_vm, kernel
from place import ROOT, Runs, build_path, pytest, report_for, run

HERE = Path(__file__).resolve().parent
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LIBRARIES = ["libibverbs1", "ibverbs-providers", "ibverbs-utils"]
#: A root in which the suite can run: its own Python, for its libraries need its own C library.
USERLAND = ["base-files", "bash", "coreutils", "dash", "iproute2", "binutils", "python3", "python3-pytest",
            "python3-hypothesis"]


@dataclass
class Release:
    """A libibverbs of another release: its path, the Python over it, and what stands before a command that uses it."""

    library: Path
    python: Path
    prepare: Sequence[object]
    env: dict[str, str]


def debian_11() -> Release:
    """rdma-core 33 from a folder, under this machine's Python."""
    folder = debian.packages("bullseye", [*LIBRARIES, "librdmacm1"])
    library = next(folder.glob("usr/lib/*/libibverbs.so.1")).resolve()
    # the providers are opened by bare name, so their folder has to be on the path too
    env = {"LD_LIBRARY_PATH": f"{library.parent}:{library.parent}/libibverbs",
           "PATH": f"{folder}/usr/bin:{SYSTEM_PATH}"}
    # the list of providers is read from /etc, whichever library reads it
    prepare = ["sh", "-c", f'mount --bind "{folder}/etc/libibverbs.d" /etc/libibverbs.d && exec "$@"', "sh"]
    return Release(library, ROOT / ".venv/bin/python", prepare, env)


def debian_13() -> Release:
    return _in_root("trixie")


def debian_testing() -> Release:
    return _in_root("testing")


def _in_root(suite: str) -> Release:
    root = debian.packages(suite, [*USERLAND, *LIBRARIES, "librdmacm1t64"], depends=True)
    library = next(root.glob("usr/lib/*/libibverbs.so.1")).resolve()
    inside = Path("/") / library.relative_to(root.resolve())
    return Release(inside, Path("/usr/bin/python3"), [HERE / "in_root.sh", root, ROOT], {"PATH": SYSTEM_PATH})


def run_on_debian_11(runs: Runs) -> None:
    _run_in_vm(runs, "Debian 11", debian_11)


def run_on_debian_13(runs: Runs) -> None:
    _run_in_vm(runs, "Debian 13", debian_13)


def run_on_debian_testing(runs: Runs) -> None:
    _run_in_vm(runs, "Debian testing", debian_testing)


def run_efa_on_debian_11(runs: Runs) -> None:
    """No RDMA write, no completion events, no more than the first of libefa's functions."""
    _run_efa(runs, "Debian 11", debian_11)


def run_efa_on_debian_13(runs: Runs) -> None:
    _run_efa(runs, "Debian 13", debian_13)


def run_efa_on_debian_testing(runs: Runs) -> None:
    """All that is there: what rdma-core 59 to 65 brought runs over a real library nowhere else."""
    _run_efa(runs, "Debian testing", debian_testing)


def _run_in_vm(runs: Runs, name: str, get: Callable[[], Release]) -> None:
    with runs.outcome(f"rdma-core of {name}") as outcome:
        try:
            release = get()
        except debian.Unavailable as reason:
            outcome.skip(str(reason))
            return
        report = report_for(outcome.name)
        env = {**release.env, "PYTHONPATH": build_path(), "RDMA_TEST_REQUIRE": REQUIRED}
        command = [*release.prepare, *_pytest_over(release, report)]
        outcome.add_report(report, in_vm(kernel(), command, env))


def _run_efa(runs: Runs, name: str, get: Callable[[], Release]) -> None:
    with runs.outcome(f"efa over rdma-core of {name}") as outcome:
        try:
            release = get()
        except debian.Unavailable as reason:
            outcome.skip(str(reason))
            return
        # what it mounts is its own, and gone with it
        own_mounts = ["unshare", "--mount"]
        if run([*own_mounts, "true"], stderr=subprocess.DEVNULL):
            outcome.skip("needs the right to mount")
            return
        report = report_for(outcome.name)
        env = {**release.env, "PYTHONPATH": build_path(), "RDMA_TEST_REQUIRE": "device efa"}
        host = under_softrdma("efa-release", "efa:2", release.python)
        command = [*own_mounts, *release.prepare, *host, *_pytest_over(release, report), "-k", "efa"]
        outcome.add_report(report, run(command, env))


def _pytest_over(release: Release, report: Path) -> list[object]:
    _, _, _, *arguments = pytest(release.python, report)
    return [release.python, HERE / "pytest_over.py", release.library, *arguments]
