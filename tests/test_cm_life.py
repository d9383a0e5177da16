# SPDX-License-Identifier: BSD-3-Clause
"""Connections through RDMA-CM: bad input costs nothing, nothing is lost or left behind, and nothing hangs."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import os
import signal
import sys
import threading
import time
from typing import Any, Callable

import pytest
from cm_ends import End, Server, put_before
from place import seconds

pytestmark = [pytest.mark.only("ibverbs"), pytest.mark.needs("cm")]

UD = 4
UNREACHABLE, REJECTED, DISCONNECTED, MULTICAST_ERROR = 7, 8, 10, 13


def within(limit: float, work: Callable[[], Any]) -> None:
    """Run something that may hang in a thread, and wait no longer."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds(limit))
    assert not thread.is_alive(), "it hangs"
    if errors:
        raise errors[0]


def in_child(work: Callable[[], bytes]) -> bytes:
    """What a child made by fork answers; b"" where it hangs or fails."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(int(seconds(10)))
            os.write(writer, work())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as answer:
        return answer.read()


# ---- bad input -----------------------------------------------------------------------------------------------------


def test_what_is_no_time_is_refused_and_the_attempt_not_made(ib: Any, listener: Any, client: End) -> None:
    cmid = client.cmid
    for wrong, kind in (("1", TypeError), (-1, ValueError), (float("nan"), ValueError)):
        for call in (cmid.connect, cmid.get_event, listener.get_request):
            with pytest.raises(kind, match="timeout"):
                call(timeout=wrong)
        with pytest.raises(kind, match="timeout"):
            ib.CMID.resolve(listener.host, listener.port, timeout=wrong)
    assert not cmid.closed
    server = Server(ib, listener)
    cmid.connect(timeout=1e300)  # for ever
    server.result().close()


def test_a_wait_of_many_days_is_a_wait(ib: Any, listener: Any) -> None:
    threading.Timer(0.2, listener.close).start()
    with pytest.raises(ib.VerbsError) as caught:
        listener.get_request(timeout=40 * 86400.0)
    assert caught.value.errno == errno.EBADF


def test_private_data_is_bytes(ib: Any, listener: Any, client: End) -> None:
    for wrong in (5, "text", None):
        with pytest.raises(TypeError, match="private_data"):
            client.cmid.connect(wrong)
    assert not client.cmid.closed
    server = Server(ib, listener)
    client.cmid.connect(bytearray(b"ask"), timeout=seconds(10))
    server.result().close()
    assert server.private_data[:3] == b"ask"


def test_disconnecting_too_early_does_not_cost_the_queue_pair(ib: Any, listener: Any, client: End) -> None:
    with pytest.raises(ib.VerbsError) as caught:
        client.cmid.disconnect()
    assert caught.value.errno == errno.ENOTCONN
    server = Server(ib, listener, before=lambda end: end.recv())
    client.cmid.connect(timeout=seconds(10))
    client.send(b"hello")
    client.done()
    server.result().close()


def test_an_answer_that_is_refused_before_it_is_sent_can_be_given_again(ib: Any, listener: Any, client: End) -> None:
    def answer(end: End) -> None:
        with pytest.raises(ib.RangeError):
            end.cmid.accept(bytes(256))
        with pytest.raises(ib.RangeError):
            end.cmid.accept(responder_resources=255)
        assert not end.cmid.closed and end.qp.state == 1

    server = Server(ib, listener, before=answer, private_data=b"yes")
    assert client.cmid.connect(timeout=seconds(10))[:3] == b"yes"
    server.result().close()


def test_a_refusal_of_exact_length_arrives_exactly(ib: Any, host: str) -> None:
    with ib.CMListener(host, exact_private_data=True) as listener:
        thread = threading.Thread(target=lambda: listener.get_request(seconds(10)).reject(b"\0no\0"))
        thread.start()
        end = End(ib, ib.CMID.resolve(host, listener.port, exact_private_data=True))
        with pytest.raises(ib.CMError) as caught:
            end.cmid.connect(timeout=seconds(10))
        thread.join()
        assert (caught.value.errno, caught.value.private_data) == (errno.ECONNREFUSED, b"\0no\0")
        end.close()


def test_an_acceptance_that_tells_no_length_is_an_error_of_the_protocol(ib: Any, listener: Any) -> None:
    server = Server(ib, listener, private_data=b"\xff" * 100)
    end = End(ib, ib.CMID.resolve(listener.host, listener.port, exact_private_data=True))
    with pytest.raises(ib.CMError) as caught:
        end.cmid.connect(timeout=seconds(10))
    assert caught.value.errno == errno.EPROTO and end.cmid.closed
    end.close()
    with contextlib.suppress(ib.CMError):
        server.result().close()


# ---- events --------------------------------------------------------------------------------------------------------


def test_unreachable_on_a_connection_is_news_and_not_its_end(ib: Any, listener: Any, client: End) -> None:
    server = Server(ib, listener)
    client.cmid.connect(timeout=seconds(10))
    told = [(UNREACHABLE, -errno.ETIMEDOUT, 0, None, b"", (0, 0, 0, 0, 0))]
    put_before(client.cmid._channel, get_event=lambda: told.pop() if told else None)
    event = client.cmid.get_event(0)
    assert (event.event, event.status) == (UNREACHABLE, -errno.ETIMEDOUT)
    assert client.cmid.connected
    other = server.result()
    other.recv()
    client.send(b"still works")
    client.done()
    other.done()
    other.close()


def test_what_became_of_an_accept_that_did_not_wait_is_news(ib: Any, listener: Any, client: End) -> None:
    put_before(client.cmid._channel, get_event=lambda: None)  # it never looks at the answer
    thread = threading.Thread(target=lambda: pytest.raises(ib.VerbsError, client.cmid.connect))
    thread.start()
    request = listener.get_request(seconds(10))
    with contextlib.closing(End(ib, request)):
        request.accept(timeout=0)
        time.sleep(0.2)
        client.cmid.close()
        event = request.get_event(seconds(10))
        assert event is not None and event.event in (REJECTED, DISCONNECTED)
        assert not request.connected
    thread.join()


def test_a_membership_that_is_lost_is_news(ib: Any, host: str) -> None:
    cmid = ib.CMID.resolve("239.7.7.9", 7, source=host, port_space=ib.PortSpace.UDP)
    with contextlib.closing(End(ib, cmid, qp_type=UD)), cmid.join_multicast("239.7.7.9", timeout=seconds(5)):
        raw = cmid._channel.raw
        told = [(MULTICAST_ERROR, -errno.ENETRESET, 0, None, b"", (None, 0, 0))]
        put_before(cmid._channel, get_event=lambda: told.pop() if told else None)
        event = cmid.get_event(0)
        assert (event.event, event.status) == (MULTICAST_ERROR, -errno.ENETRESET)
        cmid._channel.raw = raw


def test_a_peer_that_goes_while_connecting_ends_is_not_taken_for_connected(ib: Any, listener: Any, client: End) -> None:
    channel = client.cmid._channel
    raw = channel.raw

    def establish() -> None:
        raw.establish()
        server.result().close()
        deadline = time.monotonic() + seconds(5)
        while not channel.news and time.monotonic() < deadline:  # as another thread that looks
            channel.look()
            time.sleep(0.01)

    server = Server(ib, listener)
    put_before(channel, establish=establish)
    client.cmid.connect(timeout=seconds(10))
    assert not client.cmid.connected
    assert client.cmid.get_event(0).event == DISCONNECTED


def test_a_readable_descriptor_with_nothing_to_read_does_not_block(client: End) -> None:
    put_before(client.cmid._channel, get_event=lambda: None)
    client.cmid._channel._fd, readable = os.pipe()
    os.write(readable, b"\0")
    try:
        started = time.monotonic()
        assert client.cmid.get_event(0.1) is None
        assert time.monotonic() - started < seconds(2)
    finally:
        os.close(client.cmid._channel._fd)
        os.close(readable)
        client.cmid._channel._fd = client.cmid._channel.raw.fd


def test_a_listener_closes_at_once_while_a_request_of_its_is_unanswered(ib: Any, listener: Any, client: End) -> None:
    thread = threading.Thread(target=lambda: client.cmid.connect(timeout=seconds(10)))
    thread.start()
    request = listener.get_request(seconds(10))
    within(5, listener.close)
    with contextlib.closing(End(ib, request)):  # and it can still be answered
        request.accept(timeout=seconds(10))
        thread.join(seconds(10))
        assert client.cmid.connected


# ---- what is left behind -------------------------------------------------------------------------------------------


def test_a_child_keeps_its_files_where_an_identifier_was_dropped(ib: Any, listener: Any) -> None:
    cmid = ib.CMID.resolve(listener.host, listener.port)
    number = cmid.fd
    del cmid
    gc.collect()
    taken = os.open(os.devnull, os.O_RDONLY)
    if taken != number:
        os.dup2(taken, number)
    try:
        assert in_child(lambda: b"%d" % os.fstat(number).st_rdev) == b"%d" % os.fstat(number).st_rdev
    finally:
        for fd in {taken, number}:
            os.close(fd)


def test_a_request_that_was_seen_and_not_taken_goes_with_its_listener(ib: Any, host: str) -> None:
    with ib.CMListener(host) as listener:
        end = End(ib, ib.CMID.resolve(host, listener.port))
        raised: list[BaseException] = []

        def connect() -> None:
            try:
                end.cmid.connect(timeout=seconds(10))
            except BaseException as error:
                raised.append(error)

        thread = threading.Thread(target=connect)
        thread.start()
        deadline = time.monotonic() + seconds(5)
        while not listener._channel.answers and time.monotonic() < deadline:
            listener._channel.look()
            time.sleep(0.01)
        descriptor = listener._channel.answers[0].request.fd
        held = os.fsencode(os.readlink(f"/proc/self/fd/{descriptor}"))
        found = in_child(
            lambda: (
                os.fsencode(os.readlink(f"/proc/self/fd/{descriptor}"))
                if os.path.lexists(f"/proc/self/fd/{descriptor}")
                else b"gone"
            )
        )
        assert found != held  # a child does not hold it open
        listener.close()
        thread.join(seconds(10))
        assert raised and raised[0].errno == errno.ECONNREFUSED  # type: ignore[attr-defined]
        end.close()


def test_a_child_can_use_the_connection_manager_whatever_other_threads_did(ib: Any, listener: Any) -> None:
    from ibverbs import cm_context

    go, held = threading.Event(), threading.Event()

    def hold() -> None:
        with cm_context._lock, listener._channel._lock:
            held.set()
            go.wait(seconds(20))

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()

    def child() -> bytes:
        listener.close()
        with ib.CMListener(listener_host) as own, ib.CMID.resolve(listener_host, own.port) as cmid:
            return str(cmid.context.name).encode()

    listener_host = listener.host
    try:
        assert in_child(child) != b""
    finally:
        go.set()
        thread.join()


def test_closing_amid_the_reading_of_an_event_does_not_hang(ib: Any, client: End) -> None:
    def as_a_signal_handler_would() -> None:
        with client.cmid._channel._lock:
            client.cmid.close()

    within(5, as_a_signal_handler_would)
    assert client.cmid.closed


def test_closing_again_destroys_what_closing_could_not(ib: Any, client: End) -> None:
    channel = client.cmid._channel
    raw, failures = channel.raw, [KeyboardInterrupt()]

    def close() -> None:
        if failures:
            raise failures.pop()
        raw.close()

    put_before(channel, close=close)
    with pytest.raises(KeyboardInterrupt):
        client.cmid.close()
    assert client.cmid.closed and not raw.closed
    client.cmid.close()
    assert raw.closed


def interrupted_at(line: int, home: str, work: Callable[[], Any]) -> bool:
    """Do something and interrupt it at the so many-th line of the modules in a folder; whether it came there."""
    seen = 0

    def at_line(frame: Any, event: str, _: Any) -> Any:
        nonlocal seen
        if event == "line":
            seen += 1
            if seen == line:
                raise KeyboardInterrupt
        return at_line

    def at_call(frame: Any, event: str, _: Any) -> Any:
        code = frame.f_code
        ours = os.path.dirname(code.co_filename) == home and code.co_name != "__del__"
        return at_line if ours else None

    before = sys.gettrace()
    sys.settrace(at_call)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize("call", ["resolve", "get_request"])
def test_an_interrupt_between_any_two_lines_leaves_no_descriptor(ib: Any, listener: Any, call: str) -> None:
    calls = {
        "resolve": lambda: ib.CMID.resolve(listener.host, listener.port).close(),
        "get_request": lambda: listener.get_request(0.001),
    }
    calls[call]()
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    line = 1
    while interrupted_at(line, os.path.dirname(ib.__file__), calls[call]):
        if len(os.listdir("/proc/self/fd")) > before:  # what is in a cycle takes the collector, which takes long
            gc.collect()
        assert len(os.listdir("/proc/self/fd")) <= before, f"interrupted at line {line}"
        line += 1
    assert line > 10


def test_a_group_that_could_not_be_used_is_left_again(ib: Any, host: str) -> None:
    cmid = ib.CMID.resolve("239.7.7.8", 7, source=host, port_space=ib.PortSpace.UDP)
    end = End(ib, cmid, qp_type=UD)
    end.qp.close()
    with pytest.raises(ib.VerbsError) as caught:
        cmid.join_multicast("239.7.7.8", timeout=seconds(5))
    assert caught.value.errno == errno.EBADF
    from ibverbs.cm_address import addresses

    with pytest.raises(ib.VerbsError) as caught:
        cmid._channel.raw.leave(addresses("239.7.7.8", 0)[0][1])
    assert caught.value.errno == errno.EADDRNOTAVAIL
    end.close()


def test_joining_again_in_vain_does_not_cost_the_membership(ib: Any, host: str) -> None:
    cmid = ib.CMID.resolve("239.7.7.9", 7, source=host, port_space=ib.PortSpace.UDP)
    end = End(ib, cmid, qp_type=UD)
    group = cmid.join_multicast("239.7.7.9", timeout=seconds(5))
    raw = cmid._channel.raw

    def join(address: bytes, send_only: bool) -> None:
        raise ib.VerbsError("rdma_join_multicast_ex", errno.ENOMEM)

    put_before(cmid._channel, join=join)
    with pytest.raises(ib.VerbsError) as caught:
        cmid.join_multicast("239.7.7.9", timeout=seconds(5))
    assert caught.value.errno == errno.ENOMEM
    cmid._channel.raw = raw
    group.close()  # is refused where it was left before
    end.close()


def test_a_group_that_was_left_is_not_entered(ib: Any, host: str) -> None:
    cmid = ib.CMID.resolve("239.7.7.9", 7, source=host, port_space=ib.PortSpace.UDP)
    with contextlib.closing(End(ib, cmid, qp_type=UD)):
        with cmid.join_multicast("239.7.7.9", timeout=seconds(5)) as group:
            pass
        with pytest.raises(ib.VerbsError, match="MulticastGroup.__enter__") as caught, group:
            pass
        assert caught.value.errno == errno.EBADF


def test_a_look_up_is_not_answered_without_a_queue_pair(ib: Any, host: str) -> None:
    udp = ib.PortSpace.UDP
    with ib.CMListener(host, port_space=udp) as listener:
        client = ib.CMID.resolve(host, listener.port, port_space=udp)
        thread = threading.Thread(target=lambda: client.connect(timeout=seconds(10)))
        thread.start()
        request = listener.get_request(seconds(10))
        with pytest.raises(ib.VerbsError, match="create_qp"):
            request.accept()
        end = End(ib, request, qp_type=UD)
        request.accept(timeout=0)
        assert request.connected
        thread.join()
        assert client.remote[1] == end.qp.qp_num
        client.close()
        end.close()


def test_an_attempt_that_the_library_takes_for_a_second_one_is_over(ib: Any, client: End) -> None:
    def connect(*arguments: Any) -> None:
        raise ib.VerbsError("rdma_connect", errno.EALREADY)

    put_before(client.cmid._channel, connect=connect)
    with pytest.raises(ib.CMError) as caught:
        client.cmid.connect(timeout=seconds(5))
    assert caught.value.errno == errno.EALREADY and client.cmid.closed


# ---- calls that block in the kernel, as on iWARP ---------------------------------------------------------------------


def connecting_takes(client: End, duration: float, error: BaseException | None = None) -> None:
    raw = client.cmid._channel.raw

    def connect(*arguments: Any) -> None:
        time.sleep(duration)
        if error is not None:
            raise error
        raw.connect(*arguments)

    put_before(client.cmid._channel, connect=connect, device=(*raw.device[:2], True))


def test_a_call_that_blocks_does_not_hold_up_the_event_loop(ib: Any, listener: Any, client: End) -> None:
    connecting_takes(client, 0.5)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    async def main() -> None:
        ticking = asyncio.create_task(tick())
        await client.cmid.connect_async(timeout=seconds(10))
        ticking.cancel()

    server = Server(ib, listener)
    asyncio.run(main())
    server.result().close()
    assert ticks > 5


def test_a_call_that_blocks_costs_no_longer_than_the_timeout(ib: Any, client: End) -> None:
    connecting_takes(client, 2)
    started = time.monotonic()
    with pytest.raises(ib.CMError) as caught:
        client.cmid.connect(timeout=0.2)
    assert time.monotonic() - started < 1.5
    assert caught.value.errno == errno.ETIMEDOUT
    assert client.cmid.closed
    client.cmid.close()


def test_closing_does_not_wait_for_a_call_that_blocks(ib: Any, client: End) -> None:
    connecting_takes(client, 2)
    raw = client.cmid._channel.raw
    raised: list[BaseException] = []

    def close() -> None:
        time.sleep(2)
        raw.close()

    put_before(client.cmid._channel, close=close)

    def connect() -> None:
        try:
            client.cmid.connect()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=connect)
    thread.start()
    time.sleep(0.2)
    started = time.monotonic()
    client.cmid.close()
    thread.join(seconds(5))
    assert time.monotonic() - started < 1.5
    assert raised[0].errno == errno.EBADF  # type: ignore[attr-defined]
    while not raw.closed and time.monotonic() - started < seconds(10):
        time.sleep(0.05)
    assert raw.closed


def test_what_a_call_that_blocks_says_is_the_error(ib: Any, client: End) -> None:
    connecting_takes(client, 0.1, ib.VerbsError("rdma_connect", errno.ECONNREFUSED))
    with pytest.raises(ib.CMError) as caught:
        client.cmid.connect(timeout=seconds(10))
    assert (caught.value.operation, caught.value.errno) == ("rdma_connect", errno.ECONNREFUSED)


# ---- event loops ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", range(6))
def test_a_cancellation_is_not_lost_when_something_happens_meanwhile(client: End, turns: int) -> None:
    from ibverbs.deadline import Deadline

    async def main() -> None:
        channel = client.cmid._channel
        waiting = asyncio.create_task(channel.wait_async(channel.news, Deadline(30), "a wait"))
        await asyncio.sleep(0.02)
        channel._on_readable()
        for _ in range(turns):
            await asyncio.sleep(0)
        waiting.cancel()
        done, _ = await asyncio.wait({waiting}, timeout=seconds(3))
        assert waiting in done and waiting.cancelled()

    asyncio.run(main())


def test_a_wait_in_an_event_loop_ends_in_time(client: End) -> None:
    from ibverbs.deadline import Deadline

    async def main() -> None:
        channel = client.cmid._channel
        started = time.monotonic()
        assert await channel.wait_async(channel.news, Deadline(0.1), "a wait") is None
        assert 0.09 <= time.monotonic() - started < seconds(3)

    asyncio.run(main())


def test_an_event_loop_that_is_gone_does_not_keep_others_asleep(ib: Any, host: str) -> None:
    listener = ib.CMListener(host)
    loop = asyncio.new_event_loop()
    waiting = loop.create_task(listener.next_request())
    loop.run_until_complete(asyncio.sleep(0.01))
    loop.close()
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            listener.get_request()
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    time.sleep(0.1)
    listener.close()
    thread.join(seconds(5))
    assert not thread.is_alive() and ended[0].errno == errno.EBADF  # type: ignore[attr-defined]
    waiting._log_destroy_pending = False  # type: ignore[attr-defined]


def test_an_event_loop_that_cannot_watch_costs_no_descriptor(ib: Any, listener: Any) -> None:
    class Blind(asyncio.SelectorEventLoop):
        def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:
            if self._csock is not None and callback == listener._channel._on_readable:  # type: ignore[attr-defined]
                raise NotImplementedError
            super().add_reader(fd, callback, *args)

    loop = Blind()
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(NotImplementedError):
        loop.run_until_complete(listener.next_request())
    assert len(os.listdir("/proc/self/fd")) <= before
    loop.close()
