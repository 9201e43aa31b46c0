"""Opening a log: what its folder holds, and after a crash, what of it is whole.

After a clean stop the last few batches and the newest snapshot are read, no more. Otherwise every segment that reaches the
recovery point or goes beyond it is read: batches below the recovery point were flushed and are trusted, those
beyond it are checked by their sums; the first that is not whole ends the log. Indexes of these segments, leader epochs and producer
state are made anew on the way. Crash: recovery that is cut short begins again at the next start, and finds the same.
Source: Kafka LogLoader, LogSegment.recover.
"""

from __future__ import annotations

import contextlib
import logging
from bisect import bisect_left
from dataclasses import dataclass, field

from kqueue.base.errors import CorruptBatch, CorruptData, CorruptIndex, StorageFailed
from kqueue.log.config import LogConfig
from kqueue.log.epochs import LeaderEpochs, decode_epochs, encode_epochs
from kqueue.log.filenames import (
    CLEANED,
    DELETED,
    EPOCHS,
    INDEX,
    LOG,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    SWAP,
    TIMEINDEX,
    file_name,
    parse_file_name,
)
from kqueue.log.index import ENTRY as INDEX_ENTRY
from kqueue.log.index import RELATIVE_OFFSET_MAX
from kqueue.log.producers import Marker, Producers
from kqueue.log.scan import Unit, first_offset, scan
from kqueue.log.segment import Segment
from kqueue.log.snapshots import decode_snapshot
from kqueue.log.timeindex import ENTRY as TIME_ENTRY
from kqueue.log.timeindex import NO_TIMESTAMP
from kqueue.log.txnindex import AbortedTransaction
from kqueue.records.batch import BatchHeader, iter_records
from kqueue.storage import File, Storage
from kqueue.storage.paths import TEMPORARY_SUFFIX, parent_of

logger = logging.getLogger("kqueue.log")


@dataclass(slots=True)
class Loaded:
    """A log as it was found. `segments` is never empty; `damage` says, for people, what flushed bytes were wrong (empty: none)."""

    segments: list[Segment]
    start_offset: int
    end_offset: int = 0
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    producers: Producers = field(default_factory=Producers)
    snapshots: list[int] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)


def load(
    storage: Storage, folder: str, config: LogConfig, now_ms: int, *, recovery_point: int, clean: bool, start_offset: int = 0
) -> Loaded:
    """Open the log in `folder`, which is made if it is not there.

    Args: recovery_point: all below it was flushed. clean: the last stop was, so nothing needs to be checked. start_offset: the log start
    offset that was checkpointed; 0 = none. Durability: what is found is flushed on return. Raises StorageFailed.
    """
    return _Loader(storage, folder, config, now_ms, recovery_point).load(clean, start_offset)


def count_batch(producers: Producers, file: File, position: int, unit: Unit) -> AbortedTransaction | None:
    """Count a batch of the log for its producer; returns the transaction that it aborts. Raises CorruptBatch, StorageFailed."""
    if isinstance(unit, BatchHeader) and unit.producer_id >= 0:
        if not unit.is_control:
            producers.update(unit, unit.base_offset)
        elif unit.record_count:  # none are left where compaction removed the whole transaction
            marker = Marker.of(next(iter_records(file.read_at(position, unit.size))))
            if marker is not None:
                return producers.end_transaction(unit, marker, unit.base_offset)
    producers.end_offset = unit.last_offset + 1
    return None


def replay(segments: list[Segment], producers: Producers, end_offset: int) -> None:
    """Count all batches from `producers.end_offset` up to `end_offset`, without their records. Raises CorruptBatch, StorageFailed."""
    for number, segment in enumerate(segments):
        next_base = segments[number + 1].base if number + 1 < len(segments) else end_offset
        if next_base <= producers.end_offset or segment.base >= end_offset:
            continue
        found = segment.find(producers.end_offset)
        for position, unit in scan(segment.log, found.position if found else segment.size, segment.size):
            if unit.last_offset >= end_offset:
                break
            count_batch(producers, segment.log, position, unit)
    producers.end_offset = max(producers.end_offset, end_offset)


def load_producers(storage: Storage, folder: str, snapshots: list[int], end_offset: int) -> Producers:
    """The newest readable snapshot at or below `end_offset`, empty if there is none. Broken ones are removed, and taken off the list.

    Raises StorageFailed.
    """
    for offset in [offset for offset in reversed(snapshots) if offset <= end_offset]:
        producers = _read_snapshot(storage, folder, offset)
        if producers is not None:
            return producers
        snapshots.remove(offset)
    return Producers()


def _read_snapshot(storage: Storage, folder: str, offset: int) -> Producers | None:
    """What the snapshot says; a broken one is removed, and None returned."""
    path = f"{folder}/{file_name(offset, SNAPSHOT)}"
    try:
        return decode_snapshot(storage.read(path), offset)
    except CorruptIndex as error:
        logger.warning("%s in %s: %s; an older one will do", path, storage.place, error)
        storage.remove(path)
        return None


class _Loader:
    def __init__(self, storage: Storage, folder: str, config: LogConfig, now_ms: int, recovery_point: int) -> None:
        self.storage = storage
        self.folder = folder
        self.config = config
        self.now_ms = now_ms
        self.recovery_point = recovery_point
        self.changed = False  # names or contents, so that they must be synced
        self.touched: list[Segment] = []  # segments that must be

    def load(self, clean: bool, start_offset: int) -> Loaded:
        sizes = self._list()
        bases = sorted(parsed[0] for name in sizes if (parsed := parse_file_name(name)) and parsed[1] == LOG)
        snapshots = sorted(parsed[0] for name in sizes if (parsed := parse_file_name(name)) and parsed[1] == SNAPSHOT)
        self._remove_orphans(sizes, set(bases))
        loaded = Loaded([self._open(base, sizes) for base in bases], max(start_offset, bases[0] if bases else 0), snapshots=snapshots)
        rebuilt = self._read_epochs(loaded)
        if not bases:
            self._begin_at(loaded, loaded.start_offset)
        elif not (clean and self._load_clean(loaded, sizes)):
            self._recover(loaded, sizes)
        self._note_damage(loaded)
        if loaded.start_offset > loaded.end_offset:
            self._begin_anew(loaded)
        self._trim(loaded)
        if bases and (self.changed or not clean):
            self._sync(loaded, unclean=rebuilt or not clean)
        loaded.segments[-1].activate(self.config.segment_index_bytes)
        return loaded

    # --- the folder

    def _list(self) -> dict[str, int]:
        """Sizes by name, after half-done deletions were completed."""
        if not self.storage.exists(self.folder):
            self.storage.make_folder(self.folder)
        sizes: dict[str, int] = {}
        for entry in self.storage.list(self.folder):
            if entry.name.endswith(SWAP):
                path = f"{self.storage.place}: {self.folder}/{entry.name}"
                raise StorageFailed(f"{path}: Kafka's compaction was cut short here; let Kafka start and stop once")
            if entry.name.endswith((DELETED, CLEANED, TEMPORARY_SUFFIX)):
                self.storage.remove(f"{self.folder}/{entry.name}")
                self.changed = True
            elif not entry.is_folder:
                sizes[entry.name] = entry.size
        return sizes

    def _remove_orphans(self, sizes: dict[str, int], bases: set[int]) -> None:
        for name in list(sizes):
            parsed = parse_file_name(name)
            if parsed and parsed[1] in SEGMENT_SUFFIXES and parsed[0] not in bases:
                self.storage.remove(f"{self.folder}/{name}")
                del sizes[name]
                self.changed = True

    def _open(self, base: int, sizes: dict[str, int]) -> Segment:
        missing = any(file_name(base, suffix) not in sizes for suffix in (INDEX, TIMEINDEX))
        self.changed |= missing
        return Segment(self.storage, self.folder, base, self.now_ms, create=missing, sizes=sizes)

    def _read_epochs(self, loaded: Loaded) -> bool:
        """Read the file; True: it could not be read, and the epochs come from all batches."""
        path = f"{self.folder}/{EPOCHS}"
        if not self.storage.exists(path):
            return False
        try:
            loaded.epochs = decode_epochs(self.storage.read(path))
            return False
        except CorruptIndex as error:
            logger.error("%s in %s: %s; reading the epochs from the batches", path, self.storage.place, error)
        for segment in loaded.segments:
            with contextlib.suppress(CorruptBatch):  # whoever reads the batches there hears of it
                for _, unit in scan(segment.log, 0, segment.size):
                    _count_epoch(loaded.epochs, unit)
        loaded.epochs.changed = self.changed = True
        return True

    # --- after a clean stop

    def _load_clean(self, loaded: Loaded, sizes: dict[str, int]) -> bool:
        """Take the folder at its word; False: it does not keep it."""
        try:
            self._mend_indexes(loaded.segments[:-1], sizes)
            last = loaded.segments[-1]
            if not _indexes_plausible(last, sizes):
                return False
            last.index.check()
            last.timeindex.check()
            loaded.end_offset = last.read_tail()
        except CorruptData as error:
            logger.error("%s in %s was stopped cleanly, and yet: %s; recovering it", self.folder, self.storage.place, error)
            return False
        loaded.producers = load_producers(self.storage, self.folder, loaded.snapshots, loaded.end_offset)
        loaded.producers.end_offset = max(loaded.producers.end_offset, loaded.segments[0].base)
        replay(loaded.segments, loaded.producers, loaded.end_offset)
        return True

    # --- after a crash

    def _recover(self, loaded: Loaded, sizes: dict[str, int]) -> None:
        segments = loaded.segments
        # A segment that ends just at the recovery point may have been sealed after the flush: its indexes are not to be trusted.
        first = bisect_left([segment.base for segment in segments[1:]], self.recovery_point)
        self._mend_indexes(segments[:first], sizes)
        loaded.producers = load_producers(self.storage, self.folder, loaded.snapshots, segments[first].base)
        loaded.producers.end_offset = max(loaded.producers.end_offset, segments[0].base)
        replay(segments[:first], loaded.producers, segments[first].base)
        end_offset = segments[first].base
        epochs_before, epochs_changed = loaded.epochs.entries(), loaded.epochs.changed
        loaded.epochs.truncate_from_end(end_offset)  # the file may know epochs that were cut off; the batches know better
        for number in range(first, len(segments)):
            segment = segments[number]
            if self._is_hole(end_offset, segment.base):
                self._drop(loaded, number, f"offsets {end_offset} to {segment.base - 1} are missing")
                break
            end_offset, why = self._rebuild(segment, loaded.producers, loaded.epochs, check_from=self.recovery_point)
            if why is not None:
                self._drop(loaded, number + 1, why)
                break
        loaded.end_offset = loaded.producers.end_offset = end_offset
        loaded.epochs.changed = epochs_changed or loaded.epochs.entries() != epochs_before
        for offset in [offset for offset in loaded.snapshots if segments[first].base < offset <= end_offset]:
            if _read_snapshot(self.storage, self.folder, offset) is None:
                loaded.snapshots.remove(offset)
            else:
                self.storage.open(f"{self.folder}/{file_name(offset, SNAPSHOT)}").sync()

    def _is_hole(self, end_offset: int, base: int) -> bool:
        # Compaction may leave gaps between segments. Elsewhere a gap among what was not flushed is a loss, and the rest goes with it.
        return base > end_offset and base > self.recovery_point and not self.config.compacted

    def _drop(self, loaded: Loaded, number: int, why: str) -> None:
        for segment in reversed(loaded.segments[number:]):
            self.changed = True
            logger.warning("%r is removed: what comes before it is not whole (%s)", segment, why)
            segment.remove()
        del loaded.segments[number:]

    def _mend_indexes(self, segments: list[Segment], sizes: dict[str, int]) -> None:
        """Make the indexes anew where a file is missing or can't be one; the batches were flushed."""
        for segment in segments:
            if not _indexes_plausible(segment, sizes):
                try:
                    self._rebuild(segment, Producers(), LeaderEpochs(), check_from=None)
                except CorruptBatch as error:
                    raise StorageFailed(f"{self.storage.place}: {segment!r} is damaged, and was whole before: {error}") from error

    def _rebuild(self, segment: Segment, producers: Producers, epochs: LeaderEpochs, check_from: int | None) -> tuple[int, str | None]:
        """Read the whole segment, cut it after the last whole batch, make its indexes anew.

        `check_from`: offset from which checksums are compared; None: nowhere, and nothing is cut.
        Returns: the end offset, and why it was cut (None: it was not).
        """
        scanned = _Scanned(segment, self.config.index_interval_bytes, producers, epochs)
        why = scanned.run(check_from)
        self.changed = True
        self.touched.append(segment)
        if scanned.end < segment.log.size:
            why = why or f"a batch is cut off at position {scanned.end}"
            if check_from is None:
                raise CorruptBatch(f"{segment!r}: {why}")
            logger.warning("%r: %s; cut from %d to %d bytes", segment, why, segment.log.size, scanned.end)
            segment.log.truncate(scanned.end)
        if check_from is not None:
            segment.txnindex.clear()
            for aborted in scanned.aborted:
                segment.txnindex.append(aborted)
        segment.replace_indexes(bytes(scanned.index), bytes(scanned.times))
        segment.seal()
        return scanned.end_offset, why

    # --- the end of it

    def _note_damage(self, loaded: Loaded) -> None:
        if loaded.end_offset < self.recovery_point:
            damage = f"{self.folder} in {self.storage.place} was flushed up to {self.recovery_point}, but ends at {loaded.end_offset}"
            logger.error("%s: flushed records are lost", damage)
            loaded.damage.append(damage)

    def _begin_at(self, loaded: Loaded, offset: int) -> None:
        loaded.segments.append(Segment(self.storage, self.folder, offset, self.now_ms, create=True))
        loaded.end_offset = loaded.producers.end_offset = offset

    def _begin_anew(self, loaded: Loaded) -> None:
        logger.warning("%s ends at %d, before its start %d: it is emptied", self.folder, loaded.end_offset, loaded.start_offset)
        self._drop(loaded, 0, "it lies below the log start offset")
        loaded.producers = Producers()
        self._begin_at(loaded, loaded.start_offset)
        self.changed = True

    def _trim(self, loaded: Loaded) -> None:
        """Epochs and snapshots of what is gone go too."""
        loaded.epochs.truncate_from_end(loaded.end_offset)
        loaded.epochs.truncate_from_start(loaded.start_offset)
        kept = [offset for offset in loaded.snapshots if offset <= loaded.end_offset]
        bases = {segment.base for segment in loaded.segments}
        kept = [offset for offset in kept if offset in bases or offset == kept[-1]]
        for offset in set(loaded.snapshots) - set(kept):
            self.storage.remove(f"{self.folder}/{file_name(offset, SNAPSHOT)}")
            self.changed = True
        loaded.snapshots = kept

    def _sync(self, loaded: Loaded, *, unclean: bool) -> None:
        # after a crash of the process alone the bytes are there, but maybe in the page cache only
        for segment in self.touched:
            for file in segment.files():
                file.sync()
        if unclean and loaded.epochs.changed:
            self.storage.write_atomic(f"{self.folder}/{EPOCHS}", encode_epochs(loaded.epochs))
            loaded.epochs.changed = False
        self.storage.sync_folder(self.folder)
        if unclean:
            self.storage.sync_folder(parent_of(self.folder))


class _Scanned:
    """A segment's log file read from its start: what the indexes must hold, and where the last whole batch ends."""

    def __init__(self, segment: Segment, interval_bytes: int, producers: Producers, epochs: LeaderEpochs) -> None:
        self.segment = segment
        self.interval_bytes = interval_bytes
        self.producers = producers
        self.epochs = epochs
        self.end = 0
        self.end_offset = segment.base
        self.index = bytearray()
        self.times = bytearray()
        self.aborted: list[AbortedTransaction] = []
        self._last_entry = 0
        self._max_timestamp = self._indexed_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = segment.base

    def run(self, check_from: int | None) -> str | None:
        """Read up to what is not whole; returns what is wrong there, None: nothing but maybe a cut-off batch."""
        try:
            # without checksums as far as all was flushed, then with them
            for position, unit in scan(self.segment.log, 0, self.segment.log.size):
                if check_from is not None and unit.last_offset >= check_from:
                    break
                self._count(position, unit)
            for position, unit in scan(self.segment.log, self.end, self.segment.log.size, check=True):
                self._count(position, unit)
        except CorruptBatch as error:
            return str(error)
        return None

    def _count(self, position: int, unit: Unit) -> None:
        base = self.segment.base
        begins = first_offset(unit) if unit.magic == 2 else unit.last_offset
        if begins < self.end_offset or unit.last_offset - base > RELATIVE_OFFSET_MAX:
            raise CorruptBatch(f"offsets {begins} to {unit.last_offset} can't follow {self.end_offset - 1} at position {position}")
        if unit.max_timestamp > self._max_timestamp:
            self._max_timestamp, self._max_timestamp_offset = unit.max_timestamp, unit.last_offset
        if position - self._last_entry > self.interval_bytes:
            self.index += INDEX_ENTRY.pack(unit.last_offset - base, position)
            if self._max_timestamp > self._indexed_timestamp:
                self.times += TIME_ENTRY.pack(self._max_timestamp, self._max_timestamp_offset - base)
                self._indexed_timestamp = self._max_timestamp
            self._last_entry = position
        aborted = count_batch(self.producers, self.segment.log, position, unit)
        if aborted is not None:
            self.aborted.append(aborted)
        _count_epoch(self.epochs, unit)
        self.end = position + unit.size
        self.end_offset = unit.last_offset + 1


def _count_epoch(epochs: LeaderEpochs, unit: Unit) -> None:
    if isinstance(unit, BatchHeader) and unit.leader_epoch > epochs.latest:
        epochs.assign(unit.leader_epoch, unit.base_offset)


def _indexes_plausible(segment: Segment, sizes: dict[str, int]) -> bool:
    """Whether index files of the right kind of size are there, judged by their names and sizes alone."""
    index = sizes.get(file_name(segment.base, INDEX))
    times = sizes.get(file_name(segment.base, TIMEINDEX))
    return index is not None and times is not None and index % INDEX_ENTRY.size == 0 and times % TIME_ENTRY.size == 0
