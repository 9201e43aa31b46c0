"""Waiting until the high watermark covers what was appended before a request.

In group mode records of a producer with acks=0 are in the log before the flush, and so before the
high watermark covers them. A request that reports what consumers can read (ListOffsets, end
offsets of an embedded broker) first waits for the flush of what the log holds. Every append starts
a flush, so this starts none. In kafka mode and in memory the high watermark is the log end.

In a cluster the high watermark of a new leader may lag behind what its predecessor has reported, so
it first has to reach the log end of the election (rule 23).
"""

from __future__ import annotations

from collections.abc import Iterable

from kqueue.base.errors import KqueueError, OffsetNotAvailable
from kqueue.broker.replicas.partition import Partition
from kqueue.replication.errors import NotEnoughReplicasAfterAppend


class UncommittedEnds:
    """The log ends of partitions at one moment, where the high watermark is below them."""

    __slots__ = ("_ends", "_uncommitted")

    def __init__(self, partitions: Iterable[Partition]) -> None:
        """Take the log ends of `partitions`; one whose log cannot be opened is left out."""
        self._ends: dict[Partition, int] = {}
        self._uncommitted: list[Partition] = []
        for partition in partitions:
            self.add(partition)

    def add(self, partition: Partition) -> None:
        """Add the partition's current log end; does nothing if added before, or if its log cannot
        be opened.
        """
        try:
            if partition not in self._ends and not partition.is_committed(end := partition.visible_end):
                self._ends[partition] = end
                self._uncommitted.append(partition)
        except NotEnoughReplicasAfterAppend:
            self._ends[partition] = partition.visible_end
            self._uncommitted.append(partition)
        except KqueueError:
            pass

    @property
    def keys(self) -> tuple[Partition, ...]:
        """The partitions whose events may commit the ends."""
        return tuple(self._ends)

    def all_committed(self) -> bool:
        """Return whether all ends are committed, or never will be (log offline, partition deleted).

        Stops at the first partition that is not, so that n partitions cost n looks in all.
        """
        uncommitted = self._uncommitted
        while uncommitted and self._is_settled(uncommitted[-1]):
            uncommitted.pop()
        return not uncommitted

    def check(self, partition: Partition) -> None:
        """Raises OffsetNotAvailable: the partition's end is not committed yet."""
        if partition in self._ends and not self._is_settled(partition):
            raise OffsetNotAvailable(
                f"{partition!r}: records up to offset {self._ends[partition]} are not committed yet"
            )

    def _is_settled(self, partition: Partition) -> bool:
        try:
            return partition.is_committed(self._ends[partition])
        except NotEnoughReplicasAfterAppend:
            return False  # until enough are in sync again
        except KqueueError:
            return True
