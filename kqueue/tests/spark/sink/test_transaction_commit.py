"""Transactional writes without Spark: kills at any step, concurrent drivers, timeouts. At every
moment readers of committed records see all of a batch or nothing of it.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

import kqueue
from kqueue.client import Client, NewTopic, TopicPartition, TransactionalProducer
from kqueue.spark.errors import OptionError, TransactionLost
from kqueue.spark.sink.batch_commit import _decide, commit
from kqueue.spark.sink.journal import DecidedBatch, Journal, decided_entry
from kqueue.spark.sink.options import SinkOptions, parse_options
from kqueue.spark.sink.producer_pipeline import drop_idle_producers
from kqueue.spark.sink.staging_cleanup import forget as forget_query
from kqueue.spark.sink.transaction_commit import abandon
from kqueue.spark.sink.transaction_ids import check_transactions, drop_free_ids
from kqueue.spark.sink.transaction_write import TaskTransaction
from kqueue.spark.sink.write_task import BatchIdentity, stage_rows
from kqueue.tests.served_cluster import bootstrap, served_cluster
from kqueue.tests.spark.sink.exactly_once import QUERY, ROWS, Killed, after_calls, die, run_batch, watched
from kqueue.tests.spark.sink.helpers import committed_in, options_for, records_in, rows_of
from kqueue.tests.spark.sink.test_batch_commit import held_up, moments_of_a_batch
from kqueue.tests.thorough import corners

TWO_TASKS = [ROWS[:60], ROWS[60:]]
ENCODED = [row.encode() for row in ROWS]


@pytest.fixture
def options(broker: kqueue.Broker) -> Iterator[SinkOptions]:
    drop_free_ids()
    yield options_for(
        broker,
        topic="out",
        delivery="transactional",
        stagingPartitions=1,
        kafka_batch_size=400,
        kafka_transaction_timeout_ms=900_000,  # a busy machine may take long between two steps of a batch
    )
    drop_free_ids()


def forget() -> None:
    """Drop the state that a new process does not have."""
    drop_idle_producers()
    drop_free_ids()


def open_ids(options: SinkOptions) -> list[str]:
    with Client(options.client) as client:
        return [
            one.transactional_id
            for transactions in client.transactions.find(["Ongoing"]).values()
            for one in transactions
        ]


def written(options: SinkOptions, batch_id: int = 0) -> list[TaskTransaction]:
    """The open transactions of two tasks."""
    outcomes = [
        stage_rows(options, BatchIdentity(QUERY, batch_id, task), [rows_of(values)])
        for task, values in enumerate(TWO_TASKS)
    ]
    return [one.transaction for one in outcomes if one.transaction is not None]


def decide(client: Client, transactions: list[TaskTransaction], batch_id: int = 0) -> None:
    """Decide a batch, as a driver that dies then."""
    producers = tuple(one.producer for one in transactions)
    decided = DecidedBatch(batch_id, "gone", client.init_producer(), (), producers, transactions[0].guard)
    Journal(client, QUERY).append(decided_entry(decided))


def test_readers_see_all_of_a_batch_or_nothing_at_every_step(broker: kqueue.Broker, options: SinkOptions) -> None:
    seen: set[int] = set()
    for batch_id in range(2):
        run_batch(
            options, batch_id, TWO_TASKS, watched(lambda name, before: seen.add(len(committed_in(broker, "out"))))
        )
    assert committed_in(broker, "out") == sorted(ROWS + ROWS)
    assert seen == {0, len(ROWS), 2 * len(ROWS)}
    assert open_ids(options) == []


@pytest.mark.parametrize("stride", corners([1, 13], 13))
def test_retry_with_other_tasks_after_a_kill_at_any_step_writes_each_row_once(
    broker: kqueue.Broker, options: SinkOptions, stride: int
) -> None:
    """Before and after each call to a broker; the second try has other tasks, in another order."""
    expected: list[str] = []
    for step in itertools.count(step=stride):
        mine = [f"{step:03} {row}" for row in ROWS]
        killed = False
        try:
            run_batch(options, step, [mine[:60], mine[60:]], watched(after_calls(step, die)))
        except Killed:
            killed = True
            assert committed_in(broker, "out") in (expected, sorted(expected + mine))
            forget()
            run_batch(options, step, [mine[::-2], [], mine[-2::-2]])
        expected = sorted(expected + mine)
        assert committed_in(broker, "out") == expected
        assert open_ids(options) == []
        if not killed:
            break
    assert step > 80


def test_repeatedly_killed_batch_is_written_once(broker: kqueue.Broker, options: SinkOptions) -> None:
    """Nobody gets further than a few steps before the next kill, until one does."""
    for batch_id, stride in enumerate((11, 16)):
        mine = [f"{batch_id}: {row}" for row in ROWS]
        tries = 0
        for limit in itertools.count(stride, stride):
            tries += 1
            forget()
            try:
                run_batch(options, batch_id, [mine[tries % 7 :], mine[: tries % 7]], watched(after_calls(limit, die)))
            except Killed:
                assert len(committed_in(broker, "out")) % len(ROWS) == 0
                continue
            break
        assert tries > 2
    assert committed_in(broker, "out") == sorted(f"{batch_id}: {row}" for batch_id in range(2) for row in ROWS)


@pytest.mark.parametrize("cut", corners([*range(0, 90, 9), *range(-26, 0, 2)], 0, 45, -26, -8))
def test_driver_that_resumes_after_its_replacement_duplicates_nothing(
    broker: kqueue.Broker, options: SinkOptions, cut: int
) -> None:
    """It stops at some percent of its way, or shortly before its end; another does the batch and
    the next one meanwhile.
    """
    moments = moments_of_a_batch(options)
    with held_up(options, TWO_TASKS, moments * cut // 100 if cut >= 0 else moments + cut):
        run_batch(options, 1, [ROWS[::2], ROWS[1::2]])
        run_batch(options, 2, [["last"]])
        assert committed_in(broker, "out") == sorted([*ROWS, *ROWS, "last"])
    run_batch(options, 3, [["after"]])
    assert committed_in(broker, "out") == sorted([*ROWS, *ROWS, "last", "after"])


@pytest.mark.parametrize("before_end", corners(range(4, 40, 3), 4, 25))
def test_driver_that_resumes_after_its_replacement_leaves_later_batches_alone(
    broker: kqueue.Broker, options: SinkOptions, before_end: int
) -> None:
    moments = moments_of_a_batch(options)
    with held_up(options, TWO_TASKS, moments - before_end):
        run_batch(options, 1, TWO_TASKS)
        transactions = written(options, 2)
    with Client(options.client) as client:
        commit(client, QUERY, 2, [], transactions)
    assert committed_in(broker, "out") == sorted(ROWS * 3)


def test_a_speculative_attempt_is_aborted_and_its_twin_committed(broker: kqueue.Broker, options: SinkOptions) -> None:
    transactions = written(options)
    written(options)  # the same tasks again, whose report is not used
    assert len(open_ids(options)) == 5
    with Client(options.client) as client:
        commit(client, QUERY, 0, [], transactions)
    assert committed_in(broker, "out") == sorted(ROWS)
    assert open_ids(options) == []


def test_ids_are_used_again_once_their_batch_is_done(broker: kqueue.Broker, options: SinkOptions) -> None:
    for batch_id in range(5):
        run_batch(options, batch_id, TWO_TASKS)
    with Client(options.client) as client:
        assert len([one for transactions in client.transactions.find().values() for one in transactions]) == 3
    written(options, 5)
    drafts = open_ids(options)
    written(options, 5)  # another attempt takes others
    assert set(drafts) < set(open_ids(options))
    assert len(open_ids(options)) == len(drafts) + 2


def test_a_failed_batch_is_abandoned_and_readers_do_not_wait(broker: kqueue.Broker, options: SinkOptions) -> None:
    transactions = written(options)
    with Client(options.client) as client:
        abandon(client, QUERY, 0)
        assert open_ids(options) == []
        with pytest.raises(TransactionLost, match="ended before all tasks did, so none is committed"):
            commit(client, QUERY, 0, [], transactions)
        decide(client, transactions)
        assert Journal(client, QUERY).read().decided is None
    run_batch(options, 0, TWO_TASKS)
    with Client(options.client) as client:
        abandon(client, QUERY, 0)
    assert committed_in(broker, "out") == sorted(ROWS)


def lose(client: Client, producer: TransactionalProducer) -> None:
    """Abort the transaction as the coordinator does after the timeout."""
    client.transactions.end(producer, committed=False)


def test_transaction_that_timed_out_before_the_decision_fails_the_commit(
    broker: kqueue.Broker, options: SinkOptions
) -> None:
    transactions = written(options)
    with Client(options.client) as client:
        lose(client, transactions[1].producer)
        with pytest.raises(TransactionLost, match=r"1 of 2 transactions .*transaction\.max\.timeout\.ms"):
            commit(client, QUERY, 0, [], transactions)
    forget()
    run_batch(options, 0, TWO_TASKS)
    assert committed_in(broker, "out") == sorted(ROWS)


def test_decided_batch_without_committed_rows_is_written_again(broker: kqueue.Broker, options: SinkOptions) -> None:
    transactions = written(options)
    with Client(options.client) as client:
        decide(client, transactions)
        lose(client, transactions[0].producer)
        with pytest.raises(TransactionLost, match="so none is committed; start the query again"):
            commit(client, QUERY, 0, None)
    assert open_ids(options) == []
    forget()
    run_batch(options, 0, TWO_TASKS)
    assert committed_in(broker, "out") == sorted(ROWS)


def test_decided_batch_with_lost_rows_is_reported(broker: kqueue.Broker, options: SinkOptions) -> None:
    transactions = written(options)
    with Client(options.client) as client:
        decide(client, transactions)
        lose(client, transactions[1].producer)
        for _ in range(2):
            with pytest.raises(TransactionLost, match=r"transaction 2 of 2 is lost, and 1 of them are committed"):
                commit(client, QUERY, 0, None)


def test_a_guard_that_took_too_long_is_replaced(broker: kqueue.Broker, options: SinkOptions) -> None:
    with contextlib.suppress(Killed):
        run_batch(options, 0, TWO_TASKS, watched(after_calls(60, die)))
    with Client(options.client) as client:
        guard = Journal(client, QUERY).read().guard
        assert guard is not None
        assert guard.producer is not None
        client.transactions.fence(guard.producer.transactional_id)
    forget()
    run_batch(options, 0, TWO_TASKS)
    assert committed_in(broker, "out") == sorted(ROWS)


def test_transaction_timeout_above_the_brokers_maximum_is_refused(broker: kqueue.Broker) -> None:
    options = options_for(broker, topic="out", delivery="transactional", kafka_transaction_timeout_ms=900_001)
    with pytest.raises(OptionError, match=r"timeout\.ms=900001 is longer than the brokers' transaction\.max\.timeout"):
        run_batch(options, 0, [["x"]])
    with (
        Client(options.client) as client,
        pytest.raises(OptionError, match=r"900001 .* transaction\.max\.timeout\.ms \(900000\)"),
    ):
        check_transactions(client, 900_001)


def test_brokers_that_can_not_list_transactions_are_named_before_rows_are_written() -> None:
    with kqueue.Broker(as_version="2.8") as broker:
        broker.create_topic("out")
        options = options_for(broker, topic="out", delivery="transactional")
        needs = "needs Kafka 3.0 or later.*delivery=exactly-once writes to every Kafka"
        with Client(options.client) as client, pytest.raises(OptionError, match=needs):
            check_transactions(client, 900_000)


@pytest.mark.parametrize("delivery", ["exactly-once", "transactional"])
def test_uncommitted_readers_see_failed_attempts_in_transactions_only(broker: kqueue.Broker, delivery: str) -> None:
    """The reason to keep both: it is the isolation level of most consumers if they are not told."""
    drop_free_ids()
    options = options_for(broker, topic="out", delivery=delivery, stagingPartitions=1)
    transactions = written(options)
    forget()
    run_batch(options, 0, TWO_TASKS)
    values = [one.value for part in records_in(broker, "out").values() for one in part if one.value in ENCODED]
    times = 2 if delivery == "transactional" else 1
    assert sorted(values) == sorted(ENCODED * times)
    assert committed_in(broker, "out") == sorted(ROWS)
    assert bool(transactions) == (delivery == "transactional")


@pytest.mark.parametrize("at", corners(["transactions.end", "transactions.find"]))
def test_batch_is_committed_although_a_broker_of_the_cluster_stops(tmp_path: Path, at: str) -> None:
    settings = {"transaction.state.log.replication.factor": 3, "transaction.state.log.min.isr": 1}
    with served_cluster(tmp_path, 3, {**settings, "default.replication.factor": 3}) as brokers:
        servers = bootstrap(brokers)
        with Client(servers) as client:
            client.create_topics([NewTopic("out", 3, 3)])
        options = parse_options(
            {"kafka.bootstrap.servers": servers, "topic": "out", "delivery": "transactional", "stagingPartitions": "1"},
            streaming=True,
        )
        run_batch(options, 0, TWO_TASKS)
        running = set(brokers)

        def watch(name: str, before: bool) -> None:
            if name == at and brokers[2] in running:
                running.remove(brokers[2])
                brokers[2].stop()

        run_batch(options, 1, TWO_TASKS, watched(watch))
        assert brokers[2] not in running
        assert committed_in(brokers[0], "out") == sorted(ROWS + ROWS)
        with Client(brokers[0].bootstrap) as client:
            assert not any(client.transactions.find(["Ongoing"]).values())
    drop_free_ids()


def test_a_query_that_is_swept_leaves_no_transaction_open(broker: kqueue.Broker, options: SinkOptions) -> None:
    decided = written(options)
    with Client(options.client) as client:
        decide(client, decided)
        forget_query(client, QUERY)
        assert committed_in(broker, "out") == sorted(ROWS)
        written(options)
        forget_query(client, QUERY, finish=False)
        assert client.metadata(["out"]).topics.keys() == {"out"}
    assert open_ids(options) == []
    assert committed_in(broker, "out") == sorted(ROWS)


def test_staged_and_transactional_batches_follow_each_other(broker: kqueue.Broker, options: SinkOptions) -> None:
    staged = options_for(broker, topic="out", delivery="exactly-once", stagingPartitions=1)
    for batch_id, given in enumerate([staged, options, staged, options]):
        run_batch(given, batch_id, [[f"{batch_id}"]])
    assert committed_in(broker, "out") == ["0", "1", "2", "3"]


def test_an_attempt_that_was_killed_holds_no_reader_up_if_the_other_delivery_goes_on(
    broker: kqueue.Broker, options: SinkOptions
) -> None:
    """Its transactions stayed open until their timeout, so readers waited for it."""
    assert len(written(options)) == 2
    forget()
    staged = options_for(broker, topic="out", delivery="exactly-once", stagingPartitions=1)
    run_batch(staged, 0, TWO_TASKS)
    assert open_ids(options) == []
    assert committed_in(broker, "out") == sorted(ROWS)


def test_an_attempt_that_follows_the_other_delivery_leaves_nothing_open(
    broker: kqueue.Broker, options: SinkOptions
) -> None:
    """The other driver has decided, and was killed."""
    staged = options_for(broker, topic="out", delivery="exactly-once", stagingPartitions=1)
    outcome = stage_rows(staged, BatchIdentity(QUERY, 0, 0), [rows_of(ROWS)])
    transactions = written(options)
    with Client(options.client) as client:
        state = Journal(client, QUERY).read()
        Journal(client, QUERY).append(decided_entry(_decide(client, state, 0, "gone", outcome.staged or (), ())))
        commit(client, QUERY, 0, [], transactions)
    assert open_ids(options) == []
    assert committed_in(broker, "out") == sorted(ROWS)


def test_an_attempt_that_comes_late_leaves_nothing_open(broker: kqueue.Broker, options: SinkOptions) -> None:
    """Another driver did the batch when one of its tasks had begun no transaction yet."""
    transactions = written(options)
    run_batch(options, 0, TWO_TASKS)
    out = [TopicPartition("out", 0)]
    with Client(options.client) as client:
        late = client.transactions.init(f"_kqueue-sink-{QUERY}-{'0' * 32}", 60_000)
        client.transactions.add_partitions(late, out)
        commit(client, QUERY, 0, [], [*transactions, TaskTransaction(late, transactions[0].guard)])
    assert open_ids(options) == []
    assert committed_in(broker, "out") == sorted(ROWS)


def test_a_batch_without_rows_begins_nothing(broker: kqueue.Broker, options: SinkOptions) -> None:
    run_batch(options, 0, [[], []])
    with Client(options.client) as client:
        assert Journal(client, QUERY).read().done == -1
        assert not any(client.transactions.find().values())
