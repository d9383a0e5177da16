# SPDX-License-Identifier: BSD-3-Clause
"""One end of a conversation over EFA, with the methods of an endpoint of a connection: after connect() its requests go
to the peer that it was connected with, and both hold an address handle for the other."""

from __future__ import annotations

from typing import Any

from endpoints import QKEY, Endpoint
from packages import SRD, is_efa, reliable


class EfaEndpoint(Endpoint):
    """A context with one SRD (or UD) queue pair and one registered buffer."""

    peer: Any = None

    def _access(self) -> Any:
        """Everything that the device gives to its peers."""
        flags, caps = self.ib.AccessFlags, self.ctx.query_efa_device().device_caps
        access = flags.LOCAL_WRITE
        access |= flags.REMOTE_READ if caps & 1 else 0
        return access | (flags.REMOTE_WRITE if caps & 8 else 0)

    def _make_cq(self, cqe: int) -> Any:
        if self.extended is None:
            return self.ctx.create_cq(cqe, self.channel)
        return self.ctx.create_cq_ex(cqe, self.channel, **self.extended)

    def _init_attr(self, depth: int, sges: int, inline: int, sq_sig_all: bool, **more: Any) -> Any:
        limits = self.ctx.query_efa_device()
        return self.ib.QPInitAttr(
            self.send_cq,
            self.recv_cq,
            qp_type=SRD if self.qp_type is None else self.qp_type,
            max_send_wr=depth,
            max_recv_wr=depth,
            max_send_sge=min(sges, limits.max_sq_sge),
            max_recv_sge=min(sges, limits.max_rq_sge),
            max_inline_data=inline,
            sq_sig_all=sq_sig_all,
            **more,
        )

    # what a peer has to know, and the way to the working states

    def info(self, psn: int = 0) -> Any:
        return self.ib.local_endpoint_info(self.qp, QKEY)

    def connect(self, peer: Any, *, psn: int = 0, peer_psn: int = 0, **options: Any) -> None:
        """Ready to send and receive, and an address handle for `peer`, an endpoint or an EndpointInfo."""
        if self.qp.state == 0:
            self.qp.prepare(QKEY, psn=psn, **options)
        info = peer.info() if isinstance(peer, Endpoint) else peer
        self.peer = self._made.enter_context(info.peer(self.pd))

    def ready_ud(self, psn: int = 0, qkey: int = QKEY) -> None:
        self.qp.prepare(qkey, psn=psn)

    def send_wr(self, length: int = 16, offset: int = 0, wr_id: int = 1, **fields: Any) -> Any:
        if not {"dest", "ah"} & set(fields):
            fields["dest"] = self.peer
        return super().send_wr(length, offset, wr_id, **fields)


def new_endpoint(ib: Any, node: Any, qp_type: int | None = None, **options: Any) -> Endpoint:
    """One of the package's, with a reliable queue pair unless told otherwise."""
    kind = EfaEndpoint if is_efa(ib) else Endpoint
    return kind(ib, node, reliable(ib) if qp_type is None else qp_type, **options)
