"""Waiting until consumers can see what was appended before a request came.

In group mode a producer with acks=0 or 1 is answered before its records are flushed, and so before
the high watermark covers them. A request that reports what consumers can see (ListOffsets, the end
offsets of an embedded broker) first waits for the flush of what the log held when it came. An
append always starts a flush, so this waits for one that is due or under way, and starts none of its
own. In kafka mode and in memory the high watermark is the log end, and nothing waits.
"""

from __future__ import annotations

from collections.abc import Iterable

from kqueue.base.errors import KqueueError, OffsetNotAvailable
from kqueue.broker.partition import Partition


class UncommittedEnds:
    """The log ends of partitions at one moment, as far as consumers can't see up to them yet."""

    __slots__ = ("_ends", "_unseen")

    def __init__(self, partitions: Iterable[Partition]) -> None:
        """`partitions`: those whose log can't be opened are left out."""
        self._ends: dict[Partition, int] = {}
        self._unseen: list[Partition] = []
        for partition in partitions:
            self.add(partition)

    def add(self, partition: Partition) -> None:
        """Add the end that the partition's log has now; once for each. One whose log can't be
        opened is left out.
        """
        try:
            if partition not in self._ends and not partition.is_committed(end := partition.log_end_offset):
                self._ends[partition] = end
                self._unseen.append(partition)
        except KqueueError:
            pass

    @property
    def keys(self) -> tuple[Partition, ...]:
        """The partitions to wait for."""
        return tuple(self._ends)

    def all_committed(self) -> bool:
        """Whether consumers can see all that was appended then, or never will: the log went
        offline, the partition was deleted.

        Looks no further than the first partition that is not there yet, so that waiting for n of
        them costs n looks in all.
        """
        unseen = self._unseen
        while unseen and self._is_settled(unseen[-1]):
            unseen.pop()
        return not unseen

    def check(self, partition: Partition) -> None:
        """Raises OffsetNotAvailable: what was appended to this partition then is not visible yet,
        but may be soon.
        """
        if partition in self._ends and not self._is_settled(partition):
            raise OffsetNotAvailable(f"{partition!r}: records up to offset {self._ends[partition]} are not flushed yet")

    def _is_settled(self, partition: Partition) -> bool:
        try:
            return partition.is_committed(self._ends[partition])
        except KqueueError:
            return True
