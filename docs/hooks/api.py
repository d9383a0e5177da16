# SPDX-License-Identifier: BSD-3-Clause
"""The API pages of the site: one for each public class of each package, one for its functions, one for its enums. What
is public is what `__all__` lists; nothing is imported, the built packages and their stubs are read. What stands in
docs/classes/ comes before a class's members."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import griffe
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))
import classes  # noqa: E402

PACKAGES = ("ibverbs", "efa")
ENUMS = {"Enum", "IntEnum", "IntFlag", "Flag", "FlagOps"}
pages: dict[str, str] = {}


def _is_enum(target: Any) -> bool:
    return any(str(base).rpartition(".")[2] in ENUMS for base in target.bases)


def _is_exception(target: Any) -> bool:
    return str(target.name).endswith("Error")


def _add(package: str, name: str, names: list[str], title: str | None = None) -> dict[str, str]:
    path = f"api/{package}/{name}.md"
    if title:
        body = [f"# {title}\n"] + [f"::: {package}.{n}\n    options:\n      heading_level: 2\n" for n in names]
    else:
        about = classes.page(package, name)
        if about is None:
            raise SystemExit(f"docs/classes has no page for {package}.{name}")
        body = [f"# {package}.{name}\n", about, f"::: {package}.{name}\n    options:\n      heading_level: 2\n"]
    pages[path] = "\n".join(body)
    return {title.rpartition(": ")[2] if title else name: path}


def _pages_of(package: str, search: list[str]) -> list[dict[str, str]]:
    module = griffe.load(package, search_paths=search, allow_inspection=False, resolve_aliases=True)
    kinds: dict[str, list[str]] = {"class": [], "exception": [], "enum": [], "function": []}
    for name in sorted(str(n) for n in module.exports or ()):
        target: Any = module[name]
        target = target.final_target if target.is_alias else target
        if target.is_function:
            kinds["function"].append(name)
        elif target.is_class:
            kind = "exception" if _is_exception(target) else "enum" if _is_enum(target) else "class"
            kinds[kind].append(name)
    if not kinds["class"]:
        raise SystemExit(f"no public class of {package} was found under RDMA_DOCS_PATH: is it built?")
    nav = [_add(package, "functions", kinds["function"], f"{package}: Functions")]
    nav += [_add(package, name, [name]) for name in kinds["class"]]
    nav += [_add(package, "exceptions", kinds["exception"], f"{package}: Exceptions")]
    nav += [_add(package, "enums", kinds["enum"], f"{package}: Enums and flags")]
    return nav


@event_priority(100)  # type: ignore[untyped-decorator]  # before mkdocstrings, which is told where to look
def on_config(config: Any) -> Any:
    pages.clear()
    search = [path for path in os.environ.get("RDMA_DOCS_PATH", "").split(os.pathsep) if path]
    config.plugins["mkdocstrings"].config.handlers["python"]["paths"] = search
    have = [package for package in PACKAGES if any((Path(path) / package).is_dir() for path in search)]
    config.nav = [*(config.nav or []), {"API": [{package: _pages_of(package, search)} for package in have]}]
    return config


def on_files(files: Files, config: Any) -> Files:
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files
