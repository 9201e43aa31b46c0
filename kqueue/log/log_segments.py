"""The list of a log's segments, and how it changes where nothing is appended: old ones are let go,
or replaced by compacted ones.
"""

from __future__ import annotations

from bisect import bisect_right

from kqueue.log.compaction import swap_files
from kqueue.log.compaction.model import SegmentGroup
from kqueue.log.deletion import DeletedSegments
from kqueue.log.formats.filenames import DELETED, LOG, TXNINDEX, file_name
from kqueue.log.formats.producer_snapshot import ProducerSnapshotFiles
from kqueue.log.policies import SegmentView
from kqueue.log.reader import LogReader
from kqueue.log.segment import Segment
from kqueue.storage import Storage


class LogSegments:
    """`all`: the segments, oldest first, never none; the last is the active one. The list object is
    shared with the log's reader.
    """

    __slots__ = ("_folder", "_reader", "_snapshots", "_storage", "all")

    def __init__(
        self,
        storage: Storage,
        folder: str,
        segments: list[Segment],
        reader: LogReader,
        snapshots: ProducerSnapshotFiles,
    ) -> None:
        self._storage = storage
        self._folder = folder
        self._reader = reader
        self._snapshots = snapshots
        self.all = segments

    def views(self, end_offset: int, now_ms: int, first_timestamps_from: int | None) -> tuple[SegmentView, ...]:
        """See `Log.segment_views`."""
        ends = [*(segment.base for segment in self.all[1:]), end_offset]
        return tuple(
            segment.view(
                end,
                is_active=segment is self.all[-1],
                now_ms=now_ms,
                with_first=first_timestamps_from is not None and end > first_timestamps_from,
            )
            for segment, end in zip(self.all, ends, strict=True)
        )

    def sealed_below(self, offset: int) -> list[Segment]:
        """See `Log.sealed_below`."""
        return self.all[: max(bisect_right(self.all, offset, key=lambda segment: segment.base) - 1, 0)]

    def start_after_deletion(self, offset: int) -> int | None:
        """See `Log.start_after_deletion`."""
        count = len(self.sealed_below(offset))
        return self.all[count].base if count else None

    def delete_below(self, offset: int, why: str) -> DeletedSegments | None:
        """Take out the sealed segments that end at or below `offset`; see `Log.delete_before`."""
        gone = self.sealed_below(offset)
        if not gone:
            return None
        del self.all[: len(gone)]
        size = sum(segment.size for segment in gone)
        files = self._leave(gone) + self._snapshots.give_up({segment.base for segment in gone})
        end_offset = self.all[0].base
        return DeletedSegments(
            self._storage,
            self._folder,
            files,
            base_offset=gone[0].base,
            end_offset=end_offset,
            count=len(gone),
            size=size,
            why=why,
        )

    def find(self, sealed: list[Segment]) -> int | None:
        """Where these neighbours stand in the list; None: they are not there, or one is the active
        segment.
        """
        number = next((number for number, segment in enumerate(self.all) if segment is sealed[0]), 0)
        there = self.all[number : number + len(sealed)] == sealed and sealed[-1] is not self.all[-1]
        return number if there else None

    def replace(self, old: list[Segment], group: SegmentGroup, now_ms: int) -> list[str] | None:
        """See `Log.replace`. Raises StorageFailed: nobody knows which names the files have."""
        number = self.find(old)
        if number is None:
            return None
        modified_ms = old[-1].modified_ms(now_ms)  # before the file has another name
        files, snapshots = self._leave(old), self._snapshots.give_up({segment.base for segment in old[1:]})
        swap_files.install(self._storage, self._folder, group)
        for name in snapshots:
            self._storage.rename(f"{self._folder}/{name}", f"{self._folder}/{name}{DELETED}")
        self.all[number : number + len(old)] = [self._open(group, now_ms, modified_ms)]
        return [f"{self._folder}/{name}{DELETED}" for name in files + snapshots]

    def cut(self, offset: int, index_bytes_max: int) -> int:
        """Drop all from `offset` on; returns where the log ends then; see `Log.truncate_to`. Raises
        StorageFailed, CorruptData.
        """
        self._reader.forget_hints()
        while len(self.all) > 1 and self.all[-1].base > offset:
            self.all.pop().remove()
        self._snapshots.remove_above(offset)
        self._storage.sync_folder(self._folder)  # before the cut, so that no later segment can outlive what it followed
        end_offset = self.all[-1].truncate_to(offset, index_bytes_max=index_bytes_max)
        return offset if end_offset is None else end_offset

    def _open(self, group: SegmentGroup, now_ms: int, modified_ms: int) -> Segment:
        cleaned = group.cleaned
        sizes = {file_name(cleaned.base, LOG): cleaned.size}
        if cleaned.has_txnindex:
            sizes[file_name(cleaned.base, TXNINDEX)] = 0  # tells that it is there
        segment = Segment(self._storage, self._folder, cleaned.base, now_ms, sizes=sizes)
        segment.set_modified_ms(modified_ms)
        segment.mark_verified()  # every batch was checked while it was written
        return segment

    def _leave(self, segments: list[Segment]) -> list[str]:
        """Have nothing more to do with the segments; returns the names of their files."""
        self._reader.forget(segments)
        for segment in segments:
            segment.close()  # before anybody renames them
        return [name for segment in segments for name in segment.names()]
