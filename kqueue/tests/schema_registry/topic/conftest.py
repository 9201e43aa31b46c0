"""A broker, and a topic of its own for each test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from kqueue import Broker
from kqueue.client import ClientOptions
from kqueue.schema_registry.topic.topic_preparation import prepare_topic

_numbers = itertools.count()


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with Broker(settings={"transaction.state.log.num.partitions": 1}) as broker:
        yield broker


@pytest.fixture
def options(broker: Broker) -> ClientOptions:
    return ClientOptions(bootstrap=broker.bootstrap, timeout_ms=10_000)


@pytest.fixture
def topic(options: ClientOptions) -> str:
    name = f"_schemas{next(_numbers)}"
    prepare_topic(options, name)
    return name
