"""`pytest compat_tests/spark`: a quiet Spark in this process, and brokers of our own.

A Spark that is started takes some seconds and half a gigabyte, so a run has one, and tests keep
apart by the names of their topics. It is set up for many small queries, where starting costs more
than working; what tests kill keeps its checkpoints as anybody's does.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import kqueue
from compat_tests.spark.memory import Peak
from kqueue.spark.session import session

MEMORY_MAX = 2 * 1024**3
"""For all processes of a run together."""
PEAK = pytest.StashKey[Peak]()
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Code that runs once or twice is not worth the second compiler, nor a small heap many collectors.
"""
THRIFT = {"MALLOC_ARENA_MAX": "2", "ARROW_DEFAULT_MEMORY_POOL": "system"}
"""Of all processes: what is given back goes back, instead of being kept for each thread."""
SETTINGS: dict[str, object] = {
    "spark.driver.memory": "600m",
    "spark.driver.extraJavaOptions": JAVA,
    "spark.sql.shuffle.partitions": 2,
    "spark.default.parallelism": 2,
    "spark.sql.streaming.noDataMicroBatches.enabled": False,
    "spark.python.worker.faulthandler.enabled": True,
    # The usual one runs a program, `readlink`, sixteen times for each file of a checkpoint.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[PEAK] = Peak(MEMORY_MAX)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that start a Spark of their own come first, while there is no other: two at once would
    take all the memory there may be.
    """
    items.sort(key=lambda item: [name in getattr(item, "fixturenames", ()) for name in ("spark", "late_spark")])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    terminalreporter.write_line(f"memory of all processes: at most {config.stash[PEAK].bytes >> 20} MB")


@pytest.fixture(scope="session", autouse=True)
def little_memory(pytestconfig: pytest.Config) -> Iterator[None]:
    with pytestconfig.stash[PEAK] as peak:
        yield
    assert peak.bytes <= MEMORY_MAX, (
        f"the processes of this run held {peak.bytes >> 20} MB, more than {MEMORY_MAX >> 20} MB"
    )


def worker_python(folder: Path) -> Path:
    """A Python for Spark's workers that takes PySpark from where it is installed.

    Spark puts an archive of it, out of which each new process would compile it again, and a jar of
    its own before all else in PYTHONPATH.
    """
    made = folder / "python"
    made.write_text(f'#!/bin/sh\nPYTHONPATH=${{PYTHONPATH##*.jar}} exec {shlex.quote(sys.executable)} "$@"\n')
    made.chmod(0o755)
    return made


@pytest.fixture(scope="session", autouse=True)
def thrifty(tmp_path_factory: pytest.TempPathFactory) -> None:
    """All that is started here, the processes that are killed too."""
    os.environ |= {
        "SPARK_LAUNCHER_OPTS": JAVA,
        "PYSPARK_PYTHON": str(worker_python(tmp_path_factory.mktemp("worker"))),
        **THRIFT,
    }


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session on two threads for all tests; what it writes goes to pytest's folder."""
    folder = tmp_path_factory.mktemp("spark")
    settings = SETTINGS | {"spark.sql.warehouse.dir": folder / "warehouse", "spark.local.dir": folder / "scratch"}
    made = session("kqueue tests", "local[2]", settings=settings)
    yield made
    made.stop()


@pytest.fixture
def late_spark(request: pytest.FixtureRequest) -> Callable[[], SparkSession]:
    """Gives `spark`, which is started no sooner than that."""
    return lambda: request.getfixturevalue("spark")


@pytest.fixture
def broker() -> Iterator[kqueue.Broker]:
    """A broker in memory for one test; it makes no topics that were not asked for."""
    with kqueue.Broker(auto_create_topics_enable=False) as running:
        yield running


@pytest.fixture
def new_topic(broker: kqueue.Broker, request: pytest.FixtureRequest) -> Callable[..., str]:
    """``new_topic(partitions=1, **configs)`` makes a topic on `broker`, with a name of its own, and
    returns the name.
    """
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
