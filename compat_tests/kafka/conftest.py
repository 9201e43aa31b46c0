"""Apache Kafka for the tests: skipped, with the reason, where it can't be run. One JVM runs at a
time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.kafka import jvm
from compat_tests.kafka.node import Kafka


def pytest_report_header(config: pytest.Config) -> str:
    reason = jvm.missing()
    return f"Apache Kafka {jvm.KAFKA_VERSION}: {'skipped, because ' + reason if reason else 'in ' + str(jvm.libs())}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = jvm.missing()
    if reason:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=f"skipped, because {reason}"))


@pytest.fixture(scope="session")
def formatted(tmp_path_factory: pytest.TempPathFactory) -> Kafka:
    """A node that was formatted and never started, for others to copy."""
    node = Kafka(tmp_path_factory.mktemp("formatted"))
    node.format()
    return node


@pytest.fixture
def kafka(formatted: Kafka, tmp_path: Path) -> Iterator[Kafka]:
    """A fresh node of the test's own, not started yet; killed at the end if the test left it
    running.
    """
    node = Kafka(tmp_path / "kafka").copy_from(formatted)
    yield node
    node.kill()
