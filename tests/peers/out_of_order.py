# SPDX-License-Identifier: BSD-3-Clause
"""A program over an EFA device that delivers out of order: prints, as JSON, in what order requests completed and
messages arrived, after it has checked that each came once and whole.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from efa_endpoints import EfaEndpoint  # noqa: E402
from endpoints import connect  # noqa: E402
from place import Node  # noqa: E402

import efa  # noqa: E402

COUNT, LENGTH = 60, 64


def main() -> None:
    node = Node(efa, efa.get_efa_device_list()[0])
    extended: Any = {"sgid": True} if "--cq-ex" in sys.argv else None
    with EfaEndpoint(efa, node, None, extended=extended) as a, EfaEndpoint(efa, node, None, extended=extended) as b:
        connect(a, b)
        b.qp.post_recv([efa.RecvWR(i, [b.mr.sge(LENGTH, 8192 + LENGTH * i)]) for i in range(COUNT)])
        for i in range(COUNT):
            a.buf.set_u64(LENGTH * i, i)
        a.qp.post_send(
            [
                a.send_wr(LENGTH, LENGTH * i, i, opcode=efa.WROpcode.SEND_WITH_IMM, imm_data=i)
                for i in range(COUNT)
            ]
        )
        done = [wc.wr_id for wc in a.sent(COUNT, 20)]
        messages = []
        for wc in b.received(COUNT, 20):
            assert wc.byte_len == LENGTH
            assert b.buf.u64(8192 + LENGTH * wc.wr_id) == wc.imm_data, "a message lies in another one's place"
            messages.append(wc.imm_data)
        assert sorted(done) == sorted(messages) == list(range(COUNT))

        there = b.buf.fill(3)
        a.qp.post_send(efa.read_wrs(a.mr, a.peer, b.mr.addr, b.mr.rkey, chunk=300))
        reads = [wc.wr_id for wc in a.sent(-(-a.mr.length // 300), 20)]
        assert a.buf[:] == there and sorted(reads) == list(range(len(reads)))
    print(json.dumps({"done": done, "messages": messages, "reads": reads}))


if __name__ == "__main__":
    main()
