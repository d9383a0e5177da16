# SPDX-License-Identifier: BSD-3-Clause
"""Whatever is called with whatever, in whatever order, ends in a result or in an exception of the promised kinds.

RDMA_TEST_FUZZ_SECONDS lengthens it; a failure names the seed, which RDMA_TEST_FUZZ_SEED repeats. (fuzz/face.py lets a
fuzzer throw the dice, which sees what they reach.)
"""

from __future__ import annotations

import contextlib
import gc
import os
import random
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from monkey import MORE_THAN_FITS, PROMISED, UNARY, Hostile, Monkey, no_name_service
from stub_control import Stub

pytestmark = [pytest.mark.needs("stub"), pytest.mark.filterwarnings("ignore::DeprecationWarning")]

SECONDS = float(os.environ.get("RDMA_TEST_FUZZ_SECONDS", "3"))
SEED = os.environ.get("RDMA_TEST_FUZZ_SEED")


@pytest.fixture(autouse=True)
def hosts_are_numbers() -> Iterator[None]:
    with no_name_service():
        yield


def test_any_call_with_anything_ends_as_promised(ib: Any, stub: Stub) -> None:
    end = time.monotonic() + SECONDS
    rounds = successes = 0
    stub.set_lenient()  # any state may follow any other
    while rounds == 0 or time.monotonic() < end:
        seed = SEED or str(random.SystemRandom().getrandbits(32))
        monkey = Monkey(ib, random.Random(seed), stub)
        try:
            monkey.run(2000)
        except BaseException as error:
            raise AssertionError(f"RDMA_TEST_FUZZ_SEED={seed}: {error!r}") from error
        successes += monkey.successes
        rounds += 1
        assert stub.violations == 0, f"RDMA_TEST_FUZZ_SEED={seed}"
        monkey.pool.clear()
        del monkey
        gc.collect()
        left = stub.live_objects()
        assert left == {}, f"RDMA_TEST_FUZZ_SEED={seed}: {left}"
        if SEED:
            break
    assert successes > 200 * rounds


@pytest.mark.only("ibverbs")
def test_no_call_asks_a_name_server(ib: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def look_up(host: Any, *args: Any, flags: int = 0, **keywords: Any) -> Any:
        asked.append((host, bool(flags & socket.AI_NUMERICHOST)))
        raise socket.gaierror(socket.EAI_NONAME, "not a number")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with no_name_service():
        for call in (ib.CMListener, ib.CMID.resolve):
            with pytest.raises(socket.gaierror):
                call("rxe0", 1)
    assert asked == [("rxe0", True)] * 2


def test_no_hostile_length_fills_the_memory_of_the_machine() -> None:
    hostile = Hostile(random.Random("any"), [])
    lengths = []
    for _ in range(3000):
        with contextlib.suppress(*PROMISED):
            lengths.append(len(hostile))
    assert lengths and not [n for n in lengths if 2**16 < n < MORE_THAN_FITS]


def test_what_a_hostile_hash_answers_is_not_kept_for_good() -> None:
    asked = object()
    hostile = Hostile(random.Random("any"), [asked])
    before = sys.getrefcount(asked)
    for _ in range(300):
        with contextlib.suppress(*PROMISED):
            hash(hostile)
    assert sys.getrefcount(asked) == before


def test_no_operation_makes_as_many_bytes_as_a_number_says() -> None:
    for operation in UNARY:
        with contextlib.suppress(*PROMISED):
            made = operation(100_000)
            assert not isinstance(made, bytes) or len(made) < 1000
