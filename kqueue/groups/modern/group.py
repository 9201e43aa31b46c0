"""One modern group: what its records say, and indexes of it. Data only: no clock, no log.

Each change is made in memory and added to `Changes` with its record and its reverse. A type of
groups adds its records (`ModernGroup.records`), the size and the indexes of its members.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any, ClassVar, Generic, TypeVar

from kqueue.base.errors import UnknownMember
from kqueue.base.sliced_task import SlicedWork
from kqueue.groups.group import Group, GroupType, RetentionStart
from kqueue.groups.lazy_timer import LazyTimer
from kqueue.groups.limits import GroupLimits
from kqueue.groups.log.changes import Changes
from kqueue.groups.log.modern_records import ModernKey, Record, key
from kqueue.groups.modern.assignment import CurrentAssignment, K, Wanted
from kqueue.groups.modern.member import ModernMember, S
from kqueue.groups.modern.records import GroupEpoch, ModernRecords, RecordType, TargetEpoch, V
from kqueue.groups.modern.state import ModernGroupState

FIRST_EPOCH = 1
"""Epoch of a new group and its empty target assignment. Members do not have epoch 0."""
NOTHING: Mapping[Any, frozenset[int]] = {}


def _keep() -> None:
    """The reverse of a record that says no change in memory."""


class ModernGroup(ABC, Generic[S, K]):
    """A group of the consumer, share or streams protocol.

    Attributes:
        group_epoch: grows with each change of the members, of what they read, or of its topics.
        target: the group epoch of which `targets` are the assignment, and when they were computed.
        targets: by member id.
        sessions, revocations: deadlines by member id; not in the log.
        deadlines: all of them.
        timers: those of the group itself, by what they do; not in the log.
        member_bytes: size of what members sent, see `limits`.
        topics_version: version of the topics' metadata of which `metadata_hash` is.
        is_assigning: whether a target assignment is being computed.
        failed_assignment: group epoch whose assignment failed last, and when that was logged
            (monotonic ms).
    """

    type: ClassVar[GroupType]
    protocol_type: ClassVar[str]
    records: ClassVar[ModernRecords[Any, Any]]
    no_metadata: ClassVar[Any]
    """The metadata of a member that has sent nothing."""
    is_consumer = True
    keeps_offsets = True

    def __init__(self, group_id: str, limits: GroupLimits) -> None:
        self.group_id = group_id
        self.group_epoch = GroupEpoch(FIRST_EPOCH, 0)
        self.target = TargetEpoch(FIRST_EPOCH, 0)
        self.members: dict[str, ModernMember[S, K]] = {}
        self.targets: dict[str, Wanted[K]] = {}
        self.sessions: dict[str, LazyTimer] = {}
        self.revocations: dict[str, LazyTimer] = {}
        self.deadlines: tuple[dict[str, LazyTimer], ...] = (self.sessions, self.revocations)
        self.timers: dict[str, LazyTimer] = {}
        self.member_bytes = 0
        self.is_dead = False
        self.topics_version = -1
        self.is_assigning = False
        self.failed_assignment = 0, -math.inf
        self._limits = limits
        self._reconciled: Counter[int] = Counter()

    # --- of the type

    @abstractmethod
    def reads_topic(self, topic: str) -> bool:
        """Return whether the members read this topic."""

    @abstractmethod
    def size_of(self, member: ModernMember[S, K]) -> int:
        """Return the size of a member, in bytes."""

    def own_session_timeout_ms(self, member: ModernMember[S, K]) -> int | None:
        """Return the session timeout that a member of the classic protocol has chosen; None: it
        uses the protocol of the group, and has the timeout of the group.
        """
        return None

    def _index(self, member: ModernMember[S, K], step: int) -> None:
        """Add a member to the indexes of the type (`step` 1), or remove it (-1)."""

    def _state_of_members(self) -> ModernGroupState:
        """Return the state of a group with members."""
        if self.epoch > self.target_epoch:
            return ModernGroupState.ASSIGNING
        is_stable = self._reconciled[self.target_epoch] == len(self.members)
        return ModernGroupState.STABLE if is_stable else ModernGroupState.RECONCILING

    # --- what follows from the records

    @property
    def epoch(self) -> int:
        """The group epoch."""
        return self.group_epoch.epoch

    @property
    def metadata_hash(self) -> int:
        """The hash of the topics that the members read, see `modern.topics`."""
        return self.group_epoch.metadata_hash

    @property
    def target_epoch(self) -> int:
        """The group epoch of which the target assignment is."""
        return self.target.epoch

    @property
    def state(self) -> ModernGroupState:
        """The state of the group."""
        if self.is_dead:
            return ModernGroupState.DEAD
        return self._state_of_members() if self.members else ModernGroupState.EMPTY

    @property
    def member_count(self) -> int:
        """The number of its members."""
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    @property
    def can_expire(self) -> bool:
        """Whether it is removed when it has no offsets any more."""
        return self.is_empty

    def check_member(self, member_id: str) -> ModernMember[S, K]:
        """Return a member. Raises: UnknownMember."""
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMember(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def member_or_new(self, member_id: str) -> ModernMember[S, K]:
        """Return a member; one that has sent nothing if it is not in the group."""
        return self.members.get(member_id) or ModernMember(member_id, self.no_metadata)

    def target_of(self, member_id: str) -> Wanted[K]:
        """Return the target assignment of a member."""
        return self.targets.get(member_id, NOTHING)

    def put_back(self, groups: MutableMapping[str, Group]) -> None:
        """Take its place again, after the group in its place could not be written."""
        groups[self.group_id] = self

    def retention_start(self) -> RetentionStart | None:
        """Return when the retention of offsets starts: with their commit. Source: Kafka."""
        return None if self.is_dead else lambda committed: committed.committed_ms

    # --- changes

    def set_epoch(self, changes: Changes, epoch: GroupEpoch) -> None:
        """Set the group epoch, and what it was raised for."""
        former = self.group_epoch
        self.group_epoch = epoch
        self._log(changes, self.records.epoch, epoch, lambda: setattr(self, "group_epoch", former))

    def raise_epoch(self, changes: Changes, metadata_hash: int | None = None) -> None:
        """Begin a new epoch; with another hash of the topics, unless None."""
        epoch = self.group_epoch._replace(epoch=self.epoch + 1)
        self.set_epoch(changes, epoch if metadata_hash is None else epoch._replace(metadata_hash=metadata_hash))

    def set_target_epoch(self, changes: Changes, epoch: int, now_ms: int) -> None:
        """Record that `targets` are the assignment of this epoch."""
        former = self.target
        self.target = TargetEpoch(epoch, now_ms)
        self._log(changes, self.records.target_epoch, self.target, lambda: setattr(self, "target", former))

    def put_metadata(self, changes: Changes, member_id: str, metadata: S) -> None:
        """Set what a member sent; adds the member if it is new."""
        former = self.members.get(member_id)
        self._set_member(member_id, self.member_or_new(member_id)._replace(metadata=metadata))
        self._log(changes, self.records.metadata, metadata, lambda: self._set_member(member_id, former), member_id)

    def put_current(self, changes: Changes, member_id: str, current: CurrentAssignment[K]) -> None:
        """Set what a member owns; adds the member if it is new."""
        former = self.members.get(member_id)
        self._set_member(member_id, self.member_or_new(member_id)._replace(current=current))
        self._log(changes, self.records.current, current, lambda: self._set_member(member_id, former), member_id)

    def put_target(self, changes: Changes, member_id: str, assignment: Wanted[K], record: Record | None = None) -> None:
        """Set the target assignment of a member; `record`: the same, encoded before."""
        former = self.targets.get(member_id)
        self._set_target(member_id, assignment)
        changes.add(*(record or self.target_record(member_id, assignment)), lambda: self._set_target(member_id, former))

    def target_record(self, member_id: str, assignment: Wanted[K]) -> Record:
        """Return the record of a target assignment."""
        kind = self.records.target
        return key(kind.number, self.group_id, member_id), kind.encode(assignment)

    def remove_member(self, changes: Changes, member_id: str) -> None:
        """Remove a member; what it owned is free."""
        former, target = self.members[member_id], self.targets.get(member_id)
        self._set_target(member_id, None)
        self._set_member(member_id, None)
        # Kafka's order: what it owned, its target, last its subscription, without which it is no
        # member. A crash before the last leaves a member that owns nothing.
        self._add_tombstone(changes, self.records.current.number, member_id)
        self._add_tombstone(changes, self.records.target.number, member_id, lambda: self._set_target(member_id, target))
        self._add_tombstone(
            changes, self.records.metadata.number, member_id, lambda: self._set_member(member_id, former)
        )

    def remove_records(self, changes: Changes) -> None:
        """Remove all records of the group, whose members stay in memory. The epoch comes last, as
        in Kafka: without it the others are no group.
        """
        for member_id in self.members:
            self._add_tombstone(changes, self.records.current.number, member_id)
            self._add_tombstone(changes, self.records.target.number, member_id)
        self._add_tombstone(changes, self.records.target_epoch.number)
        for member_id in self.members:
            self._add_tombstone(changes, self.records.metadata.number, member_id)
        self._remove_others(changes)
        for number in self.records.obsolete:
            self._add_tombstone(changes, number)
        self._add_tombstone(changes, self.records.epoch.number)

    def _remove_others(self, changes: Changes) -> None:
        """Remove the records that only this type has."""

    def restore(self, records: Iterable[tuple[ModernKey, bytes]]) -> SlicedWork[None]:
        """Apply records (without tombstones) of the log, in any order: compaction keeps the last
        one of each key. One step each; types that are not in `setters` are read over.

        Raises: MalformedMessage.
        """
        by_type: dict[int, list[tuple[str, bytes]]] = {}
        for each, value in records:
            by_type.setdefault(each.type, []).append((each.name, value))
        for kind, apply in self.setters():
            for name, value in by_type.get(kind.number, ()):
                apply(name, kind.decode(value))
                yield None

    def setters(self) -> list[tuple[RecordType[Any], Callable[[str, Any], None]]]:
        """Return what sets what each record says, called with the name in its key; in the order in
        which a group is restored.
        """
        records = self.records

        def member(name: str, **parts: Any) -> None:
            self._set_member(name, self.member_or_new(name)._replace(**parts))

        return [
            (records.epoch, lambda _, epoch: setattr(self, "group_epoch", epoch)),
            (records.metadata, lambda name, metadata: member(name, metadata=metadata)),
            (records.current, lambda name, current: member(name, current=current)),
            (records.target, self._set_target),
            (records.target_epoch, lambda _, target: setattr(self, "target", target)),
        ]

    # --- what is in memory only

    def release(self) -> None:
        """Subtract a removed group from the limits, and stop its timers."""
        self._limits.member_bytes -= self.member_bytes
        self.member_bytes = 0
        self.stop_timers()

    def stop_timers(self) -> None:
        """Stop all timers, of a group that is removed from memory."""
        for timers in (*self.deadlines, self.timers):
            for timer in timers.values():
                timer.clear()
            timers.clear()

    def _log(self, changes: Changes, kind: RecordType[V], value: V, undo: Callable[[], None], name: str = "") -> None:
        changes.add(key(kind.number, self.group_id, name), kind.encode(value), undo)

    def _add_tombstone(self, changes: Changes, number: int, name: str = "", undo: Callable[[], None] = _keep) -> None:
        changes.add(key(number, self.group_id, name), None, undo)

    def _set_target(self, member_id: str, assignment: Wanted[K] | None) -> None:
        if assignment is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = assignment

    def _set_member(self, member_id: str, member: ModernMember[S, K] | None) -> None:
        former = self.members.get(member_id)
        # Sizes and indexes follow every change here, so that they are right after a rollback too,
        # which sets the former member again.
        if former is not None:
            self._count(former, -1)
        if member is None:
            self.members.pop(member_id, None)
        else:
            self.members[member_id] = member
            self._count(member, 1)

    def _count(self, member: ModernMember[S, K], step: int) -> None:
        self._count_bytes(step * self.size_of(member))
        if member.current.is_reconciled(member.current.epoch):
            add_count(self._reconciled, member.current.epoch, step)
        self._index(member, step)

    def _count_bytes(self, size: int) -> None:
        self.member_bytes += size
        self._limits.member_bytes += size


C = TypeVar("C", str, int)


def add_count(counter: Counter[C], key: C, step: int) -> None:
    """Add to a count; a key without a count is removed."""
    counter[key] += step
    if not counter[key]:
        del counter[key]
