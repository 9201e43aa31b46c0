"""The jobs, from a broker to tables and back, each run twice."""

from __future__ import annotations

import itertools
import json
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
from kqueue.spark import jobs, transforms

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
    assert jobs.ingest(spark, source(broker, topic), folder, tell=stages.__setitem__)["bronze"] == 600
    assert (stages["bronze"], stages["silver"], stages["quarantine"]) == (600, 600, 600)
    send(broker, topic, told[600:])
    assert jobs.ingest(spark, source(broker, topic), folder)["bronze"] == 600

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


def test_archive_and_replay(spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic, tmp_path: Path) -> None:
    first, second, folder = new_topic(2, retention_ms=-1), new_topic(2, retention_ms=-1), str(tmp_path / "kept")
    for event in events(itertools.islice(Flights(), 100), seed=1):
        broker.topics[first].produce(event.value, event.key, headers={"kind": event.kind}, timestamp=event.told_ms)
    assert jobs.archive(spark, source(broker, first), folder) == 100
    assert jobs.archive(spark, source(broker, first), folder) == 0
    assert [path.name for path in (tmp_path / "kept" / "records" / f"topic={first}").iterdir()] == ["date=2013-01-01"]
    assert jobs.replay(spark, folder, broker.bootstrap, topic=second) == 100
    for partition in (0, 1):
        before, after = (
            [(one.offset, one.key, one.value, one.headers, one.timestamp) for one in broker.topics[topic].records(partition=partition)]
            for topic in (first, second)
        )
        assert before == after


def test_audit_by_the_command(spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    for value, key in (("a", None), ("a", None), (None, "k"), ("", "k"), ("b", None)):
        broker.topics[topic].produce(value, key, partition=0, timestamp=1_700_000_000_000)
    arguments = ["pipeline", "audit", "-t", topic, "-b", broker.bootstrap]
    result = CliRunner().invoke(command, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"topic": topic, "partition": 0, "records": 5, "first": 0, "last": 4, "gaps": 0, "repeated": 1,
         "first_ms": 1_700_000_000_000, "last_ms": 1_700_000_000_000},
    ]  # fmt: skip
    assert CliRunner().invoke(command, arguments).stdout.splitlines()[1].split() == [topic, "0", "5", "0", "4", "0", "1"]
    assert spark.range(1).count() == 1  # a session that was there is left running


@pytest.mark.parametrize("job", ["ingest", "archive"])
def test_a_topic_that_is_not_there_is_one_sentence(spark: SparkSession, broker: kqueue.Broker, tmp_path: Path, job: str) -> None:
    result = CliRunner().invoke(command, ["pipeline", job, str(tmp_path / "out"), "-t", "nothing", "-b", broker.bootstrap])
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert "nothing" in result.stderr
    assert len(result.stderr.splitlines()) == 1
