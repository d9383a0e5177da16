# SPDX-License-Identifier: BSD-3-Clause
"""Posting on the stub: everything is checked before anything is posted, requests stay as they are, and what the
provider refuses is told by number."""

from __future__ import annotations

import ctypes
import errno
import gc
import threading
import weakref
from typing import Any, Callable

import pytest
from packages import error_of
from stub_control import BAD_WR_NULL, BAD_WR_RIGHT, BAD_WR_UNTOUCHED, BAD_WR_WILD
from stub_fixtures import RC, RESET, SRD, UC, UD, Rig

pytestmark = pytest.mark.needs("stub")

SIGNALED, INLINE = 2, 8
SEND_FIELDS = (
    "wr_id", "sg_list", "opcode", "send_flags", "remote_addr", "rkey", "imm_data", "ah", "remote_qpn", "remote_qkey",
)  # fmt: skip


def posts(rig: Rig) -> int:
    return sum(rig.stub.calls(verb) for verb in (rig.post_verb, "post_recv", "post_srq_recv"))


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1000])
def test_any_number_of_requests_goes_in_one_call_and_in_order(rig: Rig, count: int) -> None:
    qp = rig.qp()
    rig.stub.capture()
    qp.post_send([rig.wr(i) for i in range(count)])
    assert [g.wr.wr_id for g in rig.stub.captured()] == list(range(count))
    assert rig.stub.calls(rig.post_verb) == 1
    assert [wc.wr_id for wc in rig.drain()] == list(range(count))
    qp.post_recv([rig.ib.RecvWR(i, [rig.mr.sge(8)]) for i in range(count)])
    assert rig.stub.calls("post_recv") == 1
    assert [wc.wr_id for wc in rig.drain()] == list(range(count))


def test_one_request_may_stand_many_times_in_one_post(rig: Rig) -> None:
    qp, w = rig.qp(), rig.wr(5)
    rig.stub.capture()
    qp.post_send([w] * 64)
    captured = rig.stub.captured()
    assert [g.wr.wr_id for g in captured] == [5] * 64
    assert len({g.at for g in captured}) == 64
    assert captured[-1].wr.next == 0
    assert len(rig.drain()) == 64
    r = rig.ib.RecvWR(6, [rig.mr.sge(1)])
    qp.post_recv([r] * 64)
    assert [wc.wr_id for wc in rig.drain()] == [6] * 64


@pytest.mark.parametrize("make", [list, tuple, iter, lambda x: (w for w in x), lambda x: dict.fromkeys(x).keys()])
def test_requests_come_in_any_iterable(rig: Rig, make: Any) -> None:
    qp = rig.qp()
    qp.post_send(make([rig.wr(i) for i in range(70)]))
    assert [wc.wr_id for wc in rig.drain()] == list(range(70))
    qp.post_recv(make([rig.recv_wr(i) for i in range(70)]))
    assert [wc.wr_id for wc in rig.drain()] == list(range(70))


@pytest.mark.parametrize("nothing", [[], (), iter([]), {}, set()])
def test_an_empty_post_does_nothing(rig: Rig, nothing: Any) -> None:
    qp = rig.qp()
    assert qp.post_send(nothing) is None
    assert qp.post_recv(nothing) is None
    assert posts(rig) == 0


def test_a_post_returns_none_and_takes_its_argument_by_name(rig: Rig) -> None:
    qp = rig.qp()
    assert qp.post_send(wrs=rig.wr()) is None
    assert qp.post_recv(wrs=[rig.recv_wr()]) is None
    for wrong in ({}, {"wr": rig.wr()}, {"wrs": rig.wr(), "more": 1}):
        with pytest.raises(TypeError):
            qp.post_send(**wrong)
    with pytest.raises(TypeError):
        qp.post_send(rig.wr(), rig.wr())
    with pytest.raises(TypeError):
        qp.post_send(rig.wr(), wrs=rig.wr())


def snapshot(wr: Any) -> list[Any]:
    return [list(v) if isinstance(v, list) else v for v in (getattr(wr, name) for name in SEND_FIELDS)]


@pytest.mark.only("ibverbs")
def test_a_post_leaves_its_requests_as_they_were(rig: Rig) -> None:
    ib = rig.ib
    qp = rig.qp()
    wrs = []
    for opcode in range(7):
        wrs.append(
            ib.SendWR(opcode, [rig.mr.sge(8, opcode), ib.SGE(1, 2, 3)], opcode, 2, 3, 4, 0x01020304, 6, 7, None, 9, 10)
        )
    before = [snapshot(w) for w in wrs]
    lists = [w.sg_list for w in wrs]
    for _ in range(3):
        qp.post_send(wrs)
    assert [snapshot(w) for w in wrs] == before
    assert all(w.sg_list is kept for w, kept in zip(wrs, lists))
    assert len(rig.drain()) == 21


def test_an_sg_list_may_change_between_posts(rig: Rig) -> None:
    ib, qp, w = rig.ib, rig.qp(), rig.wr(sg_list=())
    rig.stub.capture()
    qp.post_send(w)
    w.sg_list.append(ib.SGE(1, 2, 3))
    qp.post_send(w)
    w.sg_list[0] = ib.SGE(4, 5, 6)
    w.sg_list.append(ib.SGE(7, 8, 9))
    qp.post_send(w)
    w.sg_list = []
    qp.post_send(w)
    w.sg_list = [ib.SGE(1, 1, 1)]
    w.sg_list[0].length = 77
    qp.post_send(w)
    assert [g.sges for g in rig.stub.captured()] == [
        [],
        [(1, 2, 3)],
        [(4, 5, 6), (7, 8, 9)],
        [],
        [(1, 77, 1)],
    ]
    rig.drain()


def test_the_constructor_copies_its_sg_list_and_the_attribute_takes_a_list(rig: Rig) -> None:
    ib = rig.ib
    entries = [ib.SGE(1, 2, 3)]
    w = ib.SendWR(sg_list=entries)
    entries.append(ib.SGE(4, 5, 6))
    assert len(w.sg_list) == 1
    w.sg_list = entries
    assert w.sg_list is entries
    for wrong in ((ib.SGE(1, 2, 3),), iter(entries), 7, "x"):
        with pytest.raises(TypeError, match="sg_list"):
            w.sg_list = wrong
    assert w.sg_list is entries
    assert isinstance(ib.SendWR().sg_list, list) and isinstance(ib.RecvWR(sg_list=iter(entries)).sg_list, list)


def refused(rig: Rig, qp: Any, bad: Any, kind: Any, index: int, *says: str, call: str = "post_send") -> Any:
    """`bad` raises at its place, with good ones around it, and nothing reaches the library."""
    before = posts(rig)
    good: Any = rig.wr() if call == "post_send" else rig.recv_wr()
    if call == "post_send" and qp.qp_type == UD:
        good = rig.wr(ah=rig.ah())
    with pytest.raises(kind) as caught:
        getattr(qp, call)([good] * index + [bad] + [good])
    assert posts(rig) == before, "something was posted"
    error = caught.value
    if not isinstance(error, TypeError):
        assert getattr(error, "index", None) == index
    words = str(error)
    for part in says:
        assert part in words, words
    assert str(index) in words, f"the message does not say which request: {words}"
    return error


@pytest.mark.parametrize("index", [0, 1, 30, 100])
def test_too_many_entries_are_found_before_posting(rig: Rig, index: int) -> None:
    qp = rig.qp(max_send_sge=3, max_recv_sge=2)
    bad = rig.wr(sg_list=[rig.mr.sge(1)] * 4)
    refused(rig, qp, bad, ValueError, index, "4", "3")
    refused(rig, qp, rig.ib.RecvWR(1, [rig.mr.sge(1)] * 3), ValueError, index, "3", "2", call="post_recv")


@pytest.mark.parametrize("index", [0, 1, 30, 100])
def test_too_much_inline_data_is_found_before_posting(rig: Rig, index: int) -> None:
    qp = rig.qp(max_inline_data=32)
    flags = SIGNALED | INLINE
    refused(rig, qp, rig.wr(sg_list=[rig.mr.sge(33)], send_flags=flags), ValueError, index, "33", "32")
    two = [rig.ib.SGE(0, 2**32 - 1), rig.ib.SGE(0, 2)]
    refused(rig, qp, rig.wr(sg_list=two, send_flags=flags), ValueError, index, "32")
    data = rig.ib.SGE(ctypes.addressof(ctypes.create_string_buffer(32)), 28)
    qp.post_send(rig.wr(sg_list=[data, rig.ib.SGE(data.addr, 4)], send_flags=flags))
    assert len(rig.drain()) == 1


@pytest.mark.parametrize("index", [0, 1, 30])
@pytest.mark.parametrize("opcode", [7, 8, 9, 10, 11, 15, 255, 2**31, 2**32 - 1])
def test_an_opcode_without_fields_is_a_value_error(rig: Rig, index: int, opcode: int) -> None:
    for qp_type in (SRD, UD) if rig.efa else (RC, UC, UD):
        qp = rig.qp(qp_type)
        bad = rig.wr(opcode=opcode, ah=rig.ah() if qp_type in (UD, SRD) else None)
        refused(rig, qp, bad, ValueError, index)


@pytest.mark.parametrize("index", [0, 1, 30])
def test_ud_needs_an_address_handle_and_takes_sends_only(rig: Rig, index: int) -> None:
    qp, ah = rig.qp(UD), rig.ah()
    refused(rig, qp, rig.wr(ah=None), ValueError, index, "ah")
    for opcode in (0, 1, 4, 5, 6):
        refused(rig, qp, rig.wr(opcode=opcode, ah=ah), ValueError, index)


@pytest.mark.only("ibverbs")
@pytest.mark.parametrize("qp_type", [RC, UC])
def test_connected_queue_pairs_take_no_address_handle(rig: Rig, qp_type: int) -> None:
    qp, ah = rig.qp(qp_type), rig.ah()
    for index in (0, 1, 30):
        refused(rig, qp, rig.wr(ah=ah), ValueError, index, "ah")


@pytest.mark.parametrize("index", [0, 1, 30, 100])
def test_a_request_on_a_closed_region_is_found_before_posting(rig: Rig, index: int) -> None:
    ib, qp = rig.ib, rig.qp()
    mr = rig.pd.reg_mr(0x1000, 0x1000, 1)
    entries = [mr.sge(1), ib.SGE(mr, 2)]
    mr.close()
    for entry in entries:
        error = refused(rig, qp, rig.wr(sg_list=[rig.mr.sge(1), entry]), error_of(ib), index, "MR")
        assert error.errno == errno.EBADF
        refused(rig, qp, ib.RecvWR(1, [rig.mr.sge(1), entry]), error_of(ib), index, "MR", call="post_recv")
    if rig.efa:
        return
    srq = rig.keep(rig.pd.create_srq(max_sge=2))
    refused(rig, srq, ib.RecvWR(1, [entries[0]]), error_of(ib), index, "MR", call="post_recv")


@pytest.mark.parametrize("index", [0, 1, 30, 100])
def test_a_request_to_a_closed_address_handle_is_found_before_posting(rig: Rig, index: int) -> None:
    qp = rig.qp(UD)
    ah = rig.make_ah()
    w = rig.wr(ah=ah)
    qp.post_send(w)
    ah.close()
    error = refused(rig, qp, w, rig.Error, index, "AH")
    assert error.errno == errno.EBADF
    assert w.ah is ah
    rig.drain()


def test_wrong_things_in_a_post_are_type_errors_and_nothing_is_posted(rig: Rig) -> None:
    ib, qp = rig.ib, rig.qp()
    for bad in (None, 1, "wr", ib.RecvWR(), object(), [rig.wr()]):
        refused(rig, qp, bad, TypeError, 3)
    for bad in (None, 1, rig.wr(), object()):
        refused(rig, qp, bad, TypeError, 3, call="post_recv")
    w = rig.wr()
    for entry in (None, 1, rig.mr, object()):
        w.sg_list = [rig.mr.sge(1), entry]
        refused(rig, qp, w, TypeError, 3)


@pytest.mark.parametrize("bad", [None, 1, object()])
def test_what_cannot_be_iterated_is_named(rig: Rig, bad: Any) -> None:
    ib, qp, kind = rig.ib, rig.qp(), type(bad).__name__
    for post in (qp.post_send, qp.post_recv):
        with pytest.raises(TypeError, match=f"^wrs must be a request or an iterable of requests, not {kind}$"):
            post(bad)
    if bad is not None:
        for make in (rig.wr, ib.RecvWR):
            with pytest.raises(TypeError, match=f"^sg_list must be an iterable of SGEs or None, not {kind}$"):
                make(sg_list=bad)


def test_what_an_iterable_itself_raises_comes_through(rig: Rig) -> None:
    class Odd:
        def __iter__(self) -> Any:
            raise TypeError("not today")

    with pytest.raises(TypeError, match="^not today$"):
        rig.qp().post_send(Odd())
    with pytest.raises(TypeError, match="^not today$"):
        rig.wr(sg_list=Odd())


@pytest.mark.only("ibverbs")  # of efa all are refused, which test_efa_posting.py is about
@pytest.mark.parametrize("count", [1, 5, 64, 65, 300])
@pytest.mark.parametrize("bad_wr", [BAD_WR_RIGHT])
def test_what_the_provider_refuses_is_told_by_number(rig: Rig, count: int, bad_wr: int) -> None:
    ib, qp = rig.ib, rig.qp()
    for after in {0, 1, count // 2, count - 1}:
        if after >= count:
            continue
        rig.stub.refuse("post_send", after, errno.ENOMEM, bad_wr)
        with pytest.raises(error_of(ib)) as caught:
            qp.post_send([rig.wr(i) for i in range(count)])
        error = caught.value
        assert (error.errno, error.operation) == (errno.ENOMEM, "ibv_post_send")
        assert (error.index, error.posted) == (after, after)
        assert [wc.wr_id for wc in rig.drain()] == list(range(after))
        rig.stub.refuse("post_recv", after, errno.EINVAL, bad_wr)
        with pytest.raises(error_of(ib)) as caught:
            qp.post_recv([ib.RecvWR(i) for i in range(count)])
        assert (caught.value.errno, caught.value.operation) == (errno.EINVAL, "ibv_post_recv")
        assert (caught.value.index, caught.value.posted) == (after, after)
        assert [wc.wr_id for wc in rig.drain()] == list(range(after))


@pytest.mark.only("ibverbs")
@pytest.mark.parametrize("bad_wr", [BAD_WR_UNTOUCHED, BAD_WR_NULL, BAD_WR_WILD])
def test_a_provider_that_does_not_say_which_request_is_not_believed(rig: Rig, bad_wr: int) -> None:
    qp = rig.qp()
    acts: list[tuple[str, Callable[[], Any]]] = [
        ("post_send", lambda: qp.post_send([rig.wr(i) for i in range(5)])),
        ("post_recv", lambda: qp.post_recv([rig.ib.RecvWR(i) for i in range(5)])),
    ]
    for verb, act in acts:
        rig.stub.refuse(verb, 2, errno.ENOMEM, bad_wr)
        with pytest.raises(rig.Error) as caught:
            act()
        assert caught.value.errno == errno.ENOMEM
        assert caught.value.index is None and caught.value.posted is None
        assert len(rig.drain()) == 2


@pytest.mark.parametrize("err", [errno.ENOMEM, -errno.ENOMEM])
def test_a_provider_that_returns_minus_one_and_errno_is_understood(rig: Rig, err: int) -> None:
    qp = rig.qp()
    for verb in (rig.post_verb, "post_recv"):
        rig.stub.fail(verb, err)
    with pytest.raises(rig.Error) as caught:
        qp.post_send(rig.wr())
    assert caught.value.errno == errno.ENOMEM
    with pytest.raises(rig.Error) as caught:
        qp.post_recv(rig.recv_wr())
    assert caught.value.errno == errno.ENOMEM


@pytest.mark.only("ibverbs")
def test_a_full_send_queue_says_how_deep_it_is(rig: Rig) -> None:
    qp = rig.qp(max_send_wr=10, max_recv_wr=6)
    rig.stub.hold()
    with pytest.raises(rig.Error) as caught:
        qp.post_send([rig.wr(i) for i in range(12)])
    assert (caught.value.errno, caught.value.index, caught.value.posted) == (errno.ENOMEM, 10, 10)
    assert "10" in str(caught.value)
    with pytest.raises(rig.Error) as caught:
        qp.post_recv([rig.ib.RecvWR(i) for i in range(8)])
    assert (caught.value.errno, caught.value.index, caught.value.posted) == (errno.ENOMEM, 6, 6)
    assert "6" in str(caught.value)
    assert rig.stub.release(qp, 100) == 10
    assert rig.stub.release(qp, 100, receive=True) == 6
    assert len(rig.drain()) == 16


def test_a_queue_pair_in_the_wrong_state_says_so(rig: Rig) -> None:
    qp = rig.qp(state=RESET)
    with pytest.raises(rig.Error) as caught:
        qp.post_send(rig.wr())
    assert (caught.value.errno, caught.value.posted) == (errno.EINVAL, 0)
    assert "RESET" in str(caught.value)
    with pytest.raises(rig.Error) as caught:
        qp.post_recv(rig.recv_wr())
    assert caught.value.errno == errno.EINVAL
    assert "RESET" in str(caught.value)


def test_a_closed_queue_takes_nothing(rig: Rig) -> None:
    qp = rig.make_qp()
    qp.close()
    acts: list[tuple[Callable[[], Any], str]] = [
        (lambda: qp.post_send(rig.wr()), "post_send"),
        (lambda: qp.post_send([]), "post_send"),
        (lambda: qp.post_recv(rig.recv_wr()), "post_recv"),
    ]
    if not rig.efa:
        srq = rig.pd.create_srq()
        srq.close()
        acts.append((lambda: srq.post_recv(rig.recv_wr()), "post_recv"))
    for act, name in acts:
        with pytest.raises(rig.Error, match=name) as caught:
            act()
        assert caught.value.errno == errno.EBADF


def test_a_posted_request_keeps_nothing_alive(rig: Rig) -> None:
    qp = rig.qp()
    w = rig.wr()
    gone = weakref.ref(rig)  # the rig itself can be referred to weakly; requests cannot, so count their references
    import sys

    before = sys.getrefcount(w), sys.getrefcount(w.sg_list[0]), sys.getrefcount(rig.mr)
    for _ in range(50):
        qp.post_send([w] * 70)
        rig.drain()
    gc.collect()
    assert (sys.getrefcount(w), sys.getrefcount(w.sg_list[0]), sys.getrefcount(rig.mr)) == before
    assert gone() is rig


def test_a_refused_post_keeps_nothing_alive(rig: Rig) -> None:
    import sys

    qp, w, bad = rig.qp(max_send_sge=1), rig.wr(), rig.wr(sg_list=[rig.mr.sge(1)] * 2)
    before = sys.getrefcount(w), sys.getrefcount(bad), sys.getrefcount(w.sg_list[0])
    for _ in range(50):
        with pytest.raises(ValueError):
            qp.post_send([w] * 70 + [bad])
        with pytest.raises(ValueError):
            qp.post_send(x for x in [w] * 70 + [bad])
    assert (sys.getrefcount(w), sys.getrefcount(bad), sys.getrefcount(w.sg_list[0])) == before


def test_one_request_may_be_posted_from_many_threads(rig: Rig) -> None:
    w = rig.wr(9)
    rounds, failures = 2000, []
    cqs = [rig.keep(rig.ctx.create_cq(256)) for _ in range(4)]
    qps = [rig.qp(send_cq=cq) for cq in cqs]

    def work(qp: Any, cq: Any) -> None:
        for i in range(rounds):
            qp.post_send([w] * (1 + i % 70))
            got = cq.poll(100)
            if [wc.wr_id for wc in got] != [9] * (1 + i % 70) or {wc.qp_num for wc in got} != {qp.qp_num}:
                failures.append(got)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(qps, cqs)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_a_zero_length_entry_and_an_empty_list_go_through(rig: Rig) -> None:
    qp = rig.qp()
    rig.stub.capture()
    qp.post_send([rig.wr(1, sg_list=[]), rig.wr(2, sg_list=[rig.mr.sge(0)])])
    assert [g.sges for g in rig.stub.captured()] == [[], [(rig.mr.addr, 0, rig.mr.lkey)]]
    rig.drain()


@pytest.mark.only("ibverbs")
def test_unsignaled_requests_complete_silently_and_sq_sig_all_makes_all_speak(rig: Rig) -> None:
    quiet, loud = rig.qp(), rig.qp(sq_sig_all=True)
    for qp in (quiet, loud):
        qp.post_send([rig.wr(1, send_flags=0), rig.wr(2)])
    assert [(wc.qp_num, wc.wr_id) for wc in rig.drain()] == [
        (quiet.qp_num, 2),
        (loud.qp_num, 1),
        (loud.qp_num, 2),
    ]


def test_subclasses_of_requests_can_be_posted(rig: Rig) -> None:
    ib = rig.ib

    MySend, MyRecv, MySge = (type(f"My{base.__name__}", (base,), {}) for base in (ib.SendWR, ib.RecvWR, ib.SGE))

    qp = rig.qp()
    rig.stub.capture()
    send = MySend(1, [MySge(10, 20, 30)], 2, 2, **rig.to())
    send.note = "subclasses have room for more"
    qp.post_send([send])
    qp.post_recv(MyRecv(2, [MySge(40, 50, 60)]))
    assert [g.sges for g in rig.stub.captured()] == [[(10, 20, 30)], [(40, 50, 60)]]
    rig.drain()
