"""Fixtures of ``pytest compat_tests/spark``: one quiet Spark session, and test brokers.

Starting Spark takes seconds and half a gigabyte. A run therefore has one session, and tests use
distinct topic names. The session is configured for many small queries, whose startup dominates
their run time. Tests that kill processes use the default checkpoint implementation.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import kqueue
from compat_tests.spark.memory import Peak
from compat_tests.spark.spark_home import spark_home
from kqueue.cli.pipeline import progress_line
from kqueue.spark.pythons import this_python
from kqueue.spark.session import session
from kqueue.tests.spark.stores.s3_server import s3_server

MEMORY_MAX = 3584 * 1024**2
"""Limit for all processes of a run together.

Two Sparks run at a time where a program with queries is killed while the session that finished the
program before it is still there: 3,100 MB, each page counted once. A Spark has about 1,400 MB of
it: Java 400 to 460, six daemons of 30 (one for each kind of Python worker), ten workers of 55 to
95, and where it is a program of its own 80 more. The test itself has 230.
"""
PEAK = pytest.StashKey[Peak]()
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""JVM options for short programs: only the first JIT compiler, the serial collector, and no
verification of Spark's classes.
"""
THRIFT = {"MALLOC_ARENA_MAX": "2", "ARROW_DEFAULT_MEMORY_POOL": "system"}
"""Environment of all processes: the allocator returns freed memory to the system."""
SETTINGS: dict[str, object] = {
    "spark.driver.memory": "600m",
    "spark.driver.extraJavaOptions": JAVA,
    "spark.sql.shuffle.partitions": 2,
    "spark.default.parallelism": 2,
    "spark.sql.streaming.noDataMicroBatches.enabled": False,
    "spark.python.worker.faulthandler.enabled": True,
    # The default implementation runs `readlink` sixteen times for each checkpoint file.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[PEAK] = Peak(MEMORY_MAX)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests that start their own Spark first, because two Sparks exceed the memory limit."""
    items.sort(key=lambda item: [name in getattr(item, "fixturenames", ()) for name in ("spark", "late_spark")])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    peak = config.stash[PEAK]
    terminalreporter.write_line(f"memory of all processes: at most {peak.bytes >> 20} MB, in {peak.test}")


@pytest.fixture(scope="session", autouse=True)
def little_memory(pytestconfig: pytest.Config) -> Iterator[None]:
    with pytestconfig.stash[PEAK] as peak:
        yield
    assert peak.bytes <= MEMORY_MAX, (
        f"the processes of this run held {peak.bytes >> 20} MB, more than {MEMORY_MAX >> 20} MB"
    )


@pytest.fixture(scope="session", autouse=True)
def thrifty(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Set the options of all child processes, including those that tests kill."""
    os.environ |= {
        "SPARK_HOME": str(spark_home(tmp_path_factory.mktemp("home") / "spark")),
        "SPARK_LAUNCHER_OPTS": JAVA,
        "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache")),
        **THRIFT,
    }
    os.environ["PYSPARK_PYTHON"] = this_python()
    progress_line.PERIOD_S = 3600.0  # else lines come between those that tests expect


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start one session with two threads for all tests; its output goes to pytest's folder."""
    folder = tmp_path_factory.mktemp("spark")
    settings = SETTINGS | {"spark.sql.warehouse.dir": folder / "warehouse", "spark.local.dir": folder / "scratch"}
    made = session("kqueue tests", "local[2]", settings=settings)
    yield made
    made.stop()


@pytest.fixture
def late_spark(request: pytest.FixtureRequest) -> Callable[[], SparkSession]:
    """Return a function that starts `spark` on its first call."""
    return lambda: request.getfixturevalue("spark")


@pytest.fixture
def broker() -> Iterator[kqueue.Broker]:
    """Start an in-memory broker for one test, with topic auto-creation disabled."""
    with kqueue.Broker(auto_create_topics_enable=False) as running:
        yield running


@pytest.fixture
def new_topic(broker: kqueue.Broker, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Return ``new_topic(partitions=1, **configs)``, which creates a topic and returns its name."""
    stem = re.sub(r"\W+", "-", request.node.name)[:100].strip("-")

    def make(partitions: int = 1, **configs: object) -> str:
        name = f"{stem}-{next(_numbers)}"
        broker.create_topic(name, partitions, **configs)
        return name

    return make


@pytest.fixture(scope="session")
def s3() -> Iterator[dict[str, str]]:
    """Start an object store with one bucket, and yield the settings that reach it."""
    with s3_server() as settings:
        yield settings


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """Return a checkpoint folder for one streaming query."""
    return str(tmp_path / "checkpoint")
