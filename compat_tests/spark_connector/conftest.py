"""One session of Spark for all tests, and a broker in memory for each; skipped, with the reason,
where the connector can't be had.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.version import __version__ as spark_version

import kqueue
from compat_tests.spark_connector import connector
from compat_tests.spark_connector.stock import Stock


def pytest_report_header(config: pytest.Config) -> str:
    reason = connector.missing()
    state = f"skipped, because {reason}" if reason else f"on Spark {spark_version}, in {connector.JARS.folder}"
    return f"Spark's Kafka connector {connector.CONNECTOR_VERSION}: {state}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = connector.missing()
    if reason:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=f"skipped, because {reason}"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = connector.start(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker() as running:
        yield running


@pytest.fixture
def stock(spark: SparkSession, broker: kqueue.Broker, tmp_path: Path) -> Iterator[Stock]:
    """The connector, aimed at the broker; queries that a test leaves running are stopped."""
    yield Stock(spark, broker, tmp_path)
    for query in spark.streams.active:
        query.stop()
