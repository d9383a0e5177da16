# SPDX-License-Identifier: BSD-3-Clause
"""One lane of traffic: ``lanes.py KIND SEED`` runs rounds until its input ends, and says "round" after each good one,
"trouble" after each that failed as verbs may fail, and "wrong: ..." when something was not as it must be.

A round moves random bytes and compares what a good completion promised. After trouble everything is closed and made
anew. At the end nothing may be left: no descriptor, no object of the host, and no memory that grows.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import multiprocessing
import os
import random
import resource
import select
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

from softrdma import faults

SIZE = 1 << 16
LIMIT = 15.0  # seconds until a completion has to be there, come what may
QKEY = 0x1EE7
DEADLY = 0, 1, 8, 14  # CQ_ERR, QP_FATAL, DEVICE_FATAL, SRQ_ERR


class Wrong(Exception):
    """Something that no fault excuses."""


class Trouble(Exception):
    """A completion with an error: faults may cause it."""


def say(word: str) -> None:
    os.write(1, f"{word}\n".encode())


def pattern(seed: int, length: int) -> bytes:
    return random.Random(seed).randbytes(length)


class Memory:
    def __init__(self) -> None:
        self.bytes = bytearray(SIZE)
        self.addr = ctypes.addressof(ctypes.c_char.from_buffer(self.bytes))


def wait(cq: Any, count: int, limit: float = LIMIT) -> list[Any]:
    """Completions, good ones; after a bad one, Trouble. None at all within the limit is wrong."""
    found: list[Any] = []
    deadline = time.monotonic() + limit
    look = time.monotonic() + 0.05
    while len(found) < count:
        found += cq.poll(count - len(found))
        if any(not wc.is_success for wc in found):
            raise Trouble
        if len(found) < count:
            now = time.monotonic()
            if now > deadline:
                raise TimeoutError
            if now > look:  # a queue that is dead tells by an event alone
                look = now + 0.05
                event = cq.context.get_async_event(timeout=0)
                if event is not None and event.event_type in DEADLY:
                    raise Trouble
            time.sleep(0.0002)
    return found


def device(module: Any, prefix: str, index: int = 0) -> Any:
    """The NIC, waiting for one that was pulled out."""
    deadline = time.monotonic() + LIMIT
    while True:
        found = [d for d in module.get_device_list() if d.name.startswith(prefix)]
        if len(found) > index:
            return found[index]
        if time.monotonic() > deadline:
            raise Wrong(f"no NIC called {prefix} for {LIMIT} s")
        time.sleep(0.01)


class End:
    """A queue pair with all that it needs; closed whatever was made of it."""

    def __init__(self, ib: Any, prefix: str, index: int, qp_type: int, srq: bool = False) -> None:
        self.ib, self.qp_type = ib, qp_type
        self.undo = contextlib.ExitStack()
        with contextlib.ExitStack() as undo:
            self.ctx = undo.enter_context(device(ib, prefix, index).open())
            self.pd = undo.enter_context(self.ctx.alloc_pd())
            self.memory = Memory()
            access = ib.AccessFlags.LOCAL_WRITE
            if prefix == "rxe":
                access |= ib.AccessFlags.REMOTE_WRITE | ib.AccessFlags.REMOTE_READ | ib.AccessFlags.REMOTE_ATOMIC
            self.mr = undo.enter_context(self.pd.reg_mr(self.memory.addr, SIZE, access))
            self.channel = undo.enter_context(self.ctx.create_comp_channel()) if prefix == "rxe" else None
            self.send_cq = undo.enter_context(self.ctx.create_cq(64, self.channel))
            self.recv_cq = undo.enter_context(self.ctx.create_cq(64))
            self.srq = undo.enter_context(self.pd.create_srq(max_wr=64)) if srq else None
            attr = ib.QPInitAttr(
                self.send_cq, self.recv_cq, qp_type=qp_type, srq=self.srq, max_send_wr=32, max_recv_wr=32,
                sq_sig_all=True,
            )
            self.qp = undo.enter_context(self.pd.create_qp(attr))
            self.undo = undo.pop_all()

    def close(self) -> None:
        """A call that was made to fail is made again."""
        stack = self.undo
        for _ in range(100):
            try:
                stack.close()
                return
            except OSError:
                for name in ("qp", "srq", "recv_cq", "send_cq", "channel", "mr", "pd", "ctx"):
                    thing = getattr(self, name, None)
                    try:
                        if thing is not None:
                            thing.close()
                    except OSError:
                        break
                else:
                    return
        raise Wrong("cannot be closed")

    def info(self) -> Any:
        gid = self.ctx.query_gid(1, 1)
        if not any(gid.raw):
            raise Trouble  # taken away just now
        return self.ib.local_qp_info(self.qp, self.ctx.query_port(1), gid, port=1)

    def connect(self, peer: Any) -> None:
        f = self.ib.AccessFlags
        if self.qp_type == 2:
            self.ib.connect_rc(
                self.qp, peer, port=1, sgid_index=1, access=f.REMOTE_WRITE | f.REMOTE_READ | f.REMOTE_ATOMIC,
                timeout=8, retry_cnt=6, rnr_retry=6,
            )
        else:
            self.qp.to_init(1, f.REMOTE_WRITE)
            self.qp.to_rtr(peer, 1)
            self.qp.to_rts(0)

    def rdma(self, opcode: int, length: int, at: int, addr: int, rkey: int, **more: Any) -> Any:
        """A request on our bytes from `at` on."""
        sge = self.mr.sge(length, at)
        return self.ib.SendWR(1, [sge], opcode=opcode, remote_addr=addr, rkey=rkey, **more)

    def drain_events(self) -> None:
        while self.ctx.get_async_event(timeout=0) is not None:
            pass


def connected(qp_type: int, srq: bool = False) -> Callable[[random.Random], Iterator[None]]:
    """A lane between two queue pairs of this process, on two NICs."""

    def lane(rng: random.Random) -> Iterator[None]:
        import ibverbs as ib

        a = b = None
        try:
            a, b = End(ib, "rxe", 0, qp_type), End(ib, "rxe", 1, qp_type, srq)
            a.connect(b.info())
            b.connect(a.info())
            for _ in range(rng.randrange(20, 200)):
                for end in (a, b):
                    end.drain_events()
                one_round(ib, rng, a, b)
                yield
        finally:
            for end in (a, b):
                if end is not None:
                    end.close()

    return lane


def one_round(ib: Any, rng: random.Random, a: End, b: End) -> None:
    op = rng.choice(("write", "send", "batch")) if a.qp_type != 2 else rng.choice(
        ("write", "read", "send", "imm", "atomic", "batch", "sleep")
    )
    length, src, dst = rng.randrange(1, 8192), rng.randrange(0, 8192), rng.randrange(0, 8192)
    data = rng.randbytes(length)
    reliable = a.qp_type == 2
    if op == "read":
        b.memory.bytes[dst : dst + length] = data
        a.qp.post_send(a.rdma(ib.WROpcode.RDMA_READ, length, src, b.mr.addr + dst, b.mr.rkey))
        wait(a.send_cq, 1)
        check(a.memory.bytes[src : src + length], data, op)
        return
    if op == "atomic":
        value = rng.getrandbits(32)
        at = 16384
        ctypes.c_uint64.from_buffer(b.memory.bytes, at).value = value
        a.qp.post_send(a.rdma(ib.WROpcode.ATOMIC_FETCH_AND_ADD, 8, at, b.mr.addr + at, b.mr.rkey, compare_add=5))
        wait(a.send_cq, 1)
        old, new = (ctypes.c_uint64.from_buffer(m.memory.bytes, at).value for m in (a, b))
        if (old, new) != (value, value + 5):
            raise Wrong(f"fetch and add: {old} {new}, should be {value} {value + 5}")
        return
    a.memory.bytes[src : src + length] = data
    if op in ("write", "sleep"):
        b.memory.bytes[dst : dst + length] = bytes(length)
        if op == "sleep":
            a.send_cq.req_notify()
        a.qp.post_send(a.rdma(ib.WROpcode.RDMA_WRITE, length, src, b.mr.addr + dst, b.mr.rkey))
        if op == "sleep" and a.channel.get_cq_event(timeout=LIMIT) is None:
            raise TimeoutError
        wait(a.send_cq, 1)
        if reliable:
            check(b.memory.bytes[dst : dst + length], data, op)
        return
    count = 8 if op == "batch" else 1
    step = 2048 if op == "batch" else 8192
    length = min(length, step)
    for i in range(count):
        (b.srq or b.qp).post_recv(ib.RecvWR(100 + i, [b.mr.sge(step, 32768 + i * step)]))
    opcode = ib.WROpcode.SEND_WITH_IMM if op == "imm" else ib.WROpcode.SEND
    a.qp.post_send([ib.SendWR(i, [a.mr.sge(length, src)], opcode=opcode, imm_data=77) for i in range(count)])
    wait(a.send_cq, count)
    if not reliable:
        try:
            wait(b.recv_cq, count, 0.05)
        except TimeoutError:
            raise Trouble from None  # which receives are left nobody knows: begin anew
        return
    for i, wc in enumerate(wait(b.recv_cq, count)):
        if wc.byte_len != length or (op == "imm" and wc.imm_data != 77):
            raise Wrong(f"{op}: {wc}")
        if not b.srq and wc.wr_id != 100 + i:
            raise Wrong(f"{op}: receive {wc.wr_id} is number {i}")
        check(b.memory.bytes[32768 + i * step : 32768 + i * step + length], data[:length], op)


def check(got: bytes, want: bytes, what: str) -> None:
    if bytes(got) != bytes(want):
        at = next(i for i, (x, y) in enumerate(zip(got, want)) if x != y)
        raise Wrong(f"{what}: byte {at} of {len(want)} differs")


def datagrams(prefix: str, gid_index: int) -> Callable[[random.Random], Iterator[None]]:
    """A lane of datagrams: each that arrives has to be one that was sent, whole, though it may come twice or never."""

    def lane(rng: random.Random) -> Iterator[None]:
        import ibverbs as ib

        a = b = None
        undo = contextlib.ExitStack()
        try:
            a, b = End(ib, prefix, 0, 4), End(ib, prefix, 1, 4)
            for end in (a, b):
                end.qp.to_init(1, qkey=QKEY)
                end.qp.to_rtr(None, 0)
                end.qp.to_rts(0)
            gid = b.ctx.query_gid(1, gid_index)
            if not any(gid.raw):
                raise Trouble  # taken away just now
            ah = undo.enter_context(a.pd.create_ah(ib.AHAttr(dgid=gid, sgid_index=gid_index, port_num=1)))
            posted = 0
            for number in range(rng.randrange(20, 200)):
                for end in (a, b):
                    end.drain_events()
                while posted < 16:
                    slot = posted
                    b.qp.post_recv(ib.RecvWR(slot, [b.mr.sge(2048, 2048 * slot)]))
                    posted += 1
                length = rng.randrange(8, 1024)
                a.memory.bytes[:length] = number.to_bytes(8, "little") + pattern(number, length - 8)
                a.qp.post_send(
                    ib.SendWR(number, [a.mr.sge(length, 0)], opcode=ib.WROpcode.SEND, ah=ah,
                              remote_qpn=b.qp.qp_num, remote_qkey=QKEY)
                )
                wait(a.send_cq, 1)
                for wc in b.recv_cq.poll(16):
                    if not wc.is_success:
                        raise Trouble
                    at = 2048 * wc.wr_id + 40
                    body = bytes(b.memory.bytes[at : at + wc.byte_len - 40])
                    check(body[8:], pattern(int.from_bytes(body[:8], "little"), len(body) - 8), "datagram")
                    b.qp.post_recv(ib.RecvWR(wc.wr_id, [b.mr.sge(2048, 2048 * wc.wr_id)]))
                yield
        finally:
            for _ in range(100):
                with contextlib.suppress(OSError):
                    undo.close()
                    break
            for end in (a, b):
                if end is not None:
                    end.close()

    return lane


def echo(pipe: Connection) -> None:
    """The far end of the lane between two processes: makes an end when asked, and reads its memory out."""
    import ibverbs as ib

    end = None
    while True:
        if not pipe.poll(LIMIT * 4):
            os._exit(3)
        try:
            word, value = pipe.recv()
        except EOFError:
            break
        try:
            if word == "connect":
                if end is not None:
                    end.close()
                end = None
                end = End(ib, "rxe", 1, 2)
                end.connect(value)
                answer = end.info(), end.mr.addr, end.mr.rkey
            elif word == "read":
                end.drain_events()  # type: ignore[union-attr]
                answer = bytes(end.memory.bytes[value[0] : value[1]])  # type: ignore[union-attr]
            else:
                break
        except (OSError, Trouble) as error:
            answer = error
        pipe.send(answer)
    if end is not None:
        end.close()
    with contextlib.suppress(OSError):  # whoever asked may have been killed
        pipe.send(leftover())
    pipe.close()


def ask(pipe: Connection, *message: Any) -> Any:
    pipe.send(message)
    if not pipe.poll(LIMIT):
        raise Wrong("the other process does not answer")
    answer = pipe.recv()
    if isinstance(answer, (OSError, Trouble)):
        raise Trouble
    return answer


class Duo:
    """A lane from this process to another. Whoever is killed by a fault takes both along."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.child = context.Process(target=echo, args=(theirs,), daemon=True)
        self.child.start()
        theirs.close()

    def __call__(self, rng: random.Random) -> Iterator[None]:
        import ibverbs as ib

        a = None
        try:
            a = End(ib, "rxe", 0, 2)
            info, addr, rkey = ask(self.pipe, "connect", a.info())
            a.connect(info)
            for _ in range(rng.randrange(20, 200)):
                a.drain_events()
                length, src, dst = rng.randrange(1, 8192), rng.randrange(0, 8192), rng.randrange(0, 8192)
                data = rng.randbytes(length)
                a.memory.bytes[src : src + length] = data
                a.qp.post_send(a.rdma(ib.WROpcode.RDMA_WRITE, length, src, addr + dst, rkey))
                wait(a.send_cq, 1)
                check(ask(self.pipe, "read", (dst, dst + length)), data, "write to another process")
                a.qp.post_send(a.rdma(ib.WROpcode.RDMA_READ, length, 16384, addr + dst, rkey))
                wait(a.send_cq, 1)
                check(a.memory.bytes[16384 : 16384 + length], data, "read from another process")
                yield
        except (EOFError, BrokenPipeError, ConnectionResetError):
            os.kill(os.getpid(), 9)  # as the other was
        finally:
            if a is not None:
                a.close()

    def close(self) -> None:
        self.pipe.send(("end", None))
        left = self.pipe.recv() if self.pipe.poll(LIMIT) else "nothing said"
        self.child.join(LIMIT)
        if left:
            raise Wrong(f"left in the other process: {left}")


class SrdEnd:
    """A queue pair of EFA with all that it needs."""

    def __init__(self, efa: Any, index: int) -> None:
        self.efa = efa
        self.undo = contextlib.ExitStack()
        with contextlib.ExitStack() as undo:
            self.ctx = undo.enter_context(device(efa, "efa", index).open())
            self.pd = undo.enter_context(self.ctx.alloc_pd())
            self.memory = Memory()
            access = efa.AccessFlags.LOCAL_WRITE | efa.AccessFlags.REMOTE_READ | efa.AccessFlags.REMOTE_WRITE
            self.mr = undo.enter_context(self.pd.reg_mr(self.memory.addr, SIZE, access))
            self.send_cq = undo.enter_context(self.ctx.create_cq_ex(64))
            self.recv_cq = undo.enter_context(self.ctx.create_cq_ex(64))
            attr = efa.QPInitAttr(self.send_cq, self.recv_cq, max_send_wr=32, max_recv_wr=32, sq_sig_all=True)
            self.qp = undo.enter_context(self.pd.create_qp(attr))
            self.qp.prepare(QKEY, rnr_retry=7)
            self.writes = efa.capabilities(self.ctx).rdma_write
            self.undo = undo.pop_all()

    def info(self) -> Any:
        info = self.efa.local_endpoint_info(self.qp, QKEY)
        if not any(info.gid):
            raise Trouble  # taken away just now
        return info

    def meet(self, other: SrdEnd) -> None:
        self.peer = other.info().peer(self.pd)

    def close(self) -> None:
        for _ in range(100):
            try:
                for name in ("peer", "qp", "recv_cq", "send_cq", "mr", "pd", "ctx"):
                    thing = getattr(self, name, None)
                    if thing is not None:
                        thing.close()
                return
            except OSError:
                continue
        raise Wrong("cannot be closed")

    def drain_events(self) -> None:
        while self.ctx.get_async_event(timeout=0) is not None:
            pass


def reliable_datagrams(rng: random.Random) -> Iterator[None]:
    """A lane over SRD, through the efa package: in any order, but each message once and whole."""
    try:
        import efa
    except ImportError:
        sys.exit(77)
    a = b = None
    try:
        a, b = SrdEnd(efa, 0), SrdEnd(efa, 1)
        a.meet(b)
        b.meet(a)
        for _ in range(rng.randrange(20, 200)):
            for end in (a, b):
                end.drain_events()
            srd_round(efa, rng, a, b)
            yield
    finally:
        for end in (a, b):
            if end is not None:
                end.close()


def srd_round(efa: Any, rng: random.Random, a: SrdEnd, b: SrdEnd) -> None:
    op = rng.choice(("write", "read", "send"))
    if op == "write" and not a.writes:
        op = "read"
    length, src, dst = rng.randrange(1, 8192), rng.randrange(0, 8192), rng.randrange(0, 8192)
    data = rng.randbytes(length)
    if op != "send":
        there, at, here, mine = (b.memory.bytes, dst, a.memory.bytes, src)
        if op == "write":
            here[mine : mine + length] = data
        else:
            there[at : at + length] = data
        opcode = efa.WROpcode.RDMA_WRITE if op == "write" else efa.WROpcode.RDMA_READ
        where = {"dest": a.peer, "remote_addr": b.mr.addr + dst, "rkey": b.mr.rkey}
        a.qp.post_send(efa.SendWR(1, [a.mr.sge(length, src)], opcode=opcode, **where))
        wait(a.send_cq, 1)
        check(there[at : at + length] if op == "write" else here[mine : mine + length], data, f"srd {op}")
        return
    count, step = 8, 2048
    for i in range(count):
        b.qp.post_recv(efa.RecvWR(100 + i, [b.mr.sge(step, 32768 + i * step)]))
        a.memory.bytes[32768 + i * step : 32768 + i * step + 16] = i.to_bytes(8, "little") + data[:8].ljust(8)
    a.qp.post_send(
        [efa.SendWR(i, [a.mr.sge(16, 32768 + i * step)], opcode=efa.WROpcode.SEND, dest=a.peer) for i in range(count)]
    )
    wait(a.send_cq, count)
    arrived = []
    for wc in wait(b.recv_cq, count):
        at = 32768 + (wc.wr_id - 100) * step
        body = bytes(b.memory.bytes[at : at + 16])
        arrived.append(int.from_bytes(body[:8], "little"))
        check(body[8:], data[:8].ljust(8), "srd send")
    if sorted(arrived) != list(range(count)):
        raise Wrong(f"srd send: messages {arrived} arrived")


def leftover() -> dict[str, int]:
    """Objects of the host that nobody closed."""
    gc.collect()
    return {name: n for name, n in faults.here().objects().items() if n}


def open_files() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def main() -> int:
    kind, seed = sys.argv[1], int(sys.argv[2])
    faulthandler.enable()
    rng = random.Random(seed)
    duo = Duo() if kind == "duo" else None
    lanes: dict[str, Callable[[random.Random], Iterator[None]]] = {
        "rc": connected(2), "uc": connected(3), "ud": datagrams("rxe", 1), "srq": connected(2, srq=True),
        "efa-ud": datagrams("efa", 0), "srd": reliable_datagrams,
    }
    lane = duo or lanes[kind]
    files: set[str] | None = None
    memory = 0
    turns = 0
    while not select.select([0], [], [], 0)[0]:
        before = time.monotonic()
        try:
            for _ in lane(rng):
                say("round")
                if select.select([0], [], [], 0)[0]:
                    break
        except (Trouble, OSError) as error:  # TimeoutError too: the event of a dead queue may have been read
            if isinstance(error, TimeoutError) and time.monotonic() - before < LIMIT / 2:
                raise
            say("trouble")
            if os.environ.get("SOFTRDMA_SOAK_TROUBLE"):
                traceback.print_exc()
            time.sleep(0.01)
        turns += 1
        gc.collect()
        if turns == 20:
            files, memory = open_files(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if duo:
        duo.close()
    left = leftover()
    if left:
        raise Wrong(f"left: {left}")
    if files is not None and len(open_files() - files) > 2:
        raise Wrong(f"descriptors left: {sorted(open_files() - files)}")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory if memory else 0
    if grown > 64 << 10:
        raise Wrong(f"{grown >> 10} MiB of memory more than after 20 turns")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Wrong as error:
        say(f"wrong: {error}")
        sys.exit(1)
