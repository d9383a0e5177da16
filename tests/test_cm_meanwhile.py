# SPDX-License-Identifier: BSD-3-Clause
"""Connections where something happens meanwhile: a peer or another thread that ends what is being made, news that were
read by whoever did not look for them."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from cm_ends import End, Server
from endpoints import poll_for
from place import seconds
from test_cm_life import put_before

pytestmark = [pytest.mark.only("ibverbs"), pytest.mark.needs("cm")]

CONNECT_RESPONSE = 5
ERR = 6


@pytest.fixture
def connected(ib: Any, listener: Any, client: End) -> Iterator[tuple[End, End]]:
    server = Server(ib, listener)
    client.cmid.connect(timeout=seconds(10))
    other = server.result()
    yield client, other
    other.close()


class Connecting(threading.Thread):
    """A client's connect() in a thread of its own, and what came of it."""

    error: BaseException | None = None

    def __init__(self, client: End) -> None:
        super().__init__(daemon=True)
        self.client = client
        self.start()

    def run(self) -> None:
        try:
            self.client.cmid.connect(timeout=seconds(20))
        except BaseException as error:
            self.error = error


def is_readable(fd: int, within: float = 0) -> bool:
    return select.select([fd], [], [], within)[0] == [fd]


# ---- a peer that goes away -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", ["accept", "reject"])
def test_an_answer_to_a_client_that_went_away_says_so(ib: Any, listener: Any, client: End, answer: str) -> None:
    connecting = Connecting(client)
    request = listener.get_request(seconds(10))
    with contextlib.closing(End(ib, request)):
        client.cmid.close()
        connecting.join(seconds(10))
        time.sleep(0.1)
        try:
            getattr(request, answer)(b"too late")
        except ib.CMError as error:
            assert error.errno == errno.ECONNRESET and "went away" in str(error)
        else:
            assert answer == "reject"  # which nobody hears
        assert request.closed


def test_a_queue_pair_for_a_client_that_went_away_is_made_or_says_so(ib: Any, listener: Any, client: End) -> None:
    connecting = Connecting(client)
    request = listener.get_request(seconds(10))
    client.cmid.close()
    connecting.join(seconds(10))
    time.sleep(0.1)
    try:
        End(ib, request).close()
    except ib.CMError as error:
        assert error.errno == errno.ECONNRESET
    request.close()


def test_a_server_that_goes_away_before_its_acceptance_is_read_is_noticed(ib: Any, listener: Any, client: End) -> None:
    """Between the answer and what the client makes of it."""
    raw = client.cmid._channel.raw
    accepted = threading.Event()

    def get_event() -> Any:
        event = raw.get_event()
        if event and event[0] == CONNECT_RESPONSE:
            accepted.wait(seconds(10))
            time.sleep(0.1)
        return event

    put_before(client.cmid._channel, get_event=get_event)
    connecting = Connecting(client)
    request = listener.get_request(seconds(10))
    with contextlib.closing(End(ib, request)):
        request.accept(timeout=0)
        request.close()
        accepted.set()
        connecting.join(seconds(20))
        assert not connecting.is_alive()
        if connecting.error is None:
            assert client.cmid.get_event(seconds(10)).event == ib.CMEventType.DISCONNECTED
        else:
            assert isinstance(connecting.error, ib.CMError)
            assert connecting.error.errno in (errno.ECONNRESET, errno.ECONNREFUSED)


# ---- another thread ------------------------------------------------------------------------------------------------


def test_disconnecting_while_another_thread_connects_is_refused_and_the_connection_made(
    ib: Any, listener: Any, client: End
) -> None:
    """rdma_disconnect would take it, and nobody would ever tell the one who connects."""
    connecting = Connecting(client)
    request = listener.get_request(seconds(10))
    with pytest.raises(ib.VerbsError, match="under way") as caught:
        client.cmid.disconnect()
    assert caught.value.errno == errno.EALREADY
    with contextlib.closing(End(ib, request)):
        request.accept(timeout=seconds(10))
        connecting.join(seconds(10))
        assert connecting.error is None and client.cmid.connected
        client.cmid.disconnect()


def test_closing_while_another_thread_connects_ends_it_and_names_its_call(ib: Any, listener: Any, client: End) -> None:
    connecting = Connecting(client)
    request = listener.get_request(seconds(10))
    client.cmid.close()
    connecting.join(seconds(10))
    assert isinstance(connecting.error, ib.VerbsError)
    assert (connecting.error.errno, connecting.error.operation) == (errno.EBADF, "CMID.connect")
    request.close()


def test_closing_between_the_calls_of_an_attempt_ends_it_the_same_way(ib: Any, listener: Any, client: End) -> None:
    """Here before the queue pair is asked for, which would say that it is closed, or stand in the wrong state."""
    raw = client.cmid._channel.raw

    def qp_attr(state: int) -> Any:
        client.cmid.close()
        return raw.qp_attr(state)

    put_before(client.cmid._channel, qp_attr=qp_attr)
    server = Server(ib, listener, timeout=0)
    with pytest.raises(ib.VerbsError) as caught:
        client.cmid.connect(timeout=seconds(10))
    assert (caught.value.errno, caught.value.operation) == (errno.EBADF, "CMID.connect")
    server.result().close()


# ---- news that somebody else read ----------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", ["before", "after"])
def test_a_descriptor_is_readable_as_long_as_news_wait(connected: tuple[End, End], asked: str) -> None:
    """Whether or not they were read by a look at `connected`."""
    end, other = connected
    fd = end.cmid.fd if asked == "before" else -1
    other.cmid.disconnect()
    deadline = time.monotonic() + seconds(5)
    while end.cmid.connected:
        assert time.monotonic() < deadline
    fd = end.cmid.fd if asked == "after" else fd
    assert end.cmid.fd == fd
    assert is_readable(fd)
    assert end.cmid.get_event(0) is not None
    while end.cmid.get_event(0) is not None:
        pass
    assert not is_readable(fd)


def test_a_descriptor_of_a_listener_is_readable_as_long_as_a_request_waits(listener: Any, client: End) -> None:
    fd = listener.fd
    assert not is_readable(fd)
    connecting = Connecting(client)
    assert is_readable(fd, seconds(5))
    listener._channel.look()  # as a second thread in get_request() may
    assert is_readable(fd)
    request = listener.get_request(0)
    assert not is_readable(fd)
    request.reject()
    connecting.join(seconds(10))


def test_a_descriptor_goes_with_its_identifier_and_does_not_come_into_a_child(
    connected: tuple[End, End], listener: Any
) -> None:
    end, _ = connected
    numbers = [end.cmid.fd, listener.fd]

    def open_ones() -> list[int]:
        return [fd for fd in numbers if os.path.exists(f"/proc/self/fd/{fd}")]

    assert open_ones() == numbers
    child = os.fork()
    if child == 0:
        os._exit(len(open_ones()))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    end.cmid.close()
    listener.close()
    assert open_ones() == []


def test_an_end_that_is_seen_at_connected_stops_the_queue_pair(connected: tuple[End, End]) -> None:
    """Nothing that is posted hangs, whichever way the program learns that its peer is gone."""
    end, other = connected
    end.recv()
    other.cmid.close()
    deadline = time.monotonic() + seconds(5)
    while end.cmid.connected:
        assert time.monotonic() < deadline
    assert end.qp.state == ERR
    assert not poll_for(end.cq, 1)[0].is_success
