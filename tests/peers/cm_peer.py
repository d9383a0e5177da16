# SPDX-License-Identifier: BSD-3-Clause
"""The other process of a connection through RDMA-CM: says where it is, and waits there to be killed.

cm_peer.py serve HOST requested|accepted|established
cm_peer.py connect HOST PORT
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from cm_ends import End  # noqa: E402

import ibverbs as ib  # noqa: E402


def say(*words: object) -> None:
    print(*words, flush=True)


def serve(host: str, when: str) -> None:
    listener = ib.CMListener(host)
    say("port", listener.port)
    request = listener.get_request()
    end = End(ib, request)
    if when != "requested":
        request.accept(timeout=0 if when == "accepted" else None)
    say("ready")
    time.sleep(60)
    end.close()


def connect(host: str, port: str) -> None:
    end = End(ib, ib.CMID.resolve(host, int(port)))
    end.cmid.connect()
    say("connected")
    time.sleep(60)
    end.close()


if __name__ == "__main__":
    {"serve": serve, "connect": connect}[sys.argv[1]](*sys.argv[2:])
