"""The session that jobs and tests run in."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

import kqueue
from kqueue.spark.session import lent_session, session


def test_a_session_runs_python_on_its_workers(spark: SparkSession) -> None:
    doubled = spark.range(10).mapInArrow(lambda batches: batches, "id long")
    assert sorted(row.id for row in doubled.collect()) == list(range(10))


def test_the_running_session_is_taken(spark: SparkSession) -> None:
    assert session().sparkContext is spark.sparkContext


def test_a_job_in_a_thread_leaves_the_session_to_its_user(spark: SparkSession) -> None:
    """A session is active in single threads, so a new one sees none, as does the first after its bridge to Java was cut by a signal."""

    def job() -> tuple[bool, bool]:
        unseen = SparkSession.getActiveSession() is None
        with lent_session("job") as lent:
            return unseen, lent.sparkContext is spark.sparkContext

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(job).result() == (True, True)
    assert spark.range(3).count() == 3


def test_workers_reach_the_broker(spark: SparkSession, broker: kqueue.Broker) -> None:
    bootstrap = broker.bootstrap

    def ask(_: int) -> int:
        from kqueue.client import Client

        with Client(bootstrap) as client:
            return len(client.metadata([]).brokers)

    assert spark.sparkContext.parallelize([1], 1).map(ask).collect() == [1]


@pytest.mark.parametrize("setting", ["spark.ui.enabled"])
def test_nobody_else_is_let_in(spark: SparkSession, setting: str) -> None:
    assert spark.conf.get(setting) == "false"
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
