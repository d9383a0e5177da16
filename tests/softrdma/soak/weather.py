# SPDX-License-Identifier: BSD-3-Clause
"""Which faults strike, and when: drawn from a seed, for all programs of the fabric at once."""

from __future__ import annotations

import random
from collections.abc import Callable

from softrdma import faults

DEVICES = ("rxe0", "rxe1", "efa_0", "efa_1")
STATUSES = ("LOC_LEN", "LOC_PROT", "WR_FLUSH", "REM_ACCESS", "REM_OP", "RETRY_EXC", "RNR_RETRY_EXC", "GENERAL", "FATAL")
CALLS = (
    "alloc_pd", "reg_mr", "create_cq", "create_qp", "modify_qp", "query_port", "create_comp_channel", "req_notify_cq",
    "create_ah", "open_device",
)
#: Of rxe alone: libefa (44) frees twice when a destroy_qp that failed is tried again, and no kernel lets one fail so.
DESTROYS = "dereg_mr", "destroy_qp", "destroy_cq", "dealloc_pd"
ERRNOS = ("ENOMEM", "EIO", "EAGAIN", "EINVAL", "ENOSPC")
#: Faults are changed this often, in seconds.
PAUSE = 0.05, 0.4


class Weather:
    def __init__(self, seed: int, *, calm: bool = False) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.calm = calm

    def pause(self) -> float:
        return self.random.uniform(*PAUSE)

    def change(self) -> None:
        """One more fault, or, now and then, none at all for a while."""
        rule = self.random.choice(self.KINDS)(self)
        target_all = self.random.random() < 0.8
        chosen = self.random.random()
        if self.calm:
            return
        try:
            everybody = faults.attach(timeout=10.0)
        except ProcessLookupError:
            return  # nobody has a device open just now
        everybody.seed = self.seed
        if rule == "reset":
            everybody.reset()
            return
        targets = everybody._targets
        one = faults.Faults(targets if target_all else [targets[int(chosen * len(targets))]])
        try:
            one.add(rule)
        except faults.FaultError as error:
            if "rules already" not in str(error):
                raise
            everybody.clear()

    def clear_up(self) -> None:
        """Everything works again, also for those that have only just started."""
        if not self.calm:
            try:
                faults.attach(timeout=10.0).reset()
            except ProcessLookupError:
                pass

    def seconds(self, most: float) -> str:
        return f"{self.random.uniform(0.01, most):.3f}"

    def chance(self) -> str:
        return f"probability={self.random.choice((0.01, 0.05, 0.2))},for={self.seconds(0.5)}"

    def side(self) -> str:
        return self.random.choice(("sender", "receiver"))

    def device(self) -> str:
        return self.random.choice(DEVICES)

    def message(self) -> str:
        kind = self.random.choice(("drop", "drop:what=answer", "rnr", "duplicate", "reorder", "delay:us=20-3000"))
        more = self.chance()
        if kind.partition(":")[0] in ("drop", "rnr", "delay"):
            more += f",side={self.side()}"
        return f"{kind}{',' if ':' in kind else ':'}{more}"

    def request(self) -> str:
        moved = self.random.choice(("yes", "no"))
        op = self.random.choice(("", "", ",op=recv", ",op=send|rdma_write", ",op=rdma_read"))
        moved = "" if "recv" in op else f",moved={moved}"
        return f"completion:status={self.random.choice(STATUSES)},nth={self.random.randrange(1, 200)}{op}{moved}"

    def call(self) -> str:
        call, number = self.random.choice(CALLS), self.random.choice(ERRNOS)
        if self.random.random() < 0.2:
            return f"errno:call={self.random.choice(DESTROYS)},errno={number},device={self.random.choice(DEVICES[:2])}"
        return f"errno:call={call},errno={number},nth={self.random.randrange(1, 5)}"

    def nic(self) -> str:
        device = self.device()
        last = self.seconds(0.3)
        return self.random.choice(
            (
                f"link:device={device},state=down,for={last}",
                f"link:device={device},state=down,for={last},nth={self.random.randrange(1, 100)}",
                f"gid:device={device},index=0,gid=none,for={last}",
                f"gid:device={device},index=1,gid=10.99.7.7,for={last}",
                f"fatal:device={device},for={last}",
                f"remove:device={device},for={last}",
            )
        )

    def object(self) -> str:
        nth = self.random.randrange(1, 100)
        event = self.random.choice(("COMM_EST", "CLIENT_REREGISTER", "LID_CHANGE", "CQ_ERR"))
        return self.random.choice(
            (f"qp_error:nth={nth}", f"overrun:nth={nth}", "srq_limit", "srq_error", f"event:type={event}", "qp_error")
        )

    def memory(self) -> str:
        return f"memlock:limit={self.random.choice((0, 4096, 65536))},for={self.seconds(0.2)}"

    def death(self) -> str:
        return f"die:nth={self.random.randrange(1, 2000)}" if self.random.random() < 0.5 else "reset"

    def nothing(self) -> str:
        return "reset"

    KINDS: tuple[Callable[[Weather], str], ...] = (
        message, message, message, request, request, call, nic, nic, object, memory, death, nothing,
    )
