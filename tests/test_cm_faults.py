# SPDX-License-Identifier: BSD-3-Clause
"""Faults of the connection manager that the software host shows on demand."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from cm_ends import End, Server
from own_process import own_process
from place import Place, ipv4_of, seconds
from test_async_events import wait_for

pytestmark = [pytest.mark.only("ibverbs"), pytest.mark.needs("cm", "rc")]

DEVICE_FATAL = 8


@pytest.fixture
def host(place: Place, softrdma_faults: Any) -> str:
    return ipv4_of(place.nodes[0])


@pytest.mark.parametrize("call", ["rdma_create_id", "rdma_resolve_addr", "rdma_resolve_route"])
def test_a_resolution_that_fails_says_where(ib: Any, host: str, softrdma_faults: Any, call: str) -> None:
    rule = softrdma_faults.fail_call(call, "ENOBUFS")
    with pytest.raises(ib.VerbsError) as caught:
        ib.CMID.resolve(host, 4420)
    assert caught.value.errno == errno.ENOBUFS and softrdma_faults.fired(rule) == 1
    ib.CMID.resolve(host, 4420).close()


def test_a_connect_that_fails_leaves_nothing_behind(ib: Any, host: str, softrdma_faults: Any) -> None:
    before = softrdma_faults.objects()
    with ib.CMListener(host) as listener:
        client = End(ib, ib.CMID.resolve(host, listener.port))
        softrdma_faults.fail_call("rdma_connect", "ENOMEM")
        with pytest.raises(ib.VerbsError) as caught:
            client.cmid.connect(timeout=seconds(5))
        assert caught.value.errno == errno.ENOMEM
        client.close()
    after = softrdma_faults.objects()
    assert {name: after[name] for name in ("qps", "cqs", "mrs", "pds")} == {
        name: before[name] for name in ("qps", "cqs", "mrs", "pds")
    }


#: In a process whose connection manager has hundredths of the usual times.
LOSSES = """
    import sys
    sys.path.insert(0, {tests!r})
    import ibverbs as ib
    from cm_ends import End, Server
    from softrdma import faults

    host = {host!r}
    with faults.here() as here, ib.CMListener(host) as listener:
        for _ in range(3):
            lost = here.add("drop", op="cm", times=2)[0]
            server = Server(ib, listener)
            client = End(ib, ib.CMID.resolve(listener.host, listener.port))
            client.cmid.connect(timeout=10)
            other = server.result()
            other.recv()
            client.send(b"hello")
            client.done()
            other.done()
            assert here.fired(lost) == 2
            client.close()
            other.close()
        print("connected")
"""


def test_requests_that_are_lost_are_sent_again(host: str) -> None:
    program = textwrap.dedent(LOSSES).format(tests=str(Path(__file__).parent), host=host)
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "SOFTRDMA_CM_TIMEOUTS": "0.01"}, text=True,
        capture_output=True, timeout=seconds(60), check=False,
    )  # fmt: skip
    assert done.stdout == "connected\n", done.stderr


def test_a_peer_whose_link_is_down_is_not_reached(ib: Any, host: str, place: Place, softrdma_faults: Any) -> None:
    with ib.CMListener(host) as listener:
        client = End(ib, ib.CMID.resolve(host, listener.port))
        softrdma_faults.link_down(place.nodes[0].name)
        with pytest.raises(ib.VerbsError) as caught:
            client.cmid.connect(timeout=0.3)
        assert caught.value.errno == errno.ETIMEDOUT
        client.close()


@own_process
def test_a_nic_that_is_pulled_out_ends_its_connections(ib: Any, host: str, place: Place, softrdma_faults: Any) -> None:
    with ib.CMListener(host) as listener:
        server = Server(ib, listener)
        client = End(ib, ib.CMID.resolve(host, listener.port))
        client.cmid.connect(timeout=seconds(5))
        other = server.result()
        softrdma_faults.add("remove", device=place.nodes[0].name)
        assert wait_for(client.cmid.context, DEVICE_FATAL) is not None
        for end in (client, other):
            end.close()


@own_process
def test_connections_go_over_a_nic_that_came_back_while_others_are_still_held(
    ib: Any, host: str, place: Place, softrdma_faults: Any
) -> None:
    def connect() -> tuple[End, End]:
        with ib.CMListener(host) as listener:
            server = Server(ib, listener)
            client = End(ib, ib.CMID.resolve(host, listener.port))
            client.cmid.connect(timeout=seconds(5))
            return client, server.result()

    before = connect()
    softrdma_faults.add("remove", device=place.nodes[0].name)
    assert wait_for(before[0].cmid.context, DEVICE_FATAL) is not None
    softrdma_faults.reset()
    after = connect()
    assert after[0].cmid.context is after[1].cmid.context is not before[0].cmid.context
    after[1].recv()
    after[0].send(b"hello")
    after[0].done()
    after[1].done()
    for end in (*before, *after):
        end.close()
