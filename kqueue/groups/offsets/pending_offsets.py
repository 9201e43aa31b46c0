"""Offsets that were committed in transactions which have not ended yet (KIP-447).

A pending offset is not committed: no OffsetFetch returns it. A consumer that asks for stable
offsets is refused while one is pending for its partition, and retries. Source: Kafka
OffsetMetadataManager.
"""

from __future__ import annotations

from collections.abc import Iterator

from kqueue.groups.limits import GroupLimits, offsets_bytes
from kqueue.groups.log.open_transactions import OpenTransactions
from kqueue.groups.log.records import CommittedOffset

TopicPartition = tuple[str, int]
_Producer = tuple[int, int]
"""Partition of the log, producer id: each partition gets a marker of its own."""
_GroupKey = tuple[str, TopicPartition]


class CompletedOffset:
    """An offset whose transaction ended; `committed` None: aborted, or a later commit counts."""

    __slots__ = ("committed", "group_id", "key")

    def __init__(self, group_id: str, key: TopicPartition, committed: CommittedOffset | None) -> None:
        self.group_id = group_id
        self.key = key
        self.committed = committed


class PendingOffsets:
    """Pending offsets of all groups. They count as other offsets do in `GroupLimits`."""

    def __init__(self, limits: GroupLimits) -> None:
        self._limits = limits
        self._open: OpenTransactions[_Producer, _GroupKey, CommittedOffset] = OpenTransactions()
        self._by_group: dict[str, set[TopicPartition]] = {}

    def add(
        self,
        partition: int,
        producer_id: int,
        group_id: str,
        key: TopicPartition,
        committed: CommittedOffset,
    ) -> None:
        """Add an offset of the open transaction of `producer_id` in a partition of the log."""
        former = self._open.add((partition, producer_id), (group_id, key), committed)
        self._limits.offset_bytes += offsets_bytes((committed,))
        if former is not None:
            self._limits.offset_bytes -= offsets_bytes((former,))
        self._by_group.setdefault(group_id, set()).add(key)

    def find(self, partition: int, producer_id: int, group_id: str, key: TopicPartition) -> CommittedOffset | None:
        """Return the offset that this transaction has pending; None: none."""
        return self._open.find((partition, producer_id), (group_id, key))

    def supersede(self, group_id: str, key: TopicPartition) -> None:
        """Record that a later offset was committed without a transaction."""
        if self._by_group:
            self._open.supersede((group_id, key))

    def discard(self, group_id: str, key: TopicPartition) -> None:
        """Remove what is pending for a deleted offset."""
        if self._by_group:
            self._limits.offset_bytes -= offsets_bytes(self._open.discard((group_id, key)))
            self._forget(group_id, key)

    def complete(self, partition: int, producer_id: int, *, committed: bool) -> Iterator[CompletedOffset]:
        """End a transaction in a partition of the log; see `OpenTransactions.complete`."""
        return self._release(self._open.complete((partition, producer_id), committed=committed))

    def _release(self, completed: Iterator[tuple[_GroupKey, CommittedOffset, bool]]) -> Iterator[CompletedOffset]:
        for (group_id, key), offset, is_current in completed:
            self._limits.offset_bytes -= offsets_bytes((offset,))
            self._forget(group_id, key)
            yield CompletedOffset(group_id, key, offset if is_current else None)

    def _forget(self, group_id: str, key: TopicPartition) -> None:
        keys = self._by_group.get(group_id)
        if keys is not None and (group_id, key) not in self._open:
            keys.discard(key)
            if not keys:
                del self._by_group[group_id]

    def is_pending(self, group_id: str, key: TopicPartition) -> bool:
        """Return whether an open transaction has committed an offset for `key`."""
        return bool(self._by_group) and (group_id, key) in self._open

    def keys(self, group_id: str) -> set[TopicPartition]:
        """Return a copy of the partitions with pending offsets of a group."""
        return set(self._by_group.get(group_id, ()))

    def keys_of_topic(self, topic: str) -> dict[str, set[TopicPartition]]:
        """Return the same for one topic of all groups: group id -> keys."""
        keys_by_group = {
            group_id: {key for key in keys if key[0] == topic} for group_id, keys in self._by_group.items()
        }
        return {group_id: keys for group_id, keys in keys_by_group.items() if keys}
