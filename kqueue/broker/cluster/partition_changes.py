"""Changes of replicas and leaders that clients ask for: reassignments and elections.

Whoever is asked commits: all changes of one topic in one commit that its record guards (rule 7). If
another writer was first, they are computed again from what it wrote. The controller finishes what
was begun. Durability: stored when the promise is done; a crash before has all changes of a topic or
none. Source: Kafka's ReplicationControlManager.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from operator import is_not
from typing import Generic, NamedTuple, TypeVar

from kqueue.base.errors import Conflict, InvalidReplicationFactor, KqueueError, UnknownTopicOrPartition
from kqueue.base.promise import Promise
from kqueue.base.slice_queue import SliceQueue
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.metadata.brokers import Cluster
from kqueue.broker.metadata.cache import MetadataCache
from kqueue.broker.topics.topics import Topic, Topics
from kqueue.replication.elections import elect, elect_preferred, elect_unclean, raise_epochs
from kqueue.replication.errors import ElectionNotNeeded, EligibleLeadersNotAvailable, PreferredLeaderNotAvailable
from kqueue.replication.reassignments import cancel_reassignment, start_reassignment
from kqueue.replication.registrations import NO_LEADER, TOPICS_PREFIX, BrokerRegistration, PartitionRegistration

MIN_ISR = "min.insync.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"
ATTEMPTS_MAX = 10
"""Commits of one change until it is given up: each fails only if another writer succeeded."""

T = TypeVar("T")
Change = tuple[int, T]
"""The index of a partition, and what is asked for it."""
Outcomes = list[KqueueError | None]
"""For each change in order: why it is refused, or None."""


class Election(enum.Enum):
    """PREFERRED: the first replica leads. UNCLEAN: a partition without a leader gets any."""

    PREFERRED = "preferred"
    UNCLEAN = "unclean"


_UNAVAILABLE: dict[Election, type[KqueueError]] = {
    Election.PREFERRED: PreferredLeaderNotAvailable,
    Election.UNCLEAN: EligibleLeadersNotAvailable,
}


class _Surroundings(NamedTuple):
    """The brokers as one attempt sees them. `active`: ids of those that may lead."""

    brokers: Mapping[int, BrokerRegistration]
    active: frozenset[int]


_Edit = Callable[[Topic, PartitionRegistration, T, _Surroundings], PartitionRegistration]


class _Request(NamedTuple, Generic[T]):
    """The changes asked for one topic.

    Attributes:
        what: completes "could not ..." in errors.
        edit: returns a partition as it is wanted, or raises why not.
    """

    what: str
    name: str
    changes: Sequence[Change[T]]
    edit: _Edit[T]
    promise: Promise[Outcomes]


class PartitionChanges:
    """Makes the changes of all topics.

    Its methods are sliced work: a request may name very many partitions. They return the promise
    of the outcomes, which fails with StorageFailed or Conflict, or UnknownTopicOrPartition if the
    topic is deleted meanwhile.
    """

    def __init__(self, topics: Topics, metadata: MetadataCache, cluster: Cluster, slices: SliceQueue) -> None:
        self._topics = topics
        self._metadata = metadata
        self._cluster = cluster
        self._slices = slices

    def reassign(
        self, name: str, changes: Sequence[Change[Sequence[int] | None]], *, same_factor: bool = False
    ) -> SlicedWork[Promise[Outcomes]]:
        """Begin to move partitions to other replicas; None cancels a move.

        Args: same_factor: refuse other numbers of replicas than before.
        Raises: UnknownTopicOrPartition: there is no such topic.
        """

        def edit(
            topic: Topic, partition: PartitionRegistration, target: Sequence[int] | None, seen: _Surroundings
        ) -> PartitionRegistration:
            if target is None:
                return cancel_reassignment(
                    partition, seen.active, topic.config[MIN_ISR], topic.config[UNCLEAN_ELECTION]
                )
            factor = len(partition.replicas) - len(partition.adding)
            if same_factor and len(target) != factor:
                raise InvalidReplicationFactor(
                    f"{len(target)} replicas instead of {factor}, and the request allows no other number"
                )
            return start_reassignment(partition, target, seen.brokers)

        return self._make(_Request(f"move partitions of topic {name}", name, changes, edit, Promise()))

    def elect(self, name: str, indexes: Sequence[int], election: Election) -> SlicedWork[Promise[Outcomes]]:
        """Elect leaders. Raises: UnknownTopicOrPartition: there is no such topic."""

        def edit(
            topic: Topic, partition: PartitionRegistration, index: int, seen: _Surroundings
        ) -> PartitionRegistration:
            if self._cluster.is_alone and topic.partitions[index].is_offline:
                raise _UNAVAILABLE[election](f"the log of {topic.name}-{index}, its only replica, is offline")
            return elected(partition, election, seen.active, topic.config[MIN_ISR])

        changes = [(index, index) for index in indexes]
        return self._make(_Request(f"elect leaders of topic {name}", name, changes, edit, Promise()))

    def _make(self, request: _Request[T]) -> SlicedWork[Promise[Outcomes]]:
        yield from self._attempt(request, ATTEMPTS_MAX)
        return request.promise

    def _attempt(self, request: _Request[T], left: int) -> SlicedWork[None]:
        topic = self._topics.get(request.name)
        known = [partition.registration for partition in topic.partitions]
        brokers = {broker.id: broker for broker in self._cluster.all()}
        seen = _Surroundings(brokers, frozenset(broker.id for broker in brokers.values() if broker.is_active))
        after = list(known)
        outcomes: Outcomes = []
        for index, wanted in request.changes:
            try:
                if not 0 <= index < len(after):
                    raise UnknownTopicOrPartition(
                        f"topic {topic.name} has partitions 0 to {len(after) - 1}, not {index}"
                    )
                after[index] = request.edit(topic, after[index], wanted, seen)
                outcomes.append(None)
            except KqueueError as error:
                outcomes.append(error.with_traceback(None))  # it would keep the request's frames
            yield None
        # By identity: a registration is replaced, never changed, so a comparison of thousands costs
        # little.
        if self._topics.get(request.name) is not topic or any(map(is_not, _registrations(topic), known)):
            self._again(request, left)  # changed between two slices
        elif any(map(is_not, after, known)):
            record = topic.registration(after).to_bytes()
            self._metadata.commit(
                request.what,
                {TOPICS_PREFIX + request.name: record},
                lambda error: self._committed(request, outcomes, error, left),
            )
        else:
            self._metadata.resolve(request.promise, outcomes)

    def _committed(self, request: _Request[T], outcomes: Outcomes, error: KqueueError | None, left: int) -> None:
        if isinstance(error, Conflict):
            self._again(request, left, error)
        elif error is not None:
            self._metadata.fail(request.promise, error)
        else:
            self._metadata.resolve(request.promise, outcomes)

    def _again(self, request: _Request[T], left: int, error: Conflict | None = None) -> None:
        if left <= 1:
            self._metadata.fail(request.promise, error or Conflict(f"could not {request.what}: it changes too often"))
            return

        def attempt() -> SlicedWork[None]:
            try:
                yield from self._attempt(request, left - 1)
            except KqueueError as failure:
                self._metadata.fail(request.promise, failure)

        self._slices.add(attempt())


def _registrations(topic: Topic) -> Iterator[PartitionRegistration]:
    return (partition.registration for partition in topic.partitions)


def elected(
    partition: PartitionRegistration, election: Election, active: Container[int], min_isr: int
) -> PartitionRegistration:
    """Return the partition with the leader that is asked for.

    Raises:
        ElectionNotNeeded: it leads already; for an unclean election: anybody does.
        PreferredLeaderNotAvailable: the first replica is not in sync, or its broker is fenced.
        EligibleLeadersNotAvailable: no replica's broker is there.
    """
    if election is Election.PREFERRED:
        preferred = partition.replicas[0]
        if partition.leader == preferred:
            raise ElectionNotNeeded(f"broker {preferred}, the preferred leader, leads the partition already")
        after = elect_preferred(partition, active)
        if after.leader != preferred:
            state = "not in sync" if preferred in active else "fenced or shut down"
            raise PreferredLeaderNotAvailable(f"broker {preferred}, the preferred leader, is {state}")
        return raise_epochs(partition, after)
    if partition.leader != NO_LEADER:
        raise ElectionNotNeeded(f"broker {partition.leader} leads the partition")
    after = elect(partition, active, min_isr)
    if after.leader == NO_LEADER:
        after = elect_unclean(partition, active)
    if after.leader == NO_LEADER:
        replicas = ", ".join(map(str, partition.replicas))
        raise EligibleLeadersNotAvailable(f"none of the replicas' brokers serves: {replicas}")
    return raise_epochs(partition, after)
