"""Truncated indexes under a running broker, which must neither fail nor return wrong data."""

from __future__ import annotations

import os
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

import kqueue
from kqueue.tests.cli.test_serve import ANY_PORT, serving

START_MS = 1_700_000_000_000
VALUE = b"v" * 1000
SETTINGS = {"log.segment.bytes": 60000, "log.index.interval.bytes": 100, "log.retention.ms": -1}
STEP = 13
"""One of so many records is looked up."""


def produce(bootstrap: str, first: int, last: int) -> None:
    """Produce one batch per record, so that each has its own index entry."""
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(first, last):
        producer.send("t", VALUE, partition=0, timestamp_ms=START_MS + number).get(timeout=60)
    producer.close()


def check(bootstrap: str, count: int) -> None:
    partition = TopicPartition("t", 0)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=10_000)
    consumer.assign([partition])
    for number in range(0, count, STEP):
        position = consumer.offsets_for_times({partition: START_MS + number})[partition]
        assert (position.offset, position.timestamp) == (number, START_MS + number)
        consumer.seek(partition, number)
        assert next(consumer).offset == number
    assert consumer.end_offsets([partition]) == {partition: count}
    consumer.close()


def cut(folder: Path, size: int) -> None:
    for path in folder.glob("*index"):
        os.truncate(path, min(size, path.stat().st_size))


def test_broker_survives_indexes_truncated_while_it_runs(tmp_path: Path) -> None:
    rebuilding = {**SETTINGS, "log.dirs": tmp_path, "log.flush.offset.checkpoint.interval.ms": 300}
    pairs = [part for name, value in rebuilding.items() for part in ("--set", f"{name}={value}")]
    with kqueue.Broker(path=tmp_path, settings=SETTINGS) as broker:
        produce(broker.bootstrap, 0, 150)
    with serving("--set", ANY_PORT, *pairs) as served:
        check(served.bootstrap, 150)
        folder = tmp_path / "t-0"
        count = 150
        for size in (0, 100):
            cut(folder, size)
            check(served.bootstrap, count)
            produce(served.bootstrap, count, count + 60)  # across the cut, and over the end of the segment
            count += 60
            check(served.bootstrap, count)
        assert served.process.poll() is None
        log = served.end()
    assert served.process.returncode == 0
    assert "has been rebuilt" in log
    errors = [line for line in log.splitlines() if "ERROR" in line]
    lookups = sum(2 * len(range(0, at, STEP)) for at in (150, 210, 210, 270))
    assert len(errors) < lookups / 8, "they are told once, not at each look-up"
    with kqueue.Broker(path=tmp_path, settings=SETTINGS) as broker:
        check(broker.bootstrap, count)
