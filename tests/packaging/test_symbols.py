# SPDX-License-Identifier: BSD-3-Clause
"""The built modules ask the loader for nothing but Python's stable interface and the C library.

Some functions of verbs.h are inlines that call exported ones: one used by accident is an undefined symbol, and the
module no longer imports where libibverbs is absent.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import elf
import packages
import pytest

pytestmark = pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf (binutils)")

#: Libraries that a module may need: the C library and the parts that were once its own files.
C_LIBRARIES = re.compile(r"(libc|libdl|libpthread|ld-linux.*|ld-musl.*|libc\.musl.*)\.so(\.\d+)?")
FOREIGN = re.compile(r"_?ibv_|rdma_|efadv_|cu[A-Z]")
#: In every CPython from 3.9 on, though the list of the stable interface says 3.10.
EARLIER_THAN_LISTED = {"PyType_FromModuleAndSpec", "PyType_GetModule", "PyType_GetModuleState"}


@pytest.fixture(scope="module", params=packages.ALL)
def package(request: pytest.FixtureRequest) -> str:
    if request.param not in packages.built():
        pytest.skip("needs the package, built")
    return str(request.param)


@pytest.fixture(scope="module")
def extension(package: str) -> Path:
    spec = importlib.util.find_spec(f"{package}._{package}")
    assert spec is not None and spec.origin is not None
    path = Path(spec.origin)
    if {"__asan_init", "__tsan_init"} & set(elf.undefined(path)):
        pytest.skip("needs a build without sanitizers")
    return path


def test_no_symbol_of_an_rdma_library_is_undefined(extension: Path) -> None:
    assert [name for name in elf.undefined(extension) if FOREIGN.match(name)] == []


def test_only_the_c_library_is_needed(extension: Path) -> None:
    assert [name for name in elf.needed(extension) if not C_LIBRARIES.fullmatch(name)] == []


def test_only_the_init_function_is_exported(package: str, extension: Path) -> None:
    assert elf.exported(extension) == [f"PyInit__{package}"]


def test_the_file_name_says_stable_abi(package: str, extension: Path) -> None:
    assert extension.name == f"_{package}.abi3.so"


def test_an_audit_reports_three_functions_that_3_9_has_and_nothing_else(extension: Path) -> None:
    pytest.importorskip("abi3audit", reason="needs abi3audit")
    command = [sys.executable, "-m", "abi3audit", "--report", "--assume-minimum-abi3", "3.9", str(extension)]
    report = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout)
    ((_, spec),) = report["specs"].items()
    result = spec["object"]["result"]
    assert result["non_abi3_symbols"] == []
    assert set(result["future_abi3_objects"]) == EARLIER_THAN_LISTED
