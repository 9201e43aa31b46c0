"""A real broker and a real client, while time is pushed ahead."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kqueue_cleanup_archive import ArchivePolicy
from kqueue_cleanup_archive.policy import VARIABLE
from logs import archived, files
from pyarrow.fs import FileSystem

import kqueue

SETTINGS = {"log.retention.check.interval.ms": 2 * 86_400_000}
WEEK = {
    "cleanup_policy": "archive",
    "retention_ms": 7 * 86_400_000,
    "message_timestamp_type": "LogAppendTime",
    "segment_bytes": 20_000,
}


def produce(broker: kqueue.Broker, count: int, *, first: int = 0) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, compression_type="gzip", batch_size=2000)
    try:
        for number in range(first, first + count):
            producer.send("orders", b"coffee %d" % number, key=b"%d" % (number % 5), headers=[("n", b"%d" % number)])
        producer.flush(timeout=30)
    finally:
        producer.close(timeout=30)


def bounds(broker: kqueue.Broker, partitions: int = 2) -> list[tuple[int, int]]:
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap)
    try:
        places = [TopicPartition("orders", number) for number in range(partitions)]
        starts, ends = consumer.beginning_offsets(places), consumer.end_offsets(places)
        return [(starts[place], ends[place]) for place in places]
    finally:
        consumer.close()


def test_expired_records_are_archived_once_before_they_are_deleted(tmp_path: Path) -> None:
    policy = ArchivePolicy(tmp_path / "archive", name="keep")
    with kqueue.Broker(path=tmp_path / "data", settings=SETTINGS, cleanup_policies=[policy]) as broker:
        broker.create_topic("orders", 2, **{**WEEK, "cleanup_policy": "keep"})
        day = broker.clock.now().astimezone(UTC).date()
        produce(broker, 3000)
        before = bounds(broker)
        broker.clock.advance(days=6)
        assert files(tmp_path / "archive") == []
        broker.clock.advance(days=4)
        assert bounds(broker) == [(end, end) for _, end in before]
        broker.restart()
        produce(broker, 500, first=3000)
        broker.clock.advance(days=10)
    table = archived(tmp_path / "archive")
    assert sorted(int(value[7:]) for value in table["value"].to_pylist()) == list(range(3500))
    assert len(set(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))) == 3500
    assert table["headers"].to_pylist()[0][0]["key"] == "n"
    assert set(table["timestamp_type"].to_pylist()) == {"LogAppendTime"}
    dates = set(table["date"].to_pylist())
    assert day in dates or datetime.now(UTC).date() in dates
    assert max(dates) >= day.fromordinal(day.toordinal() + 10)


def test_an_archive_that_can_not_be_written_keeps_everything_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "archive").write_text("a file where a folder should be")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "archive"))
    with kqueue.Broker(path=tmp_path / "data", settings=SETTINGS) as broker:
        broker.create_topic("orders", 2, **WEEK)
        produce(broker, 500)
        before = bounds(broker)
        with caplog.at_level(logging.ERROR, "kqueue"):
            broker.clock.advance(days=9)
        assert bounds(broker) == before
        told = [record.getMessage() for record in caplog.records if "'archive'" in record.getMessage()]
        assert len(told) == 2, "one for each partition"
        assert all("nothing is dropped" in line and "kqueue-cleanup-archive" in line for line in told)
        (tmp_path / "archive").unlink()
        broker.clock.advance(days=3)
        assert bounds(broker) == [(end, end) for _, end in before]
    assert archived(tmp_path / "archive").num_rows == 500


def test_a_broker_in_memory_archives_to_any_filesystem() -> None:
    filesystem, _ = FileSystem.from_uri("mock:///archive")
    policy = ArchivePolicy("archive", filesystem=filesystem, name="keep")
    with kqueue.Broker(settings=SETTINGS, cleanup_policies=[policy]) as broker:
        broker.create_topic("orders", 2, **{**WEEK, "cleanup_policy": "keep"})
        produce(broker, 300)
        broker.clock.advance(days=10)
        assert all(start == end for start, end in bounds(broker))
    assert archived("archive", filesystem).num_rows == 300
