"""Puts cleaned segments in place of old ones, in steps of which each may be the last before a
crash.

| step | on disk | after a crash |
|---|---|---|
| 1 | the job wrote `<base>.{log,index,timeindex,txnindex}.cleaned` | they are removed: all is old |
| 2 | commit: `.cleaned` -> `.swap`, the log last; folder synced | old up to the log's rename |
| 3 | install: old files -> `.deleted`, `.swap` -> final names, log last | `complete` continues |
| 4 | folder synced; later the `.deleted` files are removed | the next start removes them |

Groups are committed and installed in order of their offsets, each installed before the next is
committed. So a `.cleaned` file at or below a `.swap` file's offset says that the commit was cut
short. This is Kafka's rule too, whose folders `complete` accepts.

After step 2 a segment `<base>.log.swap` covers all segments that begin between its base and its
last offset. It reaches as far as those that it replaces, see `segment_rewriter`. In step 3 names
may reach the disk in any order. While `.log.swap` exists, the covered segments are removed first.
Once it is `.log`, `<base>.log.deleted` says that covered segments may be left; so `.deleted` files
must not be removed before the folder is synced.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable

from kqueue.base import events
from kqueue.base.errors import CorruptBatch, CorruptIndex, StorageFailed
from kqueue.log.compaction.model import SegmentGroup
from kqueue.log.formats.filenames import (
    CLEANED,
    DELETED,
    INDEX,
    LOG,
    SEGMENT_SUFFIXES,
    SWAP,
    TIMEINDEX,
    TXNINDEX,
    file_name,
    parse_file_name,
)
from kqueue.log.formats.offset_index import ENTRY as INDEX_ENTRY
from kqueue.log.formats.transaction_index import ENTRY as TXN_ENTRY
from kqueue.log.formats.transaction_index import VERSION as TXN_VERSION
from kqueue.log.formats.transaction_index import decode_aborted
from kqueue.log.scanner.batch_scanner import scan
from kqueue.records.batch import BatchHeader
from kqueue.storage import Storage

logger = logging.getLogger("kqueue.log")
_LOG_LAST = (INDEX, TIMEINDEX, TXNINDEX, LOG)


def discard(storage: Storage, folder: str, groups: Iterable[SegmentGroup]) -> None:
    """Remove the `.cleaned` files of these groups; the next start removes what remains."""
    for group in groups:
        for suffix in _LOG_LAST:
            with contextlib.suppress(FileNotFoundError, StorageFailed):
                storage.remove(f"{folder}/{file_name(group.cleaned.base, suffix)}{CLEANED}")


def commit(storage: Storage, folder: str, group: SegmentGroup) -> None:
    """Do step 2 for one group.

    Durability: on return a crash leaves the new segment.
    Raises StorageFailed: a crash may leave either.
    """
    for suffix in _LOG_LAST:
        path = f"{folder}/{file_name(group.cleaned.base, suffix)}"
        if suffix != TXNINDEX or group.cleaned.has_txnindex:
            storage.rename(path + CLEANED, path + SWAP)
    storage.sync_folder(folder)


def install(storage: Storage, folder: str, group: SegmentGroup) -> list[str]:
    """Do step 3 for one group, by renames only.

    Returns: paths of the `.deleted` files, to be removed later.
    Durability: the caller syncs the folder before it commits the next group or removes a
        `.deleted` file.
    Raises StorageFailed: the folder has names of both; the next start completes the swap.
    Thread: the log's owner, which has closed the old segments' files and opens the new one next.
    """
    deleted = []
    for base in group.sources:
        for suffix in SEGMENT_SUFFIXES:
            path = f"{folder}/{file_name(base, suffix)}"
            with contextlib.suppress(FileNotFoundError):
                storage.rename(path, path + DELETED)
                deleted.append(path + DELETED)
    for suffix in _LOG_LAST:
        path = f"{folder}/{file_name(group.cleaned.base, suffix)}"
        if suffix != TXNINDEX or group.cleaned.has_txnindex:
            storage.rename(path + SWAP, path)
    return deleted


def complete(storage: Storage, folder: str, names: Iterable[str]) -> bool:
    """Complete or undo a compaction that a crash ended, of kqueue or Kafka; before any other use.

    Args: names: of the folder's files. `.deleted` files are needed here; remove them afterwards.
    Returns: whether anything was changed.
    Durability: changes are synced. After a crash the next start comes to the same result.
    Raises: StorageFailed; CorruptBatch: a new segment cannot be read.
    """
    return _Completion(storage, folder, set(names)).run()


class _Completion:
    def __init__(self, storage: Storage, folder: str, names: set[str]) -> None:
        self.storage = storage
        self.folder = folder
        self.names = names
        self.changed = self.unsynced = False

    def run(self) -> bool:
        self._undo_uncommitted()
        for base in sorted(self._bases(LOG + SWAP)):
            self._roll_forward(base)
        for name in sorted(name for name in self.names if name.endswith(SWAP)):
            self._rename(name, name.removesuffix(SWAP))  # of a log that has its final name already
        # new segments whose log has its final name; covered segments may be left
        for base in sorted(self._bases(LOG + DELETED) & self._bases(LOG)):
            try:
                self._remove_covered(base, LOG)
            except CorruptBatch as error:
                events.FILES_NOT_REMOVED.log(
                    logger, "%s; segments that a compaction has replaced may be left", error=error
                )
        self._sync()
        return self.changed

    def _undo_uncommitted(self) -> None:
        cleaned = [name for name in self.names if name.endswith(CLEANED)]
        first = min((base for suffix in SEGMENT_SUFFIXES for base in self._bases(suffix + CLEANED)), default=None)
        if first is not None:
            for name in [name for name in self.names if name.endswith(SWAP)]:
                parsed = parse_file_name(name.removesuffix(SWAP))
                if parsed is not None and parsed[0] >= first:
                    self._remove(name)
            self._sync()  # or a .swap could outlive the .cleaned that invalidates it
        for name in cleaned:
            self._remove(name)
        self._sync()

    def _roll_forward(self, base: int) -> None:
        events.COMPACTION_RESUMED.log(
            logger,
            "%s in %s: a compaction was interrupted, completing it from offset %d",
            folder=self.folder,
            location=self.storage.location,
            base_offset=base,
        )
        self._remove_covered(base, LOG + SWAP)
        self._check_txnindex(base)
        self._sync()  # or an old segment could outlive the .swap that covers it
        for suffix in _LOG_LAST:
            name = file_name(base, suffix)
            if name + SWAP in self.names:
                self._rename(name + SWAP, name)
        self._sync()

    def _remove_covered(self, base: int, suffix: str) -> None:
        """Remove segments that begin within segment `base`, whose log file has this suffix."""
        others = [
            name
            for name in self.names
            if (parsed := parse_file_name(name)) and parsed[1] in SEGMENT_SUFFIXES and parsed[0] > base
        ]
        if not others:
            return
        last_offset = self._last_offset(base, suffix)
        for name in sorted(others):
            parsed = parse_file_name(name)
            if parsed is not None and parsed[0] <= last_offset:
                self._remove(name)

    def _last_offset(self, base: int, suffix: str) -> int:
        """Return the last offset of the segment; below `base` if it is empty."""
        path = f"{self.folder}/{file_name(base, suffix)}"
        file = self.storage.open(path)
        for start in (self._last_indexed(base, suffix), 0):
            last_offset, position = base - 1, start
            with contextlib.suppress(CorruptBatch):
                for batch in scan(file, start, file.size):
                    last_offset, position = batch.header.last_offset, batch.end
                if position == file.size:
                    file.close()
                    return last_offset
        file.close()
        raise CorruptBatch(
            f"{path}: expected whole batches up to its end at {file.size}, found none from position {position} on"
        )

    def _last_indexed(self, base: int, suffix: str) -> int:
        """Return the position in the last index entry, 0: none. It may be wrong."""
        name = file_name(base, INDEX) + suffix.removeprefix(LOG)
        if name not in self.names:
            return 0
        file = self.storage.open(f"{self.folder}/{name}")
        count = file.size // INDEX_ENTRY.size
        last = file.read_at((count - 1) * INDEX_ENTRY.size, INDEX_ENTRY.size) if count else b""
        file.close()
        return max(INDEX_ENTRY.unpack(last)[1], 0) if last else 0

    def _check_txnindex(self, base: int) -> None:
        """Keep only entries whose markers the new segment has, if the transaction index may be the
        old one.
        """
        name = file_name(base, TXNINDEX)
        if name not in self.names or name + SWAP in self.names:
            return
        path = f"{self.folder}/{name}"
        file = self.storage.open(f"{self.folder}/{file_name(base, LOG)}{SWAP}")
        markers = {
            batch.header.last_offset
            for batch in scan(file, 0, file.size)
            if isinstance(batch.header, BatchHeader) and batch.header.is_control
        }
        file.close()
        data = self.storage.read(path)
        try:
            kept = [aborted for aborted in decode_aborted(data) if aborted.last_offset in markers]
        except CorruptIndex:
            kept = []
        encoded = b"".join(TXN_ENTRY.pack(TXN_VERSION, *aborted) for aborted in kept)
        if encoded != data:
            self.storage.write_atomic(path, encoded)
            self.changed = True

    # --- names

    def _bases(self, suffix: str) -> set[int]:
        return {int(name[:20]) for name in self.names if name[20:] == suffix and parse_file_name(name[:20] + LOG)}

    def _remove(self, name: str) -> None:
        self.storage.remove(f"{self.folder}/{name}")
        self.names.discard(name)
        self.changed = self.unsynced = True

    def _rename(self, old: str, new: str) -> None:
        self.storage.rename(f"{self.folder}/{old}", f"{self.folder}/{new}")
        self.names.discard(old)
        self.names.add(new)
        self.changed = self.unsynced = True

    def _sync(self) -> None:
        if self.unsynced:
            self.storage.sync_folder(self.folder)
            self.unsynced = False
