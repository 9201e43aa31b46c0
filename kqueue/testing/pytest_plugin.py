"""The pytest plugin of kqueue: fixtures with a broker or a cluster, and the requests of clients in
reports of failures.

pytest loads it automatically where kqueue is installed. The broker of `kafka_broker`, and the
cluster of `kafka_cluster`, start on first use, once per process of a test run (pytest-xdist has
several).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kqueue.embedded import Broker, Cluster
    from kqueue.embedded.aio import AsyncBroker
    from kqueue.embedded.inspection.record_lines import RecordSource
    from kqueue.embedded.node import EmbeddedNode
    from kqueue.testing.fault_injection import Faults

TOPIC_MARK = "kafka_topic"
TOPIC_NAME_MAX = 100
REQUESTS_SHOWN = 20
SECTION = "kqueue broker"
BROKERS = pytest.StashKey["dict[EmbeddedNode, str]"]()
"""The running brokers, each with the fixture that it belongs to."""
_NUMBERS = itertools.count(1)


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Disable assertion rewriting for kqueue's modules; pytest calls this hook first.

    pytest rewrites every module of a distribution that has a plugin. The first broker of a test run
    would then start ten times slower. pytest has no public option to disable it; if the private
    attributes are missing, everything works, but slower.
    """
    leave_assertions_alone(pluginmanager)


def leave_assertions_alone(pluginmanager: pytest.PytestPluginManager) -> None:
    """Disable assertion rewriting for kqueue's modules that are imported from now on."""
    with contextlib.suppress(AttributeError):
        pluginmanager.rewrite_hook._must_rewrite.discard("kqueue")  # type: ignore[attr-defined]
        pluginmanager.rewrite_hook._marked_for_rewrite_cache.clear()  # type: ignore[attr-defined]


def pytest_configure(config: pytest.Config) -> None:
    """Register the `kafka_topic` mark and the running brokers."""
    config.addinivalue_line(
        "markers",
        f"{TOPIC_MARK}(partitions=None, records=None, **configs): how the fixture kafka_topic creates its topic; "
        "records is a file of JSON lines beside the test, or a list of them.",
    )
    config.stash[BROKERS] = {}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Clear the request logs before each test."""
    for broker in item.config.stash[BROKERS]:
        broker.requests.clear()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Add the requests of the brokers that a failed test used to its report."""
    outcome: Any = yield
    report = outcome.get_result()
    if report.failed:
        for broker in _used_brokers(item):
            report.sections.append((f"{SECTION} {report.when}", _request_section(broker)))


def _used_brokers(item: pytest.Item) -> list[EmbeddedNode]:
    """Return the brokers of the test's fixtures; of a cluster, those that had requests, if any.

    A request does not say that the test used a broker: clients of earlier tests may go on.
    """
    fixtures = set(getattr(item, "fixturenames", ()))
    request = getattr(item, "_request", None)  # knows the fixtures that the test asked for while it ran
    fixtures.update(getattr(request, "fixturenames", ()))
    used = [broker for broker, fixture in item.config.stash[BROKERS].items() if fixture in fixtures]
    with_requests = [broker for broker in used if len(broker.requests)]
    return with_requests or used


def _request_section(broker: EmbeddedNode) -> str:
    """Return the requests of the failed test; the broker's log is in pytest's own section."""
    from kqueue.base.text import counted

    requests = list(broker.requests)
    shown = requests[-REQUESTS_SHOWN:]
    title = f"{broker!r} had {counted(len(requests), 'request')}" + (f", the last {len(shown)}:" if shown else "")
    return "\n".join([title, *(f"  {request}" for request in shown)])


class _BrokerFactory:
    """Starts brokers and clusters, registers them for the report, and stops them at the end."""

    def __init__(self, request: pytest.FixtureRequest, stack: ExitStack, fixture: str) -> None:
        """Args: fixture: the name of the fixture that tests ask for."""
        self._config = request.config
        self._stack = stack
        self._fixture = fixture

    def __call__(self, *args: Any, **options: Any) -> Broker:
        from kqueue.embedded import Broker

        broker = self._stack.enter_context(Broker(*args, **options))
        self._report(broker)
        return broker

    def cluster(self, *args: Any, **options: Any) -> Cluster:
        """Start a cluster, with the arguments of `kqueue.Cluster`."""
        from kqueue.embedded import Cluster

        cluster = self._stack.enter_context(Cluster(*args, **options))
        for broker in cluster.brokers:
            self._report(broker)
        return cluster

    def _report(self, broker: EmbeddedNode) -> None:
        brokers = self._config.stash[BROKERS]
        brokers[broker] = self._fixture
        self._stack.callback(brokers.pop, broker)


@pytest.fixture(scope="session")
def kafka_broker_options() -> Mapping[str, Any]:
    """Return the arguments of `kafka_broker`; default: none, in memory.

    Override it in a conftest.py: ``return {"num_partitions": 3}``.
    """
    return {}


@pytest.fixture(scope="session")
def kafka_broker(request: pytest.FixtureRequest, kafka_broker_options: Mapping[str, Any]) -> Iterator[Broker]:
    """Return a running `kqueue.Broker`, shared by all tests.

    ``KafkaProducer(bootstrap_servers=kafka_broker.bootstrap)`` connects to it.
    """
    with ExitStack() as stack:
        yield _BrokerFactory(request, stack, "kafka_broker")(**kafka_broker_options)


@pytest.fixture
def kafka_broker_factory(request: pytest.FixtureRequest) -> Iterator[Callable[..., Broker]]:
    """Return a function that starts a broker for one test, with the arguments of `kqueue.Broker`.

    The brokers stop when the test ends.
    """
    with ExitStack() as stack:
        yield _BrokerFactory(request, stack, "kafka_broker_factory")


@pytest.fixture(scope="session")
def kafka_cluster_options() -> Mapping[str, Any]:
    """Return the arguments of `kafka_cluster`; default: none, three brokers in memory.

    Override it in a conftest.py: ``return {"brokers": 5}``.
    """
    return {}


@pytest.fixture(scope="session")
def _kafka_cluster(request: pytest.FixtureRequest, kafka_cluster_options: Mapping[str, Any]) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield _BrokerFactory(request, stack, "kafka_cluster").cluster(**kafka_cluster_options)


@pytest.fixture
def kafka_cluster(_kafka_cluster: Cluster) -> Cluster:
    """Return a running `kqueue.Cluster`, shared by all tests. Each test finds it as new: see
    `Cluster.reset`.

    ``KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap)`` connects to it.
    """
    _kafka_cluster.start()  # a test before this one may have stopped it
    _kafka_cluster.reset()
    return _kafka_cluster


@pytest.fixture
def kafka_cluster_factory(request: pytest.FixtureRequest) -> Iterator[Callable[..., Cluster]]:
    """Return a function that starts a cluster for one test, with the arguments of `kqueue.Cluster`.

    The clusters stop when the test ends.
    """
    with ExitStack() as stack:
        yield _BrokerFactory(request, stack, "kafka_cluster_factory").cluster


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest, kafka_broker: Broker) -> Iterator[str]:
    """Return the name of a new topic on `kafka_broker`, deleted after the test.

    ``@pytest.mark.kafka_topic(partitions=3)`` sets partitions and configuration, as
    `Broker.create_topic` takes them. ``@pytest.mark.kafka_topic(records="orders.jsonl")`` fills it
    with the records of a file beside the test, or of a list; see `Broker.load_records`.
    """
    mark = request.node.get_closest_marker(TOPIC_MARK)
    options: dict[str, Any] = dict(mark.kwargs) if mark else {}
    records = options.pop("records", None)
    kafka_broker.start()  # a test before this one may have stopped it
    name = _topic_name(request.node.name)
    with ExitStack() as stack:
        stack.callback(_delete_topic, kafka_broker, name)
        _create_topic(kafka_broker, name, mark.args if mark else (), options, _beside(request.path, records))
        yield name


def _create_topic(
    broker: Broker, name: str, args: tuple[Any, ...], options: dict[str, Any], records: RecordSource | None
) -> None:
    """Create a topic of a mark, with its records."""
    if records is None or args or options:
        broker.create_topic(name, *args, **options)
    if records is not None:
        broker.load_records(records, name)  # creates the topic with the partitions that they name


def _beside(test: Path, records: Any) -> RecordSource | None:
    """Return what a mark names: a relative file is one of the test's folder."""
    if isinstance(records, (str, os.PathLike)) and not str(records).lstrip().startswith("{"):
        return test.parent / records
    source: RecordSource | None = records
    return source


def _delete_topic(broker: Broker, name: str) -> None:
    if broker.is_running and name in broker.topics:
        broker.topics[name].delete()


@pytest.fixture
def async_kafka_broker(kafka_broker: Broker) -> AsyncBroker:
    """Return `kafka_broker.aio`: its calls for tests that are coroutines, of pytest-asyncio or
    anyio.

    Example: ``await async_kafka_broker.assert_produced("orders", [b"tea"], within_s=5)``.
    """
    return kafka_broker.aio


@pytest.fixture
def kafka_faults(kafka_broker: Broker) -> Iterator[Faults]:
    """Return the fault injection of `kafka_broker`; faults are cancelled when the test ends.

    Example: ``kafka_faults.fail("Produce", times=3)``.
    """
    from kqueue.testing.fault_injection import faults

    with faults(kafka_broker) as injected:
        yield injected


def _topic_name(test: str) -> str:
    """Return a unique topic name that contains the name of the test."""
    legible = re.sub(r"[^A-Za-z0-9-]+", "-", test).strip("-")[:TOPIC_NAME_MAX]
    return f"{legible}-{next(_NUMBERS)}"
