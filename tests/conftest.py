# SPDX-License-Identifier: BSD-3-Clause
"""Markers and fixtures for everything under tests/.

A test says what it needs (``@pytest.mark.needs("rc", "two_devices")``; the words are in place.py) and is skipped with
the reason where that is missing. ``RDMA_TEST_REQUIRE="rc two_devices"`` turns a missing thing into a failure of the
whole run, for machines that are there to provide it.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import os
import random
from collections.abc import Iterator
from typing import Any

import packages
import pytest
from efa_endpoints import new_endpoint
from endpoints import RC, UC, UD, Endpoint, Make, Pair, connect
from place import Node, Place

pytest_plugins = ["stub_fixtures", "cuda_fixtures", "cm_fixtures"]


@functools.cache
def place_of(package: str) -> Place:
    return Place(package)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*words): skip unless the place offers these; the words are in place.py")
    config.addinivalue_line("markers", "only(package): a promise of one package; without it every package makes it")
    config.addinivalue_line("markers", "hardware: needs a real NIC or GPU; run these with -m hardware")


def pytest_sessionstart(session: pytest.Session) -> None:
    for need in os.environ.get("RDMA_TEST_REQUIRE", "").split():
        reasons = {package: place_of(package).missing(need) for package in packages.built()}
        if all(reasons.values()):  # no package has it
            pytest.exit(f"RDMA_TEST_REQUIRE: {reasons}", returncode=1)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `ib` runs once for each package that makes its promise."""
    if "ib" not in metafunc.fixturenames:
        return
    only = [name for mark in metafunc.definition.iter_markers("only") for name in mark.args]
    wanted = [name for name in packages.ALL if not only or name in only]
    missing = pytest.mark.skip(reason="needs the package, built")
    chosen: list[Any] = [name for name in wanted if name in packages.built()]
    metafunc.parametrize("ib", chosen or [pytest.param(wanted[0], marks=missing)], indirect=True, scope="session")


def package_of(item: pytest.Item) -> str:
    callspec = getattr(item, "callspec", None)
    if callspec is not None and "ib" in callspec.params:
        return str(callspec.params["ib"])
    only = [name for mark in item.iter_markers("only") for name in mark.args]
    return only[0] if only else packages.built()[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """RDMA_TEST_SHUFFLE=SEED runs the tests in another order: they must not lean on each other."""
    seed = os.environ.get("RDMA_TEST_SHUFFLE")
    if seed:
        random.Random(seed).shuffle(items)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Tests run the collector often: spare it all that is there before the first of them."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    package = package_of(item)
    for mark in item.iter_markers("needs"):
        for need in mark.args:
            reason = place_of(package).missing(need)
            if reason is not None:
                pytest.skip(reason)


@pytest.fixture(scope="session")
def ib(request: pytest.FixtureRequest) -> Any:
    """The package under test."""
    return place_of(request.param).module


@pytest.fixture(scope="session")
def place(ib: Any) -> Place:
    return place_of(ib.__name__)


@pytest.fixture
def node(place: Place) -> Node:
    """The first device that moves data."""
    reason = place.missing("device")
    if reason is not None:
        pytest.skip(reason)
    return place.nodes[0]


@pytest.fixture
def softrdma_faults(place: Place) -> Iterator[Any]:
    """Faults on demand (docs/faults.md), all undone when the test ends."""
    if not place.emulated:
        pytest.skip("needs the software host: it is the one place where a device fails on demand")
    with importlib.import_module("softrdma.faults").here() as faults:
        faults.seed = 1
        yield faults


@pytest.fixture
def ctx(node: Node) -> Iterator[Any]:
    with node.open() as context:
        yield context


@pytest.fixture
def pd(ctx: Any) -> Iterator[Any]:
    with ctx.alloc_pd() as domain:
        yield domain


@pytest.fixture
def make(ib: Any, node: Node) -> Iterator[Make]:
    """Makes endpoints, on the first device unless told otherwise, and closes them at the end of the test."""
    with contextlib.ExitStack() as undo:

        def build(qp_type: int | None = None, on: Node = node, **options: Any) -> Endpoint:
            return undo.enter_context(new_endpoint(ib, on, qp_type, **options))

        yield build


@pytest.fixture(params=["one device", "two devices"])
def nodes(request: pytest.FixtureRequest, place: Place, node: Node) -> tuple[Node, Node]:
    """Where the two ends of a connection live."""
    if request.param == "one device":
        return node, node
    reason = place.missing("two_devices")
    if reason is not None:
        pytest.skip(reason)
    return place.nodes[0], place.nodes[1]


def _pair_of(qp_type: int, make: Make, nodes: tuple[Node, Node]) -> Pair:
    def build(connected: bool = True, options: Any = None, **endpoint: Any) -> tuple[Endpoint, Endpoint]:
        a, b = (make(qp_type, on=n, **endpoint) for n in nodes)
        if connected:
            connect(a, b, **(options or {}))
        return a, b

    return build


@pytest.fixture
def rc_pair(make: Make, nodes: tuple[Node, Node]) -> Pair:
    """Makes two connected RC endpoints, on one device and across two."""
    return _pair_of(RC, make, nodes)


@pytest.fixture
def uc_pair(make: Make, nodes: tuple[Node, Node]) -> Pair:
    return _pair_of(UC, make, nodes)


@pytest.fixture
def ud_pair(make: Make, nodes: tuple[Node, Node]) -> Pair:
    return _pair_of(UD, make, nodes)


@pytest.fixture
def pair(make: Make) -> tuple[Endpoint, Endpoint]:
    """Two endpoints on one device that deliver to each other reliably, with nothing special about them."""
    a, b = make(), make()
    connect(a, b)
    return a, b


@pytest.fixture
def far_pair(make: Make, nodes: tuple[Node, Node]) -> Pair:
    """Makes two such endpoints, on one device and across two."""

    def build(connected: bool = True, options: Any = None, **endpoint: Any) -> tuple[Endpoint, Endpoint]:
        a, b = (make(on=n, **endpoint) for n in nodes)
        if connected:
            connect(a, b, **(options or {}))
        return a, b

    return build


@pytest.fixture
def rc(make: Make, node: Node) -> tuple[Endpoint, Endpoint]:
    """Two connected RC endpoints on one device, with nothing special about them."""
    a, b = make(), make()
    connect(a, b)
    return a, b
