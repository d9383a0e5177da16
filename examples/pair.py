# SPDX-License-Identifier: BSD-3-Clause
"""What the examples share: opening a device, starting the peer process, and connecting a queue pair to the peer's.

The two processes meet by TCP once, to tell each other where their queue pair and their memory are.
"""

from __future__ import annotations

import argparse
import contextlib
import mmap
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import ibverbs as ib

PORT = 1
ACCESS = (
    ib.AccessFlags.LOCAL_WRITE | ib.AccessFlags.REMOTE_WRITE | ib.AccessFlags.REMOTE_READ | ib.AccessFlags.REMOTE_ATOMIC
)


def open_device(name: str) -> Any:
    """The device of that name, or the first whose port is up. iWARP devices connect by RDMA-CM only: not these."""
    devices = ib.get_device_list()
    for device in devices:
        if name and device.name != name:
            continue
        ctx = device.open()
        if name or (ctx.query_port(PORT).state == ib.PortState.ACTIVE and device.node_type != ib.NodeType.RNIC):
            return ctx
        ctx.close()
    found = ", ".join(d.name for d in devices) or "none at all (python -m ibverbs may say why)"
    sys.exit(f"no RDMA device {name or 'with an active port'}; there is {found}")


def receive_exactly(sock: socket.socket, length: int) -> bytes:
    data = sock.recv(length, socket.MSG_WAITALL)
    if len(data) != length:
        sys.exit("the peer hung up")
    return data


def meet(sock: socket.socket) -> None:
    """Both sides get here before either goes on."""
    sock.sendall(b".")
    receive_exactly(sock, 1)


class End:
    """One end of a reliable connection: device, queue pair, completion queue and a registered buffer."""

    def __init__(self, device: str, length: int, depth: int, gid_index: int = -1) -> None:
        self.ctx = open_device(device)
        self.port_attr = self.ctx.query_port(PORT)
        self.gid_index = ib.select_gid(self.ctx, PORT).gid_index if gid_index < 0 else gid_index
        self.pd = self.ctx.alloc_pd()
        self.channel = self.ctx.create_comp_channel()
        self.cq = self.ctx.create_cq(4 * depth, self.channel)
        self.qp = self.pd.create_qp(ib.QPInitAttr(self.cq, self.cq, max_send_wr=depth, max_recv_wr=depth))
        # Anonymous pages of our own. reg_tensor takes anything that exports memory: NumPy arrays, torch tensors.
        self.memory = mmap.mmap(-1, length)
        self.mr = ib.reg_tensor(self.pd, self.memory, ACCESS)

    def connect(self, sock: socket.socket, **options: Any) -> None:
        """Swap 28 bytes of QPInfo and the buffer's address and key with the peer, then connect to its queue pair.

        ``recv`` among the options are receives to post on the way, before the peer can send anything.
        """
        gid = self.ctx.query_gid(PORT, self.gid_index)
        mine = ib.local_qp_info(self.qp, self.port_attr, gid, port=PORT)
        sock.sendall(mine.to_bytes() + struct.pack("!QI", self.mr.addr, self.mr.rkey))
        theirs = receive_exactly(sock, 28 + 12)
        remote = ib.QPInfo.from_bytes(theirs[:28])
        self.remote_addr, self.rkey = struct.unpack("!QI", theirs[28:])
        options.setdefault("retry_cnt", 6)  # a peer that died is found so; Soft-RoCE takes 7 for "for ever"
        ib.connect_rc(self.qp, remote, port=PORT, sgid_index=self.gid_index, access=ACCESS, **options)

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

    def close(self) -> None:
        """Children before parents. Being collected does the same, in the right order."""
        for thing in (self.mr, self.qp, self.cq, self.channel, self.pd, self.ctx):
            thing.close()


def arguments(doc: str | None) -> argparse.ArgumentParser:
    """A parser with what every example takes."""
    parser = argparse.ArgumentParser(description=(doc or "").split("\n\n")[0])
    parser.add_argument("--device", default="", help="default: the first whose port is active")
    parser.add_argument("--peer-of", type=int, metavar="PORT", help=argparse.SUPPRESS)
    return parser


@contextlib.contextmanager
def peer_of(script: str, args: argparse.Namespace, *words: str) -> Iterator[tuple[socket.socket, bool]]:
    """A socket to the other process, and whether this is the one that was started by hand.

    That one starts the other: the same script with the same device and these words.
    """
    if args.peer_of:
        with socket.create_connection(("127.0.0.1", args.peer_of)) as sock:
            yield sock, False
        return
    with socket.create_server(("127.0.0.1", 0)) as server:
        own = [script, "--device", args.device, *words, "--peer-of", str(server.getsockname()[1])]
        peer = subprocess.Popen([sys.executable, *own])
        try:
            with accept(server, peer) as sock:
                yield sock, True
            peer.wait(timeout=60)
        finally:
            end(peer)
    if peer.returncode:
        sys.exit(f"the peer failed with status {peer.returncode}")


def accept(server: socket.socket, peer: subprocess.Popen[bytes]) -> socket.socket:
    """The peer's connection; no waiting for one that has failed already."""
    server.settimeout(0.2)
    while peer.poll() is None:
        with contextlib.suppress(socket.timeout):
            sock = server.accept()[0]
            sock.settimeout(None)
            return sock
    sys.exit(f"the peer failed with status {peer.returncode}")


def end(peer: subprocess.Popen[bytes]) -> None:
    """Nothing is left running, whatever happened here; a moment for the peer to say why it ends itself."""
    try:
        peer.wait(timeout=2)
    except subprocess.TimeoutExpired:
        peer.kill()
        peer.wait()
