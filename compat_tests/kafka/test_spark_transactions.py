"""Transactional writes of the Spark sink to Apache Kafka, without Spark: kills, retried tasks, and
a stock consumer that never sees part of a batch.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer

from compat_tests.kafka import clients
from compat_tests.kafka.node import Kafka
from kqueue.client import Client
from kqueue.spark.errors import OptionError, TransactionLost
from kqueue.spark.sink.batch_commit import commit
from kqueue.spark.sink.options import SinkOptions, parse_options
from kqueue.spark.sink.transaction_ids import check_transactions, drop_free_ids
from kqueue.spark.sink.write_task import BatchIdentity, stage_rows
from kqueue.tests.spark.sink.exactly_once import QUERY, ROWS, Killed, after_calls, die, run_batch, watched
from kqueue.tests.spark.sink.helpers import rows_of

PARTITIONS = 3


@pytest.fixture
def options(kafka: Kafka) -> Iterator[SinkOptions]:
    with kafka:
        clients.create_topic(kafka.bootstrap, "out", PARTITIONS)
        yield options_for(kafka.bootstrap)


def options_for(bootstrap: str, **more: str) -> SinkOptions:
    drop_free_ids()
    given = {"kafka.bootstrap.servers": bootstrap, "topic": "out", "delivery": "transactional"}
    return parse_options(given | {"stagingPartitions": "1", "kafka.batch.size": "400", **more}, streaming=True)


class CommittedReader(threading.Thread):
    """A stock consumer; `values`: what it has seen."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.values: list[str] = []
        self._consumer = KafkaConsumer(
            "out", bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.is_set():
            self.poll(100)

    def poll(self, timeout_ms: int) -> None:
        for records in self._consumer.poll(timeout_ms=timeout_ms).values():
            self.values += [record.value.decode() for record in records]

    def end(self) -> list[str]:
        self._ended.set()
        self.join(30)
        self.poll(2_000)
        self._consumer.close()
        return sorted(self.values)


def test_kills_and_batches_that_readers_see_as_a_whole(options: SinkOptions) -> None:
    reader = CommittedReader(options["kafka.bootstrap.servers"])
    reader.start()
    expected: list[str] = []
    for batch_id, step in enumerate([*range(20, 150, 7), 10_000]):
        mine = [f"{batch_id:03} {row}" for row in ROWS]
        try:
            run_batch(options, batch_id, [mine[:60], mine[60:]], watched(after_calls(step, die)))
        except Killed:
            if batch_id % 2:
                drop_free_ids()
            run_batch(options, batch_id, [mine[::-2], [], mine[-2::-2]])
        expected += mine
    assert reader.end() == expected
    with Client(options.client) as client:
        assert not any(client.transactions.find(["Ongoing"]).values())


def test_nothing_is_seen_before_the_last_commit(options: SinkOptions) -> None:
    """The end that readers of committed records see in each partition, at every call.

    Kafka writes the markers of one transaction to the partitions one after the other.
    """
    seen: dict[int, set[int]] = {index: set() for index in range(PARTITIONS)}

    def look(name: str, before: bool) -> None:
        with Client(options.client) as client:
            partitions = client.metadata(["out"]).topics["out"].topic_partitions
            ends = client.offsets(dict.fromkeys(partitions, -1), isolation="read_committed")
            for topic_partition, end in ends.items():
                seen[topic_partition.partition].add(end.offset or 0)

    run_batch(options, 0, [ROWS[:60], ROWS[60:]], watched(look))
    assert all(len(ends) == 2 and min(ends) == 0 for ends in seen.values()), seen
    # a guard, and markers of the guard and both tasks, in each partition
    assert sum(max(ends) for ends in seen.values()) == len(ROWS) + 4 * PARTITIONS


def test_a_timeout_of_the_coordinator(kafka: Kafka) -> None:
    with kafka:
        clients.create_topic(kafka.bootstrap, "out", PARTITIONS)
        short = options_for(kafka.bootstrap, **{"kafka.transaction.timeout.ms": "900001"})
        with pytest.raises(OptionError, match=r"transaction\.max\.timeout\.ms"):
            stage_rows(short, BatchIdentity(QUERY, 0, 0), [rows_of(["x"])])
        with Client(short.client) as client, pytest.raises(OptionError, match=r"timeout\.ms \(900000\)"):
            check_transactions(client, 900_001)
        options = options_for(kafka.bootstrap)
        outcome = stage_rows(options, BatchIdentity(QUERY, 0, 0), [rows_of(ROWS)])
        assert outcome.transaction is not None
        with Client(options.client) as client:
            client.transactions.fence(outcome.transaction.producer.transactional_id)
            with pytest.raises(TransactionLost, match="1 of 1 transactions ended before"):
                commit(client, QUERY, 0, [], [outcome.transaction])
        drop_free_ids()
        run_batch(options, 0, [ROWS])
        reader = CommittedReader(kafka.bootstrap)
        reader.start()
        assert reader.end() == sorted(ROWS)
