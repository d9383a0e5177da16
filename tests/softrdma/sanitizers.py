# SPDX-License-Identifier: BSD-3-Clause
"""Where the compiler keeps the sanitizers' libraries, and programs run below a softrdma that was built with them."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest
from host import Host


def runtime(name: str) -> str:
    """A sanitizer's library: it has to stand before all others in LD_PRELOAD."""
    path = subprocess.run(
        ["cc", f"-print-file-name={name}"], text=True, stdout=subprocess.PIPE, check=True
    ).stdout.strip()
    if not os.path.isabs(path):
        pytest.skip(f"needs {name} of the compiler")
    return path


class SanitizedHost(Host):
    """softrdma built with ASan and UBSan, below programs that are not."""

    def env(self, **more: Any) -> dict[str, str]:
        preload = ":".join([more.pop("LD_PRELOAD", ""), runtime("libasan.so"), runtime("libubsan.so")]).lstrip(":")
        return super().env(
            LD_PRELOAD=preload, ASAN_OPTIONS="detect_leaks=0", UBSAN_OPTIONS="print_stacktrace=1", **more
        )
