"""The group coordinator: all groups of this broker and their committed offsets.

The invariant: memory holds what a replay of `__consumer_offsets` gives. A change is appended there
before a client sees it, so a restart never takes back a confirmed commit. The coordinator has no
thread, clock or randomness of its own; the layers above call it on the owner thread.

    coordinator                 requests of classic members, offsets, and the table of groups
    group_types                 what is asked of a group of any type: its manager answers
    group_registration          new classic groups
    group_partitions            loads and unloads of partitions of the log
    group_loader                the groups of one partition of the log
    classic/membership_manager  joins, heartbeats, static members, leaves
    classic/rebalancer          join phase, generation, assignment
    consumer/manager            heartbeats of consumer groups
    share/manager               heartbeats of share groups
    streams/manager             heartbeats of streams groups
    modern/manager              members and timers of the three modern types
    modern/target_assignment    their assignments
    modern/write_queue          changes of modern groups: to memory, to the log, answered
    offsets/offset_manager      commits and deletions of offsets, within transactions and without
    log/group_writer            records to the log
    log/log_replay              records from the log
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kqueue.base.clock import Clock
from kqueue.base.config import Config
from kqueue.base.coordinators import PartitionedTable
from kqueue.base.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    GroupIdNotFound,
    IllegalGeneration,
    UnknownMember,
)
from kqueue.base.promise import Promise
from kqueue.base.slice_queue import SliceQueue
from kqueue.base.sliced_task import SlicedWork
from kqueue.base.timers import Timers
from kqueue.groups.classic.group import ClassicGroup, GroupDescription
from kqueue.groups.classic.manager import ClassicGroupManager
from kqueue.groups.classic.member import JoinRequest, JoinResult, LeavingMember, SyncResult
from kqueue.groups.classic.membership_manager import MembershipManager
from kqueue.groups.classic.rebalancer import Rebalancer
from kqueue.groups.config import GroupConfig
from kqueue.groups.consumer.classic_members import ClassicMembers
from kqueue.groups.consumer.group_conversion import GroupConversion
from kqueue.groups.consumer.manager import ConsumerGroupManager
from kqueue.groups.errors import GroupSubscribedToTopic, NonEmptyGroup, check_named
from kqueue.groups.group import Committer, Group, GroupType
from kqueue.groups.group_loader import GroupLoader
from kqueue.groups.group_partitions import GroupPartitions
from kqueue.groups.group_registration import GroupRegistration
from kqueue.groups.group_removal import GroupRemoval
from kqueue.groups.group_types import Managers
from kqueue.groups.limits import GroupLimits
from kqueue.groups.log.group_log import Done, GroupLog, LogEntry, TransactionalProducer, Wake
from kqueue.groups.log.group_writer import GroupWriter
from kqueue.groups.log.records import CommittedOffset
from kqueue.groups.modern.environment import Environment, GroupSettings
from kqueue.groups.modern.topics import TopicsMetadata
from kqueue.groups.modern.write_queue import WriteQueue
from kqueue.groups.offsets.offset_manager import OffsetManager, OffsetToCommit, Outcomes
from kqueue.groups.offsets.offset_store import OffsetObserver
from kqueue.groups.offsets.pending_offsets import TopicPartition
from kqueue.groups.share.manager import ShareGroupManager
from kqueue.groups.streams.manager import StreamsGroupManager


class GroupListing(NamedTuple):
    """A group in the list of all."""

    group_id: str
    protocol_type: str
    state: str
    type: GroupType


class GroupCoordinator:
    """All groups of one broker.

    Methods return a value, raise a RequestRefused, or return a promise. `wake(promise)` is called
    when a promise is resolved or fails later.

    Durability: when a promise is resolved, its change is committed in the log (`GroupLog.append`).
    Thread: the owner thread.
    """

    def __init__(
        self,
        config: Config,
        clock: Clock,
        timers: Timers,
        rng: random.Random,
        log: GroupLog,
        wake: Wake,
        topics: TopicsMetadata,
        settings: GroupSettings,
    ) -> None:
        """Take the parts. `topics`: of the cluster. `settings`: those that were set for a group."""
        self.config = GroupConfig.of(config)
        self.limits = GroupLimits(self.config, clock)
        self._clock = clock
        self._wake = wake
        self._writer = GroupWriter(log, timers, clock, lambda: self.config.commit_timeout_ms)
        self._groups: PartitionedTable[str, Group] = PartitionedTable(self._writer.of)
        self._offsets = OffsetManager(
            self.config, clock, self.limits, self._writer, wake, self._ensure_group, log.offset_version
        )
        save = self._save
        self._rebalancer = Rebalancer(self.config, clock, timers, self.limits, save, wake)
        self._membership = MembershipManager(self.config, clock, timers, rng, self.limits, self._rebalancer, save)
        queue = WriteQueue(self._writer, wake)
        self._registration = GroupRegistration(self._groups, self._writer, self._rebalancer, clock, self._keep_offsets)
        environment = Environment(self.config, clock, timers, self.limits, self._groups, queue, topics, settings)
        conversion = GroupConversion(
            self.config, self._groups, self._membership, self._rebalancer, self.limits, topics, clock
        )
        self.consumer = ConsumerGroupManager(environment, rng, conversion)
        self._classic_members = self.consumer.classic_members = ClassicMembers(environment, self.consumer, rng)
        self.share = ShareGroupManager(environment)
        self.streams = StreamsGroupManager(environment, conversion.remove_classic)
        self._classic = ClassicGroupManager(self._groups, self._membership, self._rebalancer, clock)
        self._managers: Managers = {
            GroupType.CLASSIC: self._classic,
            GroupType.CONSUMER: self.consumer,
            GroupType.SHARE: self.share,
            GroupType.STREAMS: self.streams,
        }
        self._removal = GroupRemoval(
            self.config, self._groups, self._rebalancer, self._offsets, queue, self._managers, clock, wake
        )
        self._completions = SliceQueue(timers, clock)
        loader = GroupLoader(self._groups, self._membership, self._offsets, self.limits, self._ensure_group)
        self._partitions = GroupPartitions(
            self._groups, self._writer, loader, self._managers, self._offsets, self._completions
        )
        slices = SliceQueue(timers, clock)
        timers.every(self.config.retention_check_interval_ms, lambda: slices.add_once("expire", self._removal.expire()))

    # --- members

    def join(self, request: JoinRequest, *, id_required: bool, can_skip: bool) -> Promise[JoinResult]:
        """Add a member to the group's next generation.

        Args:
            id_required: a new dynamic member first gets an id to join with (JoinGroup 4 and later).
            can_skip: the client knows `JoinResult.skip_assignment` (JoinGroup 9 and later).
        Returns: a promise that the next generation resolves. It fails with UnknownMember,
            FencedInstanceId, RebalanceInProgress (the member has asked again), or with what
            `coordinator_error` makes of a failed write.
        Raises: InvalidGroupId, InvalidSessionTimeout, UnknownMember, FencedInstanceId,
            InconsistentGroupProtocol, GroupMaxSizeReached, MemberIdRequired,
            CoordinatorNotAvailable, NotCoordinator.
        """
        self._check_group_id(request.group_id)
        self._membership.check_session_timeout(request.session_timeout_ms)
        group = self._groups.get(request.group_id)
        if group is not None:
            joined = self._managers[group.type].join(group, request, id_required=id_required, can_skip=can_skip)
            if joined is not None:
                return joined
        if request.member_id:
            raise UnknownMember(f"there is no group {request.group_id!r}")
        self.limits.check_new_group(request.group_id, len(self._groups))
        created = self._rebalancer.new_group(request.group_id)
        try:
            return self._membership.join(created, request, id_required=id_required, can_skip=can_skip)
        finally:
            if created.members or created.pending:  # else the member was refused
                self._registration.register(created)

    def sync(
        self,
        group_id: str,
        generation: int,
        member_id: str,
        instance_id: str | None,
        assignments: Mapping[str, bytes],
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> Promise[SyncResult]:
        """Return a promise of a member's assignment.

        Args:
            assignments: from the leader, member id -> assignment; empty from the others. The
                assignments are opaque.
            protocol_type, protocol_name: must be the group's, unless None.
        Returns: a promise that resolves when the leader's assignments are in the log. It fails with
            RebalanceInProgress, UnknownMember, FencedInstanceId, or with what `coordinator_error`
            makes of a failed write.
        Raises: InvalidGroupId, UnknownMember, FencedInstanceId, IllegalGeneration,
            InconsistentGroupProtocol, RebalanceInProgress, CoordinatorNotAvailable, NotCoordinator.
        """
        if self.consumer.find(group_id) is not None:
            return self._classic_members.sync(group_id, generation, member_id, instance_id)
        group = self._live_group(group_id)
        member = group.check_member(member_id, instance_id)
        self._rebalancer.check_sync(group, generation, protocol_type, protocol_name)
        return self._rebalancer.sync(group, member, assignments)

    def heartbeat(self, group_id: str, generation: int, member_id: str, instance_id: str | None) -> None:
        """Extend a member's session.

        Raises: RebalanceInProgress: the session is extended and the member must join again.
            InvalidGroupId, UnknownMember, FencedInstanceId, IllegalGeneration,
            CoordinatorNotAvailable, NotCoordinator.
        """
        if self.consumer.find(group_id) is not None:
            self._check_group_id(group_id)
            self._classic_members.heartbeat(group_id, generation, member_id, instance_id)
            return
        group = self._live_group(group_id)
        self._membership.heartbeat(group, group.check_member(member_id, instance_id), generation)

    def leave(self, group_id: str, leaving: Sequence[LeavingMember]) -> Promise[Outcomes]:
        """Remove members. Returns a promise, for each None, or why it can't be removed.

        The promise fails with what `coordinator_error` makes of a failed write.
        Raises: InvalidGroupId, CoordinatorNotAvailable, NotCoordinator.
        """
        self._check_group_id(group_id)
        group = self._groups.get(group_id)
        if group is not None:
            return self._managers[group.type].leave(group, leaving)
        promise: Promise[Outcomes] = Promise()
        promise.resolve([UnknownMember(f"there is no group {group_id!r}") for _ in leaving])
        return promise

    def _check_group_id(self, group_id: str) -> None:
        check_named(group_id)
        self._writer.check_readable(group_id)

    def _live_group(self, group_id: str) -> ClassicGroup:
        """Return a group. Raises: InvalidGroupId, UnknownMember, CoordinatorNotAvailable."""
        self._check_group_id(group_id)
        group = self._classic.find(group_id)
        if group is None:
            raise UnknownMember(f"there is no classic group {group_id!r}")
        if group.is_dead:
            raise CoordinatorNotAvailable(f"group {group_id!r} is being removed")
        return group

    # --- groups

    def describe(self, group_id: str) -> GroupDescription:
        """Return the state and the members of a classic group.

        Raises: GroupIdNotFound: there is none, or it is of another type. NotCoordinator.
        """
        self._writer.check_readable(group_id)
        group = self._classic.find(group_id)
        if group is None:
            is_other = group_id in self._groups
            raise GroupIdNotFound(f"Group {group_id} {'is not a classic group' if is_other else 'not found'}.")
        return group.describe()

    def groups(self, states: Collection[str] = (), types: Collection[str] = ()) -> list[GroupListing]:
        """Return all groups in one of `states` and of one of `types`, ignoring case.

        An empty filter matches all groups. Raises: CoordinatorLoadInProgress: not all are loaded.
        """
        if self._writer.is_loading:
            raise CoordinatorLoadInProgress("the groups are still being read")
        lower_states = {state.lower() for state in states}
        lower_types = {group_type.lower() for group_type in types}
        return [
            GroupListing(group.group_id, group.protocol_type or "", state, group.type)
            for group in self._groups.values()
            if not lower_types or group.type.value in lower_types
            if (state := str(group.state.value)) and (not lower_states or state.lower() in lower_states)
        ]

    def member_count(self, group_id: str) -> int:
        """Return the number of a group's members; 0: it has none, or is not known here."""
        group = self._groups.get(group_id)
        return 0 if group is None else group.member_count

    def delete(self, group_id: str) -> Promise[None]:
        """Delete an empty group and its offsets.

        Returns: a promise. It fails, and everything stays, with what `coordinator_error` makes of
            a failed write.
        Raises: GroupIdNotFound, NonEmptyGroup, NotCoordinator.
        """
        self._writer.check_readable(group_id)
        group = self._groups.get(group_id)
        if group is None or group.is_dead:
            raise GroupIdNotFound(f"there is no group {group_id!r}")
        return self._removal.delete(group)

    # --- offsets

    def commit(
        self,
        group_id: str,
        generation: int,
        member_id: str,
        instance_id: str | None,
        offsets: Sequence[OffsetToCommit],
        retention_ms: int | None = None,
    ) -> Promise[Outcomes]:
        """Commit offsets; see `OffsetManager.commit` for the promise.

        A consumer without group management has `generation` -1 and no member id. It may commit
        while the group has no members.

        Raises: GroupIdNotFound: the group is missing, and `generation` says that it existed.
            UnknownMember, FencedInstanceId, IllegalGeneration, RebalanceInProgress,
            CoordinatorNotAvailable, NotCoordinator.
        """
        self._writer.check_readable(group_id)
        group = self._groups.get(group_id)
        if group is not None:
            partitions = ((offset.topic, offset.partition) for offset in offsets)
            committer = Committer(generation, member_id, instance_id)
            self._managers[group.type].check_commit(group, committer, partitions)
        elif generation >= 0:
            raise GroupIdNotFound(f"there is no group {group_id!r}")
        else:
            self.limits.check_new_group(group_id, len(self._groups))
        return self._offsets.commit(group_id, offsets, retention_ms)

    def commit_in_transaction(
        self,
        group_id: str,
        producer: TransactionalProducer,
        generation: int,
        member_id: str,
        instance_id: str | None,
        offsets: Sequence[OffsetToCommit],
    ) -> Promise[Outcomes]:
        """Commit offsets in a producer's transaction; `complete_transaction` decides on them.

        The producer speaks for its consumer: it may commit while the group rebalances, extends no
        session, and may leave `generation` (-1) and member away, as before KIP-447. Source: Kafka
        ClassicGroup.validateOffsetCommit.

        Returns: as `commit`. It fails with InvalidProducerEpoch also: the producer was fenced.
        Raises: as `commit`; IllegalGeneration instead of GroupIdNotFound. InvalidGroupId.
        """
        self._check_group_id(group_id)
        group = self._groups.get(group_id)
        if group is not None:
            partitions = ((offset.topic, offset.partition) for offset in offsets)
            committer = Committer(generation, member_id, instance_id, in_transaction=True)
            self._managers[group.type].check_commit(group, committer, partitions)
        elif generation >= 0:
            raise IllegalGeneration(f"there is no group {group_id!r}")
        else:
            self.limits.check_new_group(group_id, len(self._groups))
        return self._offsets.commit(group_id, offsets, producer=producer)

    def complete_transaction(self, producer_id: int, partition: int, committed: bool) -> None:
        """Commit or drop what a producer's transaction has pending in a partition of the log.

        Call it once its marker is committed there, in the order of the log. Many offsets are
        completed in slices: those that are not yet stay pending.
        """
        self._completions.add(self._offsets.complete_transaction(partition, producer_id, committed=committed))

    def partition_of(self, group_id: str) -> int:
        """Return the partition of `__consumer_offsets` that keeps this group."""
        return self._writer.partition_of(group_id)

    def offsets(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """Return the committed offsets, topic -> partition -> offset. A view, valid until the next
        change.

        Raises: NotCoordinator: the group's records could not be read.
        """
        self._writer.check_readable(group_id)
        return self._offsets.store.of(group_id)

    def fetch_offsets(
        self,
        group_id: str,
        topic: str,
        topic_id: bytes | None,
        partitions: Iterable[int] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[int, CommittedOffset]:
        """Return a group's offsets of one topic, as `OffsetStore.fetch`.

        Raises: NotCoordinator: the group's records could not be read.
        """
        self._writer.check_readable(group_id)
        return self._offsets.store.fetch(group_id, topic, topic_id, partitions, require_stable=require_stable)

    def check_offset_fetch(self, group_id: str, member_id: str | None, epoch: int) -> None:
        """Check that a member may fetch offsets, as `ModernGroupManager.check_offset_fetch`."""
        for manager in (self.consumer, self.streams):
            manager.check_offset_fetch(group_id, member_id, epoch)

    def check_old_commit(self, group_id: str, member_id: str) -> None:
        """Check an OffsetCommit before version 9, as `ModernGroupManager.check_old_commit`."""
        for manager in (self.consumer, self.streams):
            manager.check_old_commit(group_id, member_id)

    def offsets_of_topic(self, topic: str) -> Iterator[tuple[str, int, int]]:
        """Yield group, partition and offset of all committed offsets of a topic."""
        return self._offsets.store.of_topic(topic)

    def observe_offsets(self, observer: OffsetObserver) -> None:
        """Call `observer(group, topic, partition, offset)` for each change of a committed offset;
        None: it is gone.
        """
        self._offsets.store.observer = observer

    def delete_offsets(self, group_id: str, keys: Sequence[TopicPartition]) -> Promise[Outcomes]:
        """Delete committed offsets. Source: KIP-496, Kafka OffsetMetadataManager.deleteOffsets.

        Returns: an outcome per key: None, also where nothing was committed, or why it was refused.
            The promise fails as `OffsetManager.commit` does.
        Raises: InvalidGroupId, GroupIdNotFound, NotCoordinator. NonEmptyGroup: of other members.
        """
        check_named(group_id)
        self._writer.check_readable(group_id)
        group = self._groups.get(group_id)
        if group is None or group.is_dead or not group.keeps_offsets:
            raise GroupIdNotFound(f"there is no group {group_id!r}")
        if not group.is_empty and not group.is_consumer:
            raise NonEmptyGroup(f"group {group_id!r} has members")
        is_read = {topic: group.reads_topic(topic) for topic, _ in keys}
        outcomes: Outcomes = [
            GroupSubscribedToTopic(f"members of group {group_id!r} read topic {topic}") if is_read[topic] else None
            for topic, _ in keys
        ]
        return self._offsets.delete(group_id, [key for key in keys if not is_read[key[0]]], outcomes)

    def delete_topic(self, topic: str) -> None:
        """Delete what all groups have committed for a deleted topic."""
        self._partitions.delete_topic(topic)

    # --- the log

    def require_load(self) -> None:
        """Answer NotCoordinator for each group until its partition was loaded."""
        self._writer.require_load()

    def begin_loading(self, partition: int) -> None:
        """Answer CoordinatorLoadInProgress for the groups of a partition until `load` or `refuse`
        has ended.
        """
        self._writer.mark_loading(partition)

    def load(self, partition: int, entries: Iterable[LogEntry]) -> SlicedWork[None]:
        """Replay one partition of the log in steps, before its groups are used. A load that is
        broken off has no effect after `unload`.

        Args:
            entries: oldest first, of committed batches only. Offsets of transactions without an end
                marker become pending.
        Raises: MalformedMessage: a record can't be read.
        """
        return self._partitions.load(partition, entries)

    def unload(self, partition: int) -> SlicedWork[None]:
        """Answer NotCoordinator for the groups of a partition, which another broker coordinates
        now; promises that wait fail with it.

        Returns: the work that removes them from memory, to be run to its end before the next
            `load`. Nothing is written.
        """
        return self._partitions.unload(partition)

    def refuse(self, partition: int, reason: str) -> None:
        """Answer NotCoordinator for the groups of a partition of the log that could not be read.

        An empty answer would make their consumers start over.
        """
        self._writer.mark_unreadable(partition, reason)

    def _save(self, group: ClassicGroup, assignments: Mapping[str, bytes], done: Done) -> None:
        """Append a classic group, unless it is being converted: its record would undo that."""
        if self._groups.get(group.group_id, group) is group:
            self._writer.save(group.group_id, group.record(assignments), done)
        else:
            done(CoordinatorNotAvailable(f"group {group.group_id!r} is being converted"))

    def _keep_offsets(self, group_id: str) -> None:
        if self._offsets.store.has(group_id):
            self._ensure_group(group_id)

    def _ensure_group(self, group_id: str) -> None:
        """Create the group if it is missing: a group with offsets exists even without members."""
        if group_id not in self._groups:
            self._groups[group_id] = self._rebalancer.new_group(group_id)
