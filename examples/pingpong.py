# SPDX-License-Identifier: BSD-3-Clause
"""Two processes send one message to and fro, and say how long a round trip takes.

    python examples/pingpong.py [--device NAME] [--size BYTES] [--rounds N]

It starts its own peer. On a machine without an RDMA device: python -m softrdma run -- python examples/pingpong.py
"""

from __future__ import annotations

import sys
import time

from command import run, whole
from pair import End, arguments, meet, peer_of

import ibverbs as ib


def play(end: End, size: int, rounds: int, first: bool) -> float:
    """Each message is answered when it has come in, with the same number in its first byte. Returns seconds a round."""
    receive = ib.RecvWR(1, [end.mr.sge(size, 0)])
    send = ib.SendWR(2, [end.mr.sge(size, size)], ib.WROpcode.SEND, ib.SendFlags.SIGNALED)
    start = time.perf_counter()
    for i in range(rounds):
        number = i % 256
        if first:
            end.memory[size] = number
            end.qp.post_send(send)
            end.wait(2)  # our send, and the answer
        else:
            end.wait(1)
            end.memory[size] = end.memory[0]
        if end.memory[0] != number:
            sys.exit(f"round {i}: message {end.memory[0]} came instead of {number}")
        end.qp.post_recv(receive)  # before the answer goes out: the peer may be quick
        if not first:
            end.qp.post_send(send)
            end.wait(1)
    return (time.perf_counter() - start) / rounds


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--size", type=whole(1, 1 << 30), default=64, help="bytes of a message (default: %(default)s)")
    parser.add_argument("--rounds", type=whole(1), default=1000, help="default: %(default)s")
    args = parser.parse_args()

    end = End(args.device, 2 * args.size, depth=16)
    with peer_of(__file__, args, "--size", str(args.size), "--rounds", str(args.rounds)) as (sock, first):
        end.connect(sock, recv=ib.RecvWR(1, [end.mr.sge(args.size, 0)]))
        meet(sock)  # both are connected
        each = play(end, args.size, args.rounds, first)
        meet(sock)
        if first:
            print(f"{args.rounds} round trips of {args.size} bytes on {end.ctx.name}: {each * 1e6:.1f} us each")
    end.close()


if __name__ == "__main__":
    run(main)
