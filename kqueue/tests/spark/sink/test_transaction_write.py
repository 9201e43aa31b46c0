"""The records that a task leaves in its topics; `test_transaction_commit.py` has whole batches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kqueue
from kqueue.client import EARLIEST, Client, TopicPartition
from kqueue.records.batch import iter_batches
from kqueue.spark.errors import RowRefused, StagingLost, TransactionLost
from kqueue.spark.sink.journal import Journal, JournalState
from kqueue.spark.sink.options import SinkOptions
from kqueue.spark.sink.transaction_ids import drop_free_ids
from kqueue.spark.sink.transaction_write import GUARD_HEADER, GUARD_KEY, TaskTransaction, TransactionWriter, cover
from kqueue.tests.spark.sink.helpers import committed_in, options_for, records_in, rows_of

PLACES = [TopicPartition("out", index) for index in range(3)]


@pytest.fixture
def options(broker: kqueue.Broker) -> Iterator[SinkOptions]:
    drop_free_ids()
    yield options_for(broker, topic="out", delivery="transactional")
    drop_free_ids()


def write(client: Client, options: SinkOptions, values: list[str], task_batch: int = 0) -> TaskTransaction | None:
    journal = Journal(client, "q")
    journal.open(1)
    with TransactionWriter(journal, task_batch, 60_000) as writer:
        writer.write(options, [rows_of(values)] if values else [])
    return writer.transaction


def test_the_guard_is_first_in_each_partition_and_there_once(broker: kqueue.Broker, options: SinkOptions) -> None:
    with Client(options.client) as client:
        tasks = [write(client, options, [f"{task} {number}" for number in range(50)]) for task in range(3)]
        guards = {task.guard for task in tasks if task is not None}
        assert len({task.producer.transactional_id for task in tasks if task is not None}) == 3
        assert len(guards) == 1
    for records in records_in(broker, "out").values():
        assert [record.key for record in records].index(GUARD_KEY) == 0
        assert [record.headers for record in records if record.key == GUARD_KEY] == [((GUARD_HEADER, None),)]
        assert records[0].value is None
    assert sum(map(len, records_in(broker, "out").values())) == 150 + 3
    assert committed_in(broker, "out") == []


def test_every_batch_is_of_a_transaction(options: SinkOptions) -> None:
    with Client(options.client) as client:
        write(client, options, ["x", "y", "z"])
        for place in PLACES:
            fetched = client.fetch({place: client.offsets({place: EARLIEST})[place].offset or 0})[place]
            assert all(header.is_transactional for _, header in iter_batches(fetched.records))


def test_a_task_without_rows_begins_nothing(options: SinkOptions) -> None:
    with Client(options.client) as client:
        assert write(client, options, []) is None
        assert not any(client.transactions.find().values())


def test_a_guard_covers_a_compacted_topic(broker: kqueue.Broker, options: SinkOptions) -> None:
    broker.create_topic("kept", 1, cleanup_policy="compact")
    with Client(options.client) as client:
        guard = client.transactions.init("g", 60_000)
        for _ in range(2):
            cover(client, guard, [TopicPartition("kept", 0)])
    assert len(records_in(broker, "kept")[0]) == 1


def test_a_batch_that_another_attempt_decided_is_not_written(options: SinkOptions) -> None:
    with Client(options.client) as client:
        journal = Journal(client, "q")
        journal.open(1)
        with TransactionWriter(journal, 0, 60_000) as writer:
            producer = client.init_producer()
            head = {"version": 1, "kind": "decided", "batch": 0, "writer": "w"}
            journal.append({**head, "producer": list(producer), "parts": []})
            with pytest.raises(StagingLost, match="batch 0 was written by another attempt"):
                writer.write(options, [rows_of(["x"])])


def test_a_task_that_fails_aborts_its_transaction(broker: kqueue.Broker, options: SinkOptions) -> None:
    with Client(options.client) as client:
        write(client, options, ["x"])
        (task,) = [one for one in client.transactions.find(["Ongoing"])[1] if one.producer_id != guard_id(client)]
        journal = Journal(client, "q")
        with pytest.raises(RowRefused), TransactionWriter(journal, 0, 60_000) as writer:
            writer.write(options, [rows_of(["y" * 100] * 170_000), rows_of(["z" * 2_000_000])])
        assert writer.transaction is not None
        left = {one.transactional_id for one in client.transactions.find(["Ongoing"])[1]}
        assert task.transactional_id in left
        assert writer.transaction.producer.transactional_id not in left


def guard_id(client: Client) -> int:
    guard = Journal(client, "q").read().guard
    assert guard is not None
    assert guard.producer is not None
    return guard.producer.id


def test_guards_that_end_at_once_are_not_tried_forever(options: SinkOptions) -> None:
    with Client(options.client) as client, Client(options.client) as other:
        journal = Journal(client, "q")
        journal.open(1)

        class Fenced(Journal):
            """Ends each guard that it finds."""

            def read(self) -> JournalState:
                state = super().read()
                if state.guard is not None and state.guard.producer is not None:
                    other.transactions.fence(state.guard.producer.transactional_id)
                return state

        with (
            pytest.raises(TransactionLost, match="was ended before the task"),
            TransactionWriter(Fenced(client, "q"), 0, 60_000) as writer,
        ):
            writer.write(options, [rows_of(["x"])])


def test_transaction_fenced_while_its_task_writes_is_reported_as_lost(
    broker: kqueue.Broker, options: SinkOptions
) -> None:
    with Client(options.client) as client, Client(options.client) as other:
        journal = Journal(client, "q")
        journal.open(1)
        with TransactionWriter(journal, 0, 60_000) as writer:
            writer.write(options, [rows_of(["x"])])
            assert writer.transaction is not None
            other.transactions.fence(writer.transaction.producer.transactional_id)
            with pytest.raises(TransactionLost, match=r"timeout\.ms=60000.*brokers' transaction\.max\.timeout\.ms"):
                writer.write(options, [rows_of([f"{number}" for number in range(50)])])
    assert committed_in(broker, "out") == []
