"""`pytest compat_tests/clients --client=NAME`: the scenarios with one client, on kqueue in memory
and on disk.

With ``--bootstrap=HOST:PORT`` they run against the broker that is there instead, e.g. Kafka's own,
to learn whether a scenario is right.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compat_tests.clients import adapters, protocol_client
from compat_tests.clients.adapters.contract import (
    Admin,
    Client,
    Consumer,
    ConsumerOptions,
    Place,
    Producer,
    ProducerOptions,
)
from compat_tests.clients.brokers import DISK, EXTERNAL, MEMORY, RunningBroker, serving

SESSION_MS = 2_000
EXTERNAL_SESSION_MS = 6_000  # Kafka's own minimum
_numbers = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("compat", "real clients against a real broker")
    group.addoption(
        "--client",
        choices=sorted(adapters.MODULES),
        default="kafka-python",
        help="the client to run (default: %(default)s)",
    )
    group.addoption(
        "--bootstrap", metavar="HOST:PORT", help="a broker that is already there, instead of kqueue in this process"
    )
    group.addoption("--session-ms", type=int, help="the shortest session that the broker at --bootstrap allows")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "storage" in metafunc.fixturenames:
        storages = [EXTERNAL] if metafunc.config.getoption("bootstrap") else [MEMORY, DISK]
        metafunc.parametrize("storage", storages, scope="session")


def pytest_report_header(config: pytest.Config) -> str:
    adapter = adapters.load(config.getoption("client"))
    return f"client: {adapter.name} {adapter.version}"


@pytest.fixture(scope="session")
def client(pytestconfig: pytest.Config) -> Client:
    return adapters.load(pytestconfig.getoption("client"))


def _external(config: pytest.Config) -> RunningBroker:
    return RunningBroker(EXTERNAL, config.getoption("bootstrap"), config.getoption("session_ms") or EXTERNAL_SESSION_MS)


@pytest.fixture(scope="session")
def broker(
    storage: str, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    """One broker for all tests of a storage; they keep apart by the names of their topics and
    groups.
    """
    if storage == EXTERNAL:
        yield _external(pytestconfig)
        return
    with serving(storage, tmp_path_factory.mktemp("broker"), SESSION_MS) as running:
        yield running


@pytest.fixture
def own_broker(storage: str, tmp_path: Path) -> Iterator[RunningBroker]:
    """A broker for this test alone, which it may restart."""
    if storage == EXTERNAL:
        pytest.skip("restarts the broker, and the one at --bootstrap is not ours")
    with serving(storage, tmp_path, SESSION_MS) as running:
        yield running


@pytest.fixture
def name() -> Callable[[str], str]:
    """A name that no other test, and no other run, has."""
    return lambda stem: f"{stem}-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def topic(broker: RunningBroker, name: Callable[[str], str]) -> Callable[..., str]:
    """Make a topic: ``topic(partitions=1, **{"message.timestamp.type": ...})``."""

    def make(partitions: int = 1, **settings: str) -> str:
        chosen = name("topic")
        protocol_client.create_topic(broker.bootstrap, chosen, partitions, settings)
        return chosen

    return make


@pytest.fixture
def serves(broker: RunningBroker) -> Callable[[int], None]:
    """Skip the test where the broker does not have this API (`test_versions` says which it must
    have).
    """

    def check(api_key: int) -> None:
        if api_key not in protocol_client.served_apis(broker.bootstrap):
            pytest.skip(f"the broker does not serve API {api_key}")

    return check


class ClientFactory:
    """Opens clients and closes them all at the end of the test, the last one first."""

    def __init__(self, client: Client, stack: ExitStack) -> None:
        self.client = client
        self._stack = stack

    def producer(self, bootstrap: str, **options: Any) -> Producer:
        producer = self.client.producer(bootstrap, ProducerOptions(**options))
        self._stack.callback(producer.close)
        return producer

    def consumer(self, bootstrap: str, *topics: str, assign: list[Place] | None = None, **options: Any) -> Consumer:
        consumer = self.client.consumer(bootstrap, replace(ConsumerOptions(), **options))
        self._stack.callback(consumer.close)
        if topics:
            consumer.subscribe(topics)
        if assign:
            consumer.assign(assign)
        return consumer

    def admin(self, bootstrap: str) -> Admin:
        admin = self.client.admin(bootstrap)
        self._stack.callback(admin.close)
        return admin


@pytest.fixture
def connect(client: Client) -> Iterator[ClientFactory]:
    with ExitStack() as stack:
        yield ClientFactory(client, stack)


@pytest.fixture
def needs(client: Client) -> Callable[[str], None]:
    """Skip the test where this client, at this version, lacks the feature."""

    def check(feature: str) -> None:
        if feature not in client.features:
            pytest.skip(f"{client.name} {client.version} lacks {feature}")

    return check
