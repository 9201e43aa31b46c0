"""Coordinators whose records can't be replicated answer in time, and go on once they can."""

from __future__ import annotations

from typing import Any

import pytest

from kqueue.tests.api.group_client import commit_request, join, join_request, sync_request
from kqueue.tests.api.harness import PendingRequest, SimulatedClient
from kqueue.tests.interbroker.fetching_members import FetchingMembers
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kqueue.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kqueue.wire.messages.end_txn import EndTxnRequest
from kqueue.wire.messages.init_producer_id import InitProducerIdRequest
from kqueue.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

UNAVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
SETTINGS = {
    "kqueue.storage": "memory",
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 2,
    "offsets.commit.timeout.ms": 4000,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.replication.factor": 2,
    "transaction.state.log.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
}


def waits(started: PendingRequest) -> bool:
    return started.response is None


class Cluster:
    """Two brokers; broker 1 coordinates. `isolate`: broker 2 stays in sync, and fetches no more."""

    def __init__(self) -> None:
        self.members = FetchingMembers(2, SETTINGS)
        self.members.topic("t", [1, 2])
        for name in ("__consumer_offsets", "__transaction_state"):
            self.members.result(self.members[1].broker.topics.create_on_demand(name))
            self.members.write(lambda old: old._replace(leader=1, leader_epoch=old.leader_epoch + 1), name)
        self.members.advance(1000)

    @property
    def client(self) -> SimulatedClient:
        return self.members.clients[1]

    def isolate(self) -> None:
        self.members.peers[2].down.add(1)
        self.members.advance(1000)

    def heal(self) -> None:
        self.members.peers[2].down.clear()
        self.members.advance(1000)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_offsets_and_heartbeats_are_answered_after_the_timeout(cluster: Cluster) -> None:
    cluster.isolate()
    modern = {"group_id": "modern", "member_id": "a" * 22, "subscribed_topic_names": ["t"]}
    requests: list[tuple[Any, int]] = [
        (commit_request(cluster.client, 9, {("t", 0): 5}), 9),
        (ConsumerGroupHeartbeatRequest(**modern, rebalance_timeout_ms=5000, topic_partitions=[]), 1),
        (ShareGroupHeartbeatRequest(**{**modern, "group_id": "share"}), 1),
    ]
    started = [cluster.client.start(request, version) for request, version in requests]
    cluster.members.advance(3800)
    assert [each.response for each in started] == [None] * 3
    cluster.members.advance(400)
    assert started[0].response.topics[0].partitions[0].error_code == UNAVAILABLE
    assert [each.response.error_code for each in started[1:]] == [UNAVAILABLE] * 2

    cluster.heal()
    assert cluster.client.sim.broker.coordinators.groups.offsets("g")["t"][0].offset == 5, "it was committed later"
    assert cluster.client.ask(*requests[1]).error_code == 0


def test_members_whose_generation_is_not_replicated_join_again(cluster: Cluster) -> None:
    joined = join(cluster.client)
    cluster.isolate()
    synced = cluster.client.start(sync_request(5, joined, {joined.member_id: b"mine"}), 5)
    cluster.members.advance(3800)
    assert waits(synced)
    cluster.members.advance(400)
    assert synced.response.error_code == UNAVAILABLE

    cluster.heal()
    again = cluster.client.start(join_request(9, joined.member_id), 9)
    cluster.members.advance(1000)
    assert (again.response.error_code, again.response.generation_id) == (0, joined.generation_id + 1)
    synced = cluster.client.start(sync_request(5, again.response, {joined.member_id: b"mine"}), 5)
    cluster.members.advance(1000)
    assert (synced.response.error_code, synced.response.assignment) == (0, b"mine")


def test_transactions_are_answered_after_their_own_timeout(cluster: Cluster) -> None:
    client, members = cluster.client, cluster.members
    started = client.start(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=7000), 4)
    members.advance(1000)
    producer = started.response
    assert producer.error_code == 0
    cluster.isolate()
    other = client.start(InitProducerIdRequest(transactional_id="other", transaction_timeout_ms=7000), 4)
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
    )
    added = client.start(add, 3)
    members.advance(6800)
    assert (other.response, added.response) == (None, None)
    members.advance(400)
    assert other.response.error_code == UNAVAILABLE
    topic = added.response.results_by_topic_v3_and_below[0]
    assert topic.results_by_partition[0].partition_error_code == UNAVAILABLE

    cluster.heal()
    added = client.start(add, 3)
    members.advance(1000)
    topic = added.response.results_by_topic_v3_and_below[0]
    assert topic.results_by_partition[0].partition_error_code == 0
    cluster.isolate()
    end = EndTxnRequest(
        transactional_id="tx", producer_id=producer.producer_id, producer_epoch=producer.producer_epoch, committed=True
    )
    ended = client.start(end, 3)
    members.advance(6800)
    assert waits(ended)
    members.advance(400)
    assert ended.response.error_code == UNAVAILABLE
