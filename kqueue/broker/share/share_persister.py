"""Reads and writes the states of share partitions at the share coordinators that have them: this
broker's, or another's. Source: Kafka's Persister, PersisterStateManager.

Errors reach `done`; no method raises. What the share coordinator of another broker has not answered
in time may have been written. In a cluster a coordinator that has moved, or is loading, is looked
for again, with a growing pause; `read` is not, as its caller does so for as long as it is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from kqueue.base.clock import Clock
from kqueue.base.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable, KqueueError, NotCoordinator
from kqueue.base.timers import Timers
from kqueue.broker.metadata.brokers import Cluster
from kqueue.broker.topics.topics import SHARE_TOPIC, Topics
from kqueue.replication.registrations import NO_LEADER
from kqueue.share.coordinator import ReadDone, ShareCoordinator
from kqueue.share.share_state import UNCHANGED, SharePartitionKey, ShareUpdate
from kqueue.share.state_log import Done

ATTEMPTS_MAX = 5
BACKOFF_MS = 1000
"""Before the second attempt; doubled before each further one. Source: Kafka's
PersisterStateManager.
"""
_MOVED = (NotCoordinator, CoordinatorNotAvailable, CoordinatorLoadInProgress)


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

    def __init__(
        self,
        cluster: Callable[[], Cluster],
        topics: Topics,
        coordinator: ShareCoordinator,
        timers: Timers,
        clock: Clock,
    ) -> None:
        self._timers = timers
        self._clock = clock
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
            lambda done: self._coordinator.read_for_leader(key, epoch, done),
            lambda remote, node_id, done: remote.read(node_id, key, epoch, done),
            done,
            attempts=1,
        )

    def read_summary(self, key: SharePartitionKey, done: ReadDone) -> None:
        """Call `done` with a state, whose batches may be left out; None: there is none."""
        self._route(
            key,
            lambda done: done(self._coordinator.read(key)),
            lambda remote, node_id, done: remote.read_summary(node_id, key, done),
            done,
        )

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int, done: Done) -> None:
        """Begin, or reset, a share partition; see `ShareCoordinator.initialize`."""
        self._route(
            key,
            lambda done: self._coordinator.initialize(key, state_epoch, start_offset, done),
            lambda remote, node_id, done: remote.initialize(node_id, key, state_epoch, start_offset, done),
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
            lambda done: self._coordinator.write(key, state_epoch, update, done),
            lambda remote, node_id, done: remote.write(node_id, key, state_epoch, update, done),
            done,
        )

    def delete(self, key: SharePartitionKey, done: Done) -> None:
        """Forget a share partition; see `ShareCoordinator.delete`."""
        self._route(
            key,
            lambda done: self._coordinator.delete(key, done),
            lambda remote, node_id, done: remote.delete(node_id, key, done),
            done,
        )

    def _route(
        self,
        key: SharePartitionKey,
        local: Callable[[Callable[[Any], None]], None],
        other: Callable[[RemoteShareStates, int, Callable[[Any], None]], None],
        done: Callable[[Any], None],
        attempts: int = ATTEMPTS_MAX,
    ) -> None:
        left = 0 if self._cluster().is_alone else attempts - 1
        pause_ms = BACKOFF_MS * 2 ** max(ATTEMPTS_MAX - attempts, 0)

        def answered(outcome: Any) -> None:
            if left and isinstance(outcome, _MOVED):
                at_ms = self._clock.monotonic_ms() + pause_ms
                self._timers.at(at_ms, lambda: self._route(key, local, other, done, left))
            else:
                done(outcome)

        try:
            node_id = self._leader(key)
            if node_id == self._cluster().node_id:
                local(answered)
            elif self.remote is None or node_id == NO_LEADER:
                raise CoordinatorNotAvailable(f"the coordinator of share partition {key.coordinator_key} is not known")
            else:
                other(self.remote, node_id, answered)
        except KqueueError as error:
            answered(error)

    def _leader(self, key: SharePartitionKey) -> int:
        """Return the node id of a key's share coordinator; `NO_LEADER`: there is none yet."""
        if self._cluster().is_alone:
            return self._cluster().node_id
        if self._topics.find(SHARE_TOPIC) is None:
            try:
                # As in Kafka the internal topic is made at its first use.
                self._topics.create_on_demand(SHARE_TOPIC)  # the caller tries again
            except KqueueError as error:
                raise CoordinatorNotAvailable(str(error)) from error
            return NO_LEADER
        return self._topics.partition(SHARE_TOPIC, self._coordinator.partition_of(key)).leader
