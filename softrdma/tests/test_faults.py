# SPDX-License-Identifier: BSD-3-Clause
"""Faults on demand, as asked for from outside: the command line, the environment, other processes, pytest. What each
kind does to a program is tested with the bindings, in tests/ of the repository."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_front import FABRIC, environment, on_host, python_on_host, run

from softrdma import faults

#: Opens a device through the C library alone, and says so; ends when its input does.
OPEN = """
    import os, sys
    fd = os.open("/dev/infiniband/uverbs0", os.O_RDWR | os.O_CLOEXEC)
    print(os.getpid(), flush=True)
    sys.stdin.read()
"""
STATE = "/sys/class/infiniband/rxe0/ports/1/state"


class Program:
    """A program with a device open, on the tests' fabric."""

    def __init__(self, source: str = OPEN) -> None:
        command = [sys.executable, "-m", "softrdma", "run", "--", sys.executable, "-c", textwrap.dedent(source)]
        self.process = subprocess.Popen(
            command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.pid = int(self.process.stdout.readline())

    def end(self) -> None:
        self.process.communicate(timeout=20)


@pytest.fixture
def program() -> Iterator[Program]:
    one = Program()
    yield one
    one.end()


def control(*words: str) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-m", "softrdma", "faults", "--fabric", FABRIC, *words)


def test_the_environment_fails_a_call() -> None:
    result = python_on_host("import os; os.open('/dev/infiniband/uverbs0', os.O_RDWR)")
    assert result.returncode == 0, result.stderr
    result = on_host(
        sys.executable, "-c", "import os; os.open('/dev/infiniband/uverbs0', os.O_RDWR)",
        options=("--fault", "errno:call=open_device,errno=ENOSPC"),
    )
    assert "OSError: [Errno 28]" in result.stderr


def test_a_seed_that_was_given_is_told() -> None:
    result = on_host(
        sys.executable, "-c", "import os; os.open('/dev/infiniband/uverbs0', os.O_RDWR)",
        options=("--fault", "drop:probability=0.5", "--seed", "41"),
    )
    assert "seed 41 " in result.stderr


def test_rules_without_chance_speak_of_none() -> None:
    result = on_host(
        sys.executable, "-c", "import os; os.open('/dev/infiniband/uverbs0', os.O_RDWR)",
        options=("--fault", "drop:nth=1000"),
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_a_rule_that_is_not_understood_ends_the_program_before_it_begins() -> None:
    result = on_host("echo", "ran", options=("--fault", "drop:probability=often"))
    assert (result.returncode, result.stdout) == (2, "")
    assert "probability=often" in result.stderr


def test_commands_reach_a_program_that_runs(program: Program) -> None:
    assert control("add", "link:device=rxe0,state=down").stdout == "1\n"
    assert control("list").stdout == "1 1 1 link:device=rxe0,state=down\n"
    assert control("who").stdout.split() == [str(program.pid)]
    assert control("seed", "12").stdout == "12\n"
    assert control("remove", "1").returncode == 0
    assert control("list").stdout == ""
    assert control("remove", "1").returncode == 1
    assert "contexts 1" in control("objects").stdout
    assert "not one of" in control("dance").stderr


def test_commands_say_when_nobody_is_there() -> None:
    result = run(sys.executable, "-m", "softrdma", "faults", "--fabric", "nobody", "list")
    assert result.returncode == 1 and "no process" in result.stderr


def test_one_program_of_several_is_chosen_by_its_number(program: Program) -> None:
    other = Program()
    try:
        faults.attach(FABRIC, pid=other.pid).add("drop", times=0)
        assert [len(faults.attach(FABRIC, pid=p.pid).rules()) for p in (program, other)] == [0, 1]
        assert faults.attach(FABRIC).objects()["contexts"] == 2
    finally:
        other.end()


def test_a_program_dies_at_the_time_that_was_said(program: Program) -> None:
    faults.attach(FABRIC, pid=program.pid).add("die", after=0.01)
    assert program.process.wait(10) == -9


def test_forked_children_share_faults_and_nics() -> None:
    result = python_on_host(
        f"""
        import os, softrdma
        fd = os.open("/dev/infiniband/uverbs0", os.O_RDWR | os.O_CLOEXEC)
        here = softrdma.faults.here()
        here.add("drop", times=0)
        if os.fork() == 0:
            mine = softrdma.faults.here()
            assert len(mine.rules()) == 1
            mine.link_down("rxe0")
            os._exit(0)
        assert os.wait()[1] == 0
        assert open("{STATE}").read() == "1: DOWN\\n"
        assert len(here.rules()) == 2
        here.reset()
        assert open("{STATE}").read() == "4: ACTIVE\\n"
        """
    )
    assert result.returncode == 0, result.stderr


def test_a_nic_goes_and_comes_back_with_its_files() -> None:
    result = python_on_host(
        """
        import os, softrdma
        with softrdma.faults.here() as here:
            here.add("remove", device="rxe1")
            assert os.listdir("/sys/class/infiniband") == ["rxe0"]
            assert not os.path.exists("/dev/infiniband/uverbs1")
            try:
                os.open("/dev/infiniband/uverbs1", os.O_RDWR)
            except FileNotFoundError:
                pass
        assert sorted(os.listdir("/sys/class/infiniband")) == ["rxe0", "rxe1"]
        os.open("/dev/infiniband/uverbs1", os.O_RDWR)
        """
    )
    assert result.returncode == 0, result.stderr


def test_files_show_an_address_that_moves() -> None:
    result = python_on_host(
        """
        import os, softrdma
        gids = "/sys/class/infiniband/rxe0/ports/1/gids"
        was = open(gids + "/1").read()
        with softrdma.faults.here() as here:
            here.set_gid("rxe0", 1, None)
            here.set_gid("rxe0", 4, "10.99.0.1")
            assert open(gids + "/4").read() == was
            assert open(gids + "/1").read() == was.replace("ffff:0a63:0001", "0000:0000:0000")
            assert not os.path.exists(gids.replace("gids", "gid_attrs/types") + "/1")
            assert open(gids.replace("gids", "gid_attrs/types") + "/4").read() == "RoCE v2\\n"
        assert open(gids + "/1").read() == was
        """
    )
    assert result.returncode == 0, result.stderr


def test_here_is_refused_outside_of_the_host() -> None:
    with pytest.raises(RuntimeError, match="softrdma run"):
        faults.here()


def test_the_text_of_a_rule_is_made_from_keywords() -> None:
    assert faults.rule("drop", times=0, probability=0.25, device=None) == "drop:times=0,probability=0.25"
    assert faults.rule("completion", status="REM_OP", op=("send", "recv"), moved=True) == (
        "completion:status=REM_OP,op=send|recv,moved=yes"
    )
    assert faults.rule("gid", index=1, gid=bytes(10) + b"\xff\xff\n\x63\0\1") == "gid:index=1,gid=::ffff:a63:1"
    assert faults.rule("link", state="down", for_=0.5) == "link:state=down,for=0.5"


def test_the_fixture_undoes_what_a_test_did_and_shows_it_when_it_fails(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        textwrap.dedent(
            f"""
            def state():
                return open("{STATE}").read()

            def test_one(softrdma_faults):
                softrdma_faults.seed = 5
                softrdma_faults.link_down("rxe0")
                assert state() == "4: ACTIVE\\n"

            def test_two(softrdma_faults):
                assert state() == "4: ACTIVE\\n" and softrdma_faults.rules() == []
            """
        )
    )
    command = [
        sys.executable, "-m", "pytest", "-p", "softrdma._plugin", "-p", "no:cacheprovider", "--softrdma", str(tmp_path),
    ]
    result = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert "1 failed, 1 passed" in result.stdout, result.stdout
    assert "seed 5" in result.stdout
    assert "link:state=down,device=rxe0: struck 1 of 1 times" in result.stdout
