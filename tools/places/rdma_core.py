# SPDX-License-Identifier: BSD-3-Clause
"""The suite over other versions of rdma-core than this machine's, on the kernel VM's devices."""
from __future__ import annotations

from pathlib import Path

import debian
from kernel_vm import REQUIRED, in_vm, kernel
from place import ROOT, Runs, build_path, pytest, report_for

HERE = Path(__file__).resolve().parent


def run_on_debian_11(runs: Runs) -> None:
    """Debian 11's libraries (rdma-core 33), unpacked in a folder, under this machine's Python."""
    with runs.outcome("rdma-core of Debian 11") as outcome:
        try:
            folder = debian.packages("bullseye", ["libibverbs1", "ibverbs-providers", "librdmacm1", "ibverbs-utils"])
        except debian.Unavailable as reason:
            outcome.skip(str(reason))
            return
        libraries = next(folder.glob("usr/lib/*/libibverbs.so.1")).parent
        report = report_for(outcome.name)
        env = {
            # the providers are opened by bare name, so their folder has to be on the path too
            "LD_LIBRARY_PATH": f"{libraries}:{libraries}/libibverbs",
            "PATH": f"{folder}/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONPATH": build_path(),
            "RDMA_TEST_REQUIRE": REQUIRED,
        }
        # the list of providers is read from /etc, whichever library reads it
        config = f'mount --bind "{folder}/etc/libibverbs.d" /etc/libibverbs.d && exec "$@"'
        suite = pytest(ROOT / ".venv/bin/python", report, "tests")[3:]
        loaded = [ROOT / ".venv/bin/python", HERE / "pytest_over.py", libraries, *suite]
        outcome.add_report(report, in_vm(kernel(), ["sh", "-c", config, "sh", *loaded], env))
