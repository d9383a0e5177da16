# SPDX-License-Identifier: BSD-3-Clause
"""Runs pytest in this process, then proves from its memory map which libibverbs and providers it ran over.

    pytest_over.py LIBRARY PYTEST-ARGUMENTS...

It fails if any libibverbs but LIBRARY was loaded, or a libefa or a provider from another place than beside that.
"""
from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest


def loaded() -> set[Path]:
    names = re.findall(r"\s(/\S*/(?:lib(?:ibverbs|efa)\.so|lib\w+-rdmav)\S*)$", Path("/proc/self/maps").read_text(),
                       re.MULTILINE)
    return {Path(name) for name in names}


def main() -> int:
    library = Path(sys.argv[1])
    status = int(pytest.main(sys.argv[2:]))
    strays = 0
    for path in sorted(loaded()):
        beside = path.parent == library.parent and path.name.startswith("libefa.")
        expected = path == library or beside or path.parent == library.parent / "libibverbs"
        print(f"ran over {path}" if expected else f"ran over {path}, which is not of {library}")
        strays += not expected
    if library not in loaded():
        print(f"{library} was not loaded")
        return status or 1
    return status or min(strays, 1)


if __name__ == "__main__":
    sys.exit(main())
