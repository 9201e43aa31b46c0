"""Structured streaming reads every record once and in order.

The tests restart queries and brokers, inject faults, and change topics.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQuery

import kqueue
from compat_tests.spark_connector.stock import TIMEOUT_S, Stock, offsets_json, rows_by_batch
from compat_tests.waits import eventually, eventually_equal
from kqueue.testing import faults
from kqueue.tests import golden

EARLIEST = {"subscribe": "orders", "startingOffsets": "earliest"}


def add(broker: kqueue.Broker, topic: str, begin: int, count: int) -> None:
    """Produce `<topic> <number>` to the partitions in turn."""
    partitions = broker.topics[topic].partitions
    for number in range(begin, begin + count):
        broker.topics[topic].produce(f"{topic} {number}", partition=number % partitions)


def broker_rows(broker: kqueue.Broker, *topics: str) -> list[tuple[str, int, int, str]]:
    """Return the broker's records in the form of `Stock.table`."""
    records = [record for topic in topics for record in broker.topics[topic].records()]
    return sorted((one.topic, one.partition, one.offset, (one.value or b"").decode()) for one in records)


def until_read(stock: Stock, query: StreamingQuery, name: str, *topics: str) -> None:
    """Wait until the query has written all records of the topics."""

    def is_done() -> bool:
        query.processAllAvailable()  # raises what ended the query
        return len(stock.table(name)) >= sum(sum(stock.broker.topics[topic].end_offsets.values()) for topic in topics)

    eventually(is_done, f"{topics} in {name}", TIMEOUT_S)


def test_micro_batches_read_each_record_once(stock: Stock) -> None:
    stock.broker.create_topic("orders", 3)
    add(stock.broker, "orders", 0, 30)
    query = stock.to_table(stock.stream(EARLIEST), "found").start()
    until_read(stock, query, "found", "orders")
    for begin in range(30, 150, 40):
        add(stock.broker, "orders", begin, 40)
        query.processAllAvailable()
    assert stock.table("found") == broker_rows(stock.broker, "orders")
    assert query.lastProgress is not None
    assert len(rows_by_batch(query)) >= 4


def test_stream_starts_at_latest_by_default(stock: Stock) -> None:
    stock.broker.create_topic("orders", 2)
    add(stock.broker, "orders", 0, 10)
    query = stock.to_table(stock.stream({"subscribe": "orders"}), "found").start()
    query.processAllAvailable()
    add(stock.broker, "orders", 10, 4)
    query.processAllAvailable()
    assert [value for *_, value in stock.table("found")] == ["orders 10", "orders 12", "orders 11", "orders 13"]


def test_available_now_respects_limit_and_ends(stock: Stock) -> None:
    stock.broker.create_topic("orders", 2)
    add(stock.broker, "orders", 0, 50)
    query = stock.drain(stock.stream({**EARLIEST, "maxOffsetsPerTrigger": 12}), "found")
    assert stock.table("found") == broker_rows(stock.broker, "orders")
    assert rows_by_batch(query) == [12, 12, 12, 12, 2]


def test_query_resumes_from_checkpoint(stock: Stock) -> None:
    stock.broker.create_topic("orders", 2)
    for begin in (0, 20, 40):
        add(stock.broker, "orders", begin, 20)
        query = stock.drain(stock.stream(EARLIEST), "found")
        assert rows_by_batch(query) == [20]
    assert stock.table("found") == broker_rows(stock.broker, "orders")


@pytest.mark.parametrize("limit", [{"minPartitions": 5}, {"maxRecordsPerPartition": 4}])
def test_partitions_are_split(stock: Stock, limit: dict[str, int]) -> None:
    stock.broker.create_topic("orders", 2)
    add(stock.broker, "orders", 0, 20)
    stock.drain(stock.stream({**EARLIEST, **limit}), "found")
    assert stock.table("found") == broker_rows(stock.broker, "orders")


def test_query_reconnects_after_broker_restart(stock: Stock) -> None:
    stock.broker.create_topic("orders", 2)
    add(stock.broker, "orders", 0, 20)
    query = stock.to_table(stock.stream({**EARLIEST, "maxOffsetsPerTrigger": 10}), "found").start()
    until_read(stock, query, "found", "orders")
    for begin in (20, 40):
        stock.broker.restart()
        add(stock.broker, "orders", begin, 20)
        until_read(stock, query, "found", "orders")
    assert stock.table("found") == broker_rows(stock.broker, "orders")


def test_disk_broker_restart_between_two_runs(stock: Stock, tmp_path: Path) -> None:
    with kqueue.Broker(tmp_path / "data") as broker:
        own = Stock(stock.spark, broker, tmp_path)
        broker.create_topic("orders", 2)
        add(broker, "orders", 0, 20)
        own.drain(own.stream(EARLIEST), "found")
        broker.restart()
        add(broker, "orders", 20, 20)
        own.drain(own.stream(EARLIEST), "found")
        assert own.table("found") == broker_rows(broker, "orders")


def test_network_faults_cause_no_loss_or_duplicates(stock: Stock) -> None:
    """Broken connections, lost replies and failing fetches are retried."""
    stock.broker.create_topic("orders", 2)
    add(stock.broker, "orders", 0, 60)
    with faults(stock.broker, seed=7) as fault:
        fault.disconnect("Fetch", times=3)
        fault.drop_reply("ListOffsets", times=1)
        fault.fail("Metadata", times=2)
        fault.fail("Fetch", times=2)
        query = stock.to_table(
            stock.stream({**EARLIEST, "maxOffsetsPerTrigger": 20, "kafka.request.timeout.ms": 3000}), "found"
        ).start()
        until_read(stock, query, "found", "orders")
        query.stop()
        assert fault.fired
    assert stock.table("found") == broker_rows(stock.broker, "orders")


def test_topics_and_partitions_created_later(stock: Stock) -> None:
    stock.broker.create_topic("orders-eu")
    add(stock.broker, "orders-eu", 0, 5)
    options = {"subscribePattern": "orders-.*", "startingOffsets": "earliest", "kafka.metadata.max.age.ms": 200}
    query = stock.to_table(stock.stream(options), "found").start()
    until_read(stock, query, "found", "orders-eu")
    stock.broker.create_topic("orders-us", 2)
    add(stock.broker, "orders-us", 0, 6)
    until_read(stock, query, "found", "orders-eu", "orders-us")
    add_partitions(stock, "orders-eu", 3)
    add(stock.broker, "orders-eu", 5, 9)
    until_read(stock, query, "found", "orders-eu", "orders-us")
    assert stock.table("found") == broker_rows(stock.broker, "orders-eu", "orders-us")


def add_partitions(stock: Stock, topic: str, partitions: int) -> None:
    """Add partitions with the Java admin client of the connector."""
    jvm = stock.spark._jvm
    assert jvm is not None
    admin = jvm.org.apache.kafka.clients.admin
    settings = jvm.java.util.Properties()
    settings.put("bootstrap.servers", stock.broker.bootstrap)
    client = admin.AdminClient.create(settings)
    try:
        wanted = jvm.java.util.HashMap()
        wanted.put(topic, admin.NewPartitions.increaseTo(partitions))
        client.createPartitions(wanted).all().get()
    finally:
        client.close()


@pytest.mark.parametrize("matters", [True, False])
def test_records_deleted_between_runs(stock: Stock, matters: bool) -> None:
    """A query whose next records were deleted fails, or continues with the remaining ones."""
    stock.broker.create_topic("orders", segment_bytes=1024, retention_bytes=2048)
    add(stock.broker, "orders", 0, 20)
    stream = stock.stream({**EARLIEST, "failOnDataLoss": str(matters).lower()})
    stock.drain(stream, "found")
    before = stock.table("found")
    add(stock.broker, "orders", 20, 100)
    stock.broker.clock.advance(minutes=10)
    left = broker_rows(stock.broker, "orders")
    assert left[0][2] > 20
    if matters:
        with pytest.raises(StreamingQueryException, match="data may have been lost"):
            stock.drain(stream, "found")
        assert stock.table("found") == before
    else:
        stock.drain(stream, "found")
        assert stock.table("found") == before + left


def test_recreated_topic(stock: Stock) -> None:
    """The new offsets are below those of the checkpoint: a data loss that the query may allow."""
    stock.broker.create_topic("orders")
    add(stock.broker, "orders", 0, 20)
    stock.drain(stock.stream(EARLIEST), "found")
    stock.broker.topics["orders"].delete()
    stock.broker.create_topic("orders")
    add(stock.broker, "orders", 100, 5)
    with pytest.raises(StreamingQueryException):
        stock.drain(stock.stream(EARLIEST), "found")
    stock.drain(stock.stream({**EARLIEST, "failOnDataLoss": "false"}), "found")
    add(stock.broker, "orders", 105, 5)
    stock.drain(stock.stream({**EARLIEST, "failOnDataLoss": "false"}), "found")
    assert {f"orders {number}" for number in range(105, 110)} <= {value for *_, value in stock.table("found")}


def test_starting_offsets_apply_to_first_run_only(stock: Stock) -> None:
    stock.broker.create_topic("orders", 2)
    add(stock.broker, "orders", 0, 20)
    stream = stock.stream({"subscribe": "orders", "startingOffsets": offsets_json({"orders": {0: 4, 1: -2}})})
    stock.drain(stream, "found")
    stock.drain(stream, "found")
    assert stock.table("found") == broker_rows(stock.broker, "orders")[4:]


def test_continuous_mode(stock: Stock) -> None:
    """The continuous mode: long-running tasks and periodic offset commits."""
    stock.broker.create_topic("orders", 2)
    stock.broker.create_topic("copied", 2)
    add(stock.broker, "orders", 0, 10)
    query = (
        stock.to_topic(stock.stream(EARLIEST).select("key", "value"), {"topic": "copied"})
        .trigger(continuous="1 second")
        .start()
    )
    try:
        eventually_equal(lambda: len(stock.broker.topics["copied"].records()), 10, "records of the copy", TIMEOUT_S)
        add(stock.broker, "orders", 10, 10)
        eventually_equal(lambda: len(stock.broker.topics["copied"].records()), 20, "records of the copy", TIMEOUT_S)
    finally:
        query.stop()


def test_read_committed_skips_aborted_records(stock: Stock, tmp_path: Path) -> None:
    """On Kafka's own segments, aborted records and control batches are skipped with any limit."""
    with kqueue.Broker(snapshot=golden.data_folder("4.3"), log_retention_ms=-1) as broker:
        own = Stock(stock.spark, broker, tmp_path)
        options = {"subscribe": "txn", "startingOffsets": "earliest", "kafka.isolation.level": "read_committed"}
        own.drain(own.stream({**options, "maxOffsetsPerTrigger": 50}), "found")
        committed = golden.expected("4.3")["txn:committed"].records
        expected = sorted(
            (one.partition, one.offset, None if one.value is None else one.value.decode()) for one in committed
        )
        assert [row[1:] for row in own.table("found")] == expected
        own.drain(own.stream(options), "found")
        assert len(own.table("found")) == len(expected)
