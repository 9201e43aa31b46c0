from __future__ import annotations

import pytest

from kqueue.base.coordinators import coordinator_error
from kqueue.base.errors import (
    CoordinatorNotAvailable,
    KqueueError,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeader,
    RecordTooLarge,
)
from kqueue.broker.coordinators.internal_topic_log import InternalTopicLog
from kqueue.broker.coordinators.transaction_markers import append_marker
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.topics.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kqueue.replication.errors import NotEnoughReplicasAfterAppend
from kqueue.replication.registrations import PartitionRegistration
from kqueue.testing.simulation import Simulation
from kqueue.tests.tables import for_each
from kqueue.transactions.marker_writer import TransactionMarker


@for_each("topic", [OFFSETS_TOPIC, TRANSACTIONS_TOPIC])
def test_each_coordinator_has_its_topic(topic: str) -> None:
    sim = Simulation({"offsets.topic.num.partitions": 4, "transaction.state.log.num.partitions": 4})
    log = InternalTopicLog(topic, 4, sim.broker.topics, sim.broker.scheduler.purgatory, sim.broker.scheduler.clock)
    done = list[tuple[int, KqueueError | None]]()
    for number in range(3):
        log.append(number, [(b"k", b"v")], lambda error, number=number: done.append((number, error)))
    sim.settle()
    assert done == [(0, None), (1, None), (2, None)]
    assert len(sim.broker.topics.get(topic).partitions) == log.partition_count == 4


def test_a_batch_is_no_larger_than_the_topic_allows() -> None:
    sim = Simulation({"message.max.bytes": 10_000})
    log = InternalTopicLog(
        TRANSACTIONS_TOPIC, 4, sim.broker.topics, sim.broker.scheduler.purgatory, sim.broker.scheduler.clock
    )
    news = list[KqueueError | None]()
    log.append(0, [(b"k", bytes(10_000))], news.append)
    sim.settle()
    assert isinstance(news[0], RecordTooLarge)
    assert "max.message.bytes of __transaction_state is 10000" in str(news[0])


@pytest.mark.parametrize("becomes", ["committed", "lost"])
def test_an_append_outlives_an_in_sync_set_that_is_too_small(becomes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in the log: taken back in memory, it could still be committed."""
    sim = Simulation({"offsets.topic.num.partitions": 1})
    broker = sim.broker
    log = InternalTopicLog(OFFSETS_TOPIC, 1, broker.topics, broker.scheduler.purgatory, broker.scheduler.clock)
    sim.result(broker.topics.create_on_demand(OFFSETS_TOPIC))
    partition = broker.topics.partition(OFFSETS_TOPIC, 0)
    outcome: list[KqueueError | bool] = [NotEnoughReplicasAfterAppend("only 1 is in sync")]

    def answer(self: Partition, offset: int) -> bool:
        if isinstance(outcome[0], KqueueError):
            raise outcome[0]
        return outcome[0]

    monkeypatch.setattr(Partition, "is_committed", answer)
    done = list[KqueueError | None]()
    log.append(0, [(b"k", b"v")], done.append)
    for _ in range(3):
        broker.scheduler.purgatory.wake(partition)
        sim.settle()
    assert not done
    outcome[0] = True if becomes == "committed" else NotLeader("moved")
    broker.scheduler.purgatory.wake(partition)
    sim.settle()
    assert [type(error) for error in done] == [type(None) if becomes == "committed" else NotLeader]


def test_nothing_is_appended_while_too_few_replicas_are_in_sync() -> None:
    sim = Simulation()
    broker = sim.broker
    partition = sim.topic("t", min_insync_replicas="2").partition(0)
    log = InternalTopicLog("t", 1, broker.topics, broker.scheduler.purgatory, broker.scheduler.clock)
    partition.apply(PartitionRegistration((1, 2), (1,), 1, leader_epoch=3, partition_epoch=3))
    done = list[KqueueError | None]()
    log.append(0, [(b"k", b"v")], done.append)
    sim.settle()
    assert type(coordinator_error(done[0] or KqueueError())) is CoordinatorNotAvailable
    assert partition.log_end_offset == 0
    with pytest.raises(NotEnoughReplicas):
        append_marker(partition, TransactionMarker(7, 0, True, 3, 1, [("t", 0)]), 0)
    partition.apply(PartitionRegistration((1, 2), (1, 2), 1, leader_epoch=3, partition_epoch=4))
    log.append(0, [(b"k", b"v")], done.append)
    sim.settle()
    assert partition.log_end_offset == 1
    assert len(done) == 1, "the follower does not have it yet"
    partition.apply(PartitionRegistration((1, 2), (1, 2), 2, leader_epoch=4, partition_epoch=5))
    sim.settle()
    assert type(coordinator_error(done[1] or KqueueError())) is NotCoordinator
