# SPDX-License-Identifier: BSD-3-Clause
"""Two ends of a connection through RDMA-CM in one process, for tests, and what stands before the library."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Callable

from endpoints import Buffer, all_access, poll_for
from place import seconds

SIZE = 4096
SIGNALED = 2


class End:
    """A CMID with a queue pair, a completion queue and a registered buffer."""

    def __init__(self, ib: Any, cmid: Any, depth: int = 32, qp_type: int = 2) -> None:
        self.ib, self.cmid = ib, cmid
        with contextlib.ExitStack() as undo:
            self.pd = undo.enter_context(cmid.context.alloc_pd())
            self.cq = undo.enter_context(cmid.context.create_cq(2 * depth))
            self.buffer = Buffer(SIZE)
            self.mr = undo.enter_context(self.pd.reg_mr(self.buffer.addr, SIZE, all_access(ib), self.buffer))
            attr = ib.QPInitAttr(self.cq, self.cq, qp_type=qp_type, max_send_wr=depth, max_recv_wr=depth)
            self.qp = undo.enter_context(cmid.create_qp(self.pd, attr))
            undo.enter_context(cmid)
            self._undo = undo.pop_all()

    def recv(self, length: int = 64, offset: int = 2048, wr_id: int = 100) -> None:
        self.qp.post_recv(self.ib.RecvWR(wr_id, [self.mr.sge(length, offset)]))

    def send(self, data: bytes, **fields: Any) -> None:
        self.buffer[: len(data)] = data
        self.qp.post_send(self.ib.SendWR(1, [self.mr.sge(len(data))], self.ib.WROpcode.SEND, SIGNALED, **fields))

    def done(self, count: int = 1) -> list[Any]:
        found = poll_for(self.cq, count)
        for wc in found:
            wc.raise_for_status()
        return found

    def got(self, length: int, offset: int = 2048) -> bytes:
        return bytes(self.buffer[offset : offset + length])

    def close(self) -> None:
        self._undo.close()


class Server(threading.Thread):
    """Takes one request of a listener, in a thread of its own: makes its end and accepts."""

    def __init__(self, ib: Any, listener: Any, before: Callable[[End], None] = lambda end: None, **accept: Any) -> None:
        super().__init__(daemon=True)
        self.ib, self.listener, self.before, self.accept_with = ib, listener, before, accept
        self.end: End | None = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            request = self.listener.get_request(seconds(10))
            assert request is not None, "no request came"
            self.private_data = request.private_data
            self.peer = request.host
            self.end = End(self.ib, request)
            self.before(self.end)
            self.accept_with.setdefault("timeout", seconds(10))
            request.accept(**self.accept_with)
        except BaseException as error:
            self.error = error

    def result(self) -> End:
        self.join(seconds(15))
        assert not self.is_alive(), "the server hangs"
        if self.error is not None:
            raise self.error
        assert self.end is not None
        return self.end


class Raw:
    """What stands before an identifier of the extension and has some methods and attributes of its own."""

    def __init__(self, raw: Any, **own: Any) -> None:
        self._raw = raw
        self.__dict__.update(own)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


def put_before(channel: Any, **own: Any) -> None:
    channel.raw = Raw(channel.raw, **own)
