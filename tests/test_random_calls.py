# SPDX-License-Identifier: BSD-3-Clause
"""Whatever is called with whatever, in whatever order, ends in a result or in an exception of the kinds that are promised.

A fuzzer of the Python face: it takes any attribute or method of any object that it has, arguments that fit, nearly fit
or do not fit at all, keeps what comes back and goes on with that. RDMA_TEST_FUZZ_SECONDS lengthens it; a failure names
the seed, which RDMA_TEST_FUZZ_SEED repeats.
"""

from __future__ import annotations

import gc
import inspect
import os
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest
from packages import is_efa, open_device
from stub_control import Stub

pytestmark = [pytest.mark.needs("stub"), pytest.mark.filterwarnings("ignore::DeprecationWarning")]

SECONDS = float(os.environ.get("RDMA_TEST_FUZZ_SECONDS", "3"))
SEED = os.environ.get("RDMA_TEST_FUZZ_SEED")
#: What a caller may have to expect; RangeError is both the second and the third. ImportError: no librdmacm.
PROMISED = (
    TypeError, ValueError, OverflowError, AttributeError, OSError, RuntimeError, MemoryError, KeyError, ImportError
)
#: These wait for what nobody sends, unless they are given a time.
WAITS = {"get_cq_event", "get_async_event", "wait"}
NUMBERS = (0, 1, 2, 3, 5, 7, 8, 16, 64, 255, 256, 4096, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 1,
           2**64, -1, -(2**31), -(2**63), 10**30)  # fmt: skip


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
        return self._answer()

    def __iter__(self) -> Iterator[Any]:
        for _ in range(self._dice.randrange(4)):
            yield self._answer()

    def __eq__(self, other: object) -> Any:
        return self._answer()

    def __hash__(self) -> Any:
        return self._answer()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._answer()


class Monkey:
    def __init__(self, ib: Any, dice: random.Random) -> None:
        self.ib, self.dice = ib, dice
        self.pool: list[Any] = []
        self.calls = self.successes = 0
        self.classes = [value for value in vars(ib).values() if isinstance(value, type)]
        self.classes = [c for c in self.classes if c.__module__.startswith(ib.__name__) and not hasattr(c, "__members__")]
        self.flags = [m for c in vars(ib).values() if hasattr(c, "__members__") for m in c.__members__.values()]

    def refill(self) -> None:
        """The ordinary way in, so that it does not stay outside."""
        ib, signaled = self.ib, self.ib.SendFlags.SIGNALED
        if is_efa(ib):
            self.refill_efa()
            return
        ctx = open_device(ib)
        pd = ctx.alloc_pd()
        channel = ctx.create_comp_channel()
        cq = ctx.create_cq(64, channel)
        attr = ib.QPInitAttr(cq, cq, max_send_sge=4, max_inline_data=32)
        ud = ib.QPInitAttr(cq, cq, qp_type=ib.QPType.UD)
        mr = pd.reg_mr(0x10000, 65536, ib.AccessFlags.LOCAL_WRITE)
        ah = pd.create_ah(ib.AHAttr(dgid=bytes(range(16))))
        wr = ib.SendWR(1, [mr.sge(8)], ib.WROpcode.SEND, signaled)
        self.pool += [ctx, pd, channel, cq, attr, ud, mr, ah, wr, ib.SendWR(2, [mr.sge(4)], 2, 2, ah=ah, remote_qpn=1)]
        self.pool += [pd.create_qp(attr), pd.create_qp(ud), pd.create_srq(), ib.RecvWR(3, [mr.sge(8)]), mr.sge()]
        for qp in self.pool[-5:-3]:
            qp.modify(1, qp_state=3)
        self.pool += [ctx.query_device(), ctx.query_port(1), ctx.query_gid(1, 0), ib.WC(wr_id=5, status=12)]

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
            return dice.choice([None, True, False, 1.5, float("nan"), "", "rxe0", b"", bytes(16), bytearray(16), {}, object])
        if roll == 9:
            return Hostile(dice, self.pool)
        return dice.randrange(1 << dice.randrange(1, 66))

    def one(self, *kinds: str) -> Any:
        """Something of one of these classes, where there is one."""
        return self.dice.choice([x for x in self.pool if type(x).__name__ in kinds] or [None])

    def plausible(self, name: str) -> list[Any]:
        """Arguments that mostly fit, for what would else be refused at the door nearly always."""
        dice = self.dice
        count = dice.choice((1, 1, 2, 7, 40, 200))
        if name == "post_send":
            return [[self.one("SendWR")] * count]
        if name == "post_recv":
            return [[self.one("RecvWR") for _ in range(count)]]
        if name == "poll":
            return [count]
        if name == "modify":
            return [1]
        if name in ("create_qp", "create_ah"):
            return [self.one("QPInitAttr" if name == "create_qp" else "AHAttr")]
        if name == "reg_mr":
            return [dice.randrange(1 << 40), dice.randrange(1 << 20), 1]
        if name in ("SGE", "sge"):
            return [dice.randrange(1 << 16), dice.randrange(1 << 16)]
        if name in ("SendWR", "RecvWR"):
            return [dice.randrange(100), [self.one("SGE") for _ in range(dice.randrange(4))]]
        if name == "create_cq":
            return [count, self.one("CompChannel")]
        if name in ("to_init", "to_rts", "ack_events", "req_notify", "query_port"):
            return [1]
        if name == "to_rtr":
            return [None, 0]
        return [self.value()]

    def brief(self, name: str) -> tuple[list[Any], dict[str, Any]]:
        """A wait that ends."""
        if name != "wait":
            return [], {"timeout": 0}
        return [self.value()], {"timeout": self.dice.choice((0, 0.0005)), "spin": self.dice.choice((None, 0, 0.0002))}

    def arguments(self, name: str) -> tuple[list[Any], dict[str, Any]]:
        if self.dice.randrange(2):
            fitting = self.plausible(name)
            if name in WAITS:
                return self.brief(name)
            if self.dice.randrange(4) == 0:
                fitting[self.dice.randrange(len(fitting))] = self.value()
            return fitting, {"qp_state": self.dice.randrange(7)} if name == "modify" else {}
        positional = [self.value() for _ in range(self.dice.choice((0, 1, 1, 1, 2, 2, 3, 4, 7)))]
        if name in WAITS:
            return self.brief(name)
        keywords: dict[str, Any] = {}
        if self.dice.randrange(3) == 0:
            for word in self.dice.sample(["length", "offset", "num_entries", "access", "state", "qp_state", "ah", "x"], 2):
                keywords[word] = self.value()
        return positional, keywords

    def step(self) -> str:
        """One act; returns what it was."""
        if len(self.pool) > 60:
            self.dice.shuffle(self.pool)
            del self.pool[30:]
        if len(self.pool) < 8 or self.dice.randrange(150) == 0:
            self.refill()
        if self.dice.randrange(8) == 0:
            target: Any = self.dice.choice(self.classes)
            return self.call(target, target.__name__, target.__name__)
        target = self.dice.choice(self.pool)
        if self.dice.randrange(3) == 0:
            target = self.one("QP", "CQ", "SRQ", "PD") or target
        names = [n for n in dir(target) if not n.startswith("__") or n in ("__reduce__", "__repr__", "__eq__", "__hash__")]
        if not names:
            return "nothing"
        name = self.dice.choice(names)
        roll = self.dice.randrange(10)
        if roll == 0:
            return self.set(target, name)
        what = f"{type(target).__name__}.{name}"
        attribute = getattr(target, name)
        if callable(attribute) and name != "close" or roll == 1 and callable(attribute):
            return self.call(attribute, what, name)
        self.keep(attribute)
        return what

    def set(self, target: Any, name: str) -> str:
        # not on members of enums, which would keep it for good
        if type(target).__module__.startswith(self.ib.__name__) and not hasattr(target, "_value_"):
            setattr(target, name, self.value())
        return f"{type(target).__name__}.{name} = ..."

    def call(self, what: Any, text: str, name: str = "") -> str:
        if not getattr(what, "__module__", None) and not getattr(what, "__self__", None):
            return text
        positional, keywords = self.arguments(name)
        self.keep(what(*positional, **keywords))
        return text

    def keep(self, result: Any) -> None:
        if type(result).__module__.startswith(self.ib.__name__):
            self.pool.append(result)
            repr(result)
        elif inspect.iscoroutine(result):
            result.close()
        elif isinstance(result, list):
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


def test_any_call_with_anything_ends_as_promised(ib: Any, stub: Stub) -> None:
    end = time.monotonic() + SECONDS
    rounds = successes = 0
    stub.set_lenient()  # any state may follow any other
    while rounds == 0 or time.monotonic() < end:
        seed = SEED or str(random.SystemRandom().getrandbits(32))
        monkey = Monkey(ib, random.Random(seed))
        try:
            monkey.run(2000)
        except BaseException as error:
            raise AssertionError(f"RDMA_TEST_FUZZ_SEED={seed}: {error!r}") from error
        successes += monkey.successes
        rounds += 1
        assert stub.violations == 0, f"RDMA_TEST_FUZZ_SEED={seed}"
        monkey.pool.clear()
        del monkey
        gc.collect()
        left = stub.live_objects()
        assert left == {}, f"RDMA_TEST_FUZZ_SEED={seed}: {left}"
        if SEED:
            break
    assert successes > 200 * rounds
