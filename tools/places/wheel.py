# SPDX-License-Identifier: BSD-3-Clause
"""What users install: an sdist, the wheel built from that alone, and the wheel in fresh environments."""
from __future__ import annotations

import re
import tarfile
import tempfile
from pathlib import Path

import pythons
from host import only_its_own, suite_on_stub
from place import PACKAGES, ROOT, SUITE, Outcome, Runs, build_path, pytest, quietly, report_for, run

BUILD_TOOLS = ("build", "wheel")
#: What may differ from one Python to the next, for those that are not the oldest, which runs all.
NEWER = [f"tests/test_{name}.py" for name in ("isolated", "signatures", "values", "flags", "enums", "posting",
                                              "efa_posting", "lifetimes", "waiting", "asyncio", "random_calls")]


def run_wheel(runs: Runs) -> None:
    with tempfile.TemporaryDirectory(prefix="wheel-") as scratch:
        folder = Path(scratch)
        wheels = []
        for package in PACKAGES:
            with runs.outcome(f"sdist and wheel, {package}") as outcome:
                wheels.append(_build(outcome, package, folder / package))
                _check(outcome, package, wheels[-1])
                _install_from_checkout(outcome, package, folder / package / "installed")
        versions = list(pythons.at_hand())
        for version in versions:
            tests = SUITE if version == versions[0] else NEWER
            with runs.outcome(f"wheels, Python {version}") as outcome:
                python = pythons.make(version, folder / version, *pythons.TOOLS, *wheels)
                if all([_imports(outcome, python, package, folder / version) for package in PACKAGES]):
                    suite_on_stub(outcome, python, "", [*tests, *only_its_own(version)])


def _install_from_checkout(outcome: Outcome, package: str, environment: Path) -> None:
    """What the READMEs say: pip install ./package, with the newest Python at hand."""
    python = pythons.make(list(pythons.at_hand())[-1], environment, ROOT / package)
    _imports(outcome, python, package, environment)


def _imports(outcome: Outcome, python: Path, package: str, environment: Path) -> bool:
    where = quietly([python, "-c", f"import {package}; print({package}.__file__)"], cwd=environment).strip()
    return outcome.check(f"imports from {where}", str(environment) in where)


def _build(outcome: Outcome, package: str, folder: Path) -> Path:
    """Builds both with the oldest Python at hand, as a release would."""
    oldest = next(iter(pythons.at_hand()))
    python = pythons.make(oldest, folder / "builder", *BUILD_TOOLS)
    sdist = _only(folder / "sdist", "*.tar.gz", [python, "-m", "build", "--sdist", "--outdir"], ROOT / package)
    outcome.check(f"{sdist.name} is built from what is committed", True)
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "source")
    source = next((folder / "source").iterdir())
    outcome.check("the sdist holds no link", not any(path.is_symlink() for path in source.rglob("*")))
    # from the unpacked sdist, in a folder of its own: nothing of the checkout is near
    wheel = _only(folder / "wheel", "*.whl", [python, "-m", "build", "--wheel", "--outdir"], source)
    outcome.check(f"{wheel.name} is built from the sdist alone", True)
    if not re.search(r"-cp39-abi3-", wheel.name):
        print(f"no Python 3.9 at hand: retagging {wheel.name}")
        quietly([python, "-m", "wheel", "tags", "--remove", "--python-tag=cp39", wheel])
        wheel = next(wheel.parent.glob("*.whl"))
    return wheel


def _only(folder: Path, pattern: str, command: list[object], source: Path) -> Path:
    quietly([*command, folder, source])
    (made,) = folder.glob(pattern)
    return made


def _check(outcome: Outcome, package: str, wheel: Path) -> None:
    report = report_for(f"wheel contents {package}")
    env = {"RDMA_TEST_WHEEL": str(wheel), "PYTHONPATH": build_path()}
    status = run(pytest(ROOT / ".venv/bin/python", report, "tests/packaging"), env)
    outcome.add_report(report, status)
