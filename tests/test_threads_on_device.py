# SPDX-License-Identifier: BSD-3-Clause
"""Several threads on one device: nothing is lost, nothing comes twice, and close() frees nothing under a user."""

from __future__ import annotations

import errno
import threading
import time
from typing import Any, Callable

import pytest
from efa_endpoints import new_endpoint
from endpoints import Buffer, Endpoint, Make, connect
from packages import error_of
from place import Node, seconds
from together import together

pytestmark = pytest.mark.needs("writes")


def test_two_threads_post_to_one_queue_pair(pair: tuple[Endpoint, Endpoint]) -> None:
    a, b = pair
    rounds, each = 20, 8

    def poster(number: int) -> Callable[[], None]:
        def post() -> None:
            for i in range(rounds):
                a.qp.post_send([a.write_wr(b, wr_id=number * 1000 + i * each + k) for k in range(each)])
                while completed[0] < (i - 1) * each:  # the queue holds 64
                    time.sleep(0.001)

        return post

    completed = [0]
    found: list[int] = []

    def poll() -> None:
        deadline = time.monotonic() + seconds(10)
        while len(found) < 2 * rounds * each and time.monotonic() < deadline:
            more = a.send_cq.poll(16)
            found.extend(wc.wr_id for wc in more if wc.is_success)
            completed[0] = len(found) // 2
            if not more:
                time.sleep(0.001)

    together(poster(1), poster(2), poll)
    for number in (1, 2):
        mine = [wr_id for wr_id in found if wr_id // 1000 == number]
        assert mine == list(range(number * 1000, number * 1000 + rounds * each))


def test_two_threads_poll_one_queue(pair: tuple[Endpoint, Endpoint]) -> None:
    a, b = pair
    total = 400
    found: list[list[int]] = [[], []]
    lock = threading.Lock()

    def poller(i: int) -> Callable[[], None]:
        def poll() -> None:
            deadline = time.monotonic() + seconds(10)
            while len(found[0]) + len(found[1]) < total and time.monotonic() < deadline:
                more = a.send_cq.poll(3)
                with lock:
                    found[i].extend(wc.wr_id for wc in more if wc.is_success)
                if not more:
                    time.sleep(0.0005)

        return poll

    def post() -> None:
        for i in range(total):
            while i - len(found[0]) - len(found[1]) > 40:
                time.sleep(0.0005)
            a.qp.post_send(a.write_wr(b, wr_id=i))

    together(poller(0), poller(1), post)
    assert sorted(found[0] + found[1]) == list(range(total))
    for one in found:
        assert one == sorted(one)


def test_one_request_is_posted_from_two_threads(make: Make) -> None:
    a, b = make(), make()
    connect(a, b)
    wr = a.write_wr(b, 8, 0, 512, wr_id=7)
    a.buf[0:8] = b"one-four"

    def post() -> None:
        for _ in range(16):
            a.qp.post_send([wr, wr])

    together(post, post)
    assert [wc.wr_id for wc in a.sent(64)] == [7] * 64
    assert b.buf[512:520] == b"one-four"


def test_registration_goes_on_beside_transfers(ib: Any, pair: tuple[Endpoint, Endpoint]) -> None:
    a, b = pair

    def transfer() -> None:
        for i in range(60):
            a.buf[0:1] = bytes([i])
            a.do(a.write_wr(b, 1, 0, 100 + i))

    def register() -> None:
        buf = Buffer(1 << 16)
        for _ in range(60):
            with a.pd.reg_mr(buf.addr, 1 << 16, ib.AccessFlags.LOCAL_WRITE):
                pass

    together(transfer, register, register)
    assert b.buf[100:160] == bytes(range(60))


@pytest.mark.parametrize("victim", ["qp", "send_cq"])
def test_close_while_another_thread_works_is_ebadf_for_that_thread(ib: Any, node: Node, victim: str) -> None:
    for _ in range(10):
        with new_endpoint(ib, node) as a, new_endpoint(ib, node) as b:
            connect(a, b)
            wr = a.write_wr(b)

            def work(a: Endpoint = a, wr: Any = wr) -> None:
                """Posts and polls until it is told that the object is closed."""
                while True:
                    try:
                        if victim == "qp":
                            a.qp.post_send(wr)
                        a.send_cq.poll(8)
                    except error_of(ib) as error:
                        if error.errno == errno.EBADF:
                            return
                        assert error.errno == errno.ENOMEM  # a full queue
                        a.send_cq.poll(64)

            def close(a: Endpoint = a) -> None:
                time.sleep(0.005)
                if victim == "send_cq":
                    a.qp.close()
                getattr(a, victim).close()

            together(work, close)
