# SPDX-License-Identifier: BSD-3-Clause
"""Errors that name the cause: the limit that was exceeded and its value, the state that a queue pair is in, the
attribute that is missing or too much, the GID that is not there, the memory that is not this process's."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import pytest
from endpoints import RC, UC, UD, Endpoint, Make, all_access, poll_for
from packages import error_of, is_efa
from place import Node
from stub_fixtures import INIT, RESET, RTR, RTS, Rig


def said(ib: Any, call: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """The text of the VerbsError that a call raises."""
    with pytest.raises(error_of(ib)) as caught:
        call(*args, **kwargs)
    return str(caught.value)


# ---- sizes ----------------------------------------------------------------------------------------------------------


class TestSizes:
    """On the stub, which has a limit for everything; that real devices say the same is in the files of each class."""

    @pytest.mark.only("ibverbs")
    @pytest.mark.parametrize(
        ("field", "limit_name"),
        [("max_send_wr", "max_qp_wr"), ("max_recv_wr", "max_qp_wr"), ("max_send_sge", "max_sge"),
         ("max_recv_sge", "max_sge")],
    )  # fmt: skip
    def test_of_a_queue_pair_each_is_compared_with_the_device(self, rig: Rig, field: str, limit_name: str) -> None:
        limit = getattr(rig.ctx.query_device(), limit_name)
        attr = rig.ib.QPInitAttr(rig.cq, rig.cq, **{field: limit + 1})
        assert f"{field}={limit + 1} is over the device's {limit_name}={limit}" in said(rig.ib, rig.pd.create_qp, attr)

    @pytest.mark.only("efa")
    @pytest.mark.parametrize(
        ("field", "limit_name"),
        [("max_send_sge", "max_sq_sge"), ("max_recv_sge", "max_rq_sge"), ("max_inline_data", "inline_buf_size_ex")],
    )
    def test_of_an_efa_queue_pair_by_the_name_that_the_device_has(self, rig: Rig, field: str, limit_name: str) -> None:
        limit = getattr(rig.ctx.query_efa_device(), limit_name)
        attr = rig.ib.QPInitAttr(rig.cq, rig.cq, **{field: limit + 1})
        assert f"{field}={limit + 1} is over the device's {limit_name}={limit}" in said(rig.ib, rig.pd.create_qp, attr)

    @pytest.mark.only("efa")
    def test_how_deep_a_queue_could_be_is_told_once(self, rig: Rig) -> None:
        most = rig.ctx.query_efa_device().max_sq_wr
        text = said(rig.ib, rig.pd.create_qp, rig.ib.QPInitAttr(rig.cq, rig.cq, max_send_wr=most + 1))
        assert text.count("max_send_wr") == 1 and f"max_send_wr={most + 1} is too deep" in text
        assert f"the device holds {most}" in text

    @pytest.mark.only("ibverbs")
    def test_all_that_are_over_are_named_and_no_other(self, rig: Rig) -> None:
        attr = rig.ib.QPInitAttr(rig.cq, rig.cq, max_send_wr=1 << 30, max_recv_sge=1 << 30)
        text = said(rig.ib, rig.pd.create_qp, attr)
        assert "max_send_wr" in text and "max_recv_sge" in text
        assert "max_recv_wr" not in text and "max_send_sge" not in text

    @pytest.mark.only("ibverbs")
    def test_a_refusal_without_a_reason_lists_what_was_asked_for(self, rig: Rig) -> None:
        rig.stub.fail("create_qp", errno.EINVAL)
        text = said(rig.ib, rig.pd.create_qp, rig.ib.QPInitAttr(rig.cq, rig.cq, max_send_wr=77, max_inline_data=99))
        assert "max_send_wr=77" in text and "max_inline_data=99" in text and "try less" in text

    def test_of_a_completion_queue(self, rig: Rig) -> None:
        limit = rig.ctx.query_device().max_cqe
        text = said(rig.ib, rig.ctx.create_cq, limit + 1)
        assert f"cqe={limit + 1} is over the device's max_cqe={limit}" in text

    def test_a_completion_vector_that_is_not_there(self, rig: Rig) -> None:
        count = rig.ctx.num_comp_vectors
        text = said(rig.ib, rig.ctx.create_cq, 4, comp_vector=count)
        assert f"comp_vector={count} is none of the device's: it has {count}" in text

    @pytest.mark.only("ibverbs")
    def test_of_a_shared_receive_queue(self, rig: Rig) -> None:
        limits = rig.ctx.query_device()
        text = said(rig.ib, rig.pd.create_srq, limits.max_srq_wr + 1, limits.max_srq_sge + 2)
        assert f"max_wr={limits.max_srq_wr + 1} is over the device's max_srq_wr={limits.max_srq_wr}" in text
        assert f"max_sge={limits.max_srq_sge + 2} is over the device's max_srq_sge={limits.max_srq_sge}" in text

    @pytest.mark.only("ibverbs")
    def test_a_limit_event_over_the_depth(self, rig: Rig) -> None:
        rig.stub.fail("modify_srq", errno.EINVAL)
        assert "srq_limit=17 is over max_wr=16" in said(rig.ib, rig.pd.create_srq, 16, 1, 17)
        srq = rig.keep(rig.pd.create_srq(16))
        depth = srq.query()["max_wr"]
        rig.stub.fail("modify_srq", errno.EINVAL)
        assert f"srq_limit={depth + 1} is over max_wr={depth}" in said(rig.ib, srq.modify, srq_limit=depth + 1)

    def test_a_length_over_the_largest_region(self, rig: Rig) -> None:
        most = rig.ctx.query_device().max_mr_size
        rig.stub.fail("reg_mr_iova2", errno.EINVAL)
        text = said(rig.ib, rig.pd.reg_mr, 0x1000, most + 1, 1)
        assert f"length {most + 1} is over the device's max_mr_size={most}" in text

    def test_a_device_that_does_not_answer_leaves_what_was_asked_for(self, rig: Rig) -> None:
        rig.stub.fail("create_cq", errno.EINVAL)
        rig.stub.fail("query_device", errno.EIO)
        assert "cqe=5" in said(rig.ib, rig.ctx.create_cq, 5)


class TestLockedMemory:
    def makers(self, rig: Rig) -> dict[str, Callable[[], Any]]:
        ib = rig.ib
        return {
            "reg_mr_iova2": lambda: rig.pd.reg_mr(0x1000, 123456, 1),
            "reg_dmabuf_mr": lambda: rig.pd.reg_dmabuf_mr(0, 123456, 0, 0, 1),
            "create_cq": lambda: rig.ctx.create_cq(123456),
            "create_srq": lambda: rig.pd.create_srq(1234),
            "create_qp": lambda: rig.pd.create_qp(ib.QPInitAttr(rig.cq, rig.cq, max_send_wr=1234)),
        }

    @pytest.mark.parametrize("verb", ["reg_mr_iova2", "reg_dmabuf_mr", "create_cq", "create_srq", "create_qp"])
    def test_enomem_gives_the_limit_beside_the_size(self, rig: Rig, verb: str) -> None:
        if verb == "create_srq" and not hasattr(rig.pd, "create_srq"):
            pytest.skip("needs a package with shared receive queues")
        rig.stub.fail("efadv_create_qp_ex" if verb == "create_qp" and is_efa(rig.ib) else verb, errno.ENOMEM)
        text = said(rig.ib, self.makers(rig)[verb])
        assert "RLIMIT_MEMLOCK (ulimit -l)" in text and "1234" in text
        soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        for number, kind in ((soft, "soft"), (hard, "hard")):
            word = "unlimited" if number == resource.RLIM_INFINITY else f"{number} bytes"
            assert f"{word} ({kind})" in text

    def test_another_error_does_not(self, rig: Rig) -> None:
        rig.stub.fail("reg_mr_iova2", errno.EPERM)
        assert "MEMLOCK" not in said(rig.ib, rig.pd.reg_mr, 0x1000, 10, 1)

    def test_a_soft_limit_is_shown_as_it_is_now(self, rig: Rig) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        most = 1 << 22 if hard == resource.RLIM_INFINITY else min(hard, 1 << 22)
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (most, hard))
        try:
            rig.stub.fail("reg_mr_iova2", errno.ENOMEM)
            assert f"is {most} bytes (soft)" in said(rig.ib, rig.pd.reg_mr, 0x1000, 10, 1)
        finally:
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (soft, hard))


class TestRegions:
    def test_remote_writes_need_local_ones(self, rig: Rig) -> None:
        rig.stub.fail("reg_mr_iova2", errno.EINVAL)
        assert "need LOCAL_WRITE" in said(rig.ib, rig.pd.reg_mr, 0x1000, 10, rig.ib.AccessFlags.REMOTE_WRITE)

    def test_memory_that_is_not_ours(self, rig: Rig) -> None:
        rig.stub.fail("reg_mr_iova2", errno.EFAULT)
        text = said(rig.ib, rig.pd.reg_mr, 0x1234000, 10, 1)
        assert "not all of it is memory of this process" in text and "0x1234000" in text and "CUDA" not in text


# A libcuda that knows one address, as device memory. Others are none of its, as those of host memory are.
FAKE_CUDA = """
int cuPointerGetAttribute(void *data, int attribute, unsigned long long address)
{
    if (attribute != 2 || address != 0x7f0000000000ull)
        return 1;
    *(unsigned *)data = 2;
    return 0;
}
"""
ON_CUDA = """
import ctypes, errno, sys
import ibverbs as ib
sys.path.insert(0, sys.argv[2])
from stub_control import Stub
if sys.argv[1]:
    ctypes.CDLL(sys.argv[1])
pd = ib.get_device_list()[0].open().alloc_pd()
stub = Stub()
for address in (0x7f0000000000, 0x1000):
    stub.fail("reg_mr_iova2", errno.EFAULT)
    try:
        pd.reg_mr(address, 4096, 1)
    except ib.VerbsError as error:
        print(error)
"""


class TestDevicePointers:
    def run(self, library: str) -> list[str]:
        here = str(Path(__file__).parent)
        done = subprocess.run(
            [sys.executable, "-c", ON_CUDA, library, here], stdout=subprocess.PIPE, text=True, timeout=60, check=True
        )
        return done.stdout.splitlines()

    @pytest.mark.needs("stub")
    def test_a_pointer_of_a_gpu_is_recognised_where_cuda_is_loaded(self, tmp_path: Path) -> None:
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
        if not compiler:
            pytest.skip("needs a C compiler")
        source, library = tmp_path / "cuda.c", tmp_path / "libcuda.so.1"
        source.write_text(FAKE_CUDA)
        command = [*compiler.split(), "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", str(library), str(source)]
        subprocess.run(command, check=True, timeout=60)
        device, host = self.run(str(library))
        assert "CUDA device memory" in device and "register_tensor" in device and "nvidia_peermem" in device
        assert "CUDA" not in host and "not all of it is memory of this process" in host

    @pytest.mark.needs("stub")
    def test_without_cuda_nothing_is_loaded_or_claimed(self) -> None:
        for line in self.run(""):
            assert "CUDA" not in line and "not all of it is memory of this process" in line


# ---- moves ----------------------------------------------------------------------------------------------------------


@pytest.mark.only("ibverbs")
class TestMoves:
    """What a refused ibv_modify_qp says, by the rules of the specification; on the stub, which keeps to them."""

    def modify(self, rig: Rig, qp: Any, mask: Any, **fields: Any) -> str:
        return said(rig.ib, qp.modify, mask, **fields)

    @pytest.mark.parametrize(("qp_type", "missing"), [(RC, "ACCESS_FLAGS"), (UC, "ACCESS_FLAGS"), (UD, "QKEY")])
    def test_a_missing_attribute_is_named(self, rig: Rig, qp_type: int, missing: str) -> None:
        qp, m = rig.qp(qp_type, RESET), rig.ib.QPAttrMask
        text = self.modify(rig, qp, m.STATE | m.PKEY_INDEX | m.PORT, qp_state=INIT, port_num=1)
        assert f"attr_mask lacks {missing}" in text

    def test_several_are_named_together(self, rig: Rig) -> None:
        qp, m = rig.qp(RC, INIT), rig.ib.QPAttrMask
        text = self.modify(rig, qp, m.STATE | m.AV | m.PATH_MTU | m.RQ_PSN, qp_state=RTR)
        assert "attr_mask lacks MIN_RNR_TIMER|MAX_DEST_RD_ATOMIC|DEST_QPN" in text

    def test_a_surplus_attribute_is_named(self, rig: Rig) -> None:
        qp, m = rig.qp(RC, RESET), rig.ib.QPAttrMask
        mask = m.STATE | m.PKEY_INDEX | m.PORT | m.ACCESS_FLAGS | m.TIMEOUT | m.SQ_PSN
        text = self.modify(rig, qp, mask, qp_state=INIT, port_num=1)
        assert "TIMEOUT|SQ_PSN cannot be set in this step" in text and "lacks" not in text

    def test_a_way_that_does_not_exist_names_those_that_do(self, rig: Rig) -> None:
        qp, m = rig.qp(RC, RTS), rig.ib.QPAttrMask
        text = self.modify(rig, qp, m.STATE, qp_state=RTR)
        assert "from RTS it can go to RTS, SQD, ERR or RESET" in text

    def test_an_attribute_without_a_move_is_told_the_state(self, rig: Rig) -> None:
        qp, m = rig.qp(RC, RTR), rig.ib.QPAttrMask
        text = self.modify(rig, qp, m.TIMEOUT, timeout=3)
        assert "in RTR, with TIMEOUT" in text

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"max_dest_rd_atomic": 17}, "max_dest_rd_atomic=17 is over the device's max_qp_rd_atom=16"),
            ({"path_mtu": 5}, "path_mtu=5 is over the active_mtu=3 of port 1"),
        ],
    )
    def test_a_value_over_a_limit_is_compared(self, rig: Rig, fields: dict[str, int], words: str) -> None:
        qp, m = rig.qp(RC, INIT), rig.ib.QPAttrMask
        mask = m.STATE | m.AV | m.PATH_MTU | m.RQ_PSN | m.DEST_QPN | m.MIN_RNR_TIMER | m.MAX_DEST_RD_ATOMIC
        rig.stub.fail("modify_qp", errno.EINVAL)
        attr = rig.ib.AHAttr(dgid=bytes(range(16)), port_num=1)
        values = {"qp_state": RTR, "ah_attr": attr, "path_mtu": 3, "max_dest_rd_atomic": 1, **fields}
        text = self.modify(rig, qp, mask, **values)
        assert words in text and "lacks" not in text

    def test_a_port_that_is_not_there(self, rig: Rig) -> None:
        assert "port_num=2 is none of the device's: it has 1" in said(rig.ib, rig.qp(RC, RESET).to_init, 2)

    def test_a_partition_key_that_is_not_there(self, rig: Rig) -> None:
        rig.stub.fail("modify_qp", errno.EINVAL)
        assert "pkey_index=2 is outside" in said(rig.ib, rig.qp(RC, RESET).to_init, 1, 0, pkey_index=2)


@pytest.mark.only("ibverbs")
@pytest.mark.needs("rc")
def test_the_state_is_the_devices_not_the_one_that_was_asked_for_last(ib: Any, rc: tuple[Endpoint, Endpoint]) -> None:
    a, b = rc
    a.qp.post_send(a.write_wr(b, rkey=b.mr.rkey ^ 0x5A5A00))
    poll_for(a.send_cq, 1)
    text = said(ib, a.qp.to_rts, 0)
    assert "from ERR to RTS" in text and "from ERR it can go to ERR or RESET" in text


@pytest.mark.only("ibverbs")
@pytest.mark.needs("rc")
class TestGids:
    @pytest.fixture
    def end(self, make: Make, node: Node, ib: Any) -> Endpoint:
        end = make()
        end.qp.to_init(node.port, all_access(ib))
        return end

    def test_an_empty_entry_is_named_before_a_queue_pair_is_lost(self, ib: Any, end: Endpoint) -> None:
        table = {e.gid_index for e in end.ctx.query_gid_table(end.node.port)}
        empty = next(i for i in range(256) if i not in table)
        if empty >= end.ctx.query_port(end.node.port).gid_tbl_len:
            pytest.skip("needs a GID table with an empty entry")
        text = said(ib, end.qp.to_rtr, end.info(), empty)
        assert f"sgid_index={empty} is an empty entry of the GID table of port {end.node.port}" in text
        assert end.qp.state == ib.QPState.INIT

    @pytest.mark.needs("roce")
    def test_a_peer_of_another_family_is_named(self, ib: Any, end: Endpoint, node: Node) -> None:
        info = end.info()
        info.gid = bytes.fromhex("20010db8000000000000000000000001")
        text = said(ib, end.qp.to_rtr, info, node.gid_index)
        assert "of another family" in text and "2001:db8::1" in text

    @pytest.mark.needs("roce")
    def test_ethernet_without_a_global_route(self, ib: Any, end: Endpoint, node: Node) -> None:
        text = said(ib, end.qp.to_rtr, end.info(), node.gid_index, is_global=0)
        assert "is Ethernet, which needs a global route" in text


class TestQueries:
    def test_a_port_that_is_not_there(self, rig: Rig) -> None:
        for ask in (rig.ctx.query_port, rig.ctx.query_gid_table, lambda port: rig.ctx.query_gid(port, 0)):
            for port in (0, 9):
                assert f"port_num={port} is none of the device's: it has " in said(rig.ib, ask, port)

    def test_an_index_outside_of_the_table(self, rig: Rig) -> None:
        text = said(rig.ib, rig.ctx.query_gid, 1, 200)
        entries = rig.ctx.query_port(1).gid_tbl_len
        assert f"index=200 is outside of the GID table of port 1, which has {entries} entries" in text

    def test_another_failure_blames_neither(self, rig: Rig) -> None:
        rig.stub.fail("query_gid", errno.EIO)
        text = said(rig.ib, rig.ctx.query_gid, 1, 0)
        assert text.endswith(f"port_num 1, index 0 of {rig.ctx.name}")


@pytest.mark.only("ibverbs")
class TestGidsOnTheStub:
    def test_an_index_outside_of_the_table(self, rig: Rig) -> None:
        qp = rig.qp(RC, RESET)
        qp.to_init(1)
        text = said(rig.ib, qp.to_rtr, rig.ib.QPInfo(1, 2, 0, bytes(range(16)), 1, 3), 200)
        assert "sgid_index=200 is outside of the GID table of port 1, which has 8 entries" in text

    def test_of_an_address_handle(self, rig: Rig) -> None:
        rig.stub.fail("create_ah", errno.EINVAL)
        attr = rig.ib.AHAttr(dgid=bytes(range(16)), sgid_index=5)
        assert "sgid_index=5 is an empty entry" in said(rig.ib, rig.pd.create_ah, attr)

    def test_an_address_that_does_not_resolve(self, rig: Rig) -> None:
        rig.stub.fail("create_ah", errno.ETIMEDOUT)
        dgid = bytes(10) + b"\xff\xff\xc0\x00\x02\x09"
        text = said(rig.ib, rig.pd.create_ah, rig.ib.AHAttr(dgid=dgid, sgid_index=1))
        assert "::ffff:192.0.2.9 was not found from sgid_index=1, which is ::ffff:192.0.2.1" in text


@pytest.mark.only("ibverbs")
class TestDepths:
    """How many reads at once: more than the device has is told before it refuses."""

    @pytest.mark.parametrize(
        ("name", "limit_name"), [("max_dest_rd_atomic", "max_qp_rd_atom"), ("max_rd_atomic", "max_qp_init_rd_atom")]
    )
    def test_over_the_limit_is_a_range_error_and_touches_nothing(self, rig: Rig, name: str, limit_name: str) -> None:
        limit = getattr(rig.ctx.query_device(), limit_name)
        responder = name == "max_dest_rd_atomic"
        qp = rig.qp(RC, INIT if responder else RTR)
        before = rig.stub.calls("modify_qp")
        info = rig.ib.QPInfo(1, 2, 0, bytes(range(16)), 1, 3)
        words = f"{name} must be between 0 and {limit}, the {limit_name} of device"
        with pytest.raises(rig.ib.RangeError, match=words):
            qp.to_rtr(info, 0, max_dest_rd_atomic=limit + 1) if responder else qp.to_rts(0, max_rd_atomic=limit + 1)
        assert rig.stub.calls("modify_qp") == before
        qp.to_rtr(info, 0, max_dest_rd_atomic=limit) if responder else qp.to_rts(0, max_rd_atomic=limit)

    def test_the_default_asks_the_device_nothing(self, rig: Rig) -> None:
        qp = rig.qp(RC, INIT)
        before = rig.stub.calls("query_device")
        qp.to_rtr(rig.ib.QPInfo(1, 2, 0, bytes(range(16)), 1, 3), 0)
        qp.to_rts(0)
        assert rig.stub.calls("query_device") == before

    @pytest.mark.needs("rc")
    def test_on_a_device_too(self, ib: Any, make: Make, node: Node) -> None:
        end = make()
        limit = end.ctx.query_device().max_qp_rd_atom
        if limit >= 255:
            pytest.skip("needs a device whose limit is below what the field holds")
        end.qp.to_init(node.port)
        with pytest.raises(ib.RangeError, match=str(limit)):
            end.qp.to_rtr(end.info(), node.gid_index, max_dest_rd_atomic=limit + 1)
        assert end.qp.state == ib.QPState.INIT


# ---- posting --------------------------------------------------------------------------------------------------------


@pytest.mark.only("ibverbs")
class TestPosting:
    def test_three_reasons_for_enomem_are_three_errors(self, rig: Rig) -> None:
        """A full queue, inline data too long, too many pieces: some providers say ENOMEM to all of them."""
        ib = rig.ib
        qp = rig.qp(max_send_wr=4, max_send_sge=2, max_inline_data=16)
        cap = qp.query()[1]
        with pytest.raises(ib.RangeError, match=f"max_send_sge={cap.max_send_sge}"):
            qp.post_send(rig.wr(sg_list=[rig.mr.sge(1)] * (cap.max_send_sge + 1)))
        with pytest.raises(ib.RangeError, match=f"max_inline_data={cap.max_inline_data}"):
            qp.post_send(rig.wr(sg_list=[rig.mr.sge(cap.max_inline_data + 1)], send_flags=ib.SendFlags.INLINE))
        rig.stub.hold()
        with pytest.raises(error_of(ib), match=f"full; it was granted max_send_wr={cap.max_send_wr}"):
            qp.post_send([rig.wr()] * (cap.max_send_wr + 1))

    @pytest.mark.parametrize("answer", [errno.EINVAL, -errno.EINVAL])
    def test_one_dialect_for_what_providers_return(self, rig: Rig, answer: int) -> None:
        """A positive errno, or -1 and errno: the same error."""
        qp = rig.qp()
        rig.stub.fail("post_send", answer)
        with pytest.raises(error_of(rig.ib)) as caught:
            qp.post_send(rig.wr())
        assert caught.value.errno == errno.EINVAL

    @pytest.mark.parametrize("state", [RESET, INIT, RTR])
    def test_a_send_in_an_early_state_names_it_and_the_one_it_needs(self, rig: Rig, state: int) -> None:
        qp = rig.qp(RC, state)
        rig.stub.fail("post_send", errno.EINVAL)
        name = rig.ib.QPState(state).name
        assert f"is in state {name}, and its send queue needs RTS" in said(rig.ib, qp.post_send, rig.wr())

    def test_a_receive_in_reset_names_it_and_the_one_it_needs(self, rig: Rig) -> None:
        qp = rig.qp(RC, RESET)
        rig.stub.fail("post_recv", errno.EINVAL)
        text = said(rig.ib, qp.post_recv, rig.ib.RecvWR(1))
        assert "is in state RESET, and its receive queue needs INIT" in text

    def test_a_working_state_is_not_blamed(self, rig: Rig) -> None:
        qp = rig.qp(RC, RTS)
        rig.stub.fail("post_send", errno.EINVAL)
        assert "needs" not in said(rig.ib, qp.post_send, rig.wr())
