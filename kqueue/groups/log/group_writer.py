"""Appends the records of groups to the partition of `__consumer_offsets` that keeps each group."""

from __future__ import annotations

from collections.abc import Callable

from kqueue.base.clock import Clock
from kqueue.base.coordinators import CoordinatorPartitions
from kqueue.base.errors import KqueueError, RequestTimedOut
from kqueue.base.timers import Timers
from kqueue.groups.log import records
from kqueue.groups.log.group_log import Done, GroupLog, GroupRecords, TransactionalProducer
from kqueue.groups.log.schemas import GroupMetadataValue


class GroupWriter(CoordinatorPartitions):
    """Belongs to the owner thread. Knows which partitions of the log are served here."""

    def __init__(self, log: GroupLog, timers: Timers, clock: Clock, timeout_ms: Callable[[], float]) -> None:
        """Take the parts. `timeout_ms`: `offsets.commit.timeout.ms`."""
        super().__init__("group", lambda: log.partition_count)
        self._log = log
        self._timers = timers
        self._clock = clock
        self._timeout_ms = timeout_ms

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

    def save(self, group_id: str, generation: GroupMetadataValue, done: Done) -> None:
        """Append the generation of a classic group.

        `done(error)` is called where it is not committed in time, too: its members wait, and as in
        Kafka they join once more. If it is committed after all, the next generation replaces it.
        """
        record = (records.group_key(group_id), records.group_value(generation))
        self.append(group_id, [record], self._in_time(done))

    def _in_time(self, done: Done) -> Done:
        """Return a function that calls `done` once, as it is called itself, or with
        RequestTimedOut.
        """
        late = RequestTimedOut("the record was not replicated within offsets.commit.timeout.ms")
        timer = self._timers.at(self._clock.monotonic_ms() + self._timeout_ms(), lambda: done(late))

        def ended(error: KqueueError | None) -> None:
            if timer.pending:
                timer.cancel()
                done(error)

        return ended
