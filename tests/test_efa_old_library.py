# SPDX-License-Identifier: BSD-3-Clause
"""Libraries that lack things, as efa meets them: libefa as of rdma-core 33 (Debian 11) and 44 (Debian 12), none at all,
and both packages in one process. Each in an interpreter of its own, since a process opens one library."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from stub_control import Stub

pytestmark = [pytest.mark.needs("stub"), pytest.mark.only("efa")]

HERE = Path(__file__).parent


def run(code: str, folder: str) -> subprocess.CompletedProcess[str]:
    prelude = f"import errno, sys; sys.path.append({str(HERE)!r})\n"
    env = {**os.environ, "RDMA_LIBRARY_PATH": folder}
    return subprocess.run(
        [sys.executable, "-c", prelude + code], env=env, capture_output=True, text=True, timeout=60, check=False
    )


def passes(code: str, folder: str) -> str:
    done = run(code, folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(params=["v33", "v44"])
def release(request: pytest.FixtureRequest, ib: Any, stub_library: Stub) -> str:
    folder = Path(stub_library.folder) / request.param
    if not (folder / "libefa.so.1").exists():
        pytest.skip("needs the older builds of the stub beside the stub")
    return str(folder)


def only(release: str, *names: str) -> None:
    if Path(release).name not in names:
        pytest.skip(f"is about {', '.join(names)}")


PRELUDE = """
import efa
from stub_control import Stub
stub = Stub()
ctx = efa.get_efa_device_list()[0].open()
pd = ctx.alloc_pd()
cq = ctx.create_cq(64)
mr = pd.reg_mr(0x10000, 1 << 20, 1)
ah = pd.create_ah(bytes(range(16)))
to = {"ah": ah, "remote_qpn": 1, "remote_qkey": 2}

def refused(call, kind, *words):
    before = stub.violations
    try:
        call()
    except kind as error:
        for word in words:
            assert word in str(error), str(error)
        assert stub.violations == before
        return error
    raise SystemExit("nothing was raised")
"""


def test_sends_receives_and_reads_work(release: str) -> None:
    passes(
        PRELUDE
        + """
for qp_type in (efa.QPType.SRD, efa.QPType.UD):
    qp = pd.create_qp(efa.QPInitAttr(cq, cq, qp_type=qp_type)).prepare(1)
    assert qp.send_ops_flags == (4 | 8 | 16 if qp_type == efa.QPType.SRD else 4 | 8)
    qp.post_send([efa.SendWR(i, [mr.sge(8)], 2, 2, **to) for i in range(9)])
    qp.post_recv(efa.RecvWR(9, [mr.sge(64)]))
    assert [wc.wr_id for wc in cq.poll(64)] == list(range(10))
qp = pd.create_qp(efa.QPInitAttr(cq, cq)).prepare(1)
with efa.Peer(pd.create_ah(bytes(range(16))), 1, 2) as peer:
    qp.post_send(efa.read_wrs(mr, peer, 0, 1, chunk=1 << 18))
assert len(cq.poll(64)) == 4
assert ah.ahn == int(ah.ahn) and ctx.query_efa_device().max_sq_wr == 4096
assert stub.violations == 0
""",
        release,
    )


def test_a_write_is_refused_before_the_provider_with_the_release_that_brings_it(release: str) -> None:
    passes(
        PRELUDE
        + """
qp = pd.create_qp(efa.QPInitAttr(cq, cq)).prepare(1)
for opcode in (efa.WROpcode.RDMA_WRITE, efa.WROpcode.RDMA_WRITE_WITH_IMM):
    error = refused(lambda: qp.post_send([efa.SendWR(1, [mr.sge(8)], 2, 2, **to),
                                          efa.SendWR(1, [mr.sge(8)], opcode, 2, **to)]), ValueError, "46")
    assert error.index == 1
assert stub.calls("wr_start") == 0 and cq.poll(1) == []
for flags in (1, 2, 3, 31):
    error = refused(lambda: pd.create_qp(efa.QPInitAttr(cq, cq, send_ops_flags=flags)), efa.UnsupportedError, "46")
    assert error.errno == errno.EOPNOTSUPP
assert not ctx.query_efa_device().device_caps & efa.EfaDeviceCaps.RDMA_WRITE
""",
        release,
    )


def test_what_a_queue_pair_cannot_have_here_is_said(release: str) -> None:
    passes(
        PRELUDE
        + """
error = refused(lambda: pd.create_qp(efa.QPInitAttr(cq, cq, unsolicited_write_recv=True)), efa.UnsupportedError,
                "the installed libefa does not know it", "52")
assert error.errno == errno.EOPNOTSUPP
error = refused(lambda: pd.create_qp(efa.QPInitAttr(cq, cq, sl=1)), efa.EfaError, "sl")
error = refused(lambda: pd.create_qp(efa.QPInitAttr(cq, cq, max_inline_data=64)), efa.EfaError, "64", "32")
assert stub.live("qp") == 0
""",
        release,
    )


def test_long_receives_that_the_library_would_cut_are_refused(release: str) -> None:
    """A stub without a version in its file name is taken for the worse; so is every release before 57."""
    passes(
        PRELUDE
        + """
qp = pd.create_qp(efa.QPInitAttr(cq, cq)).prepare(1)
error = refused(lambda: qp.post_recv([efa.RecvWR(1, [mr.sge(65535)]), efa.RecvWR(2, [mr.sge(65536)])]), ValueError,
                "65535", "65536")
assert error.index == 1
qp.post_recv(efa.RecvWR(1, [mr.sge(65535)]))
assert len(cq.poll(4)) == 1 and stub.violations == 0
""",
        release,
    )


def test_functions_that_are_not_there_say_which_release_brings_them(release: str) -> None:
    passes(
        PRELUDE
        + """
qp = pd.create_qp(efa.QPInitAttr(cq, cq))
for call, function, since in (
    (mr.query_efa, "efadv_query_mr", "50"),
    (cq.query_efa, "efadv_query_cq", "59"),
    (qp.query_wqs, "efadv_query_qp_wqs", "59"),
):
    error = refused(call, efa.UnsupportedError, function, since)
    assert error.operation == function and error.errno == errno.EOPNOTSUPP
    assert isinstance(error, efa.EfaError) and isinstance(error, RuntimeError)
missing = efa.capabilities().missing
assert missing["efadv_query_mr"] == "50" and missing["efadv_get_max_sq_depth"] == "63"
assert ("efadv_create_cq" in missing) == (stub.version == "stub 33")
caps = efa.capabilities(ctx)
assert caps.rdma_read and not caps.rdma_write and caps.cq_ex == (stub.version != "stub 33")
""",
        release,
    )


def test_without_extended_queues_their_making_is_unsupported(release: str) -> None:
    only(release, "v33")
    passes(
        PRELUDE
        + """
refused(lambda: ctx.create_cq_ex(16), efa.UnsupportedError, "efadv_create_cq", "43")
refused(lambda: pd.reg_dmabuf_mr(0, 4096, 0, 3, 1), efa.UnsupportedError, "ibv_reg_dmabuf_mr", "34")
""",
        release,
    )


def test_extended_queues_tell_the_gid_and_refuse_what_is_younger(release: str) -> None:
    """There the place of the younger reader holds the number 2: calling it would be the end."""
    only(release, "v44")
    passes(
        PRELUDE
        + """
cq_ex = ctx.create_cq_ex(16, sgid=True)
stub.push_wc_ex(cq_ex, sgid=bytes(range(16)), unsolicited=True, wr_id=1, opcode=128)
(wc,) = cq_ex.poll(4)
assert wc.sgid == bytes(range(16)) and wc.unsolicited is False
refused(lambda: ctx.create_cq_ex(16, unsolicited=True), efa.UnsupportedError, "52")
""",
        release,
    )


def test_no_libefa_is_an_import_error_that_names_the_package(ib: Any, stub_library: Stub, tmp_path: Path) -> None:
    code = """
try:
    import efa
except ImportError as error:
    print("ImportError:", error)
else:
    raise SystemExit("it imported")
"""
    old = Path(stub_library.folder) / "old"
    for folder in (old, tmp_path):
        said = passes(code, str(folder))
        assert said.startswith("ImportError:"), said
    assert "libefa" in passes(code, str(old)) and "libefa1" in passes(code, str(old))
    assert "libibverbs" in passes(code, str(tmp_path))


BOTH = """
import gc
import {first}
import {second}
import efa, ibverbs as ib
from stub_control import Stub
stub = Stub()
for name in ("MR", "PD", "QP", "CQ", "SendWR", "Gid", "SGE", "WC", "UnsupportedError", "AccessFlags"):
    assert getattr(efa, name) is not getattr(ib, name), name
    assert getattr(efa, name).__module__.split(".")[0] == "efa", name
    assert getattr(ib, name).__module__.split(".")[0] == "ibverbs", name
assert not issubclass(efa.EfaError, ib.VerbsError) and not issubclass(ib.VerbsError, efa.EfaError)

ctx, other = efa.get_efa_device_list()[0].open(), ib.get_device_list()[0].open()
pd, other_pd = ctx.alloc_pd(), other.alloc_pd()
cq, other_cq = ctx.create_cq(64), other.create_cq(64)
mr, other_mr = pd.reg_mr(0x10000, 4096, 1), other_pd.reg_mr(0x20000, 4096, 1)
srd = pd.create_qp(efa.QPInitAttr(cq, cq)).prepare(1)
rc = other_pd.create_qp(ib.QPInitAttr(other_cq, other_cq))
stub.set_lenient(); rc.modify(1, qp_state=3); stub.set_lenient(False)
ah = pd.create_ah(bytes(range(16)))

# each with its own
srd.post_send(efa.SendWR(1, [mr.sge(8)], 2, 2, ah=ah))
rc.post_send(ib.SendWR(2, [other_mr.sge(8)], 2, 2))
assert cq.poll(4)[0].wr_id == 1 and other_cq.poll(4)[0].wr_id == 2

# what is only read may be of the other: anything with addr, length and lkey serves as an MR
assert efa.SGE(other_mr, 8).lkey == other_mr.lkey
assert efa.Gid(bytes(16)) == bytes(ib.Gid(bytes(16)))

# what is a handle may not
for wrong in (
    lambda: srd.post_send(ib.SendWR(1, [], 2, 2)),
    lambda: rc.post_send(efa.SendWR(1, [], 2, 2, ah=ah)),
    lambda: srd.post_recv(ib.RecvWR(1)),
    lambda: ib.SendWR(ah=ah),
    lambda: pd.create_qp(efa.QPInitAttr(other_cq, cq)),
    lambda: other_pd.create_qp(ib.QPInitAttr(cq, other_cq)),
    lambda: ctx.create_cq(4, other.create_comp_channel()),
):
    try:
        wrong()
    except TypeError:
        continue
    raise SystemExit("a handle of the other package was taken")
for made in (ah, srd, rc, mr, other_mr, cq, other_cq, pd, other_pd, ctx, other):
    made.close()
del wrong
gc.collect()
assert stub.live_objects() == {{}}, stub.live_objects()
assert stub.violations == 0
"""


@pytest.mark.parametrize("first", ["efa", "ibverbs"])
def test_both_packages_work_in_one_process_and_take_no_handles_of_each_other(
    ib: Any, stub_library: Stub, first: str
) -> None:
    pytest.importorskip("ibverbs")
    second = "ibverbs" if first == "efa" else "efa"
    passes(BOTH.format(first=first, second=second), stub_library.folder)


def test_neither_package_imports_the_other(ib: Any, stub_library: Stub) -> None:
    for package, other in (("efa", "ibverbs"), ("ibverbs", "efa")):
        passes(f"import {package}, sys\nassert not [n for n in sys.modules if n.split('.')[0] == {other!r}]",
               stub_library.folder)  # fmt: skip
