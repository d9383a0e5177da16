# SPDX-License-Identifier: BSD-3-Clause
"""Two processes move data between their memories by RDMA, check it, and say how fast it went.

    python examples/demo.py [--device NAME] [--gid-index N] [--quick]

It starts its own peer. The two connect by TCP once, to tell each other where their queue pair and their buffer are;
all that follows goes through the RDMA device: a write, a read, a message with immediate data, both atomic operations,
then the same again in a row with a clock running. The exit status is 0 only if every byte was right.
"""

from __future__ import annotations

import argparse
import mmap
import socket
import struct
import subprocess
import sys
import time
from functools import partial
from typing import Any, Callable

import ibverbs as ib
from ibverbs import AccessFlags, QPInfo, SendFlags, SendWR, WROpcode

BUFFER = 2 << 20  # the first half is data of our own, the second is for the peer to write to
HALF = BUFFER // 2
DEPTH = 16  # requests in flight
WORD = HALF - 8  # where the number for the atomic operations lies
GREETING = 0xC0FFEE
PORT = 1
ACCESS = AccessFlags.LOCAL_WRITE | AccessFlags.REMOTE_WRITE | AccessFlags.REMOTE_READ | AccessFlags.REMOTE_ATOMIC


def pattern(length: int) -> bytes:
    """Bytes that both sides know and that look the same nowhere else in the buffer."""
    return (bytes(range(1, 252)) * (length // 251 + 1))[:length]


def check(got: bytes, want: bytes, what: str) -> None:
    if bytes(got) != bytes(want):
        sys.exit(f"{what}: the data differ")


class Side:
    """One process's half: device, queue pair, completion queue and a registered buffer."""

    def __init__(self, device: str, gid_index: int) -> None:
        self.ctx = open_device(device)
        self.port_attr = self.ctx.query_port(PORT)
        self.gid_index = choose_gid(self.ctx, self.port_attr) if gid_index < 0 else gid_index
        self.pd = self.ctx.alloc_pd()
        self.channel = self.ctx.create_comp_channel()
        self.cq = self.ctx.create_cq(4 * DEPTH, self.channel)
        init = ib.QPInitAttr(self.cq, self.cq, max_send_wr=DEPTH, max_recv_wr=DEPTH)
        self.qp = self.pd.create_qp(init)

        # Anonymous pages of our own. reg_tensor takes anything that exports memory: NumPy arrays, torch tensors.
        self.memory = mmap.mmap(-1, BUFFER)
        self.mr = ib.reg_tensor(self.pd, self.memory, ACCESS)

    def connect(self, sock: socket.socket) -> None:
        """Swap 28 bytes of QPInfo and the buffer's address and key with the peer, then connect to its queue pair."""
        gid = self.ctx.query_gid(PORT, self.gid_index)
        mine = ib.local_qp_info(self.qp, self.port_attr, gid, port=PORT)
        sock.sendall(mine.to_bytes() + struct.pack("!QI", self.mr.addr, self.mr.rkey))
        theirs = receive_exactly(sock, 28 + 12)
        remote = QPInfo.from_bytes(theirs[:28])
        self.remote_addr, self.rkey = struct.unpack("!QI", theirs[28:])
        # Reads in flight. The default is 1: each would wait for the one before it.
        reads = min(DEPTH, self.ctx.query_device().max_qp_rd_atom)
        ib.connect_rc(
            self.qp, remote, port=PORT, sgid_index=self.gid_index, access=ACCESS,
            max_rd_atomic=reads, max_dest_rd_atomic=reads,
        )  # fmt: skip

    def post_receives(self, count: int, length: int = HALF, offset: int = HALF) -> None:
        self.qp.post_recv(ib.RecvWR(i, [self.mr.sge(length, offset)]) for i in range(count))

    def request(self, opcode: int, length: int, here: int = 0, there: int = HALF, **fields: int) -> SendWR:
        """A signaled request on our bytes at `here` and, where the opcode has one, the peer's at `there`."""
        sges = [self.mr.sge(length, here)] if length else []
        return SendWR(
            0, sges, opcode, SendFlags.SIGNALED, remote_addr=self.remote_addr + there, rkey=self.rkey, **fields
        )

    def wait(self, count: int = 1) -> list[Any]:
        """The next `count` completions: poll for a moment, then sleep until the device has news."""
        done: list[Any] = []
        for _ in range(20):
            done += self.cq.poll(count - len(done))
            if len(done) == count:
                break
        while len(done) < count:
            self.cq.req_notify()
            found = self.cq.poll(count - len(done))  # what came before we asked gives no event
            if not found:
                if self.channel.get_cq_event(timeout=30) is None:
                    sys.exit("nothing completed for 30 seconds")
                self.cq.ack_events()
            done += found
        for wc in done:
            wc.raise_for_status()
        return done

    def do(self, *requests: SendWR) -> None:
        self.qp.post_send(requests)
        self.wait(len(requests))

    def close(self) -> None:
        """Children before parents. Being collected does the same, in the right order."""
        for thing in (self.mr, self.qp, self.cq, self.channel, self.pd, self.ctx):
            thing.close()


def open_device(name: str) -> Any:
    """The device of that name, or the first whose port is up. iWARP devices connect by RDMA-CM only: not these."""
    devices = ib.get_device_list()
    for device in devices:
        if name and device.name != name:
            continue
        ctx = device.open()
        if name or (ctx.query_port(PORT).state == ib.PortState.ACTIVE and not device.name.startswith("siw")):
            return ctx
        ctx.close()
    found = ", ".join(d.name for d in devices) or "none at all"
    sys.exit(f"no RDMA device {name or 'with an active port'}; there is {found}")


def choose_gid(ctx: Any, port_attr: Any) -> int:
    """On Ethernet the first IPv4 address of the port, which every peer on the network can reach; else entry 0."""
    if port_attr.link_layer == 2:
        for index in range(min(port_attr.gid_tbl_len, 16)):
            if ctx.query_gid(PORT, index).raw[:12] == bytes(10) + b"\xff\xff":
                return index
    return 0


def receive_exactly(sock: socket.socket, length: int) -> bytes:
    data = sock.recv(length, socket.MSG_WAITALL)
    if len(data) != length:
        sys.exit("the peer hung up")
    return data


def meet(sock: socket.socket) -> None:
    """Both sides get here before either goes on."""
    sock.sendall(b".")
    receive_exactly(sock, 1)


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


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--device", default="", help="default: the first whose port is active")
    parser.add_argument("--gid-index", type=int, default=-1, help="default: the first IPv4 address on Ethernet, else 0")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--peer-of", type=int, metavar="PORT", help=argparse.SUPPRESS)
    args = parser.parse_args()
    side = Side(args.device, args.gid_index)

    if args.peer_of:
        with socket.create_connection(("127.0.0.1", args.peer_of)) as sock:
            side.connect(sock)
            meet(sock)
            watch(side, sock)
            attend(side, sock, args.quick)
        side.close()
        return 0

    port = side.port_attr
    network = "RoCE" if port.link_layer == 2 else "InfiniBand"
    print(f"device {side.ctx.name}, reliable connection over {network}, MTU {128 << port.active_mtu}, "
          f"GID {side.gid_index}: {side.ctx.query_gid(PORT, side.gid_index)}", flush=True)  # fmt: skip
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        words = ["--device", side.ctx.name, "--gid-index", str(side.gid_index), *(["--quick"] if args.quick else [])]
        peer = subprocess.Popen([sys.executable, __file__, *words, "--peer-of", str(server.getsockname()[1])])
        sock, _ = server.accept()
    try:
        with sock:
            side.connect(sock)
            meet(sock)
            show(side, sock)
            print("write, read, send with immediate, fetch and add, compare and swap: all data right", flush=True)
            measure(side, sock, args.quick)
    finally:
        status = peer.wait(timeout=60)
    side.close()
    if status:
        sys.exit(f"the peer failed with status {status}")
    print("\nall data right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
