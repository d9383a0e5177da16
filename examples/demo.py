# SPDX-License-Identifier: BSD-3-Clause
"""Two processes move data between their memories by RDMA, check it, and say how fast it went.

    python examples/demo.py [--device NAME] [--gid-index N] [--quick]

It starts its own peer. The two connect by TCP once, to tell each other where their queue pair and their buffer are;
all that follows goes through the RDMA device: a write, a read, a message with immediate data, both atomic operations,
then the same again in a row with a clock running. The exit status is 0 only if every byte was right.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from functools import partial
from typing import Any, Callable

from command import run, whole
from pair import PORT, End, arguments, meet, peer_of

import ibverbs as ib
from ibverbs import SendFlags, SendWR, WROpcode

BUFFER = 2 << 20  # the first half is data of our own, the second is for the peer to write to
HALF = BUFFER // 2
DEPTH = 16  # requests in flight
WORD = HALF - 8  # where the number for the atomic operations lies
GREETING = 0xC0FFEE


def pattern(length: int) -> bytes:
    """Bytes that both sides know and that look the same nowhere else in the buffer."""
    return (bytes(range(1, 252)) * (length // 251 + 1))[:length]


def check(got: bytes, want: bytes, what: str) -> None:
    if bytes(got) != bytes(want):
        sys.exit(f"{what}: the data differ")


class Side(End):
    """One process's half: an end of the connection, and the requests that this demonstration makes of it."""

    def __init__(self, device: str, gid_index: int) -> None:
        super().__init__(device, BUFFER, DEPTH, gid_index)

    def join(self, sock: socket.socket) -> None:
        # Reads in flight. The default is 1: each would wait for the one before it.
        reads = min(DEPTH, self.ctx.query_device().max_qp_rd_atom)
        self.connect(sock, max_rd_atomic=reads, max_dest_rd_atomic=reads)
        meet(sock)

    def post_receives(self, count: int, length: int = HALF, offset: int = HALF) -> None:
        self.qp.post_recv(ib.RecvWR(i, [self.mr.sge(length, offset)]) for i in range(count))

    def request(self, opcode: int, length: int, here: int = 0, there: int = HALF, **fields: Any) -> SendWR:
        """A signaled request on our bytes at `here` and, where the opcode has one, the peer's at `there`."""
        sges = [self.mr.sge(length, here)] if length else []
        return SendWR(
            0, sges, opcode, SendFlags.SIGNALED, remote_addr=self.remote_addr + there, rkey=self.rkey, **fields
        )

    def do(self, *requests: SendWR) -> None:
        self.qp.post_send(requests)
        self.wait(len(requests))


# ---- the first pass: one operation of each kind, each checked ------------------------------------------------------


def show(side: Side, sock: socket.socket) -> None:
    """The side that acts."""
    data = pattern(100_000)
    side.memory[: len(data)] = data

    side.do(side.request(WROpcode.RDMA_WRITE, len(data)))
    meet(sock)  # the peer checks what we wrote, and puts something there to be read
    meet(sock)

    side.do(side.request(WROpcode.RDMA_READ, len(data), here=0))
    check(side.memory[: len(data)], data[::-1], "RDMA read")

    side.memory[:5] = b"hello"
    side.do(side.request(WROpcode.SEND_WITH_IMM, 5, imm_data=GREETING))
    meet(sock)

    side.do(side.request(WROpcode.ATOMIC_FETCH_AND_ADD, 8, 0, WORD, compare_add=2))
    side.do(side.request(WROpcode.ATOMIC_CMP_AND_SWP, 8, 8, WORD, compare_add=42, swap=7))
    check(side.memory[:16], struct.pack("=QQ", 40, 42), "the values that the atomic operations returned")
    meet(sock)


def watch(side: Side, sock: socket.socket) -> None:
    """The side whose memory is written, read and counted in."""
    data = pattern(100_000)
    meet(sock)
    check(side.memory[HALF : HALF + len(data)], data, "RDMA write")
    side.memory[HALF : HALF + len(data)] = data[::-1]
    side.memory[WORD : WORD + 8] = struct.pack("=Q", 40)
    side.post_receives(1)
    meet(sock)

    (wc,) = side.wait()
    check(side.memory[HALF : HALF + wc.byte_len], b"hello", "send")
    check(struct.pack("!I", wc.imm_data), struct.pack("!I", GREETING), "immediate data")
    meet(sock)

    meet(sock)
    check(side.memory[WORD : WORD + 8], struct.pack("=Q", 7), "the word after the atomic operations")


# ---- the second pass: many in a row --------------------------------------------------------------------------------


def clocked(name: str, length: int, count: int, batch: Callable[[], object]) -> None:
    """Times `count` operations, DEPTH of which make a batch, and prints a row of the table."""
    batch()  # the first one finds cold caches and unmapped pages
    start = time.perf_counter()
    for _ in range(count // DEPTH):
        batch()
    each = (time.perf_counter() - start) / count
    print(f"{name:<17} {length:>8} B {count:>6} {each * 1e6:>10.1f} {length / each / 1e6:>10.1f}", flush=True)


def sizes(quick: bool) -> list[tuple[int, int]]:
    """Message lengths, and how many of each to move: a multiple of DEPTH."""
    times = 1 if quick else 4
    return [(8, 8 * times * DEPTH), (4096, 8 * times * DEPTH), (65536, 2 * times * DEPTH), (HALF, times * DEPTH)]


def send_batch(side: Side, request: SendWR) -> None:
    """Sends DEPTH messages; the peer answers with an empty one when it has room for the next."""
    side.post_receives(1, 0)
    side.qp.post_send([request] * DEPTH)
    side.wait(DEPTH + 1)


def measure(side: Side, sock: socket.socket, quick: bool) -> None:
    side.memory[:HALF] = pattern(HALF)
    print(f"\n{DEPTH} in flight at a time\n{'operation':<17} {'bytes':>10} {'count':>6} {'us each':>10} {'MB/s':>10}")
    for name, opcode in (("RDMA write", WROpcode.RDMA_WRITE), ("RDMA read", WROpcode.RDMA_READ)):
        for length, count in sizes(quick):
            request = side.request(opcode, length)
            clocked(name, length, count, partial(side.do, *[request] * DEPTH))
        check(side.memory[:HALF], pattern(HALF), f"what {name} moved")

    for length, count in sizes(quick):
        meet(sock)
        clocked("send", length, count, partial(send_batch, side, side.request(WROpcode.SEND, length)))

    meet(sock)
    for name, opcode in (
        ("fetch and add", WROpcode.ATOMIC_FETCH_AND_ADD),
        ("compare and swap", WROpcode.ATOMIC_CMP_AND_SWP),
    ):
        request = side.request(opcode, 8, 0, WORD, compare_add=1)  # adds 1; finds no 1 to swap
        clocked(name, 8, 8 * DEPTH, partial(side.do, *[request] * DEPTH))
    meet(sock)


def attend(side: Side, sock: socket.socket, quick: bool) -> None:
    """The peer's part of the measurement: writes and reads need nothing of it, messages need receives."""
    answer = side.request(WROpcode.SEND, 0)
    for length, count in sizes(quick):
        side.post_receives(DEPTH, length)
        meet(sock)
        batches = 1 + count // DEPTH
        for i in range(batches):
            side.wait(DEPTH)
            check(side.memory[HALF : HALF + length], pattern(length), "the messages")
            if i < batches - 1:
                side.post_receives(DEPTH, length)
            side.do(answer)

    side.memory[WORD : WORD + 8] = bytes(8)
    meet(sock)
    meet(sock)
    (count,) = struct.unpack("=Q", side.memory[WORD : WORD + 8])
    check(struct.pack("=Q", count), struct.pack("=Q", 9 * DEPTH), "the number of additions")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--gid-index", type=whole(0, 255), default=-1, help="default: the one that reaches farthest")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    args = parser.parse_args()
    side = Side(args.device, args.gid_index)
    if not args.peer_of:
        port = side.port_attr
        network = "RoCE" if port.link_layer == 2 else "InfiniBand"
        print(f"device {side.ctx.name}, reliable connection over {network}, MTU {128 << port.active_mtu}, "
              f"GID {side.gid_index}: {side.ctx.query_gid(PORT, side.gid_index)}", flush=True)  # fmt: skip
    args.device = side.ctx.name  # the peer's too

    words = ["--gid-index", str(side.gid_index), *(["--quick"] if args.quick else [])]
    with peer_of(__file__, args, *words) as (sock, acting):
        side.join(sock)
        if acting:
            show(side, sock)
            print("write, read, send with immediate, fetch and add, compare and swap: all data right", flush=True)
            measure(side, sock, args.quick)
        else:
            watch(side, sock)
            attend(side, sock, args.quick)
    side.close()
    if acting:
        print("\nall data right")


if __name__ == "__main__":
    run(main)
