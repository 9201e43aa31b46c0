"""A folder whose broker is at work: it appends, rolls, deletes and compacts while we read."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import kqueue
from kqueue.client import Client, TopicPartition
from kqueue.records.builder import BatchBuilder
from kqueue.spark.errors import OptionError
from kqueue.spark.source.file_reader import FileReader
from kqueue.spark.source.micro_batch_planner import MicroBatchPlanner
from kqueue.spark.source.reader_factory import check_readable, unread
from kqueue.spark.source.split_planner import OffsetRange
from kqueue.tests.spark.source.logs import BEGIN_MS, options, positions, rows, send

T0 = TopicPartition("t", 0)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[kqueue.Broker]:
    with kqueue.Broker(tmp_path / "data") as running:
        yield running


def test_records_appended_and_rolled_come_once(broker: kqueue.Broker, tmp_path: Path) -> None:
    """Each record comes once, the last segment's after the broker has stopped."""
    broker.create_topic("t", 1, segment_bytes=1024)
    send(broker, "t", 0, 3)  # a job makes the folder of a new partition; after a record it is there
    query = MicroBatchPlanner(
        options(path=tmp_path / "data", subscribe="t", startingOffsets="earliest"), pause=lambda seconds: None
    )

    def send_all() -> None:
        for _ in range(99):
            send(broker, "t", 0, 3)

    at, result, sizes = query.initial(), [], []
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(send_all)
        while True:
            is_last = sending.done()
            then = query.latest(at, None)
            read = (
                [
                    topic_partition
                    for split in query.splits(at, then)
                    for topic_partition in positions(query.options, split)
                ]
                if then is not at
                else []
            )
            result, at, sizes = result + read, then, [*sizes, len(read)]
            if is_last:
                break
    assert result == [("t", 0, offset) for offset in range(len(result))]
    assert 200 < len(result) < 300
    assert sum(size > 0 for size in sizes) > 1
    broker.stop()
    then = query.latest(at, None)
    result += [
        topic_partition for split in query.splits(at, then) for topic_partition in positions(query.options, split)
    ]
    assert result == [("t", 0, offset) for offset in range(300)]


@pytest.mark.thorough
def test_reads_beside_deletions_have_no_gap(broker: kqueue.Broker, tmp_path: Path) -> None:
    broker.create_topic("t", 1, segment_bytes=1024, file_delete_delay_ms=0)
    for _ in range(200):
        send(broker, "t", 0, 3)
    source_options = options(path=tmp_path / "data", subscribe="t", failOnDataLoss="false")
    end = FileReader(source_options).latest([T0])[T0]

    def delete() -> None:
        with Client(broker.bootstrap) as client:
            for before in range(30, 500, 10):
                client.delete_records({T0: before})

    with ThreadPoolExecutor(1) as pool:
        deleting, looks = pool.submit(delete), 0
        while not deleting.done() or not looks:
            result = [offset for _, _, offset in positions(source_options, [OffsetRange("t", 0, 0, end)])]
            assert result == list(range(result[0], end)), "what is left, in order and without a gap"
            looks += 1
        deleting.result()
    begin = FileReader(source_options).earliest([T0])[T0]
    assert 300 < begin <= 490
    assert positions(source_options, [OffsetRange("t", 0, 0, end)])[-1] == ("t", 0, end - 1)


@pytest.mark.thorough
def test_compacted_topic_gives_the_latest_record_of_each_key(broker: kqueue.Broker, tmp_path: Path) -> None:
    """Every look finds the latest record of each key, whichever segments have been written anew by
    then.
    """
    broker.create_topic(
        "t", 1, cleanup_policy="compact", segment_bytes=2048, min_cleanable_dirty_ratio=0.01, file_delete_delay_ms=0
    )
    rng = random.Random(1)
    with Client(broker.bootstrap) as client:
        for number in range(400):
            builder, key = BatchBuilder(), b"k%d" % rng.randrange(20)
            builder.append(BEGIN_MS + number, key, b"%d" % number)
            client.produce({T0: bytes(builder.build())})
    source_options = options(path=tmp_path / "data", subscribe="t")
    end = FileReader(source_options).latest([T0])[T0]
    whole = rows(source_options, [OffsetRange("t", 0, 0, end)])
    latest = {row["key"]: row["value"] for row in whole}
    assert len(whole) == end

    def looks(stop: list[bool]) -> int:
        count = 0
        while not stop or not count:
            result = rows(source_options, [OffsetRange("t", 0, 0, end)])
            assert {row["key"]: row["value"] for row in result} == latest
            assert [row["offset"] for row in result] == sorted({row["offset"] for row in result})
            count += 1
        return count

    stop: list[bool] = []
    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(looks, stop)
        for _ in range(4):
            broker.clock.advance(minutes=2)
        stop.append(True)
        assert looking.result() > 0
    assert len(rows(source_options, [OffsetRange("t", 0, 0, end)])) < end / 2


def test_records_left_out_are_logged(broker: kqueue.Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broker.create_topic("t", 1, segment_bytes=1024)
    broker.create_topic("empty")
    send(broker, "t", 0, 3)
    path = tmp_path / "data"
    reader = FileReader(options(path=path))
    assert reader.unread([TopicPartition("empty", 0)]) == ""
    told = reader.unread([T0])
    assert "is in use, or was not stopped cleanly: 3 offsets in the last segments" in told
    assert FileReader(options(path=path, includeActiveSegment="true")).unread([T0]) == ""
    assert FileReader(options(path=path, includeActiveSegment="false")).unread([T0]) == ""
    with pytest.raises(OptionError, match="^nothing can be read: .* is in use"):
        check_readable(options(path=path, subscribe="t"))
    check_readable(options(path=path, subscribe="empty"))
    MicroBatchPlanner(options(path=path, subscribe="t")).initial()
    assert caplog.messages == [told]
    for _ in range(30):
        send(broker, "t", 0, 3)
    check_readable(options(path=path, subscribe="t"))
    assert unread(options(path=path, subscribe="t")) == reader.unread([T0]) != ""
    broker.stop()
    assert reader.unread([T0]) == ""
