# SPDX-License-Identifier: BSD-3-Clause
"""What the installed libefa, and a device through it, can do."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import _efa as c
from .enums import EfaDeviceCaps

__all__ = ["Capabilities", "capabilities"]


class Capabilities(NamedTuple):
    """What can be used here. A feature of a device is False where no device was asked; ``str()`` is a table."""

    library: str
    """The path of the libefa in use."""
    release: int | None
    """The rdma-core release that it is of, as far as its file's name says; else None."""
    missing: dict[str, str]
    """The functions that it lacks, each with the rdma-core release that brings it."""
    device: str | None
    """The name of the device that was asked, or None."""
    rdma_read: bool
    """SRD queue pairs can RDMA-read."""
    rdma_write: bool
    """SRD queue pairs can RDMA-write, with immediate data and without (rdma-core 46)."""
    inline_write: bool
    """Such writes can carry their data inline: ``QPInitAttr(inline_write=True)`` (rdma-core 63)."""
    unsolicited_write_recv: bool
    """A peer's write with immediate need not use up a receive (rdma-core 52)."""
    rnr_retry: bool
    """``rnr_retry`` can be set."""
    cq_ex: bool
    """There are extended completion queues: ``Context.create_cq_ex`` (rdma-core 43)."""
    cq_with_sgid: bool
    """They can tell the GID of an unknown sender."""
    cq_in_dmabuf: bool
    """They can lie in a dma-buf (rdma-core 59)."""
    processing_hints: bool
    """Requests can carry hints: ``QPInitAttr(processing_hints=True)`` (rdma-core 64)."""
    comp_cntr: bool
    """There are completion counters (rdma-core 65)."""
    max_rdma_size: int
    """The longest RDMA request, in bytes; 0 where there is none."""

    def __str__(self) -> str:
        lines = [f"{name:24} {value}" for name, value in zip(self._fields, self)]
        return "\n".join(lines)


def capabilities(context: c.Context | None = None) -> Capabilities:
    """Return what the installed libefa can do, and the device of ``context`` through it.

    Without a context only the library is asked. What a device has is shown only as far as the library knows of it:
    libefa of rdma-core 44 (Debian 12) knows no RDMA write. ``efadv_query_device``.
    """
    if context is not None and not isinstance(context, c.Context):
        raise TypeError(f"context must be a Context or None, not {type(context).__name__}")
    path, release, functions = c._library()
    missing = {name: since for name, (since, present) in functions.items() if not present}
    attr = context.query_efa_device() if context is not None else None
    caps = EfaDeviceCaps(attr.device_caps) if attr is not None else EfaDeviceCaps(0)
    write = bool(caps & EfaDeviceCaps.RDMA_WRITE)
    return Capabilities(
        library=path,
        release=release or None,
        missing=missing,
        device=context.name if context is not None else None,
        rdma_read=bool(caps & EfaDeviceCaps.RDMA_READ),
        rdma_write=write,
        inline_write=write and "efadv_get_max_sq_depth" not in missing,
        unsolicited_write_recv=bool(caps & EfaDeviceCaps.UNSOLICITED_WRITE_RECV),
        rnr_retry=bool(caps & EfaDeviceCaps.RNR_RETRY),
        cq_ex=attr is not None and "efadv_create_cq" not in missing,
        cq_with_sgid=bool(caps & EfaDeviceCaps.CQ_WITH_SGID),
        cq_in_dmabuf=bool(caps & EfaDeviceCaps.CQ_WITH_EXT_MEM_DMABUF),
        processing_hints=attr is not None and "efadv_qp_from_ibv_qp_ex" not in missing,
        comp_cntr=bool(caps & EfaDeviceCaps.COMP_CNTR) and "efadv_create_comp_cntr" not in missing,
        max_rdma_size=attr.max_rdma_size if attr is not None else 0,
    )


# ---- what ``python -m efa`` prints of it ---------------------------------------------------------------------------

_WRITES = 46  # the first rdma-core whose libefa knows of RDMA writes


def about_library() -> list[str]:
    """Lines about the libefa in use, and about what it is too old for."""
    can = capabilities()
    lines = [f"libefa: {can.library}" + (f", of rdma-core {can.release}" if can.release else "")]
    if can.release and can.release < _WRITES:
        lines.append(f"    knows no RDMA write, which rdma-core {_WRITES} brought")
    lacking: dict[int, list[str]] = {}
    for function, release in can.missing.items():
        lacking.setdefault(int(release), []).append(function)
    lines += [f"    has no {', '.join(lacking[release])} (rdma-core {release})" for release in sorted(lacking)]
    return lines


def facts_of_device(context: c.Context) -> dict[str, Any]:
    """What a device and the library can do together; nothing of a device that is not EFA's."""
    if not context.is_efa():
        return {}
    can = capabilities(context)
    features = {name: value for name, value in can._asdict().items() if isinstance(value, bool)}
    return {
        "can": ", ".join(name for name, value in features.items() if value) or None,
        "cannot": ", ".join(name for name, value in features.items() if not value) or None,
        "max_rdma_size": can.max_rdma_size or None,
    }


def has_devices() -> bool:
    """Whether there is an EFA device."""
    return bool(c.get_efa_device_list())
