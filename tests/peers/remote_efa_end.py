# SPDX-License-Identifier: BSD-3-Clause
"""The other process of a two-process test over EFA: an endpoint that does what it is told over TCP.

    remote_efa_end.py DEVICE PORT

Connects to 127.0.0.1:PORT and answers lines of JSON, [command, {arguments}], with lines of JSON.
"""

from __future__ import annotations

import hashlib
import json
import socket
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from efa_endpoints import EfaEndpoint  # noqa: E402
from endpoints import QKEY  # noqa: E402
from place import Node  # noqa: E402

import efa  # noqa: E402


class Remote:
    def __init__(self, device: str) -> None:
        self.node = Node(efa, next(d for d in efa.get_efa_device_list() if d.name == device))
        self.end: Any = None
        self.peers: list[Any] = []

    def new(self, **options: Any) -> dict[str, Any]:
        """A fresh endpoint; what the peer must know: the 24 bytes of EndpointInfo, and where the buffer is."""
        self.close()
        self.end = EfaEndpoint(efa, self.node, None, with_channel=True, **options)
        self.end.ready_ud()
        info = efa.local_endpoint_info(self.end.qp, QKEY)
        return {"info": info.to_bytes().hex(), "addr": self.end.mr.addr, "rkey": self.end.mr.rkey}

    def know(self, info: str) -> int:
        """An address handle for a peer; returns how many there are."""
        self.peers.append(efa.EndpointInfo.from_bytes(bytes.fromhex(info)).peer(self.end.pd))
        return len(self.peers)

    def fill(self, seed: int) -> str:
        return hashlib.sha256(self.end.buf.fill(seed)).hexdigest()

    def peek(self, offset: int, length: int) -> str:
        data: bytes = self.end.buf[offset : offset + length]
        return data.hex()

    def post_recv(self, count: int, length: int, offset: int) -> None:
        for i in range(count):
            self.end.post_recv(length, offset + i * length, i)

    def received(self, count: int) -> list[list[int]]:
        return [[wc.wr_id, wc.byte_len, wc.src_qp] for wc in self.end.received(count, 10)]

    def send(self, peer: int, length: int, offset: int) -> None:
        self.end.qp.post_send(self.end.send_wr(length, offset, dest=self.peers[peer]))
        self.end.sent(1, 10)

    def close(self) -> None:
        while self.peers:
            self.peers.pop().close()
        if self.end is not None:
            self.end.close()
            self.end = None


def main() -> None:
    remote = Remote(sys.argv[1])
    with socket.create_connection(("127.0.0.1", int(sys.argv[2]))) as sock, sock.makefile("rw") as wire:
        for line in wire:
            command, arguments = json.loads(line)
            try:
                answer = {"result": getattr(remote, command)(**arguments)}
            except Exception as error:  # told to the test, which fails with it
                answer = {"error": f"{type(error).__name__}: {error}"}
            wire.write(json.dumps(answer) + "\n")
            wire.flush()
    remote.close()


if __name__ == "__main__":
    main()
