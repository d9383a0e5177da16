# SPDX-License-Identifier: BSD-3-Clause
"""Runs rdma-core's own test suite (pyverbs) and prints one line a test: `id: ok`, `skipped: why`, `failed: why`.

Started by the Python that has pyverbs, with the folder of the suite as first argument and the device as second; then, if
it is not 1, the index of its GID.
"""

from __future__ import annotations

import os
import re
import sys
import unittest

#: Modules of other hardware, and of the connection manager, which is not this suite's business.
LEFT_OUT = ("test_mlx5", "test_rdmacm", "test_cuda", "test_hns", "test_tag_matching")


def reason(text: str) -> str:
    """The last line of a traceback without what differs from run to run."""
    last = text.strip().splitlines()[-1]
    return re.sub(r"0x[0-9a-f]+|\b\d{4,}\b", "N", last)[:160]


class Lines(unittest.TestResult):
    """Prints while it goes, so that a test that takes the interpreter down is the one after the last line."""

    def say(self, test: unittest.TestCase, what: str) -> None:
        print(f"{test.id()}: {what}", flush=True)

    def addSuccess(self, test: unittest.TestCase) -> None:
        self.say(test, "ok")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        # whether the machine has huge pages says nothing about the host
        why = "needs huge pages" if "huge pages" in reason.lower() else " ".join(reason.split())
        self.say(test, f"skipped: {why}")

    def addFailure(self, test: unittest.TestCase, err: object) -> None:
        super().addFailure(test, err)  # type: ignore[arg-type]
        self.say(test, f"failed: {reason(self.failures[-1][1])}")

    def addError(self, test: unittest.TestCase, err: object) -> None:
        super().addError(test, err)  # type: ignore[arg-type]
        self.say(test, f"failed: {reason(self.errors[-1][1])}")


def main() -> None:
    folder, device = sys.argv[1:3]
    sys.path[:0] = [os.path.dirname(folder), folder]
    left_out = LEFT_OUT if device.startswith("efa") else (*LEFT_OUT, "test_efa")
    sys.argv[1:] = ["--dev", device, "--port", "1", "--gid", (sys.argv[3:] or ["1"])[0]]
    from args_parser import parser  # type: ignore[import-not-found]

    parser.parse_args()
    names = sorted(
        n[:-3] for n in os.listdir(folder) if n.startswith("test_") and n.endswith(".py") and not n.startswith(left_out)
    )
    suite = unittest.defaultTestLoader.loadTestsFromNames([f"tests.{name}" for name in names])
    suite.run(Lines())
    print("suite: ended", flush=True)


main()
