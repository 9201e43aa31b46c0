"""One consumer group: topic patterns, static members, and the owners of partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

from kqueue.base.errors import FencedInstanceId, UnknownMember
from kqueue.groups.consumer import records
from kqueue.groups.consumer.member import ConsumerGroupMember, Partitions, Subscription, TopicFilter
from kqueue.groups.consumer.records import ResolvedRegex
from kqueue.groups.group import GroupType
from kqueue.groups.lazy_timer import LazyTimer
from kqueue.groups.limits import MEMBER_BYTES, GroupLimits
from kqueue.groups.log.changes import Changes
from kqueue.groups.log.schemas import CONSUMER_PROTOCOL
from kqueue.groups.modern.group import ModernGroup, add_count
from kqueue.groups.modern.member import EPOCH_LEAVE_STATIC
from kqueue.groups.modern.records import RecordType

NAME_BYTES = 20
"""A topic in a subscription without its name."""
TOPIC_BYTES = 100
"""A topic of a group, named or matched by a pattern: entries of tables."""


class ConsumerGroup(ModernGroup[Subscription, bytes]):
    """A group and its members. `regexes`: by pattern, those that are resolved."""

    type = GroupType.CONSUMER
    protocol_type = CONSUMER_PROTOCOL
    records = records.RECORDS
    no_metadata = Subscription()

    def __init__(self, group_id: str, limits: GroupLimits) -> None:
        super().__init__(group_id, limits)
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
        self.is_resolving = False
        """Whether patterns are being resolved."""
        self.has_new_patterns = False
        """Whether a pattern was added that is not in `regexes`."""
        self._names: Counter[str] = Counter()
        self._patterns: Counter[str] = Counter()
        self._assignors: Counter[str] = Counter()
        self._owners: dict[bytes, dict[int, str]] = {}

    # --- what follows from the records

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

    def put_regex(self, changes: Changes, pattern: str, regex: ResolvedRegex) -> None:
        """Set the topics that a pattern matches."""
        former = self.regexes.get(pattern)
        self._restore_regex(pattern, regex)
        self._log(changes, records.REGEX, regex, lambda: self._restore_regex(pattern, former), pattern)

    def remove_regex(self, changes: Changes, pattern: str) -> None:
        """Remove a pattern that no member has any more."""
        former = self.regexes.get(pattern)
        if former is not None:
            self._restore_regex(pattern, None)
            self._add_tombstone(changes, records.REGEX.number, pattern, lambda: self._restore_regex(pattern, former))

    def _remove_others(self, changes: Changes) -> None:
        for pattern in self.regexes:
            self._add_tombstone(changes, records.REGEX.number, pattern)

    def setters(self) -> list[tuple[RecordType[Any], Callable[[str, Any], None]]]:
        """Return what sets what each record says."""
        return [*super().setters(), (records.REGEX, self._restore_regex)]

    # --- indexes

    def _restore_regex(self, pattern: str, former: ResolvedRegex | None) -> None:
        replaced = self.regexes.pop(pattern, None)
        if replaced is not None:
            self._count_bytes(-TOPIC_BYTES * len(replaced.topics))
        if former is not None:
            self.regexes[pattern] = former
            self._count_bytes(TOPIC_BYTES * len(former.topics))

    def size_of(self, member: ConsumerGroupMember) -> int:
        """Return the size of a member, in bytes, without those of the group's topics."""
        return MEMBER_BYTES + len(member.member_id) + subscription_bytes(member.metadata)

    def own_session_timeout_ms(self, member: ConsumerGroupMember) -> int | None:
        """Return the session timeout of a member of the classic protocol; None: it is none."""
        classic = member.metadata.classic
        return None if classic is None else classic.session_timeout_ms

    def _index(self, member: ConsumerGroupMember, step: int) -> None:
        subscription = member.metadata
        for name in subscription.topics:
            is_first = not self._names[name]
            add_count(self._names, name, step)
            if is_first or not self._names[name]:  # a topic comes with its first member and goes with its last
                self._count_bytes(step * TOPIC_BYTES)
        if subscription.regex:
            add_count(self._patterns, subscription.regex, step)
        if subscription.assignor is not None:
            add_count(self._assignors, subscription.assignor, step)
        set_owners = self._own if step > 0 else self._disown
        set_owners(member.member_id, member.current.assigned)
        set_owners(member.member_id, member.current.revoking)
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

    def _disown(self, member_id: str, partitions: Partitions) -> None:
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
    return size - subscription_bytes(member.metadata)


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
