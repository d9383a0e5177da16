# SPDX-License-Identifier: BSD-3-Clause
"""The programs of rdma-core as peers: rping and ucmatose, as clients of our server and as servers of our client."""

from __future__ import annotations

import shutil
import struct
import subprocess
import time
from typing import Any

import pytest
from cm_ends import SIGNALED, End
from endpoints import poll_for
from place import seconds

pytestmark = [
    pytest.mark.only("ibverbs"),
    pytest.mark.needs("cm"),
    pytest.mark.skipif(not shutil.which("rping") or not shutil.which("ucmatose"), reason="needs rping and ucmatose"),
]

COUNT, SIZE = 5, 200
ADVERT = struct.Struct("!QII")  # struct rping_rdma_info
RDMA_WRITE, SEND, RDMA_READ = 0, 2, 4


@pytest.fixture(params=["roce", "iwarp"])
def cm_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def start(*command: object) -> Any:
    return subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def ended(process: Any) -> None:
    try:
        output, _ = process.communicate(timeout=seconds(20))
    finally:
        process.kill()
    assert process.returncode == 0, output


def resolve(ib: Any, host: str, port: int) -> Any:
    return ib.CMID.resolve(host, port, timeout=seconds(5))


def connected_to(ib: Any, host: str, port: int, prepare: Any, **options: Any) -> End:
    """A connection to a program that may not listen yet."""
    deadline = time.monotonic() + seconds(10)
    while True:
        end = End(ib, resolve(ib, host, port))
        prepare(end)
        try:
            end.cmid.connect(timeout=seconds(10), **options)
            return end
        except ib.CMError:
            end.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def work(end: End, opcode: int, length: int, addr: int = 0, rkey: int = 0, offset: int = 1024) -> None:
    end.qp.post_send(end.ib.SendWR(9, [end.mr.sge(length, offset)], opcode, SIGNALED, addr, rkey))


def await_all(end: End, *wr_ids: int) -> None:
    """So many completions, in whichever order they come."""
    found = poll_for(end.cq, len(wr_ids), 10)
    assert all(wc.is_success for wc in found), found
    assert sorted(wc.wr_id for wc in found) == sorted(wr_ids)


def test_rping_as_client(ib: Any, host: str) -> None:
    with ib.CMListener(host) as listener:
        process = start("rping", "-c", "-a", host, "-p", listener.port, "-C", COUNT, "-S", SIZE, "-V")
        request = listener.get_request(seconds(10))
        end = End(ib, request)
        end.recv(ADVERT.size)
        request.accept(responder_resources=1, initiator_depth=1, timeout=seconds(10))
        await_all(end, 100)
        for i in range(COUNT):
            for opcode in (RDMA_READ, RDMA_WRITE):  # where the client's bytes are, and where it wants them back
                addr, rkey, size = ADVERT.unpack(end.got(ADVERT.size))
                assert size == SIZE
                work(end, opcode, size, addr, rkey)
                await_all(end, 9)
                end.recv(ADVERT.size)
                work(end, SEND, ADVERT.size, offset=0)  # go on
                last = (i, opcode) == (COUNT - 1, RDMA_WRITE)
                await_all(end, *([9] if last else [9, 100]))
        assert request.get_event(seconds(10)).event == ib.CMEventType.DISCONNECTED
        request.disconnect()
        end.close()
        ended(process)  # it compares what came back


def test_rping_as_server(ib: Any, host: str) -> None:
    port = 7474
    process = start("rping", "-s", "-a", host, "-p", port, "-C", COUNT, "-S", SIZE)
    end = connected_to(ib, host, port, lambda end: end.recv(ADVERT.size))
    for i in range(COUNT):
        text = bytes([65 + i]) * (SIZE - 1) + b"\0"  # the server sends a string back
        end.buffer[1024 : 1024 + SIZE] = text
        for _ in ("source", "sink"):
            end.send(ADVERT.pack(end.mr.addr + 1024, end.mr.rkey, SIZE))
            found = poll_for(end.cq, 2, 10)  # ours is sent, and the server's word
            assert all(wc.is_success for wc in found), found
            end.recv(ADVERT.size)
        assert end.got(SIZE, 1024) == text
    end.cmid.disconnect()
    end.close()
    ended(process)


def test_ucmatose_as_server(ib: Any, host: str) -> None:
    def prepare(end: End) -> None:
        for _ in range(COUNT):
            end.recv(SIZE, 1024)

    process = start("ucmatose", "-b", host, "-p", 7475, "-C", COUNT, "-S", SIZE)
    end = connected_to(ib, host, 7475, prepare)
    assert {wc.byte_len for wc in end.done(COUNT)} == {SIZE}
    for _ in range(COUNT):
        work(end, SEND, SIZE, offset=0)
    end.done(COUNT)
    end.cmid.disconnect()
    end.close()
    ended(process)


def test_ucmatose_as_client(ib: Any, host: str) -> None:
    with ib.CMListener(host) as listener:
        process = start("ucmatose", "-s", host, "-p", listener.port, "-C", COUNT, "-S", SIZE)
        request = listener.get_request(seconds(10))
        end = End(ib, request)
        for _ in range(COUNT):
            end.recv(SIZE, 1024)
        request.accept(timeout=seconds(10))
        for _ in range(COUNT):
            work(end, SEND, SIZE, offset=0)
        end.done(2 * COUNT)
        request.disconnect()  # it is the server that ends it
        end.close()
        ended(process)
