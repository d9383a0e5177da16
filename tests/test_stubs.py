# SPDX-License-Identifier: BSD-3-Clause
"""The stub of the extension says what the extension has: names in both directions, parameters, and a text for each."""

from __future__ import annotations

import ast
import importlib.util
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Union

import pytest

Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]
# What every class has, or what Python itself asks for and nobody reads about.
# "__slotnames__" is of copyreg, "__del__" how the interpreter shows a finalizer.
UNLISTED = set(dir(object)) | {"__weakref__", "__dict__", "__module__", "__slotnames__", "__del__"}
needs_mypy = pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="needs mypy")


@pytest.fixture(scope="session")
def extension(ib: Any) -> Any:
    return pytest.importorskip(f"{ib.__name__}._extension").extension


@pytest.fixture(scope="session")
def home(ib: Any) -> pathlib.Path:
    return pathlib.Path(ib.__file__).parent


@pytest.fixture(scope="session")
def stub(home: pathlib.Path, extension: Any) -> ast.Module:
    name = extension.__name__.rpartition(".")[2]
    return ast.parse((home / f"{name}.pyi").read_text())


def public(name: str) -> bool:
    return not name.startswith("_") or (name.startswith("__") and name.endswith("__"))


def names_of(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name, node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node


def classes_of(stub: ast.Module) -> list[ast.ClassDef]:
    return [node for node in stub.body if isinstance(node, ast.ClassDef) and public(node.name)]


def test_the_stub_and_the_module_have_the_same_names(stub: ast.Module, extension: Any) -> None:
    listed = {name for name, _ in names_of(stub.body) if public(name)}
    present = {name for name in vars(extension) if public(name) and not name.startswith("__")}
    assert listed == present


def test_the_stub_and_each_class_have_the_same_members(stub: ast.Module, extension: Any) -> None:
    for node in classes_of(stub):
        cls = getattr(extension, node.name)
        listed = {name for name, _ in names_of(node.body)}
        present = {name for name in vars(cls) if name not in UNLISTED}
        missing = {name for name in listed if not hasattr(cls, name)}
        if issubclass(cls, BaseException):
            missing -= {"index", "posted"}  # set on the errors that have them
        assert not missing, (node.name, "in the stub only", missing)
        assert not {n for n in present - listed if public(n)}, (node.name, "in the module only", present - listed)


def test_the_stub_explains_every_class_method_and_attribute(stub: ast.Module) -> None:
    assert ast.get_docstring(stub)
    for name, node in names_of(stub.body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and public(name):
            assert ast.get_docstring(node), name
    for cls in classes_of(stub):
        assert ast.get_docstring(cls), cls.name
        for node, after in zip(cls.body, [*cls.body[1:], None]):
            setter = isinstance(node, ast.FunctionDef) and any(
                isinstance(d, ast.Attribute) for d in node.decorator_list
            )
            function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            if function and not node.name.startswith("_") and not setter:  # type: ignore[attr-defined]
                assert ast.get_docstring(node), f"{cls.name}.{node.name}"  # type: ignore[arg-type, attr-defined]
            if isinstance(node, ast.AnnAssign) and not node.target.id.startswith("_"):  # type: ignore[union-attr]
                assert isinstance(after, ast.Expr), f"{cls.name}.{node.target.id}"  # type: ignore[union-attr]


def test_every_attribute_that_the_stub_makes_read_only_is(stub: ast.Module, extension: Any) -> None:
    for cls in classes_of(stub):
        for node in cls.body:
            if isinstance(node, ast.FunctionDef) and any(
                isinstance(d, ast.Name) and d.id == "property" for d in node.decorator_list
            ):
                member = getattr(getattr(extension, cls.name), node.name)
                assert not callable(member), f"{cls.name}.{node.name}"


def options() -> dict[str, str]:
    return {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}


def run_mypy(module: str, home: pathlib.Path, cwd: pathlib.Path, *arguments: str) -> None:
    env = options()
    if home.parent.name not in ("site-packages", "dist-packages"):
        env["MYPYPATH"] = str(home.parent)
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], cwd=cwd, env=env, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr


@needs_mypy
def test_stubtest_finds_nothing(ib: Any, home: pathlib.Path, tmp_path: pathlib.Path) -> None:
    run_mypy("mypy.stubtest", home, tmp_path, ib.__name__)


@needs_mypy
def test_the_package_is_typed_throughout(ib: Any, home: pathlib.Path, tmp_path: pathlib.Path) -> None:
    run_mypy("mypy", home, tmp_path, "--strict", "--cache-dir", str(tmp_path), "-p", ib.__name__)


PROGRAM = """
from __future__ import annotations

import ibverbs
from ibverbs import AccessFlags, QPInfo, QPInitAttr, SendFlags, SendWR, SGE, WCStatus, WROpcode

ACCESS = AccessFlags.LOCAL_WRITE | AccessFlags.REMOTE_WRITE


def exchange(mine: bytes) -> bytes:
    return mine


def main() -> int:
    device = ibverbs.get_device_list()[0]
    with device.open() as ctx, ctx.alloc_pd() as pd:
        port = ctx.query_port(1)
        channel = ctx.create_comp_channel()
        cq = ctx.create_cq(64, channel)
        qp = pd.create_qp(QPInitAttr(cq, cq, max_send_wr=16))
        buffer = bytearray(4096)
        mr: ibverbs.MR = ibverbs.reg_tensor(pd, buffer, ACCESS)
        info = ibverbs.local_qp_info(qp, port, ctx.query_gid(1, 0), port=1, psn=7)
        remote = QPInfo.from_bytes(exchange(info.to_bytes()))
        ibverbs.connect_rc(qp, remote, port=1, sgid_index=0, access=ACCESS, local_psn=7, timeout=12)
        qp.post_recv(ibverbs.RecvWR(1, [mr.sge()]))
        qp.post_send(
            [
                SendWR(2, [SGE(mr, 10)], WROpcode.SEND, SendFlags.SIGNALED),
                SendWR(3, [mr.sge(10, 20)], WROpcode.RDMA_WRITE, remote_addr=1, rkey=2),
            ]
        )
        cq.req_notify()
        channel.get_cq_event().ack_events()
        ready = channel.get_cq_event(timeout=1.5)
        if ready is not None:
            ready.ack_events(1)
        total = 0
        for wc in cq.poll(16):
            if wc.status == WCStatus.WR_FLUSH_ERR:
                continue
            wc.raise_for_status()
            total += wc.byte_len
        state, cap = qp.query()
        total += int(state["qp_state"]) + cap.max_send_wr
        event = ctx.get_async_event(0)
        if event is not None and event.qp is not None:
            ctx.ack_async_event(event)
        total += sum(wc.byte_len for wc in cq.wait(16, timeout=0.5, spin=None))
        return total


async def waiting(ctx: ibverbs.Context, cq: ibverbs.CQ, channel: ibverbs.CompChannel) -> int:
    event = await ctx.next_async_event()
    maybe = await channel.next_cq_event(timeout=1)
    port = event.port_num or 0
    queue = maybe or await channel.next_cq_event()
    return port + sum([wc.byte_len for wc in await queue.wait_async(4)])


if ibverbs.fork_status() == ibverbs.ForkStatus.DISABLED:
    ibverbs.fork_init()


def mistakes() -> None:
    try:
        main()
    except ibverbs.CompletionError as error:
        print(error.wc.wr_id, error.status, error.operation)
    except ibverbs.VerbsError as error:
        print(error.errno, error.operation, error.detail)


class Wrapper:
    def reg_mr(self, addr: int, length: int, access: int) -> str:
        return f"{addr} {length} {access}"


region: str = ibverbs.reg_tensor(Wrapper(), bytearray(8), ACCESS)
rest: AccessFlags = ~ACCESS & AccessFlags.REMOTE_READ
"""


@needs_mypy
def test_a_users_program_passes_mypy_strict(ib: Any, home: pathlib.Path, tmp_path: pathlib.Path) -> None:
    if ib.__name__ != "ibverbs":
        pytest.skip("the program is written for ibverbs")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    run_mypy("mypy", home, tmp_path, "--strict", "--cache-dir", str(tmp_path / "cache"), str(program))


MISTAKES = """
import ibverbs
ctx = ibverbs.get_device_list()[0].open()
ctx.query_port("1")
ibverbs.QPInfo(1, 2, 3, "gid", 1, 5)
ibverbs.SendWR(opcode="SEND")
ctx.nothing
ctx.create_comp_channel().get_cq_event(1).poll(1)
lkey: str = ctx.alloc_pd().reg_mr(0, 0, 0).lkey
async def main(): await ctx.create_comp_channel().next_cq_event(1).poll(1)
"""


@needs_mypy
def test_a_users_mistakes_do_not_pass_mypy(ib: Any, home: pathlib.Path, tmp_path: pathlib.Path) -> None:
    if ib.__name__ != "ibverbs":
        pytest.skip("the lines are written for ibverbs")
    program = tmp_path / "program.py"
    program.write_text(MISTAKES)
    with pytest.raises(AssertionError) as found:
        run_mypy("mypy", home, tmp_path, "--strict", "--cache-dir", str(tmp_path / "cache"), str(program))
    lines = {int(line.split(":")[1]) for line in str(found.value).splitlines() if "program.py:" in line}
    assert lines == {4, 5, 6, 7, 8, 9, 10}
