from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import kqueue
from kqueue.base.errors import CorruptBatch
from kqueue.client import Client, TopicPartition
from kqueue.client.errors import ClientError
from kqueue.records.arrow import ChunkLimits, ColumnDecoder
from kqueue.spark.errors import DataLost, OptionError
from kqueue.spark.source.broker_reader import BrokerReader
from kqueue.spark.source.options import TopicSelection
from kqueue.spark.source.record_reader import data_loss_handler
from kqueue.spark.source.split_planner import OffsetRange
from kqueue.testing import faults
from kqueue.tests import golden
from kqueue.tests.spark.source.logs import BEGIN_MS, options, positions, rows, send
from kqueue.tests.tables import for_each

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@contextlib.contextmanager
def reader(broker: kqueue.Broker, **given: object) -> Iterator[BrokerReader]:
    opened = BrokerReader(options(broker, subscribe="t", **given))
    try:
        yield opened
    finally:
        opened.close()


def drop(broker: kqueue.Broker, before: int) -> None:
    with Client(broker.bootstrap) as client:
        client.delete_records({T0: before})


def test_partitions_are_found_by_names_and_patterns(broker: kqueue.Broker) -> None:
    broker.create_topic("t", 2)
    broker.create_topic("tt")
    with reader(broker) as result:
        assert result.find_partitions(TopicSelection(names=("tt", "t")), strict=True) == [T0, T1, ("tt", 0)]
        assert result.find_partitions(TopicSelection(pattern="t.+"), strict=True) == [("tt", 0)]
        assert result.find_partitions(TopicSelection(pattern=".*"), strict=True) == [T0, T1, ("tt", 0)]
        assert result.find_partitions(TopicSelection(assigned=(T1,)), strict=True) == [T1]
        assert result.find_partitions(TopicSelection(names=("t", "gone")), strict=False) == [T0, T1]
        assert result.find_partitions(TopicSelection(assigned=(T1, TopicPartition("t", 5))), strict=False) == [T1]
        broker.create_topic("_kqueue-sink-q")
        assert result.find_partitions(TopicSelection(pattern=".*"), strict=True) == [T0, T1, ("tt", 0)]
        assert result.find_partitions(TopicSelection(pattern="t"), strict=True) == [T0, T1, ("tt", 0)]
        assert result.find_partitions(TopicSelection(pattern="^.$"), strict=True) == [T0, T1]
        with pytest.raises(OptionError, match="there is no topic 'gone'"):
            result.find_partitions(TopicSelection(names=("t", "gone")), strict=True)
        with pytest.raises(OptionError, match="topic 't' has no partition 5"):
            result.find_partitions(TopicSelection(assigned=(T1, TopicPartition("t", 5))), strict=True)


def test_right_to_read_a_topic_is_enough() -> None:
    with kqueue.Broker(acls=["User:ANONYMOUS allow read topic:t"]) as broker:
        for topic in ("t", "denied"):
            broker.create_topic(topic)
            broker.topics[topic].produce("x")
        with reader(broker) as result:
            assert result.find_partitions(TopicSelection(pattern=".*"), strict=True) == [T0]
            assert result.latest([T0]) == {T0: 1}
        assert positions(options(broker, subscribe="t"), [OffsetRange("t", 0, 0, 1)]) == [("t", 0, 0)]


def test_earliest_and_latest_offsets_are_those_of_the_logs(broker: kqueue.Broker) -> None:
    broker.create_topic("t", 2)
    for _ in range(3):
        send(broker, "t", 0, 5)
    drop(broker, 5)
    gone = TopicPartition("gone", 0)
    with reader(broker) as result:
        assert result.earliest([T0, T1, gone]) == {T0: 5, T1: 0}
        assert result.latest([T0, T1]) == {T0: 15, T1: 0}
        assert result.latest([]) == {}
        assert result.offsets_for_times({T0: BEGIN_MS + 3, T1: BEGIN_MS}) == {T0: 8, T1: None}
        assert 10 < result.row_bytes(T0, 5) < 100
        assert result.row_bytes(T1, 0) > 0


@pytest.mark.parametrize("fetch_bytes", [1, 1_000_000])
def test_just_the_range_is_read(broker: kqueue.Broker, fetch_bytes: int) -> None:
    broker.create_topic("t", 2)
    for number in range(30):
        send(broker, "t", number % 2, 10, codec="lz4" if number % 3 else "none")
    source_options = options(broker, subscribe="t", kafka__max__partition__fetch__bytes=fetch_bytes)
    ranges = [OffsetRange("t", 0, 13, 117), OffsetRange("t", 1, 0, 1), OffsetRange("t", 1, 149, 150)]
    assert positions(source_options, ranges) == [("t", 0, offset) for offset in range(13, 117)] + [
        ("t", 1, 0),
        ("t", 1, 149),
    ]
    assert positions(source_options, []) == []


def test_range_that_ends_in_a_compaction_gap_is_read_once(broker: kqueue.Broker) -> None:
    broker.create_topic("t", 1, cleanup_policy="compact", segment_bytes=1024, min_cleanable_dirty_ratio=0.01)
    for _ in range(40):
        send(broker, "t", 0, 3)
    broker.clock.advance(minutes=5)
    result = positions(options(broker, subscribe="t"), [OffsetRange("t", 0, 0, 40), OffsetRange("t", 0, 40, 120)])
    assert result[-3:] == [("t", 0, 117), ("t", 0, 118), ("t", 0, 119)]
    assert len(result) < 60
    assert len(set(result)) == len(result)


def test_records_deleted_before_they_are_read_are_reported_or_skipped(
    broker: kqueue.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.create_topic("t")
    for _ in range(4):
        send(broker, "t", 0, 5)
    drop(broker, 10)
    message = r"t-0: offsets 0 to 9 were deleted before they were read; its log begins at 10"
    with pytest.raises(DataLost, match=message):
        rows(options(broker, subscribe="t"), [OffsetRange("t", 0, 0, 20)])
    going_on = options(broker, subscribe="t", failOnDataLoss="false")
    assert positions(going_on, [OffsetRange("t", 0, 0, 8), OffsetRange("t", 0, 8, 12)]) == [("t", 0, 10), ("t", 0, 11)]
    assert "offsets 8 to 9 were deleted" in caplog.text


def test_partition_and_offsets_that_are_gone_are_reported_as_lost(broker: kqueue.Broker) -> None:
    broker.create_topic("t")
    send(broker, "t", 0, 5)
    source_options = options(broker, subscribe="t")
    with pytest.raises(DataLost, match="^gone-0 from 0 to 5 was to be read, but there is no such partition any more"):
        rows(source_options, [OffsetRange("gone", 0, 0, 5)])
    with pytest.raises(DataLost, match="^t-0 from 7 to 9 was to be read, but t-0 ends at 5 now"):
        rows(source_options, [OffsetRange("t", 0, 7, 9)])
    assert (
        rows(
            options(broker, subscribe="t", failOnDataLoss="false"),
            [OffsetRange("gone", 0, 0, 5), OffsetRange("t", 0, 7, 9)],
        )
        == []
    )


def test_range_beyond_the_log_end_fails_after_the_timeout(broker: kqueue.Broker) -> None:
    broker.create_topic("t")
    send(broker, "t", 0, 5)
    source_options = options(broker, subscribe="t", kafka__default__api__timeout__ms=900)
    with pytest.raises(ClientError, match="t-0 from 0 to 9 was to be read, but t-0 ends at 5 now; its leader has lost"):
        rows(source_options, [OffsetRange("t", 0, 0, 9)])


def test_lost_connections_lose_and_duplicate_no_records(broker: kqueue.Broker) -> None:
    broker.create_topic("t")
    for _ in range(20):
        send(broker, "t", 0, 10)
    source_options = options(broker, subscribe="t", kafka__max__partition__fetch__bytes=300)
    with faults(broker) as wrong:
        wrong.disconnect("Fetch", times=None, probability=0.3)
        assert positions(source_options, [OffsetRange("t", 0, 0, 200)]) == [("t", 0, offset) for offset in range(200)]
        assert wrong.fired


def test_repeated_broker_restarts_lose_and_duplicate_no_records(broker: kqueue.Broker) -> None:
    """Whatever answer it was in the middle of: nothing is lost and nothing comes twice."""
    broker.create_topic("t")
    for _ in range(60):
        send(broker, "t", 0, 10)
    source_options, result, restarts = options(broker, subscribe="t", kafka__max__partition__fetch__bytes=300), [], 0
    opened = BrokerReader(source_options)
    decoder = ColumnDecoder(limits=ChunkLimits(rows_max=10), engine="python")
    with contextlib.closing(opened), ThreadPoolExecutor(1) as pool:
        restarting = pool.submit(broker.restart)
        for piece in opened.read([OffsetRange("t", 0, 0, 600)], decoder, data_loss_handler(True)):
            result += piece.offset.to_pylist()
            if restarting.done() and restarts < 4:
                restarting.result()
                restarting, restarts = pool.submit(broker.restart), restarts + 1
    result += [offset for piece in decoder.finish() for offset in piece.offset.to_pylist()]
    assert result == list(range(600))
    assert restarts > 1


def test_broker_that_stops_while_read_fails_after_the_timeout(broker: kqueue.Broker) -> None:
    broker.create_topic("t")
    for _ in range(100):
        send(broker, "t", 0, 10)
    source_options = options(
        broker, subscribe="t", kafka__max__partition__fetch__bytes=300, kafka__default__api__timeout__ms=300
    )
    opened = BrokerReader(source_options)
    with contextlib.closing(opened):
        reading = opened.read(
            [OffsetRange("t", 0, 0, 1_000)],
            ColumnDecoder(limits=ChunkLimits(rows_max=10), engine="python"),
            data_loss_handler(True),
        )
        assert next(reading).rows
        broker.stop()
        with pytest.raises(ClientError, match="no success within 300 ms"):
            for _ in reading:
                pass


def test_stopped_broker_fails_after_the_timeout(broker: kqueue.Broker) -> None:
    source_options = options(broker, subscribe="t", kafka__default__api__timeout__ms=300)
    broker.stop()
    with pytest.raises(ClientError, match="no success within 300 ms"):
        rows(source_options, [OffsetRange("t", 0, 0, 9)])


def test_damage_names_the_partition(broker: kqueue.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.create_topic("t")
    send(broker, "t", 0, 5)
    send(broker, "t", 0, 5)
    fetch = Client.fetch

    def damaged(self: Client, *args: object, **kwargs: object) -> object:
        result = fetch(self, *args, **kwargs)  # type: ignore[arg-type]
        for candidate in result.values():
            data = bytearray(candidate.records)
            data[-3] ^= 1
            object.__setattr__(candidate, "records", memoryview(bytes(data)))
        return result

    monkeypatch.setattr(Client, "fetch", damaged)
    with pytest.raises(CorruptBatch, match=rf"^t-0, as {broker.bootstrap} sent it: "):
        rows(options(broker, subscribe="t"), [OffsetRange("t", 0, 0, 10)])


def test_batch_whose_offset_goes_back_is_reported_as_corrupt(
    broker: kqueue.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No checksum covers a batch's offset."""
    broker.create_topic("t")
    for _ in range(3):
        send(broker, "t", 0, 5)
    fetch = Client.fetch

    def damaged(self: Client, *args: object, **kwargs: object) -> object:
        result = fetch(self, *args, **kwargs)  # type: ignore[arg-type]
        for candidate in result.values():
            data = bytearray(candidate.records)
            data[len(data) // 3 + 5] ^= 1
            object.__setattr__(candidate, "records", memoryview(bytes(data)))
        return result

    monkeypatch.setattr(Client, "fetch", damaged)
    with pytest.raises(CorruptBatch, match="begins at offset 10, and that before it ends at 65545"):
        rows(options(broker, subscribe="t"), [OffsetRange("t", 0, 0, 15)])


def test_damage_reported_by_the_broker_names_the_batch_and_the_remedy(tmp_path: Path) -> None:
    with kqueue.Broker(tmp_path) as broker:
        broker.create_topic("t", 1)
        for _ in range(3):
            send(broker, "t", 0, 5)
    log = tmp_path / "t-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    with kqueue.Broker(tmp_path) as broker:
        words = rf"^t-0, as {broker.bootstrap} sent it: the batch at offset 5 or near it is damaged "
        words += r".*kqueue log repair t-0 --copy-to "
        with pytest.raises(CorruptBatch, match=words):
            rows(options(broker, subscribe="t"), [OffsetRange("t", 0, 0, 15)])


@for_each("version", golden.VERSIONS)
def test_records_written_by_kafka_are_read_through_a_broker_on_its_folder(version: str) -> None:
    expected = golden.expected(version)
    with kqueue.Broker(snapshot=golden.data_folder(version)) as broker:
        for isolation, names in (
            ("read_uncommitted", [name for name in expected if ":" not in name]),
            ("read_committed", ["txn"]),
        ):
            source_options = options(broker, subscribe=",".join(names), kafka__isolation__level=isolation)
            result = BrokerReader(source_options)
            partitions = result.find_partitions(source_options.topics, strict=True)
            first, last = result.earliest(partitions), result.latest(partitions)
            result.close()
            views = {name: "txn:committed" if isolation == "read_committed" else name for name in names}
            wanted_positions = [
                (name, record.partition, record.offset) for name in names for record in expected[views[name]].records
            ]
            ranges = [
                OffsetRange(*topic_partition, first[topic_partition], last[topic_partition])
                for topic_partition in partitions
            ]
            assert sorted(positions(source_options, ranges)) == sorted(wanted_positions)
            middle = {range: range.start + range.size // 2 for range in ranges}
            halves = [range._replace(end=middle[range]) for range in ranges] + [
                range._replace(start=middle[range]) for range in ranges
            ]
            assert sorted(positions(source_options, halves)) == sorted(wanted_positions)
