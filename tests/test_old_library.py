# SPDX-License-Identifier: BSD-3-Clause
"""Libraries that lack things: an old one works but for the verbs it does not have; a damaged one is an ImportError
that says what is wrong. Each in an interpreter of its own, since a process opens one library."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from stub_control import Stub

pytestmark = [pytest.mark.needs("stub"), pytest.mark.only("ibverbs")]


def run(code: str, folder: str | None, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **env}
    environment.pop("RDMA_LIBRARY_PATH", None)
    if folder is not None:
        environment["RDMA_LIBRARY_PATH"] = folder
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def passes(code: str, folder: str) -> str:
    done = run(code, folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


PRELUDE = """
import errno, ibverbs as ib
ctx = ib.get_device_list()[0].open()
pd = ctx.alloc_pd()
"""


@pytest.fixture(scope="session")
def old(stub_library: Stub) -> str:
    folder = Path(stub_library.folder) / "old"
    if not (folder / "libibverbs.so.1").exists():
        pytest.skip("needs the old build of the stub beside the stub")
    return str(folder)


def test_an_old_library_imports_and_works(old: str) -> None:
    passes(
        PRELUDE
        + """
mr = pd.reg_mr(0x1000, 4096, ib.AccessFlags.LOCAL_WRITE)
assert mr.lkey and mr.addr == 0x1000
cq = ctx.create_cq(16)
qp = pd.create_qp(ib.QPInitAttr(cq, cq))
qp.to_init(1)
qp.to_rtr(ib.QPInfo(1, 2, 0, bytes(16), 1, 3), 0)
qp.to_rts(1)
qp.post_send(ib.SendWR(7, [mr.sge(8)], ib.WROpcode.SEND, ib.SendFlags.SIGNALED))
assert cq.poll(1)[0].wr_id == 7
""",
        old,
    )


def test_port_attributes_of_an_old_library_are_whole_and_zero_where_it_has_none(old: str) -> None:
    passes(
        PRELUDE
        + """
a = ctx.query_port(1)
assert (a.state, a.max_mtu, a.active_mtu, a.gid_tbl_len, a.link_layer) == (4, 5, 3, 8, 2)
assert (a.port_cap_flags, a.max_msg_sz, a.pkey_tbl_len, a.lmc) == (0x04010000, 1 << 30, 2, 1)
assert getattr(a, "port_cap_flags2", 0) == 0
""",
        old,
    )


def test_fork_status_needs_a_newer_library_and_fork_init_does_not(old: str) -> None:
    passes(
        """
import ibverbs as ib
ib.fork_init()
try:
    ib.fork_status()
except ib.UnsupportedError as error:
    assert "35" in str(error) and error.operation == "ibv_is_fork_initialized", error
else:
    raise SystemExit("nothing was raised")
""",
        old,
    )


def test_optional_access_is_dropped_where_the_library_does_not_know_it(old: str) -> None:
    passes(
        PRELUDE
        + """
with pd.reg_mr(0x1000, 4096, ib.AccessFlags.LOCAL_WRITE | ib.AccessFlags.RELAXED_ORDERING) as mr:
    assert mr.length == 4096
""",
        old,
    )


def test_a_verb_that_the_library_is_too_old_for_says_which_release_brings_it(old: str) -> None:
    passes(
        PRELUDE
        + """
try:
    pd.reg_dmabuf_mr(0, 4096, 0, 3, 1)
except ib.UnsupportedError as error:
    assert isinstance(error, ib.VerbsError) and isinstance(error, RuntimeError) and isinstance(error, OSError)
    assert error.errno == errno.EOPNOTSUPP
    assert error.operation == "ibv_reg_dmabuf_mr"
    assert "34" in str(error) and "ibv_reg_dmabuf_mr" in str(error), str(error)
else:
    raise SystemExit("nothing was raised")
try:
    pd.reg_dmabuf_mr(0, 1.5, 0, 3, 1)
except TypeError:
    pass
""",
        old,
    )


def import_error(done: Any) -> str:
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ImportError: "), done.stdout
    return str(done.stdout)


TRY = """
try:
    import ibverbs
except ImportError as error:
    print("ImportError:", error)
else:
    raise SystemExit("it imported")
"""


def test_a_library_without_a_required_function_is_an_import_error_naming_it(stub_library: Stub) -> None:
    folder = Path(stub_library.folder) / "broken"
    if not (folder / "libibverbs.so.1").exists():
        pytest.skip("needs the broken build of the stub beside the stub")
    words = import_error(run(TRY, str(folder)))
    assert "ibv_create_qp" in words and str(folder / "libibverbs.so.1") in words


def test_a_missing_library_is_an_import_error_naming_packages_and_places(tmp_path: Path) -> None:
    words = import_error(run(TRY, str(tmp_path)))
    for part in ("libibverbs.so.1", str(tmp_path), "RDMA_LIBRARY_PATH", "libibverbs1", "rdma-core"):
        assert part in words, words


def test_a_file_that_is_no_library_is_an_import_error_with_the_loaders_words(tmp_path: Path) -> None:
    (tmp_path / "libibverbs.so.1").write_bytes(b"not a library")
    words = import_error(run(TRY, str(tmp_path)))
    assert str(tmp_path) in words
    assert "ELF" in words or "file too short" in words or "xec format" in words, words


def test_a_failed_import_may_be_tried_again(tmp_path: Path, stub_library: Stub) -> None:
    code = (
        TRY
        + f"""
import os
import shutil
os.environ["RDMA_LIBRARY_PATH"] = {stub_library.folder!r}
import ibverbs
print(len(ibverbs.get_device_list()))
"""
    )
    assert "3" in run(code, str(tmp_path)).stdout.splitlines()


def test_an_empty_variable_means_the_system_library(stub_library: Stub) -> None:
    done = run("import ibverbs; print('imported')", "")
    if done.returncode:
        assert "ImportError" in done.stderr and "RDMA_LIBRARY_PATH" not in done.stderr
    else:
        assert done.stdout.strip() == "imported"


def test_libraries_of_two_builds_are_told_by_the_loaders_words_and_the_path_of_each(
    stub_library: Stub, tmp_path: Path
) -> None:
    """A provider that wants private symbols of another libibverbs than the one that is loaded."""
    pytest.importorskip("efa")
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
    if not compiler:
        pytest.skip("needs a C compiler")
    (tmp_path / "libibverbs.so.1").symlink_to(Path(stub_library.folder, "libibverbs.so.1").resolve())
    source = tmp_path / "efa.c"
    source.write_text("void verbs_init_of_another_build(void);\nvoid f(void) { verbs_init_of_another_build(); }\n")
    library = tmp_path / "libefa.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True, timeout=60)
    done = run("import efa", str(tmp_path))
    assert done.returncode != 0 and "ImportError" in done.stderr
    assert "undefined symbol: verbs_init_of_another_build" in done.stderr
    assert str(library) in done.stderr
    assert f"loaded in this process: {tmp_path}/libibverbs.so.1" in done.stderr
