"""The session in which jobs and tests run."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

import kqueue
from kqueue.spark.session import STREAM_ENVIRONMENT, isolated_session, job_session, session


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


def test_streams_that_start_at_once(spark: SparkSession, broker: kqueue.Broker, new_topic: Callable[..., str]) -> None:
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
