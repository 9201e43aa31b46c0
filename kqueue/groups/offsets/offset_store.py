"""Committed and pending offsets of all groups, as of the durable log, and which have expired."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from kqueue.base.names import UUID_ZERO
from kqueue.base.sliced_task import SlicedWork
from kqueue.groups.group import Group
from kqueue.groups.limits import GroupLimits, offsets_bytes
from kqueue.groups.log.records import CommittedOffset
from kqueue.groups.offsets.pending_offsets import CompletedOffset, PendingOffsets, TopicPartition

TopicOffsets = dict[str, dict[int, CommittedOffset]]
OffsetObserver = Callable[[str, str, int, int | None], None]
_NONE: Mapping[str, Mapping[int, CommittedOffset]] = {}
NOT_COMMITTED = CommittedOffset(offset=-1, leader_epoch=-1, metadata="", committed_ms=-1)
"""Stands for an offset that the group has not committed."""
UNSTABLE = CommittedOffset(offset=-1, leader_epoch=-1, metadata="", committed_ms=-1)
"""Stands for an offset that an open transaction may replace (KIP-447)."""


class OffsetStore:
    """Committed offsets: group id -> topic -> partition -> `CommittedOffset`.

    Holds durable offsets only. Writes in progress are tracked by key: `begin` is called when a
    write is appended, `end` when it is durable or has failed.

    Attributes:
        pending: offsets committed in open transactions. Changed here, so that both agree.
        observer: `observer(group, topic, partition, offset)` is called for each change of a
            committed offset; None: the offset was removed.
    """

    def __init__(self, limits: GroupLimits) -> None:
        self.pending = PendingOffsets(limits)
        self._limits = limits
        self._committed: dict[str, TopicOffsets] = {}
        self._under_way: dict[str, dict[TopicPartition, int]] = {}
        self.observer: OffsetObserver | None = None

    def of(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """Return a view of all offsets of a group, valid until the next change; empty if none."""
        return self._committed.get(group_id, _NONE)

    def fetch(
        self,
        group_id: str,
        topic: str,
        topic_id: bytes | None,
        partitions: Iterable[int] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[int, CommittedOffset]:
        """Return a group's offsets of one topic, as its clients see them.

        Args:
            topic_id: offsets of a deleted topic of the same name are not returned; None: there is
                no such topic, and offsets of any are.
            partitions: also those without an offset, as `NOT_COMMITTED`; None: those that have one.
            require_stable: with `UNSTABLE` for offsets that an open transaction may replace.
        """
        committed = self.of(group_id).get(topic, {})
        if partitions is None:
            offsets = {index: offset for index, offset in committed.items() if _is_of_topic(offset, topic_id)}
        else:
            find = committed.get
            offsets = {
                index: offset if _is_of_topic(offset := find(index, NOT_COMMITTED), topic_id) else NOT_COMMITTED
                for index in partitions
            }
        if require_stable:
            is_pending = self.pending.is_pending
            offsets = {
                index: UNSTABLE if is_pending(group_id, (topic, index)) else offset for index, offset in offsets.items()
            }
        return offsets

    def has(self, group_id: str) -> bool:
        """Return whether a group has offsets, committed or pending."""
        return group_id in self._committed or bool(self.pending.keys(group_id))

    def put(self, group_id: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        """Store an offset committed without a transaction, replacing the previous one."""
        self.pending.supersede(group_id, (topic, partition))
        self._store(group_id, topic, partition, committed)

    def put_completed(self, completed: CompletedOffset) -> None:
        """Store an offset whose transaction ended, if it committed and no later one was."""
        if completed.committed is not None:
            self._store(completed.group_id, *completed.key, completed.committed)

    def _store(self, group_id: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        partitions = self._committed.setdefault(group_id, {}).setdefault(topic, {})
        former = partitions.get(partition)
        partitions[partition] = committed
        if self.observer is not None:
            self.observer(group_id, topic, partition, committed.offset)
        if former is None or former.metadata != committed.metadata:
            self._limits.offset_bytes += offsets_bytes((committed,)) - (
                0 if former is None else offsets_bytes((former,))
            )

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Remove an offset, and what is pending for it; has no effect if there is none."""
        self.pending.discard(group_id, (topic, partition))
        topics = self._committed.get(group_id)
        partitions = topics.get(topic) if topics is not None else None
        former = partitions.pop(partition, None) if partitions is not None else None
        if topics is None or partitions is None or former is None:
            return
        self._limits.offset_bytes -= offsets_bytes((former,))
        if self.observer is not None:
            self.observer(group_id, topic, partition, None)
        if not partitions:
            del topics[topic]
        if not topics:
            del self._committed[group_id]

    def drop(self, group_id: str) -> SlicedWork[None]:
        """Remove all offsets of a group from memory, in steps; no write may be under way."""
        for key in self.keys(group_id):
            self.remove(group_id, *key)
            yield None

    def of_topic(self, topic: str) -> Iterator[tuple[str, int, int]]:
        """Yield group id, partition and offset of all committed offsets of a topic."""
        for group_id, topics in self._committed.items():
            for partition, committed in topics.get(topic, {}).items():
                yield group_id, partition, committed.offset

    def begin(self, group_id: str, keys: Iterable[TopicPartition]) -> None:
        """Record that a write of these offsets has started."""
        under_way = self._under_way.setdefault(group_id, {})
        for key in keys:
            under_way[key] = under_way.get(key, 0) + 1

    def end(self, group_id: str, keys: Iterable[TopicPartition]) -> None:
        """Record that the write that began with these offsets has completed or failed."""
        under_way = self._under_way[group_id]
        for key in keys:
            if under_way[key] == 1:
                del under_way[key]
            else:
                under_way[key] -= 1
        if not under_way:
            del self._under_way[group_id]

    def keys(self, group_id: str) -> set[TopicPartition]:
        """Return what a deletion must remove: committed and pending offsets, and those being
        written.
        """
        committed = {(topic, partition) for topic, partitions in self.of(group_id).items() for partition in partitions}
        return committed.union(self.pending.keys(group_id), self._under_way.get(group_id, ()))

    def keys_of_topic(self, topic: str) -> dict[str, set[TopicPartition]]:
        """Return the same for one topic of all groups: group id -> keys."""
        keys_by_group = self.pending.keys_of_topic(topic)
        for group_id, topics in self._committed.items():
            if topic in topics:
                keys_by_group.setdefault(group_id, set()).update((topic, partition) for partition in topics[topic])
        for group_id, under_way in self._under_way.items():
            keys = {key for key in under_way if key[0] == topic}
            if keys:
                keys_by_group.setdefault(group_id, set()).update(keys)
        return keys_by_group

    def expired(self, group: Group, now_ms: int, retention_ms: int) -> set[TopicPartition]:
        """Return the expired offsets of this group, except those being written and those for which
        a transaction has another one pending.
        """
        since = group.retention_start()
        if since is None:
            return set()
        excluded = self.pending.keys(group.group_id).union(self._under_way.get(group.group_id, ()))
        return {
            (topic, partition)
            for topic, partitions in self.of(group.group_id).items()
            if not group.reads_topic(topic)
            for partition, committed in partitions.items()
            if is_expired(committed, since(committed), now_ms, retention_ms) and (topic, partition) not in excluded
        }


def is_expired(committed: CommittedOffset, since_ms: int, now_ms: int, retention_ms: int) -> bool:
    """Return whether the retention is over; an expiry that the client set takes precedence."""
    if committed.expires_ms is not None:
        return now_ms >= committed.expires_ms
    return now_ms - since_ms >= retention_ms


def _is_of_topic(committed: CommittedOffset, topic_id: bytes | None) -> bool:
    return topic_id is None or committed.topic_id in (UUID_ZERO, topic_id)
