# SPDX-License-Identifier: BSD-3-Clause
"""The stub libibverbs as a test steers it: the functions of stub/control.h through ctypes, with their types.

The library is the one that RDMA_LIBRARY_PATH names, hence the very copy that the extension has open.
"""

from __future__ import annotations

import ctypes
import errno
import os
from ctypes import (
    POINTER,
    Structure,
    Union,
    c_char,
    c_char_p,
    c_int,
    c_int64,
    c_long,
    c_uint,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_ulong,
    c_void_p,
)
from typing import Any

#: An error that leaves errno at 0, as a careless provider does.
NO_ERRNO = 0x7FFFFFFF

#: How bad_wr comes back from a refused post.
BAD_WR_RIGHT, BAD_WR_UNTOUCHED, BAD_WR_NULL, BAD_WR_WILD = range(4)

KINDS = ("context", "pd", "mr", "cq", "channel", "qp", "srq", "ah", "device_list")


class Sge(Structure):
    _fields_ = [("addr", c_uint64), ("length", c_uint32), ("lkey", c_uint32)]


class Rdma(Structure):
    _fields_ = [("remote_addr", c_uint64), ("rkey", c_uint32)]


class Atomic(Structure):
    _fields_ = [("remote_addr", c_uint64), ("compare_add", c_uint64), ("swap", c_uint64), ("rkey", c_uint32)]


class Ud(Structure):
    _fields_ = [("ah", c_uint64), ("remote_qpn", c_uint32), ("remote_qkey", c_uint32)]


class Wr(Union):
    _fields_ = [("rdma", Rdma), ("atomic", Atomic), ("ud", Ud)]


class BindMw(Structure):
    _fields_ = [("mw", c_uint64), ("rkey", c_uint32), ("mr", c_uint64), ("addr", c_uint64), ("length", c_uint64),
                ("mw_access_flags", c_uint)]  # fmt: skip


class SendWr(Structure):
    """struct ibv_send_wr; `imm_data` is here the number that the four bytes are in network byte order."""

    _fields_ = [
        ("wr_id", c_uint64),
        ("next", c_uint64),
        ("sg_list", c_uint64),
        ("num_sge", c_int),
        ("opcode", c_int),
        ("send_flags", c_uint),
        ("imm_bytes", c_uint8 * 4),
        ("wr", Wr),
        ("remote_srqn", c_uint32),
        ("bind_mw", BindMw),
    ]

    @property
    def imm_data(self) -> int:
        return int.from_bytes(bytes(self.imm_bytes), "big")


class Request(Structure):
    _fields_ = [("send", SendWr), ("queue", c_uint64), ("at", c_uint64), ("call", c_uint32), ("kind", c_uint32),
                ("ah", c_uint64), ("remote_addr", c_uint64), ("remote_qpn", c_uint32), ("remote_qkey", c_uint32),
                ("rkey", c_uint32)]  # fmt: skip


class Registration(Structure):
    _fields_ = [("addr", c_uint64), ("length", c_uint64), ("iova", c_uint64), ("offset", c_uint64), ("fd", c_int64),
                ("access", c_uint32), ("verb", c_uint32)]  # fmt: skip


class Gid(Union):
    _fields_ = [("raw", c_uint8 * 16), ("words", c_uint64 * 2)]

    def __bytes__(self) -> bytes:
        return bytes(self.raw)


class GlobalRoute(Structure):
    _fields_ = [("dgid", Gid), ("flow_label", c_uint32), ("sgid_index", c_uint8), ("hop_limit", c_uint8),
                ("traffic_class", c_uint8)]  # fmt: skip


class AhAttr(Structure):
    _fields_ = [("grh", GlobalRoute), ("dlid", c_uint16), ("sl", c_uint8), ("src_path_bits", c_uint8),
                ("static_rate", c_uint8), ("is_global", c_uint8), ("port_num", c_uint8)]  # fmt: skip


class QpCap(Structure):
    _fields_ = [("max_send_wr", c_uint32), ("max_recv_wr", c_uint32), ("max_send_sge", c_uint32),
                ("max_recv_sge", c_uint32), ("max_inline_data", c_uint32)]  # fmt: skip


class QpInitAttr(Structure):
    _fields_ = [("qp_context", c_uint64), ("send_cq", c_uint64), ("recv_cq", c_uint64), ("srq", c_uint64),
                ("cap", QpCap), ("qp_type", c_int), ("sq_sig_all", c_int)]  # fmt: skip


class QpAttr(Structure):
    _fields_ = [
        ("qp_state", c_int), ("cur_qp_state", c_int), ("path_mtu", c_int), ("path_mig_state", c_int),
        ("qkey", c_uint32), ("rq_psn", c_uint32), ("sq_psn", c_uint32), ("dest_qp_num", c_uint32),
        ("qp_access_flags", c_uint), ("cap", QpCap), ("ah_attr", AhAttr), ("alt_ah_attr", AhAttr),
        ("pkey_index", c_uint16), ("alt_pkey_index", c_uint16), ("en_sqd_async_notify", c_uint8),
        ("sq_draining", c_uint8), ("max_rd_atomic", c_uint8), ("max_dest_rd_atomic", c_uint8),
        ("min_rnr_timer", c_uint8), ("port_num", c_uint8), ("timeout", c_uint8), ("retry_cnt", c_uint8),
        ("rnr_retry", c_uint8), ("alt_port_num", c_uint8), ("alt_timeout", c_uint8), ("rate_limit", c_uint32),
    ]  # fmt: skip


class SrqAttr(Structure):
    _fields_ = [("max_wr", c_uint32), ("max_sge", c_uint32), ("srq_limit", c_uint32)]


class Wc(Structure):
    """struct ibv_wc, with `imm_bytes` as they lie in memory."""

    _fields_ = [
        ("wr_id", c_uint64), ("status", c_int), ("opcode", c_int), ("vendor_err", c_uint32), ("byte_len", c_uint32),
        ("imm_bytes", c_uint8 * 4), ("qp_num", c_uint32), ("src_qp", c_uint32), ("wc_flags", c_uint),
        ("pkey_index", c_uint16), ("slid", c_uint16), ("sl", c_uint8), ("dlid_path_bits", c_uint8),
    ]  # fmt: skip


_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "stub_version": (c_char_p,),
    "stub_reset": (None,),
    "stub_calls": (c_ulong, c_char_p),
    "stub_live": (c_long, c_char_p),
    "stub_violations": (c_ulong,),
    "stub_fail": (None, c_char_p, c_ulong, c_int, c_ulong),
    "stub_fail_any": (None, c_ulong, c_int, c_int),
    "stub_fault_pending": (c_int,),
    "stub_delay": (None, c_char_p, c_uint),
    "stub_gate_close": (None, c_char_p),
    "stub_gate_open": (None, c_char_p),
    "stub_inside": (c_int, c_char_p),
    "stub_set_devices": (None, c_int),
    "stub_set_guid": (None, c_int, c_uint64),
    "stub_set_port": (None, c_int, c_int, c_int, c_int, c_int),
    "stub_set_gid": (None, c_int, c_int, c_char * 16),
    "stub_set_efa_caps": (None, c_uint32),
    "stub_set_lenient": (None, c_int),
    "stub_push_wc": (c_int, c_void_p, POINTER(Wc), c_int),
    "stub_push_wc_ex": (c_int, c_void_p, POINTER(Wc), c_int, c_char_p, c_int),
    "stub_open_sessions": (c_int,),
    "stub_push_cq_event": (c_int, c_void_p),
    "stub_raise_event": (None, c_void_p, c_int, c_void_p, c_int),
    "stub_unacked": (c_ulong,),
    "stub_lie_poll": (None, c_int, c_ulong),
    "stub_hold": (None, c_int),
    "stub_release": (c_int, c_void_p, c_int, c_int, c_int),
    "stub_refuse": (None, c_char_p, c_int, c_int, c_int),
    "stub_capture": (None, c_int),
    "stub_captured": (c_int,),
    "stub_captured_request": (c_int, c_int, POINTER(Request)),
    "stub_captured_sge": (c_int, c_int, c_int, POINTER(Sge)),
    "stub_captured_inline": (c_int, c_int, c_char_p, c_int),
    "stub_last_registration": (None, POINTER(Registration)),
    "stub_last_modify": (c_int, POINTER(QpAttr)),
    "stub_last_ah": (None, POINTER(AhAttr)),
    "stub_last_qp_init": (None, POINTER(QpInitAttr)),
    "stub_last_qp_init_ex": (c_uint64, POINTER(c_uint16), POINTER(c_uint8)),
    "stub_last_srq_modify": (c_int, POINTER(SrqAttr)),
}


class Captured:
    """One request as the library was given it. `to` is the destination of one between wr_start and wr_complete."""

    def __init__(self, request: Request, sges: list[tuple[int, int, int]], inline: bytes) -> None:
        self.to = (request.ah, request.remote_qpn, request.remote_qkey)
        self.remote = (request.remote_addr, request.rkey)
        self.wr: SendWr = request.send
        self.queue: int = request.queue
        self.at: int = request.at
        self.call: int = request.call
        self.kind: int = request.kind
        self.sges = sges
        self.inline = inline


class Stub:
    """The stub's controls. Handles are given as the package's objects or as pointers."""

    def __init__(self, folder: str | None = None) -> None:
        self.folder = folder or os.environ["RDMA_LIBRARY_PATH"]
        self.lib = ctypes.CDLL(os.path.join(self.folder, "libibverbs.so.1"))
        for name, (result, *arguments) in _SIGNATURES.items():
            function = getattr(self.lib, name)
            function.restype, function.argtypes = result, arguments
        self.version: str = self.lib.stub_version().decode()

    def reset(self) -> None:
        self.lib.stub_reset()

    def calls(self, verb: str | None = None) -> int:
        return int(self.lib.stub_calls(verb.encode() if verb else None))

    def live(self, kind: str | None = None) -> int:
        return int(self.lib.stub_live(kind.encode() if kind else None))

    def live_objects(self) -> dict[str, int]:
        """How many of each kind exist, without those of which there is none."""
        return {kind: n for kind in KINDS for n in [self.live(kind)] if n}

    @property
    def violations(self) -> int:
        return int(self.lib.stub_violations())

    def fail(self, verb: str, err: int = errno.ENOMEM, nth: int = 1, times: int = 1) -> None:
        self.lib.stub_fail(verb.encode(), nth, err, times)

    def fail_any(self, nth: int, err: int = errno.ENOMEM, destroys: bool = False) -> None:
        self.lib.stub_fail_any(nth, err, destroys)

    @property
    def fault_pending(self) -> bool:
        return bool(self.lib.stub_fault_pending())

    def delay(self, verb: str, seconds: float) -> None:
        self.lib.stub_delay(verb.encode(), int(seconds * 1e6))

    def close_gate(self, verb: str) -> None:
        self.lib.stub_gate_close(verb.encode())

    def open_gate(self, verb: str) -> None:
        self.lib.stub_gate_open(verb.encode())

    def inside(self, verb: str) -> int:
        return int(self.lib.stub_inside(verb.encode()))

    def set_devices(self, count: int) -> None:
        self.lib.stub_set_devices(count)

    def set_guid(self, device: int, guid: int) -> None:
        self.lib.stub_set_guid(device, guid)

    def set_port(self, device: int, link_layer: int, state: int = 4, active_mtu: int = 3, lid: int = 0) -> None:
        self.lib.stub_set_port(device, link_layer, state, active_mtu, lid)

    def set_gid(self, device: int, index: int, raw: bytes) -> None:
        self.lib.stub_set_gid(device, index, (c_char * 16).from_buffer_copy(raw))

    def set_efa_caps(self, caps: int) -> None:
        self.lib.stub_set_efa_caps(caps)

    def set_lenient(self, on: bool = True) -> None:
        self.lib.stub_set_lenient(on)

    def push_wc(self, cq: Any, solicited: bool = False, imm: int = 0, **fields: int) -> None:
        """Puts a completion into `cq`; `imm` goes in network byte order."""
        wc = Wc(**fields)
        wc.imm_bytes[:] = imm.to_bytes(4, "big")
        err = self.lib.stub_push_wc(pointer(cq), wc, solicited)
        if err:
            raise OSError(err, "stub_push_wc")

    def push_wc_ex(
        self, cq: Any, imm: int = 0, sgid: bytes | None = None, unsolicited: bool = False, **fields: int
    ) -> None:
        """The same with what an extended CQ of libefa tells beside."""
        wc = Wc(**fields)
        wc.imm_bytes[:] = imm.to_bytes(4, "big")
        err = self.lib.stub_push_wc_ex(pointer(cq), wc, False, sgid, unsolicited)
        if err:
            raise OSError(err, "stub_push_wc_ex")

    @property
    def open_sessions(self) -> int:
        """Extended sessions and polls that this thread has open in the library."""
        return int(self.lib.stub_open_sessions())

    def push_cq_event(self, cq: Any) -> None:
        err = self.lib.stub_push_cq_event(pointer(cq))
        if err:
            raise OSError(err, "stub_push_cq_event")

    def raise_event(self, context: Any, event_type: int, about: Any = None, port: int = 0) -> None:
        self.lib.stub_raise_event(pointer(context), event_type, pointer(about) if about is not None else None, port)

    @property
    def unacked(self) -> int:
        return int(self.lib.stub_unacked())

    def lie_poll(self, value: int, times: int = 1) -> None:
        self.lib.stub_lie_poll(value, times)

    def hold(self, on: bool = True) -> None:
        self.lib.stub_hold(on)

    def release(self, qp: Any, count: int = 1, receive: bool = False, status: int = 0) -> int:
        return int(self.lib.stub_release(pointer(qp), receive, count, status))

    def refuse(self, verb: str, after: int, err: int = errno.ENOMEM, bad_wr: int = BAD_WR_RIGHT) -> None:
        self.lib.stub_refuse(verb.encode(), after, err, bad_wr)

    def capture(self, inline: bool = False) -> None:
        """Copies posts from now on, those before are forgotten."""
        self.lib.stub_capture(2 if inline else 1)

    def captured(self) -> list[Captured]:
        found = []
        for i in range(self.lib.stub_captured()):
            request = Request()
            self.lib.stub_captured_request(i, request)
            sges = []
            for k in range(request.send.num_sge):
                sge = Sge()
                self.lib.stub_captured_sge(i, k, sge)
                sges.append((sge.addr, sge.length, sge.lkey))
            length = self.lib.stub_captured_inline(i, None, 0)
            room = ctypes.create_string_buffer(max(length, 1))
            self.lib.stub_captured_inline(i, room, length)
            found.append(Captured(request, sges, room.raw[:length]))
        return found

    def last_registration(self) -> Registration:
        registration = Registration()
        self.lib.stub_last_registration(registration)
        return registration

    def last_modify(self) -> tuple[int, QpAttr]:
        attr = QpAttr()
        return int(self.lib.stub_last_modify(attr)), attr

    def last_ah(self) -> AhAttr:
        attr = AhAttr()
        self.lib.stub_last_ah(attr)
        return attr

    def last_qp_init(self) -> QpInitAttr:
        attr = QpInitAttr()
        self.lib.stub_last_qp_init(attr)
        return attr

    def last_qp_init_ex(self) -> tuple[int, int, int]:
        """(send_ops_flags, flags of libefa, service level) of the last extended queue pair."""
        flags, sl = c_uint16(), c_uint8()
        return int(self.lib.stub_last_qp_init_ex(flags, sl)), flags.value, sl.value

    def last_srq_modify(self) -> tuple[int, SrqAttr]:
        attr = SrqAttr()
        return int(self.lib.stub_last_srq_modify(attr)), attr


def pointer(handle: Any) -> int:
    return handle if isinstance(handle, int) else int(handle.ptr)
