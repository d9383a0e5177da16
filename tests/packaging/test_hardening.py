# SPDX-License-Identifier: BSD-3-Clause
"""How the built libraries are armed against the fault that nobody found: no code that can be written to, no table of
functions that can, canaries on the stack, calls of the C library that check their bounds."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import zipfile
from pathlib import Path

import elf
import packages
import pytest

pytestmark = pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf (binutils)")


def from_wheel(folder: Path) -> Path:
    wheel = os.environ.get("RDMA_TEST_WHEEL")
    if not wheel:
        pytest.skip("needs RDMA_TEST_WHEEL, the path of a built wheel")
    with zipfile.ZipFile(wheel) as archive:
        (extension,) = (name for name in archive.namelist() if name.endswith(".abi3.so"))
        return Path(archive.extract(extension, folder))


EXTENSIONS = [f"{package}/_{package}.abi3.so" for package in packages.ALL]


@pytest.fixture(scope="module", params=[*EXTENSIONS, "softrdma/libsoftrdma.so", "wheel"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.param == "wheel":
        return from_wheel(tmp_path_factory.mktemp("wheel"))
    package, name = str(request.param).split("/")
    spec = importlib.util.find_spec(package)
    folders = (spec.submodule_search_locations or []) if spec else []
    paths = [Path(folder) / name for folder in folders if (Path(folder) / name).exists()]
    if not paths:
        pytest.skip(f"needs {package}, built")
    return paths[0]


def optimized(library: Path) -> bool:
    """Whether the build folder that a library lies in, if it lies in one, was made for speed."""
    for folder in library.parents:
        options = folder / "meson-info" / "intro-buildoptions.json"
        if options.exists():
            values = {option["name"]: option["value"] for option in json.loads(options.read_text())}
            return values["optimization"] not in ("plain", "0", "g")
    return True


def test_code_is_not_written_to_when_it_is_loaded(library: Path) -> None:
    tags = elf.tags(library)
    assert "TEXTREL" not in tags
    assert "TEXTREL" not in tags.get("FLAGS", "")


def test_no_segment_can_be_written_and_executed(library: Path) -> None:
    flags = elf.segments(library)
    assert flags["GNU_STACK"] == "RW"
    assert [kind for kind, flag in flags.items() if "W" in flag and "E" in flag] == []


def test_tables_of_functions_are_bound_and_closed_when_it_is_loaded(library: Path) -> None:
    assert "GNU_RELRO" in elf.segments(library)
    tags = elf.tags(library)
    assert "BIND_NOW" in tags or "BIND_NOW" in tags.get("FLAGS", "") or "NOW" in tags.get("FLAGS_1", "")


def test_stacks_have_canaries(library: Path) -> None:
    assert "__stack_chk_fail" in elf.undefined(library)


def test_the_c_library_checks_bounds(library: Path) -> None:
    undefined = elf.undefined(library)
    if not optimized(library):
        pytest.skip("needs a build with optimization")
    if any(name.startswith(("__asan", "__tsan")) for name in undefined):
        pytest.skip("needs a build without sanitizers")
    if any("musl" in name for name in elf.needed(library)):
        pytest.skip("needs a C library that can check: musl cannot")
    assert [name for name in undefined if re.fullmatch(r"__\w+_chk", name)] != []
