"""To an archive and back."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

import kqueue
from kqueue.cli.demo.events import events
from kqueue.cli.demo.flights import Flights
from kqueue.spark.jobs.archive import archive, replay

NewTopic = Callable[..., str]


def source(broker: kqueue.Broker, topic: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic}


def test_archive_and_replay(spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic, tmp_path: Path) -> None:
    first, second, folder = new_topic(2, retention_ms=-1), new_topic(2, retention_ms=-1), str(tmp_path / "kept")
    for event in events(itertools.islice(Flights(), 100), seed=1):
        broker.topics[first].produce(event.value, event.key, headers={"kind": event.kind}, timestamp=event.told_ms)
    assert archive(spark, source(broker, first), folder) == 100
    assert archive(spark, source(broker, first), folder) == 0
    assert [path.name for path in (tmp_path / "kept" / "records" / f"topic={first}").iterdir()] == ["date=2013-01-01"]
    assert replay(spark, folder, broker.bootstrap, topic=second) == 100
    for partition in (0, 1):
        before, after = (
            [(one.offset, one.key, one.value, one.headers, one.timestamp) for one in broker.topics[topic].records(partition=partition)]
            for topic in (first, second)
        )
        assert before == after
