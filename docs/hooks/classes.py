# SPDX-License-Identifier: BSD-3-Clause
"""What docs/classes/ says of each class beside its stub: what it stands for, an example, errors, threads, man pages. A
page of shared/ serves every package; tests/test_docs.py runs the examples."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "classes"
SECTIONS = ("Example", "Errors", "Threads", "Man pages")
#: What stands in braces on a page of shared/.
WORDS = {
    "ibverbs": {"{package}": "ibverbs", "{error}": "VerbsError", "{devices}": "get_device_list"},
    "efa": {"{package}": "efa", "{error}": "EfaError", "{devices}": "get_efa_device_list"},
}
_CONTINUES = re.compile(r"^<!-- continues (\w+) -->$", re.MULTILINE)


def page(package: str, name: str) -> str | None:
    """The text about a class, without its title; None where there is none."""
    own, shared = FOLDER / package / f"{name}.md", FOLDER / "shared" / f"{name}.md"
    if own.exists():
        return _CONTINUES.sub(r"Goes on from the example of [\1](\1.md).", own.read_text())
    if not shared.exists():
        return None
    text = shared.read_text()
    for word, meaning in WORDS[package].items():
        text = text.replace(word, meaning)
    return text


def example(package: str, name: str) -> str:
    """The code of a class's example, behind that of the class that it goes on from."""
    text = page(package, name) or ""
    before = re.search(r"^Goes on from the example of \[(\w+)\]", text, re.MULTILINE)
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    return example(package, before[1]) + code if before else code
