"""Consoles of an embedded broker, without a socket of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kqueue import Broker
from kqueue.client import Client
from kqueue.tests.console.browser import Browser, Visit, visits


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    settings = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}
    with Broker(settings=settings) as broker:
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    """A client beside the console, which prepares and checks what pages show."""
    with Client(broker.bootstrap) as client:
        yield client


@pytest.fixture
def visit() -> Iterator[Visit]:
    """Open a console with these options, as a browser does."""
    with visits() as visit:
        yield visit


@pytest.fixture
def browser(broker: Broker, visit: Visit) -> Browser:
    """A browser before a console that only shows."""
    return visit(broker.bootstrap)


@pytest.fixture
def editor(broker: Broker, visit: Visit) -> Browser:
    """A browser before a console that allows changes."""
    return visit(broker.bootstrap, allow_changes=True)
