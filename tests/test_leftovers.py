# SPDX-License-Identifier: BSD-3-Clause
"""Nothing is left behind: the kernel's own count of what this process holds, and the end of a process."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from endpoints import UC, UD, Endpoint, connect
from place import Node, seconds

pytestmark = [pytest.mark.needs("rc"), pytest.mark.only("ibverbs")]
LEAVE_OPEN = Path(__file__).parent / "peers" / "leave_open.py"


def held(node: Node) -> dict[str, int]:
    """What the kernel counts for a device: PDs, CQs, QPs, MRs, SRQs, contexts."""
    text = subprocess.run(["rdma", "-j", "resource", "show", node.name], stdout=subprocess.PIPE, check=True).stdout
    (said,) = json.loads(text)
    return {kind: count for kind, count in said.items() if kind in ("pd", "cq", "qp", "mr", "srq", "ctx")}


def everything(ib: Any, node: Node) -> list[Endpoint]:
    ends = [Endpoint(ib, node, with_channel=True, with_srq=True), Endpoint(ib, node)]
    connect(*ends)
    ends[0].post_recv()
    ends[0].recv_cq.req_notify()
    ends[1].do(ends[1].send_wr())
    return [*ends, Endpoint(ib, node, UC), Endpoint(ib, node, UD)]


@pytest.mark.needs("soft_devices")
class TestKernelCounts:
    def test_close_gives_everything_back(self, ib: Any, node: Node) -> None:
        before = held(node)
        ends = everything(ib, node)
        assert held(node)["qp"] == before["qp"] + 4
        for end in ends:
            end.close()
        assert held(node) == before

    def test_so_does_dropping_it(self, ib: Any, node: Node) -> None:
        before = held(node)
        ends = everything(ib, node)
        for end in ends:
            end._made.pop_all()
        del ends, end
        gc.collect()
        assert held(node) == before

    def test_so_does_dropping_a_cycle(self, ib: Any, node: Node) -> None:
        before = held(node)
        ends: list[Any] = list(everything(ib, node))
        for end in ends[:]:
            end._made.pop_all()
            end.itself = end
        ends.append(ends)
        del ends, end
        gc.collect()
        assert held(node) == before

    def test_so_does_a_creation_that_fails(self, ib: Any, node: Node) -> None:
        with node.open() as ctx, ctx.alloc_pd() as pd, ctx.create_cq(4) as cq:
            before = held(node)
            limits = ctx.query_device()
            with pytest.raises(ib.VerbsError):
                ctx.create_cq(limits.max_cqe + 1)
            with pytest.raises(ib.VerbsError):
                pd.create_qp(ib.QPInitAttr(cq, cq, max_send_sge=limits.max_sge + 1))
            with pytest.raises(ib.VerbsError):
                pd.create_srq(max_sge=limits.max_srq_sge + 1)
            with pytest.raises(ib.VerbsError):
                pd.reg_mr(4096, 4096, ib.AccessFlags.LOCAL_WRITE)
            assert held(node) == before


def test_descriptors_come_back(ib: Any, node: Node) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        for end in everything(ib, node):
            end.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_process_ends_in_silence_with_everything_open(node: Node) -> None:
    done = subprocess.run(
        [sys.executable, str(LEAVE_OPEN), node.name],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds(10), check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")
