# SPDX-License-Identifier: BSD-3-Clause
"""The built module asks the loader for nothing but Python's stable interface and the C library.

Some functions of verbs.h are inlines that call exported ones: one used by accident is an undefined symbol, and the
module no longer imports where libibverbs is absent.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path

import elf
import pytest

pytestmark = pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf (binutils)")

#: Libraries that a module may need: the C library and the parts that were once its own files.
C_LIBRARIES = re.compile(r"(libc|libdl|libpthread|ld-linux.*|ld-musl.*|libc\.musl.*)\.so(\.\d+)?")
FOREIGN = re.compile(r"_?ibv_|rdma_|efadv_|cu[A-Z]")


@pytest.fixture(scope="module")
def extension() -> Path:
    spec = importlib.util.find_spec("ibverbs._ibverbs")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin)


def test_no_symbol_of_an_rdma_library_is_undefined(extension: Path) -> None:
    assert [name for name in elf.undefined(extension) if FOREIGN.match(name)] == []


def test_only_the_c_library_is_needed(extension: Path) -> None:
    assert [name for name in elf.needed(extension) if not C_LIBRARIES.fullmatch(name)] == []


def test_only_the_init_function_is_exported(extension: Path) -> None:
    assert elf.exported(extension) == ["PyInit__ibverbs"]


def test_the_file_name_says_stable_abi(extension: Path) -> None:
    assert extension.name == "_ibverbs.abi3.so"
