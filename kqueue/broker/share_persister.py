"""Reads and writes the states of share partitions at the share coordinators that have them: this
broker's, or another's. Source: Kafka's Persister, PersisterStateManager.

Errors reach `done`; no method raises. What the share coordinator of another broker has not answered
in time may have been written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kqueue.base.errors import CoordinatorNotAvailable, KqueueError
from kqueue.broker.cluster import Cluster
from kqueue.broker.topics import SHARE_TOPIC, Topics
from kqueue.replication.registrations import NO_LEADER
from kqueue.share.coordinator import ReadDone, ShareCoordinator
from kqueue.share.share_state import UNCHANGED, SharePartitionKey, ShareUpdate
from kqueue.share.state_log import Done


class RemoteShareStates(Protocol):
    """The share coordinators of other brokers. On the owner thread; `done` is called later."""

    def read(self, node_id: int, key: SharePartitionKey, leader_epoch: int, done: ReadDone) -> None:
        """See `ShareCoordinator.read_for_leader`."""
        ...

    def read_summary(self, node_id: int, key: SharePartitionKey, done: ReadDone) -> None:
        """Read the state without its batches."""
        ...

    def initialize(self, node_id: int, key: SharePartitionKey, state_epoch: int, start_offset: int, done: Done) -> None:
        """See `ShareCoordinator.initialize`."""
        ...

    def write(self, node_id: int, key: SharePartitionKey, state_epoch: int, update: ShareUpdate, done: Done) -> None:
        """See `ShareCoordinator.write`."""
        ...

    def delete(self, node_id: int, key: SharePartitionKey, done: Done) -> None:
        """See `ShareCoordinator.delete`."""
        ...


class SharePersister:
    """The states of all share partitions of the cluster. On the owner thread.

    Attributes:
        remote: None in a single broker.
    """

    def __init__(self, cluster: Callable[[], Cluster], topics: Topics, coordinator: ShareCoordinator) -> None:
        self.remote: RemoteShareStates | None = None
        self._cluster = cluster
        self._topics = topics
        self._coordinator = coordinator

    def read(self, key: SharePartitionKey, leader_epoch: int, done: ReadDone) -> None:
        """Call `done` with a state; see `ShareCoordinator.read_for_leader`. A single broker has no
        earlier leaders.
        """
        epoch = UNCHANGED if self._cluster().is_alone else leader_epoch
        self._route(
            key,
            lambda: self._coordinator.read_for_leader(key, epoch, done),
            lambda remote, node_id: remote.read(node_id, key, epoch, done),
            done,
        )

    def read_summary(self, key: SharePartitionKey, done: ReadDone) -> None:
        """Call `done` with a state, whose batches may be left out; None: there is none."""
        self._route(
            key,
            lambda: done(self._coordinator.read(key)),
            lambda remote, node_id: remote.read_summary(node_id, key, done),
            done,
        )

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int, done: Done) -> None:
        """Begin, or reset, a share partition; see `ShareCoordinator.initialize`."""
        self._route(
            key,
            lambda: self._coordinator.initialize(key, state_epoch, start_offset, done),
            lambda remote, node_id: remote.initialize(node_id, key, state_epoch, start_offset, done),
            done,
        )

    def write(
        self, key: SharePartitionKey, state_epoch: int, leader_epoch: int, update: ShareUpdate, done: Done
    ) -> None:
        """Change a share partition; see `ShareCoordinator.write`."""
        if not self._cluster().is_alone:
            update = update._replace(leader_epoch=leader_epoch)
        self._route(
            key,
            lambda: self._coordinator.write(key, state_epoch, update, done),
            lambda remote, node_id: remote.write(node_id, key, state_epoch, update, done),
            done,
        )

    def delete(self, key: SharePartitionKey, done: Done) -> None:
        """Forget a share partition; see `ShareCoordinator.delete`."""
        self._route(
            key,
            lambda: self._coordinator.delete(key, done),
            lambda remote, node_id: remote.delete(node_id, key, done),
            done,
        )

    def _route(
        self,
        key: SharePartitionKey,
        local: Callable[[], None],
        other: Callable[[RemoteShareStates, int], None],
        failed: Callable[[KqueueError], None],
    ) -> None:
        try:
            node_id = self._leader(key)
            if node_id == self._cluster().node_id:
                local()
            elif self.remote is None or node_id == NO_LEADER:
                raise CoordinatorNotAvailable(f"the coordinator of share partition {key.coordinator_key} is not known")
            else:
                other(self.remote, node_id)
        except KqueueError as error:
            failed(error)

    def _leader(self, key: SharePartitionKey) -> int:
        """Return the node id of a key's share coordinator; `NO_LEADER`: there is none yet."""
        if self._cluster().is_alone:
            return self._cluster().node_id
        if self._topics.find(SHARE_TOPIC) is None:
            try:
                self._topics.create_on_demand(SHARE_TOPIC)  # the caller tries again
            except KqueueError as error:
                raise CoordinatorNotAvailable(str(error)) from error
            return NO_LEADER
        return self._topics.partition(SHARE_TOPIC, self._coordinator.partition_of(key)).leader
