# SPDX-License-Identifier: BSD-3-Clause
"""Comparing what two hosts answered, question by question, against a list of the differences that are meant.

Answers are lines `question: answer`. A list of differences holds paragraphs: lines that begin with `#` say why, then
each question on a line of its own, followed by two indented lines `kernel: answer` and `softrdma: answer`. A difference
that is not in the list is wrong, and so is a listed one that is not there (any more) in just these words.

    python comparison.py KERNEL_ANSWERS SOFTRDMA_ANSWERS [DIFFERENCES]      prints what is wrong, as paragraphs to list
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

NOTHING = "(not answered)"


class Difference(NamedTuple):
    kernel: str
    softrdma: str


Answers = dict[str, str]
Differences = dict[str, Difference]


def answers(text: str) -> Answers:
    found: Answers = {}
    for line in text.splitlines():
        question, colon, answer = line.partition(": ")
        if not colon:
            question, answer = line.rstrip(":"), ""
        if question in found:
            raise ValueError(f"asked twice: {question}")
        found[question] = answer
    return found


def read_differences(path: Path) -> Differences:
    """What the list allows; every entry has to stand below a reason."""
    listed: Differences = {}
    said: dict[str, str] = {}
    reason, question = False, ""
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else [], 1):
        where = f"{path.name}:{number}"
        if not line.strip():
            reason = False
        elif line.startswith("#"):
            reason = True
        elif not line.startswith(" "):
            if not reason:
                raise ValueError(f"{where}: no reason above '{line}'")
            question, said = line, {}
        else:
            who, colon, answer = line.strip().partition(":")
            if not colon or who not in ("kernel", "softrdma") or not question:
                raise ValueError(f"{where}: cannot be read: '{line}'")
            said[who] = answer.strip()
            if len(said) == 2:
                if question in listed:
                    raise ValueError(f"{where}: '{question}' is listed twice")
                listed[question] = Difference(said["kernel"], said["softrdma"])
    return listed


def differences(kernel: Answers, softrdma: Answers) -> Differences:
    return {
        question: Difference(kernel.get(question, NOTHING), softrdma.get(question, NOTHING))
        for question in {**kernel, **softrdma}
        if kernel.get(question, NOTHING) != softrdma.get(question, NOTHING)
    }


def paragraph(question: str, difference: Difference) -> str:
    return f"{question}\n  kernel:   {difference.kernel}\n  softrdma: {difference.softrdma}\n"


def complaints(kernel: Answers, softrdma: Answers, listed: Differences) -> str:
    """Everything that is wrong with the list, as text; empty when nothing is."""
    found = differences(kernel, softrdma)
    unlisted = [paragraph(q, d) for q, d in found.items() if listed.get(q) != d]
    stale = [paragraph(q, d) for q, d in listed.items() if found.get(q) != d]
    text = ""
    if unlisted:
        text += f"{len(unlisted)} differences that are not listed:\n" + "".join(unlisted)
    if stale:
        text += f"{len(stale)} listed differences that are not there in these words:\n" + "".join(stale)
    return text


def main(argv: list[str] | None = None) -> int:
    args = argv if argv is not None else sys.argv[1:]
    kernel, softrdma = (answers(Path(name).read_text()) for name in args[:2])
    text = complaints(kernel, softrdma, read_differences(Path(args[2])) if len(args) > 2 else {})
    print(text, end="")
    return 1 if text else 0


if __name__ == "__main__":
    sys.exit(main())
