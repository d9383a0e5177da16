# SPDX-License-Identifier: BSD-3-Clause
"""What a shared object asks of others and offers them, and how it asks to be loaded, as readelf prints it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path


def _readelf(option: str, path: Path) -> str:
    done = subprocess.run(["readelf", "--wide", option, str(path)], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def needed(path: Path) -> list[str]:
    """The libraries that the loader brings in with it."""
    return re.findall(r"\(NEEDED\).*\[(.+)\]", _readelf("--dynamic", path))


def tags(path: Path) -> dict[str, str]:
    """The entries of its dynamic section by name; of those that stand several times, the last."""
    return dict(re.findall(r"^ 0x\w+ \((\w+)\)\s+(.*)$", _readelf("--dynamic", path), re.MULTILINE))


def segments(path: Path) -> dict[str, str]:
    """Its segments by type, each with its flags, such as RW."""
    found = {}
    for line in _readelf("--program-headers", path).splitlines():
        columns = line.split()
        if len(columns) >= 8 and columns[1].startswith("0x"):
            found[columns[0]] = "".join(columns[6:-1])
    return found


def _symbols(path: Path) -> list[tuple[str, bool]]:
    """The names of its dynamic symbols, without versions, and whether each is defined here."""
    found = []
    for line in _readelf("--dyn-syms", path).splitlines():
        columns = line.split()
        if len(columns) >= 8 and columns[0].rstrip(":").isdigit():
            found.append((columns[7].split("@")[0], columns[6] != "UND"))
    return found


def undefined(path: Path) -> list[str]:
    return [name for name, defined in _symbols(path) if not defined]


def exported(path: Path) -> list[str]:
    return [name for name, defined in _symbols(path) if defined]
