# SPDX-License-Identifier: BSD-3-Clause
"""The other process of a two-process test: an endpoint that does what it is told over TCP.

    remote_end.py DEVICE PORT

Connects to 127.0.0.1:PORT and answers lines of JSON, [command, {arguments}], with lines of JSON. It waits for
completions on its channel, never spinning: both processes may have to share one CPU.
"""

from __future__ import annotations

import hashlib
import json
import socket
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from endpoints import Endpoint, all_access  # noqa: E402
from place import Node  # noqa: E402

import ibverbs as ib  # noqa: E402

WC_FIELDS = ("wr_id", "status", "opcode", "byte_len", "imm_data", "wc_flags")


class Remote:
    def __init__(self, device: str) -> None:
        self.node = Node(ib, next(d for d in ib.get_device_list() if d.name == device))
        self.end: Endpoint | None = None

    def new(self, **options: Any) -> dict[str, Any]:
        """A fresh endpoint; what the peer must know: the 28 bytes of QPInfo, and where the buffer is."""
        if self.end is not None:
            self.end.close()
        psn = options.pop("psn", 0)
        self.end = Endpoint(ib, self.node, with_channel=True, **options)
        return {"info": self.end.info(psn).to_bytes().hex(), "addr": self.end.mr.addr, "rkey": self.end.mr.rkey}

    def connect(self, info: str, **options: Any) -> None:
        ib.connect_rc(
            self.only.qp,
            ib.QPInfo.from_bytes(bytes.fromhex(info)),
            port=self.node.port,
            sgid_index=self.node.gid_index,
            access=all_access(ib),
            **options,
        )

    @property
    def only(self) -> Endpoint:
        assert self.end is not None
        return self.end

    def fill(self, seed: int) -> str:
        return hashlib.sha256(self.only.buf.fill(seed)).hexdigest()

    def peek(self, offset: int, length: int) -> str:
        return self.only.buf[offset : offset + length].hex()

    def poke(self, offset: int, data: str) -> None:
        raw = bytes.fromhex(data)
        self.only.buf[offset : offset + len(raw)] = raw

    def post_recv(self, **where: Any) -> None:
        self.only.post_recv(**where)

    def received(self, count: int) -> list[dict[str, int]]:
        return [{name: getattr(wc, name) for name in WC_FIELDS} for wc in self.only.received(count, 10)]

    def send(self, length: int, offset: int, imm: int | None = None) -> None:
        opcode = ib.WROpcode.SEND if imm is None else ib.WROpcode.SEND_WITH_IMM
        self.only.qp.post_send(self.only.send_wr(length, offset, opcode=opcode, imm_data=imm or 0))
        self.only.sent(1, 10)

    def echo(self, rounds: int, length: int) -> None:
        """Sends back what comes, `rounds` times, from one buffer that is received into and sent from."""
        end = self.only
        for _ in range(rounds):
            end.received(1, 10)
            end.post_recv(length=length)
            end.qp.post_send(end.send_wr(length))
            end.sent(1, 10)


def main() -> None:
    device, port = sys.argv[1], int(sys.argv[2])
    remote = Remote(device)
    with socket.create_connection(("127.0.0.1", port)) as sock, sock.makefile("rw") as wire:
        for line in wire:
            command, arguments = json.loads(line)
            try:
                answer = {"result": getattr(remote, command)(**arguments)}
            except Exception as error:  # told to the test, which fails with it
                answer = {"error": f"{type(error).__name__}: {error}"}
            wire.write(json.dumps(answer) + "\n")
            wire.flush()
    if remote.end is not None:
        remote.end.close()


if __name__ == "__main__":
    main()
