# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures for tests on the stub libibverbs: its controls, and a small set of objects to play with.

Every test that takes `stub` also proves, at its end, that nothing it made is left in the library.
"""

from __future__ import annotations

import contextlib
import gc
import os
import time
from collections.abc import Iterator
from typing import Any, Callable

import pytest
from hypothesis import HealthCheck, settings
from packages import RC as RC  # noqa: PLC0414 (tests find the types of queue pairs here)
from packages import SRD as SRD  # noqa: PLC0414
from packages import UC as UC  # noqa: PLC0414
from packages import UD as UD  # noqa: PLC0414
from packages import devices_of, error_of, is_efa, reliable, some_ah
from stub_control import Stub

RESET, INIT, RTR, RTS, SQD, SQE, ERR = range(7)

#: Examples of a property test on the stub. The fixtures it uses are made to serve all examples.
examples = settings(
    deadline=None,
    database=None,
    max_examples=int(os.environ.get("RDMA_TEST_EXAMPLES", "100")),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def the_stub() -> Stub | None:
    """The stub, if that is the library in use."""
    if not os.environ.get("RDMA_LIBRARY_PATH"):
        return None
    try:
        return Stub()
    except (OSError, AttributeError):
        return None


@pytest.fixture(scope="session")
def stub_library() -> Stub:
    stub = the_stub()
    if stub is None:
        pytest.skip("needs the stub libibverbs: RDMA_LIBRARY_PATH=<build>/tests/stub")
    return stub


@pytest.fixture
def stub(stub_library: Stub) -> Iterator[Stub]:
    """The stub's controls, all at rest; objects that outlive the test make it fail."""
    gc.collect()
    stub_library.reset()
    before = stub_library.live_objects()
    yield stub_library
    violations = stub_library.violations
    stub_library.reset()
    gc.collect()
    assert violations == 0, "the library was misused; its own words are on stderr"
    # Before there may have been more: what the traceback of a test that failed still held.
    assert {kind: n for kind, n in stub_library.live_objects().items() if n > before.get(kind, 0)} == {}
    assert stub_library.unacked == 0


class Rig:
    """An open device with a PD, a CQ and a registration, and more by request; closed at the end of the test.

    `Error` is the package's exception of a failed verb; `efa` says which package it is.
    """

    def __init__(self, ib: Any, stub: Stub, undo: contextlib.ExitStack) -> None:
        self.ib, self.stub, self._undo = ib, stub, undo
        self.Error, self.efa, self.reliable = error_of(ib), is_efa(ib), reliable(ib)
        self.device = devices_of(ib)[0]
        self.ctx = undo.enter_context(self.open())
        if self.efa:
            self.ctx.is_efa()  # asked of the library once
        self.pd = undo.enter_context(self.ctx.alloc_pd())
        self.cq = undo.enter_context(self.ctx.create_cq(4096))
        self.mr = undo.enter_context(self.pd.reg_mr(0x10000, 1 << 20, ib.AccessFlags.LOCAL_WRITE))
        self._ah: Any = None

    def open(self) -> Any:
        return self.device.open()

    def keep(self, handle: Any) -> Any:
        return self._undo.enter_context(handle)

    def make_qp(self, qp_type: int | None = None, state: int = RTS, **options: Any) -> Any:
        """A QP nobody closes, in any state: on the stub no peer is needed. Reliable unless a type is given."""
        for name in ("send_cq", "recv_cq"):
            options.setdefault(name, self.cq)
        options.setdefault("max_send_sge", 8)
        options.setdefault("max_recv_sge", 8)
        options.setdefault("max_send_wr", 1024)
        options.setdefault("max_recv_wr", 1024)
        qp_type = self.reliable if qp_type is None else qp_type
        qp = self.pd.create_qp(self.ib.QPInitAttr(qp_type=qp_type, **options))
        if state != RESET:
            self.set_state(qp, state)
        return qp

    def qp(self, qp_type: int | None = None, state: int = RTS, **options: Any) -> Any:
        return self.keep(self.make_qp(qp_type, state, **options))

    def set_state(self, qp: Any, state: int) -> None:
        self.stub.set_lenient(True)
        qp.modify(self.ib.QPAttrMask.STATE, qp_state=state)
        self.stub.set_lenient(False)

    def ah(self) -> Any:
        return self.keep(self.make_ah())

    def make_ah(self) -> Any:
        return some_ah(self.ib, self.pd)

    @property
    def post_verb(self) -> str:
        """The call of the library in which a post of sends ends, as the stub counts it."""
        return "wr_complete" if self.efa else "post_send"

    @property
    def verb_of_qp(self) -> str:
        """The call that makes a reliable queue pair."""
        return "efadv_create_qp_ex" if self.efa else "create_qp"

    def to(self) -> dict[str, Any]:
        """Where a reliable send goes: by connection, or named by the request."""
        if not self.efa:
            return {}
        if self._ah is None:
            self._ah = self.ah()
        return {"ah": self._ah, "remote_qpn": 7, "remote_qkey": 8}

    def wr(self, wr_id: int = 1, **fields: Any) -> Any:
        if self.efa and not {"ah", "dest"} & set(fields):
            fields = {**self.to(), **fields}
        fields.setdefault("opcode", self.ib.WROpcode.SEND)
        fields.setdefault("send_flags", self.ib.SendFlags.SIGNALED)
        fields.setdefault("sg_list", [self.mr.sge(64)])
        return self.ib.SendWR(wr_id, **fields)

    def recv_wr(self, wr_id: int = 1) -> Any:
        """One with an entry: a queue pair of EFA takes none without."""
        return self.ib.RecvWR(wr_id, [self.mr.sge(64)])

    def drain(self, cq: Any = None) -> list[Any]:
        """Everything that a CQ holds."""
        found: list[Any] = []
        while True:
            more = (cq or self.cq).poll(1024)
            if not more:
                return found
            found += more


@pytest.fixture
def rig(ib: Any, stub: Stub) -> Iterator[Rig]:
    with contextlib.ExitStack() as undo:
        yield Rig(ib, stub, undo)
        gc.collect()  # what only a caught exception's traceback still holds


def wait_until(true: Callable[[], bool], what: str, timeout: float = 20.0) -> None:
    """Gives other threads time until something is true."""
    deadline = time.monotonic() + timeout
    while not true():
        assert time.monotonic() < deadline, f"{what}: not within {timeout} s"
        time.sleep(0.0005)
