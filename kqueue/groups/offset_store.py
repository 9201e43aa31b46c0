"""Committed offsets of all groups, as far as the log has them, and which of them have outlived
their use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kqueue.groups.classic_group import ClassicGroup
from kqueue.groups.classic_state import ClassicGroupState
from kqueue.groups.limits import GroupLimits, offsets_bytes
from kqueue.groups.records import CommittedOffset

TopicPartition = tuple[str, int]
TopicOffsets = dict[str, dict[int, CommittedOffset]]
_NONE: Mapping[str, Mapping[int, CommittedOffset]] = {}


class OffsetStore:
    """Group id -> topic -> partition -> what was committed. Holds only what is durable; what is
    being written is known by name.

    A write is announced (`begin`) when it is appended and ends (`end`) when the log has it or never
    will.
    """

    def __init__(self, limits: GroupLimits) -> None:
        self._limits = limits
        self._committed: dict[str, TopicOffsets] = {}
        self._under_way: dict[str, dict[TopicPartition, int]] = {}

    def of(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """All offsets of a group; empty if there are none. A view: it lives until the next change."""
        return self._committed.get(group_id, _NONE)

    def put(self, group_id: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        partitions = self._committed.setdefault(group_id, {}).setdefault(topic, {})
        former = partitions.get(partition)
        partitions[partition] = committed
        if former is None or former.metadata != committed.metadata:
            self._limits.offset_bytes += offsets_bytes((committed,)) - (
                0 if former is None else offsets_bytes((former,))
            )

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Forget an offset; harmless if there is none."""
        topics = self._committed.get(group_id)
        partitions = topics.get(topic) if topics is not None else None
        former = partitions.pop(partition, None) if partitions is not None else None
        if topics is None or partitions is None or former is None:
            return
        self._limits.offset_bytes -= offsets_bytes((former,))
        if not partitions:
            del topics[topic]
        if not topics:
            del self._committed[group_id]

    def begin(self, group_id: str, keys: Iterable[TopicPartition]) -> None:
        """Offsets for these are being written."""
        under_way = self._under_way.setdefault(group_id, {})
        for key in keys:
            under_way[key] = under_way.get(key, 0) + 1

    def end(self, group_id: str, keys: Iterable[TopicPartition]) -> None:
        """The write that began with these has ended, well or not."""
        under_way = self._under_way[group_id]
        for key in keys:
            if under_way[key] == 1:
                del under_way[key]
            else:
                under_way[key] -= 1
        if not under_way:
            del self._under_way[group_id]

    def keys(self, group_id: str) -> set[TopicPartition]:
        """Everything that a deletion has to take back: what is committed, and what is being
        written.
        """
        found = {(topic, partition) for topic, partitions in self.of(group_id).items() for partition in partitions}
        return found.union(self._under_way.get(group_id, ()))

    def keys_of_topic(self, topic: str) -> dict[str, set[TopicPartition]]:
        """The same for all groups and one topic: group id -> keys."""
        found: dict[str, set[TopicPartition]] = {}
        for group_id, topics in self._committed.items():
            if topic in topics:
                found[group_id] = {(topic, partition) for partition in topics[topic]}
        for group_id, under_way in self._under_way.items():
            keys = {key for key in under_way if key[0] == topic}
            if keys:
                found.setdefault(group_id, set()).update(keys)
        return found

    def expired(self, group: ClassicGroup, now_ms: int, retention_ms: int) -> set[TopicPartition]:
        """Offsets of this group that nobody will come back for; none that is just being committed
        anew.
        """
        since = retention_start(group)
        if since is None:
            return set()
        under_way = self._under_way.get(group.group_id, {})
        return {
            (topic, partition)
            for topic, partitions in self.of(group.group_id).items()
            if not group.reads_topic(topic)
            for partition, committed in partitions.items()
            if is_expired(committed, since(committed), now_ms, retention_ms) and (topic, partition) not in under_way
        }


def retention_start(group: ClassicGroup) -> Callable[[CommittedOffset], int] | None:
    """When the retention of a group's offsets begins (wall clock, ms); None while it doesn't run.

    Without group management it begins with the commit; once the last member has left, with that;
    while members are there, with the commit, for topics that they do not subscribe to. Source:
    KIP-211, Kafka ClassicGroup.offsetExpirationCondition.
    """
    if group.state is ClassicGroupState.DEAD:
        return None
    if group.protocol_type is None:
        return lambda committed: committed.committed_ms
    if group.state is ClassicGroupState.EMPTY:
        empty_since_ms = group.state_since_ms
        return lambda committed: committed.committed_ms if empty_since_ms is None else empty_since_ms
    if group.state is ClassicGroupState.STABLE and group.subscribed is not None:
        return lambda committed: committed.committed_ms
    return None


def is_expired(committed: CommittedOffset, since_ms: int, now_ms: int, retention_ms: int) -> bool:
    """Whether the retention is over; a client that set an expiry of its own gets that."""
    if committed.expires_ms is not None:
        return now_ms >= committed.expires_ms
    return now_ms - since_ms >= retention_ms
