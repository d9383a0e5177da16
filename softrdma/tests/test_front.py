# SPDX-License-Identifier: BSD-3-Clause
"""The Python front: the command line, preload(), and the pytest plugin. Needs the built package on the path."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import softrdma

FABRIC = f"front-{os.getpid()}"


def environment(**more: str) -> dict[str, str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith("SOFTRDMA_")}
    env.pop("LD_PRELOAD", None)
    folder = str(Path(softrdma.__file__).parent.parent)
    env.update(SOFTRDMA_FABRIC=FABRIC, PYTHONPATH=folder, **more)
    return env


def run(*command: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=environment(**more), capture_output=True, text=True, timeout=60)


def on_host(*command: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-m", "softrdma", "run", *options, "--", *command)


def python_on_host(program: str) -> subprocess.CompletedProcess[str]:
    return on_host(sys.executable, "-c", textwrap.dedent(program))


def test_run_gives_a_program_devices() -> None:
    listing = on_host("ls", "/sys/class/infiniband", options=("--devices", "rxe:3"))
    assert listing.stdout.split() == ["rxe0", "rxe1", "rxe2"]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (("--devices", "rxe:1,efa:2"), ["efa_0", "efa_1", "rxe0"]),
        (("--devices", "efa@2,rxe"), ["efa_0", "rxe0"]),
        (("--devices", "2,efa@0:1"), ["efa_0", "rxe0", "rxe1"]),
        (("--efa",), ["efa_0", "efa_1"]),
        (("--efa=3",), ["efa_0", "efa_1"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_devices_of_both_kinds(options: tuple[str, ...], names: list[str]) -> None:
    assert on_host("ls", "/sys/class/infiniband", options=options).stdout.split() == names


def test_an_efa_device_says_what_it_is() -> None:
    files = [f"/sys/class/infiniband/efa_0/device/{name}" for name in ("vendor", "device", "driver")]
    shown = on_host("sh", "-c", f"cat {files[0]} {files[1]}; readlink {files[2]}", options=("--efa=2",))
    assert shown.stdout.split() == ["0x1d0f", "0xefa2", "../../../bus/pci/drivers/efa"]


def test_reorder_takes_a_seed() -> None:
    assert on_host("sh", "-c", "echo $SOFTRDMA_REORDER", options=("--reorder", "7")).stdout.strip() == "7"


def test_run_has_the_programs_exit_status() -> None:
    assert on_host("sh", "-c", "exit 7").returncode == 7


def test_run_says_when_there_is_no_such_program() -> None:
    result = on_host("/no/such/program")
    assert result.returncode == 127
    assert "/no/such/program: No such file or directory" in result.stderr


def test_library_prints_a_file_that_exists() -> None:
    path = run(sys.executable, "-m", "softrdma", "library").stdout.strip()
    assert Path(path) == softrdma.library() and Path(path).is_file()


def test_preload_goes_last_and_once() -> None:
    env = {"LD_PRELOAD": "/first.so /second.so"}
    softrdma.preload(env, devices="rxe:1", fabric="f")
    softrdma.preload(env)
    assert env["LD_PRELOAD"].split(":") == ["/first.so", "/second.so", str(softrdma.library())]
    assert env["SOFTRDMA_DEVICES"] == "rxe:1" and env["SOFTRDMA_FABRIC"] == "f"


def test_is_loaded_tells_the_two_apart() -> None:
    program = "import softrdma; print(softrdma.is_loaded())"
    assert run(sys.executable, "-c", program).stdout.strip() == "False"
    assert python_on_host(program).stdout.strip() == "True"


@pytest.mark.parametrize("devices", ["rxe:many", "efa@9:1", "rxe@1", "ib:1", "efa:17", "efa:1 rxe:1"])
def test_a_wrong_device_list_is_named(devices: str) -> None:
    result = on_host("true", options=("--devices", devices))
    assert f"SOFTRDMA_DEVICES={devices} not understood" in result.stderr


def test_files_are_what_a_program_reads_and_stats() -> None:
    result = python_on_host(
        """
        import os, stat
        node = os.stat("/dev/infiniband/uverbs1")
        assert stat.S_ISCHR(node.st_mode) and os.major(node.st_rdev) == 231 and os.minor(node.st_rdev) == 193
        assert os.access("/dev/infiniband/uverbs0", os.R_OK | os.W_OK)
        gid = open("/sys/class/infiniband/rxe0/ports/1/gids/1").read().strip()
        assert gid == "0000:0000:0000:0000:0000:ffff:0a63:0001"
        real = os.path.realpath("/sys/class/infiniband/rxe0")
        assert open(real + "/node_type").read() == "1: CA\\n"
        assert not os.path.exists("/dev/infiniband/uverbs2")
        """
    )
    assert result.returncode == 0, result.stderr


def test_older_stat_calls_know_the_devices_too() -> None:
    result = python_on_host(
        """
        import ctypes
        libc, st = ctypes.CDLL(None), ctypes.create_string_buffer(256)
        for name in (b"__xstat", b"__xstat64", b"__lxstat", b"__lxstat64"):
            call = getattr(libc, name.decode())
            assert call(1, b"/dev/infiniband/uverbs1", st) == 0
            assert call(1, b"/dev/infiniband/uverbs2", st) == -1
            assert call(1, b"/tmp", st) == 0
        """
    )
    assert result.returncode == 0, result.stderr


def test_devices_are_listed_in_their_order() -> None:
    names = [f"rxe{i}" for i in range(12)]
    listing = on_host("ibv_devices", options=("--devices", "rxe:12"))
    if listing.returncode == 127:
        pytest.skip("needs ibv_devices (ibverbs-utils)")
    assert [word for word in listing.stdout.split() if word.startswith("rxe")] == names


def test_a_tree_of_files_goes_when_its_process_ends() -> None:
    where = python_on_host(
        """
        import os
        print(os.readlink(f"/proc/self/fd/{os.open('/sys/class/infiniband', os.O_RDONLY)}"))
        """
    ).stdout.strip()
    assert "softrdma-" in where and not os.path.exists(where)


#: Opens a device through the C library alone; fd is its descriptor.
OPEN = """
    import os, stat, subprocess, sys
    fd = os.open("/dev/infiniband/uverbs0", os.O_RDWR | os.O_CLOEXEC)
    def alive():
        return stat.S_ISCHR(os.fstat(fd).st_mode)
"""


@pytest.mark.parametrize(
    "how",
    [
        "subprocess.run(['true'])",
        "subprocess.run(['true'], preexec_fn=lambda: None)",
        "os.system('true')",
        "os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)",
    ],
)
def test_children_that_close_everything_leave_the_parents_device_open(how: str) -> None:
    result = python_on_host(textwrap.dedent(OPEN) + f"assert alive()\n{how}\nassert alive()\nos.close(fd)\n")
    assert result.returncode == 0, result.stderr


def test_a_copy_of_the_descriptor_is_the_device_too() -> None:
    result = python_on_host(
        textwrap.dedent(OPEN)
        + textwrap.dedent(
            """
            other = os.dup(fd)
            os.close(fd)
            fd = other
            assert alive()
            os.dup2(fd, 20)
            os.close(fd)
            fd = 20
            assert alive()
            """
        )
    )
    assert result.returncode == 0, result.stderr


def test_closing_all_descriptors_leaves_the_host_in_working_order() -> None:
    result = python_on_host(
        textwrap.dedent(OPEN)
        + textwrap.dedent(
            """
            os.closerange(3, 5000)
            fd = os.open("/dev/infiniband/uverbs0", os.O_RDWR | os.O_CLOEXEC)
            assert alive()
            """
        )
    )
    assert result.returncode == 0, result.stderr


def test_plugin_runs_the_tests_on_the_host(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import os, softrdma\n"
        "def test_devices():\n"
        "    assert softrdma.is_loaded()\n"
        "    assert len(os.listdir('/sys/class/infiniband')) == 4\n"
    )
    common = [sys.executable, "-m", "pytest", "-p", "softrdma._plugin", "-p", "no:cacheprovider", str(tmp_path)]
    plain = subprocess.run(common, env=environment(), capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert plain.returncode == 1
    command = [*common, "--softrdma", "--softrdma-devices", "rxe:4"]
    hosted = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert hosted.returncode == 0, hosted.stdout
    assert "softrdma: rxe:4" in hosted.stdout
