# SPDX-License-Identifier: BSD-3-Clause
"""Which interpreters are measured: those named, or those that the tests know to be at hand."""
from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pythons

ASK = 'import sys; print("%d.%d.%d" % sys.version_info[:3])'


def chosen(paths: Sequence[Path] | None) -> dict[str, Path]:
    """Paths by full version, in ascending order."""
    found = {version_of(path): path for path in paths or pythons.at_hand().values() or [Path(sys.executable)]}
    return dict(sorted(found.items(), key=lambda item: [int(part) for part in item[0].split(".")]))


def version_of(path: Path) -> str:
    return subprocess.run([path, "-c", ASK], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
