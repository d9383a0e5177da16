# SPDX-License-Identifier: BSD-3-Clause
"""Completes a source distribution: `meson dist` drops links that point outside of a package, so the shared
subprojects are put where the links were, as they are committed (no stray file of the working tree)."""
import io
import os
import pathlib
import shutil
import subprocess
import tarfile

source = pathlib.Path(os.environ["MESON_SOURCE_ROOT"]) / "subprojects"
target = pathlib.Path(os.environ["MESON_DIST_ROOT"]) / "subprojects"
for link in sorted(p for p in source.iterdir() if p.is_symlink()):
    place = target / link.name
    if place.is_symlink():
        place.unlink()
    shutil.rmtree(place, ignore_errors=True)
    archive = subprocess.run(["git", "archive", "HEAD", "."], cwd=link.resolve(), check=True, stdout=subprocess.PIPE)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(place)
