from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

import kqueue
from kqueue.client import Client, ProducerIdAndEpoch
from kqueue.client.errors import BrokerRefused
from kqueue.records.batch import iter_batches
from kqueue.spark.errors import RowRefused
from kqueue.spark.sink import producer_pipeline
from kqueue.spark.sink.batcher import Batcher, ReadyBatch
from kqueue.spark.sink.producer_pipeline import IdempotentProducer, ProducerPipeline, borrowed_producer, sequence_after
from kqueue.spark.sink.row_partitioning import TargetTopics
from kqueue.spark.sink.write_task import send_rows
from kqueue.testing import faults
from kqueue.tests.spark.sink.helpers import options_for, records_in, rows_of, values_in

ROWS = [f"row {number:03}" for number in range(300)]


def test_sequences_restart_after_the_last_one() -> None:
    assert sequence_after(2**31 - 1, 1) == 0
    assert sequence_after(2**31 - 3, 5) == 2
    producer = IdempotentProducer(ProducerIdAndEpoch(7, 0))
    producer.advance(("t", 0), 2**31 - 1)  # type: ignore[arg-type]
    assert producer.next_args(("t", 0))["base_sequence"] == 2**31 - 1  # type: ignore[arg-type]


def test_rows_arrive_in_their_order(broker: kqueue.Broker) -> None:
    send_rows(
        options_for(broker, topic="out", kafka_batch_size=200), [rows_of(ROWS[:100]), rows_of([]), rows_of(ROWS[100:])]
    )
    stored = records_in(broker, "out")
    assert values_in(broker, "out") == ROWS
    assert all([one.value for one in part] == sorted(one.value or b"" for one in part) for part in stored.values())


@pytest.fixture
def small_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows are much."""
    monkeypatch.setattr(producer_pipeline, "ROUND_BYTES_MAX", 1_000)


def test_batches_are_sent_while_others_are_encoded(broker: kqueue.Broker, small_rounds: None) -> None:
    """Before the last batch is made answers have come in for others; in the end all rows are there,
    in their order, once.
    """
    options = options_for(broker, topic="out", kafka_batch_size=200)
    started: list[int] = []

    def more() -> Iterator[ReadyBatch]:
        with Client(broker.bootstrap) as client, borrowed_producer(client) as producer:
            batcher = Batcher(TargetTopics(client, options, random.Random(1)), options, producer)
            for ready in batcher.batches([rows_of(ROWS)]):
                started.append(ready.rows)
                yield ready

    with Client(broker.bootstrap) as client, faults(broker, seed=2) as chaos:
        chaos.drop_reply("Produce", times=None, probability=0.2)
        sent = [(ready, len(started)) for ready, _ in ProducerPipeline(client, -1).send(more())]
    assert sent[0][1] < len(started) / 2
    assert sum(ready.rows for ready, _ in sent) == len(ROWS)
    assert values_in(broker, "out") == ROWS
    stored = records_in(broker, "out")
    assert all([one.value for one in part] == sorted(one.value or b"" for one in part) for part in stored.values())


@pytest.mark.parametrize("acks", ["1", "all"])
def test_after_a_round_that_failed_none_is_sent(broker: kqueue.Broker, small_rounds: None, acks: str) -> None:
    """The topic holds the first rows, without gaps."""
    broker.create_topic("one")
    with faults(broker) as chaos:
        chaos.fail("Produce", "POLICY_VIOLATION", after=5, times=1)
        with pytest.raises(BrokerRefused, match="one-0: POLICY_VIOLATION"):
            send_rows(options_for(broker, topic="one", kafka_batch_size=200, kafka_acks=acks), [rows_of(ROWS)])
    stored = values_in(broker, "one")
    assert 0 < len(stored) < len(ROWS)
    assert stored == ROWS[: len(stored)]


def test_error_in_making_batches_ends_the_thread(broker: kqueue.Broker, small_rounds: None) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield rows_of(ROWS)
        raise RuntimeError("no more rows")

    before = threading.active_count()
    with pytest.raises(RuntimeError, match="no more rows"):
        send_rows(options_for(broker, topic="out", kafka_batch_size=200), broken())
    assert threading.active_count() == before


def test_answers_that_are_lost_double_nothing(broker: kqueue.Broker) -> None:
    with faults(broker, seed=1) as chaos:
        chaos.drop_reply("Produce", times=None, probability=0.5)
        send_rows(options_for(broker, topic="out", kafka_batch_size=500), [rows_of(ROWS)])
    assert values_in(broker, "out") == ROWS


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_only_acks_all_has_a_producers_id(broker: kqueue.Broker, acks: str) -> None:
    send_rows(options_for(broker, topic="out", kafka_acks=acks), [rows_of(ROWS)])
    with Client(broker.bootstrap) as client:
        data = client.fetch({("out", 0): 0}, max_wait_ms=5_000)[("out", 0)].records  # type: ignore[dict-item]
    assert {header.has_producer for _, header in iter_batches(data)} == {acks == "all"}


def test_a_producer_is_kept_unless_something_failed(broker: kqueue.Broker) -> None:
    with Client(broker.bootstrap) as client:
        with borrowed_producer(client) as first:
            pass
        with pytest.raises(RuntimeError), borrowed_producer(client) as second:
            raise RuntimeError
        with borrowed_producer(client) as third:
            pass
    assert first is second
    assert third is not first


def test_refusal_of_the_broker_is_raised(broker: kqueue.Broker) -> None:
    broker.create_topic("compacted", cleanup_policy="compact")
    with pytest.raises(BrokerRefused, match="INVALID_RECORD"):
        send_rows(options_for(broker, topic="compacted"), [rows_of(["x"], key=[None])])


def test_row_larger_than_max_message_bytes_is_refused(broker: kqueue.Broker) -> None:
    broker.create_topic("small", max_message_bytes=1_000)
    options = options_for(broker, topic="small", encoder="python")
    with pytest.raises(
        RowRefused,
        match=r"a row for small-0 takes 2\d{3} bytes as a batch, and its topic takes 1000 at most: raise max",
    ):
        send_rows(options, [rows_of(["a", "x" * 2_000], key=["k", "k"])])
    send_rows(options, [rows_of(ROWS)])
    assert values_in(broker, "small")[-1] == ROWS[-1]
