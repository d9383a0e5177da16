# SPDX-License-Identifier: BSD-3-Clause
"""Runs rdma-core's own test suite (pyverbs) and prints one line a test: `id: ok`, `skipped: why`, `failed: why`.

Started by the Python that has pyverbs, with the folder of the suite as first argument and the device as second; then,
if it is not 1, the index of its GID; then an IP address of the device, which makes it run the tests of the connection
manager instead.
"""

from __future__ import annotations

import os
import re
import sys
import unittest

#: Modules of other hardware, and of the connection manager, whose tests are run apart.
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


def tell_address(address: str) -> None:
    """The suite looks for it behind /sys/class/infiniband/DEVICE/device/net, which Soft-RoCE does not have."""
    from tests import base  # type: ignore[import-not-found]

    def get(self: object, device: str, port: int, index: int) -> None:
        self.args.append([device, port, index, address, "02:00:00:00:00:01"])  # type: ignore[attr-defined]

    base.RDMATestCase._get_ip_mac = get


def main() -> None:
    folder, device, gid, address = [*sys.argv[1:], *("1", "")[len(sys.argv) - 3 :]]
    sys.path[:0] = [os.path.dirname(folder), folder]
    left_out = LEFT_OUT if device.startswith("efa") else (*LEFT_OUT, "test_efa")
    sys.argv[1:] = ["--dev", device, "--port", "1", "--gid", gid]
    from args_parser import parser  # type: ignore[import-not-found]

    parser.parse_args()
    names = sorted(
        n[:-3] for n in os.listdir(folder) if n.startswith("test_") and n.endswith(".py") and not n.startswith(left_out)
    )
    if address:
        names = ["test_rdmacm"]
        tell_address(address)
    suite = unittest.defaultTestLoader.loadTestsFromNames([f"tests.{name}" for name in names])
    suite.run(Lines())
    print("suite: ended", flush=True)


main()
