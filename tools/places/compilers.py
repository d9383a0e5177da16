# SPDX-License-Identifier: BSD-3-Clause
"""A build of everything with each compiler, in which a warning is an error."""
from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from place import Runs, quietly


def run_compilers(runs: Runs) -> None:
    with runs.outcome("compilers") as outcome:
        for compiler in ("gcc", "clang"):
            if not shutil.which(compiler):
                outcome.skip(f"needs {compiler}")
                continue
            with tempfile.TemporaryDirectory() as folder:
                build = Path(folder) / "build"
                quietly(["meson", "setup", "--werror", build], env={"CC": compiler})
                quietly(["ninja", "-C", build])
            outcome.check(f"{compiler} -Wall -Wextra -Werror", True)
