"""Appends the records of groups to the partition of `__consumer_offsets` that keeps each group."""

from __future__ import annotations

from collections.abc import Mapping

from kqueue.base.coordinators import coordinator_partition
from kqueue.base.errors import CoordinatorLoadInProgress, NotCoordinator
from kqueue.groups import records
from kqueue.groups.classic_group import ClassicGroup
from kqueue.groups.group_log import Done, GroupLog, GroupRecords, TransactionalProducer


class GroupWriter:
    """Belongs to the owner thread. Knows which partitions of the log were not read."""

    def __init__(self, log: GroupLog) -> None:
        self._log = log
        self._unreadable: dict[int, str] = {}  # partition -> reason
        self._loading: set[int] = set()

    def partition_of(self, group_id: str) -> int:
        """Return the partition of `__consumer_offsets` that keeps this group."""
        return coordinator_partition(group_id, self._log.partition_count)

    def mark_unreadable(self, partition: int, reason: str) -> None:
        """From now on `check_readable` refuses the groups of this partition."""
        self._unreadable[partition] = reason
        self._loading.discard(partition)

    def mark_loading(self, partition: int) -> None:
        """Refuse the groups of this partition with `check_readable` until `mark_loaded`."""
        self._loading.add(partition)

    def mark_loaded(self, partition: int) -> None:
        """End what `mark_loading` began."""
        self._loading.discard(partition)

    @property
    def is_loading(self) -> bool:
        """Whether a partition is loading."""
        return bool(self._loading)

    def check_readable(self, group_id: str) -> None:
        """Check that the records of this group were read.

        Raises: NotCoordinator: they could not be. CoordinatorLoadInProgress: not yet.
        """
        if not self._unreadable and not self._loading:
            return
        partition = self.partition_of(group_id)
        if partition in self._unreadable:
            raise NotCoordinator(f"group {group_id!r} can't be read: {self._unreadable[partition]}")
        if partition in self._loading:
            raise CoordinatorLoadInProgress(f"group {group_id!r} is still being read")

    def append(
        self, group_id: str, batch: GroupRecords, done: Done, producer: TransactionalProducer | None = None
    ) -> None:
        """Append records of one group; see `GroupLog.append`."""
        self._log.append(self.partition_of(group_id), batch, done, producer)

    def append_to(self, partition: int, batch: GroupRecords, done: Done) -> None:
        """Append records of several groups that one partition keeps; see `GroupLog.append`."""
        self._log.append(partition, batch, done)

    def save(self, group: ClassicGroup, assignments: Mapping[str, bytes], done: Done) -> None:
        """Append a group's generation with these assignments (member id -> assignment)."""
        record = (records.group_key(group.group_id), records.group_value(group.record(assignments)))
        self.append(group.group_id, [record], done)
