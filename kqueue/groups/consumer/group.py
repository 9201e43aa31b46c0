"""One consumer group: what its records say, and indexes of it. Data only: no clock, no log.

Each change is made in memory and added to `Changes` with its record and its reverse.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Sequence

from kqueue.base.errors import FencedInstanceId, UnknownMember
from kqueue.groups.consumer.member import (
    EPOCH_LEAVE_STATIC,
    Assignment,
    ConsumerGroupMember,
    Partitions,
    Subscription,
    TopicFilter,
)
from kqueue.groups.consumer.state import ConsumerGroupState, group_state
from kqueue.groups.group import GroupType
from kqueue.groups.lazy_timer import LazyTimer
from kqueue.groups.limits import MEMBER_BYTES, GroupLimits
from kqueue.groups.log import consumer_records as records
from kqueue.groups.log.consumer_records import ResolvedRegex
from kqueue.groups.log.schemas import CONSUMER_PROTOCOL
from kqueue.groups.modern.assignment import CurrentAssignment
from kqueue.groups.modern.changes import Changes
from kqueue.groups.modern.group import ModernGroup, add_count

NOTHING: Assignment = {}
NAME_BYTES = 20
"""A topic in a subscription without its name."""
TOPIC_BYTES = 100
"""A topic of a group, named or matched by a pattern: entries of tables."""


class ConsumerGroup(ModernGroup[ConsumerGroupMember]):
    """A group and its members.

    Attributes:
        targets: by member id.
        regexes: by pattern, those that are resolved.
    """

    type = GroupType.CONSUMER
    protocol_type = CONSUMER_PROTOCOL

    def __init__(self, group_id: str, limits: GroupLimits) -> None:
        super().__init__(group_id, limits)
        self.targets: dict[str, Assignment] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.topic_filters: dict[str, TopicFilter] = {}
        """By pattern, what it may find, from the last heartbeat of a member with this pattern."""
        self.join_deadlines: dict[str, LazyTimer] = {}
        self.sync_deadlines: dict[str, LazyTimer] = {}
        """Of classic members, see `classic_timeouts`."""
        self.deadlines = (*self.deadlines, self.join_deadlines, self.sync_deadlines)
        self.static_ids: dict[str, str] = {}
        """Instance id -> member id."""
        self.regexes_version = -1
        """Version of the topics' metadata of which `regexes` are."""
        self.regexes_ms = 0.0
        """When the patterns were resolved last (monotonic clock)."""
        self.failed_assignment = 0, -math.inf
        """Group epoch whose assignment failed last, and when that was logged (monotonic ms)."""
        self.is_resolving = False
        self.has_new_patterns = False
        """Whether a pattern was added that is not in `regexes`."""
        """Whether patterns are being resolved."""
        self._names: Counter[str] = Counter()
        self._patterns: Counter[str] = Counter()
        self._assignors: Counter[str] = Counter()
        self._owners: dict[bytes, dict[int, str]] = {}

    # --- what follows from the records

    @property
    def state(self) -> ConsumerGroupState:
        """The state of the group."""
        if self.is_dead:
            return ConsumerGroupState.DEAD
        return group_state(len(self.members), self.epoch, self.target_epoch, self._reconciled[self.target_epoch])

    @property
    def patterns(self) -> Iterable[str]:
        """The patterns of the members."""
        return self._patterns.keys()

    def count_pattern(self, pattern: str) -> int:
        """Return how many members have a pattern."""
        return self._patterns[pattern]

    def subscribed_topics(self) -> set[str]:
        """Return the names of all topics that members subscribe to, existing or not."""
        names = set(self._names)
        for pattern in self._patterns:
            if pattern in self.regexes:
                names |= self.regexes[pattern].topics
        return names

    def topics_of(self, subscription: Subscription) -> frozenset[str]:
        """Return the names of the topics of one member."""
        names = frozenset(subscription.topics)
        regex = self.regexes.get(subscription.regex)
        return names if regex is None else names | regex.topics

    def preferred_assignor(self, served: Sequence[str]) -> str:
        """Return which of the `served` assignors most members prefer; the first if none does.

        Members of a log may prefer an assignor that the broker's settings do not name any more.
        """
        named = sorted(name for name in self._assignors if name in served)
        return max(named, key=self._assignors.__getitem__, default=served[0])

    def owner(self, topic: bytes, partition: int) -> str | None:
        """Return the member that owns, or still revokes, a partition; None: nobody does."""
        return self._owners.get(topic, {}).get(partition)

    def is_owned(self, topic: bytes, partition: int) -> bool:
        """Return whether a partition has an owner."""
        return partition in self._owners.get(topic, ())

    def target_of(self, member_id: str) -> Assignment:
        """Return the target assignment of a member; of a static one that is away, of its id."""
        return self.targets.get(member_id, NOTHING)

    @property
    def names(self) -> Container[str]:
        """The topics that members name, not those of patterns."""
        return self._names

    def reads_topic(self, topic: str) -> bool:
        """Return whether a member subscribes to this topic."""
        return topic in self._names or any(
            topic in self.regexes[pattern].topics for pattern in self._patterns if pattern in self.regexes
        )

    # --- members

    def check_static_member(self, member_id: str, instance_id: str) -> ConsumerGroupMember:
        """Return the holder of an instance id. Raises: UnknownMember, FencedInstanceId."""
        holder = self.static_ids.get(instance_id)
        if holder is None:
            raise UnknownMember(f"Instance id {instance_id} is unknown.")
        if holder != member_id:
            raise FencedInstanceId(
                f"Static member {member_id} with instance id {instance_id} was fenced by member {holder}."
            )
        return self.members[holder]

    # --- changes

    def set_epoch(self, changes: Changes, epoch: int, metadata_hash: int) -> None:
        """Set the group epoch."""
        former = self.epoch, self.metadata_hash

        def undo() -> None:
            self.epoch, self.metadata_hash = former

        self.epoch, self.metadata_hash = epoch, metadata_hash
        key = records.key(records.GROUP_EPOCH, self.group_id)
        changes.add(key, records.epoch_value(epoch, metadata_hash), undo)

    def set_target_epoch(self, changes: Changes, epoch: int, now_ms: int) -> None:
        """Record that `targets` are the assignment of this epoch."""
        former = self.target_epoch, self.target_ms

        def undo() -> None:
            self.target_epoch, self.target_ms = former

        self.target_epoch, self.target_ms = epoch, now_ms
        key = records.key(records.TARGET_EPOCH, self.group_id)
        changes.add(key, records.target_epoch_value(epoch, now_ms), undo)

    def put_subscription(self, changes: Changes, member_id: str, subscription: Subscription) -> None:
        """Set what a member subscribes to; adds the member if it is new."""
        former = self.members.get(member_id)
        member = ConsumerGroupMember(member_id) if former is None else former
        self._replace(member_id, former, member._replace(subscription=subscription))
        key = records.key(records.MEMBER_SUBSCRIPTION, self.group_id, member_id)
        changes.add(key, records.subscription_value(subscription), lambda: self._restore(member_id, former))

    def put_current(self, changes: Changes, member_id: str, current: CurrentAssignment[bytes]) -> None:
        """Set what a member owns; adds the member if it is new."""
        former = self.members.get(member_id)
        member = ConsumerGroupMember(member_id) if former is None else former
        self._replace(member_id, former, member._replace(current=current))
        key = records.key(records.MEMBER_CURRENT, self.group_id, member_id)
        changes.add(key, records.current_value(current), lambda: self._restore(member_id, former))

    def put_target(
        self, changes: Changes, member_id: str, assignment: Assignment, record: records.Record | None = None
    ) -> None:
        """Set the target assignment of a member; `record`: the same, encoded before."""
        former = self.targets.get(member_id)
        self.targets[member_id] = assignment
        if record is None:
            record = self.target_record(member_id, assignment)
        changes.add(*record, lambda: self._restore_target(member_id, former))

    def target_record(self, member_id: str, assignment: Assignment) -> records.Record:
        """Return the record of a target assignment."""
        return records.key(records.MEMBER_TARGET, self.group_id, member_id), records.target_value(assignment)

    def remove_member(self, changes: Changes, member_id: str) -> None:
        """Remove a member; its partitions are free."""
        former = self.members[member_id]
        self._add_tombstone(changes, records.MEMBER_CURRENT, member_id)
        target = self.targets.pop(member_id, None)
        if target is not None:
            changes.add_unlogged(lambda: self._restore_target(member_id, target))
        self._add_tombstone(changes, records.MEMBER_TARGET, member_id)
        self._replace(member_id, former, None)
        changes.add_unlogged(lambda: self._restore(member_id, former))
        self._add_tombstone(changes, records.MEMBER_SUBSCRIPTION, member_id)

    def put_regex(self, changes: Changes, pattern: str, regex: ResolvedRegex) -> None:
        """Set the topics that a pattern matches."""
        former = self.regexes.get(pattern)
        self._restore_regex(pattern, regex)
        key = records.key(records.RESOLVED_REGEX, self.group_id, pattern)
        changes.add(key, records.regex_value(regex), lambda: self._restore_regex(pattern, former))

    def remove_regex(self, changes: Changes, pattern: str) -> None:
        """Remove a pattern that no member has any more."""
        former = self.regexes.get(pattern)
        if former is not None:
            self._restore_regex(pattern, None)
            key = records.key(records.RESOLVED_REGEX, self.group_id, pattern)
            changes.add(key, None, lambda: self._restore_regex(pattern, former))

    def remove(self, changes: Changes) -> None:
        """Remove all records of the group, whose members stay in memory."""
        for member_id in self.members:
            for type in (records.MEMBER_CURRENT, records.MEMBER_TARGET):
                self._add_tombstone(changes, type, member_id)
        self._add_tombstone(changes, records.TARGET_EPOCH)
        for member_id in self.members:
            self._add_tombstone(changes, records.MEMBER_SUBSCRIPTION, member_id)
        for pattern in self.regexes:
            self._add_tombstone(changes, records.RESOLVED_REGEX, pattern)
        self._add_tombstone(changes, records.PARTITION_METADATA)
        self._add_tombstone(changes, records.GROUP_EPOCH)

    def _add_tombstone(self, changes: Changes, type: int, name: str = "") -> None:
        changes.add(records.key(type, self.group_id, name), None, lambda: None)

    # --- indexes

    def _restore(self, member_id: str, former: ConsumerGroupMember | None) -> None:
        self._replace(member_id, self.members.get(member_id), former)

    def _restore_target(self, member_id: str, former: Assignment | None) -> None:
        if former is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = former

    def _restore_regex(self, pattern: str, former: ResolvedRegex | None) -> None:
        replaced = self.regexes.pop(pattern, None)
        if replaced is not None:
            self._count_bytes(-TOPIC_BYTES * len(replaced.topics))
        if former is not None:
            self.regexes[pattern] = former
            self._count_bytes(TOPIC_BYTES * len(former.topics))

    def _replace(self, member_id: str, former: ConsumerGroupMember | None, member: ConsumerGroupMember | None) -> None:
        if former is not None:
            self._count(former, -1)
            self._disown(former.current.assigned)
            self._disown(former.current.revoking)
        if member is None:
            self.members.pop(member_id, None)
            return
        self.members[member_id] = member
        self._count(member, 1)
        self._own(member_id, member.current.assigned)
        self._own(member_id, member.current.revoking)

    def _count(self, member: ConsumerGroupMember, step: int) -> None:
        subscription = member.subscription
        size = MEMBER_BYTES + len(member.member_id) + subscription_bytes(subscription)
        for name in subscription.topics:
            is_first = not self._names[name]
            add_count(self._names, name, step)
            size += TOPIC_BYTES * (is_first or not self._names[name])  # added with the first, gone with the last
        self._count_bytes(step * size)
        if subscription.regex:
            add_count(self._patterns, subscription.regex, step)
        if subscription.assignor is not None:
            add_count(self._assignors, subscription.assignor, step)
        self._count_reconciled(member.current, step)
        instance_id = subscription.instance_id
        if instance_id is None:
            return
        if step > 0:
            self.static_ids[instance_id] = member.member_id
        elif self.static_ids.get(instance_id) == member.member_id:
            del self.static_ids[instance_id]

    def _own(self, member_id: str, partitions: Partitions) -> None:
        for topic, indexes in partitions.items():
            owners = self._owners.setdefault(topic, {})
            for index in indexes:
                owners[index] = member_id

    def _disown(self, partitions: Partitions) -> None:
        for topic, indexes in partitions.items():
            owners = self._owners.get(topic)
            if owners is None:
                continue
            for index in indexes:
                owners.pop(index, None)
            if not owners:
                del self._owners[topic]


def growth(group: ConsumerGroup, member: ConsumerGroupMember, subscription: Subscription) -> int:
    """Return by how many bytes a group grows, at most, when a member subscribes so."""
    new_names = sum(1 for name in subscription.topics if name not in group.names)
    size = subscription_bytes(subscription) + TOPIC_BYTES * new_names
    if member.member_id not in group.members:
        return size + MEMBER_BYTES + len(member.member_id)
    return size - subscription_bytes(member.subscription)


def is_away(member: ConsumerGroupMember) -> bool:
    """Return whether this is a static member that has left for a while."""
    return member.current.epoch == EPOCH_LEAVE_STATIC


def subscription_bytes(subscription: Subscription) -> int:
    """Return the size of a subscription, in bytes."""
    texts = (subscription.client_id, subscription.instance_id, subscription.rack_id, subscription.regex)
    size = sum(len(text) for text in texts if text) + sum(len(name) + NAME_BYTES for name in subscription.topics)
    if subscription.classic is not None:
        size += sum(len(name) + len(data) for name, data in subscription.classic.protocols)
    return size
