"""Fixtures of the client scenarios: ``pytest compat_tests/clients --client=NAME``, or several.

The scenarios run on kqueue, in memory and on disk. With ``--bootstrap=HOST:PORT`` they run against
an external broker instead, for example Apache Kafka, to verify the scenarios.
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

from compat_tests.clients import adapters, protocol_client, security
from compat_tests.clients.adapters.contract import (
    Admin,
    Client,
    Config,
    Consumer,
    ConsumerOptions,
    Place,
    Producer,
    ProducerOptions,
)
from compat_tests.clients.brokers import CLUSTER, DISK, EXTERNAL, MEMORY, RunningBroker, serving
from compat_tests.clients.secured import Secured, serving_secured
from compat_tests.report import FEATURE

pytest_plugins = ["compat_tests.report"]
pytest.register_assert_rewrite("compat_tests.clients.calls")
SESSION_MS = 2_000
UNSECURED = (
    "test_authentication.py",
    "test_authorization.py",
    "test_client_quotas.py",
    "test_every_call.py",
    "test_network.py",
    "test_schema_registry.py",
    "test_version_profiles.py",
)
ON_DISK_ALONE = (
    *UNSECURED,
    "test_admin.py",
    "test_consumer_protocol.py",
    "test_exactly_once.py",
    "test_groups.py",
    "test_money_transfers.py",
    "test_share_consumer.py",
    "test_transactions.py",
)
"""With a broker in memory these run in the thorough tests only: the storage matters little there,
or a disk matters most. Those in `UNSECURED` run so on a cluster too.
"""
MAIN_CLIENT = "confluent-kafka"  # it has all features
EXTERNAL_SESSION_MS = 6_000  # Kafka's own minimum
_numbers = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("compat", "real clients against a real broker")
    group.addoption(
        "--client",
        dest="clients",
        action="append",
        choices=sorted(adapters.MODULES),
        help="a client to run; repeat it for several (default: kafka-python)",
    )
    group.addoption(
        "--bootstrap", metavar="HOST:PORT", help="an external broker to use instead of kqueue in this process"
    )
    group.addoption("--cluster", action="store_true", help="run kqueue as a cluster of three, with three replicas")
    group.addoption(
        "--secure", action="store_true", help="serve TLS only, with users and ACLs; clients authenticate by SCRAM"
    )
    group.addoption("--transfer-seconds", type=int, default=8, help="how long the money-transfer test kills processes")
    group.addoption("--exactly-once-seeds", type=int, default=1, help="how many runs the exactly-once tests make")
    group.addoption("--session-ms", type=int, help="the shortest session that the broker at --bootstrap allows")


def pytest_configure(config: pytest.Config) -> None:
    config.option.clients = config.option.clients or ["kafka-python"]
    if config.getoption("secure"):
        security.secure()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what is about a cluster where there is none, and what reads requests on their way,
    makes clients of its own, or has a secured broker anyway, where they are secured.
    """
    left_out = UNSECURED if config.getoption("secure") else ("test_secured.py",)
    if not config.getoption("cluster"):
        left_out = (*left_out, "test_cluster.py")
    return True if collection_path.name in left_out else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "client" in metafunc.fixturenames and "table_name" not in metafunc.fixturenames:  # see test_every_call
        metafunc.parametrize("client", metafunc.config.getoption("clients"), indirect=True, scope="session")
    if "storage" in metafunc.fixturenames:
        storages = [MEMORY, DISK]
        if metafunc.config.getoption("bootstrap"):
            storages = [EXTERNAL]
        elif metafunc.config.getoption("cluster"):
            storages = [CLUSTER]
        module = Path(metafunc.module.__file__).name
        rest = {MEMORY: ON_DISK_ALONE, CLUSTER: UNSECURED}
        metafunc.parametrize(
            "storage",
            [
                pytest.param(storage, marks=pytest.mark.thorough if module in rest.get(storage, ()) else ())
                for storage in storages
            ],
            scope="session",
        )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave to one client what the others would only repeat: of them it is a thorough test. Those
    are brokers in memory, because all speak the same to a disk; the tests with the mark `long`; and
    on a cluster, where faults meet each client otherwise, those with the mark `one_client` instead.
    """
    clients = config.getoption("clients")
    chosen = MAIN_CLIENT if MAIN_CLIENT in clients else clients[0]
    mark = "one_client" if config.getoption("cluster") else "long"
    for item in items:
        parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        is_once = parameters.get("storage") == MEMORY or item.get_closest_marker(mark)
        if is_once and parameters.get("client", chosen) != chosen:
            item.add_marker(pytest.mark.thorough)


def pytest_report_header(config: pytest.Config) -> str:
    loaded = [adapters.load(name) for name in config.getoption("clients")]
    return f"clients: {', '.join(f'{adapter.name} {adapter.version}' for adapter in loaded)}"


@pytest.fixture(scope="session")
def client(request: pytest.FixtureRequest) -> Client:
    return adapters.load(request.param)


def external(config: pytest.Config) -> RunningBroker:
    return RunningBroker(EXTERNAL, config.getoption("bootstrap"), config.getoption("session_ms") or EXTERNAL_SESSION_MS)


@pytest.fixture(scope="session")
def broker(
    storage: str, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    """One broker for all tests of a storage; tests use distinct topic and group names."""
    if storage == EXTERNAL:
        yield external(pytestconfig)
        return
    with serving(storage, tmp_path_factory.mktemp("broker"), SESSION_MS) as running:
        yield running


@pytest.fixture
def own_broker(storage: str, tmp_path: Path) -> Iterator[RunningBroker]:
    """A broker for one test, which may restart it."""
    if storage == EXTERNAL:
        pytest.skip("an external broker cannot be restarted")
    with serving(storage, tmp_path, SESSION_MS) as running:
        yield running


@pytest.fixture
def name() -> Callable[[str], str]:
    """Return a function that makes a name unique over tests and runs."""
    return lambda stem: f"{stem}-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def topic(broker: RunningBroker, name: Callable[[str], str]) -> Callable[..., str]:
    """Create a topic: ``topic(partitions=1, **{"message.timestamp.type": ...})``."""

    def make(partitions: int = 1, **settings: str) -> str:
        chosen = name("topic")
        protocol_client.create_topic(broker.bootstrap, chosen, partitions, settings)
        return chosen

    return make


@pytest.fixture
def serves(broker: RunningBroker) -> Callable[[int], None]:
    """Skip the test if the broker does not serve this API key.

    `test_versions` lists the required APIs.
    """

    def check(api_key: int) -> None:
        if api_key not in protocol_client.served_apis(broker.bootstrap):
            pytest.skip(f"the broker does not serve API {api_key}")

    return check


class ClientFactory:
    """Opens clients and closes them at the end of the test, in reverse order."""

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

    def admin(self, bootstrap: str, config: Config | None = None) -> Admin:
        admin = self.client.admin(bootstrap, config or {})
        self._stack.callback(admin.close)
        return admin


@pytest.fixture
def connect(client: Client) -> Iterator[ClientFactory]:
    with ExitStack() as stack:
        yield ClientFactory(client, stack)


@pytest.fixture
def needs(client: Client, record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Skip the test if this client version lacks the feature; `--report` counts the test for it."""

    def check(feature: str) -> None:
        record_property(FEATURE, feature)
        if feature not in client.features:
            pytest.skip(f"{client.name} {client.version} lacks {feature}")

    return check


@pytest.fixture(scope="session")
def secured(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """One broker, or cluster, for all tests that are about security."""
    if pytestconfig.getoption("bootstrap"):
        pytest.skip("an external broker has other listeners and users")
    with serving_secured(tmp_path_factory.mktemp("secured"), cluster=pytestconfig.getoption("cluster")) as running:
        yield running


@pytest.fixture
def secured_topic(secured: Secured, name: Callable[[str], str]) -> str:
    """Create a topic with one partition, which only the administrator may use."""
    chosen = name("topic")
    secured.create_topic(chosen)
    return chosen
