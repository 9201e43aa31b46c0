"""PostgreSQL for the tests: skipped, with the reason, where it can't be run."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from compat_tests.postgres import server
from compat_tests.postgres.server import Server

_SCHEMAS = itertools.count()


def pytest_report_header(config: pytest.Config) -> str:
    reason = server.missing()
    return f"PostgreSQL: {'skipped, because ' + reason if reason else server.programs()}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = server.missing()
    if reason:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=f"skipped, because {reason}"))


@pytest.fixture(scope="session")
def shared_server() -> Iterator[Server]:
    """A server that no test stops."""
    with Server() as running:
        yield running


@pytest.fixture
def address(shared_server: Server) -> str:
    """The shared server, with a schema of the test's own that does not exist yet."""
    return f"{shared_server.address}?schema=test_{next(_SCHEMAS)}"


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server of the test's own, which it may stop."""
    with Server() as running:
        yield running
