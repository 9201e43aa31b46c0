"""Servers of object stores: tests of one that can't be run here are skipped, with the reason."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from compat_tests.tiered.servers import KINDS, Server, Versity

_PREFIXES = itertools.count()


def pytest_report_header(config: pytest.Config) -> list[str]:
    return [f"{kind.name}: {'skipped, because ' + reason if (reason := kind.missing()) else 'runs'}" for kind in KINDS]


def _running(kind: type[Server]) -> Iterator[Server]:
    reason = kind.missing()
    if reason is not None:
        pytest.skip(f"skipped, because {reason}")
    with kind() as server:
        yield server


@pytest.fixture(scope="session", params=KINDS, ids=lambda kind: kind.name)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Each server in turn; no test stops it."""
    yield from _running(request.param)


@pytest.fixture
def versity() -> Iterator[Server]:
    """A server with files of the test's own, which it may kill."""
    yield from _running(Versity)


@pytest.fixture
def prefix() -> str:
    """A prefix of the test's own."""
    return f"test-{next(_PREFIXES)}"
