"""The session in which jobs and tests run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import kqueue
from kqueue.spark.session import STREAM_ENVIRONMENT, isolated_session, job_session, session
from kqueue.testing.process_environment import process_environment

EDITABLE = """
import pkgutil
listed = pkgutil.iter_modules
pkgutil.iter_modules = lambda *given: (one for one in listed(*given) if one.name != "pyspark_kqueue")
"""
"""Hides the package by whose name Spark finds the format, as an editable install does."""
SESSIONS = """
from kqueue.spark.session import isolated_session, session

def formats(spark):
    return spark._jsparkSession.sessionState().dataSourceManager()

first = session("first", "local[1]")
print(formats(first.newSession()).dataSourceExists("kqueue"))
print(formats(isolated_session(first, {})).dataSourceExists("kqueue"))
"""


def test_sessions_have_the_format_where_spark_does_not_find_it(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(EDITABLE)
    done = subprocess.run(
        [sys.executable, "-c", SESSIONS], capture_output=True, text=True, timeout=240, check=False,
        env=process_environment(PYTHONPATH=str(tmp_path)),
    )  # fmt: skip
    assert done.stdout.split() == ["False", "True"], done.stderr[-3000:]


def test_a_session_runs_python_on_its_workers(spark: SparkSession) -> None:
    doubled = spark.range(10).mapInArrow(lambda batches: batches, "id long")
    assert sorted(row.id for row in doubled.collect()) == list(range(10))


def test_running_session_is_reused(spark: SparkSession) -> None:
    assert session().sparkContext is spark.sparkContext


def test_a_job_in_a_thread_leaves_the_session_to_its_user(spark: SparkSession) -> None:
    """Spark sessions are active per thread.

    A new thread has none, and neither has the first one after a signal cut its Java bridge.
    """

    def job() -> tuple[bool, bool]:
        unseen = SparkSession.getActiveSession() is None
        with job_session("job") as lent:
            return unseen, lent.sparkContext is spark.sparkContext

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(job).result() == (True, True)
    assert spark.range(3).count() == 3


def test_concurrent_streams_start_without_changing_their_environment(
    spark: SparkSession, broker: kqueue.Broker, new_topic: Callable[..., str]
) -> None:
    """Concurrent starts do not modify Spark's shared, unguarded map.

    The entries are registered before the streams start.
    """
    source = spark._jsparkSession.sessionState().dataSourceManager().lookupDataSource("kqueue")
    environment = source.dataSourceCls().envVars()
    for name in STREAM_ENVIRONMENT:
        environment.remove(name)
    assert sorted(environment) == ["PYTHONPATH"]
    session()
    names = sorted(environment)
    assert names == sorted(["PYTHONPATH", *STREAM_ENVIRONMENT])
    frames = [
        spark.readStream.format("kqueue")
        .options(**{"kafka.bootstrap.servers": broker.bootstrap, "subscribe": new_topic()})
        .load()
        for _ in range(3)
    ]
    queries = [frame.writeStream.format("noop").trigger(availableNow=True).start() for frame in frames]
    assert [query.awaitTermination(240) for query in queries] == [True] * 3
    assert sorted(environment) == names
    assert environment["SPARK_BUFFER_SIZE"] == "65536"


def test_own_session_of_job_is_prepared(spark: SparkSession) -> None:
    """The job's session registers the format in its own map."""
    own = isolated_session(spark, {"spark.sql.shuffle.partitions": "7"})
    environment = (
        own._jsparkSession.sessionState().dataSourceManager().lookupDataSource("kqueue").dataSourceCls().envVars()
    )
    assert {*STREAM_ENVIRONMENT} <= {*environment}
    assert own.conf.get("spark.sql.shuffle.partitions") == "7"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


def test_workers_reach_the_broker(spark: SparkSession, broker: kqueue.Broker) -> None:
    bootstrap = broker.bootstrap

    def ask(_: int) -> int:
        from kqueue.client import Client

        with Client(bootstrap) as client:
            return len(client.metadata([]).brokers)

    assert spark.sparkContext.parallelize([1], 1).map(ask).collect() == [1]


@pytest.mark.parametrize("setting", ["spark.ui.enabled"])
def test_session_listens_on_loopback_only(spark: SparkSession, setting: str) -> None:
    assert spark.conf.get(setting) == "false"
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
