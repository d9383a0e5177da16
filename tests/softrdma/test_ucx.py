# SPDX-License-Identifier: BSD-3-Clause
"""UCX, which looks at the device files and at /sys by itself, over its own two verbs transports."""

from __future__ import annotations

from typing import Callable

import pytest
from host import Host, free_port


@pytest.mark.parametrize("gid", [0, 1])
@pytest.mark.parametrize(
    "test", ["put_lat", "put_bw", "am_lat", "am_bw", "get -D bcopy", "get -D zcopy -s 4096", "fadd", "cswap"]
)
def test_rc_verbs(host: Host, program: Callable[[str], str], test: str, gid: int) -> None:
    measure(host, program("ucx_perftest"), "rc_verbs", test, gid)


@pytest.mark.parametrize("test", ["am_lat", "am_bw"])
def test_ud_verbs_over_link_local_addresses(host: Host, program: Callable[[str], str], test: str) -> None:
    measure(host, program("ucx_perftest"), "ud_verbs", test, 0)


@pytest.mark.parametrize("transport", ["rc_verbs", "ud_verbs"])
def test_ucx_info_shows_the_device(host: Host, program: Callable[[str], str], transport: str) -> None:
    shown = host.run([program("ucx_info"), "-d", "-t", transport], UCX_LOG_LEVEL="error").must()
    assert "rxe0:1" in shown and transport in shown, shown


def measure(host: Host, name: str, transport: str, test: str, gid: int) -> None:
    env = {"UCX_IB_GID_INDEX": str(gid), "UCX_LOG_LEVEL": "error", "UCX_WARN_UNUSED_ENV_VARS": "n"}
    command = [name, "-x", transport, "-t", *test.split(), "-n", "200", "-w", "10", "-p", str(free_port())]
    server, client = host.pair([*command, "-d", "rxe0:1"], ([*command, "-d", "rxe1:1", "localhost"]), timeout=40, **env)
    assert "Final:" in client.must(), client.output
    server.must()
