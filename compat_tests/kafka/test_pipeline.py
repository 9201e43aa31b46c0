"""The source and the sink for Spark against Kafka itself, without Spark: what a task and the driver
do, and what a stock client finds.
"""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from compat_tests.kafka import clients
from compat_tests.kafka.clients import START_MS, Writer, sample
from compat_tests.kafka.node import Kafka

pa = pytest.importorskip("pyarrow", reason="skipped, because pyarrow is not installed")
pytest.importorskip("numpy", reason="skipped, because NumPy is not installed")

from kqueue.client import Client, TopicPartition  # noqa: E402
from kqueue.client.errors import BrokerRefused  # noqa: E402
from kqueue.records.partitioners.murmur2 import murmur2  # noqa: E402
from kqueue.spark.errors import RowRefused, StagingLost  # noqa: E402
from kqueue.spark.sink import batcher as rows_module  # noqa: E402
from kqueue.spark.sink import producer_pipeline  # noqa: E402
from kqueue.spark.sink.batch_commit import commit  # noqa: E402
from kqueue.spark.sink.journal import Journal, StagedBatch  # noqa: E402
from kqueue.spark.sink.options import SinkOptions, parse_options  # noqa: E402
from kqueue.spark.sink.producer_pipeline import drop_idle_producers  # noqa: E402
from kqueue.spark.sink.staging_cleanup import forget, staged_queries, unused_since  # noqa: E402
from kqueue.spark.sink.write_task import BatchIdentity, send_rows, stage_rows  # noqa: E402
from kqueue.spark.source import options as source_options  # noqa: E402
from kqueue.spark.source.broker_reader import BrokerReader  # noqa: E402
from kqueue.spark.source.micro_batch_planner import MicroBatchPlanner  # noqa: E402
from kqueue.spark.source.read_task import read_ranges  # noqa: E402
from kqueue.spark.source.split_planner import OffsetRange  # noqa: E402

PARTS = 3
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
UTC = datetime.UTC


@pytest.fixture(scope="module")
def running(formatted: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    drop_idle_producers()
    node = Kafka(tmp_path_factory.mktemp("pipeline") / "kafka").copy_from(formatted)
    with node:
        clients.create_topic(node.bootstrap, "read", PARTS)
        for number, codec in enumerate(clients.CODECS):
            clients.write(node.bootstrap, "read", sample("read", 60, partitions=PARTS, start=60 * number), codec)
        clients.create_topic(node.bootstrap, "txn")
        writer = Writer(node.bootstrap, **{"transactional.id": "writer"}).init()
        for number in range(6):
            writer.transaction("txn", sample(f"txn {number}", 20, start=number * 20), commit=number % 3 != 1)
        yield node
    drop_idle_producers()


def sink(node: Kafka, topic: str, **given: Any) -> SinkOptions:
    values = {name.replace("_", "."): str(value) for name, value in given.items()}
    return parse_options({"kafka.bootstrap.servers": node.bootstrap, "topic": topic, **values}, streaming=True)


def source(node: Kafka, topic: str, **given: Any) -> source_options.SourceOptions:
    values = {name: str(value) for name, value in given.items()}
    return source_options.parse_options(
        {"kafka.bootstrap.servers": node.bootstrap, "subscribe": topic, "includeHeaders": "true", **values},
        streaming=True,
    )


def texts(values: Sequence[str]) -> Any:
    return pa.record_batch({"key": pa.array(values), "value": pa.array(values)})


def values_in(node: Kafka, topic: str) -> list[str]:
    return sorted((row.value or b"").decode() for row in clients.read(node.bootstrap, [topic])[topic])


def rows_of(options: source_options.SourceOptions, ranges: Sequence[OffsetRange]) -> list[dict[str, Any]]:
    return [row for batch in read_ranges(options, tuple(ranges)) for row in batch.to_pylist()]


# --- the source


def test_the_source_reads_what_a_stock_client_reads(running: Kafka) -> None:
    """All codecs, null and empty keys and values, headers of all sorts, times."""
    expected = clients.read(running.bootstrap, ["read"])["read"]
    options = source(running, "read")
    reader = BrokerReader(options)
    try:
        places = reader.find_partitions(options.topics, strict=True)
        earliest, latest = reader.earliest(places), reader.latest(places)
    finally:
        reader.close()
    rows = rows_of(
        options,
        [
            OffsetRange(*topic_partition, earliest[topic_partition], latest[topic_partition])
            for topic_partition in places
        ],
    )
    assert len(rows) == 300
    for row, mine in zip(expected, rows, strict=True):
        assert (mine["partition"], mine["offset"], mine["key"], mine["value"]) == (
            row.partition,
            row.offset,
            row.key,
            row.value,
        )
        assert mine["timestamp"] == datetime.datetime.fromtimestamp(row.timestamp / 1000, UTC)
        assert mine["timestampType"] == 0
        assert tuple((one["key"], one["value"]) for one in mine["headers"] or ()) == row.headers


def test_offsets_by_time_are_those_of_a_stock_client(running: Kafka) -> None:
    times = [START_MS, START_MS + 100_500, START_MS + 299_000, START_MS + 10**9]
    expected = clients.offsets_for_times(running.bootstrap, ["read"], times)["read"]
    reader = BrokerReader(source(running, "read"))
    try:
        for time_ms in times:
            offsets = reader.offsets_for_times({TopicPartition("read", part): time_ms for part in range(PARTS)})
            assert {
                topic_partition.partition: -1 if offset is None else offset
                for topic_partition, offset in offsets.items()
            } == {part: expected[part, time_ms] for part in range(PARTS)}
    finally:
        reader.close()


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_aborted_transactions_are_hidden_unless_they_are_asked_for(running: Kafka, isolation: str) -> None:
    expected = clients.read(running.bootstrap, ["txn"], committed=isolation == "read_committed")["txn"]
    options = source(running, "txn", **{"kafka.isolation.level": isolation})
    reader = BrokerReader(options)
    try:
        end = reader.latest([TopicPartition("txn", 0)])[TopicPartition("txn", 0)]
    finally:
        reader.close()
    assert [row["offset"] for row in rows_of(options, [OffsetRange("txn", 0, 0, end)])] == [
        row.offset for row in expected
    ]


def test_a_stream_shows_how_far_it_is_by_its_group(running: Kafka) -> None:
    options = source(running, "read", groupId="lag", startingOffsets="earliest", maxOffsetsPerTrigger=100)
    tracker = MicroBatchPlanner(options)
    try:
        start, seen = tracker.initial(), 0
        while (end := tracker.latest(start, 100)) != start:
            rows = rows_of(options, tracker.ranges(start, end))
            assert len(rows) <= 100
            seen, start = seen + len(rows), end
            tracker.done(start)
    finally:
        tracker.close()
    assert seen == 300
    places = [("read", part) for part in range(PARTS)]
    assert clients.committed(running.bootstrap, "lag", places) == dict.fromkeys(places, 100)


# --- the sink


@pytest.mark.parametrize("codec", clients.CODECS)
def test_the_sink_writes_what_a_stock_client_reads(running: Kafka, codec: str) -> None:
    """Keys lie where Java's producers put them; headers, times, partitions and tombstones are as
    the rows say.
    """
    topic = f"written-{codec}"
    clients.create_topic(running.bootstrap, topic, PARTS)
    count = 500
    keys = [f"clé {number % 50}" for number in range(count)]
    some = {
        "key": pa.array(keys),
        "value": pa.array([None if number % 7 == 0 else b"%d" % number for number in range(count)]),
        "timestamp": pa.array([(START_MS + number) * 1_000 for number in range(count)], pa.timestamp("us", "UTC")),
        "headers": pa.array(
            [[{"key": "n", "value": None}, {"key": "é", "value": b"1"}] if n % 2 else None for n in range(count)],
            HEADERS,
        ),
        "partition": pa.array([2 if number % 5 == 0 else None for number in range(count)], pa.int32()),
    }
    send_rows(sink(running, topic, kafka_compression_type=codec, kafka_batch_size=4_000), [pa.record_batch(some)])
    rows = sorted(clients.read(running.bootstrap, [topic])[topic], key=lambda row: row.timestamp)
    assert [row.timestamp for row in rows] == [START_MS + number for number in range(count)]
    for number, row in enumerate(rows):
        key = keys[number].encode()
        assert row.partition == (2 if number % 5 == 0 else (murmur2(key) & 0x7FFFFFFF) % PARTS)
        assert (row.key, row.value) == (key, None if number % 7 == 0 else b"%d" % number)
        assert row.headers == ((("n", None), ("é", b"1")) if number % 2 else ())


def run_batch(
    options: SinkOptions, query: str, batch_id: int, tasks: Sequence[Sequence[str]], *, commits: int = 1
) -> None:
    staged: list[StagedBatch] = []
    for number, values in enumerate(tasks):
        outcome = stage_rows(options, BatchIdentity(query, batch_id, number), [texts(values)])
        staged += outcome.staged or ()
    for _ in range(commits):
        with Client(options.client) as client:
            commit(client, query, batch_id, staged)


def test_exactly_once_whatever_is_done_again(running: Kafka) -> None:
    clients.create_topic(running.bootstrap, "once", PARTS)
    options = sink(running, "once", delivery="exactly-once", kafka_batch_size=500)
    rows = [f"row {number:04}" for number in range(400)]
    for batch_id in range(3):
        mine = [f"{batch_id} {row}" for row in rows]
        stage_rows(options, BatchIdentity("q", batch_id, 0), [texts(mine)])  # a task that nobody waited for
        run_batch(options, "q", batch_id, [mine[::2], mine[1::2]], commits=3)
        run_batch(options, "q", batch_id, [mine])  # as after a crash: Spark runs it again
    assert values_in(running, "once") == sorted(f"{batch_id} {row}" for batch_id in range(3) for row in rows)
    with Client(running.bootstrap) as client:
        assert Journal(client, "q").read().done == 2
    left = clients.watermarks(running.bootstrap, ["_kqueue-sink-q"])["_kqueue-sink-q"]
    assert [end - begin for begin, end in left.values()] == [1, 0, 0, 0, 0]


def test_queries_that_are_gone_are_forgotten(running: Kafka) -> None:
    clients.create_topic(running.bootstrap, "swept", PARTS)
    options = sink(running, "swept", delivery="exactly-once")
    run_batch(options, "swept", 3, [["a", "b"]])
    with Client(running.bootstrap) as client:
        (query,) = (one for one in staged_queries(client) if one.query_id == "swept")
        assert (query.done, query.unfinished, query.staged) == (3, None, 0)
        assert unused_since([query], int(time.time() * 1_000) + 1) == [query]
        forget(client, "swept")
        assert "swept" not in [one.query_id for one in staged_queries(client)]
    run_batch(options, "swept", 4, [["c"]])  # it was not gone after all
    assert values_in(running, "swept") == ["a", "b", "c"]


def test_a_row_that_is_too_large_is_told_and_nothing_can_be_seen(running: Kafka) -> None:
    clients.create_topic(running.bootstrap, "small", 1, max_message_bytes=2_000)
    with pytest.raises(
        RowRefused, match=r"a row for small-0 takes \d+ bytes as a batch, and its topic takes 2000 at most"
    ):
        stage_rows(
            sink(running, "small", delivery="exactly-once"), BatchIdentity("small", 0, 0), [texts(["a", "x" * 3_000])]
        )
    assert values_in(running, "small") == []


def test_a_topic_that_is_deleted_between_staging_and_copying(running: Kafka) -> None:
    clients.create_topic(running.bootstrap, "gone")
    options = sink(running, "gone", delivery="exactly-once")
    outcome = stage_rows(options, BatchIdentity("gone", 0, 0), [texts(["a", "b"])])
    clients.delete_topics(running.bootstrap, "gone")
    with Client(options.client) as client, pytest.raises(BrokerRefused, match="gone-0: UNKNOWN_TOPIC"):
        commit(client, "gone", 0, outcome.staged)
    clients.create_topic(running.bootstrap, "gone")
    with Client(options.client) as client:
        commit(client, "gone", 0, outcome.staged)
    assert values_in(running, "gone") == ["a", "b"]


def test_staged_records_deleted_by_hand_are_reported(running: Kafka) -> None:
    clients.create_topic(running.bootstrap, "dropped")
    options = sink(running, "dropped", delivery="exactly-once", stagingPartitions=1)
    outcome = stage_rows(options, BatchIdentity("dropped", 0, 0), [texts(["a", "b"])])
    clients.delete_records(running.bootstrap, "_kqueue-sink-dropped", 1, 2)
    with (
        Client(options.client) as client,
        pytest.raises(StagingLost, match="_kqueue-sink-dropped-1: what was staged at 0 is gone"),
    ):
        commit(client, "dropped", 0, outcome.staged)
    assert values_in(running, "dropped") == []


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_a_node_that_is_killed_while_rows_are_written(
    running: Kafka, delivery: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes back meanwhile; each row is there once: the wire alone repeats batches, and the node
    knows them.
    """
    monkeypatch.setattr(rows_module, "GATHER_BYTES", 20_000)
    monkeypatch.setattr(producer_pipeline, "ROUND_BYTES_MAX", 10_000)
    topic = f"killed-{delivery}"
    clients.create_topic(running.bootstrap, topic, PARTS)
    options = sink(running, topic, delivery=delivery, kafka_batch_size=2_000)
    rows = [f"row {number:05}" for number in range(6_000)]
    under_way = threading.Event()

    def slowly() -> Iterator[Any]:
        for begin in range(0, len(rows), 600):
            yield texts(rows[begin : begin + 600])
            if begin == 1_800:
                under_way.set()
            time.sleep(0.05)

    failed: list[BaseException] = []

    def work() -> None:
        try:
            if delivery == "at-least-once":
                send_rows(options, slowly())
            else:
                outcome = stage_rows(options, BatchIdentity("killed", 0, 0), slowly())
                with Client(options.client) as client:
                    commit(client, "killed", 0, outcome.staged)
        except BaseException as error:
            failed.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    assert under_way.wait(30)
    running.kill()
    running.start()
    worker.join(90)
    assert not worker.is_alive()
    assert not failed, failed
    assert values_in(running, topic) == rows
