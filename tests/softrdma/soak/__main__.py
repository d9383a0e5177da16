# SPDX-License-Identifier: BSD-3-Clause
"""Traffic on the software host while everything goes wrong at random: ``python tests/softrdma/soak --seconds 60``.

Starts itself below the host, runs a lane of traffic for each kind of queue pair (lanes.py), within a process and
between two, and lets faults strike (weather.py) as a seed has it, which is printed first. It succeeds if no lane
hangs, no byte is wrong where a transfer was reported good, and nothing is left when all is closed.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

from weather import Weather

import softrdma

HERE = Path(__file__).parent
LANES = ("rc", "uc", "ud", "srq", "duo", "efa-ud", "srd")
#: Longer than any lane may go without a finished round: faults last a second at most, retries a few.
PATIENCE = 30.0


def restart(seed: int) -> NoReturn:
    """Below the host, with NICs of both models."""
    env = dict(os.environ)
    softrdma.preload(env, devices="rxe:2,efa:2", fabric=f"soak-{os.getpid()}")
    env["SOFTRDMA_SOAK_SEED"] = str(seed)
    os.execve(sys.executable, [sys.executable, *sys.argv], env)


class Lane:
    """A process of its own that runs traffic of one kind, and reports in lines."""

    def __init__(self, kind: str, seed: int) -> None:
        self.kind = kind
        self.seed = seed
        self.rounds = self.troubles = self.deaths = 0
        self.told = time.monotonic()
        self.failure: str | None = None
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "lanes.py"), self.kind, str(self.seed + self.deaths)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self.rest = ""
        self.told = time.monotonic()

    def listen(self) -> None:
        """Reads what it says: a round, a trouble that it got over, or what was wrong."""
        assert self.process.stdout is not None
        try:
            text = os.read(self.process.stdout.fileno(), 1 << 16).decode()
        except BlockingIOError:
            text = ""
        lines = (self.rest + text).split("\n")
        self.rest = lines.pop()
        for line in lines:
            self.told = time.monotonic()
            if line == "round":
                self.rounds += 1
            elif line == "trouble":
                self.troubles += 1
            elif line.startswith("wrong"):
                self.failure = line

    def check(self) -> str | None:
        """What is wrong with it, if anything. A lane that was killed by a fault starts again."""
        self.listen()
        status = self.process.poll()
        if self.failure:
            return self.failure
        if status == -signal.SIGKILL:
            self.deaths += 1
            self.start()
        elif status == 77:
            return "skip"
        elif status is not None:
            return f"ended with status {status}"
        elif time.monotonic() - self.told > PATIENCE:
            return f"no round for {PATIENCE:.0f} s"
        return None

    def begin_to_stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def end(self) -> str | None:
        """It has closed everything and said what is left; what was wrong, if anything."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            self.listen()
            time.sleep(0.01)
            if time.monotonic() > deadline:
                os.kill(self.process.pid, signal.SIGABRT)  # faulthandler says where it is
                self.process.wait()
                return f"did not end within {PATIENCE:.0f} s"
        self.listen()
        status = self.process.returncode
        if status == -signal.SIGKILL:  # by a fault that was still on its way
            self.deaths += 1
            return self.failure
        return self.failure or (f"ended with status {status}" if status else None)


def is_held(folder: str) -> bool:
    """Is there a program that uses this tree of files? It holds a lock on it."""
    try:
        fd = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def leftovers() -> list[str]:
    """Files of the host that outlived their programs, once a program that starts has swept."""
    subprocess.run([sys.executable, "-c", "import os; os.listdir('/sys/class/infiniband')"], check=True)
    names = [name for name in os.listdir("/dev/shm") if name.startswith(f"softrdma-{os.geteuid()}-")]
    return [name for name in names if not is_held(f"/dev/shm/{name}")]


def run(lanes: list[Lane], weather: Weather, seconds: float) -> list[str]:
    """Everything that went wrong that should not have."""
    end = time.monotonic() + seconds
    bad: list[str] = []
    while time.monotonic() < end and not bad:
        weather.change()
        time.sleep(weather.pause())
        for lane in list(lanes):
            problem = lane.check()
            if problem == "skip":
                print(f"lane {lane.kind}: needs a package that is not built", flush=True)
                lanes.remove(lane)
            elif problem:
                bad.append(f"lane {lane.kind}: {problem}")
    weather.clear_up()
    return bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--lanes", default=",".join(LANES))
    parser.add_argument("--calm", action="store_true", help="no faults: what the lanes do by themselves")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else int(os.environ.get("SOFTRDMA_SOAK_SEED", 0))
    seed = seed or random.randrange(1, 1 << 31)
    if not softrdma.is_loaded():
        print(f"soak: seed {seed}", flush=True)
        restart(seed)
    lanes = [Lane(kind, seed * 1000 + i * 100) for i, kind in enumerate(options.lanes.split(","))]
    bad = run(lanes, Weather(seed, calm=options.calm), options.seconds)
    for lane in lanes:
        lane.begin_to_stop()
    for lane in lanes:
        problem = lane.end()
        if problem and not bad:
            bad.append(f"lane {lane.kind}: {problem}")
        counts = f"{lane.rounds} rounds, {lane.troubles} troubles, killed {lane.deaths} times"
        print(f"lane {lane.kind}: {counts}", flush=True)
        if lane.rounds == 0 and not bad:
            bad.append(f"lane {lane.kind}: not a single good round")
    left = leftovers()
    if left:
        bad.append(f"left behind: {left}")
    for problem in bad:
        print(f"soak: {problem}; seed {seed}")
    print("soak: good" if not bad else "soak: BAD", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
