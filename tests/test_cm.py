# SPDX-License-Identifier: BSD-3-Clause
"""Both sides of a connection through RDMA-CM, on RoCE and on iWARP."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cm_ends import SIGNALED, End, Server
from endpoints import poll_for
from place import Place, ipv4_of, seconds

pytestmark = [pytest.mark.only("ibverbs"), pytest.mark.needs("cm")]

RESET, INIT, RTR, RTS, SQD, SQE, ERR = range(7)
UD = 4


@pytest.fixture(params=["roce", "iwarp"])
def cm_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def roce(place: Place) -> str:
    return ipv4_of(place.nodes[0])


class Connected:
    """A client and a server that know each other."""

    def __init__(self, ib: Any, listener: Any, undo: contextlib.ExitStack, **options: Any) -> None:
        accept = {key[7:]: options.pop(key) for key in list(options) if key.startswith("accept_")}
        before = options.pop("before", lambda end: None)
        server = Server(ib, listener, before, **accept)
        self.client = End(ib, ib.CMID.resolve(listener.host, listener.port, timeout=seconds(5)))
        undo.callback(self.client.close)
        self.answer = self.client.cmid.connect(timeout=seconds(10), **options)
        self.server = server.result()
        undo.callback(self.server.close)
        self.asked = server.private_data
        self.peer = server.peer


@pytest.fixture
def connected(ib: Any, listener: Any) -> Iterator[Any]:
    with contextlib.ExitStack() as undo:
        yield lambda **options: Connected(ib, listener, undo, **options)


def is_iwarp(cmid: Any) -> bool:
    return bool(cmid._channel.is_iwarp)


# ---- a connection --------------------------------------------------------------------------------------------------


def test_data_goes_both_ways_and_both_know_who_they_talk_to(connected: Any, host: str) -> None:
    both = connected()
    for a, b in ((both.client, both.server), (both.server, both.client)):
        b.recv()
        a.send(b"a message")
        a.done()
        b.done()
        assert b.got(9) == b"a message"
    assert both.client.cmid.connected and both.server.cmid.connected
    assert (both.client.cmid.host, both.peer, both.client.cmid.source) == (host, host, host)


def test_the_queue_pair_is_like_any_other(ib: Any, connected: Any) -> None:
    both = connected(responder_resources=2, initiator_depth=2)
    assert isinstance(both.client.qp, ib.QP)
    assert both.client.cmid.qp is both.client.qp
    if not is_iwarp(both.client.cmid):
        assert both.client.qp.state == both.server.qp.state == RTS
        attr, _ = both.client.qp.query()
        assert attr["dest_qp_num"] == both.server.qp.qp_num
        assert attr["min_rnr_timer"] != 0  # which would be 655 ms
    data = both.server.buffer.fill(3)
    both.client.qp.post_send(
        ib.SendWR(
            5, [both.client.mr.sge(256)], ib.WROpcode.RDMA_READ, SIGNALED, both.server.mr.addr, both.server.mr.rkey
        )
    )
    assert both.client.done()[0].wr_id == 5
    assert bytes(both.client.buffer[:256]) == data[:256]


def test_private_data_arrives_on_both_sides(connected: Any) -> None:
    both = connected(private_data=b"ask", accept_private_data=b"answer")
    assert both.asked[:3] == b"ask"
    assert both.answer[:6] == b"answer"
    if is_iwarp(both.client.cmid):
        assert (both.asked, both.answer) == (b"ask", b"answer")
    else:  # padded with zeros, to what the protocol carries
        assert (len(both.asked), len(both.answer)) == (56, 196)


def test_a_length_before_it_gives_private_data_back_exactly(ib: Any, host: str) -> None:
    with ib.CMListener(host, exact_private_data=True) as listener:
        server = Server(ib, listener, private_data=b"\0\0answer\0")
        with ib.CMID.resolve(host, listener.port, exact_private_data=True) as cmid:
            end = End(ib, cmid)
            assert cmid.connect(b"\0ask\0", timeout=seconds(10)) == b"\0\0answer\0"
            assert server.private_data == b"\0ask\0"
            server.result().close()
            end.close()


@pytest.mark.parametrize("exact", [False, True])
def test_private_data_that_does_not_fit_is_refused_with_the_number_and_nothing_is_lost(
    ib: Any, host: str, exact: bool
) -> None:
    with ib.CMListener(host, exact_private_data=exact) as listener:
        cmid = ib.CMID.resolve(host, listener.port, exact_private_data=exact)
        end = End(ib, cmid)
        most = (251 if is_iwarp(cmid) else 56) - exact
        with pytest.raises(ib.RangeError, match=f"at most {most}"):
            cmid.connect(bytes(most + 1))
        server = Server(ib, listener)
        cmid.connect(bytes(most), timeout=seconds(10))
        assert server.private_data[:most] == bytes(most)
        server.result().close()
        end.close()


def test_read_depths_become_the_smaller_of_both_sides(roce: str, ib: Any) -> None:
    with ib.CMListener(roce) as listener, contextlib.ExitStack() as undo:
        both = Connected(
            ib,
            listener,
            undo,
            responder_resources=4,
            initiator_depth=8,
            accept_responder_resources=2,
            accept_initiator_depth=16,
        )
        client, server = both.client.qp.query()[0], both.server.qp.query()[0]
        assert (client["max_rd_atomic"], server["max_dest_rd_atomic"]) == (2, 2)
        assert (client["max_dest_rd_atomic"], server["max_rd_atomic"]) == (4, 4)


def test_a_depth_beyond_the_device_is_refused_with_its_limit(ib: Any, roce: str) -> None:
    with ib.CMListener(roce) as listener:
        end = End(ib, ib.CMID.resolve(roce, listener.port))
        with pytest.raises(ib.RangeError, match="responder_resources must be between 0 and"):
            end.cmid.connect(responder_resources=250)
        assert not end.cmid.closed
        end.close()


def test_receives_posted_before_accepting_take_the_first_message(connected: Any) -> None:
    both = connected(before=lambda end: end.recv())
    both.client.send(b"at once")
    both.client.done()
    both.server.done()
    assert both.server.got(7) == b"at once"


def test_accepting_need_not_wait(ib: Any, listener: Any) -> None:
    client = End(ib, ib.CMID.resolve(listener.host, listener.port))
    thread = threading.Thread(target=client.cmid.connect, kwargs={"timeout": seconds(10)}, daemon=True)
    thread.start()
    request = listener.get_request(seconds(10))
    server = End(ib, request)
    request.accept(timeout=0)
    thread.join(seconds(10))
    deadline = time.monotonic() + seconds(5)
    while not request.connected and time.monotonic() < deadline:
        time.sleep(0.01)
    assert request.connected
    client.close()
    server.close()


# ---- refusals ------------------------------------------------------------------------------------------------------


def test_a_port_that_nobody_listens_on_says_so(ib: Any, host: str) -> None:
    with ib.CMListener(host) as gone:
        port = gone.port
    end = End(ib, ib.CMID.resolve(host, port))
    with pytest.raises(ib.CMError) as caught:
        end.cmid.connect(timeout=seconds(10))
    assert caught.value.errno == errno.ECONNREFUSED
    if not is_iwarp_error(caught.value):
        assert (caught.value.event, caught.value.status) == (ib.CMEventType.REJECTED, 8)
        assert "nobody listens" in str(caught.value)
    assert end.cmid.closed
    end.close()


def is_iwarp_error(error: Any) -> bool:
    """There the call itself is refused, and no event tells."""
    return error.event is None


def test_a_refusal_carries_the_peers_words(ib: Any, listener: Any) -> None:
    def refuse() -> None:
        listener.get_request(seconds(10)).reject(b"not today")

    thread = threading.Thread(target=refuse)
    thread.start()
    end = End(ib, ib.CMID.resolve(listener.host, listener.port))
    with pytest.raises(ib.CMError) as caught:
        end.cmid.connect(timeout=seconds(10))
    thread.join()
    assert caught.value.errno == errno.ECONNREFUSED
    assert caught.value.event == ib.CMEventType.REJECTED
    assert caught.value.private_data[:9] == b"not today"
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.private_data, copy.event) == (
        str(caught.value),
        caught.value.private_data,
        caught.value.event,
    )
    end.close()


def test_a_request_that_is_dropped_is_refused(ib: Any, listener: Any) -> None:
    def drop() -> None:
        listener.get_request(seconds(10))
        gc.collect()

    thread = threading.Thread(target=drop)
    thread.start()
    end = End(ib, ib.CMID.resolve(listener.host, listener.port))
    with pytest.raises(ib.CMError) as caught:
        end.cmid.connect(timeout=seconds(10))
    thread.join()
    assert caught.value.errno == errno.ECONNREFUSED
    end.close()


def test_a_request_is_answered_once(ib: Any, connected: Any) -> None:
    both = connected()
    for call in (both.server.cmid.accept, both.server.cmid.reject):
        with pytest.raises(ib.VerbsError, match="answered already"):
            call()
    with pytest.raises(ib.VerbsError, match="accept\\(\\) or reject\\(\\)"):
        both.server.cmid.connect()
    with pytest.raises(ib.VerbsError, match="not a peer's request"):
        both.client.cmid.accept()
    assert both.server.cmid.connected and not both.server.cmid.closed


def test_a_server_that_does_not_answer_costs_no_longer_than_the_timeout(ib: Any, listener: Any) -> None:
    end = End(ib, ib.CMID.resolve(listener.host, listener.port))
    started = time.monotonic()
    with pytest.raises(ib.CMError) as caught:
        end.cmid.connect(timeout=0.5)
    assert time.monotonic() - started < seconds(3)
    assert caught.value.errno == errno.ETIMEDOUT
    assert "0.5 s" in str(caught.value)
    assert end.cmid.closed
    end.close()


def test_an_identifier_serves_one_attempt(ib: Any, listener: Any) -> None:
    end = End(ib, ib.CMID.resolve(listener.host, listener.port))
    with pytest.raises(ib.CMError):
        end.cmid.connect(timeout=0.2)
    with pytest.raises(ib.VerbsError) as caught:
        end.cmid.connect()
    assert caught.value.errno == errno.EBADF
    end.close()


def test_a_queue_pair_comes_before_connecting(ib: Any, listener: Any) -> None:
    with ib.CMID.resolve(listener.host, listener.port) as cmid:
        with pytest.raises(ib.VerbsError, match="create_qp"):
            cmid.connect()
        assert not cmid.closed


# ---- resolving -----------------------------------------------------------------------------------------------------


def test_an_address_that_nobody_has(ib: Any, roce: str) -> None:
    dead = roce.rpartition(".")[0] + ".77"
    started = time.monotonic()
    with pytest.raises(ib.CMError) as caught:
        ib.CMID.resolve(dead, 5000, timeout=0.6)
    assert 0.3 < time.monotonic() - started < seconds(3)
    assert caught.value.errno == errno.ETIMEDOUT
    assert caught.value.event == ib.CMEventType.ADDR_ERROR


def test_a_network_that_nothing_leads_to(ib: Any) -> None:
    with pytest.raises(OSError) as caught:
        ib.CMID.resolve("203.0.113.5", 5000, timeout=0.6)
    assert caught.value.errno in (errno.ENETUNREACH, errno.ETIMEDOUT, errno.ENODEV)


def test_what_is_no_address_or_no_port(ib: Any, roce: str) -> None:
    with pytest.raises(socket.gaierror):
        ib.CMID.resolve(".".join(["no-such-name" * 5] * 5), 5000)  # longer than a name may be: no server is asked
    for port in (0, -1, 65536):
        with pytest.raises(ib.RangeError, match="port"):
            ib.CMID.resolve(roce, port)
    with pytest.raises(ib.RangeError, match="port"):
        ib.CMListener(roce, 65536)


def test_the_source_decides_the_address(ib: Any, roce: str) -> None:
    with ib.CMListener(roce) as listener:
        with ib.CMID.resolve(roce, listener.port, source=roce) as cmid:
            assert cmid.source == roce
        with pytest.raises(OSError):
            ib.CMID.resolve(roce, listener.port, source="192.0.2.1", timeout=1)


def test_a_port_is_taken_once(ib: Any, listener: Any) -> None:
    with pytest.raises(ib.VerbsError) as caught:
        ib.CMListener(listener.host, listener.port)
    assert caught.value.errno == errno.EADDRINUSE


def test_a_listener_on_every_address_takes_a_client_of_each_device(ib: Any, host: str) -> None:
    with ib.CMListener("") as listener, contextlib.ExitStack() as undo:
        server = Server(ib, listener)
        client = End(ib, ib.CMID.resolve(host, listener.port))
        undo.callback(client.close)
        client.cmid.connect(timeout=seconds(10))
        end = server.result()
        undo.callback(end.close)
        assert end.cmid.context.name == client.cmid.context.name


# ---- the end -------------------------------------------------------------------------------------------------------


def test_the_peer_is_told_of_a_disconnect_and_requests_come_back(ib: Any, connected: Any) -> None:
    both = connected()
    both.server.recv(wr_id=7)
    both.client.cmid.disconnect()
    both.client.cmid.disconnect()
    assert not both.client.cmid.connected
    event = both.server.cmid.get_event(seconds(10))
    assert (event.event, event.event_str) == (ib.CMEventType.DISCONNECTED, "DISCONNECTED")
    assert not both.server.cmid.connected
    (wc,) = poll_for(both.server.cq, 1)
    assert (wc.wr_id, wc.is_success) == (7, False)


def test_closing_ends_the_connection_without_waiting(ib: Any, connected: Any) -> None:
    both = connected()
    started = time.monotonic()
    both.client.cmid.close()
    both.client.cmid.close()
    assert time.monotonic() - started < seconds(2)
    assert both.client.cmid.closed
    event = both.server.cmid.get_event(seconds(10))
    assert event.event == ib.CMEventType.DISCONNECTED
    assert repr(both.client.cmid) == "<CMID, closed>"


@pytest.mark.parametrize("first", ["qp", "cmid"])
def test_queue_pair_and_identifier_close_in_any_order(ib: Any, connected: Any, first: str) -> None:
    both = connected()
    order = [both.client.qp, both.client.cmid]
    for thing in order if first == "qp" else reversed(order):
        thing.close()
    assert both.server.cmid.get_event(seconds(10)).event == ib.CMEventType.DISCONNECTED


def test_the_context_is_shared_and_cannot_be_closed(ib: Any, connected: Any) -> None:
    both = connected()
    context = both.client.cmid.context
    assert both.server.cmid.context is context
    with pytest.raises(ib.VerbsError) as caught:
        context.close()
    assert caught.value.errno == errno.EBUSY
    assert not context.closed
    assert context.query_port(both.client.cmid.port_num).state == 4


def test_a_pd_of_another_device_is_refused(ib: Any, place: Place, roce: str) -> None:
    if len(place.nodes) < 2:
        pytest.skip("needs two devices")
    with ib.CMListener(roce) as listener, ib.CMID.resolve(roce, listener.port) as cmid:
        other = next(node for node in place.nodes if node.name != cmid.context.name)
        with other.open() as ctx, ctx.alloc_pd() as pd, ctx.create_cq(4) as cq:
            with pytest.raises(ValueError, match=other.name):
                cmid.create_qp(pd, ib.QPInitAttr(cq, cq))


def test_a_closed_identifier_says_so(ib: Any, listener: Any) -> None:
    cmid = ib.CMID.resolve(listener.host, listener.port)
    cmid.close()
    for call in (cmid.connect, cmid.disconnect, cmid.accept, cmid.reject, cmid.get_event, lambda: cmid.context):
        with pytest.raises(ib.VerbsError) as caught:
            call()
        assert caught.value.errno == errno.EBADF


def test_disconnecting_what_never_was_connected(ib: Any, listener: Any) -> None:
    end = End(ib, ib.CMID.resolve(listener.host, listener.port))
    with pytest.raises(ib.VerbsError) as caught:
        end.cmid.disconnect()
    assert caught.value.errno == errno.ENOTCONN
    end.close()


def test_what_was_accepted_outlives_the_listener(ib: Any, host: str) -> None:
    with contextlib.ExitStack() as undo:
        listener = ib.CMListener(host)
        both = Connected(ib, listener, undo)
        listener.close()
        listener.close()
        both.server.recv()
        both.client.send(b"still here")
        both.client.done()
        both.server.done()
        assert both.server.got(10) == b"still here"


def test_requests_that_nobody_read_are_refused_when_the_listener_goes(ib: Any, host: str) -> None:
    listener = ib.CMListener(host)
    end = End(ib, ib.CMID.resolve(host, listener.port))
    threading.Timer(0.3, listener.close).start()
    with pytest.raises(ib.CMError) as caught:
        end.cmid.connect(timeout=seconds(10))
    assert caught.value.errno == errno.ECONNREFUSED
    end.close()


# ---- waiting -------------------------------------------------------------------------------------------------------


def test_nothing_within_the_timeout_is_none(ib: Any, listener: Any, connected: Any) -> None:
    assert listener.get_request(0) is None
    started = time.monotonic()
    assert listener.get_request(0.1) is None
    assert time.monotonic() - started >= 0.09
    both = connected()
    assert both.client.cmid.get_event(0) is None
    assert both.client.cmid.get_event(0.05) is None


def test_closing_wakes_who_waits(ib: Any, host: str, connected: Any) -> None:
    both = connected()
    listener = ib.CMListener(host)
    for what, call in ((listener, listener.get_request), (both.client.cmid, both.client.cmid.get_event)):
        raised: list[BaseException] = []

        def wait(call: Any = call, raised: list[BaseException] = raised) -> None:
            try:
                call()
            except BaseException as error:
                raised.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.1)
        what.close()
        thread.join(seconds(5))
        assert not thread.is_alive()
        assert raised[0].errno == errno.EBADF  # type: ignore[attr-defined]
        assert f"{type(what).__name__}.{call.__name__}: " in str(raised[0]) and "_CMID" not in str(raised[0])


def test_iterating_a_listener_ends_when_it_is_closed(ib: Any, host: str) -> None:
    listener = ib.CMListener(host)
    threading.Timer(0.2, listener.close).start()
    assert list(listener) == []


def test_iterating_the_events_ends_when_the_identifier_is_closed(ib: Any, connected: Any) -> None:
    both = connected()
    both.server.cmid.disconnect()
    seen = []
    threading.Timer(0.5, both.client.cmid.close).start()
    for event in both.client.cmid.events():
        seen.append(event.event)
    assert ib.CMEventType.DISCONNECTED in seen


def test_the_descriptor_is_readable_when_there_is_news(ib: Any, connected: Any) -> None:
    both = connected()
    fd = both.client.cmid.fd
    assert select.select([fd], [], [], 0)[0] == []
    both.server.cmid.disconnect()
    assert select.select([fd], [], [], seconds(5))[0] == [fd]
    assert both.client.cmid.get_event(0).event == ib.CMEventType.DISCONNECTED


@pytest.mark.parametrize("call", ["get_request", "connect", "get_event"])
def test_a_signal_handler_that_raises_ends_the_wait(ib: Any, host: str, call: str) -> None:
    class Stop(Exception):
        pass

    def handler(*_: Any) -> None:
        raise Stop

    old = signal.signal(signal.SIGALRM, handler)
    listener = ib.CMListener(host)
    end = End(ib, ib.CMID.resolve(host, listener.port))
    waits = {"get_request": listener.get_request, "connect": end.cmid.connect, "get_event": end.cmid.get_event}
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Stop):
            waits[call]()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert end.cmid.closed == (call == "connect")  # nothing of an attempt is left half open
    end.close()
    listener.close()


def test_a_second_attempt_while_one_is_under_way_is_refused(ib: Any, listener: Any) -> None:
    end = End(ib, ib.CMID.resolve(listener.host, listener.port))
    thread = threading.Thread(target=lambda: pytest.raises(ib.CMError, end.cmid.connect, timeout=1))
    thread.start()
    time.sleep(0.2)
    with pytest.raises(ib.VerbsError) as caught:
        end.cmid.connect(timeout=1)
    assert caught.value.errno in (errno.EALREADY, errno.EINVAL)
    thread.join(seconds(5))
    end.close()


# ---- datagrams and multicast ---------------------------------------------------------------------------------------


def test_datagrams_know_where_to_go(ib: Any, roce: str) -> None:
    udp = ib.PortSpace.UDP
    with ib.CMListener(roce, port_space=udp) as listener, contextlib.ExitStack() as undo:
        ends: list[End] = []

        def serve() -> None:
            request = listener.get_request(seconds(10))
            ends.append(End(ib, request, qp_type=UD))
            ends[0].recv(128)
            request.accept(b"welcome")

        thread = threading.Thread(target=serve)
        thread.start()
        client = End(ib, ib.CMID.resolve(roce, listener.port, port_space=udp), qp_type=UD)
        undo.callback(client.close)
        assert client.cmid.connect(b"hello", timeout=seconds(10))[:7] == b"welcome"
        thread.join()
        undo.callback(ends[0].close)
        ah_attr, qp_num, qkey = client.cmid.remote
        assert qp_num == ends[0].qp.qp_num
        with client.pd.create_ah(ah_attr) as ah:
            client.send(b"datagram", ah=ah, remote_qpn=qp_num, remote_qkey=qkey)
            client.done()
            ends[0].done()
        assert ends[0].got(8, 2048 + 40) == b"datagram"


def test_a_group_is_joined_and_left(ib: Any, roce: str) -> None:
    udp = ib.PortSpace.UDP
    with contextlib.ExitStack() as undo:
        ends = []
        for _ in range(2):
            ends.append(End(ib, ib.CMID.resolve("239.7.7.7", 7, source=roce, port_space=udp), qp_type=UD))
            undo.callback(ends[-1].close)
        receiver = undo.enter_context(ends[0].cmid.join_multicast("239.7.7.7", timeout=seconds(5)))
        sender = undo.enter_context(ends[1].cmid.join_multicast("239.7.7.7", send_only=True, timeout=seconds(5)))
        ends[0].recv(128)
        with ends[1].pd.create_ah(sender.ah_attr) as ah:
            ends[1].send(b"to all", ah=ah, remote_qpn=sender.qp_num, remote_qkey=sender.qkey)
            ends[1].done()
            ends[0].done()
        assert ends[0].got(6, 2048 + 40) == b"to all"
        receiver.close()
        receiver.close()
        assert receiver.closed


# ---- endurance -----------------------------------------------------------------------------------------------------


def test_connections_leave_no_descriptors_and_no_memory(ib: Any, host: str, place: Place) -> None:
    def one(listener: Any) -> None:
        with contextlib.ExitStack() as undo:
            Connected(ib, listener, undo)

    with ib.CMListener(host) as listener:
        for _ in range(5):
            one(listener)
        gc.collect()
        fds, blocks = len(os.listdir("/proc/self/fd")), sys.getallocatedblocks()
        for _ in range(1000 if place.emulated else 300):
            one(listener)
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) <= fds
        assert sys.getallocatedblocks() - blocks < 2000


def test_a_child_of_a_fork_cannot_use_what_was_made_before_it_and_holds_nothing_open(ib: Any, connected: Any) -> None:
    both = connected()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        answer = b"used"
        try:
            try:
                both.client.cmid.get_event(0)
            except ib.VerbsError as error:
                answer = str(error.errno).encode()
            os.write(writer, answer)
            time.sleep(20)
        finally:
            os._exit(0)
    try:
        os.close(writer)
        assert int(os.read(reader, 10)) == errno.EBADF
        both.server.recv()
        both.client.send(b"the parent goes on")
        both.client.done()
        both.server.done()
        both.client.cmid.close()  # and the child, which still lives, does not keep the connection up
        assert both.server.cmid.get_event(seconds(10)).event == ib.CMEventType.DISCONNECTED
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


# ---- a peer that vanishes ------------------------------------------------------------------------------------------

PEER = Path(__file__).parent / "peers" / "cm_peer.py"


def start_peer(*arguments: object) -> Any:
    return subprocess.Popen(
        [sys.executable, str(PEER), *map(str, arguments)], stdout=subprocess.PIPE, text=True, bufsize=1
    )


def until(process: Any, word: str) -> str:
    for line in process.stdout:
        if line.startswith(word):
            return str(line[len(word) :].strip())
    raise AssertionError(f"the peer ended before it said {word}")


@pytest.mark.parametrize("when", ["requested", "accepted", "established"])
def test_a_server_that_dies_is_noticed(ib: Any, host: str, when: str) -> None:
    process = start_peer("serve", host, when)
    try:
        port = int(until(process, "port"))
        end = End(ib, ib.CMID.resolve(host, port, timeout=seconds(5)))
        if when == "established":
            end.cmid.connect(timeout=seconds(10))
            until(process, "ready")
            process.kill()
            assert end.cmid.get_event(seconds(20)).event == ib.CMEventType.DISCONNECTED
        else:
            threading.Thread(target=lambda: (until(process, "ready"), process.kill()), daemon=True).start()
            try:
                end.cmid.connect(timeout=seconds(20))
            except ib.CMError as error:
                assert error.errno in (errno.ECONNREFUSED, errno.ECONNRESET, errno.EIO, errno.EINVAL)
            else:
                assert end.cmid.get_event(seconds(20)).event == ib.CMEventType.DISCONNECTED
        end.close()
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("when", ["connecting", "established"])
def test_a_client_that_dies_is_noticed(ib: Any, listener: Any, when: str) -> None:
    process = start_peer("connect", listener.host, listener.port)
    try:
        request = listener.get_request(seconds(20))
        end = End(ib, request)
        if when == "connecting":
            process.kill()
            process.wait()
            time.sleep(0.3)
            try:
                request.accept(timeout=seconds(15))
            except ib.VerbsError:
                assert request.closed
            else:
                assert request.get_event(seconds(20)).event == ib.CMEventType.DISCONNECTED
        else:
            request.accept(timeout=seconds(10))
            until(process, "connected")
            process.kill()
            assert request.get_event(seconds(20)).event == ib.CMEventType.DISCONNECTED
        end.close()
    finally:
        process.kill()
        process.wait()


def test_garbage_as_private_data_is_refused_and_the_next_client_served(ib: Any, host: str) -> None:
    with ib.CMListener(host, exact_private_data=True) as listener, contextlib.ExitStack() as undo:
        server = Server(ib, listener)
        garbage = End(ib, ib.CMID.resolve(host, listener.port))  # sends no length
        undo.callback(garbage.close)
        with pytest.raises(ib.CMError) as caught:
            garbage.cmid.connect(b"\xff" * 40, timeout=seconds(10))
        assert caught.value.errno == errno.ECONNREFUSED
        good = End(ib, ib.CMID.resolve(host, listener.port, exact_private_data=True))
        undo.callback(good.close)
        good.cmid.connect(b"good", timeout=seconds(10))
        undo.callback(server.result().close)
        assert server.private_data == b"good"
