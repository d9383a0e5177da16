# SPDX-License-Identifier: BSD-3-Clause
"""What RDMA-CM lacks on a machine is said: librdmacm itself tells one errno for several things."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from typing import Any, Callable

import pytest
from place import Place, seconds

pytestmark = [pytest.mark.only("ibverbs"), pytest.mark.needs("cm")]

LISTEN = """
import ibverbs
print(len(ibverbs.get_device_list()), "devices")
try:
    ibverbs.CMListener("127.0.0.1")
except ibverbs.VerbsError as error:
    print(error)
"""


def said_in_child(before: Callable[[], None], ib: Any) -> str:
    """What a listener that cannot be made says, in a child of whom something is taken first."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            before()
            ib.CMListener("127.0.0.1")
        except BaseException as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as answer:
        return answer.read()


def test_a_machine_without_devices_is_told_so(place: Place) -> None:
    if not place.emulated:
        pytest.skip("needs a machine whose devices can be left out")
    done = subprocess.run(
        [sys.executable, "-c", LISTEN],
        env={name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "SOFTRDMA_DEVICES")},
        capture_output=True,
        text=True,
        timeout=seconds(30),
    )
    if not done.stdout.startswith("0 devices"):
        pytest.skip("needs a machine without devices of its own")
    assert "no RDMA device" in done.stdout, done.stdout + done.stderr


@pytest.mark.needs("memlock")
def test_a_user_who_may_not_open_the_device_is_told_so(ib: Any) -> None:
    if os.stat("/dev/infiniband/rdma_cm").st_mode & 0o006:
        os.chmod("/dev/infiniband/rdma_cm", 0o600)
    said = said_in_child(lambda: os.setuid(65534), ib)
    assert "/dev/infiniband/rdma_cm may not be opened" in said


def test_a_process_without_descriptors_is_told_so(ib: Any) -> None:
    with ib.CMListener("127.0.0.1"):  # the library is open, and has its own
        pass

    def take_all() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        try:
            while True:
                os.dup(2)
        except OSError:
            pass

    said = said_in_child(take_all, ib)
    assert "descriptor is left" in said or "Too many open files" in said
