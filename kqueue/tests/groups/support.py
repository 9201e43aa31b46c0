"""A coordinator with its clock, its timers and a log that the test holds in its hands."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from kqueue.base.config import Config
from kqueue.base.coordinators import coordinator_partition
from kqueue.base.errors import KqueueError, MemberIdRequired, NotLeader
from kqueue.base.promise import Promise
from kqueue.base.settings import Catalog
from kqueue.base.sliced_task import run_to_end
from kqueue.base.timers import Timers
from kqueue.base.virtual_time import advance_in_steps
from kqueue.groups import config
from kqueue.groups.classic.group import ClassicGroup
from kqueue.groups.classic.member import JoinRequest, JoinResult
from kqueue.groups.config import GroupConfig
from kqueue.groups.consumer.group import ConsumerGroup
from kqueue.groups.consumer.member import Assignment, HeartbeatRequest, HeartbeatResult
from kqueue.groups.coordinator import GroupCoordinator
from kqueue.groups.limits import GroupLimits
from kqueue.groups.log.group_log import (
    Done,
    EndMarker,
    GroupRecords,
    LogEntry,
    TransactionalProducer,
    TransactionalRecord,
)
from kqueue.groups.log.records import OFFSET_VERSION
from kqueue.groups.modern.topics import TopicMetadata
from kqueue.groups.offsets.offset_manager import OffsetToCommit
from kqueue.groups.offsets.offset_store import UNSTABLE
from kqueue.groups.share.manager import Partitions
from kqueue.testing.manual_clock import ManualClock

PARTITIONS = 3
CATALOG = Catalog(config.SETTINGS)
RANGE = {"range": b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"}
"""The subscription of a consumer of topic ``t``."""


def unlimited() -> GroupLimits:
    """Bounds that no test reaches by chance."""
    return GroupLimits(GroupConfig(), ManualClock())


class HeldLog:
    """A `GroupLog` in memory. Commits at once, or, with `hold`, when the test says `release` or
    `fail`.
    """

    def __init__(self, partition_count: int = PARTITIONS) -> None:
        self.partition_count = partition_count
        self.offset_version = OFFSET_VERSION
        self.partitions: list[list[LogEntry]] = [[] for _ in range(partition_count)]
        self.hold = False
        self.broken: KqueueError | None = None
        self.held: list[tuple[int, Sequence[LogEntry], Done]] = []

    def append(
        self, partition: int, records: GroupRecords, done: Done, producer: TransactionalProducer | None = None
    ) -> None:
        assert records
        entries: Sequence[LogEntry] = records
        if producer is not None:
            entries = [TransactionalRecord(producer.producer_id, key, value) for key, value in records]
        self._append(partition, entries, done)

    def append_marker(self, partition: int, marker: EndMarker, done: Done) -> None:
        """Append the end of a transaction, as the layer above does."""
        self._append(partition, [marker], done)

    def _append(self, partition: int, entries: Sequence[LogEntry], done: Done) -> None:
        self.held.append((partition, entries, done))
        if not self.hold:
            self.release()

    def release(self, count: int | None = None) -> None:
        """Commit what was appended first; all of it by default. Fails it instead if the log is
        broken.
        """
        ready, self.held = self.held[:count], self.held[len(self.held) if count is None else count :]
        for partition, records, done in ready:
            if self.broken is None:
                self.partitions[partition].extend(records)
            done(self.broken)

    def fail(self, error: KqueueError) -> None:
        """Fail all that is held."""
        self.broken = error
        self.release()
        self.broken = None

    def records(self) -> Iterable[tuple[bytes, bytes | None]]:
        """All records without a transaction."""
        return (
            entry
            for partition in self.partitions
            for entry in partition
            if not isinstance(entry, TransactionalRecord | EndMarker)
        )


def leave_and_return(world: World, survive: int = 0) -> None:
    """Another broker coordinates all groups for a while; nothing is written there.

    Args: survive: so many of the writes under way are in the log then, the others are lost.
    """
    held, world.log.held = world.log.held, []
    for partition in range(world.log.partition_count):
        run_to_end(world.groups.unload(partition))
    assert not world.groups._groups
    assert (world.groups.limits.member_bytes, world.groups.limits.offset_bytes) == (0, 0)
    for partition, entries, _ in held[:survive]:
        world.log.partitions[partition].extend(entries)
    for number, (*_, done) in enumerate(held):
        done(None if number < survive else NotLeader("moved"))
    for partition, log_entries in enumerate(world.log.partitions):
        world.groups.begin_loading(partition)
        run_to_end(world.groups.load(partition, iter(log_entries)))


class FakeTopics:
    """A cluster's topics; ``t`` has four partitions and ``u`` two."""

    def __init__(self) -> None:
        self.version = 0
        self._topics: dict[str, TopicMetadata] = {}
        self.put("t", 4)
        self.put("u", 2)

    def put(self, name: str, count: int) -> bytes:
        """Create a topic, or give it so many partitions; returns its id."""
        id = name.encode().rjust(16, b"\1")
        self._topics[name] = TopicMetadata(id, name, count)
        self.version += 1
        return id

    def delete(self, name: str) -> None:
        """Delete a topic."""
        del self._topics[name]
        self.version += 1

    def find(self, name: str) -> TopicMetadata | None:
        return self._topics.get(name)

    def name_of(self, id: bytes) -> str | None:
        return next((topic.name for topic in self._topics.values() if topic.id == id), None)

    def names(self) -> list[str]:
        return sorted(self._topics)


class ReadyStates:
    """A `ShareStates` whose share coordinator answers at once."""

    def initialize(
        self, group_id: str, partitions: Partitions, state_epoch: int, done: Callable[[KqueueError | None], None]
    ) -> None:
        done(None)

    def delete_group(self, group_id: str, partitions: Partitions) -> None:
        pass


class World:
    """One coordinator in its surroundings; `settings` as keywords with underscores."""

    def __init__(
        self,
        log: HeldLog | None = None,
        clock: ManualClock | None = None,
        seed: int = 1,
        topics: FakeTopics | None = None,
        **settings: object,
    ) -> None:
        values = {
            "group.initial.rebalance.delay.ms": 0,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        self.config = Config(CATALOG, values)
        self.seed = seed
        self.clock = clock or ManualClock()
        self.timers = Timers(self.clock)
        self.log = log or HeldLog()
        self.topics = topics or FakeTopics()
        self.settings: dict[str, dict[str, Any]] = {}
        self.woken: list[Promise[Any]] = []
        self.groups = GroupCoordinator(
            self.config,
            self.clock,
            self.timers,
            random.Random(seed),
            self.log,
            self.woken.append,
            topics=self.topics,
            settings=lambda group_id: self.settings.get(group_id, {}),
        )
        self.groups.share.states = ReadyStates()
        for partition, records in enumerate(self.log.partitions):
            run_to_end(self.groups.load(partition, iter(records)))

    def classic_groups(self) -> dict[str, ClassicGroup]:
        """The classic groups, by id."""
        groups = self.groups._groups.items()
        return {group_id: group for group_id, group in groups if isinstance(group, ClassicGroup)}

    def advance(self, ms: float) -> None:
        """Let time pass, ringing each timer at its time."""
        for _ in advance_in_steps(self.timers, self.clock, ms):
            pass

    def settle(self) -> None:
        """Ring what is due now."""
        self.advance(0)

    def restarted(self, **settings: object) -> World:
        """Another coordinator that starts from what the log holds."""
        log = HeldLog(self.log.partition_count)
        log.partitions = self.log.partitions
        return World(log, self.clock, self.seed + 1, self.topics, **settings)

    def join(
        self,
        group_id: str = "g",
        member_id: str = "",
        *,
        instance_id: str | None = None,
        protocols: dict[str, bytes] | None = None,
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        id_required: bool = False,
        can_skip: bool = True,
    ) -> Promise[JoinResult]:
        joining = JoinRequest(
            group_id,
            member_id,
            instance_id,
            protocol_type,
            RANGE if protocols is None else protocols,
            session_ms,
            rebalance_ms,
            "client",
            "/127.0.0.1",
        )
        return self.groups.join(joining, id_required=id_required, can_skip=can_skip)

    def consume(
        self,
        member_id: str = "m",
        epoch: int = 0,
        *,
        group_id: str = "g",
        topics: list[str] | None = None,
        owned: Assignment | None = None,
        **options: Any,
    ) -> HeartbeatResult:
        """A heartbeat of a member of a consumer group; one that joins reads ``t``."""
        promise = self.beat_consumer(member_id, epoch, group_id=group_id, topics=topics, owned=owned, **options)
        return promise.result()

    def beat_consumer(
        self,
        member_id: str = "m",
        epoch: int = 0,
        *,
        group_id: str = "g",
        topics: list[str] | None = None,
        owned: Assignment | None = None,
        **options: Any,
    ) -> Promise[HeartbeatResult]:
        """The promise of `consume`."""
        if epoch == 0:
            options = {"rebalance_timeout_ms": 60_000, **options}
            owned = {} if owned is None else owned
            if topics is None and "regex" not in options:
                topics = ["t"]
        request = HeartbeatRequest(
            group_id, member_id, epoch, topics=topics, owned=owned, client_id="client", client_host="/h", **options
        )
        return self.groups.consumer.heartbeat(request)

    def consumer_group(self, group_id: str = "g") -> ConsumerGroup:
        """A consumer group that exists."""
        group = self.groups.consumer.find(group_id)
        assert group is not None
        return group

    def enter(self, group_id: str = "g", **options: Any) -> str:
        """Join as a newcomer does that is first given its id; returns the id. The join itself goes
        on.
        """
        with pytest.raises(MemberIdRequired) as refusal:
            self.join(group_id, id_required=True, **options)
        member_id: str = refusal.value.member_id
        self.join(group_id, member_id, id_required=True, **options)
        return member_id

    def stable(self, count: int = 1, group_id: str = "g", **options: Any) -> list[JoinResult]:
        """A group of `count` members whose assignments are ``b"0"``, ``b"1"``, …; the leader comes
        first.
        """
        promises = [self.join(group_id, **options) for _ in range(count)]
        self.settle()
        joined = [promise.result() for promise in promises]
        leader = next(one for one in joined if one.members)
        others = [one for one in joined if one is not leader]
        for broker in others:
            self.sync(broker, group_id=group_id)
        self.sync(leader, {one.member_id: b"%d" % number for number, one in enumerate([leader, *others])}, group_id)
        return [leader, *others]

    def sync(
        self, joined: JoinResult, assignments: dict[str, bytes] | None = None, group_id: str = "g", **options: Any
    ) -> Promise[Any]:
        return self.groups.sync(group_id, joined.generation, joined.member_id, None, assignments or {}, **options)

    def state(self, group_id: str = "g") -> str:
        return self.groups.describe(group_id).state.value


def commit_simple(
    world: World, number: int = 1, topic: str = "t", partition: int = 0, group_id: str = "g", **options: Any
) -> Any:
    """A commit of a consumer without group management."""
    return world.groups.commit(group_id, -1, "", None, [OffsetToCommit(topic, partition, number)], **options)


def committed_offsets(world: World, group_id: str = "g") -> dict[tuple[str, int], int]:
    offsets = world.groups.offsets(group_id)
    return {
        (topic, partition): one.offset for topic, partitions in offsets.items() for partition, one in partitions.items()
    }


def is_pending(groups: GroupCoordinator, group_id: str, topic: str, partition: int) -> bool:
    """Whether an open transaction may replace an offset."""
    offsets = groups.fetch_offsets(group_id, topic, None, [partition], require_stable=True)
    return offsets[partition] is UNSTABLE


def group_ids(world: World) -> set[str]:
    return {group.group_id for group in world.groups.groups()}


def beat(world: World, joined: JoinResult, generation: int | None = None, instance_id: str | None = None) -> None:
    world.groups.heartbeat("g", joined.generation if generation is None else generation, joined.member_id, instance_id)


def stable_static(world: World, **options: Any) -> tuple[JoinResult, JoinResult]:
    """A leader with instance id ``i`` and a follower with ``j``, each with its instance id as
    assignment.
    """
    promises = [world.join(instance_id=name, **options) for name in "ij"]
    world.settle()
    leader, other = (promise.result() for promise in promises)
    world.groups.sync("g", 1, other.member_id, "j", {})
    world.groups.sync("g", 1, leader.member_id, "i", {leader.member_id: b"i", other.member_id: b"j"})
    return leader, other


def commit_transactional(
    world: World, number: int = 1, producer_id: int = 7, topic: str = "t", partition: int = 0, group_id: str = "g"
) -> Any:
    """A commit in a transaction, without member and generation."""
    producer = TransactionalProducer(producer_id, 0)
    offsets = [OffsetToCommit(topic, partition, number)]
    return world.groups.commit_in_transaction(group_id, producer, -1, "", None, offsets)


def end_transaction(world: World, producer_id: int = 7, *, committed: bool = True, group_id: str = "g") -> None:
    """Write the marker to the partition that keeps a group, and complete the transaction."""
    partition = coordinator_partition(group_id, world.log.partition_count)

    def done(error: KqueueError | None) -> None:
        if error is None:
            world.groups.complete_transaction(producer_id, partition, committed)

    world.log.append_marker(partition, EndMarker(producer_id, committed), done)
