# SPDX-License-Identifier: BSD-3-Clause
"""Flag enums: whatever the operators in C give is what enum.IntFlag gives on this interpreter."""

from __future__ import annotations

import copy
import operator
import pickle
import subprocess
import sys
from enum import IntFlag
from itertools import product
from typing import Any, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

MEMBERS = {"A": 1, "B": 2, "C": 4, "HIGH": 1 << 20, "PAIR": 3}
BINARY = [operator.or_, operator.and_, operator.xor]
INTS = [0, 1, 2, 3, 5, 6, 8, 1 << 20, (1 << 20) | 9, 1 << 40, -1, -2, -9, 2**63 - 1, 2**63, -(2**63), 2**70, True]
OPERATORS = ["__or__", "__ror__", "__and__", "__rand__", "__xor__", "__rxor__", "__invert__"]


@pytest.fixture
def flags(ib: Any) -> Any:
    return pytest.importorskip(f"{ib.__name__}.flags")


@pytest.fixture
def pair(flags: Any) -> tuple[Any, Any]:
    """Two new classes with the same members: one with the operators in C, one with Python's."""

    class Flags(flags.FlagOps, IntFlag):  # type: ignore[misc]
        A = 1
        B = 2
        C = 4
        HIGH = 1 << 20
        PAIR = 3

    return flags.flag_operators(Flags), IntFlag("Flags", MEMBERS)


def seen(compute: Callable[..., Any], *args: Any) -> Any:
    """What can be seen of a result, with its class by name: our class and theirs have the same."""
    try:
        value = compute(*args)
    except Exception as error:  # whatever Python's own raises is the expectation
        return type(error)
    return type(value).__name__, int(value), repr(value), str(value), getattr(value, "name", None), f"{value:d}"


def both(pair: tuple[Any, Any], compute: Callable[..., Any], *args: Any) -> None:
    ours, theirs = pair
    for _ in range(2):  # the first time a value may have no member yet, the second time it has
        assert seen(compute, ours, *args) == seen(compute, theirs, *args)


@pytest.mark.parametrize("op", BINARY)
def test_every_pair_of_values_gives_what_intflag_gives(pair: tuple[Any, Any], op: Any) -> None:
    for left, right in product(INTS, INTS):
        both(pair, lambda cls, a, b: op(cls(a), cls(b)), left, right)


@pytest.mark.parametrize("op", BINARY)
def test_every_member_with_every_int_on_either_side(pair: tuple[Any, Any], op: Any) -> None:
    for name, number in product(MEMBERS, INTS):
        both(pair, lambda cls, n, i: op(cls[n], i), name, number)
        both(pair, lambda cls, n, i: op(i, cls[n]), name, number)


def test_every_inverse(pair: tuple[Any, Any]) -> None:
    for number in INTS:
        both(pair, lambda cls, i: ~cls(i), number)
        both(pair, lambda cls, i: ~~cls(i), number)
        both(pair, lambda cls, i: cls(i) & ~cls.A, number)


@pytest.mark.parametrize("other", [1.5, "A", None, b"A", [1], object()])
@pytest.mark.parametrize("op", BINARY)
def test_operands_of_other_kinds_are_refused_alike(pair: tuple[Any, Any], op: Any, other: Any) -> None:
    both(pair, lambda cls: op(cls.A, other))
    both(pair, lambda cls: op(other, cls.A))


@pytest.mark.parametrize("op", BINARY)
def test_two_flag_classes_mix_as_theirs_do(flags: Any, pair: tuple[Any, Any], op: Any) -> None:
    class Other(flags.FlagOps, IntFlag):  # type: ignore[misc]
        X = 2
        Y = 8

    # Up to 3.10 what IntFlag calls bits of the other class depends on what was asked before: it may recurse for ever.
    parts = slice(None) if sys.version_info >= (3, 11) else slice(2)
    others: tuple[Any, Any] = flags.flag_operators(Other), IntFlag("Other", {"X": 2, "Y": 8})
    for a, b in product(MEMBERS, ("X", "Y")):
        ours, theirs = ((pair[i][a], others[i][b]) for i in range(2))
        assert seen(op, *ours)[parts] == seen(op, *theirs)[parts]
        assert seen(op, *ours[::-1])[parts] == seen(op, *theirs[::-1])[parts]


@pytest.mark.parametrize("op", BINARY)
def test_a_flag_of_ours_mixes_with_a_plain_intflag(pair: tuple[Any, Any], op: Any) -> None:
    plain = IntFlag("plain", {"X": 2, "Y": 8})
    for name in MEMBERS:
        both(pair, lambda cls, n: op(cls[n], plain.X), name)
        both(pair, lambda cls, n: op(plain.Y, cls[n]), name)


@settings(deadline=None, database=None)
@given(st.lists(st.tuples(st.sampled_from(BINARY), st.booleans(), st.integers(-(2**70), 2**70)), max_size=12))
def test_any_chain_of_operations(steps: list[tuple[Any, bool, int]]) -> None:
    flags = pytest.importorskip("ibverbs.flags")

    class Flags(flags.FlagOps, IntFlag):  # type: ignore[misc, name-defined]
        A = 1
        B = 2
        HIGH = 1 << 20

    def run(cls: Any) -> Any:
        value = cls.A
        for op, as_flag, number in steps:
            value = op(value, cls(number) if as_flag else number)
        return ~value

    both((flags.flag_operators(Flags), IntFlag("Flags", {"A": 1, "B": 2, "HIGH": 1 << 20})), run)


def test_results_are_the_members_themselves(pair: tuple[Any, Any]) -> None:
    ours = pair[0]
    assert ours.A | ours.B is ours.PAIR
    assert ours.PAIR & ours.A is ours.A
    assert ours.PAIR ^ ours.B is ours.A
    assert ours.A | ours.HIGH is ours(1 | 1 << 20)
    assert ours.A | ours.HIGH is ours.HIGH | 1


def test_in_place_operators_and_membership(pair: tuple[Any, Any]) -> None:
    def run(cls: Any) -> Any:
        value = cls.A
        value |= cls.HIGH
        value &= ~cls.A
        value ^= cls.C
        assert cls.HIGH in value and cls.A not in value
        return value

    both(pair, run)


def flag_classes(ib: Any) -> list[Any]:
    return [v for v in vars(ib.enums).values() if isinstance(v, type) and issubclass(v, IntFlag) and v is not IntFlag]


def test_every_flag_enum_has_the_operators_in_c(ib: Any, flags: Any) -> None:
    classes = flag_classes(ib)
    assert classes
    for cls in classes:
        for name in OPERATORS:
            assert cls.__dict__[name] is flags.FlagOps.__dict__[name], (cls, name)


def test_members_pickle_and_copy_as_themselves(ib: Any) -> None:
    for cls in flag_classes(ib):
        for value in (*cls, cls(0), cls(5)):
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
                assert pickle.loads(pickle.dumps(value, protocol)) is value
            assert copy.copy(value) is copy.deepcopy(value) is value


def test_every_pair_of_members_of_every_flag_enum(ib: Any) -> None:
    for cls in flag_classes(ib):
        for a, b in product(cls, cls):
            for op in BINARY:
                result = op(a, b)
                assert type(result) is cls and result == op(int(a), int(b)) and result is cls(int(result))


def test_a_method_may_extend_an_operator(flags: Any) -> None:
    class Loud(flags.FlagOps, IntFlag):  # type: ignore[misc]
        A = 1
        B = 2

        def __or__(self, other: Any) -> Any:
            return super().__or__(other)

    assert Loud.A | Loud.B == 3 and Loud.A | 2 == 3 and type(Loud.A | 2) is Loud
    with pytest.raises(TypeError):
        Loud.A | "x"


def test_the_decorator_refuses_a_class_without_the_base(flags: Any) -> None:
    with pytest.raises(TypeError, match="FlagOps"):
        flags.flag_operators(IntFlag("Plain", {"A": 1}))


def test_without_an_enum_the_base_adds_no_operators(flags: Any) -> None:
    class Thing(flags.FlagOps):  # type: ignore[misc]
        pass

    class Number(flags.FlagOps, int):  # type: ignore[misc]
        pass

    operations: list[Callable[[Any], Any]] = [lambda v: v | v, lambda v: v & 1, lambda v: None ^ v, lambda v: ~v]
    for value in (Thing(), flags.FlagOps()):
        for operation in operations:
            with pytest.raises(TypeError):
                operation(value)
    assert (Number(1) | Number(2), Number(3) & 2, 1 ^ Number(3), ~Number(0)) == (3, 2, 2, -1)


AT_EXIT = """
import sys
from {package} import AccessFlags

class AtExit:
    def __del__(self, a=AccessFlags.LOCAL_WRITE, b=AccessFlags.REMOTE_READ, write=sys.__stdout__.write):
        write(f"{{a | b:d}} {{a | 1 << 40:d}} {{~a & 3:d}}\\n")

keep = [AtExit()]
keep.append(keep)  # collected when the modules are gone
"""


def test_flags_work_until_the_interpreter_is_gone(ib: Any) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_EXIT.format(package=ib.__name__)], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"5 {1 << 40 | 1} 2\n", "")
