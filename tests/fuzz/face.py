# SPDX-License-Identifier: BSD-3-Clause
"""The Python face under a coverage-guided fuzzer: its input throws the dice of ../monkey.py, and what new dice reach in
the extension, which is built to say so, is kept and varied. Needs atheris; ./run builds and starts it.
"""

from __future__ import annotations

import gc
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import atheris

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from monkey import PROMISED, Monkey, no_name_service  # noqa: E402
from stub_control import Stub  # noqa: E402


class Dice:
    """Throws what the input says, for as long as it lasts; of random.Random it has what a monkey throws."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def getrandbits(self, bits: int) -> int:
        start, self.at = self.at, min(self.at + (bits + 7) // 8, len(self.data))
        return int.from_bytes(self.data[start : self.at], "little") & ((1 << bits) - 1)

    def randrange(self, start: int, stop: int | None = None) -> int:
        if stop is None:
            start, stop = 0, start
        return start + self.getrandbits((stop - start - 1).bit_length()) % (stop - start)

    def choice(self, items: Sequence[Any]) -> Any:
        return items[self.randrange(len(items))]

    def shuffle(self, items: list[Any]) -> None:
        for at in range(len(items) - 1, 0, -1):
            other = self.randrange(at + 1)
            items[at], items[other] = items[other], items[at]

    def sample(self, items: Sequence[Any], count: int) -> list[Any]:
        mixed = list(items)
        self.shuffle(mixed)
        return mixed[:count]


def play(ib: Any, stub: Stub, data: bytes) -> None:
    """Any exception out of here is a finding, and so is a call that ends the process."""
    stub.reset()
    stub.set_lenient()  # any state may follow any other
    dice: Any = Dice(data)
    monkey = Monkey(ib, dice, stub)
    while dice.left:
        try:
            monkey.step()
        except PROMISED as error:
            error.__traceback__ = None
    del monkey
    gc.collect()
    assert stub.violations == 0, "the library was misused"
    assert stub.live_objects() == {}, "something was left in the library"


def main() -> None:
    package, *arguments = sys.argv[1:]
    ib = __import__(package)
    stub = Stub()
    warnings.simplefilter("ignore")
    gc.collect()
    gc.freeze()
    atheris.Setup([sys.argv[0], *arguments], lambda data: play(ib, stub, data))
    with no_name_service():
        atheris.Fuzz()


if __name__ == "__main__":
    main()
