"""A broker that restarts, is full, or loses a topic in the middle of a write: nothing is lost, and
what is told is one error.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import kqueue
from kqueue.client import Client, ClientOptions
from kqueue.client.errors import BrokerRefused, ClientError, DeadlinePassed
from kqueue.spark.sink import batcher as batching
from kqueue.spark.sink import producer_pipeline
from kqueue.spark.sink.batch_commit import commit
from kqueue.spark.sink.journal import PREFIX, StagedBatch
from kqueue.spark.sink.options import SinkOptions
from kqueue.spark.sink.producer_pipeline import drop_idle_producers
from kqueue.spark.sink.write_task import BatchIdentity, send_rows, stage_rows
from kqueue.testing import faults
from kqueue.tests.spark.sink.exactly_once import watched
from kqueue.tests.spark.sink.helpers import options_for, rows_of, values_in
from kqueue.tests.thorough import corners

QUERY = "q"
ROWS = [f"row {number:03}" for number in range(200)]
SLICES = [ROWS[begin : begin + 20] for begin in range(0, len(ROWS), 20)]
MOMENTS = range(1, 60, 6)


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[kqueue.Broker]:
    """On a folder, so that it can restart; small limits give a write many steps."""
    monkeypatch.setattr(batching, "GATHER_BYTES", 800)
    monkeypatch.setattr(producer_pipeline, "ROUND_BYTES_MAX", 600)
    drop_idle_producers()
    with kqueue.Broker(tmp_path / "data", auto_create_topics_enable=False) as running:
        running.create_topic("out", 3)
        yield running
    drop_idle_producers()


def once(broker: kqueue.Broker, **more: object) -> SinkOptions:
    return options_for(broker, topic="out", delivery="exactly-once", stagingPartitions=2, kafka_batch_size=200, **more)


def stage(
    options: SinkOptions, connect: Callable[[ClientOptions], Client] = Client, batch_id: int = 0
) -> Sequence[StagedBatch] | None:
    return stage_rows(options, BatchIdentity(QUERY, batch_id, 0), map(rows_of, SLICES), connect).staged


def run(options: SinkOptions, connect: Callable[[ClientOptions], Client] = Client, batch_id: int = 0) -> None:
    staged = stage(options, connect, batch_id)
    with connect(options.client) as client:
        commit(client, QUERY, batch_id, staged)


def restarting(broker: kqueue.Broker, moment: int) -> Callable[[str, bool], None]:
    """A watch that restarts the broker once, before or after a call."""
    left = [moment]
    lock = threading.Lock()

    def watch(name: str, before: bool) -> None:
        with lock:
            left[0] -= 1
            if left[0] == 0:
                broker.restart()

    return watch


@pytest.mark.parametrize("moment", corners(MOMENTS, 1, 37))
def test_exactly_once_batch_survives_a_broker_restart(broker: kqueue.Broker, moment: int) -> None:
    run(once(broker), watched(restarting(broker, moment)))
    run(once(broker))  # Spark runs it again
    run(once(broker), batch_id=1)
    assert values_in(broker, "out") == sorted(ROWS * 2)


@pytest.mark.parametrize("begun", corners([1, 4, 8], 4))
def test_at_least_once_rows_survive_restarts_and_lost_responses(broker: kqueue.Broker, begun: int) -> None:
    """Nothing is lost, and idempotence prevents duplicates."""
    options = options_for(broker, topic="out", kafka_batch_size=200)

    def slices() -> Iterator[object]:
        for number, some in enumerate(SLICES):
            if number == begun:
                broker.restart()
            yield rows_of(some)

    send_rows(options, slices())  # type: ignore[arg-type]
    assert values_in(broker, "out") == ROWS
    with faults(broker, seed=begun) as chaos:
        chaos.drop_reply("Produce", times=None, probability=0.3)
        chaos.disconnect("Produce", times=None, probability=0.2)
        send_rows(options, map(rows_of, SLICES))
    assert values_in(broker, "out") == sorted(ROWS * 2)


@pytest.mark.parametrize(
    "api",
    corners(["Produce", "Fetch", "ListOffsets", "DeleteRecords", "InitProducerId", "Metadata"], "Produce", "Fetch"),
)
def test_exactly_once_batch_survives_lost_responses(broker: kqueue.Broker, api: str) -> None:
    options = once(broker)
    for batch_id in range(3):
        drop_idle_producers()
        with faults(broker) as chaos:
            dropped = [chaos.drop_reply(api, after=after) for after in (0, batch_id + 2)]
            run(options, batch_id=batch_id)
        assert dropped[0].count
    assert values_in(broker, "out") == sorted(ROWS * 3)


def test_too_few_replicas_for_a_while_are_waited_for(broker: kqueue.Broker) -> None:
    with faults(broker) as chaos:
        few = chaos.fail("Produce", "NOT_ENOUGH_REPLICAS", times=5)
        after = chaos.fail("Produce", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", times=3)
        run(once(broker))
    assert (few.count, after.count) == (5, 3)
    assert values_in(broker, "out") == ROWS


@contextlib.contextmanager
def raises_with(kind: type[ClientError], words: str) -> Iterator[None]:
    with pytest.raises(kind, match=words) as error:
        yield
    assert "\n" not in str(error.value)


def test_too_few_replicas_while_staging_fail_the_batch_until_its_retry(broker: kqueue.Broker) -> None:
    with faults(broker) as chaos, raises_with(DeadlinePassed, "no success within 2000 ms; .*NOT_ENOUGH_REPLICAS"):
        chaos.fail("Produce", "NOT_ENOUGH_REPLICAS", times=None, after=2)
        run(once(broker, kafka_delivery_timeout_ms=2000))
    assert values_in(broker, "out") == []
    run(once(broker))
    assert values_in(broker, "out") == ROWS


def test_full_disk_while_staging_fails_the_batch_until_its_retry(broker: kqueue.Broker) -> None:
    with faults(broker) as chaos, raises_with(ClientError, "KAFKA_STORAGE_ERROR"):
        chaos.disk_full(PREFIX + QUERY, free_bytes=3_000)
        run(once(broker, kafka_delivery_timeout_ms=2000))
    assert values_in(broker, "out") == []
    broker.restart()
    run(once(broker))
    assert values_in(broker, "out") == ROWS


def test_batch_cut_by_a_full_disk_is_completed_by_its_retry(broker: kqueue.Broker) -> None:
    """Readers may see a beginning; the rest comes once there is room, and nothing twice."""
    options = once(broker, kafka_delivery_timeout_ms=2000)
    staged = stage(options)
    with (
        faults(broker) as chaos,
        raises_with(ClientError, r"out-\d: .*KAFKA_STORAGE_ERROR"),
        Client(options.client) as client,
    ):
        chaos.disk_full("out", free_bytes=1_500)
        commit(client, QUERY, 0, staged)
    broker.restart()
    assert 0 < len(values_in(broker, "out")) < len(ROWS)
    run(options)
    assert values_in(broker, "out") == ROWS


def test_deleted_topic_refuses_the_commit_until_it_is_recreated(broker: kqueue.Broker) -> None:
    options = once(broker)
    staged = stage(options)
    with Client(options.client) as client:
        client.delete_topics(["out"])
        with raises_with(BrokerRefused, r"out-\d: UNKNOWN_TOPIC"):
            commit(client, QUERY, 0, staged)
    broker.create_topic("out", 3)
    run(options)
    assert values_in(broker, "out") == ROWS


def copy_some(broker: kqueue.Broker, options: SinkOptions) -> None:
    """Batch 0, which is decided, and copied in part."""
    staged = stage(options)
    with faults(broker) as chaos, raises_with(ClientError, "POLICY_VIOLATION"), Client(options.client) as client:
        chaos.fail("Produce", "POLICY_VIOLATION", topic="out", after=4)
        commit(client, QUERY, 0, staged)
    assert 0 < len(values_in(broker, "out")) < len(ROWS)


def test_topic_recreated_while_copying_gets_the_whole_batch(broker: kqueue.Broker) -> None:
    """Made anew it gets the whole batch, since none of it is there any more."""
    options = once(broker)
    copy_some(broker, options)
    with Client(options.client) as client:
        client.delete_topics(["out"])
    broker.create_topic("out", 3)
    run(options)
    assert values_in(broker, "out") == ROWS


def test_query_continues_after_its_producer_expired(broker: kqueue.Broker) -> None:
    options = once(broker)
    copy_some(broker, options)
    broker.clock.advance(days=3)
    drop_idle_producers()
    run(options)
    run(options, batch_id=1)
    broker.clock.advance(days=3)
    broker.restart()
    run(options, batch_id=1)
    run(options, batch_id=2)
    assert values_in(broker, "out") == sorted(ROWS * 3)
