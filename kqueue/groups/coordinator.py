"""The group coordinator: every group of this broker, their members and committed offsets, and their
records in the log.

What a group needs to outlive us is in `__consumer_offsets` before anybody is told of it, and what
is in memory is what replaying those records gives; so after a restart no commit that was confirmed
has gone back. The floors above call it from the owner thread; it has no thread, clock or randomness
of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from kqueue.base.clock import Clock
from kqueue.base.errors import (
    CoordinatorNotAvailable,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    InvalidCommitOffsetSize,
    InvalidGroupId,
    KqueueError,
    MalformedMessage,
    NonEmptyGroup,
    NotCoordinator,
    OffsetMetadataTooLarge,
    RebalanceInProgress,
    RecordTooLarge,
    RequestRefused,
    UnknownMember,
)
from kqueue.base.names import UUID_ZERO
from kqueue.base.promise import Promise
from kqueue.base.settings import LONG_MAX, Config
from kqueue.base.slice_queue import SliceQueue
from kqueue.base.sliced_task import SlicedWork
from kqueue.base.timers import Timers
from kqueue.groups import records
from kqueue.groups.classic_group import ClassicGroup
from kqueue.groups.classic_member import JoinRequest, JoinResult, LeavingMember, SyncResult
from kqueue.groups.classic_state import ClassicGroupState, GroupEvent
from kqueue.groups.config import GroupConfig
from kqueue.groups.group_log import Done, GroupLog, GroupRecords, Wake, coordinator_error
from kqueue.groups.limits import OFFSET_BYTES, GroupLimits, offsets_bytes
from kqueue.groups.membership_manager import MembershipManager
from kqueue.groups.offset_store import OffsetStore, TopicPartition
from kqueue.groups.rebalancer import Rebalancer, check_generation
from kqueue.groups.records import CommittedOffset
from kqueue.groups.schemas import GroupMetadataKey, GroupMetadataValue

GROUP_TYPE = "classic"
"""What our groups are called where clients tell several types apart."""


class OffsetToCommit(NamedTuple):
    """One offset to commit; `committed_ms` (wall clock) is None for now, `leader_epoch` -1 and
    `topic_id` zero where unknown.
    """

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    topic_id: bytes = UUID_ZERO
    committed_ms: int | None = None


class MemberDescription(NamedTuple):
    """A member; `metadata` is empty while the group is not stable, `assignment` is the one that it
    was given last.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupDescription(NamedTuple):
    """A group; the protocol is empty while it is not stable."""

    state: ClassicGroupState
    protocol_type: str
    protocol_name: str
    members: list[MemberDescription]


class GroupListing(NamedTuple):
    """A group in the list of all."""

    group_id: str
    protocol_type: str
    state: ClassicGroupState


class GroupCoordinator:
    """All groups of one broker.

    Methods return a value, raise a RequestRefused, or return a promise that is settled later;
    `wake(promise)` is called as it is. Durability: what a promise says is in the log (as
    `GroupLog.append` defines it) when the promise is resolved.
    """

    def __init__(
        self, config: Config, clock: Clock, timers: Timers, rng: random.Random, log: GroupLog, wake: Wake
    ) -> None:
        self.config = GroupConfig.of(config)
        self._clock = clock
        self._log = log
        self._wake = wake
        self._groups: dict[str, ClassicGroup] = {}
        self._refused: dict[int, str] = {}  # partitions of the log, and why they could not be read
        self.limits = GroupLimits(self.config, clock)
        self._offsets = OffsetStore(self.limits)
        self._rebalance = Rebalancer(self.config, clock, timers, self.limits, self._save, wake)
        self._membership = MembershipManager(self.config, clock, timers, rng, self.limits, self._rebalance, self._save)
        slices = SliceQueue(timers, clock)
        timers.every(self.config.retention_check_interval_ms, lambda: slices.add_once("expire", self._expire()))

    # --- members

    def join(self, joining: JoinRequest, *, id_required: bool, can_skip: bool) -> Promise[JoinResult]:
        """Take a member into the group's next generation; the promise is resolved when that is made.

        `id_required`: a dynamic newcomer is first given an id to come back with (JoinGroup 4 and
        later). `can_skip`: the client knows `JoinResult.skip_assignment` (9 and later). Raises:
        InvalidGroupId, InvalidSessionTimeout, UnknownMember, FencedInstanceId,
        InconsistentGroupProtocol, GroupMaxSizeReached, MemberIdRequired, CoordinatorNotAvailable.
        The promise fails with: UnknownMember, FencedInstanceId, RebalanceInProgress (asked again),
        or what `coordinator_error` makes of a failed write.
        """
        self._check_group_id(joining.group_id)
        self._membership.check_session_timeout(joining.session_timeout_ms)
        group = self._groups.get(joining.group_id)
        if group is not None:
            return self._membership.join(group, joining, id_required=id_required, can_skip=can_skip)
        if joining.member_id:
            raise UnknownMember(f"there is no group {joining.group_id!r}")
        self.limits.check_new_group(joining.group_id, len(self._groups))
        group = self._rebalance.new_group(joining.group_id)
        try:
            return self._membership.join(group, joining, id_required=id_required, can_skip=can_skip)
        finally:
            if group.members or group.pending:  # else it was refused
                self._found(group)

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
        """Give a member its assignment as soon as its leader has made it; the leader brings all of
        them, member id -> assignment.

        Assignments pass through untouched. `protocol_type` and `protocol_name` must be the group's
        unless they are None. Raises: InvalidGroupId, UnknownMember, FencedInstanceId,
        IllegalGeneration, InconsistentGroupProtocol, RebalanceInProgress, CoordinatorNotAvailable.
        The promise fails with: RebalanceInProgress, UnknownMember, FencedInstanceId, or what
        `coordinator_error` makes of a failed write.
        """
        group = self._alive(group_id)
        member = group.check_member(member_id, instance_id)
        self._rebalance.check_sync(group, generation, protocol_type, protocol_name)
        return self._rebalance.sync(group, member, assignments)

    def heartbeat(self, group_id: str, generation: int, member_id: str, instance_id: str | None) -> None:
        """A member is alive.

        Raises: RebalanceInProgress: alive, and has to join again; InvalidGroupId, UnknownMember,
        FencedInstanceId, IllegalGeneration, CoordinatorNotAvailable.
        """
        group = self._alive(group_id)
        self._membership.heartbeat(group, group.check_member(member_id, instance_id), generation)

    def leave(self, group_id: str, leaving: Sequence[LeavingMember]) -> list[RequestRefused | None]:
        """Let members go at once; for each None, or why it can't leave. Raises: InvalidGroupId,
        CoordinatorNotAvailable.
        """
        self._check_group_id(group_id)
        group = self._groups.get(group_id)
        if group is None:
            return [UnknownMember(f"there is no group {group_id!r}") for _ in leaving]
        return self._membership.leave(group, leaving)

    # --- groups

    def describe(self, group_id: str) -> GroupDescription:
        """State and members of a group. Raises GroupIdNotFound, NotCoordinator."""
        self._check_readable(group_id)
        group = self._groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"there is no group {group_id!r}")
        stable = group.state is ClassicGroupState.STABLE
        members = [
            MemberDescription(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.metadata(group.protocol_name) if stable else b"",
                member.assignment,
            )
            for member in group.members.values()
        ]
        return GroupDescription(
            group.state, group.protocol_type or "", (group.protocol_name or "") if stable else "", members
        )

    def groups(self, states: Collection[str] = (), types: Collection[str] = ()) -> list[GroupListing]:
        """All groups in one of `states` and of one of `types`, in any case of letters; an empty
        filter lets all pass.
        """
        wanted = {state.lower() for state in states}
        if types and GROUP_TYPE not in {kind.lower() for kind in types}:
            return []
        return [
            GroupListing(group.group_id, group.protocol_type or "", group.state)
            for group in self._groups.values()
            if not wanted or group.state.value.lower() in wanted
        ]

    def delete(self, group_id: str) -> Promise[None]:
        """Delete a group and its offsets. Raises: GroupIdNotFound, NonEmptyGroup. The promise fails
        as `coordinator_error` says; then all stays.
        """
        self._check_readable(group_id)
        group = self._groups.get(group_id)
        if group is None or group.state is ClassicGroupState.DEAD:
            raise GroupIdNotFound(f"there is no group {group_id!r}")
        if group.state is not ClassicGroupState.EMPTY:
            raise NonEmptyGroup(f"group {group_id!r} has members")
        promise: Promise[None] = Promise()

        def done(error: KqueueError | None) -> None:
            if error is None:
                promise.resolve(None)
            else:
                promise.fail(coordinator_error(error))
            self._wake(promise)

        self._remove(group, done)
        return promise

    # --- offsets

    def commit(
        self,
        group_id: str,
        generation: int,
        member_id: str,
        instance_id: str | None,
        commits: Sequence[OffsetToCommit],
        retention_ms: int | None = None,
    ) -> Promise[list[RequestRefused | None]]:
        """Commit offsets; for each the promise has None, or why it was refused while the others went
        through.

        A consumer without group management has `generation` -1 and no member id; it may commit
        while the group has no members. `retention_ms`: expire that long from now, instead of by the
        broker's rules. Raises: GroupIdNotFound (no such group, and a generation that says there
        was), UnknownMember, FencedInstanceId, IllegalGeneration, RebalanceInProgress,
        CoordinatorNotAvailable. The promise fails, with nothing changed, as `coordinator_error` says.
        """
        self._check_readable(group_id)
        group = self._groups.get(group_id)
        if group is not None:
            self._check_commit(group, generation, member_id, instance_id)
        elif generation >= 0:
            raise GroupIdNotFound(f"there is no group {group_id!r}")
        else:
            self.limits.check_new_group(group_id, len(self._groups))
        now_ms = self._clock.wall_ms()
        expires_ms = None if retention_ms is None else min(now_ms + retention_ms, LONG_MAX)
        has_room = self.limits.has_room(commits)
        answers: list[RequestRefused | None] = []
        accepted: list[tuple[TopicPartition, CommittedOffset]] = []
        for one in commits:
            if len(one.metadata) > self.config.metadata_length_max:
                limit = self.config.metadata_length_max
                answers.append(
                    OffsetMetadataTooLarge(f"metadata has at most {limit} characters, this one has {len(one.metadata)}")
                )
                continue
            committed_ms = now_ms if one.committed_ms is None else one.committed_ms
            committed = CommittedOffset(
                one.offset, one.leader_epoch, one.metadata, committed_ms, expires_ms, one.topic_id
            )
            if (
                not has_room
                and (refusal := self._refusal(group_id, (one.topic, one.partition), committed, accepted)) is not None
            ):
                answers.append(refusal)
                continue
            accepted.append(((one.topic, one.partition), committed))
            answers.append(None)
        return self._commit(group_id, accepted, answers)

    def _refusal(
        self,
        group_id: str,
        key: TopicPartition,
        committed: CommittedOffset,
        accepted: Sequence[tuple[TopicPartition, CommittedOffset]],
    ) -> InvalidCommitOffsetSize | None:
        topic, partition = key
        former = self._offsets.of(group_id).get(topic, {}).get(partition)
        return self.limits.refusal(group_id, former, committed, OFFSET_BYTES * len(accepted))

    def _alive(self, group_id: str) -> ClassicGroup:
        """A group that has members. Raises InvalidGroupId, UnknownMember, CoordinatorNotAvailable."""
        self._check_group_id(group_id)
        group = self._groups.get(group_id)
        if group is None:
            raise UnknownMember(f"there is no group {group_id!r}")
        if group.state is ClassicGroupState.DEAD:
            raise CoordinatorNotAvailable(f"group {group_id!r} is being removed")
        return group

    def _check_commit(self, group: ClassicGroup, generation: int, member_id: str, instance_id: str | None) -> None:
        if group.state is ClassicGroupState.DEAD:
            raise CoordinatorNotAvailable(f"group {group.group_id!r} is being removed")
        if generation < 0 and group.state is ClassicGroupState.EMPTY:
            return
        if generation < 0 and not member_id and instance_id is None:
            raise UnknownMember(f"group {group.group_id!r} has members: only they may commit")
        member = group.check_member(member_id, instance_id)
        check_generation(group, generation)
        if group.state is ClassicGroupState.COMPLETING_REBALANCE:
            raise RebalanceInProgress(f"group {group.group_id!r} is rebalancing")
        self._rebalance.extend_session(member)

    def _commit(
        self,
        group_id: str,
        accepted: list[tuple[TopicPartition, CommittedOffset]],
        answers: list[RequestRefused | None],
    ) -> Promise[list[RequestRefused | None]]:
        promise: Promise[list[RequestRefused | None]] = Promise()
        if not accepted:
            promise.resolve(answers)
            return promise
        written: GroupRecords = [
            (records.offset_key(group_id, topic, partition), records.offset_value(committed))
            for (topic, partition), committed in accepted
        ]
        keys = [key for key, _ in accepted]
        held = offsets_bytes([committed for _, committed in accepted])
        self._offsets.begin(group_id, keys)
        self.limits.offset_bytes += held

        def done(error: KqueueError | None) -> None:
            self._offsets.end(group_id, keys)
            self.limits.offset_bytes -= held
            if isinstance(error, RecordTooLarge):  # Source: Kafka appendOffsetCommit
                promise.fail(InvalidCommitOffsetSize(str(error)))
            elif error is not None:
                promise.fail(coordinator_error(error))
            else:
                for (topic, partition), committed in accepted:
                    self._put(group_id, topic, partition, committed)
                promise.resolve(answers)
            self._wake(promise)

        self._write(group_id, written, done)
        return promise

    def offsets(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """Topic -> partition -> what the group has committed, as far as it is durable; a view that
        lives until the next change.

        Raises NotCoordinator: that could not be read.
        """
        self._check_readable(group_id)
        return self._offsets.of(group_id)

    def delete_offsets(self, group_id: str, keys: Sequence[TopicPartition]) -> Promise[list[RequestRefused | None]]:
        """Delete committed offsets; the promise has None for each of `keys`, also where nothing was
        committed, or why it was refused.

        Raises: GroupIdNotFound; NonEmptyGroup: members of another protocol than consumers'. The
        promise fails as `coordinator_error` says. Source: KIP-496, Kafka's
        OffsetMetadataManager.deleteOffsets.
        """
        self._check_readable(group_id)
        group = self._groups.get(group_id)
        if group is None or group.state is ClassicGroupState.DEAD:
            raise GroupIdNotFound(f"there is no group {group_id!r}")
        if group.state is not ClassicGroupState.EMPTY and not group.is_consumer:
            raise NonEmptyGroup(f"group {group_id!r} has members")
        is_read = {topic: group.reads_topic(topic) for topic, _ in keys}
        answers: list[RequestRefused | None] = [
            GroupSubscribedToTopic(f"members of group {group_id!r} read topic {topic}") if is_read[topic] else None
            for topic, _ in keys
        ]
        gone = [
            (group_id, key) for key in sorted(self._offsets.keys(group_id).intersection(keys)) if not is_read[key[0]]
        ]
        promise: Promise[list[RequestRefused | None]] = Promise()
        if not gone:
            promise.resolve(answers)
            return promise
        forget = self._forget(gone)

        def done(error: KqueueError | None) -> None:
            forget(error)
            if error is None:
                promise.resolve(answers)
            else:
                promise.fail(coordinator_error(error))
            self._wake(promise)

        self._write(group_id, [(records.offset_key(group_id, *key), None) for _, key in gone], done)
        return promise

    def delete_topic(self, topic: str) -> None:
        """A topic is gone: take back what groups have committed for it."""
        by_partition: dict[int, list[tuple[str, TopicPartition]]] = {}
        for group_id, keys in self._offsets.keys_of_topic(topic).items():
            by_partition.setdefault(self._partition(group_id), []).extend((group_id, key) for key in sorted(keys))
        for partition, gone in by_partition.items():
            self._log.append(
                partition, [(records.offset_key(group_id, *key), None) for group_id, key in gone], self._forget(gone)
            )

    # --- the log

    def load(self, partition: int, found: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Take over what one partition of the log holds, oldest record first; called once for each,
        before anything else.

        Only what is committed may be there: no records of transactions that were aborted or are
        still open. Records of group types that we do not serve are left alone. Raises
        MalformedMessage: a record can't be read.
        """
        latest: dict[bytes, bytes | None] = {}
        for key, value in found:
            latest.pop(key, None)  # so that the later one stands later: two kinds of keys may name the same offset
            latest[key] = value
        try:
            loaded = [group for group_id in self._replay(latest) if (group := self._groups.get(group_id)) is not None]
        except MalformedMessage as error:
            raise MalformedMessage(f"partition {partition} of the offsets topic: {error}") from None
        for group in loaded:
            self._membership.resume(group)

    def _replay(self, latest: Mapping[bytes, bytes | None]) -> Iterable[str]:
        """Apply records; returns the ids of the groups that they were about."""
        touched: dict[str, None] = {}
        for raw_key, value in latest.items():
            key = records.read_key(raw_key)
            if key is None:
                continue
            touched[key.group] = None
            if isinstance(key, GroupMetadataKey):
                if value is not None:
                    self._groups[key.group] = self._membership.restore(key.group, records.read_group(value))
            elif value is None:
                self._offsets.remove(key.group, key.topic, key.partition)
            else:
                self._offsets.put(key.group, key.topic, key.partition, records.read_offset(value))
        for group_id in touched:
            if self._offsets.of(group_id):
                self._make_sure_of(group_id)
        return touched

    def refuse(self, partition: int, why: str) -> None:
        """What one partition of the log holds can't be known: its groups get NotCoordinator from
        now on, rather than an empty answer.
        """
        self._refused[partition] = why

    def _check_group_id(self, group_id: str) -> None:
        if not group_id:
            raise InvalidGroupId("a group id must not be empty")
        self._check_readable(group_id)

    def _check_readable(self, group_id: str) -> None:
        if self._refused and self._partition(group_id) in self._refused:
            raise NotCoordinator(f"group {group_id!r} can't be read: {self._refused[self._partition(group_id)]}")

    def _write(self, group_id: str, written: GroupRecords, done: Done) -> None:
        self._log.append(self._partition(group_id), written, done)

    def _partition(self, group_id: str) -> int:
        return records.partition_of(group_id, self._log.partition_count)

    def _save(self, group: ClassicGroup, assignments: Mapping[str, bytes], done: Done) -> None:
        self._write(
            group.group_id, [(records.group_key(group.group_id), records.group_value(group.record(assignments)))], done
        )

    def _found(self, group: ClassicGroup) -> None:
        """Take in a new group, and write that it is there."""
        self._groups[group.group_id] = group

        def done(error: KqueueError | None) -> None:
            if error is not None and group.state is not ClassicGroupState.DEAD:
                self._rebalance.retire(group, coordinator_error(error))
                group.release()
                group.turn(GroupEvent.REMOVED, self._clock.wall_ms())
                del self._groups[group.group_id]
                if self._offsets.of(group.group_id):
                    self._make_sure_of(group.group_id)

        new = GroupMetadataValue(current_state_timestamp=group.state_since_ms or -1)
        self._write(group.group_id, [(records.group_key(group.group_id), records.group_value(new))], done)

    def _put(self, group_id: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        self._offsets.put(group_id, topic, partition, committed)
        self._make_sure_of(group_id)

    def _make_sure_of(self, group_id: str) -> None:
        """Who has offsets is a group, with members or without."""
        if group_id not in self._groups:
            self._groups[group_id] = self._rebalance.new_group(group_id)

    def _remove(self, group: ClassicGroup, then: Done) -> None:
        """Delete an empty group from the log, then from memory; `then` is told how it went."""
        group_id = group.group_id
        since_ms = group.state_since_ms
        gone = [(group_id, key) for key in sorted(self._offsets.keys(group_id))]
        self._rebalance.retire(group, CoordinatorNotAvailable(f"group {group_id!r} is being removed"))
        group.turn(GroupEvent.REMOVED, self._clock.wall_ms())
        forget = self._forget(gone)

        def done(error: KqueueError | None) -> None:
            forget(error)
            if error is None:
                del self._groups[group_id]
            else:
                group.turn(GroupEvent.KEPT, self._clock.wall_ms())
                group.state_since_ms = since_ms
            then(error)

        tombstones: GroupRecords = [(records.offset_key(group_id, *key), None) for _, key in gone]
        self._write(group_id, [*tombstones, (records.group_key(group_id), None)], done)

    def _forget(self, gone: Sequence[tuple[str, TopicPartition]]) -> Callable[[KqueueError | None], None]:
        """What to do when the tombstones of these offsets are in the log."""

        def done(error: KqueueError | None) -> None:
            if error is None:
                for group_id, (topic, partition) in gone:
                    self._offsets.remove(group_id, topic, partition)

        return done

    # --- expiry

    def _expire(self) -> SlicedWork[None]:
        """Drop offsets that have outlived their retention, and empty groups that have none left.
        One step per group.
        """
        now_ms = self._clock.wall_ms()
        for group in list(self._groups.values()):
            yield None
            if self._groups.get(group.group_id) is not group:
                continue  # deleted meanwhile
            expired = self._offsets.expired(group, now_ms, self.config.retention_ms)
            is_unused = (
                group.state is ClassicGroupState.EMPTY
                and not group.pending
                and expired == self._offsets.keys(group.group_id)
            )
            if is_unused:
                self._remove(group, lambda error: None)
            elif expired:
                gone = [(group.group_id, key) for key in sorted(expired)]
                self._write(
                    group.group_id,
                    [(records.offset_key(group.group_id, *key), None) for _, key in gone],
                    self._forget(gone),
                )
