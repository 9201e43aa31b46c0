"""Truncated indexes under a running broker, which must neither fail nor return wrong data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from kqueue.tests.cli.test_serve import ANY_PORT, serving

START_MS = 1_700_000_000_000
VALUE = b"v" * 1000
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


@pytest.mark.thorough
def test_broker_survives_indexes_truncated_while_it_runs(tmp_path: Path) -> None:
    small = (
        "--set",
        "log.segment.bytes=60000",
        "--set",
        "log.index.interval.bytes=100",
        "--set",
        "log.retention.ms=-1",
    )
    rebuilding = ("--set", "log.flush.offset.checkpoint.interval.ms=300")
    with serving("--set", f"log.dirs={tmp_path}", "--set", ANY_PORT, *small) as served:
        produce(served.bootstrap, 0, 150)
        check(served.bootstrap, 150)
        served.end()
    with serving("--set", f"log.dirs={tmp_path}", "--set", ANY_PORT, *small, *rebuilding) as served:
        check(served.bootstrap, 150)
        folder = tmp_path / "t-0"
        count = 150
        for size in (0, 13, 100):
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
    lookups = sum(2 * len(range(0, at, STEP)) for at in (150, 210, 210, 270, 270, 330))
    assert len(errors) < lookups / 8, "they are told once, not at each look-up"
    with serving("--set", f"log.dirs={tmp_path}", "--set", ANY_PORT, *small) as served:
        check(served.bootstrap, count)
