# SPDX-License-Identifier: BSD-3-Clause
"""Other Debian releases, from the mirror that this machine's own apt uses: only the suite is another one."""
from __future__ import annotations

import platform
import shutil
from pathlib import Path

from place import CACHE, quietly

KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class Unavailable(Exception):
    """Says why another release cannot be had here."""


def mirror() -> str:
    """The address of the Debian archive in this machine's apt sources."""
    system = _os_release()
    if system.get("ID") != "debian":
        raise Unavailable("needs a Debian machine, whose apt sources name a Debian mirror")
    targets = quietly(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(CODENAME) $(COMPONENT)",
                       "Created-By: Packages"])
    ours = {system.get("VERSION_CODENAME", ""), "stable", "oldstable"} - {""}
    for line in targets.splitlines():
        address, *suites, component = line.split(" ")
        if component == "main" and ours & set(suites):
            return address
    raise Unavailable("needs a Debian mirror for main in this machine's apt sources")


def _os_release() -> dict[str, str]:
    lines = Path("/etc/os-release").read_text().splitlines()
    return {name: value.strip('"') for name, _, value in (line.partition("=") for line in lines)}


def packages(suite: str, names: list[str], depends: bool = False, folder_name: str | None = None) -> Path:
    """A folder that holds the files of these packages of that suite; downloaded once, then kept.

    It has the suite's name unless it is given another, for a second set. With `depends` it holds all that they depend
    on too, from the C library up: a root to change into, in which no package's scripts ran.
    """
    folder = CACHE / (folder_name or suite)
    wanted = " ".join(names)
    if (folder / "complete").exists() and (folder / "complete").read_text() == wanted:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    options = _separate_apt(folder / "apt", suite)
    quietly(["apt-get", *options, "update", "-qq"])
    debs = folder / "apt" / "cache" / "archives"
    if depends:
        quietly(["apt-get", *options, "install", "-qq", "--yes", "--no-install-recommends", "--download-only", *names])
    else:
        quietly(["apt-get", *options, "download", "-qq", *names], cwd=debs)
    for deb in sorted(debs.glob("*.deb")):
        quietly(["dpkg-deb", "--extract", deb, folder])
    shutil.rmtree(folder / "apt")
    (folder / "complete").write_text(wanted)
    return folder


def _separate_apt(folder: Path, suite: str) -> list[str]:
    """apt's options for lists, caches and sources of its own; proxies and certificates stay the machine's."""
    for part in ("lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True)
    (folder / "status").touch()
    signed = f"[signed-by={KEYS}] " if KEYS.exists() else ""
    (folder / "sources.list").write_text(f"deb {signed}{mirror()} {suite} main\n")
    settings = {
        "Dir::Etc::SourceList": folder / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": folder / "lists",
        "Dir::State::Status": folder / "status",
        "Dir::Cache": folder / "cache",
        "APT::Sandbox::User": "root",               # the folder may be closed to apt's own user
        "APT::Architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
        "Acquire::Check-Valid-Until": "false",      # nobody renews the lists of an archived release
        "Acquire::Languages": "none",
    }
    return [f"-o{name}={value}" for name, value in settings.items()]
