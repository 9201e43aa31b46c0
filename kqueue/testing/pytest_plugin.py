"""The pytest plugin, which pytest finds by itself where kqueue is installed: fixtures with a
broker, and its side of a failure.

The broker of `kafka_broker` is made once for each process of a test run (pytest-xdist has several),
when the first test asks for it.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kqueue.embedded import Broker
    from kqueue.testing.fault_injection import Faults

TOPIC_MARK = "kafka_topic"
TOPIC_NAME_MAX = 100
REQUESTS_SHOWN = 20
SECTION = "kqueue broker"
BROKERS = pytest.StashKey["list[Broker]"]()
_NUMBERS = itertools.count(1)


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """The first call that a plugin gets: time to say that no other module of ours needs the
    rewriting of its assertions.

    pytest rewrites every module of a distribution that has a plugin, which would make the first
    broker of a test run ten times slower to come up. There is no official way to say no; where this
    one is gone, all works, but slower.
    """
    leave_assertions_alone(pluginmanager)


def leave_assertions_alone(pluginmanager: pytest.PytestPluginManager) -> None:
    """Have pytest import kqueue's modules, from now on, as they were compiled."""
    with contextlib.suppress(AttributeError):
        pluginmanager.rewrite_hook._must_rewrite.discard("kqueue")  # type: ignore[attr-defined]
        pluginmanager.rewrite_hook._marked_for_rewrite_cache.clear()  # type: ignore[attr-defined]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{TOPIC_MARK}(partitions=1, **configs): how the fixture kafka_topic makes its topic."
    )
    config.stash[BROKERS] = []


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for broker in item.config.stash[BROKERS]:
        broker.requests.clear()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome: Any = yield
    report = outcome.get_result()
    if report.failed:
        for broker in item.config.stash[BROKERS]:
            report.sections.append((f"{SECTION} {report.when}", _story(broker)))


def _story(broker: Broker) -> str:
    """What clients asked of it in the test that has failed. What it logged stands in pytest's own
    section.
    """
    requests = list(broker.requests)
    shown = requests[-REQUESTS_SHOWN:]
    title = f"{broker!r} had {len(requests)} requests" + (f", the last {len(shown)}:" if shown else "")
    return "\n".join([title, *(f"  {request}" for request in shown)])


class _Made:
    """Makes brokers that pytest's report knows of, and stops them at the end."""

    def __init__(self, config: pytest.Config, stack: ExitStack) -> None:
        self._config = config
        self._stack = stack

    def __call__(self, *args: Any, **options: Any) -> Broker:
        from kqueue.embedded import Broker

        broker = self._stack.enter_context(Broker(*args, **options))
        brokers = self._config.stash[BROKERS]
        brokers.append(broker)
        self._stack.callback(brokers.remove, broker)
        return broker


@pytest.fixture(scope="session")
def kafka_broker_options() -> Mapping[str, Any]:
    """What `kafka_broker` is made with; override it in a conftest.py: ``return {"num_partitions":
    3}``. Default: nothing, all in memory.
    """
    return {}


@pytest.fixture(scope="session")
def kafka_broker(request: pytest.FixtureRequest, kafka_broker_options: Mapping[str, Any]) -> Iterator[Broker]:
    """A running `kqueue.Broker`, the same for all tests:
    ``KafkaProducer(bootstrap_servers=kafka_broker.bootstrap)``.
    """
    with ExitStack() as stack:
        yield _Made(request.config, stack)(**kafka_broker_options)


@pytest.fixture
def kafka_broker_factory(request: pytest.FixtureRequest) -> Iterator[Callable[..., Broker]]:
    """Starts brokers for one test, with the arguments of `kqueue.Broker`; they are stopped when it
    ends.
    """
    with ExitStack() as stack:
        yield _Made(request.config, stack)


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest, kafka_broker: Broker) -> Iterator[str]:
    """The name of a new topic on `kafka_broker`, deleted after the test;
    ``@pytest.mark.kafka_topic(partitions=3)`` says how it is made.
    """
    mark = request.node.get_closest_marker(TOPIC_MARK)
    options: dict[str, Any] = dict(mark.kwargs) if mark else {}
    kafka_broker.start()  # a test before this one may have stopped it
    name = _topic_name(request.node.name)
    kafka_broker.create_topic(name, **options)
    yield name
    if kafka_broker.is_running and name in kafka_broker.topics:
        kafka_broker.topics[name].delete()


@pytest.fixture
def kafka_faults(kafka_broker: Broker) -> Iterator[Faults]:
    """Faults on `kafka_broker`, all taken back when the test ends: ``kafka_faults.fail("Produce",
    times=3)``.
    """
    from kqueue.testing.fault_injection import faults

    with faults(kafka_broker) as made:
        yield made


def _topic_name(test: str) -> str:
    """A name that no test had before, in which its own can be recognised."""
    legible = re.sub(r"[^A-Za-z0-9-]+", "-", test).strip("-")[:TOPIC_NAME_MAX]
    return f"{legible}-{next(_NUMBERS)}"
