"""Finds the broker for each part of a transaction: its coordinator, and the leaders of its
partitions. What is here is called here; the rest goes to other brokers of the cluster.

Source: Kafka's TransactionMarkerChannelManager, AddPartitionsToTxnManager.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from kqueue.base.errors import CoordinatorNotAvailable, KqueueError, NotLeader
from kqueue.base.promise import Promise
from kqueue.broker.coordinators.transaction_markers import TransactionMarkers
from kqueue.broker.metadata.brokers import Cluster
from kqueue.broker.topics.topics import TRANSACTIONS_TOPIC, Topics
from kqueue.replication.registrations import NO_LEADER
from kqueue.transactions.coordinator import TransactionCoordinator
from kqueue.transactions.marker_writer import MarkerResults, TopicPartition, TransactionMarker

Done = Callable[[MarkerResults], None]


class RemoteTransactions(Protocol):
    """Transactions at other brokers. On the owner thread."""

    def write_marker(self, node_id: int, marker: TransactionMarker, done: Done) -> None:
        """Have a broker append a marker to partitions that it leads.

        `done` is called once, in a later turn. A partition that may still get its marker when it is
        sent again has NotLeader, or another error of `TransactionMarkers.write`, but not
        UnknownTopicOrPartition: that broker may not know a new topic yet.
        """
        ...

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
        """Have the coordinator at a broker add partitions of transactions V2, or verify them; see
        `TransactionCoordinator.add_partitions`. CoordinatorNotAvailable: no answer; retry.
        """
        ...


class MarkerRouter:
    """A `MarkerWriter` that writes each marker where its partition is led.

    Attributes:
        remote: None in a single broker.
    """

    def __init__(self, cluster: Callable[[], Cluster], topics: Topics, local: TransactionMarkers) -> None:
        self.remote: RemoteTransactions | None = None
        self._cluster = cluster
        self._topics = topics
        self._local = local

    def write(self, marker: TransactionMarker, done: Done) -> None:
        """Append the marker to its partitions; see `TransactionMarkers.write`.

        A partition without a leader, or whose leader was not reached, has NotLeader.
        """
        if self._cluster().is_alone:
            self._local.write(marker, done)
            return
        results: MarkerResults = {}
        node_id = self._cluster().node_id
        by_leader: dict[int, list[TopicPartition]] = {}
        for topic_partition in marker.partitions:
            try:
                leader = self._topics.partition(*topic_partition).leader
            except KqueueError as error:
                results[topic_partition] = error
                continue
            if leader == NO_LEADER or (self.remote is None and leader != node_id):
                topic, index = topic_partition
                results[topic_partition] = NotLeader(f"{topic}-{index} has no leader that can be reached")
            else:
                by_leader.setdefault(leader, []).append(topic_partition)
        # One more than the parts, for this call itself: a local write may call `written` before the
        # other parts are sent, and `done` must not come before all are.
        waiting = len(by_leader) + 1

        def written(part: MarkerResults) -> None:
            nonlocal waiting
            results.update(part)
            waiting -= 1
            if not waiting:
                done(results)

        for leader, partitions in by_leader.items():
            part = marker if len(partitions) == len(marker.partitions) else _part(marker, partitions)
            if leader == node_id:
                self._local.write(part, written)
            else:
                assert self.remote is not None
                self.remote.write_marker(leader, part, written)
        written({})


def _part(marker: TransactionMarker, partitions: list[TopicPartition]) -> TransactionMarker:
    return TransactionMarker(
        marker.producer_id,
        marker.producer_epoch,
        marker.commit,
        marker.coordinator_epoch,
        marker.transaction_version,
        partitions,
    )


class AdderRouter:
    """A `PartitionAdder` that asks the coordinator of each transactional id.

    Attributes:
        remote: None in a single broker.
    """

    def __init__(self, cluster: Callable[[], Cluster], topics: Topics, local: TransactionCoordinator) -> None:
        self.remote: RemoteTransactions | None = None
        self._cluster = cluster
        self._topics = topics
        self._local = local

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Collection[TopicPartition],
        *,
        verify_only: bool = False,
        transaction_version: int,
    ) -> Promise[None]:
        """Add the partitions to the ongoing transaction, or verify that they are part of it; see
        `TransactionCoordinator.add_partitions`.

        Raises: CoordinatorNotAvailable: it is not known, or can't be reached.
        """
        coordinator = self._coordinator(transactional_id)
        if coordinator == self._cluster().node_id:
            return self._local.add_partitions(
                transactional_id,
                producer_id,
                epoch,
                partitions,
                verify_only=verify_only,
                transaction_version=transaction_version,
            )
        if self.remote is None or coordinator == NO_LEADER:
            raise CoordinatorNotAvailable(f"the coordinator of transactional id {transactional_id!r} can't be reached")
        return self.remote.add_partitions(
            coordinator, transactional_id, producer_id, epoch, partitions, verify_only=verify_only
        )

    def _coordinator(self, transactional_id: str) -> int:
        if self._cluster().is_alone or not transactional_id:
            return self._cluster().node_id
        try:
            return self._topics.partition(TRANSACTIONS_TOPIC, self._local.partition_of(transactional_id)).leader
        except KqueueError:
            return NO_LEADER
