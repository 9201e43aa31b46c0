"""The session that jobs and tests run in."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import kqueue
from kqueue.spark.session import session


def test_a_session_runs_python_on_its_workers(spark: SparkSession) -> None:
    doubled = spark.range(10).mapInArrow(lambda batches: batches, "id long")
    assert sorted(row.id for row in doubled.collect()) == list(range(10))


def test_the_running_session_is_taken(spark: SparkSession) -> None:
    assert session().sparkContext is spark.sparkContext


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
