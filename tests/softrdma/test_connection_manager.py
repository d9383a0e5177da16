# SPDX-License-Identifier: BSD-3-Clause
"""Programs that connect by address, between two processes: librdmacm's own, perftest's, libfabric's, pyverbs' suite."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable

import pytest
from host import Finished, Host, Running, Word, ended

HERE = Path(__file__).parent
SERVER, CLIENT = "10.99.0.1", "10.99.0.2"
IWARP = "10.99.1.1"

Program = Callable[[str], str]

#: Both dialects of librdmacm, which asks whether there is AF_IB.
DIALECTS = pytest.mark.parametrize("af_ib", ["1", "0"], ids=["AF_IB", "IP"])


@contextmanager
def listening(host: Host, command: Sequence[Word], **env: Any) -> Iterator[Running]:
    """A server that listens: none of these programs says when it does, but softrdma's trace does."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "trace")
        shell = ["sh", "-c", f'exec "$@" 2>{trace}', "sh", *command]
        with ended(host.start(shell, SOFTRDMA_TRACE="1", **env)) as server:
            deadline = time.monotonic() + 15
            while not trace.exists() or "LISTEN: 0" not in trace.read_text(errors="replace"):
                assert server.alive() and time.monotonic() < deadline, "the server does not listen"
                time.sleep(0.02)
            yield server


def meet(host: Host, server: Sequence[Word], client: Sequence[Word], **env: Any) -> tuple[Finished, Finished]:
    with listening(host, server, **env) as first:
        after = host.run(client, timeout=30, **env)
        return first.finish(10 if after.status == 0 else 1), after


def both_must(done: tuple[Finished, Finished]) -> str:
    server, client = done
    output = client.must()
    server.must()
    return output


@DIALECTS
@pytest.mark.parametrize("options", ["-C 20", "-C 5 -S 4096 -V", "-C 3 -q"], ids=lambda text: text.replace(" ", ""))
def test_rping(host: Host, program: Program, options: str, af_ib: str) -> None:
    command = [program("rping"), "-a", SERVER, *options.split()]
    both_must(meet(host, [*command, "-s"], [*command, "-c"], SOFTRDMA_CM_AF_IB=af_ib))


def test_rping_keeps_its_server_for_one_client_after_another(host: Host, program: Program) -> None:
    command = [program("rping"), "-a", SERVER]
    with listening(host, [*command, "-s", "-P"]) as server:
        for _ in range(5):
            host.run([*command, "-c", "-C", "3"]).must()
            time.sleep(0.2)  # it keeps one request at a time
        assert server.alive()


@DIALECTS
@pytest.mark.parametrize("options", ["", "-c 50", "-c 20 -C 100 -S 4096", "-c 5 -m"])
def test_ucmatose(host: Host, program: Program, options: str, af_ib: str) -> None:
    command = [program("ucmatose"), *options.split()]
    output = both_must(meet(host, [*command, "-b", SERVER], [*command, "-s", SERVER], SOFTRDMA_CM_AF_IB=af_ib))
    assert "return status 0" in output


def test_lost_messages_are_sent_again(host: Host, program: Program) -> None:
    command = [program("ucmatose"), "-c", "20"]
    losses = {
        "SOFTRDMA_FAULTS": "seed=5;drop:op=cm,probability=0.2,times=0",
        "SOFTRDMA_CM_TIMEOUTS": "0.002",
    }
    both_must(meet(host, [*command, "-b", SERVER], [*command, "-s", SERVER], **losses))


@pytest.mark.parametrize("run", ["rping -C 10", "ucmatose -c 10", "ib_write_bw -R -F -n 100"])
def test_iwarp(host: Host, program: Program, run: str) -> None:
    name, *options = run.split()
    command = [program(name), *options]
    server, client = {
        "rping": (["-s", "-a", IWARP], ["-c", "-a", IWARP]),
        "ucmatose": (["-b", IWARP], ["-s", IWARP]),
        "ib_write_bw": (["-d", "rxe_iw0"], ["-d", "rxe_iw1", IWARP]),
    }[name]
    both_must(meet(host, [*command, *server], [*command, *client], SOFTRDMA_DEVICES="rxe:2,iwarp:2"))


@DIALECTS
def test_udaddy(host: Host, program: Program, af_ib: str) -> None:
    command = [program("udaddy"), "-c", "4"]
    output = both_must(meet(host, [*command, "-b", SERVER], [*command, "-s", SERVER], SOFTRDMA_CM_AF_IB=af_ib))
    assert "return status 0" in output


@pytest.mark.parametrize("options", ["", "-o"], ids=["member", "send-only"])
def test_mckey(host: Host, program: Program, options: str) -> None:
    line_by_line = shutil.which("stdbuf")
    if line_by_line is None:
        pytest.skip("needs stdbuf of coreutils")
    command = [program("mckey"), "-m", "239.1.2.3", "-C", "10"]
    with ended(host.start([line_by_line, "-oL", *command, "-b", SERVER])) as receiver:
        receiver.read_until("receiving")
        host.run([*command, "-b", CLIENT, "-s", *options.split()]).must()
        assert "return status 0" in receiver.finish(10).must()


def test_cmtime_makes_a_thousand_connections(host: Host, program: Program) -> None:
    command = [program("cmtime"), "-c", "1000"]
    with listening(host, [*command, "-b", SERVER]):  # it does not end by itself
        client = host.run([*command, "-s", SERVER])
    assert "connect      :" in client.must()
    assert "error" not in client.output


@pytest.mark.parametrize(
    "run", ["ib_write_bw", "ib_write_bw -q 4", "ib_send_lat", "ib_read_lat", "ib_send_bw -c UD -s 1024", "ib_send_bw"]
)
def test_perftest_connects_by_address(host: Host, program: Program, run: str) -> None:
    name, *options = run.split()
    command = [program(name), "-R", "-F", "-n", "200", *options]
    assert "#bytes" in both_must(meet(host, [*command, "-d", "rxe0"], [*command, "-d", "rxe1", SERVER]))


FABRIC = """
ip link set lo up
ip link add veth0 type veth peer name veth1 && ip addr add 10.99.0.1/24 dev veth0 &&
    ip addr add 10.99.0.2/24 dev veth1 && ip link set veth0 up && ip link set veth1 up || exit 77
"$@" & server=$!
for attempt in 1 2 3 4 5 6 7 8 9 10; do
    sleep 0.3
    "$@" 10.99.0.1 && wait $server && exit 0
done
kill $server
exit 1
"""


def test_libfabric_exchanges_messages(host: Host, program: Program) -> None:
    """It looks for the address of the NIC among the machine's interfaces, so those are made, where nobody else is."""
    for name in ("unshare", "ip"):
        program(name)
    pingpong = [program("fi_pingpong"), "-p", "verbs", "-e", "msg", "-I", "20", "-S", "1024"]
    done = host.run(["unshare", "-rn", "sh", "-c", FABRIC, "sh", *pingpong], timeout=50)
    if done.status == 77 or "unshare failed" in done.output:
        pytest.skip("needs a network namespace of its own, with a pair of interfaces in it")
    assert "bytes" in done.must()


def test_the_tests_of_pyverbs(host: Host, suite: Path) -> None:
    command = ["/usr/bin/python3", HERE / "pyverbs_results.py", suite, "rxe0", "1", SERVER]
    lines = host.run(command, timeout=90).must().splitlines()
    results = [line.split(": ", 1)[1] for line in lines if line.startswith("tests.test_rdmacm")]
    assert len(results) >= 8, lines
    assert all(result == "ok" for result in results), "\n".join(lines)


def test_softrdma_built_with_sanitizers_has_nothing_to_report(sanitized: Host, program: Program) -> None:
    for name, server, client in (
        ("rping", ["-s", "-C", "5", "-a", SERVER], ["-c", "-C", "5", "-a", SERVER]),
        ("ucmatose", ["-c", "10", "-b", SERVER], ["-c", "10", "-s", SERVER]),
        ("udaddy", ["-b", SERVER], ["-s", SERVER]),
    ):
        for done in meet(sanitized, [program(name), *server], [program(name), *client]):
            output = done.must()
            for word in ("AddressSanitizer", "runtime error"):
                assert word not in output, output


def test_a_killed_server_gives_its_port_back_at_once(host: Host, program: Program) -> None:
    command = [program("rping"), "-a", SERVER]
    for _ in range(3):
        with listening(host, [*command, "-s", "-P"]):
            host.run([*command, "-c", "-C", "2"]).must()


def test_the_device_is_a_character_device_like_others(host: Host) -> None:
    done = host.run(["stat", "-L", "-c", "%F %t %T", "/dev/infiniband/rdma_cm"])
    assert "character special file a 3a" in done.must()
