"""ZooKeeper for the tests: skipped, with the reason, where it can't be run."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from compat_tests.zookeeper import server
from compat_tests.zookeeper.server import Ensemble, Server

_CHROOTS = itertools.count()


def pytest_report_header(config: pytest.Config) -> str:
    reason = server.missing()
    return f"ZooKeeper {server.VERSION}: {'skipped, because ' + reason if reason else 'in ' + str(server.libs())}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = server.missing()
    if reason:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=f"skipped, because {reason}"))


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that no test stops, with the parent of the tests' chroots: it would belong to the
    user of the first test that has one.
    """
    with Server(tmp_path_factory.mktemp("zookeeper")) as running:
        kazoo = KazooClient(running.address)
        kazoo.start()
        kazoo.create("/test")
        kazoo.stop()
        kazoo.close()
        yield running


@pytest.fixture
def address(shared_server: Server) -> str:
    """The shared server, with a chroot of the test's own that does not exist yet."""
    return f"{shared_server.address}/test/{next(_CHROOTS)}"


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of the test's own, which it may stop."""
    with Server(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


@pytest.fixture
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    """Three servers of the test's own."""
    with Ensemble(tmp_path_factory.mktemp("ensemble")) as running:
        yield running
