"""The partitions of `__consumer_offsets` as they come and go: their groups enter memory when this
broker becomes the coordinator of a partition, and leave it when another broker does.

Leaving: requests are refused at once, writes under way fail, and members that wait for a join or a
sync are answered with NotCoordinator. What an unfinished write becomes in the log has no effect
here: the next coordinator reads it, or the next load of this one.
"""

from __future__ import annotations

from collections.abc import Iterable

from kqueue.base.coordinators import PartitionedTable
from kqueue.base.slice_queue import SliceQueue
from kqueue.base.sliced_task import SlicedWork
from kqueue.groups.group import Group
from kqueue.groups.group_loader import GroupLoader
from kqueue.groups.group_types import Managers
from kqueue.groups.log.group_log import LogEntry
from kqueue.groups.log.group_writer import GroupWriter
from kqueue.groups.offsets.offset_manager import OffsetManager


class GroupPartitions:
    """Loads and unloads partitions of the log. On the owner thread."""

    def __init__(
        self,
        groups: PartitionedTable[str, Group],
        writer: GroupWriter,
        loader: GroupLoader,
        managers: Managers,
        offsets: OffsetManager,
        slices: SliceQueue,
    ) -> None:
        """Take the parts. `slices`: runs what is completed after a load."""
        self._groups = groups
        self._writer = writer
        self._loader = loader
        self._managers = managers
        self._offsets = offsets
        self._slices = slices
        self._deleted_while_loading: set[str] = set()

    def load(self, partition: int, entries: Iterable[LogEntry]) -> SlicedWork[None]:
        """Replay one partition, in steps, and serve it; see `GroupCoordinator.load`."""
        groups = yield from self._loader.load(partition, entries)
        for group in groups:
            self._managers[group.type].resume(group)
            yield None
        self._writer.mark_loaded(partition)
        self._slices.add(self._offsets.complete_ended_while_loading(partition))
        for topic in self._deleted_while_loading:
            self._offsets.delete_topic(topic, only=partition)
        if not self._writer.is_loading:
            self._deleted_while_loading.clear()
        self._slices.add(self._activate(groups))

    def _activate(self, groups: list[Group]) -> SlicedWork[None]:
        for group in groups:
            self._managers[group.type].activate(group)
            yield None

    def unload(self, partition: int) -> SlicedWork[None]:
        """Refuse what the partition keeps, now; return the work that removes it from memory."""
        self._writer.mark_left(partition)
        self._offsets.forget_ended_while_loading(partition)
        return self._remove(partition)

    def _remove(self, partition: int) -> SlicedWork[None]:
        for group_id in self._groups.keys_of(partition):
            group = self._groups.get(group_id)
            if group is not None:
                self._managers[group.type].stop(group)
                del self._groups[group_id]
                yield from self._offsets.store.drop(group_id)
            yield None
        for group_id in self._loader.unfinished(partition):  # a load ended before its groups were made
            yield from self._offsets.store.drop(group_id)

    def delete_topic(self, topic: str) -> None:
        """Delete what all groups have committed for a deleted topic."""
        if self._writer.is_loading:
            self._deleted_while_loading.add(topic)  # what is loaded later may name it
        self._offsets.delete_topic(topic)
