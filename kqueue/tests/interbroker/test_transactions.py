"""Transactions whose coordinator, and whose partitions, are at several brokers."""

from __future__ import annotations

from typing import Any

import pytest

from kqueue.base.errors import CoordinatorNotAvailable, KqueueError, TransactionAbortable
from kqueue.base.promise import Promise
from kqueue.broker.topics.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kqueue.records.batch import COMMIT, decode_control, iter_batches, iter_records
from kqueue.tests.api.harness import batch
from kqueue.tests.groups.support import is_pending
from kqueue.tests.interbroker.simulated_peers import Member, SimulatedCluster
from kqueue.transactions.transaction_metadata import ProducerIdAndEpoch
from kqueue.transactions.transaction_state import TransactionState
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kqueue.wire.messages.end_txn import EndTxnRequest
from kqueue.wire.messages.init_producer_id import InitProducerIdRequest
from kqueue.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kqueue.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kqueue.wire.messages.write_txn_markers import WriteTxnMarkersRequest

SETTINGS = {
    "transaction.state.log.num.partitions": 1,
    "offsets.topic.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
}
COORDINATOR, LEADER, THIRD = 1, 2, 3


@pytest.fixture
def cluster() -> SimulatedCluster:
    """Broker 1 coordinates transactions, broker 2 leads ``t-0``, broker 1 ``t-1``, 3 the groups."""
    cluster = SimulatedCluster(3, SETTINGS)
    cluster.create(TRANSACTIONS_TOPIC, COORDINATOR)
    cluster.create(OFFSETS_TOPIC, THIRD)
    cluster.create("t", LEADER, COORDINATOR)
    return cluster


def init(cluster: SimulatedCluster) -> ProducerIdAndEpoch:
    request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000)
    response = cluster.ask(COORDINATOR, request, 5)
    assert response.error_code == 0
    return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)


def produce(
    cluster: SimulatedCluster, producer: ProducerIdAndEpoch, partition: int, sequence: int = 0, version: int = 12
) -> Any:
    """The error code of a transactional batch, sent to the leader; None: no answer yet."""
    node_id = (LEADER, COORDINATOR)[partition]
    records = batch(
        b"v", producer_id=producer.producer_id, epoch=producer.epoch, base_sequence=sequence, transactional=True
    )
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=partition, records=records)])
    request = ProduceRequest(transactional_id="tx", acks=-1, timeout_ms=30_000, topic_data=[data])
    response = cluster.ask(node_id, request, version)
    return None if response is None else response.responses[0].partition_responses[0].error_code


def end(cluster: SimulatedCluster, producer: ProducerIdAndEpoch, *, commit: bool = True) -> Any:
    request = EndTxnRequest(
        transactional_id="tx", producer_id=producer.producer_id, producer_epoch=producer.epoch, committed=commit
    )
    return cluster.ask(COORDINATOR, request, 5)


def markers(member: Member, topic: str, partition: int) -> list[bool]:
    """Whether each end marker of a log commits."""
    log = member.sim.broker.topics.partition(topic, partition).log
    data = log.read(0, 1 << 20, end_offset=log.end_offset, min_one_batch=True).read() if log.end_offset else b""
    return [
        decode_control(next(iter(iter_records(data, position))))[0] == COMMIT
        for position, header in iter_batches(data)
        if header.is_control
    ]


def state(cluster: SimulatedCluster) -> TransactionState:
    return cluster.members[COORDINATOR].sim.broker.coordinators.transactions.describe("tx").state


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_over_several_brokers(cluster: SimulatedCluster, commit: bool) -> None:
    producer = init(cluster)
    assert produce(cluster, producer, 0) == 0
    assert produce(cluster, producer, 1) == 0
    assert len(cluster.members[LEADER].peers.requests) == 1
    assert produce(cluster, producer, 0, 1) == 0
    assert len(cluster.members[LEADER].peers.requests) == 1, "the log knows the transaction"
    assert end(cluster, producer, commit=commit).error_code == 0
    assert state(cluster) is (TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT)
    for node_id, partition in ((LEADER, 0), (COORDINATOR, 1)):
        assert markers(cluster.members[node_id], "t", partition) == [commit]
    assert markers(cluster.members[LEADER], "t", 1) == [], "only leaders write"


def test_a_producer_of_version_1_is_verified_by_the_coordinator(cluster: SimulatedCluster) -> None:
    producer = init(cluster)
    assert produce(cluster, producer, 0, version=11) == ErrorCode.TRANSACTION_ABORTABLE
    broker = cluster.members[COORDINATOR].sim.broker
    broker.coordinators.transactions.add_partitions("tx", *producer, [("t", 0)], transaction_version=0)
    cluster.settle()
    assert produce(cluster, producer, 0, version=11) == 0


def test_offsets_in_a_transaction_are_committed_by_their_coordinator(cluster: SimulatedCluster) -> None:
    producer = init(cluster)
    partitions = [TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7)]
    request = TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id="g",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=partitions)],
    )
    groups = cluster.members[THIRD].sim.broker.coordinators.groups
    response = cluster.ask(THIRD, request, 5)
    assert response.topics[0].partitions[0].error_code == 0
    assert dict(groups.offsets("g")) == {}
    assert is_pending(groups, "g", "t", 0)
    assert end(cluster, producer).error_code == 0
    assert groups.offsets("g")["t"][0].offset == 7


def test_markers_are_sent_again_until_their_leader_is_back(cluster: SimulatedCluster) -> None:
    producer = init(cluster)
    assert produce(cluster, producer, 0) == 0
    cluster.members[COORDINATOR].peers.down.add(LEADER)
    assert end(cluster, producer).error_code == 0, "the decision is in the log"
    cluster.advance(2000)
    assert state(cluster) is TransactionState.PREPARE_COMMIT
    cluster.members[COORDINATOR].peers.down.clear()
    cluster.advance(10_000)
    assert state(cluster) is TransactionState.COMPLETE_COMMIT
    assert markers(cluster.members[LEADER], "t", 0) == [True]


def test_markers_follow_the_leader(cluster: SimulatedCluster) -> None:
    producer = init(cluster)
    assert produce(cluster, producer, 0) == 0
    cluster.members[COORDINATOR].peers.down.add(LEADER)
    end(cluster, producer)
    cluster.lead("t", 0, THIRD)
    cluster.advance(2000)
    assert state(cluster) is TransactionState.COMPLETE_COMMIT
    assert markers(cluster.members[THIRD], "t", 0) == [True]


def test_a_leader_that_does_not_know_the_topic_yet_is_asked_again(cluster: SimulatedCluster) -> None:
    producer = init(cluster)
    assert produce(cluster, producer, 0) == 0
    topics = cluster.members[LEADER].sim.broker.topics
    topic = topics._topics.pop("t")
    assert end(cluster, producer).error_code == 0
    cluster.advance(1000)
    assert state(cluster) is TransactionState.PREPARE_COMMIT
    topics._topics["t"] = topic
    cluster.advance(10_000)
    assert state(cluster) is TransactionState.COMPLETE_COMMIT
    assert markers(cluster.members[LEADER], "t", 0) == [True]


def test_a_fenced_broker_is_not_waited_for(cluster: SimulatedCluster) -> None:
    producer = init(cluster)
    assert produce(cluster, producer, 0) == 0
    coordinator = cluster.members[COORDINATOR]
    coordinator.peers.deliver = lambda: 0  # type: ignore[method-assign]  # no answer at all
    end(cluster, producer)
    sent = len(coordinator.peers.requests)
    cluster.register(LEADER, fenced=True)
    cluster.lead("t", 0, THIRD)
    del coordinator.peers.deliver  # type: ignore[method-assign]
    cluster.advance(1000)
    assert len(coordinator.peers.requests) > sent
    assert state(cluster) is TransactionState.COMPLETE_COMMIT


def test_an_open_transaction_survives_its_coordinator(cluster: SimulatedCluster) -> None:
    """The next coordinator has the same log, and completes in the leader epoch of its own."""
    producer = init(cluster)
    assert produce(cluster, producer, 0) == 0
    coordinator = cluster.members[COORDINATOR]
    coordinator.peers.down.add(LEADER)
    end(cluster, producer)
    cluster.lead(TRANSACTIONS_TOPIC, 0, LEADER)  # whose log is empty here: only that it is left counts
    cluster.advance(30_000)
    assert markers(cluster.members[LEADER], "t", 0) == []
    assert not [one for one in coordinator.peers.requests[1:] if isinstance(one, AddPartitionsToTxnRequest)]
    coordinator.peers.down.clear()
    cluster.lead(TRANSACTIONS_TOPIC, 0, COORDINATOR)
    cluster.advance(1000)
    assert state(cluster) is TransactionState.COMPLETE_COMMIT
    sent = [one for one in coordinator.peers.requests if isinstance(one, WriteTxnMarkersRequest)]
    epochs = [one.markers[0].coordinator_epoch for one in sent]
    partition = coordinator.sim.broker.topics.partition(TRANSACTIONS_TOPIC, 0)
    assert epochs[0] < epochs[-1] == partition.leader_epoch


def test_markers_of_many_transactions_share_requests(cluster: SimulatedCluster) -> None:
    coordinator = cluster.members[COORDINATOR]
    transactions = coordinator.sim.broker.coordinators.transactions
    for number in range(50):
        promise = transactions.init_producer_id(f"tx{number}", 60_000)
        cluster.settle()
        producer = promise.result()
        transactions.add_partitions(f"tx{number}", *producer, [("t", 0)], transaction_version=2)
        cluster.settle()
        transactions.end(f"tx{number}", *producer, True, transaction_version=2)
        coordinator.sim.settle()  # nothing is delivered meanwhile but by the next settle
    cluster.settle()
    before = len(coordinator.peers.requests)
    ends = []
    for number in range(50):
        metadata = transactions.describe(f"tx{number}")
        transactions.add_partitions(f"tx{number}", *metadata.producer, [("t", 0)], transaction_version=2)
    coordinator.sim.settle()
    for number in range(50):
        metadata = transactions.describe(f"tx{number}")
        ends.append(transactions.end(f"tx{number}", *metadata.producer, True, transaction_version=2))
    cluster.settle()
    assert all(promise.result() for promise in ends)
    assert len(coordinator.peers.requests) - before == 2, "the first alone, then all others"
    assert markers(cluster.members[LEADER], "t", 0) == [True] * 100


def asked(cluster: SimulatedCluster, *questions: tuple[str, ProducerIdAndEpoch, str, int]) -> list[Promise[None]]:
    """Ask the coordinator from the leader, all at once."""
    adder = cluster.members[LEADER].sim.broker.coordinators.transaction_partitions
    return [
        adder.add_partitions(id, *producer, [(topic, index)], verify_only=True, transaction_version=0)
        for id, producer, topic, index in questions
    ]


def test_each_question_gets_its_own_answer(cluster: SimulatedCluster) -> None:
    producer = init(cluster)
    broker = cluster.members[COORDINATOR].sim.broker
    broker.coordinators.transactions.add_partitions("tx", *producer, [("t", 0)], transaction_version=0)
    cluster.settle()
    older = producer._replace(epoch=producer.epoch - 1)
    promises = asked(
        cluster,
        ("tx", producer, "t", 0),
        ("tx", producer, "t", 1),
        ("tx", producer, "t", 0),
        ("tx", older, "t", 0),
        ("unknown", producer, "t", 0),
    )
    cluster.settle()
    errors: list[type[KqueueError] | None] = [None if one.error is None else type(one.error) for one in promises]
    assert errors[:3] == [None, TransactionAbortable, None]
    assert [error.__name__ for error in errors[3:] if error] == ["ProducerFenced", "InvalidProducerIdMapping"]
    assert len(cluster.members[LEADER].peers.requests) == 3


def test_a_coordinator_that_is_not_reached_is_asked_again_by_the_client(cluster: SimulatedCluster) -> None:
    producer = init(cluster)
    cluster.members[LEADER].peers.down.add(COORDINATOR)
    [promise] = asked(cluster, ("tx", producer, "t", 0))
    cluster.settle()
    assert type(promise.error) is CoordinatorNotAvailable
    assert produce(cluster, producer, 0) == ErrorCode.NOT_ENOUGH_REPLICAS
    cluster.lead(TRANSACTIONS_TOPIC, 0, -1)
    with pytest.raises(CoordinatorNotAvailable):
        asked(cluster, ("tx", producer, "t", 0))
    assert produce(cluster, producer, 0) == ErrorCode.NOT_ENOUGH_REPLICAS
