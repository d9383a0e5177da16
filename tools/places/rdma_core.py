# SPDX-License-Identifier: BSD-3-Clause
"""The suite over other versions of rdma-core than this machine's: on the kernel VM's devices, and that of EFA, which no
kernel can play, on softrdma's."""
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import debian
from host import under_softrdma
from kernel_vm import REQUIRED, in_vm, kernel
from place import ROOT, Outcome, Runs, build_path, pytest, report_for, run

HERE = Path(__file__).resolve().parent
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LIBRARIES = ["libibverbs1", "ibverbs-providers", "ibverbs-utils"]
#: A root in which the suite can run: its own Python, for its libraries need its own C library.
USERLAND = ["base-files", "bash", "coreutils", "dash", "iproute2", "binutils", "python3", "python3-pytest",
            "python3-hypothesis"]


def run_on_debian_11(runs: Runs) -> None:
    """rdma-core 33 from a folder, under this machine's Python."""
    with runs.outcome("rdma-core of Debian 11") as outcome:
        try:
            folder = debian.packages("bullseye", [*LIBRARIES, "librdmacm1"])
        except debian.Unavailable as reason:
            outcome.skip(str(reason))
            return
        library = next(folder.glob("usr/lib/*/libibverbs.so.1")).resolve()
        # the providers are opened by bare name, so their folder has to be on the path too
        env = {"LD_LIBRARY_PATH": f"{library.parent}:{library.parent}/libibverbs",
               "PATH": f"{folder}/usr/bin:{SYSTEM_PATH}"}
        # the list of providers is read from /etc, whichever library reads it
        prepare = ["sh", "-c", f'mount --bind "{folder}/etc/libibverbs.d" /etc/libibverbs.d && exec "$@"', "sh"]
        _suite_over(outcome, library, prepare, ROOT / ".venv/bin/python", env)


def run_on_debian_13(runs: Runs) -> None:
    _run_in_root(runs, "Debian 13", "trixie", [*LIBRARIES, "librdmacm1t64"])


def run_on_debian_testing(runs: Runs) -> None:
    _run_in_root(runs, "Debian testing", "testing", [*LIBRARIES, "librdmacm1t64"])


def _run_in_root(runs: Runs, release: str, suite: str, libraries: list[str]) -> None:
    with runs.outcome(f"rdma-core of {release}") as outcome:
        try:
            root = debian.packages(suite, [*USERLAND, *libraries], depends=True)
        except debian.Unavailable as reason:
            outcome.skip(str(reason))
            return
        library = next(root.glob("usr/lib/*/libibverbs.so.1")).resolve()
        inside = Path("/") / library.relative_to(root.resolve())
        prepare = [HERE / "in_root.sh", root, ROOT]
        _suite_over(outcome, inside, prepare, Path("/usr/bin/python3"), {"PATH": SYSTEM_PATH})


def run_efa_on_debian_11(runs: Runs) -> None:
    """libefa of rdma-core 33: no RDMA write, no more than the first of its functions."""
    with runs.outcome("efa over rdma-core of Debian 11") as outcome:
        try:
            folder = debian.packages("bullseye", [*LIBRARIES, "librdmacm1"])
        except debian.Unavailable as reason:
            outcome.skip(str(reason))
            return
        library = next(folder.glob("usr/lib/*/libibverbs.so.1")).resolve()
        report = report_for(outcome.name)
        _, _, _, *arguments = pytest(ROOT / ".venv/bin/python", report)
        env = {"PYTHONPATH": build_path(), "RDMA_TEST_REQUIRE": "device efa"}
        over = ["env", f"LD_LIBRARY_PATH={library.parent}:{library.parent}/libibverbs", ROOT / ".venv/bin/python",
                HERE / "pytest_over.py", library, *arguments, "-k", "efa"]
        outcome.add_report(report, run([*under_softrdma("efa-debian11"), *over], env))


def _suite_over(outcome: Outcome, library: Path, prepare: Sequence[object], python: Path, env: dict[str, str]) -> None:
    report = report_for(outcome.name)
    env = {**env, "PYTHONPATH": build_path(), "RDMA_TEST_REQUIRE": REQUIRED}
    _, _, _, *arguments = pytest(python, report)
    command = [*prepare, python, HERE / "pytest_over.py", library, *arguments]
    outcome.add_report(report, in_vm(kernel(), command, env))
