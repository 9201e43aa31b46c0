"""`pytest spark_tests`: a quiet Spark in this process, and brokers of our own.

A Spark that is started takes some seconds and half a gigabyte, so a run has one, and tests keep apart by the names of their topics.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import kqueue
from kqueue.spark.session import session

SETTINGS: dict[str, object] = {
    "spark.driver.memory": "700m",
    "spark.sql.shuffle.partitions": 2,
    "spark.default.parallelism": 2,
    "spark.sql.streaming.noDataMicroBatches.enabled": False,
    "spark.python.worker.faulthandler.enabled": True,
}
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session on two threads for all tests; what it writes goes to pytest's folder."""
    folder = tmp_path_factory.mktemp("spark")
    settings = SETTINGS | {"spark.sql.warehouse.dir": folder / "warehouse", "spark.local.dir": folder / "scratch"}
    made = session("kqueue tests", "local[2]", settings=settings)
    yield made
    made.stop()


@pytest.fixture
def broker() -> Iterator[kqueue.Broker]:
    """A broker in memory for one test; it makes no topics that were not asked for."""
    with kqueue.Broker(auto_create_topics_enable=False) as running:
        yield running


@pytest.fixture
def new_topic(broker: kqueue.Broker, request: pytest.FixtureRequest) -> Callable[..., str]:
    """``new_topic(partitions=1, **configs)`` makes a topic on `broker`, with a name of its own, and returns the name."""
    stem = re.sub(r"\W+", "-", request.node.name)[:100].strip("-")

    def make(partitions: int = 1, **configs: object) -> str:
        name = f"{stem}-{next(_numbers)}"
        broker.create_topic(name, partitions, **configs)
        return name

    return make


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """A folder for one streaming query's checkpoint."""
    return str(tmp_path / "checkpoint")
