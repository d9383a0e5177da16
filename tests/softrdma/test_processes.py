# SPDX-License-Identifier: BSD-3-Clause
"""Processes that die, and what they leave: nothing, and peers that go on or learn of it."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Callable

import pytest
from host import Host, Running
from peers import address, go, introduced, say

#: Where a library could leave things behind.
PLACES = ["/dev/shm", "/tmp", "/var/tmp", "/run", f"/run/user/{os.getuid()}"]


@pytest.fixture(scope="module")
def peer(built: Callable[..., Path]) -> Path:
    return built("peer", "programs/peer.c", "programs/rig.c")


def traces() -> set[str]:
    """Names in those places that others than the tests may have made."""
    found = set()
    for place in PLACES:
        if os.path.isdir(place):
            found |= {f"{place}/{name}" for name in os.listdir(place)}
    return {name for name in found if ("softrdma" in name or name.startswith("/dev/shm/")) and not held(name)}


def held(name: str) -> bool:
    """softrdma's trees are locked by the living: other programs of this machine may use it at the same time."""
    try:
        fd = os.open(name, os.O_RDONLY)
    except OSError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(fd)


def sockets(fabric: str) -> list[str]:
    return [line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines() if fabric in line]


def library_users(library: Path) -> set[int]:
    """Processes that have the library mapped: those of other tests of this machine too."""
    users = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if str(library) in Path(f"/proc/{entry}/maps").read_text():
                    users.add(int(entry))
            except OSError:
                pass
    return users


@pytest.fixture
def spotless(host: Host) -> Iterator[None]:
    """Afterwards nothing is left that was not there before: no shared memory, no file, no socket, no process.

    What little a killed process leaves in the file system is swept by the next start, so a last one is made and ended.
    """
    before, running = traces(), library_users(host.library)
    yield
    host.run(["ibv_devinfo", "-l"])
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        left = traces() - before, sockets(host.fabric), library_users(host.library) - running
        if not any(left):
            return
        time.sleep(0.1)
    raise AssertionError(f"left behind: {left}")


def both_end(a: Running, b: Running) -> None:
    """Both have done their rounds before either goes."""
    for program in (a, b):
        program.read_until("rounds")
    for program in (a, b):
        program.finish(20).must()


def test_two_processes_work_at_each_other(host: Host, peer: Path, spotless: None) -> None:
    with introduced(host, peer, 1) as (a, b):
        go(a, b)
        both_end(a, b)


def test_two_processes_work_without_leave_to_reach_into_each_other(
    host: Host, peer: Path, built: Callable[..., Path], spotless: None
) -> None:
    wrapper = built("without_vm", "programs/without_vm.c")
    with introduced(host, peer, 1, wrapper=[wrapper]) as (a, b):
        go(a, b)
        both_end(a, b)


def test_one_of_two_may_reach_into_the_other(host: Host, peer: Path, built: Callable[..., Path]) -> None:
    """A fabric of mixed rights: each side copies as it can."""
    wrapper = built("without_vm", "programs/without_vm.c")
    a = host.start([wrapper, peer, 0, "1"], stdin=True)
    b = host.start([peer, 1, "1"], stdin=True)
    try:
        first, second = address(a), address(b)
        say(a, second)
        say(b, first)
        a.read_until("connected")
        b.read_until("connected")
        go(a, b)
        both_end(a, b)
    finally:
        a.end()
        b.end()


@pytest.mark.parametrize("copy", ["process_vm", "agent"])
@pytest.mark.parametrize("moment", range(5))
def test_a_peer_that_is_killed_is_retry_exceeded(
    host: Host, peer: Path, copy: str, moment: int, spotless: None
) -> None:
    with introduced(host, peer, 30, SOFTRDMA_COPY=copy) as (a, b):
        go(a, b)
        time.sleep(0.01 + moment * random.random() * 0.1)
        os.kill(b.pid, signal.SIGKILL)
        finished = a.finish(10)
        assert finished.status == 3 and "transport retry counter exceeded" in finished.output, finished


@pytest.mark.parametrize("copy", ["process_vm", "agent"])
def test_memory_that_the_peer_unmapped_is_a_remote_error(host: Host, peer: Path, copy: str) -> None:
    with introduced(host, peer, 5, ("work", "unmap"), SOFTRDMA_COPY=copy) as (a, b):
        go(b)
        b.read_until("unmapped")
        go(a)
        finished = a.finish(10)
        assert finished.status == 3 and "remote access error" in finished.output, finished
        assert b.alive()


def test_a_stopped_peer_is_reached_as_before(host: Host, peer: Path) -> None:
    """RDMA does not need the target's CPU: a peer in the debugger's hands answers writes and reads."""
    with introduced(host, peer, 1.5, ("work", "serve"), SOFTRDMA_COPY="process_vm") as (a, b):
        go(a)
        time.sleep(0.3)
        os.kill(b.pid, signal.SIGSTOP)
        try:
            a.read_until("rounds")
        finally:
            os.kill(b.pid, signal.SIGCONT)
        a.finish(20).must()


def kill_storm(host: Host, peer: Path, victims: int, **env: str) -> None:
    """Starts pairs of the same fabric and kills one or both at a random moment of their lives."""
    for _ in range(victims):
        programs = [host.start([peer, device, "30"], stdin=True, **env) for device in (0, 1)]
        try:
            kill_at = random.choice(["start", "address", "connected", "traffic"])
            if kill_at == "start":
                time.sleep(random.random() * 0.02)
            else:
                first, second = (address(program) for program in programs)
                if kill_at != "address":
                    say(programs[0], second)
                    say(programs[1], first)
                    for program in programs:
                        program.read_until("connected")
                if kill_at == "traffic":
                    go(*programs)
                    time.sleep(random.random() * 0.03)
            os.kill(random.choice(programs).pid, signal.SIGKILL)
            if kill_at == "traffic" and random.random() < 0.5:
                time.sleep(random.random() * 0.01)
        finally:
            for program in programs:
                program.end()


@pytest.mark.parametrize("copy", ["process_vm", "agent"])
def test_killing_processes_at_any_moment_harms_no_others(host: Host, peer: Path, copy: str, spotless: None) -> None:
    with introduced(host, peer, 9, SOFTRDMA_COPY=copy) as (a, b):
        go(a, b)
        start, killed = time.monotonic(), 0
        while time.monotonic() - start < 8:
            kill_storm(host, peer, 1, SOFTRDMA_COPY=copy)
            killed += 1
            assert a.alive() and b.alive(), f"a bystander died after {killed}: {a.finish(1)} {b.finish(1)}"
        both_end(a, b)
        assert killed > 10


def test_starts_do_not_add_up(host: Host, peer: Path, spotless: None) -> None:
    """Two hundred starts in a row: nothing grows, no slot is used up."""
    kill_storm(host, peer, 20)
    for _ in range(180):
        host.run(["ibv_devinfo", "-l"]).must()
    with introduced(host, peer, 0.2) as (a, b):
        go(a, b)
        both_end(a, b)


def descriptors(program: Running) -> int:
    return len(os.listdir(f"/proc/{program.pid}/fd"))


def test_a_long_liver_gathers_no_descriptors_of_the_dead(host: Host, peer: Path) -> None:
    with introduced(host, peer, 60) as (a, b):
        go(a, b)
        kill_storm(host, peer, 5)
        time.sleep(0.5)
        before = descriptors(a)
        kill_storm(host, peer, 20)
        time.sleep(0.5)
        assert descriptors(a) <= before + 3
