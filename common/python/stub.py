# SPDX-License-Identifier: BSD-3-Clause
"""Writes the stub of a package's extension: the package's own file, with what all packages share put in its place.

usage: stub.py SHARED OWN OUTPUT [OLD=NEW ...]

A line ``# shared: NAME ...`` in the package's file stands for definitions of the shared one: ``Gid`` for a class,
function or variable, ``IBV_*`` for all that begin so; inside of a class, ``MR.sge`` for a member, ``MR.*`` for the
class's docstring and all of its members, ``MR.members`` for these alone. OLD=NEW replaces a word in what comes from the
shared file.
"""

from __future__ import annotations

import ast
import pathlib
import re
import sys

DIRECTIVE = re.compile(r"^\s*# shared: (.*)$")


def name_of(node: ast.stmt) -> str | None:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return node.name
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return None


class Shared:
    """The shared stub: the text of each definition by its name, and of each member by its class and name."""

    def __init__(self, source: str) -> None:
        self.lines = source.splitlines()
        self.texts: dict[str, list[str]] = {}
        self._add(ast.parse(source).body, "")

    def _add(self, body: list[ast.stmt], prefix: str) -> None:
        for node, after in zip(body, [*body[1:], None]):
            name = name_of(node)
            if name is None:
                continue
            text = self._text(node)
            if isinstance(after, ast.Expr) and not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                text += self._text(after)  # what an attribute means stands below it
            self.texts.setdefault(prefix + name, []).extend(text)
            if isinstance(node, ast.ClassDef):
                whole = self.lines[node.body[0].lineno - 1 : node.end_lineno]
                self.texts[f"{name}.*"] = whole
                docstring = node.body[0].end_lineno if isinstance(node.body[0], ast.Expr) else None
                self.texts[f"{name}.members"] = self.lines[docstring or node.body[0].lineno - 1 : node.end_lineno]
                self._add(node.body, f"{name}.")

    def _text(self, node: ast.stmt) -> list[str]:
        decorators = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
        return self.lines[first - 1 : node.end_lineno]

    def find(self, name: str) -> list[str]:
        if name.endswith("*") and not name.endswith(".*"):
            found = [text for key, text in self.texts.items() if "." not in key and key.startswith(name[:-1])]
            return [line for text in found for line in text]
        if name not in self.texts:
            raise SystemExit(f"the shared stub has no {name}")
        text = self.texts[name]
        # A class stands apart from what is before and behind it.
        return [*text, ""] if not text[0].startswith(" ") and len(text) > 1 else text


def assemble(shared: Shared, own: str, words: dict[str, str]) -> str:
    lines: list[str] = []
    for line in own.splitlines():
        directive = DIRECTIVE.match(line)
        if directive is None:
            lines.append(line)
            continue
        for name in directive[1].split():
            for text in shared.find(name):
                for old, new in words.items():
                    text = re.sub(rf"\b{old}\b", new, text)
                lines.append(text)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def main() -> None:
    shared, own, output = (pathlib.Path(argument) for argument in sys.argv[1:4])
    words = dict(argument.split("=") for argument in sys.argv[4:])
    output.write_text(assemble(Shared(shared.read_text()), own.read_text(), words))


if __name__ == "__main__":
    main()
