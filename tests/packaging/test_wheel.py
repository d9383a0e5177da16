# SPDX-License-Identifier: BSD-3-Clause
"""The wheel that RDMA_TEST_WHEEL names is what users are promised: one for every CPython from 3.9, nothing bundled."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

import elf
import pytest
from test_symbols import C_LIBRARIES

WHEEL = os.environ.get("RDMA_TEST_WHEEL")

PACKAGE = Path(WHEEL or "").name.split("-")[0]
ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(WHEEL is None, reason="needs RDMA_TEST_WHEEL, the path of a built wheel")


@pytest.fixture(scope="module")
def wheel() -> Iterator[zipfile.ZipFile]:
    assert WHEEL is not None
    with zipfile.ZipFile(WHEEL) as archive:
        yield archive


@pytest.fixture
def files(wheel: zipfile.ZipFile) -> list[str]:
    return [name for name in wheel.namelist() if not name.endswith("/")]


def read(wheel: zipfile.ZipFile, name: str) -> str:
    (path,) = (p for p in wheel.namelist() if p.endswith(f".dist-info/{name}"))
    return wheel.read(path).decode()


def test_the_tag_is_cp39_abi3(wheel: zipfile.ZipFile) -> None:
    assert WHEEL is not None
    assert re.search(r"-cp39-abi3-(many|musl)?linux_\w+\.whl$", WHEEL)
    tags = Parser().parsestr(read(wheel, "WHEEL")).get_all("Tag")
    assert tags is not None
    assert all(tag.startswith("cp39-abi3-") for tag in tags)


def test_it_holds_one_extension(files: list[str]) -> None:
    assert [name for name in files if ".so" in name] == [f"{PACKAGE}/_{PACKAGE}.abi3.so"]


def test_it_holds_the_package_and_nothing_else(files: list[str]) -> None:
    strays = [name for name in files if not re.match(rf"{PACKAGE}/|{PACKAGE}-[^/]+\.dist-info/", name)]
    assert strays == []
    kinds = {Path(name).suffix for name in files if name.startswith(f"{PACKAGE}/")}
    assert kinds == {".py", ".pyi", ".so", ".typed"}


def test_it_holds_every_python_file_that_the_package_carries(files: list[str]) -> None:
    folders = (ROOT / PACKAGE / PACKAGE, ROOT / "common" / "python", ROOT / "cuda" / "python")
    sources = {path.name for folder in folders for path in folder.glob("*.py")} - {"stub.py"}  # which makes the stub
    assert sources - {name.rpartition("/")[2] for name in files} == set()


def test_it_holds_the_stubs_and_the_licence(files: list[str]) -> None:
    assert f"{PACKAGE}/_{PACKAGE}.pyi" in files
    assert any(re.search(r"\.dist-info/(licenses/)?LICENSE$", name) for name in files)


def test_it_depends_on_no_other_distribution(wheel: zipfile.ZipFile) -> None:
    metadata = Parser().parsestr(read(wheel, "METADATA"))
    assert metadata["Name"] == PACKAGE
    assert metadata["Requires-Python"] == ">=3.9"
    assert metadata.get_all("Requires-Dist") in (None, [])


def test_its_extension_needs_the_c_library_only(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    extension = Path(wheel.extract(f"{PACKAGE}/_{PACKAGE}.abi3.so", tmp_path))
    assert [name for name in elf.needed(extension) if not C_LIBRARIES.fullmatch(name)] == []
