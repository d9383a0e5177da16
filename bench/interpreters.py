# SPDX-License-Identifier: BSD-3-Clause
"""Which interpreters are measured: those named, or those that the tests know to be at hand."""
from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pythons

SYSTEM = Path("/usr/bin/python3")
ASK = 'import sys; print(sys.implementation.name, "%d.%d.%d" % sys.version_info[:3])'


def chosen(paths: Sequence[Path] | None) -> dict[str, Path]:
    """Paths by full version, in ascending order. The system's is measured even beside a newer one of the same minor
    version: how a distribution builds its interpreter can make it much faster than one built by hand."""
    at_hand = list(paths or pythons.at_hand().values() or [Path(sys.executable)])
    if not paths and SYSTEM.exists():
        at_hand.append(SYSTEM)
    found: dict[str, Path] = {}
    for path in at_hand:
        name, version = asked(path)
        if name == "cpython" and numbers(version) >= pythons.FLOOR:
            found.setdefault(version, path)
    return dict(sorted(found.items(), key=lambda item: numbers(item[0])))


def asked(path: Path) -> tuple[str, str]:
    name, version = subprocess.run([path, "-c", ASK], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    return name, version


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
