# SPDX-License-Identifier: BSD-3-Clause
"""Whatever is called with whatever, in whatever order, ends in a result or in an exception of the promised kinds.

RDMA_TEST_FUZZ_SECONDS lengthens it; a failure names the seed, which RDMA_TEST_FUZZ_SEED repeats. (fuzz/face.py lets a
fuzzer throw the dice, which sees what they reach.)
"""

from __future__ import annotations

import gc
import os
import random
import time
from typing import Any

import pytest
from monkey import Monkey
from stub_control import Stub

pytestmark = [pytest.mark.needs("stub"), pytest.mark.filterwarnings("ignore::DeprecationWarning")]

SECONDS = float(os.environ.get("RDMA_TEST_FUZZ_SECONDS", "3"))
SEED = os.environ.get("RDMA_TEST_FUZZ_SEED")


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
