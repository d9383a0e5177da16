# SPDX-License-Identifier: BSD-3-Clause
"""The example in the distribution's README does what it says."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest
from place import Node

README = pathlib.Path(__file__).parent.parent / "ibverbs" / "README.md"


def examples() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)


def test_the_readme_has_an_example_that_compiles() -> None:
    assert examples()
    for text in examples():
        compile(text, str(README), "exec")


@pytest.mark.needs("rc")
def test_the_example_moves_data(ib: Any, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    if ib.__name__ != "ibverbs":
        pytest.skip("the README of ibverbs")
    # The reader's machine has one device and a GID that works at index 0; this one may have others before them.
    monkeypatch.setattr(ib, "get_device_list", lambda: [node.device])
    for text in examples():
        scope: dict[str, Any] = {}
        exec(text.replace("sgid_index=0", f"sgid_index={node.gid_index}").replace(
            "query_gid(1, 0)", f"query_gid(1, {node.gid_index})"
        ), scope)  # fmt: skip
        assert scope["data"] == b"hello, hello,"
