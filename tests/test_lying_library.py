# SPDX-License-Identifier: BSD-3-Clause
"""A library that answers what it should not: the binding raises, keeps what it has, never reads beyond its arrays."""

from __future__ import annotations

import errno
from typing import Any, Callable

import pytest
from packages import error_of
from stub_control import NO_ERRNO
from stub_fixtures import RC, UD, Rig

pytestmark = pytest.mark.needs("stub")


@pytest.mark.parametrize("asked", [1, 4, 16, 17, 64, 1000])
@pytest.mark.parametrize("claim", [1, 2, 1000, 2**31 - 1])
def test_more_completions_than_asked_for_are_an_error(rig: Rig, asked: int, claim: int) -> None:
    value = min(asked + claim, 2**31 - 1)
    rig.stub.lie_poll(value)
    with pytest.raises(rig.Error) as caught:
        rig.cq.poll(asked)
    assert caught.value.operation == "ibv_poll_cq" and "more" in str(caught.value)
    rig.drain()


@pytest.mark.parametrize(
    ("value", "err"),
    [(-1, errno.EIO), (-2, errno.EIO), (-errno.EINVAL, errno.EINVAL), (-(2**31), errno.EIO)],
)
def test_a_negative_count_is_an_error(rig: Rig, value: int, err: int) -> None:
    """-1 and -2 are no errno: providers have both as codes of their own for a queue that cannot be polled."""
    rig.stub.lie_poll(value)
    with pytest.raises(rig.Error) as caught:
        rig.cq.poll(4)
    assert caught.value.operation == "ibv_poll_cq"
    assert caught.value.errno == err
    assert rig.cq.poll(4) == []


def test_completions_in_hand_survive_a_later_failure_of_the_same_poll(rig: Rig) -> None:
    """However the binding splits a large poll: what was reaped comes now or with the next call, in order."""
    qp = rig.qp()
    for nth in range(1, 12):
        qp.post_send([rig.wr(i) for i in range(150)])
        got: list[int] = []
        rig.stub.fail("poll_cq", errno.EIO, nth=nth)
        for _ in range(20):
            try:
                got += [wc.wr_id for wc in rig.cq.poll(100)]
            except rig.Error as error:
                assert error.errno == errno.EIO
        assert got == list(range(150))


def test_a_status_and_opcode_that_nobody_knows_come_up_as_numbers(rig: Rig) -> None:
    ib = rig.ib
    rig.stub.push_wc(rig.cq, wr_id=5, status=77, opcode=99, vendor_err=3)
    (wc,) = rig.cq.poll(1)
    assert (wc.status, wc.opcode, wc.is_success) == (77, 99, False)
    assert isinstance(wc.status_str, str)
    with pytest.raises(ib.CompletionError) as caught:
        wc.raise_for_status()
    error = caught.value
    assert (error.status, error.vendor_err, error.errno) == (77, 3, errno.EIO)
    assert error.wc is wc
    assert "77" in str(error)


#: A call that makes something, by the verb below it.
MAKERS: dict[str, Callable[[Rig], Any]] = {
    "open_device": lambda r: r.open(),
    "alloc_pd": lambda r: r.ctx.alloc_pd(),
    "reg_mr_iova2": lambda r: r.pd.reg_mr(0x1000, 16, 1),
    "reg_dmabuf_mr": lambda r: r.pd.reg_dmabuf_mr(0, 16, 0, 3, 1),
    "create_comp_channel": lambda r: r.ctx.create_comp_channel(),
    "create_cq": lambda r: r.ctx.create_cq(4),
    "create_srq": lambda r: r.pd.create_srq(),
    "create_qp": lambda r: r.make_qp(RC, 0),
    "create_ah": lambda r: r.make_ah(),
    "efadv_create_qp_ex": lambda r: r.make_qp(None, 0),
    "create_qp_ex": lambda r: r.make_qp(UD, 0),
    "efadv_create_cq": lambda r: r.ctx.create_cq_ex(4),
}
#: Those of one package alone.
ELSEWHERE = {"efadv_create_qp_ex": False, "create_qp_ex": False, "efadv_create_cq": False,
             "create_srq": True, "create_qp": True}  # fmt: skip


def skip_elsewhere(rig: Rig, verb: str) -> None:
    if ELSEWHERE.get(verb, not rig.efa) == rig.efa:
        pytest.skip("needs the package that calls it")


@pytest.mark.parametrize("verb", MAKERS)
def test_null_without_an_errno_is_still_an_error(rig: Rig, verb: str) -> None:
    skip_elsewhere(rig, verb)
    before = rig.stub.live_objects()
    rig.stub.fail(verb, NO_ERRNO)
    with pytest.raises(rig.Error) as caught:
        MAKERS[verb](rig)
    assert caught.value.errno > 0
    assert rig.stub.live_objects() == before


@pytest.mark.parametrize("verb", MAKERS)
@pytest.mark.parametrize("err", [errno.ENOMEM, errno.EINVAL, errno.EPERM, errno.EOPNOTSUPP, 524, 100000])
def test_an_error_of_making_names_the_verb_and_leaves_nothing(rig: Rig, verb: str, err: int) -> None:
    skip_elsewhere(rig, verb)
    before = rig.stub.live_objects()
    rig.stub.fail(verb, err)
    with pytest.raises(rig.Error) as caught:
        MAKERS[verb](rig)
    error = caught.value
    assert error.errno == err
    operation = "ibv_reg_mr" if verb == "reg_mr_iova2" else verb if verb.startswith("efadv_") else f"ibv_{verb}"
    assert error.operation.startswith(operation)
    assert operation in str(error)
    assert rig.stub.live_objects() == before
    MAKERS[verb](rig).close()


QUERIES: dict[str, Callable[[Rig, Any, Any], Any]] = {
    "query_device": lambda r, qp, srq: r.ctx.query_device(),
    "query_port": lambda r, qp, srq: r.ctx.query_port(1),
    "query_gid": lambda r, qp, srq: r.ctx.query_gid(1, 0),
    "modify_qp": lambda r, qp, srq: qp.to_init(qkey=1) if r.efa else qp.to_init(1),
    "query_qp": lambda r, qp, srq: qp.query(),
    "modify_srq": lambda r, qp, srq: srq.modify(srq_limit=1),
    "query_srq": lambda r, qp, srq: srq.query(),
    "req_notify_cq": lambda r, qp, srq: cq_with_channel(r).req_notify(),
}


def cq_with_channel(rig: Rig) -> Any:
    return rig.keep(rig.ctx.create_cq(4, rig.keep(rig.ctx.create_comp_channel())))


def shared_queue(rig: Rig) -> Any:
    return None if rig.efa else rig.keep(rig.pd.create_srq())


@pytest.mark.parametrize("verb", QUERIES)
@pytest.mark.parametrize("err", [errno.EIO, errno.ENODEV])
def test_an_error_of_asking_names_the_verb(rig: Rig, verb: str, err: int) -> None:
    if rig.efa and "srq" in verb:
        pytest.skip("needs a package with shared receive queues")
    qp, srq = rig.qp(state=0), shared_queue(rig)
    rig.stub.fail(verb, err)
    if verb == "query_device":
        rig.stub.fail("query_device_ex", err)
    with pytest.raises(rig.Error) as caught:
        QUERIES[verb](rig, qp, srq)
    assert caught.value.errno == err
    assert caught.value.operation.startswith(f"ibv_{verb}")
    rig.stub.reset()
    QUERIES[verb](rig, qp, srq)


@pytest.mark.parametrize("verb", ["modify_qp", "query_qp", "modify_srq", "query_srq", "req_notify_cq"])
def test_minus_one_with_errno_is_understood_everywhere(rig: Rig, verb: str) -> None:
    if rig.efa and "srq" in verb:
        pytest.skip("needs a package with shared receive queues")
    qp, srq = rig.qp(state=0), shared_queue(rig)
    rig.stub.fail(verb, -errno.ENODEV)
    with pytest.raises(rig.Error) as caught:
        QUERIES[verb](rig, qp, srq)
    assert caught.value.errno == errno.ENODEV


def test_the_state_of_a_queue_pair_is_asked_of_the_device(rig: Rig) -> None:
    qp = rig.qp(state=0)
    before = rig.stub.calls("query_qp")
    assert qp.state == 0
    assert rig.stub.calls("query_qp") == before + 1
    rig.stub.fail("query_qp", errno.EIO)
    with pytest.raises(rig.Error) as caught:
        qp.state  # noqa: B018
    assert caught.value.errno == errno.EIO


@pytest.mark.parametrize("err", [errno.EIO, errno.EAGAIN, errno.EBADF, errno.EINTR])
def test_a_channel_that_cannot_be_read(rig: Rig, err: int) -> None:
    """EAGAIN and EINTR are "not yet", everything else is told."""
    channel = rig.keep(rig.ctx.create_comp_channel())
    cq = rig.keep(rig.ctx.create_cq(4, channel))
    rig.stub.push_cq_event(cq)
    rig.stub.fail("get_cq_event", err)
    if err in (errno.EAGAIN, errno.EINTR):
        assert channel.get_cq_event(timeout=5) is cq
    else:
        with pytest.raises(rig.Error) as caught:
            channel.get_cq_event(timeout=5)
        assert (caught.value.errno, caught.value.operation) == (err, "ibv_get_cq_event")
        assert channel.get_cq_event(timeout=5) is cq


@pytest.mark.parametrize("err", [errno.EIO, errno.EAGAIN])
def test_async_events_that_cannot_be_read(rig: Rig, err: int) -> None:
    rig.stub.raise_event(rig.ctx, 9, port=1)
    rig.stub.fail("get_async_event", err)
    if err == errno.EAGAIN:
        event = rig.ctx.get_async_event(timeout=5)
    else:
        with pytest.raises(rig.Error) as caught:
            rig.ctx.get_async_event(timeout=5)
        assert (caught.value.errno, caught.value.operation) == (err, "ibv_get_async_event")
        event = rig.ctx.get_async_event(timeout=5)
    assert (event.event_type, event.port_num) == (9, 1)


@pytest.mark.parametrize("event_type", [*range(20), 99, 2**31 - 1])
def test_every_kind_of_async_event_says_what_it_is_about(rig: Rig, event_type: int) -> None:
    if rig.efa and event_type in (14, 15):
        pytest.skip("needs a package with shared receive queues")
    qp, srq = rig.qp(), shared_queue(rig)
    about = {0: rig.cq, **dict.fromkeys((1, 2, 3, 4, 5, 6, 7, 16), qp), 14: srq, 15: srq}.get(event_type)
    rig.stub.raise_event(rig.ctx, event_type, about, port=2)
    event = rig.ctx.get_async_event(timeout=5)
    assert event.event_type == event_type and type(event.event_type) is int
    assert isinstance(event.event_type_str, str) and event.event_type_str
    assert [event.cq, event.qp, event.srq] == [about if about is x else None for x in (rig.cq, qp, srq)]
    assert event.port_num == (2 if 9 <= event_type <= 13 or event_type in (17, 18) else None)
    assert rig.stub.unacked == 0, "the event is acknowledged as it is read"
    rig.ctx.ack_async_event(event)
    rig.ctx.ack_async_event(event)


def test_an_event_about_an_object_that_is_not_ours_has_no_object(rig: Rig) -> None:
    """Another library in the process may have made it on the same context; here: one that was closed meanwhile."""
    qp = rig.make_qp()
    rig.stub.raise_event(rig.ctx, 1, qp)
    event = rig.ctx.get_async_event(timeout=5)
    assert event.qp is qp
    rig.stub.raise_event(rig.ctx, 1, qp)
    qp.close()
    assert rig.ctx.get_async_event(timeout=0) is None


def test_a_registration_that_fails_for_locked_memory_names_limit_and_size(rig: Rig) -> None:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    rig.stub.fail("reg_mr_iova2", errno.ENOMEM)
    with pytest.raises(rig.Error) as caught:
        rig.pd.reg_mr(0x1000, 123456, 1)
    words = str(caught.value)
    assert "RLIMIT_MEMLOCK" in words and "123456" in words
    assert (str(soft) if soft != resource.RLIM_INFINITY else "unlimited") in words


@pytest.mark.only("ibverbs")
def test_a_queue_pair_that_is_too_large_says_what_the_device_has(rig: Rig) -> None:
    with pytest.raises(rig.Error) as caught:
        rig.make_qp(max_send_wr=20000, max_recv_sge=33)
    words = str(caught.value)
    assert caught.value.errno == errno.EINVAL
    for part in ("max_send_wr", "20000", "16384", "max_recv_sge", "33", "32"):
        assert part in words, words
    assert "max_recv_wr" not in words


def test_a_completion_queue_that_is_too_large_says_what_the_device_has(rig: Rig) -> None:
    with pytest.raises(rig.Error) as caught:
        rig.ctx.create_cq(1 << 20)
    assert caught.value.errno == errno.EINVAL
    assert str(1 << 20) in str(caught.value) and str(1 << 16) in str(caught.value)


def test_granted_sizes_are_shown(rig: Rig) -> None:
    with rig.ctx.create_cq(100) as cq:
        assert cq.cqe == 128


def test_no_rdma_at_all_is_an_empty_list(rig: Rig) -> None:
    rig.stub.fail("get_device_list", errno.ENOSYS)
    assert rig.ib.get_device_list() == []
    rig.stub.set_devices(0)
    assert rig.ib.get_device_list() == []
    rig.stub.fail("get_device_list", errno.EPERM)
    with pytest.raises(rig.Error) as caught:
        rig.ib.get_device_list()
    assert (caught.value.errno, caught.value.operation) == (errno.EPERM, "ibv_get_device_list")


def test_a_device_that_went_away_or_changed_is_enodev(rig: Rig) -> None:
    ib, stub = rig.ib, rig.stub
    first, second, *_ = ib.get_device_list()
    assert (first.name, second.name) == ("stub0", "stub1")
    stub.set_devices(1)
    with pytest.raises(error_of(ib)) as caught:
        second.open()
    assert caught.value.errno == errno.ENODEV
    stub.set_devices(2)
    second.open().close()
    stub.set_guid(1, 12345)
    with pytest.raises(error_of(ib)) as caught:
        second.open()
    assert caught.value.errno == errno.ENODEV
    ib.Device("stub1", 12345).open().close()
    with pytest.raises(error_of(ib)):
        ib.Device("stub9", 0).open()
    assert stub.live("device_list") == 0


def test_a_refused_modify_names_every_attribute_that_was_asked_for(rig: Rig) -> None:
    mask = rig.ib.QPAttrMask
    for bit in mask:
        qp = rig.qp(state=0)
        rig.stub.fail("modify_qp", errno.EINVAL)
        with pytest.raises(rig.Error) as caught:
            qp.modify(bit)
        asked = str(caught.value).partition(" with ")[2].partition(":")[0]
        assert asked == bit.name
