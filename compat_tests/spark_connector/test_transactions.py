"""read_committed returns exactly what transactions committed, at the offsets where they wrote it.

Markers and aborted records take offsets that no task finds a record at: they cause no wait, no
failure and no loss, wherever a range or a micro-batch begins and ends.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

from compat_tests.spark_connector.stock import Stock, offsets_json, rows_by_batch
from compat_tests.spark_connector.transactional import Row, Transactions
from kqueue.client import Client, TopicPartition

TOPIC = "orders"
COMMITTED = {"subscribe": TOPIC, "kafka.isolation.level": "read_committed"}
EARLIEST = {**COMMITTED, "startingOffsets": "earliest"}


@pytest.fixture
def transactions(stock: Stock) -> Iterator[Transactions]:
    stock.broker.create_topic(TOPIC, 2)
    producer = Transactions(stock, "writer")
    yield producer
    producer.close()


def write(transactions: Transactions, rounds: int) -> None:
    """Write a commit and an abort per round: each partition ends with the marker of an abort."""
    for number in range(rounds):
        transactions.begin(TOPIC, *(f"committed {number}.{part}" for part in range(4)))
        transactions.commit()
        transactions.begin(TOPIC, *(f"aborted {number}.{part}" for part in range(4)))
        transactions.abort()


def delete_records(stock: Stock, before: int) -> None:
    with Client(stock.broker.bootstrap) as client:
        client.delete_records({TopicPartition(TOPIC, partition): before for partition in (0, 1)})


def batch_rows(stock: Stock, options: dict[str, object]) -> list[Row]:
    return [(row[0], row[1], row[2], (row[5] or b"").decode()) for row in stock.seen(options)]


def test_batch_returns_committed_records(stock: Stock, transactions: Transactions) -> None:
    write(transactions, 5)
    assert batch_rows(stock, COMMITTED) == sorted(transactions.committed)
    assert batch_rows(stock, {"subscribe": TOPIC}) == sorted(transactions.written)


def test_batch_ends_before_open_transaction(stock: Stock, transactions: Transactions) -> None:
    write(transactions, 1)
    other = Transactions(stock, "other")
    transactions.begin(TOPIC, "open 0", "open 1")
    other.begin(TOPIC, "behind 0", "behind 1")
    other.commit()
    before = sorted(transactions.committed)
    assert batch_rows(stock, COMMITTED) == before
    transactions.commit()
    assert batch_rows(stock, COMMITTED) == sorted(transactions.committed + other.committed)
    other.close()


def test_batch_of_aborted_records_is_empty(stock: Stock, transactions: Transactions) -> None:
    transactions.begin(TOPIC, *(f"aborted {number}" for number in range(10)))
    transactions.abort()
    assert batch_rows(stock, COMMITTED) == []
    assert stock.broker.topics[TOPIC].end_offsets == {0: 6, 1: 6}


@pytest.mark.parametrize("limit", [{"minPartitions": 12}, {"maxRecordsPerPartition": 1}])
def test_tasks_without_a_record(stock: Stock, transactions: Transactions, limit: dict[str, object]) -> None:
    """Split so small, some tasks have nothing but markers or aborted records to read."""
    write(transactions, 2)
    assert stock.broker.topics[TOPIC].end_offsets == {0: 12, 1: 12}
    assert batch_rows(stock, {**COMMITTED, **limit}) == sorted(transactions.committed)


def test_ranges_at_markers(stock: Stock, transactions: Transactions) -> None:
    """Of each six offsets 0 and 1 are committed, 3 and 4 aborted, 2 and 5 markers."""
    write(transactions, 2)
    for start, end in ((2, 3), (2, 5), (0, 3), (5, 6), (1, 9), (3, 12), (11, 12)):
        limits = {
            "startingOffsets": offsets_json({TOPIC: {0: start, 1: start}}),
            "endingOffsets": offsets_json({TOPIC: {0: end, 1: end}}),
        }
        expected = [row for row in sorted(transactions.committed) if start <= row[2] < end]
        assert batch_rows(stock, {**COMMITTED, **limits}) == expected, (start, end)


def test_stream_follows_transactions(stock: Stock, transactions: Transactions) -> None:
    """A query that runs sees each transaction once it is committed, and nothing of an open one."""
    query = stock.to_table(stock.stream(EARLIEST), "found").start()
    for number in range(3):
        transactions.begin(TOPIC, f"committed {number}", f"committed {number} too")
        query.processAllAvailable()
        assert stock.table("found") == sorted(transactions.committed)
        transactions.commit()
        query.processAllAvailable()
        assert stock.table("found") == sorted(transactions.committed)
        transactions.begin(TOPIC, f"aborted {number}", f"aborted {number} too")
        transactions.abort()
        query.processAllAvailable()
        assert stock.table("found") == sorted(transactions.committed)
    query.stop()


def test_stream_waits_for_the_oldest_open_transaction(stock: Stock, transactions: Transactions) -> None:
    other = Transactions(stock, "other")
    query = stock.to_table(stock.stream(EARLIEST), "found").start()
    transactions.begin(TOPIC, "is committed", "is committed too")
    other.begin(TOPIC, "is aborted", "is aborted too")
    for number in range(2):
        stock.broker.topics[TOPIC].produce(f"plain {number}", partition=number)
    query.processAllAvailable()
    assert stock.table("found") == []
    other.abort()
    query.processAllAvailable()
    assert stock.table("found") == []
    transactions.commit()
    query.processAllAvailable()
    assert [row[1:] for row in stock.table("found")] == [
        (0, 0, "is committed"),
        (0, 2, "plain 0"),
        (1, 0, "is committed too"),
        (1, 2, "plain 1"),
    ]
    query.stop()
    other.close()


@pytest.mark.parametrize("limit", [2, 5])
def test_micro_batches_end_at_markers(stock: Stock, transactions: Transactions, limit: int) -> None:
    """Limited so low, some micro-batches have no record; a query that resumes reads none twice."""
    stream = stock.stream({**EARLIEST, "maxOffsetsPerTrigger": limit})
    for rounds in (2, 1):
        write(transactions, rounds)
        query = stock.drain(stream, "found")
        assert stock.table("found") == sorted(transactions.committed)
        assert sum(rows_by_batch(query)) == rounds * 4
    stock.drain(stream, "found")
    assert stock.table("found") == sorted(transactions.committed)


def test_broker_restart_between_two_runs(stock: Stock, transactions: Transactions) -> None:
    write(transactions, 2)
    stock.drain(stock.stream(EARLIEST), "found")
    transactions.begin(TOPIC, "over the restart", "over the restart too")
    stock.broker.restart()
    stock.drain(stock.stream(EARLIEST), "found")
    assert len(stock.table("found")) == 8
    transactions.commit()
    stock.drain(stock.stream(EARLIEST), "found")
    assert stock.table("found") == sorted(transactions.committed)


def test_fail_on_data_loss(stock: Stock, transactions: Transactions, tmp_path: Path) -> None:
    """The next records were deleted, up to a record, a marker, an aborted one, or the end.

    Each query goes on from a copy of the checkpoint of the one that read the others. Its table has
    no log of the earlier batches, so that its files are read.
    """

    def go_on(name: str, matters: bool) -> None:
        shutil.copytree(tmp_path / "checkpoint", tmp_path / f"{name}-checkpoint")
        stream = stock.stream({**EARLIEST, "failOnDataLoss": str(matters).lower()})
        stock.drain(stream, name, f"{name}-checkpoint")

    def rows(name: str) -> list[tuple[Any, ...]]:
        files = (tmp_path / name).glob("*.parquet")
        return sorted(tuple(row.values()) for file in files for row in pq.ParquetFile(file).read().to_pylist())

    write(transactions, 2)
    stock.drain(stock.stream(EARLIEST), "found")
    write(transactions, 1)
    assert stock.broker.topics[TOPIC].end_offsets == {0: 18, 1: 18}
    for before in (13, 14, 17, 18):
        delete_records(stock, before)
        with pytest.raises(StreamingQueryException, match="data may have been lost"):
            go_on(f"fails-{before}", True)
        assert rows(f"fails-{before}") == []
        go_on(f"skips-{before}", False)
        left = [row for row in sorted(transactions.committed) if row[2] >= before]
        assert rows(f"skips-{before}") == left


def test_deleted_aborted_records_are_no_loss(stock: Stock, transactions: Transactions) -> None:
    """The checkpoint is at the new start of the log: nothing that was to be read is gone."""
    write(transactions, 2)
    stream = stock.stream(EARLIEST)
    stock.drain(stream, "found")
    delete_records(stock, 12)
    write(transactions, 1)
    stock.drain(stream, "found")
    assert stock.table("found") == sorted(transactions.committed)
