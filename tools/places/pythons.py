# SPDX-License-Identifier: BSD-3-Clause
"""The CPythons at hand, from our floor up, and virtual environments with the test tools for each."""
from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

from place import ROOT, quietly

FLOOR = (3, 9)
VENVS = ROOT / ".venvs"
TOOLS = ("pytest", "hypothesis")
#: What a candidate is asked; one that cannot make environments fails here.
ASK = """
import ensurepip, sys, sysconfig, venv
free_threaded = int(bool(sysconfig.get_config_var("Py_GIL_DISABLED")))
print(sys.implementation.name, *sys.version_info[:4], free_threaded)
"""


@functools.cache
def at_hand() -> dict[str, Path]:
    """The newest interpreter of each minor version, as {'3.9': path, …}, in ascending order."""
    found: dict[tuple[int, int], tuple[int, Path]] = {}
    for candidate in _candidates():
        try:
            answer = subprocess.run([candidate, "-I", "-c", ASK], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                    text=True, timeout=20, check=True).stdout.split()
        except (OSError, subprocess.SubprocessError):
            continue
        name, major, minor, micro, level, free_threaded = answer
        version = (int(major), int(minor))
        # abi3 modules are for the ordinary build only
        if name != "cpython" or version < FLOOR or level != "final" or free_threaded == "1":
            continue
        if version not in found or found[version][0] < int(micro):
            found[version] = (int(micro), candidate)
    return {f"{a}.{b}": found[a, b][1] for a, b in sorted(found)}


def _candidates() -> list[Path]:
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    paths = [ROOT / ".venv" / "bin" / "python", *sorted(pyenv.glob("3.*/bin/python"))]
    for folder in ("/usr/bin", "/usr/local/bin"):
        paths += [p for p in sorted(Path(folder).glob("python3.*")) if p.name[8:].isdigit()]
    real: dict[Path, Path] = {}
    for path in paths:
        if path.exists():
            real.setdefault(path if ".venv" in path.parts else path.resolve(), path)
    return list(real.values())


def with_tools(version: str) -> Path:
    """The interpreter of an environment with the test tools in it; made once, and again if its base is gone."""
    python = VENVS / version / "bin" / "python"
    made = VENVS / version / "made-from"
    wanted = f"{at_hand()[version]} {ROOT} {TOOLS}"
    if not made.exists() or made.read_text() != wanted:
        make(version, VENVS / version, *TOOLS)
        made.write_text(wanted)
    return python


def make(version: str, folder: Path, *packages: object) -> Path:
    """A fresh environment with these packages in it."""
    quietly([at_hand()[version], "-m", "venv", "--clear", folder])
    python = folder / "bin" / "python"
    if packages:
        quietly([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages])
    return python
