# SPDX-License-Identifier: BSD-3-Clause
"""Pushes a file into another process's memory by RDMA write, shows progress, and checks what arrived.

    python examples/push_file.py FILE [--device NAME] [--chunk BYTES]

It starts its own peer, which writes nothing but a digest. The peer's CPU has no part in the transfer: it sleeps until
the last write, which carries immediate data, wakes it. On a machine without an RDMA device:
python -m softrdma run -- python examples/push_file.py FILE
"""

from __future__ import annotations

import hashlib
import os
import struct
import sys
import time

from command import run, whole
from pair import End, arguments, peer_of, receive_exactly

import ibverbs as ib

DEPTH = 16  # writes in flight


def push(end: End, length: int, chunk: int) -> None:
    """Writes the whole buffer in chunks, DEPTH of them in flight; the last one announces that all is there."""
    starts = range(0, length, chunk)
    requests = [
        ib.SendWR(
            offset,
            [end.mr.sge(min(chunk, length - offset), offset)],
            ib.WROpcode.RDMA_WRITE_WITH_IMM if offset == starts[-1] else ib.WROpcode.RDMA_WRITE,
            ib.SendFlags.SIGNALED,
            remote_addr=end.remote_addr + offset,
            rkey=end.rkey,
            imm_data=len(starts),
        )
        for offset in starts
    ]
    begin = time.perf_counter()
    end.qp.post_send(requests[:DEPTH])
    for done in range(1, len(requests) + 1):
        end.wait()
        end.qp.post_send(requests[DEPTH + done - 1 : DEPTH + done])  # at the end there is nothing to post
        show(done, len(requests), length, begin)


def show(done: int, total: int, length: int, begin: float) -> None:
    """One line that is written over, at most a hundred times; the last one only where nobody watches."""
    if done == total or (sys.stdout.isatty() and done % max(1, total // 100) == 0):
        seconds = time.perf_counter() - begin
        rate = length * done / total / seconds / 1e6
        print(f"\r{100 * done // total:3d} %  {rate:8.1f} MB/s", end="\n" if done == total else "", flush=True)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("file", help="what to push")
    parser.add_argument("--chunk", type=whole(1, 1 << 30), default=1 << 20, help="bytes of one write (default: 1 MiB)")
    args = parser.parse_args()

    with open(args.file, "rb") as file:
        length = os.fstat(file.fileno()).st_size
    if not length:
        sys.exit(f"{args.file} is empty")
    end = End(args.device, length, DEPTH)
    with peer_of(__file__, args, args.file) as (sock, pushing):
        end.connect(sock, recv=[] if pushing else [ib.RecvWR()])  # which the last write consumes
        if pushing:
            with open(args.file, "rb") as file:
                file.readinto(end.memory)
            receive_exactly(sock, 1)  # the peer is connected
            push(end, length, args.chunk)
            (size,) = struct.unpack("!Q", receive_exactly(sock, 8))
            digest = receive_exactly(sock, 32)
            if size != length or digest != hashlib.sha256(end.memory).digest():
                sys.exit("what arrived differs from the file")
            print(f"{length} bytes of {args.file} arrived, sha256 {digest.hex()}")
        else:
            sock.sendall(b".")
            end.wait()
            sock.sendall(struct.pack("!Q", length) + hashlib.sha256(end.memory).digest())
    end.close()


if __name__ == "__main__":
    run(main)
