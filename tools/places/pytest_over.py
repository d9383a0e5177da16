# SPDX-License-Identifier: BSD-3-Clause
"""Runs pytest in this process, then proves from its memory map that libibverbs came from the given folder.

    pytest_over.py FOLDER PYTEST-ARGUMENTS...
"""
from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest


def rdma_libraries() -> set[Path]:
    names = re.findall(r"\s(/\S*/(?:libibverbs\.so|librdmacm\.so|lib\w+-rdmav)\S*)$",
                       Path("/proc/self/maps").read_text(), re.MULTILINE)
    return {Path(name) for name in names}


def main() -> int:
    folder = Path(sys.argv[1]).resolve()
    status = int(pytest.main(sys.argv[2:]))
    used = rdma_libraries()
    for library in sorted(used):
        print(f"loaded: {library}")
    if not any(library.name.startswith("libibverbs.so") for library in used):
        print("no libibverbs was loaded")
        return status or 1
    strays = [library for library in used if folder not in library.parents]
    for library in strays:
        print(f"not from {folder}: {library}")
    return status or (1 if strays else 0)


if __name__ == "__main__":
    sys.exit(main())
