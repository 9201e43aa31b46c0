"""Which broker gets which part of a transaction; see `tests/interbroker/test_transactions.py` for
brokers that answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest

from kqueue.base.errors import CoordinatorNotAvailable, NotLeader, UnknownTopicOrPartition
from kqueue.base.promise import Promise
from kqueue.broker.topics.topics import TRANSACTIONS_TOPIC
from kqueue.replication.registrations import NO_LEADER, PartitionRegistration
from kqueue.tests.api.cluster_client import ClusterClient
from kqueue.transactions.marker_writer import MarkerResults, TopicPartition, TransactionMarker

SELF, OTHER, THIRD = 1, 2, 3


class HeldRemote:
    """A `RemoteTransactions` that answers when the test says so."""

    def __init__(self) -> None:
        self.markers: list[tuple[int, TransactionMarker, Callable[[MarkerResults], None]]] = []
        self.additions: list[tuple[object, ...]] = []

    def write_marker(self, node_id: int, marker: TransactionMarker, done: Callable[[MarkerResults], None]) -> None:
        self.markers.append((node_id, marker, done))

    def add_partitions(
        self,
        node_id: int,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Collection[TopicPartition],
        *,
        verify_only: bool,
    ) -> Promise[None]:
        self.additions.append((node_id, transactional_id, producer_id, epoch, list(partitions), verify_only))
        return Promise()


def led_by(*leaders: int) -> list[PartitionRegistration]:
    return [PartitionRegistration((SELF, OTHER, THIRD), (leader,), leader, 1, 1) for leader in leaders]


def marker(*partitions: TopicPartition) -> TransactionMarker:
    return TransactionMarker(7, 0, True, 3, 1, list(partitions))


@pytest.fixture
def client() -> ClusterClient:
    client = ClusterClient()
    client.topic("t", *led_by(SELF, OTHER, THIRD, OTHER, NO_LEADER))
    return client


def test_each_leader_gets_its_markers(client: ClusterClient) -> None:
    router, remote, results = client.sim.broker.coordinators.marker_router, HeldRemote(), list[MarkerResults]()
    router.remote = remote
    router.write(marker(*(("t", index) for index in range(6))), results.append)
    client.sim.settle()
    assert [(node_id, each.partitions) for node_id, each, _ in remote.markers] == [
        (OTHER, [("t", 1), ("t", 3)]),
        (THIRD, [("t", 2)]),
    ]
    sent = [each for _, each, _ in remote.markers]
    assert {(each.producer_id, each.commit, each.coordinator_epoch) for each in sent} == {(7, True, 3)}
    remote.markers[0][2]({("t", 1): None, ("t", 3): NotLeader("moved")})
    assert not results
    remote.markers[1][2]({("t", 2): None})
    [result] = results
    assert {index: type(error) for (_, index), error in result.items() if error is not None} == {
        3: NotLeader,
        4: NotLeader,
        5: UnknownTopicOrPartition,
    }
    assert result["t", 0] is None


def test_a_broker_without_connections_reports_what_it_can_not_write(client: ClusterClient) -> None:
    results = list[MarkerResults]()
    client.sim.broker.coordinators.marker_router.write(marker(("t", 0), ("t", 1)), results.append)
    client.sim.settle()
    assert results[0]["t", 0] is None
    assert type(results[0]["t", 1]) is NotLeader


@pytest.mark.parametrize("leader", [SELF, OTHER, NO_LEADER])
def test_the_coordinator_is_asked(client: ClusterClient, leader: int) -> None:
    broker, remote = client.sim.broker, HeldRemote()
    router = broker.coordinators.transaction_partitions
    with pytest.raises(CoordinatorNotAvailable):
        router.add_partitions("tx", 7, 0, [("t", 0)], transaction_version=2)
    client.sim.result(broker.topics.create_on_demand(TRANSACTIONS_TOPIC))
    index = broker.coordinators.transactions.partition_of("tx")
    broker.topics.partition(TRANSACTIONS_TOPIC, index).apply(led_by(leader)[0])
    if leader == OTHER:
        with pytest.raises(CoordinatorNotAvailable, match="can't be reached"):
            router.add_partitions("tx", 7, 0, [("t", 0)], transaction_version=2)
    router.remote = remote
    if leader == NO_LEADER:
        with pytest.raises(CoordinatorNotAvailable):
            router.add_partitions("tx", 7, 0, [("t", 0)], transaction_version=2)
        return
    promise = router.add_partitions("tx", 7, 0, [("t", 0)], transaction_version=2)
    assert promise.done is (leader == SELF)
    assert remote.additions == ([(OTHER, "tx", 7, 0, [("t", 0)], False)] if leader == OTHER else [])
