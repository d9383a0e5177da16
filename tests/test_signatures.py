# SPDX-License-Identifier: BSD-3-Clause
"""Everything public can be asked for its parameters and its meaning, and takes each parameter by keyword."""

from __future__ import annotations

import ast
import enum
import inspect
import pathlib
import sys
from typing import Any

import pytest

# A heap type made from a specification shows no signature of its constructor on 3.9.
CLASS_SIGNATURES = sys.version_info >= (3, 10)


def public(ib: Any) -> list[tuple[str, Any]]:
    return [(name, getattr(ib, name)) for name in ib.__all__]


def methods(cls: type) -> list[tuple[str, Any]]:
    return [
        (name, getattr(cls, name))
        for name, member in vars(cls).items()
        if not name.startswith("_") and (callable(member) or isinstance(member, (classmethod, staticmethod)))
    ]


def own_classes(ib: Any) -> list[Any]:
    return [v for _, v in public(ib) if inspect.isclass(v) and not issubclass(v, enum.Enum)]


def test_all_lists_what_is_there_once_and_in_order(ib: Any) -> None:
    assert len(set(ib.__all__)) == len(ib.__all__)
    assert ib.__all__ == sorted(ib.__all__)
    for name, value in public(ib):
        assert value is not None, name


def test_everything_public_has_a_docstring(ib: Any) -> None:
    for part in (ib, ib.enums, ib.helpers):
        assert part.__doc__ and part.__doc__.strip(), part
    for name, value in public(ib):
        assert inspect.getdoc(value), name
        if inspect.isclass(value):
            assert vars(value).get("__doc__"), name  # its own, not its base's
    for cls in own_classes(ib):
        for name, member in vars(cls).items():
            if not name.startswith("_"):
                assert inspect.getdoc(getattr(cls, name)) or not hasattr(member, "__get__"), f"{cls.__name__}.{name}"


def test_docstrings_are_sentences(ib: Any) -> None:
    for cls in own_classes(ib):
        for name, member in [(cls.__name__, cls), *methods(cls)]:
            text = inspect.getdoc(member) or ""
            assert text[0].isupper() and text.rstrip().endswith((".", "``", '"')), (cls.__name__, name, text)


def test_every_function_and_method_shows_its_parameters(ib: Any) -> None:
    for _, value in public(ib):
        if inspect.isroutine(value):
            inspect.signature(value)
    for cls in own_classes(ib):
        for name, method in methods(cls):
            signature = inspect.signature(method)
            kinds = [p.kind for p in list(signature.parameters.values())]
            if isinstance(vars(cls)[name], (classmethod, staticmethod)):
                assert inspect.Parameter.POSITIONAL_ONLY not in kinds, f"{cls.__name__}.{name}"
            else:
                assert next(iter(signature.parameters)) == "self", f"{cls.__name__}.{name}"
                assert inspect.Parameter.POSITIONAL_ONLY not in kinds[1:], f"{cls.__name__}.{name}"


@pytest.mark.skipif(not CLASS_SIGNATURES, reason="needs CPython 3.10, which shows signatures of C classes")
def test_every_class_that_can_be_made_shows_its_parameters(ib: Any) -> None:
    for cls in own_classes(ib):
        text = vars(cls).get("__text_signature__")
        if text is not None or "__init__" in vars(cls):
            inspect.signature(cls)


def test_classes_say_that_they_are_of_the_package(ib: Any) -> None:
    for cls in own_classes(ib):
        assert cls.__module__.split(".")[0] == ib.__name__
        assert cls.__qualname__ == cls.__name__


# ---- against the stub ----------------------------------------------------------------------------------------------


def in_stub(node: ast.FunctionDef) -> list[tuple[str, Any]]:
    """(name, default) of each parameter but self, as the stub has them; * and ** are part of the name."""
    a = node.args
    plain = [p.arg for p in a.args][1:]
    defaults = [inspect.Parameter.empty] * (len(a.args) - len(a.defaults)) + [ast.literal_eval(d) for d in a.defaults]
    result = list(zip(plain, defaults[len(a.args) - len(plain) :]))
    result += [(f"*{a.vararg.arg}", inspect.Parameter.empty)] if a.vararg else []
    result += [
        (p.arg, inspect.Parameter.empty if d is None else ast.literal_eval(d))
        for p, d in zip(a.kwonlyargs, a.kw_defaults)
    ]
    return result + ([(f"**{a.kwarg.arg}", inspect.Parameter.empty)] if a.kwarg else [])


def in_module(callable_: Any, bound: bool) -> list[tuple[str, Any]]:
    stars: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    parameters = list(inspect.signature(callable_).parameters.values())[0 if bound else 1 :]
    return [(stars.get(p.kind, "") + p.name, p.default) for p in parameters]


def test_the_stub_has_the_parameters_and_defaults_of_the_module(ib: Any) -> None:
    extension = pytest.importorskip(f"{ib.__name__}._extension").extension
    stub = pathlib.Path(ib.__file__).parent / f"{extension.__name__.rpartition('.')[2]}.pyi"
    compared = 0
    for node in ast.parse(stub.read_text()).body:
        if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
            continue
        cls = getattr(extension, node.name)
        for method in node.body:
            if not isinstance(method, ast.FunctionDef) or method.decorator_list:
                continue
            if method.name in ("__new__", "__init__"):
                if not CLASS_SIGNATURES:
                    continue
                have = in_module(cls, bound=True)
            elif not method.name.startswith("_"):
                have = in_module(getattr(cls, method.name), bound=False)
            else:
                continue
            assert have == in_stub(method), f"{node.name}.{method.name}"
            compared += 1
    assert compared > 30


def test_the_version_is_that_of_the_distribution(ib: Any) -> None:
    root = pathlib.Path(__file__).parent.parent / ib.__name__
    if not (root / "pyproject.toml").exists():
        pytest.skip("needs the source tree")
    assert f'version = "{ib.__version__}"' in (root / "pyproject.toml").read_text()
    assert f"version: '{ib.__version__}'" in (root / "meson.build").read_text()
