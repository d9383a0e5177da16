# SPDX-License-Identifier: BSD-3-Clause
"""Asks a verbs host everything that is compared: what ibv_devinfo says, our probe, rdma-core's own test suite.

    python ask.py FOLDER PROBE [SUITE]      writes devinfo.txt, probe.txt and pyverbs.txt into FOLDER

It runs where it is started: in the kernel VM, or with softrdma loaded.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
DEVICES = ("rxe0", "rxe1")


def output(command: Sequence[object]) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        timeout=240,
        text=True,
        errors="replace",
        check=False,
    )
    return done.stdout if done.returncode == 0 else f"{done.stdout}exit status: {done.returncode}\n"


def devinfo() -> str:
    """ibv_devinfo -v as questions and answers.

    GUIDs come from MAC addresses and vectors from CPUs, so their form alone counts. The names of flags stand on lines
    of their own there; here they are part of what they belong to.
    """
    found = {}
    for device in DEVICES:
        question = device
        for line in output(["ibv_devinfo", "-v", "-d", device]).splitlines():
            name, colon, value = (part.strip() for part in line.partition(":"))
            if name.startswith(("GID", "node_guid", "sys_image_guid")):
                value = re.sub(r"fe80::[0-9a-f:]+", "link-local", value)
                value = re.sub(r"^[0-9a-f]{4}(:[0-9a-f]{4}){3}$", "a GUID", value)
            elif name == "num_comp_vectors":
                value = "some" if int(value) > 0 else "none"
            if colon and not name.startswith("Unknown"):
                question = f"{device} {' '.join(name.split())}"
                found[question] = value
            elif name:
                found[question] = f"{found.get(question, '')} {' '.join(line.split())}".strip()
    return "".join(f"{question}: {answer}\n" for question, answer in found.items())


def pyverbs(suite: Path) -> str:
    """Names and results, with a line for each test."""
    return output(["/usr/bin/python3", HERE / "pyverbs_results.py", suite, DEVICES[0]])


def main() -> None:
    folder, probe = Path(sys.argv[1]), sys.argv[2]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "devinfo.txt").write_text(devinfo())
    (folder / "probe.txt").write_text(output([probe]))
    if len(sys.argv) > 3:
        (folder / "pyverbs.txt").write_text(pyverbs(Path(sys.argv[3])))
    (folder / "release.txt").write_text(output(["uname", "-r"]))


if __name__ == "__main__":
    main()
