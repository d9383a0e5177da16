# SPDX-License-Identifier: BSD-3-Clause
"""The examples in the READMEs do what they say. (test_docs.py runs those of docs/.)"""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest
from place import Node

pytestmark = pytest.mark.only("ibverbs")

ROOT = pathlib.Path(__file__).parent.parent
MAIN, PACKAGE = ROOT / "README.md", ROOT / "ibverbs" / "README.md"


def examples(readme: pathlib.Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", readme.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("readme", [MAIN, PACKAGE], ids=["main", "package"])
def test_every_readme_has_examples_that_compile(readme: pathlib.Path) -> None:
    assert examples(readme)
    for text in examples(readme):
        compile(text, str(readme), "exec")


def test_the_examples_of_the_main_readme_run(ib: Any) -> None:
    if not ib.get_device_list():
        pytest.skip("needs a verbs device, or the stub libibverbs")
    for text in examples(MAIN):
        exec(text, {})


@pytest.mark.needs("rc")
def test_the_example_of_the_package_moves_data(ib: Any, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    # The reader's machine has one device; this one may have others before it.
    monkeypatch.setattr(ib, "get_device_list", lambda: [node.device])
    for text in examples(PACKAGE):
        scope: dict[str, Any] = {}
        exec(text, scope)
        assert scope["data"] == b"hello, hello,"
