# SPDX-License-Identifier: BSD-3-Clause
"""The EFA device, judged by rdma-core's own tests of two releases and by libfabric's provider for it.

The newest release runs with a Python and a C library of its own, from a folder that tools/test keeps
(tools/places/debian.py): run its place judges once.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
from pathlib import Path
from typing import Any, Callable

import pytest
from host import Finished, Host, Word, free_port

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ibverbs-tests"
NEWEST = CACHE / "testing-pyverbs"
DEVICES = {"SOFTRDMA_DEVICES": "rxe:1,efa:2"}
#: What a make of the device cannot do is skipped by the suite, which then says nothing of this host.
WITHOUT = {0: ("rdma_read", "rdma_write", "unsolicited"), 1: ("rdma_write", "unsolicited"), 2: ("unsolicited",)}


def results(finished: Finished) -> dict[str, str]:
    """What became of each test, of a run that came to its end."""
    lines = re.findall(r"^tests\.(\S+): (.*)$", finished.must(), re.MULTILINE)
    assert "suite: ended" in finished.output, finished.output[-2000:]
    return dict(lines)


def fine(found: dict[str, str]) -> None:
    failed = {name: what for name, what in found.items() if what.startswith("failed")}
    assert not failed, "\n".join(f"{name}: {what}" for name, what in failed.items())


def of_efa(found: dict[str, str]) -> dict[str, str]:
    return {name: what for name, what in found.items() if name.startswith("test_efa")}


def test_the_suite_of_the_installed_release_passes(host: Host, suite: Path) -> None:
    command = ["/usr/bin/python3", HERE / "pyverbs_results.py", suite, "efa_0", "0"]
    found = results(host.run(command, timeout=200, **DEVICES))
    fine(found)
    assert set(of_efa(found).values()) == {"ok"} and len(of_efa(found)) >= 16, of_efa(found)


@pytest.fixture(scope="module")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The suite of the newest release, unpacked."""
    if not (NEWEST / "complete").exists():
        pytest.skip(f"needs the newest pyverbs in {NEWEST}: tools/test judges fetches it")
    folder = tmp_path_factory.mktemp("newest") / "tests"
    shutil.copytree(NEWEST / "usr/share/doc/rdma-core/tests", folder)
    for packed in folder.rglob("*.gz"):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
    tools = folder.parent / "bin"
    tools.mkdir()
    # the suite asks iproute2 for the interfaces that devices sit on; these sit on none
    (tools / "rdma").write_text("#!/bin/sh\necho '[]'\n")
    (tools / "rdma").chmod(0o755)
    return folder


def over_newest(host: Host, command: list[Word], path: str = "", **env: str) -> Finished:
    """A program over the newest release's libraries, under its own loader and C library."""
    library = next(NEWEST.glob("usr/lib/*/libibverbs.so.1")).parent
    loader = next(NEWEST.glob("usr/lib/*/ld-linux-*.so.*"))
    search = f"{library}:{library}/libibverbs"  # the providers, which are opened by bare names
    return host.run(
        [loader, "--library-path", search, "--preload", host.library, *command],
        timeout=200,
        LD_PRELOAD=None,  # the loader names the library
        RDMAV_DRIVERS=f"{library}/libibverbs/libefa",
        PATH=f"{path}:{os.environ['PATH']}",
        **env,
    )


def run_newest(host: Host, suite: Path, devices: str) -> dict[str, str]:
    python = [NEWEST / "usr/bin/python3", HERE / "pyverbs_results.py", suite, "efa_0", "0"]
    env = {"PYTHONHOME": str(NEWEST / "usr"), "PYTHONDONTWRITEBYTECODE": "1", "SOFTRDMA_DEVICES": devices}
    return results(over_newest(host, [*python], f"{suite.parent}/bin", **env))


@pytest.mark.parametrize(("name", "said"), [("cq_memory", "100 rounds"), ("counters", "counted")])
def test_the_newest_calls_are_answered(
    host: Host, newest: Path, built: Callable[..., Path], name: str, said: str
) -> None:
    program = built(name, f"programs/{name}.c", flags=("-Wl,--no-as-needed", "-lefa", "-ldl"))
    assert said in over_newest(host, [program], SOFTRDMA_DEVICES="efa:1").must()


def test_the_suite_of_the_newest_release_passes(host: Host, newest: Path) -> None:
    found = run_newest(host, newest, "efa:2")
    fine(found)
    assert set(of_efa(found).values()) == {"ok"} and len(of_efa(found)) >= 21, of_efa(found)


@pytest.mark.parametrize("generation", WITHOUT)
def test_an_older_device_does_what_it_can(host: Host, newest: Path, generation: int) -> None:
    found = run_newest(host, newest, f"efa@{generation}:2")
    fine(found)
    for name, what in of_efa(found).items():
        lacking = any(word in name for word in WITHOUT[generation])
        if "create_qp_ex" not in name:  # which operations it asks for is drawn by chance
            assert what.startswith("skipped") if lacking else what == "ok", (name, what)


def libfabric(**env: str) -> dict[str, Any]:
    """The provider would talk to a process of the same machine over shared memory, and gives up at a NIC of another
    kind.
    """
    return {"SOFTRDMA_DEVICES": "efa:2", "FI_EFA_ENABLE_SHM_TRANSFER": "0", **env}


def test_fi_info_lists_the_endpoints(host: Host, program: Callable[[str], str]) -> None:
    listed = host.run([program("fi_info"), "-p", "efa"], **libfabric()).must()
    for domain in ("efa_0-rdm", "efa_1-rdm", "efa_0-dgrm", "efa_1-dgrm"):
        assert f"domain: {domain}" in listed, listed


def play(host: Host, name: str, options: list[Word], **env: str) -> None:
    port = free_port()
    server = [name, "-p", "efa", "-B", port, *options]
    client = [name, "-p", "efa", "-P", port, *options, "127.0.0.1"]
    for finished in host.pair(server, client, timeout=100, port_option="-B", **libfabric(**env)):
        assert re.search(r"^\d+k?m?\s+\d+\s+=\d+", finished.must(), re.MULTILINE), finished.output


#: Eager, in more than one packet, and read by the target.
SIZES = ["1", "512", "4096", "8192", "65536", "1048576"]


@pytest.mark.parametrize("size", SIZES)
def test_two_processes_of_libfabric_play(host: Host, program: Callable[[str], str], size: str) -> None:
    play(host, program("fi_pingpong"), ["-e", "rdm", "-c", "-I", "20", "-S", size])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", ["1", "2"])
def test_they_play_out_of_order(host: Host, program: Callable[[str], str], seed: str, size: str) -> None:
    play(host, program("fi_pingpong"), ["-e", "rdm", "-c", "-I", "20", "-S", size], SOFTRDMA_REORDER=seed)


@pytest.mark.parametrize("size", ["1", "512", "4096", "8192"])
def test_they_play_with_datagrams(host: Host, program: Callable[[str], str], size: str) -> None:
    play(host, program("fi_pingpong"), ["-e", "dgram", "-c", "-I", "20", "-S", size])


def test_they_play_by_the_other_way_of_copying(host: Host, program: Callable[[str], str]) -> None:
    play(host, program("fi_pingpong"), ["-e", "rdm", "-c", "-I", "20", "-S", "65536"], SOFTRDMA_COPY="agent")


#: The device's own tests, built here: what they say is said by softrdma's build too, but not under sanitizers.
OWN = tuple(f"../../softrdma/tests/{name}.c" for name in ("srd", "pair", "garbage"))
SECONDS = os.environ.get("SOFTRDMA_FUZZ_SECONDS", "6")


def own_program(built: Callable[..., Path], name: str) -> Path:
    return built(name, f"../../softrdma/tests/{name}.c", *OWN, flags=("-Wl,--no-as-needed", "-lefa"))


def quiet(finished: Finished) -> str:
    output = finished.must()
    assert "ERROR" not in output and "runtime error" not in output, output
    return output


def test_garbage_is_refused(host: Host, built: Callable[..., Path]) -> None:
    assert "ring writes" in quiet(host.run([own_program(built, "efa_fuzz"), SECONDS], **DEVICES))


def test_garbage_is_refused_under_sanitizers(sanitized: Host, built: Callable[..., Path]) -> None:
    assert "ring writes" in quiet(sanitized.run([own_program(built, "efa_fuzz"), SECONDS], **DEVICES))


def test_sanitizers_have_nothing_to_report_of_one_process(sanitized: Host, built: Callable[..., Path]) -> None:
    quiet(sanitized.run([own_program(built, "efa")], EFA_TEST_STACK="262144", **DEVICES))


@pytest.mark.parametrize("case", ["live", "kill", "child"])
def test_sanitizers_have_nothing_to_report_of_two(sanitized: Host, built: Callable[..., Path], case: str) -> None:
    quiet(sanitized.run([own_program(built, "efa_peers"), case], **DEVICES))
