# SPDX-License-Identifier: BSD-3-Clause
"""Each page of docs/ does what it says: its Python blocks run one after the other, in an interpreter of their own. So
does the example of each class (docs/classes/)."""

from __future__ import annotations

import enum
import gc
import importlib
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import packages
import pytest
from place import Node, seconds

DOCS = pathlib.Path(__file__).parent.parent / "docs"
sys.path.insert(0, str(DOCS / "hooks"))
import classes  # noqa: E402

#: Pages whose blocks cannot just be run.
NOT_RUN = {"faults": "its blocks are tests themselves, which test_faults_on_demand.py runs"}
#: What a block begins with that needs a GPU, with torch: it is only compiled.
GPU = re.compile(r"^import torch$", re.MULTILINE)


def blocks(page: pathlib.Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


PAGES = sorted(page.stem for page in DOCS.glob("*.md") if blocks(page))


def run(page: str, arguments: list[str], text: str) -> Any:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.run([sys.executable, *arguments], input=text, env=env, cwd=DOCS, timeout=seconds(100),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)  # fmt: skip


@pytest.mark.only("ibverbs")
@pytest.mark.needs("rc")
@pytest.mark.parametrize("page", [page for page in PAGES if page not in NOT_RUN and page != "efa"])
def test_what_a_page_shows_runs(ib: Any, page: str) -> None:
    run_page(page)


@pytest.mark.only("efa")
@pytest.mark.needs("efa", "rdma_read", "cq_events")
def test_what_the_page_of_efa_shows_runs(ib: Any) -> None:
    run_page("efa")


def run_page(page: str) -> None:
    texts = [text for text in blocks(DOCS / f"{page}.md") if not GPU.search(text)]
    imported = {name for name in packages.ALL if re.search(rf"^\s*import {name}\b", "\n".join(texts), re.MULTILINE)}
    missing = imported - set(packages.built())
    if missing:
        pytest.skip(f"needs {', '.join(missing)}, built")
    done = run(page, ["-"], "\n".join(texts))
    too_old = re.search(r"UnsupportedError: .* installed lib\w+ has no such function; (rdma-core \d+)", done.stdout)
    if too_old:
        pytest.skip(f"needs {too_old[1]}")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_shows_compiles(page: str) -> None:
    for text in blocks(DOCS / f"{page}.md"):
        compile(text, page, "exec")


def test_every_page_stands_in_the_contents() -> None:
    contents = (DOCS.parent / "mkdocs.yml").read_text()
    assert [page.name for page in DOCS.glob("*.md") if f": {page.name}\n" not in contents] == []


def public_classes(package: str) -> list[str]:
    """Those that have a page of their own: all but enums and exceptions, which have one together."""
    module = importlib.import_module(package)
    kinds = {name: getattr(module, name) for name in module.__all__}
    return [n for n, k in kinds.items() if isinstance(k, type) and not issubclass(k, (enum.Enum, Exception))]


def written_classes(package: str) -> list[str]:
    """Those that docs/classes has a page for, which only test_every_class_has_its_page holds beside the package."""
    return sorted({path.stem for folder in (package, "shared") for path in (DOCS / "classes" / folder).glob("*.md")})


@pytest.mark.parametrize("package", packages.ALL)
def test_every_class_has_its_page(package: str) -> None:
    if package not in packages.built():
        pytest.skip(f"needs {package}, built")
    assert written_classes(package) == sorted(public_classes(package))
    for name in written_classes(package):
        text = classes.page(package, name) or ""
        assert re.findall(r"^## (.*)$", text, re.MULTILINE) == list(classes.SECTIONS), name
        assert not text.startswith("#"), f"{name}: begins with what it stands for"


#: Classes of EFA whose functions no libefa has that the tests meet: their examples run on the stub.
NEW = {"CQAttr", "CompCntr", "MRAttr", "WQAttr"}
#: Those for which an old libefa knows no events of completion queues.
WAITING = {"CompChannel"}


@pytest.mark.only("ibverbs")
@pytest.mark.needs("rc")
@pytest.mark.parametrize("name", written_classes("ibverbs"))
def test_the_example_of_a_class_of_ibverbs_runs(
    ib: Any, node: Node, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The reader's machine has one device; this one may have others before it.
    monkeypatch.setattr(ib, "get_device_list", lambda: [node.device])
    run_example(ib, name)


@pytest.mark.only("efa")
@pytest.mark.needs("efa")
@pytest.mark.parametrize("name", sorted(set(written_classes("efa")) - NEW - WAITING))
def test_the_example_of_a_class_of_efa_runs(ib: Any, name: str) -> None:
    run_example(ib, name)


@pytest.mark.only("efa")
@pytest.mark.needs("efa", "cq_events")
@pytest.mark.parametrize("name", sorted(WAITING))
def test_the_example_of_what_waits_for_events_of_efa_runs(ib: Any, name: str) -> None:
    run_example(ib, name)


@pytest.mark.only("efa")
@pytest.mark.needs("stub")
@pytest.mark.parametrize("name", sorted(NEW))
def test_the_example_of_what_a_new_libefa_brings_runs(ib: Any, name: str) -> None:
    run_example(ib, name)


def run_example(ib: Any, name: str) -> None:
    scope: dict[str, Any] = {"__name__": name}
    try:
        exec(compile(classes.example(ib.__name__, name), name, "exec"), scope)
    except ib.UnsupportedError as error:
        pytest.skip(f"needs another library or device: {error}")
    finally:
        scope.clear()
        gc.collect()
