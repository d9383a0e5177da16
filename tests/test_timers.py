# SPDX-License-Identifier: BSD-3-Clause
"""Times in microseconds become the codes that queue pairs take: exactly, or the next longer one."""

from __future__ import annotations

import math
import pathlib
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from endpoints import Make, all_access
from place import Node

ibverbs = pytest.importorskip("ibverbs")

# The table of the InfiniBand specification, in milliseconds, by code.
RNR_MS = (
    "655.36 0.01 0.02 0.03 0.04 0.06 0.08 0.12 0.16 0.24 0.32 0.48 0.64 0.96 1.28 1.92 2.56 3.84 5.12 7.68 10.24 15.36 "
    "20.48 30.72 40.96 61.44 81.92 122.88 163.84 245.76 327.68 491.52"
).split()
RNR_US = [float(Decimal(ms) * 1000) for ms in RNR_MS]
ACK_US = [4.096 * 2**code for code in range(32)]


@pytest.mark.parametrize("code", range(32))
def test_each_time_of_the_rnr_timer_gives_its_code(code: int) -> None:
    assert ibverbs.rnr_timer(RNR_US[code]) == code


@pytest.mark.parametrize("code", range(1, 32))
def test_each_time_of_the_ack_timer_gives_its_code(code: int) -> None:
    assert ibverbs.ack_timeout(ACK_US[code]) == code


def test_what_lies_between_is_rounded_up() -> None:
    order = sorted(range(32), key=lambda code: RNR_US[code])
    for shorter, longer in zip(order, order[1:]):
        assert ibverbs.rnr_timer(RNR_US[shorter] + 0.001) == longer
        assert ibverbs.rnr_timer((RNR_US[shorter] + RNR_US[longer]) / 2) == longer
    for code in range(1, 31):
        assert ibverbs.ack_timeout(ACK_US[code] * 1.0001) == code + 1
    assert ibverbs.rnr_timer(0.5) == 1 and ibverbs.ack_timeout(0.5) == 1


def test_any_real_number_is_taken() -> None:
    for us in (640, 640.0, Decimal(640), Fraction(640)):
        assert ibverbs.rnr_timer(us) == 12
    assert ibverbs.ack_timeout(67_000) == 14


@pytest.mark.parametrize("us", [0, -1, 655_360.5, math.inf, -math.inf, math.nan])
def test_what_has_no_code_for_the_rnr_timer_is_a_range_error(us: float) -> None:
    with pytest.raises(ibverbs.RangeError, match="655360"):
        ibverbs.rnr_timer(us)


@pytest.mark.parametrize("us", [0, -1, 8_796_093_022.3, math.inf, math.nan])
def test_what_has_no_code_for_the_ack_timer_is_a_range_error(us: float) -> None:
    with pytest.raises(ibverbs.RangeError, match="8796093022"):
        ibverbs.ack_timeout(us)


def test_a_wrong_type_is_a_type_error() -> None:
    for function in (ibverbs.rnr_timer, ibverbs.ack_timeout):
        with pytest.raises(TypeError, match=rf"{function.__name__}\(\) takes microseconds as a number, not str"):
            function("640")


@pytest.mark.only("ibverbs")
@pytest.mark.needs("rc")
def test_a_device_has_what_was_given(ib: Any, make: Make, node: Node) -> None:
    end = make()
    end.qp.to_init(node.port, all_access(ib))
    end.qp.to_rtr(end.info(), node.gid_index, min_rnr_timer=ib.rnr_timer(5000))
    end.qp.to_rts(0, timeout=ib.ack_timeout(1_000_000))
    attr, _ = end.qp.query()
    assert (attr["min_rnr_timer"], attr["timeout"]) == (18, 18)


def test_the_tables_of_the_documentation_are_right() -> None:
    page = pathlib.Path(__file__).parent.parent / "docs" / "timers.md"
    if not page.exists():
        pytest.skip("needs the documentation beside the tests")
    first, _, second = page.read_text().partition("## When an answer is missing")
    rnr = dict(re.findall(r"^\| (\d+) \| ([\d.]+) ms \|", first, re.MULTILINE))
    assert {int(code): Decimal(ms) for code, ms in rnr.items()} == {i: Decimal(ms) for i, ms in enumerate(RNR_MS)}
    units = {"us": 1, "ms": 1e3, "s": 1e6, "min": 6e7, "h": 3.6e9}
    ack = re.findall(r"^\| (\d+) \| ([\d.]+) (us|ms|s|min|h) \|", second, re.MULTILINE)
    assert [int(code) for code, _, _ in ack] == list(range(1, 32))
    for code, number, unit in ack:
        assert float(number) * units[unit] == pytest.approx(ACK_US[int(code)], rel=0.01)
