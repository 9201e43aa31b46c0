"""From a topic to tables, run twice."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from kafka import KafkaProducer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import kqueue
from kqueue.cli.app import kqueue as command
from kqueue.cli.demo.events import Event, Kind, events, replay
from kqueue.cli.demo.flights import Flights
from kqueue.spark import transforms
from kqueue.spark.jobs.ingest import ingest

NewTopic = Callable[..., str]


def send(broker: kqueue.Broker, topic: str, told: list[Event]) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all", linger_ms=5)
    replay(producer, topic, told)
    producer.close()


def source(broker: kqueue.Broker, topic: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic}


def test_ingest(spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic, tmp_path: Path) -> None:
    topic, folder = new_topic(2, retention_ms=-1), str(tmp_path / "tables")
    told = list(events(itertools.islice(Flights(), 1200), seed=1, late_share=0.02, broken_share=0.02))
    stages: dict[str, int] = {}
    send(broker, topic, told[:600])
    assert ingest(spark, source(broker, topic), folder, tell=stages.__setitem__)["bronze"] == 600
    assert (stages["bronze"], stages["silver"], stages["quarantine"]) == (600, 600, 600)
    send(broker, topic, told[600:])
    assert ingest(spark, source(broker, topic), folder)["bronze"] == 600

    bronze = spark.read.parquet(f"{folder}/bronze")
    assert bronze.select("partition", "offset").distinct().count() == 1200
    rows = spark.read.parquet(f"{folder}/silver").agg(F.count("*"), F.count_distinct("id")).collect()
    fine = sum(event.kind is Kind.FINE for event in told)
    assert [tuple(row) for row in rows] == [(fine, fine)]
    assert spark.read.parquet(f"{folder}/quarantine").count() == 1200 - fine
    whole = transforms.gold(transforms.silver(bronze))
    gold = spark.read.parquet(f"{folder}/gold")
    assert gold.exceptAll(whole).isEmpty()  # hours that are done, as a batch over everything has them
    assert gold.count() > 0


@pytest.mark.parametrize("job", ["ingest", "archive"])
def test_a_topic_that_is_not_there_is_one_sentence(spark: SparkSession, broker: kqueue.Broker, tmp_path: Path, job: str) -> None:
    result = CliRunner().invoke(command, ["pipeline", job, str(tmp_path / "out"), "-t", "nothing", "-b", broker.bootstrap])
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert "nothing" in result.stderr
    assert len(result.stderr.splitlines()) == 1
