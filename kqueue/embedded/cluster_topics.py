"""The part of `kqueue.Cluster` that shows and changes leaders and replicas."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from kqueue.base.clock import monotonic_s
from kqueue.base.errors import UnknownTopicOrPartition
from kqueue.base.names import did_you_mean
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.cluster.partition_changes import Election, Outcomes, PartitionChanges
from kqueue.embedded.argument_checks import check_broker_id, check_kind, check_list, check_seconds
from kqueue.embedded.event_loops import check_may_block
from kqueue.replication.errors import ElectionNotNeeded
from kqueue.replication.registrations import NO_LEADER, TOPICS_PREFIX, PartitionRegistration, TopicRegistration

if TYPE_CHECKING:
    from kqueue.app import Server
    from kqueue.embedded.cluster_broker import ClusterBroker
    from kqueue.metadata.store import ClusterStore

T = TypeVar("T")
POLL_S = 0.002
WAIT_S = 10.0
"""The seconds that the methods wait unless `within_s` says otherwise."""


class ClusterTopicsMixin(ABC):
    """Leaders and replicas of a cluster.

    What it returns is what the metadata store has. Brokers learn it some milliseconds later; the
    methods that change something, or wait, return once all have that run and reach the store.
    Thread: every method may be called from any thread but the brokers' own.
    """

    brokers: tuple[ClusterBroker, ...]
    _store: ClusterStore

    @abstractmethod
    def _call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T: ...

    @abstractmethod
    def _check_running(self) -> None: ...

    # --- what there is

    @property
    def controller(self) -> int | None:
        """The node id of the controller; None: there is none at the moment."""
        self._check_running()
        holder = self._store.controller()
        return None if holder is None else holder.node_id

    def leader(self, topic: str, partition: int = 0) -> int | None:
        """Return the leader of a partition; None: it has none. Raises UnknownTopicOrPartition."""
        leader = self._registration(topic, partition).leader
        return None if leader == NO_LEADER else leader

    def isr(self, topic: str, partition: int = 0) -> list[int]:
        """Return the in-sync replicas of a partition, sorted. Raises: UnknownTopicOrPartition."""
        return sorted(self._registration(topic, partition).isr)

    def replicas(self, topic: str, partition: int = 0) -> list[int]:
        """Return the replicas of a partition, the preferred leader first. Raises:
        UnknownTopicOrPartition.
        """
        return list(self._registration(topic, partition).replicas)

    # --- changes

    def create_topic(
        self,
        /,
        name: str,
        partitions: int | None = None,
        *,
        replication_factor: int | None = None,
        replicas: Mapping[int, Sequence[int]] | None = None,
        **configs: object,
    ) -> None:
        """Create a topic, see `EmbeddedNode.create_topic`; returns once all brokers know it."""
        self._any_broker().create_topic(
            name, partitions, replication_factor=replication_factor, replicas=replicas, **configs
        )
        self._wait(lambda: self._find_problem([name], in_sync=False), WAIT_S)

    def elect(self, topic: str, partition: int = 0, *, leader: int | None = None, unclean: bool = False) -> int:
        """Elect a leader, and return it: the preferred one, which is the first replica.

        Args:
            leader: make this replica, which must be in sync, the preferred one before.
            unclean: elect any replica, for a partition without a leader. Records may be lost.
        Raises: PreferredLeaderNotAvailable, EligibleLeadersNotAvailable, UnknownTopicOrPartition.
            ValueError: `leader` is no replica.
        """
        if leader is not None:
            check_broker_id("elect: leader", leader, self.brokers)
            others = self.replicas(topic, partition)
            if leader not in others:
                raise ValueError(f"broker {leader} is no replica of {topic}-{partition}, which has {others}")
            others.remove(leader)
            self._change(lambda changes: changes.reassign(topic, [(partition, [leader, *others])]))
        kind = Election.UNCLEAN if unclean else Election.PREFERRED
        with contextlib.suppress(ElectionNotNeeded):
            self._change(lambda changes: changes.elect(topic, [partition], kind))
        return self.wait_leader(topic, partition)

    def reassign(self, topic: str, partition: int, replicas: Sequence[int], *, within_s: float = WAIT_S) -> None:
        """Move a partition to these replicas; returns once they are the only ones, and in sync.

        Raises: InvalidReplicaAssignment, UnknownTopicOrPartition. TimeoutError: it goes on.
        """
        check_list("replicas", replicas, "a list of node ids, the preferred leader first")
        self._change(lambda changes: changes.reassign(topic, [(partition, list(replicas))]))

        def look() -> str | None:
            registration = self._registration(topic, partition)
            if registration.adding or registration.removing:
                return (
                    f"{topic}-{partition} is still being moved: {registration.adding} are added, "
                    f"{registration.removing} removed"
                )
            return self._find_problem([topic])

        self._wait(look, within_s)

    # --- waiting

    def wait_leader(
        self, topic: str, partition: int = 0, *, other_than: int | None = None, within_s: float = WAIT_S
    ) -> int:
        """Wait until a running broker leads the partition, and all running ones know it; return it.

        Args: other_than: not this broker.
        Raises: TimeoutError. UnknownTopicOrPartition. RuntimeError: this thread runs an event loop;
            use ``await cluster.aio.wait_leader("orders")``.
        """

        def look() -> str | None:
            registration = self._registration(topic, partition)
            if registration.leader == other_than or not self._serves(registration.leader):
                leader = "nobody" if registration.leader < 0 else f"broker {registration.leader}"
                return f"{topic}-{partition} is led by {leader}"
            return self._unknown_to(topic, partition, registration)

        if other_than is not None:
            check_broker_id("wait_leader: other_than", other_than, self.brokers)
        check_may_block("await cluster.aio.wait_leader(...)")
        self._wait(look, within_s)
        return self._registration(topic, partition).leader

    def wait_in_sync(self, *topics: str, within_s: float = WAIT_S) -> None:
        """Wait until each partition is led by a running broker, and its in-sync replicas are those
        of the running brokers, as all of them know. Brokers that are paused, or can't reach the
        metadata store, do not count as running.

        Args: topics: None: all, the brokers' own too.
        Raises: TimeoutError: with the first partition of which that is not so. RuntimeError: as
            `wait_leader`.
        """
        for topic in topics:
            check_kind("wait_in_sync: a topic", topic, str, 'names of topics, such as wait_in_sync("orders")')
        check_may_block("await cluster.aio.wait_in_sync()")
        self._wait(lambda: self._find_problem(topics or None), within_s)

    def _wait_relieved(self, id: int) -> None:
        """Wait until the running brokers know that a broker leads nothing, if any run."""

        def look() -> str | None:
            if not any(broker.serves for broker in self.brokers):
                return None
            for name, registration in self._topics(None).items():
                if any(partition.leader == id for partition in registration.partitions):
                    return f"broker {id} leads {name}"
            return self._find_problem(in_sync=False)

        self._wait(look, WAIT_S)

    def _wait(self, look: Callable[[], str | None], within_s: float) -> None:
        check_seconds("within_s", within_s)

        async def poll() -> None:
            deadline = monotonic_s() + within_s
            while (problem := look()) is not None:
                if monotonic_s() >= deadline:
                    raise TimeoutError(f"{problem} (after {within_s:g} s)")
                await asyncio.sleep(POLL_S)

        self._call(poll)

    # --- in the brokers' thread

    def _serves(self, id: int) -> bool:
        return 0 <= id < len(self.brokers) and self.brokers[id].serves

    def _find_problem(self, topics: Sequence[str] | None = None, *, in_sync: bool = True) -> str | None:
        """Return what is missing until the running brokers agree and are in sync; None: nothing."""
        for broker in self.brokers:
            if broker.serves and not broker.is_unfenced:
                return f"broker {broker.id} is fenced"
        for name, registration in self._topics(topics).items():
            for index, partition in enumerate(registration.partitions):
                problem = self._out_of_sync(name, index, partition) if in_sync else None
                problem = problem or self._unknown_to(name, index, partition)
                if problem is not None:
                    return problem
        return None

    def _out_of_sync(self, topic: str, index: int, registration: PartitionRegistration) -> str | None:
        serving = {id for id in registration.replicas if self._serves(id)}
        if not serving or (registration.leader in serving and serving == set(registration.isr)):
            return None
        return (
            f"{topic}-{index} has leader {registration.leader} and in-sync replicas {sorted(registration.isr)}; "
            f"of its replicas {sorted(registration.replicas)} run {sorted(serving)}"
        )

    def _unknown_to(self, topic: str, index: int, registration: PartitionRegistration) -> str | None:
        for broker in self.brokers:
            if broker.serves and not broker.knows(topic, index, registration.partition_epoch):
                epoch = registration.partition_epoch
                return f"broker {broker.id} does not know partition epoch {epoch} of {topic}-{index}"
        return None

    def _topics(self, names: Sequence[str] | None) -> Mapping[str, TopicRegistration]:
        """Return what the store has. Raises: UnknownTopicOrPartition."""
        entries = self._store.read(TOPICS_PREFIX)
        known = {key.removeprefix(TOPICS_PREFIX): entry.value for key, entry in entries.items()}
        missing = next((name for name in names or () if name not in known), None)
        if missing is not None:
            raise UnknownTopicOrPartition(f"there is no topic {missing!r}{did_you_mean(missing, known)}")
        return {name: TopicRegistration.from_bytes(name, known[name]) for name in (known if names is None else names)}

    def _leaders_of(self, topic: str) -> list[int | None]:
        self._check_running()
        leaders = [partition.leader for partition in self._topics([topic])[topic].partitions]
        return [leader if self._serves(leader) else None for leader in leaders]

    def _registration(self, topic: str, partition: int) -> PartitionRegistration:
        check_kind("topic", topic, str, "the name of a topic")
        check_kind("partition", partition, int, "the number of a partition")
        self._check_running()
        partitions = self._topics([topic])[topic].partitions
        if not 0 <= partition < len(partitions):
            raise UnknownTopicOrPartition(f"topic {topic} has partitions 0 to {len(partitions) - 1}, not {partition}")
        return partitions[partition]

    # --- calls of one broker

    def _any_broker(self) -> ClusterBroker:
        serving = next((broker for broker in self.brokers if broker.serves), None)
        if serving is None:
            raise RuntimeError("no broker of the cluster runs and reaches the metadata store")
        return serving

    def _change(self, change: Callable[[PartitionChanges], SlicedWork[Promise[Outcomes]]]) -> None:
        """Make a change of one partition by any broker. Raises: why it is refused."""

        async def work(server: Server) -> Outcomes:
            return await server.result(_finish(change(server.broker.replicas.changes)))

        for refusal in self._any_broker()._ask(work):
            if refusal is not None:
                raise refusal


def _finish(work: SlicedWork[T]) -> T:
    try:
        while True:
            next(work)
    except StopIteration as end:
        result: T = end.value
        return result
