"""Appends the records of groups to the partition of `__consumer_offsets` that keeps each group."""

from __future__ import annotations

from collections.abc import Mapping

from kqueue.base.coordinators import CoordinatorPartitions
from kqueue.groups.classic.group import ClassicGroup
from kqueue.groups.log import records
from kqueue.groups.log.group_log import Done, GroupLog, GroupRecords, TransactionalProducer


class GroupWriter(CoordinatorPartitions):
    """Belongs to the owner thread. Knows which partitions of the log are served here."""

    def __init__(self, log: GroupLog) -> None:
        super().__init__("group", lambda: log.partition_count)
        self._log = log

    def partition_of(self, group_id: str) -> int:
        """Return the partition of `__consumer_offsets` that keeps this group."""
        return self.of(group_id)

    def append(
        self, group_id: str, batch: GroupRecords, done: Done, producer: TransactionalProducer | None = None
    ) -> None:
        """Append records of one group; see `GroupLog.append`, `begin_write`."""
        partition = self.partition_of(group_id)
        settle = self.begin_write(partition, done)
        if settle is not None:
            self._log.append(partition, batch, settle, producer)

    def append_to(self, partition: int, batch: GroupRecords, done: Done) -> None:
        """Append records of several groups that one partition keeps; see `append`."""
        settle = self.begin_write(partition, done)
        if settle is not None:
            self._log.append(partition, batch, settle)

    def save(self, group: ClassicGroup, assignments: Mapping[str, bytes], done: Done) -> None:
        """Append a group's generation with these assignments (member id -> assignment)."""
        record = (records.group_key(group.group_id), records.group_value(group.record(assignments)))
        self.append(group.group_id, [record], done)
