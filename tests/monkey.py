# SPDX-License-Identifier: BSD-3-Clause
"""A caller that takes any attribute or method of any object that it has, arguments that fit, nearly fit or do not fit,
keeps what comes back and goes on with that. Its dice decide, so that whoever gives them can have it again.
"""

from __future__ import annotations

import contextlib
import copy
import errno
import gc
import inspect
import operator
import pickle
import random
import socket
from collections.abc import Iterator
from typing import Any, Callable
from unittest import mock

from packages import is_efa, open_device
from stub_control import NO_ERRNO, Stub

#: What a caller may have to expect, a library that is not there included.
PROMISED = (TypeError, ValueError, OverflowError, AttributeError, OSError, RuntimeError, MemoryError, LookupError,
            ImportError)  # fmt: skip
NUMBERS = (0, 1, 2, 3, 5, 7, 8, 16, 64, 255, 256, 4096, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 1,
           2**64, -1, -(2**31), -(2**63), 10**30)  # fmt: skip
#: As many pointers are more memory than an allocator gives.
MORE_THAN_FITS = 2**48


@contextlib.contextmanager
def no_name_service() -> Iterator[None]:
    """Hosts are numbers only in here: a name that the dice threw would be asked of servers, and one that never answers
    holds its caller for many seconds."""
    real = socket.getaddrinfo

    def numbers_only(*args: Any, **keywords: Any) -> Any:
        keywords["flags"] = keywords.get("flags", 0) | socket.AI_NUMERICHOST
        return real(*args, **keywords)

    with mock.patch.object(socket, "getaddrinfo", numbers_only):
        yield


class Hostile:
    """Answers each question with something else, or with an exception."""

    def __init__(self, dice: random.Random, pool: list[Any]) -> None:
        self._dice, self._pool = dice, pool

    def _answer(self) -> Any:
        roll = self._dice.randrange(6)
        if roll == 0:
            raise KeyError("hostile")
        if roll == 1 and self._pool:
            close = getattr(self._dice.choice(self._pool), "close", None)
            if callable(close):
                close()
        if roll == 2:
            gc.collect(0)
        return self._dice.choice(NUMBERS) if roll < 5 else self._dice.choice(self._pool or [None])

    def __index__(self) -> Any:
        return self._answer()

    def __bool__(self) -> Any:
        return self._answer()

    def __len__(self) -> Any:
        """Small, or more than there is: the interpreter fills a tuple of that length before it asks for items."""
        answer = self._answer()
        return answer % 4096 if isinstance(answer, int) and 0 <= answer < MORE_THAN_FITS else answer

    def __iter__(self) -> Iterator[Any]:
        for _ in range(self._dice.randrange(4)):
            yield self._answer()

    def __eq__(self, other: object) -> Any:
        return self._answer()

    def __hash__(self) -> Any:
        answer = self._answer()
        if not isinstance(answer, int):  # CPython (3.9 to 3.13) keeps a reference to it for good
            raise TypeError("unhashable")
        return answer

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # also its own, which a copy does not have before it is filled
            raise AttributeError(name)
        return self._answer()


#: Objects that fit a parameter of this name, by their class; None is there too where a parameter may be left out.
FITTING = {
    "pd": "PD", "context": "Context", "ctx": "Context", "channel": "CompChannel", "cq": "CQ CQEx",
    "send_cq": "CQ CQEx", "recv_cq": "CQ CQEx", "dest": "Peer", "srq": "SRQ", "qp": "QP", "ah": "AH", "mr": "MR",
    "target": "MR", "port_attr": "PortAttr",
    "remote": "QPInfo", "init_attr": "QPInitAttr", "dgid": "Gid", "gid": "Gid", "ah_attr": "AHAttr", "attr": "AHAttr",
    "ev": "AsyncEvent", "event": "AsyncEvent", "wc": "WC", "cap": "QPCap",
}  # fmt: skip
#: Parameters that are numbers of any size below this many bits.
WIDE = {"addr": 40, "length": 20, "offset": 16, "remote_addr": 64, "compare_add": 64, "swap": 64, "iova": 64,
        "wr_id": 64}  # fmt: skip
def to_bytes(target: Any) -> bytes:
    """As bytes() does, but for numbers: of 2**31 it makes so many zeros."""
    return b"" if isinstance(target, int) else bytes(target)


#: What can be done with any object without a name of its own.
OPERATIONS: tuple[Callable[..., Any], ...] = (
    operator.or_, operator.and_, operator.xor, operator.eq, operator.ne, operator.lt, operator.invert, operator.not_,
    hash, repr, str, to_bytes, bool, copy.copy, copy.deepcopy, pickle.dumps, list, len, operator.index,
    operator.contains,
)  # fmt: skip
UNARY = {operator.invert, operator.not_, hash, repr, str, to_bytes, bool, copy.copy, copy.deepcopy, pickle.dumps, list,
         len, operator.index}  # fmt: skip


class Monkey:
    """One such caller, and what it has in its hands."""

    def __init__(self, ib: Any, dice: random.Random, stub: Stub) -> None:
        self.ib, self.dice, self.stub = ib, dice, stub
        self.pool: list[Any] = []
        self.calls = self.successes = 0
        own = [v for v in vars(ib).values() if getattr(v, "__module__", "").startswith(ib.__name__) and callable(v)]
        self.makers = [v for v in own if not hasattr(v, "__members__")]
        self.flags = [m for c in vars(ib).values() if hasattr(c, "__members__") for m in c.__members__.values()]
        self.parameters: dict[str, list[inspect.Parameter]] = {}

    def refill(self) -> None:
        """The ordinary way in, so that it does not stay outside."""
        ib, signaled = self.ib, self.ib.SendFlags.SIGNALED
        if is_efa(ib):
            self.refill_efa()
            return
        devices = ib.get_device_list()
        ctx = devices[0].open()
        pd = ctx.alloc_pd()
        channel = ctx.create_comp_channel()
        cq = ctx.create_cq(64, channel)
        attr = ib.QPInitAttr(cq, cq, max_send_wr=300, max_recv_wr=300, max_send_sge=4, max_inline_data=32)
        ud = ib.QPInitAttr(cq, cq, qp_type=ib.QPType.UD)
        mr = pd.reg_mr(0x10000, 65536, ib.AccessFlags.LOCAL_WRITE)
        to = ib.AHAttr(dgid=bytes(range(16)))
        ah = pd.create_ah(to)
        qps = [pd.create_qp(attr), pd.create_qp(attr), pd.create_qp(ud)]
        for qp in qps[1:]:
            qp.modify(1, qp_state=3)
        wr = ib.SendWR(1, [mr.sge(8)], ib.WROpcode.SEND, signaled)
        datagram = ib.SendWR(2, [mr.sge(4)], 2, 2, ah=ah, remote_qpn=1)
        self.stub.raise_event(ctx, 1, qps[0])
        wc = ib.WC(wr_id=5, status=12)
        port, gid = ctx.query_port(1), ctx.query_gid(1, 0)
        self.pool += [devices[0], ctx, pd, channel, cq, attr, ud, mr, to, ah, *qps, wr, datagram, mr.sge()]
        self.pool += [pd.create_srq(), ib.RecvWR(3, [mr.sge(8)]), ctx.get_async_event(timeout=5), wc]
        self.pool += [ctx.query_device(), port, gid]
        self.pool += [ib.CompletionError(wc), ib.local_qp_info(qps[0], port, gid, port=1), qps[1].query()[1]]

    def refill_efa(self) -> None:
        ib, signaled = self.ib, self.ib.SendFlags.SIGNALED
        ctx = open_device(ib)
        pd = ctx.alloc_pd()
        channel = ctx.create_comp_channel()
        cq, cq_ex = ctx.create_cq(64, channel), ctx.create_cq_ex(64, channel, sgid=True, unsolicited=True)
        attr = ib.QPInitAttr(cq_ex, cq, max_send_sge=2, max_inline_data=32)
        ud = ib.QPInitAttr(cq, cq_ex, qp_type=ib.QPType.UD)
        mr = pd.reg_mr(0x10000, 65536, ib.AccessFlags.LOCAL_WRITE)
        ah = pd.create_ah(bytes(range(16)))
        srd = pd.create_qp(attr).prepare(1)
        info = ib.local_endpoint_info(srd, 1)
        peer = info.peer(pd)
        self.pool += [ctx, pd, channel, cq, cq_ex, attr, ud, mr, ah, srd, pd.create_qp(ud).prepare(1), peer, info]
        self.pool += [ib.SendWR(1, [mr.sge(8)], 2, signaled, ah=ah), ib.SendWR(2, [mr.sge(4)], 2, 2, dest=peer)]
        self.pool += [*ib.write_wrs(mr, peer, 0, 0, chunk=30000), ib.RecvWR(3, [mr.sge(8)]), mr.sge()]
        self.pool += [ctx.query_device(), ctx.query_efa_device(), ctx.query_port(), ctx.query_gid()]
        self.pool += [ib.WC(wr_id=5, status=12)]

    def value(self, depth: int = 0) -> Any:
        """Anything at all."""
        dice = self.dice
        roll = dice.randrange(12)
        if roll < 4 and self.pool:
            return dice.choice(self.pool)
        if roll < 6:
            return dice.choice(NUMBERS)
        if roll == 6:
            return dice.choice(self.flags)
        if roll == 7 and depth < 2:
            items = [self.value(depth + 1) for _ in range(dice.randrange(5))]
            return (items, tuple(items), iter(items))[dice.randrange(3)]
        if roll == 8:
            odd = [None, True, False, 1.5, float("nan"), "", "rxe0", b"", bytes(16), bytearray(16), {}, object]
            return dice.choice(odd)
        if roll == 9:
            return Hostile(dice, self.pool)
        return dice.randrange(1 << dice.randrange(1, 66))

    def one(self, *kinds: str) -> Any:
        """Something of one of these classes, where there is one."""
        return self.dice.choice([x for x in self.pool if type(x).__name__ in kinds] or [None])

    def fitting(self, parameter: str, method: str) -> Any:
        """What a parameter of this name takes, mostly."""
        dice = self.dice
        if parameter in FITTING:
            return self.one(*FITTING[parameter].split())
        if parameter == "wrs":
            kind = "SendWR" if "send" in method else "RecvWR"
            return [self.one(kind) for _ in range(dice.choice((1, 2, 3)))] * dice.choice((1, 1, 2, 40, 90))
        if parameter == "sg_list":
            return [self.one("SGE") for _ in range(dice.randrange(4))]
        if parameter == "num_entries":
            return dice.choice((1, 3, 64, 300))
        if parameter in ("state", "qp_state"):
            return dice.randrange(7)
        return dice.randrange(1 << WIDE[parameter]) if parameter in WIDE else dice.randrange(8)

    def parameters_of(self, what: Any, text: str) -> list[inspect.Parameter]:
        if text not in self.parameters:
            try:
                self.parameters[text] = list(inspect.signature(what).parameters.values())
            except (TypeError, ValueError):     # constructors show none on 3.9
                self.parameters[text] = []
        return self.parameters[text]

    def arguments(self, what: Any, text: str) -> tuple[list[Any], dict[str, Any]]:
        """Arguments that all fit but for some, or any at all. What would wait gets next to no time for it."""
        dice, parameters = self.dice, self.parameters_of(what, text)
        method = text.rpartition(".")[2]
        keywords: dict[str, Any] = {}
        if any(p.name == "timeout" for p in parameters):
            keywords["timeout"] = dice.choice((0, 0, 0.0005))
        if any(p.name == "spin" for p in parameters):
            keywords["spin"] = dice.choice((None, 0, 0.0002))
        if any(p.name == "chunk" for p in parameters):      # a great region in pieces of a byte is a list without end
            keywords.update(chunk=dice.choice((0, 1000, 30000, 2**30)), length=dice.choice((0, 1, 1 << 16, 70000)))
        if not parameters or dice.randrange(4) == 0:
            positional = [] if keywords else [self.value() for _ in range(dice.choice((0, 1, 1, 1, 2, 2, 3, 4, 7)))]
            if dice.randrange(3) == 0:
                keywords[dice.choice(["length", "num_entries", "access", "qp_state", "ah", "x"])] = self.value()
            return positional, keywords
        positional = []
        for p in parameters:
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) or p.name in keywords:
                continue
            if p.default is not p.empty and dice.randrange(3):
                continue
            value = self.value() if dice.randrange(12) == 0 else self.fitting(p.name, method)
            if p.kind is p.POSITIONAL_ONLY or not keywords and p.kind is not p.KEYWORD_ONLY and dice.randrange(2):
                if len(positional) == parameters.index(p):
                    positional.append(value)
                    continue
            keywords[p.name] = value
        if method == "modify" and dice.randrange(2):
            keywords["qp_state"] = dice.randrange(7)
        return positional, keywords

    def step(self) -> str:
        """One act; returns what it was."""
        dice = self.dice
        if len(self.pool) > 80:
            dice.shuffle(self.pool)
            del self.pool[40:]
        if len(self.pool) < 8 or dice.randrange(150) == 0:
            self.refill()
        roll = dice.randrange(40)
        if roll < 4:
            maker: Any = dice.choice(self.makers)
            return self.call(maker, maker.__name__)
        if roll < 6:
            return self.operate()
        if roll == 6:
            return self.meddle()
        target = dice.choice(self.pool)
        if dice.randrange(3) == 0:
            target = self.one("QP", "CQ", "SRQ", "PD") or target
        names = [n for n in dir(target) if not n.startswith("__") or n in ("__reduce__", "__enter__", "__exit__")]
        if hasattr(target, "_value_"):      # to_bytes() fills gigabytes, what _add_value_alias_() got stays for good
            names = ["name", "value"]
        if not names:
            return "nothing"
        name = dice.choice(names)
        what = f"{type(target).__name__}.{name}"
        if roll < 11:
            return self.set(target, name)
        attribute = getattr(target, name)
        if callable(attribute) and (name not in ("close", "__exit__") or roll < 16):
            return self.call(attribute, what)
        self.keep(attribute)
        return what

    def set(self, target: Any, name: str) -> str:
        # not on members of enums, which would keep it for good
        if type(target).__module__.startswith(self.ib.__name__) and not hasattr(target, "_value_"):
            setattr(target, name, self.value() if self.dice.randrange(2) else self.fitting(name, ""))
        return f"{type(target).__name__}.{name} = ..."

    def operate(self) -> str:
        operation = self.dice.choice(OPERATIONS)
        target = self.dice.choice(self.flags if self.dice.randrange(2) else self.pool)
        self.keep(operation(target) if operation in UNARY else operation(target, self.value()))
        return f"{operation.__name__}({type(target).__name__}, ...)"

    def meddle(self) -> str:
        """The library does something of its own accord: an event, a completion, a failure of one of its next calls."""
        dice = self.dice
        roll = dice.randrange(4)
        cq, ctx, qp = self.one("CQ"), self.one("Context"), self.one("QP")
        if roll == 0 and cq is not None and not cq.closed:
            self.stub.push_wc(cq, wr_id=dice.randrange(9), status=dice.randrange(24), opcode=dice.randrange(256),
                              qp_num=dice.randrange(400), wc_flags=dice.randrange(8))  # fmt: skip
        elif roll == 1 and cq is not None and not cq.closed and cq.channel is not None and not cq.channel.closed:
            self.stub.push_cq_event(cq)
        elif roll == 2 and ctx is not None and not ctx.closed:
            about = qp if qp is not None and not qp.closed and qp.pd.context is ctx else None
            self.stub.raise_event(ctx, dice.choice((8, 9, 11) if about is None else (1, 2, 3)), about, 1)
        elif roll == 3:
            self.stub.fail_any(dice.randrange(1, 6), dice.choice((errno.ENOMEM, errno.EIO, errno.EINVAL, NO_ERRNO)))
        return "the library's own doing"

    def call(self, what: Any, text: str) -> str:
        if not getattr(what, "__module__", None) and not getattr(what, "__self__", None):
            return text
        positional, keywords = self.arguments(what, text)
        self.keep(what(*positional, **keywords))
        return text

    def keep(self, result: Any) -> None:
        if inspect.iscoroutine(result):
            result.close()
        elif type(result).__module__.startswith(self.ib.__name__):
            self.pool.append(result)
            repr(result)
        elif isinstance(result, (list, tuple)):
            for item in result[:3]:
                self.keep(item)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.calls += 1
            try:
                self.step()
                self.successes += 1
            except PROMISED as error:
                error.__traceback__ = None
                if self.dice.randrange(50) == 0:
                    self.pool.append(error)
