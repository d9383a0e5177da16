# SPDX-License-Identifier: BSD-3-Clause
"""Ends with everything open and in motion: events unread, requests waiting, receives posted, a thread asleep.

    leave_open.py DEVICE

The interpreter's end has to clean up, in whatever order it drops things, without a word and without a wait.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from endpoints import Endpoint, connect  # noqa: E402
from place import Node  # noqa: E402

import ibverbs as ib  # noqa: E402


def main() -> None:
    node = Node(ib, next(d for d in ib.get_device_list() if d.name == sys.argv[1]))
    a, b = Endpoint(ib, node, with_channel=True), Endpoint(ib, node, with_channel=True)
    connect(a, b)
    b.post_recv()
    b.recv_cq.req_notify()
    a.do(a.send_wr(4))  # an event that nobody reads
    a.qp.post_send([a.send_wr(4)] * 3)  # no receive: they wait and are tried again
    b.set_state(ib.QPState.SQD)  # an asynchronous event that nobody reads
    threading.Thread(target=a.channel.get_cq_event, daemon=True).start()
    globals()["kept"] = [a, b]
    globals()["kept"].append(globals()["kept"])


if __name__ == "__main__":
    main()
