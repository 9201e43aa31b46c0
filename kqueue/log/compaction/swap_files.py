"""Puts cleaned segments in the place of old ones, in steps of which each can be the last before a
crash.

    1. the job has written <base>.{log,index,timeindex,txnindex}.cleaned       crash: they are removed, all is old
    2. commit: .cleaned -> .swap, the log last, then the folder is synced      crash before that: as 1; after it: all is new
    3. install: old files -> .deleted, .swap -> final names, the log last      crash: `complete` goes on from any mixture of these names
    4. the folder is synced, later the .deleted files are removed

Groups are committed and installed in order of their offsets, each installed before the next is
committed: a `.cleaned` file at or below a `.swap` file's offset says that the commit was cut short
(Kafka's rule too, whose folders `complete` takes as well).

After step 2 a segment `<base>.log.swap` covers all segments that begin between its base and its
last offset; it reaches as far as those that it replaces, see `rewrite`. In step 3 names may reach
the disk in any order. While `.log.swap` is there, the covered segments go first. Where it has
become `.log` already, `<base>.log.deleted` tells that others may have been left, so those names
must not be removed before the folder was synced.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable

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
    """Remove the `.cleaned` files of these groups, whose result nobody wants; what can't be removed
    is left to the next start.
    """
    for group in groups:
        for suffix in _LOG_LAST:
            with contextlib.suppress(FileNotFoundError, StorageFailed):
                storage.remove(f"{folder}/{file_name(group.cleaned.base, suffix)}{CLEANED}")


def commit(storage: Storage, folder: str, group: SegmentGroup) -> None:
    """Step 2; blocks. Durability: on return the new segment is what a crash leaves. Raises
    StorageFailed: it may be either.
    """
    for suffix in _LOG_LAST:
        path = f"{folder}/{file_name(group.cleaned.base, suffix)}"
        if suffix != TXNINDEX or group.cleaned.has_txnindex:
            storage.rename(path + CLEANED, path + SWAP)
    storage.sync_folder(folder)


def install(storage: Storage, folder: str, group: SegmentGroup) -> list[str]:
    """Step 3: renames only; on the thread that owns the log, which has closed the files of the old
    segments and opens the new one next.

    Returns: the paths of the .deleted files, to be removed later. Crash: see the module. The folder
    has to be synced before the next group is committed and before a .deleted file is removed.
    Raises StorageFailed: the folder has names of both; a restart makes it all new.
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
    """Finish what a crash has left of a compaction, ours or Kafka's; at start-up, before anything
    else is done with the folder. Blocks.

    Args: names: what is in the folder. `.deleted` files are needed here and left there: remove them
    afterwards. Returns: whether anything was changed; it is durable then. Raises StorageFailed;
    CorruptBatch: a new segment can't be read. Crash: begins again at the next start, and comes to
    the same.
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
            self._rename(name, name.removesuffix(SWAP))  # of a log that has its name already
        # new segments whose swap had reached its end, as far as the names tell
        for base in sorted(self._bases(LOG + DELETED) & self._bases(LOG)):
            try:
                self._remove_covered(base, LOG)
            except CorruptBatch as error:
                logger.error("%s; segments that a compaction has replaced may be left behind it", error)
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
            self._sync()  # or a .swap could outlive the .cleaned that speaks against it
        for name in cleaned:
            self._remove(name)
        self._sync()

    def _roll_forward(self, base: int) -> None:
        logger.warning(
            "%s in %s: a compaction was cut short, finishing it from offset %d",
            self.folder,
            self.storage.location,
            base,
        )
        self._remove_covered(base, LOG + SWAP)
        self._check_txnindex(base)
        self._sync()  # or an old segment could outlive the .swap that speaks against it
        for suffix in _LOG_LAST:
            name = file_name(base, suffix)
            if name + SWAP in self.names:
                self._rename(name + SWAP, name)
        self._sync()

    def _remove_covered(self, base: int, suffix: str) -> None:
        """Remove the segments that begin within the one of `base`, whose log file has this suffix."""
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
        """Last offset of the segment; below `base` if it is empty."""
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
        """Position of a late batch as the index has it, 0 if there is none; not to be trusted."""
        name = file_name(base, INDEX) + suffix.removeprefix(LOG)
        if name not in self.names:
            return 0
        file = self.storage.open(f"{self.folder}/{name}")
        count = file.size // INDEX_ENTRY.size
        last = file.read_at((count - 1) * INDEX_ENTRY.size, INDEX_ENTRY.size) if count else b""
        file.close()
        return max(INDEX_ENTRY.unpack(last)[1], 0) if last else 0

    def _check_txnindex(self, base: int) -> None:
        """Where nothing tells whether the index of aborted transactions is the old or the new one,
        keep what is true of the new segment.
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
