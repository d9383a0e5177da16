# SPDX-License-Identifier: BSD-3-Clause
"""A small key-value store: GETs are RDMA reads, which cost the server nothing; PUTs are messages to it.

    python examples/kv_store.py                # a server and a load generator on this machine
    python examples/kv_store.py serve --host 10.0.0.1 --port 7700
    python examples/kv_store.py load --host 10.0.0.1 --port 7700 --seconds 10 --depth 32

The server keeps its values in one registered region of equal slots; a key's slot follows from its hash. When it accepts
a client it tells where the region is, in the private data. A client reads a slot and looks at what it got: the key
says whether it is there at all, the checksum whether the server was writing it meanwhile (then it reads again).
"""

from __future__ import annotations

import argparse
import contextlib
import mmap
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from typing import Any

from command import run, whole

import ibverbs as ib

WHERE = struct.Struct("!QIIH")  # address, rkey, slots, bytes of a value: what the server tells a client
SLOT = struct.Struct("!32sHI")  # key, length of the value, checksum of both; then the value
PUT = struct.Struct("!32sH")  # key and length; then the value
SIGNALED = ib.SendFlags.SIGNALED
READABLE = ib.AccessFlags.LOCAL_WRITE | ib.AccessFlags.REMOTE_READ


def slot_of(key: bytes, slots: int) -> int:
    return zlib.crc32(key) % slots


def pack_slot(key: bytes, value: bytes) -> bytes:
    return SLOT.pack(key, len(value), zlib.crc32(key + value)) + value


def unpack_slot(data: bytes, key: bytes) -> bytes | None:
    """The value of a key in a slot that was read; None if another key, or nothing, is there. ValueError: torn."""
    found, length, checksum = SLOT.unpack_from(data)
    if found != key:
        return None
    value = data[SLOT.size : SLOT.size + length]
    if zlib.crc32(found + value) != checksum:
        raise ValueError("the slot was being written")
    return value


# ---- the server ----------------------------------------------------------------------------------------------------


class Store:
    """The slots, in one region for each device that clients come through."""

    def __init__(self, slots: int, value_size: int) -> None:
        self.slots, self.value_size = slots, value_size
        self.slot_size = SLOT.size + value_size
        self.memory = mmap.mmap(-1, slots * self.slot_size)
        self.regions: dict[str, tuple[Any, Any]] = {}

    def region(self, ctx: Any) -> tuple[Any, Any]:
        if ctx.name not in self.regions:
            pd = ctx.alloc_pd()
            self.regions[ctx.name] = pd, ib.reg_tensor(pd, self.memory, READABLE)
        return self.regions[ctx.name]

    def put(self, key: bytes, value: bytes) -> None:
        if len(value) > self.value_size:
            raise ValueError(f"a value has at most {self.value_size} bytes, not {len(value)}")
        at = slot_of(key, self.slots) * self.slot_size
        self.memory[at : at + SLOT.size + len(value)] = pack_slot(key, value)


def serve_client(store: Store, request: ib.CMID) -> None:
    """Take PUTs until the client goes."""
    pd, region = store.region(request.context)
    message = bytearray(PUT.size + store.value_size)
    with contextlib.ExitStack() as undo:
        channel = undo.enter_context(request.context.create_comp_channel())
        cq = undo.enter_context(request.context.create_cq(16, channel))
        mr = undo.enter_context(ib.reg_tensor(pd, message, ib.AccessFlags.LOCAL_WRITE))
        qp = undo.enter_context(request.create_qp(pd, ib.QPInitAttr(cq, cq, max_send_wr=4, max_recv_wr=4)))
        undo.enter_context(request)
        receive, done = ib.RecvWR(1, [mr.sge()]), ib.SendWR(2, opcode=ib.WROpcode.SEND, send_flags=SIGNALED)
        qp.post_recv(receive)  # before the client can send
        request.accept(WHERE.pack(region.addr, region.rkey, store.slots, store.value_size))
        while True:
            for wc in cq.wait(1):
                if not wc.is_success:
                    return  # the client went
                if wc.wr_id == 1:
                    key, length = PUT.unpack_from(message)
                    store.put(key, bytes(message[PUT.size : PUT.size + length]))
                    qp.post_recv(receive)
                    qp.post_send(done)


def serve(store: Store, listener: ib.CMListener) -> None:
    def work(request: ib.CMID) -> None:
        try:
            with contextlib.closing(request):
                watch_end(request)
                serve_client(store, request)
        except ib.VerbsError as error:
            print(f"a client: {error}", file=sys.stderr)

    for request in listener:
        threading.Thread(target=work, args=(request,), daemon=True).start()


def watch_end(cmid: ib.CMID) -> None:
    """A peer that goes ends the queue pair here, and so the wait for its next word."""

    def watch() -> None:
        with contextlib.suppress(ib.VerbsError):  # closed meanwhile
            for event in cmid.events():
                if event.event in (ib.CMEventType.DISCONNECTED, ib.CMEventType.DEVICE_REMOVAL):
                    cmid.disconnect()

    threading.Thread(target=watch, daemon=True).start()


# ---- a client ------------------------------------------------------------------------------------------------------


class Client:
    """A connection to a server, with room for `depth` GETs under way."""

    def __init__(self, host: str, port: int, depth: int = 16) -> None:
        with contextlib.ExitStack() as undo:
            self.cmid = undo.enter_context(ib.CMID.resolve(host, port))
            ctx = self.cmid.context
            self.pd = undo.enter_context(ctx.alloc_pd())
            self.channel = undo.enter_context(ctx.create_comp_channel())
            self.cq = undo.enter_context(ctx.create_cq(2 * depth + 2, self.channel))
            init = ib.QPInitAttr(self.cq, self.cq, max_send_wr=depth + 1, max_recv_wr=2)
            self.qp = undo.enter_context(self.cmid.create_qp(self.pd, init))
            reads = min(depth, ctx.query_device().max_qp_init_rd_atom)
            where = self.cmid.connect(initiator_depth=reads, timeout=10)
            self.addr, self.rkey, self.slots, self.value_size = WHERE.unpack_from(where)
            self.slot_size, self.depth = SLOT.size + self.value_size, depth
            self.buffer = bytearray(depth * self.slot_size + PUT.size + self.value_size)
            self.mr = undo.enter_context(ib.reg_tensor(self.pd, self.buffer, ib.AccessFlags.LOCAL_WRITE))
            watch_end(self.cmid)
            self._undo = undo.pop_all()

    def read(self, place: int, key: bytes) -> None:
        """Start a GET into one of the places of the buffer."""
        sge = self.mr.sge(self.slot_size, place * self.slot_size)
        remote = self.addr + slot_of(key, self.slots) * self.slot_size
        self.qp.post_send(ib.SendWR(place, [sge], ib.WROpcode.RDMA_READ, SIGNALED, remote, self.rkey))

    def value(self, place: int, key: bytes) -> bytes | None:
        return unpack_slot(bytes(self.buffer[place * self.slot_size : (place + 1) * self.slot_size]), key)

    def get(self, key: bytes) -> bytes | None:
        while True:
            self.read(0, key)
            for wc in self.cq.wait(1):
                wc.raise_for_status()
            with contextlib.suppress(ValueError):
                return self.value(0, key)

    def put(self, key: bytes, value: bytes) -> None:
        """Returns when the server has it."""
        at = self.depth * self.slot_size
        message = PUT.pack(key, len(value)) + value
        self.buffer[at : at + len(message)] = message
        self.qp.post_recv(ib.RecvWR(1 << 32))
        self.qp.post_send(ib.SendWR(1 << 33, [self.mr.sge(len(message), at)], ib.WROpcode.SEND, SIGNALED))
        left = 2
        while left:
            for wc in self.cq.wait(left):
                wc.raise_for_status()
                left -= 1

    def close(self) -> None:
        self._undo.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def keys(count: int) -> Iterator[bytes]:
    for i in range(count):
        yield f"key {i}".encode().ljust(32, b"\0")


def load(host: str, port: int, seconds: float, depth: int, count: int) -> None:
    """Fill the store, then read it with `depth` GETs under way, and say how fast that was."""
    with Client(host, port, depth) as client:
        size = client.value_size
        values = {key: zlib.crc32(key).to_bytes(4, "big") * (size // 4) for key in keys(count)}
        here: dict[int, bytes] = {}  # which key a slot has in the end: two may have the same one
        started = time.perf_counter()
        for key, value in values.items():
            client.put(key, value)
            here[slot_of(key, client.slots)] = key
        rate = len(values) / (time.perf_counter() - started)
        print(f"{rate:,.0f} PUTs a second, one at a time, of {size} bytes", flush=True)
        if client.get(b"no such key".ljust(32, b"\0")) is not None:
            sys.exit("a key that nobody put is there")

        wanted = list(here.values())
        asked = [wanted[i % len(wanted)] for i in range(depth)]
        for place, key in enumerate(asked):
            client.read(place, key)
        done = again = 0
        started = time.perf_counter()
        while time.perf_counter() - started < seconds:
            for wc in client.cq.wait(depth):
                wc.raise_for_status()
                try:
                    if client.value(wc.wr_id, asked[wc.wr_id]) != values[asked[wc.wr_id]]:
                        sys.exit(f"wrong data for {asked[wc.wr_id]!r}")
                    done += 1
                except ValueError:
                    again += 1
                asked[wc.wr_id] = wanted[done % len(wanted)]
                client.read(wc.wr_id, asked[wc.wr_id])
        rate = done / (time.perf_counter() - started)
        print(f"{rate:,.0f} GETs a second, {depth} under way, all data right; {again} read again")


# ---- the command line ----------------------------------------------------------------------------------------------


def address_of_a_device() -> str:
    """An address of this machine that RDMA-CM knows."""
    for device in ib.get_device_list():
        with device.open() as ctx:
            for entry in ctx.query_gid_table(1):
                raw = bytes(entry.gid)
                if raw[:12] == bytes(10) + b"\xff\xff":
                    return ".".join(map(str, raw[12:]))
    sys.exit("no RDMA device here has an IPv4 address; name one with --host")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("role", nargs="?", choices=["serve", "load", "both"], default="both")
    parser.add_argument("--host", default="", help="the server's address (default: the first device's)")
    parser.add_argument("--port", type=whole(0, 65535), default=0, help="the server's port (default: a free one)")
    parser.add_argument("--slots", type=whole(1, 1 << 24), default=4096, help="how many values there is room for")
    parser.add_argument("--value-size", type=whole(4, 65535), default=1024, help="the largest, in bytes")
    parser.add_argument("--keys", type=whole(1), default=500, help="how many the load generator puts (default: 500)")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long it reads (default: 2)")
    parser.add_argument("--depth", type=whole(1, 4096), default=16, help="GETs under way (default: 16)")
    args = parser.parse_args()
    if args.role == "load" and not args.port:
        parser.error("load needs the --port that the server printed")
    host = args.host or address_of_a_device()

    if args.role == "load":
        load(host, args.port, args.seconds, args.depth, args.keys)
        return
    store = Store(args.slots, args.value_size)
    with ib.CMListener(host, args.port) as listener:
        print(f"serving {args.slots} slots of {args.value_size} bytes on {host} port {listener.port}", flush=True)
        if args.role == "both":
            command = [sys.executable, __file__, "load", "--host", host, "--port", str(listener.port)]
            command += ["--seconds", str(args.seconds), "--depth", str(args.depth), "--keys", str(args.keys)]
            client = subprocess.Popen(command)
            threading.Thread(target=lambda: (client.wait(), listener.close()), daemon=True).start()
        serve(store, listener)
        if args.role == "both":
            sys.exit(client.wait())


if __name__ == "__main__":
    run(main)
