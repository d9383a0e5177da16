# SPDX-License-Identifier: BSD-3-Clause
"""The programs of rdma-core as peers: rping and ucmatose, as clients of our server and as servers of our client."""

from __future__ import annotations

import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from typing import Any, Callable

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

Program = subprocess.Popen[str]
Start = Callable[..., Program]


@pytest.fixture(params=["roce", "iwarp"])
def cm_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a program, which ends with the test at the latest."""
    started: list[Program] = []

    def start(*command: object) -> Program:
        words = [str(word) for word in command]
        started.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        return started[-1]

    yield start
    for process in started:
        with process:
            process.kill()


def ended(process: Program) -> None:
    output, _ = process.communicate(timeout=seconds(20))
    assert process.returncode == 0, output


def free_port(ib: Any, host: str) -> int:
    """One that no program of a moment ago may still be giving back."""
    with ib.CMListener(host) as listener:
        return int(listener.port)


def resolve(ib: Any, host: str, port: int) -> Any:
    return ib.CMID.resolve(host, port, timeout=seconds(5))


def connected_to(ib: Any, host: str, prepare: Any, serve: Callable[[int], Program]) -> tuple[End, Program]:
    """A connection to a program that was told a port to serve.

    Each attempt has a program of its own, which gets more time to listen than the one before: on siw of kernel 7.3,
    and a busy machine, attempts at one that had just been started were refused or not answered for 50 seconds.
    """
    refusals: list[str] = []
    for attempt in range(6):
        port = free_port(ib, host)
        process = serve(port)
        time.sleep(seconds(0.02) * 2**attempt)
        end = End(ib, resolve(ib, host, port))
        prepare(end)
        try:
            end.cmid.connect(timeout=seconds(3))
            return end, process
        except ib.CMError as error:
            end.close()
            process.kill()
            refusals.append(f"{error}; the program said: {process.communicate()[0]}")
    pytest.fail("\n".join(refusals))


def work(end: End, opcode: int, length: int, addr: int = 0, rkey: int = 0, offset: int = 1024) -> None:
    end.qp.post_send(end.ib.SendWR(9, [end.mr.sge(length, offset)], opcode, SIGNALED, addr, rkey))


def await_all(end: End, *wr_ids: int) -> None:
    """So many completions, in whichever order they come."""
    found = poll_for(end.cq, len(wr_ids), 10)
    assert all(wc.is_success for wc in found), found
    assert sorted(wc.wr_id for wc in found) == sorted(wr_ids)


def test_rping_as_client(ib: Any, host: str, start: Start) -> None:
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


def test_rping_as_server(ib: Any, host: str, start: Start) -> None:
    def serve(port: int) -> Program:
        return start("rping", "-s", "-a", host, "-p", port, "-C", COUNT, "-S", SIZE)

    end, process = connected_to(ib, host, lambda end: end.recv(ADVERT.size), serve)
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


def test_ucmatose_as_server(ib: Any, host: str, start: Start) -> None:
    def prepare(end: End) -> None:
        for _ in range(COUNT):
            end.recv(SIZE, 1024)

    def serve(port: int) -> Program:
        return start("ucmatose", "-b", host, "-p", port, "-C", COUNT, "-S", SIZE)

    end, process = connected_to(ib, host, prepare, serve)
    assert {wc.byte_len for wc in end.done(COUNT)} == {SIZE}
    for _ in range(COUNT):
        work(end, SEND, SIZE, offset=0)
    end.done(COUNT)
    end.cmid.disconnect()
    end.close()
    ended(process)


def test_ucmatose_as_client(ib: Any, host: str, start: Start) -> None:
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
