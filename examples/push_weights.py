# SPDX-License-Identifier: BSD-3-Clause
"""Pushes a model's weights from one process to several over SRD, shows progress, and checks what arrived.

    python examples/push_weights.py [--workers N] [--megabytes N] [--chunk BYTES] [--device NAME]

The trainer writes into the memory of every worker (RDMA write) and tells each by a message when all of it is there: SRD
delivers in any order, so the message is sent when the writes have completed. Where device or library have no RDMA
write (libefa of rdma-core 44 has none), the workers read from the trainer instead. Processes of one machine find each
other by pipes here; between instances the same bytes go over any connection. On a machine without an EFA device:
python -m softrdma run --efa -- python examples/push_weights.py
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing as mp
import os
import sys
import time
from collections import deque
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from command import run, whole

import efa

QKEY = 0x5EED
DEPTH = 64  # requests in flight
DONE = 0xD0E  # immediate data of the last message

Flags = efa.AccessFlags


class Offer(NamedTuple):
    """What one end tells the other: how to reach it, and where its memory is."""

    endpoint: bytes
    addr: int
    rkey: int


class End:
    """One device with one SRD queue pair and one registered buffer."""

    def __init__(self, device: str | None, length: int) -> None:
        devices = [d for d in efa.get_efa_device_list() if device in (None, d.name)]
        if not devices:
            sys.exit(f"no EFA device {device}" if device else "no EFA device; python -m efa may say why")
        self.ctx = devices[0].open()
        self.can_write = efa.capabilities(self.ctx).rdma_write
        self.pd = self.ctx.alloc_pd()
        self.memory = bytearray(length)
        access = Flags.LOCAL_WRITE | Flags.REMOTE_READ
        self.mr = efa.reg_tensor(self.pd, self.memory, access | Flags.REMOTE_WRITE if self.can_write else access)
        self.cq = self.ctx.create_cq(2 * DEPTH, self.ctx.create_comp_channel())
        self.qp = self.pd.create_qp(efa.QPInitAttr(self.cq, self.cq, max_send_wr=DEPTH)).prepare(QKEY, rnr_retry=7)

    def offer(self) -> Offer:
        return Offer(efa.local_endpoint_info(self.qp, QKEY).to_bytes(), self.mr.addr, self.mr.rkey)

    def peer(self, offer: Offer) -> efa.Peer:
        """A target of RDMA has to know the initiator too: both ends make one, and keep it open."""
        return efa.EndpointInfo.from_bytes(offer.endpoint).peer(self.pd)

    def run(self, requests: list[efa.SendWR], title: str) -> None:
        """Posts all requests, DEPTH in flight, in batches as completions make room, and shows how far it is."""
        waiting, total, begin = deque(requests), len(requests), time.perf_counter()
        size = sum(wr.sg_list[0].length for wr in requests)
        room = DEPTH
        for done in range(1, total + 1):
            if room:
                batch = [waiting.popleft() for _ in range(min(room, len(waiting)))]
                self.qp.post_send(batch)
                room -= len(batch)
            (wc,) = self.cq.wait(1, timeout=60) or sys.exit("nothing completed in a minute")
            wc.raise_for_status()
            room += 1
            if done == total or (sys.stdout.isatty() and done % max(1, total // 50) == 0):
                rate = size * done / total / (time.perf_counter() - begin) / 1e6
                print(f"\r{title}: {100 * done // total:3d} %  {rate:8.1f} MB/s", end="", flush=True)
        print()


def receive(pipe: Connection, whom: str) -> Any:
    """What the other process says; the end, where it says no more, or has not said all."""
    try:
        return pipe.recv()
    except (EOFError, OSError):
        sys.exit(f"{whom} is gone")


def work(number: int, pipe: Connection, device: str | None, length: int, chunk: int) -> None:
    """A worker: takes the weights in and sends back their digest."""
    end = End(device, length)
    end.qp.post_recv(efa.RecvWR(1, [end.mr.sge(8)]))
    pipe.send(end.offer())
    trainer: Offer = receive(pipe, "the trainer")
    peer = end.peer(trainer)
    pipe.send("ready")
    if not end.can_write:
        receive(pipe, "the trainer")  # one worker after the other, for the sake of what is printed
        end.run(efa.read_wrs(end.mr, peer, trainer.addr, trainer.rkey, chunk=chunk), f"worker {number} reads")
    else:
        (wc,) = end.cq.wait(1, timeout=600) or sys.exit("the trainer said nothing")
        wc.raise_for_status()
        assert wc.imm_data == DONE and wc.byte_len == 0
    pipe.send(hashlib.sha256(end.memory).digest())
    receive(pipe, "the trainer")  # the peer stays open until everybody is done


def start(*words: Any) -> None:
    """What a worker's process does."""
    run(lambda: work(*words))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=whole(1, 1000), default=3, help="how many get the weights (default: 3)")
    parser.add_argument("--megabytes", type=whole(1), default=64, help="how long they are (default: 64)")
    parser.add_argument("--chunk", type=whole(4096, 1 << 30), default=1 << 20, help="of one request (default: 1 MiB)")
    parser.add_argument("--device", help="the EFA device (default: the first)")
    args = parser.parse_args()
    length = args.megabytes << 20

    end = End(args.device, length)
    end.memory[:] = os.urandom(1 << 20) * args.megabytes
    spawn = mp.get_context("spawn")
    pipes, processes = [], []
    for number in range(args.workers):
        pipe, theirs = spawn.Pipe()
        process = spawn.Process(target=start, args=(number, theirs, args.device, length, args.chunk), daemon=True)
        process.start()
        theirs.close()  # the worker has it: when that dies, nobody does
        pipes.append(pipe)
        processes.append(process)

    offers = [receive(pipe, f"worker {number}") for number, pipe in enumerate(pipes)]
    peers = [end.peer(offer) for offer in offers]
    for pipe in pipes:
        pipe.send(end.offer())
    for number, pipe in enumerate(pipes):
        assert receive(pipe, f"worker {number}") == "ready"

    digest = hashlib.sha256(end.memory).digest()
    for number, (pipe, peer, offer) in enumerate(zip(pipes, peers, offers)):
        if end.can_write:
            end.run(efa.write_wrs(end.mr, peer, offer.addr, offer.rkey, chunk=args.chunk), f"to worker {number}")
            done = efa.SendWR(
                0, opcode=efa.WROpcode.SEND_WITH_IMM, send_flags=efa.SendFlags.SIGNALED, imm_data=DONE, dest=peer
            )
            end.qp.post_send(done)
            (wc,) = end.cq.wait(1, timeout=60) or sys.exit(f"worker {number} takes no message")
            wc.raise_for_status()
        else:
            pipe.send("read")
        if receive(pipe, f"worker {number}") != digest:
            sys.exit(f"what arrived at worker {number} differs")
    print(f"{args.megabytes} MiB arrived at {args.workers} workers, sha256 {digest.hex()[:16]}...")
    for pipe, process in zip(pipes, processes):
        pipe.send("bye")
        process.join()


if __name__ == "__main__":
    run(main)
