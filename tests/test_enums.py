# SPDX-License-Identifier: BSD-3-Clause
"""The enums: each C constant is one member of one enum, and says what it means."""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
import pickle
from typing import Any

import pytest

FLAGS = {"AccessFlags", "QPAttrMask", "SendFlags", "WCFlags"}
EFA_FLAGS = {"CreateCQWCFlags", "EfaDeviceCaps", "QPExSendOpsFlags"}
#: Members whose constants are called differently.
NAMED_OTHERWISE = {("QPType", "SRD"), ("CreateCQWCFlags", "STANDARD")}
ENUMS = {"MTU", "NodeType", "PortState", "QPState", "QPType", "WCOpcode", "WCStatus", "WROpcode"}


@pytest.fixture
def extension(ib: Any) -> Any:
    return pytest.importorskip(f"{ib.__name__}._extension").extension


@pytest.fixture
def tree(ib: Any) -> ast.Module:
    """What is written of the enums: those of the package, and those that both packages have."""
    shared = importlib.import_module(f"{ib.__name__}.verbs_enums")
    own, both = (ast.parse(inspect.getsource(module)) for module in (ib.enums, shared))
    return ast.Module([*own.body, *both.body], [])


def classes(ib: Any) -> dict[str, Any]:
    return {name: getattr(ib.enums, name) for name in ib.enums.__all__}


def assigned(tree: ast.Module) -> list[tuple[str, str, str]]:
    """(class, member, C constant) of every member, as written."""
    found = []
    for cls in tree.body:
        for line in cls.body if isinstance(cls, ast.ClassDef) else []:
            if isinstance(line, ast.Assign):
                target, value = line.targets[0], line.value
                assert isinstance(cls, ast.ClassDef) and isinstance(target, ast.Name)
                assert isinstance(value, ast.Attribute), "a value that is not the C library's"
                found.append((cls.name, target.id, value.attr))
    return found


def test_the_enums_are_all_there(ib: Any) -> None:
    flags = FLAGS | EFA_FLAGS if ib.__name__ == "efa" else FLAGS
    assert flags | ENUMS <= set(classes(ib))
    for name in flags | ENUMS:
        assert getattr(ib, name) is getattr(ib.enums, name)
        assert issubclass(getattr(ib, name), enum.IntFlag if name in flags else enum.IntEnum)


def test_no_list_of_the_enums_leaves_one_out(ib: Any) -> None:
    """Each package lists what both have once more: type checkers follow no list that is put together."""
    shared = importlib.import_module(f"{ib.__name__}.verbs_enums")
    for module in (shared, ib.enums):
        defined = {name for name, value in vars(module).items() if isinstance(value, enum.EnumMeta)}
        assert defined - {"IntEnum", "IntFlag"} == set(module.__all__)
    assert set(shared.__all__) < set(ib.enums.__all__) < set(ib.__all__)


def test_every_constant_of_the_extension_is_exactly_one_member(extension: Any, tree: ast.Module) -> None:
    constants = sorted(name for name in vars(extension) if name.startswith("IBV_") or name.startswith("EFADV_"))
    assert constants
    assert sorted(constant for _, _, constant in assigned(tree)) == constants


def test_every_member_has_the_value_of_its_constant(ib: Any, extension: Any, tree: ast.Module) -> None:
    for cls, member, constant in assigned(tree):
        assert type(getattr(extension, constant)) is int
        assert getattr(ib.enums, cls)[member].value == getattr(extension, constant)
        assert constant.endswith(member) or (cls, member) in NAMED_OTHERWISE, constant


def test_no_value_has_two_names(ib: Any) -> None:
    for cls in classes(ib).values():
        enum.unique(cls)


def test_every_member_says_what_it_means(tree: ast.Module) -> None:
    for cls in tree.body:
        if not isinstance(cls, ast.ClassDef):
            continue
        assert ast.get_docstring(cls), cls.name
        for line, after in zip(cls.body[1:], [*cls.body[2:], None]):
            if isinstance(line, ast.Assign):
                assert isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant), (cls.name, line.lineno)
                assert str(after.value.value).endswith("."), (cls.name, line.lineno)


def test_members_equal_the_integers_that_objects_show(ib: Any) -> None:
    for cls in classes(ib).values():
        for member in cls:
            assert member == member.value and hash(member) == hash(member.value) and cls(member.value) is member


def test_unknown_flag_bits_are_kept(ib: Any) -> None:
    for cls in classes(ib).values():
        if issubclass(cls, enum.IntFlag):
            assert cls(1 << 30 | 1) == 1 << 30 | 1 and cls(1 << 30) & 1 << 30 == 1 << 30


def test_an_unknown_value_of_an_enum_is_a_value_error(ib: Any) -> None:
    for cls in classes(ib).values():
        if not issubclass(cls, enum.IntFlag):
            with pytest.raises(ValueError):
                cls(12345)


def test_members_pickle_as_themselves(ib: Any) -> None:
    for cls in classes(ib).values():
        for member in cls:
            assert pickle.loads(pickle.dumps(member)) is member
