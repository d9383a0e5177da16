# SPDX-License-Identifier: BSD-3-Clause
"""softrdma beside real kernels: ibv_devinfo, our probe's questions and rdma-core's own tests, answer by answer.

What each kernel answered is kept in kernels/; differences/ lists where softrdma is meant to differ, and why. Whether
the record is still what such a kernel says is asked of a kernel in the VM, where one is at hand.
"""

from __future__ import annotations

import difflib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from comparison import answers, complaints, read_differences
from host import Host

HERE = Path(__file__).parent
RUN_IN_VM = HERE.parents[1] / "tools" / "kernel-vm" / "run"
KERNELS = sorted(folder.name for folder in (HERE / "kernels").iterdir())
WHAT = ["devinfo", "probe", "pyverbs"]
#: The rdma-core whose programs were asked for the record; others print other lines, and their suites hold other tests.
RECORDED_WITH = "44."


def ask(suite: Path, probe: Path, folder: Path) -> list[object]:
    return [sys.executable, HERE / "ask.py", folder, probe, suite]


def skip_unless_recorded(what: str, suite: Path) -> None:
    if what != "probe" and not suite.parent.name.startswith(f"pyverbs-{RECORDED_WITH}"):
        pytest.skip(f"needs the programs of rdma-core {RECORDED_WITH}x, with which the record was made")


@pytest.fixture(scope="module")
def asked(judged: Path, suite: Path, probe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what softrdma answers."""
    if shutil.which("ibv_devinfo") is None:
        pytest.skip("needs ibv_devinfo: tests/softrdma/install-judges installs it")
    folder = tmp_path_factory.mktemp("softrdma")
    Host(judged).run([str(word) for word in ask(suite, probe, folder)], timeout=200).must()
    return folder


@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("kernel", KERNELS)
def test_answers_are_those_of_the_kernel_but_for_the_list(asked: Path, suite: Path, kernel: str, what: str) -> None:
    skip_unless_recorded(what, suite)
    listed = read_differences(HERE / "differences" / f"{what}-{kernel}.txt")
    recorded = answers((HERE / "kernels" / kernel / f"{what}.txt").read_text())
    wrong = complaints(recorded, answers((asked / f"{what}.txt").read_text()), listed)
    assert not wrong, f"softrdma beside kernel {kernel}, {what}:\n{wrong}"


@pytest.fixture(scope="module", params=["RDMA_UML_KERNEL", "RDMA_UML_KERNEL_SECOND"])
def guest(request: pytest.FixtureRequest, suite: Path, probe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the kernel that the variable names answers in the VM."""
    kernel: str | None = os.environ.get(request.param)
    if not kernel:
        pytest.skip(f"needs a kernel to run in the VM: {request.param} names it (tools/kernel-vm/build makes one)")
    folder = tmp_path_factory.mktemp("kernel")
    command = [RUN_IN_VM, f"--kernel={kernel}", "--timeout=240", f"--write={folder}", "--", *ask(suite, probe, folder)]
    done = subprocess.run(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    return folder


@pytest.mark.parametrize("what", WHAT)
def test_the_record_is_what_the_kernel_says(guest: Path, suite: Path, what: str) -> None:
    skip_unless_recorded(what, suite)
    release = ".".join((guest / "release.txt").read_text().split(".")[:2])
    record = HERE / "kernels" / release / f"{what}.txt"
    if not record.exists():
        pytest.skip(f"needs a record of kernel {release}'s answers in {record.parent}")
    said, recorded = ((path / f"{what}.txt").read_text().splitlines() for path in (guest, record.parent))
    changes = "\n".join(difflib.unified_diff(recorded, said, str(record), f"kernel {release}", n=0, lineterm=""))
    assert not changes, changes


def test_a_difference_that_is_not_listed_is_found() -> None:
    assert "1 differences that are not listed" in complaints({"a": "1"}, {"a": "2"}, {})


def test_a_listed_difference_that_is_gone_is_found(tmp_path: Path) -> None:
    listing = tmp_path / "list.txt"
    listing.write_text("# because\nquestion\n  kernel:   1\n  softrdma: 2\n")
    listed = read_differences(listing)
    assert not complaints({"question": "1"}, {"question": "2"}, listed)
    assert "1 listed differences that are not there" in complaints({"question": "1"}, {"question": "1"}, listed)


def test_a_list_needs_a_reason_for_every_entry(tmp_path: Path) -> None:
    listing = tmp_path / "list.txt"
    listing.write_text("question\n  kernel:   1\n  softrdma: 2\n")
    with pytest.raises(ValueError, match="no reason above"):
        read_differences(listing)
