"""The segments of one log, and all changes to them: roll, truncate, delete, replace."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from kqueue.base.errors import StorageUnavailable
from kqueue.log.compaction import swap_files
from kqueue.log.compaction.model import SegmentGroup
from kqueue.log.config import LogConfig
from kqueue.log.deletion import DeletedSegments
from kqueue.log.flusher import Flusher
from kqueue.log.formats.filenames import DELETED, LOG, TXNINDEX, file_name
from kqueue.log.formats.producer_snapshot import ProducerSnapshotFiles
from kqueue.log.formats.transaction_index import AbortedTxn
from kqueue.log.producer_state import ProducerStateManager
from kqueue.log.reader import LogReader
from kqueue.log.segment import Segment
from kqueue.log.segment_files import SegmentFiles
from kqueue.log.views import SegmentView
from kqueue.storage import Storage


class LogSegments:
    """A sequence of segments, oldest first, never empty; `active` is the last one.

    The list object is shared with the log's reader.

    Attributes: snapshots: the producer snapshots of the log.
    """

    __slots__ = ("_deleted", "_folder", "_list", "_reader", "_storage", "active", "snapshots")

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
        self.snapshots = snapshots
        self._list = segments
        self._deleted: list[DeletedSegments] = []  # whose files may have their names still
        self.active = segments[-1]

    def __len__(self) -> int:
        return len(self._list)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._list)

    def __getitem__(self, number: int) -> Segment:
        return self._list[number]

    @property
    def base_offset(self) -> int:
        """First offset of the oldest segment; the log starts there or later."""
        return self._list[0].base

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return sum(segment.size for segment in self._list)

    def size_from(self, base: int) -> int:
        """Return the bytes of the segments from the one with this base offset on."""
        return sum(segment.size for segment in self._list[max(bisect_right(self._list, base, key=_base) - 1, 0) :])

    def views(self, end_offset: int, now_ms: int, first_timestamps_from: int | None) -> tuple[SegmentView, ...]:
        """Return a view of each segment; see `Log.segment_views`."""
        ends = [*(segment.base for segment in self._list[1:]), end_offset]
        return tuple(
            segment.view(
                end,
                is_active=segment is self.active,
                now_ms=now_ms,
                with_first=first_timestamps_from is not None and end > first_timestamps_from,
            )
            for segment, end in zip(self._list, ends, strict=True)
        )

    def sealed_below(self, offset: int) -> list[Segment]:
        """Return the sealed segments that end at or below `offset`, oldest first."""
        return self._list[: max(bisect_right(self._list, offset, key=_base) - 1, 0)]

    def start_after_deletion(self, offset: int) -> int | None:
        """Return the first offset left after `delete_below(offset)`; None: nothing would go."""
        count = len(self.sealed_below(offset))
        return self._list[count].base if count else None

    def contains(self, sealed: list[Segment]) -> bool:
        """Whether these are still sealed segments of the log, next to each other."""
        return self._find(sealed) is not None

    def roll(self, end_offset: int, producers: ProducerStateManager, flusher: Flusher, now_ms: int) -> None:
        """Seal the active segment and create one at `end_offset`.

        Durability: as `Log.roll`. Raises: StorageFailed.
        """
        old = self.active
        # First: recovery cuts the last two segments only, so no third one may begin before the last
        # but one is durable (`log_loader`).
        flusher.sync_sealed()
        old.seal()
        # Fixes the time of its last batches: a later call would take its own time for theirs.
        old.modified_ms(now_ms)
        self.take_snapshot(producers, end_offset, flusher)
        # May fail for want of room or descriptors; the old segment is still the active one then.
        new = Segment(SegmentFiles.make(self._storage, self._folder, end_offset), now_ms)
        flusher.add(*old.files.all())
        flusher.folder_changed()
        self._list.append(new)
        self.active = new

    def take_snapshot(self, producers: ProducerStateManager, end_offset: int, flusher: Flusher) -> None:
        """Write the producer snapshot of the log end, unless it exists. Raises: StorageFailed."""
        file = self.snapshots.take(producers, end_offset, {segment.base for segment in self._list})
        if file is not None:
            flusher.add(file)
            flusher.folder_changed()

    def append_abort(
        self,
        marker: bytearray | memoryview,
        last_offset: int,
        max_timestamp: int,
        config: LogConfig,
        aborted: AbortedTxn | None,
    ) -> None:
        """Append a marker that aborts to the active segment.

        Args: aborted: the transaction; None: none was open. It is indexed first, and taken out if
            the marker is not written: a marker without its entry, for lack of room, would give
            readers aborted records.
        Raises: as `Segment.append`.
        """
        active = self.active
        if aborted is not None:
            active.txnindex.append(aborted)
        try:
            active.append(marker, last_offset, max_timestamp, config.index_interval_bytes, config.segment_index_bytes)
        except StorageUnavailable:
            if aborted is not None:
                active.txnindex.remove_last()
            raise

    def keeps_producers(self, offset: int, producers: ProducerStateManager, flusher: Flusher) -> bool:
        """Whether the producers of the records below `offset`, where a segment begins, survive a
        power cut without those records; see `start_snapshot`.
        """
        if not producers:
            return True
        snapshots = self.snapshots
        is_durable = snapshots.durable_offset == offset or flusher.has_flushed_roll(offset)
        return is_durable and offset in snapshots.offsets

    def delete_below(
        self, offset: int, why: str, producers: ProducerStateManager, flusher: Flusher, *, in_order: bool = False
    ) -> DeletedSegments | None:
        """Remove the sealed segments that end at or below `offset`; see `Log.delete_before`.

        Args: in_order: see `DeletedSegments`.
        """
        removed = self.sealed_below(offset)
        # A deletion takes the batches from which producer state could be rebuilt. Before the
        # snapshot at the new start is durable, a power cut would lose the sequences of idle
        # producers, and their retries would be appended twice.
        if not removed or not self.keeps_producers(self._list[len(removed)].base, producers, flusher):
            return None
        del self._list[: len(removed)]
        size = sum(segment.size for segment in removed)
        files = self._detach(removed) + self.snapshots.forget({segment.base for segment in removed})
        deleted = DeletedSegments(
            self._storage,
            self._folder,
            files,
            base_offset=removed[0].base,
            end_offset=self._list[0].base,
            count=len(removed),
            size=size,
            why=why,
        )
        deleted.in_order = in_order
        self._deleted = [earlier for earlier in self._deleted if not earlier.is_renamed]
        self._deleted.append(deleted)
        return deleted

    def finish_deletions(self) -> None:
        """Rename the files of all deleted segments, before a segment may take the name of one.

        Blocks. Raises: StorageFailed.
        """
        for deleted in self._deleted:
            deleted.rename()
        self._deleted = []

    def replace(self, old: list[Segment], group: SegmentGroup, now_ms: int) -> list[str] | None:
        """Replace `old` by the compacted `group`; see `Log.replace`.

        Raises: StorageFailed: the files may have any mixture of old and new names.
        """
        number = self._find(old)
        if number is None:
            return None
        modified_ms = old[-1].modified_ms(now_ms)  # before the file is renamed
        files, snapshots = self._detach(old), self.snapshots.forget({segment.base for segment in old[1:]})
        swap_files.install(self._storage, self._folder, group)
        for name in snapshots:
            self._storage.rename(f"{self._folder}/{name}", f"{self._folder}/{name}{DELETED}")
        self._list[number : number + len(old)] = [self._open_compacted(group, now_ms, modified_ms)]
        return [f"{self._folder}/{name}{DELETED}" for name in files + snapshots]

    def truncate_to(self, offset: int, index_bytes_max: int) -> int:
        """Remove everything from `offset` on and return the new log end; see `Log.truncate_to`.

        Raises: StorageFailed, CorruptData.
        """
        self._reader.clear_hints()
        # The newest first, each durably: whenever a crash ends this, the segments that are left
        # have no gap. Names that are changed without a sync between may be lost in any order.
        while len(self._list) > 1 and self._list[-1].base > offset:
            self._list.pop().files.remove()
            self._storage.sync_folder(self._folder)
        self.active = self._list[-1]
        self.snapshots.remove_above(offset)
        self._storage.sync_folder(
            self._folder
        )  # before the truncation, so that no later segment outlives an earlier one
        end_offset = self.active.truncate_to(offset, index_bytes_max=index_bytes_max)
        return offset if end_offset is None else end_offset

    def begin_at(self, offset: int, now_ms: int) -> None:
        """Add an empty segment at `offset`, which becomes the active one. Raises StorageFailed."""
        self._reader.clear_hints()
        self.active = Segment(SegmentFiles.make(self._storage, self._folder, offset), now_ms)
        self._list.append(self.active)

    def remove_first(self) -> None:
        """Delete all segments but the active one. Blocks. Raises: StorageFailed."""
        while len(self._list) > 1:
            self._list.pop(0).files.remove()

    def _find(self, sealed: list[Segment]) -> int | None:
        """Return the index of the first of these neighbours; None: not in the list, or one is
        active.
        """
        number = next((number for number, segment in enumerate(self._list) if segment is sealed[0]), 0)
        is_there = self._list[number : number + len(sealed)] == sealed and sealed[-1] is not self.active
        return number if is_there else None

    def _open_compacted(self, group: SegmentGroup, now_ms: int, modified_ms: int) -> Segment:
        cleaned = group.cleaned
        sizes = {file_name(cleaned.base, LOG): cleaned.size}
        if cleaned.has_txnindex:
            sizes[file_name(cleaned.base, TXNINDEX)] = 0  # says that the file exists
        segment = Segment.open(self._storage, self._folder, cleaned.base, now_ms, sizes=sizes)
        segment.set_modified_ms(modified_ms)
        segment.mark_verified()  # compaction checked every batch while it wrote it
        return segment

    def _detach(self, segments: list[Segment]) -> list[str]:
        """Close segments that leave the log; return the names of their files."""
        self._reader.forget(segments)
        for segment in segments:
            segment.files.close()  # before the files are renamed
        return [name for segment in segments for name in segment.files.names()]


def _base(segment: Segment) -> int:
    return segment.base
