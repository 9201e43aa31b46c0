"""Opens a log: reads what its folder holds and, after a crash, finds where it ends.

After a clean stop only the last few batches and the newest snapshot are read. Otherwise every
segment that reaches the recovery point or lies beyond it is read and its checksums are compared;
its indexes, the leader epochs and producer state are rebuilt on the way. Damage found there was
either flushed before or not:

    segments    sealed     sealed     sealed     last but one    last
                |----------|----------|----------|---------------|----------
                           recovery point
    damage      reported and kept, reads         | the log ends there, the rest is
                continue behind it               | quarantined as `.damaged` (but before
                (all of it was flushed)          | the recovery point: reported and kept)

For a third segment is not begun before the last but one was flushed. Nothing that was flushed is
ever cut off or removed, and no flushed offset is assigned again: a log that lost its end continues
at the recovery point. Durability: recovery that a crash ends begins again at the next start, with
the same result. Steps, invariants and tests: docs/internals/recovery.md.
Source: Kafka LogLoader, LogSegment.recover.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kqueue.base import events
from kqueue.base.errors import CorruptData, CorruptIndex, StorageFailed
from kqueue.log.compaction import swap_files
from kqueue.log.config import LogConfig
from kqueue.log.formats.checkpoints import read_small_file
from kqueue.log.formats.filenames import (
    CLEANED,
    DELETED,
    EPOCHS,
    INDEX,
    LOG,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    SWAP,
    TIMEINDEX,
    TXNINDEX,
    file_name,
    parse_file_name,
)
from kqueue.log.formats.leader_epochs import LeaderEpochCache, decode_epochs, encode_epochs
from kqueue.log.formats.offset_index import ENTRY as INDEX_ENTRY
from kqueue.log.formats.producer_snapshot import encode_snapshot
from kqueue.log.formats.time_index import ENTRY as TIME_ENTRY
from kqueue.log.producer_state import ProducerStateManager
from kqueue.log.recovery import quarantine
from kqueue.log.recovery.cross_checks import (
    epoch_contradiction,
    has_epochs,
    missing_log_start,
    transaction_contradiction,
)
from kqueue.log.recovery.damage import Damage
from kqueue.log.recovery.index_rebuilder import IndexRebuilder
from kqueue.log.recovery.producer_replay import load_producers, read_snapshot, replay
from kqueue.log.scanner.batch_scanner import CheckLevel, scan
from kqueue.log.segment import Segment
from kqueue.storage import Storage
from kqueue.storage.contract import FolderEntry
from kqueue.storage.paths import TEMPORARY_SUFFIX, parent_of

logger = logging.getLogger("kqueue.log")
TORN_SEGMENTS_MAX = 2


def clear_temp_files(storage: Storage, folder: str) -> tuple[dict[str, int], bool]:
    """Complete or undo all of it; make the folder if it does not exist. Leaves unknown files alone.

    Returns: sizes in bytes of the remaining files, by name; whether a name was changed that is not
        synced yet.
    Raises: StorageFailed; CorruptBatch: a compaction cannot be completed.
    Durability: a crash costs nothing, the next start does the same.
    """
    if not storage.exists(folder):
        storage.make_folder(folder)
    entries = _files(storage, folder)
    names = [entry.name for entry in entries]
    has_compaction = any(name.endswith((DELETED, CLEANED, SWAP)) for name in names)
    changed = has_compaction and swap_files.complete(storage, folder, names)
    if changed:
        entries = _files(storage, folder)
    sizes: dict[str, int] = {}
    for entry in entries:
        if entry.name.endswith((DELETED, TEMPORARY_SUFFIX)):
            storage.remove(f"{folder}/{entry.name}")
            changed = True
        else:
            sizes[entry.name] = entry.size
    return sizes, changed


def _files(storage: Storage, folder: str) -> list[FolderEntry]:
    return [entry for entry in storage.list(folder) if not entry.is_folder]


@dataclass(slots=True)
class LoadedLog:
    """A log's state after loading.

    segments: never empty. damage: flushed bytes that were found wrong or missing.
    has_tier_start: the log start is the checkpointed one, also below the first segment.
    """

    segments: list[Segment]
    start_offset: int
    end_offset: int = 0
    epochs: LeaderEpochCache = field(default_factory=LeaderEpochCache)
    producers: ProducerStateManager = field(default_factory=ProducerStateManager)
    snapshots: list[int] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)
    has_tier_start: bool = False


def load_log(
    storage: Storage,
    folder: str,
    config: LogConfig,
    now_ms: int,
    *,
    recovery_point: int,
    clean: bool,
    start_offset: int | None = None,
    high_watermark: int | None = None,
) -> LoadedLog:
    """Open the log in `folder`; make the folder if it does not exist.

    Checkpoints carry no checksum. A checkpoint that contradicts the log is used only if a second
    checkpoint agrees with it.

    Args:
        recovery_point: all below it was flushed; 0 if unknown.
        clean: the last stop was clean, so only the log's end is checked.
        start_offset: the checkpointed log start offset, None: none.
        high_watermark: the checkpointed high watermark, None: unknown.
    Durability: the loaded state is flushed on return.
    Raises StorageFailed.
    """
    loader = _LogLoader(storage, folder, config, now_ms, recovery_point, high_watermark)
    try:
        return loader.load(clean, start_offset)
    except FileNotFoundError as error:
        raise StorageFailed(
            f"{storage.location}: {folder}: a file was removed while the log was opened: {error}"
        ) from error
    except CorruptData as error:
        raise StorageFailed(f"{storage.location}: {folder} can't be opened: {error}") from error


class _LogLoader:
    def __init__(
        self,
        storage: Storage,
        folder: str,
        config: LogConfig,
        now_ms: int,
        recovery_point: int,
        high_watermark: int | None,
    ) -> None:
        self.storage = storage
        self.folder = folder
        self.config = config
        self.now_ms = now_ms
        self.recovery_point = recovery_point
        # Checkpoints carry no checksum. What was flushed is what both say; what can exist is what
        # either says.
        self.flushed_end = recovery_point if high_watermark is None else min(recovery_point, high_watermark)
        self.checkpointed_end = max(recovery_point, high_watermark or 0)
        self.changed = False  # names or contents, which then must be synced
        self.unsynced: list[Segment] = []
        self.damage: list[Damage] = []
        self.epochs_error: str | None = None
        self.has_new_epochs = False
        self.has_tier_start = False  # the checkpointed log start counts, also below the first segment
        self.is_whole = True  # the last segment ends in a whole batch
        self.has_gaps = False  # offsets are missing, as after compaction, even if the settings do not say so

    def load(self, clean: bool, checkpointed_start: int | None) -> LoadedLog:
        # Without its checkpoint a tiered log starts at its first segment, until `Log.adopt_tier`.
        self.has_tier_start = self.config.tiered and checkpointed_start is not None
        start_offset = checkpointed_start or 0
        # Names first: until a half-done compaction is completed or undone, it is not decided which
        # segments exist.
        sizes, self.changed = clear_temp_files(self.storage, self.folder)
        bases = sorted(parsed[0] for name in sizes if (parsed := parse_file_name(name)) and parsed[1] == LOG)
        snapshots = sorted(parsed[0] for name in sizes if (parsed := parse_file_name(name)) and parsed[1] == SNAPSHOT)
        self._remove_orphans(sizes, bases, start_offset)
        loaded = LoadedLog(
            [self._open(base, sizes) for base in bases], start_offset, snapshots=snapshots, damage=self.damage
        )
        self.epochs_error = self._read_epochs(loaded)
        self._check_presence(loaded, clean)
        if not bases:
            # A new log, or one whose segments are gone. It begins where its checkpoints say: from 0
            # it would give out offsets a second time, and consumers would skip the new records.
            offset = min(start_offset, self.checkpointed_end)
            loaded.producers = load_producers(self.storage, self.folder, snapshots, offset)
            self._begin_at(loaded, offset)
            self._settle_epochs(loaded, [])
        elif not (clean and self._load_clean(loaded, sizes)):
            self._recover(loaded, sizes)
        # Only now: both need the end that the batches gave. Bounds before epochs and snapshots,
        # which are cut to them.
        self._settle_bounds(loaded)
        self._trim(loaded)
        if bases and (self.changed or not clean):
            self._sync(loaded, unclean=self.has_new_epochs or not clean)
        for damage in loaded.damage:
            events.LOG_DAMAGED.log(logger, "%s: damaged: %s", location=self.storage.location, damage=damage)
        loaded.segments[-1].note_full(self.config.segment_index_bytes)
        return loaded

    def _note_damage(self, name: str, expected: str, found: str) -> None:
        self.damage.append(Damage(f"{self.folder}/{name}" if name else self.folder, None, expected, found))

    # --- the folder

    def _remove_orphans(self, sizes: dict[str, int], bases: list[int], start_offset: int) -> None:
        """Remove indexes without a log, which a deletion or a truncation left. Between log start
        and recovery point there was none, so there the log file is missing.
        """
        for name in list(sizes):
            parsed = parse_file_name(name)
            if parsed and parsed[1] in SEGMENT_SUFFIXES and parsed[0] not in bases:
                if parsed[1] == INDEX and bases and max(bases[0], start_offset) < parsed[0] < self.recovery_point:
                    self._note_damage(file_name(parsed[0], LOG), "the batches of an index that exists", "no such file")
                self.storage.remove(f"{self.folder}/{name}")
                del sizes[name]
                self.changed = True

    def _open(self, base: int, sizes: dict[str, int]) -> Segment:
        missing = any(file_name(base, suffix) not in sizes for suffix in (INDEX, TIMEINDEX))
        self.changed |= missing
        return Segment.open(self.storage, self.folder, base, self.now_ms, create=missing, sizes=sizes)

    def _read_epochs(self, loaded: LoadedLog) -> str | None:
        """Read the leader epochs; return why they cannot be read, None: they can."""
        path = f"{self.folder}/{EPOCHS}"
        try:
            if self.storage.exists(path):
                loaded.epochs = decode_epochs(read_small_file(self.storage, path))
            elif self.recovery_point and has_epochs(
                loaded.segments
            ):  # else there are none, or they were not written yet
                return "no such file"
        except CorruptIndex as error:
            return str(error)
        return None

    def _settle_epochs(self, loaded: LoadedLog, segments: Sequence[Segment]) -> None:
        """Compare the epochs with these segments, whose indexes are right; rebuild them from the
        batches if they contradict.
        """
        wrong = self.epochs_error or (epoch_contradiction(loaded.epochs, segments) if segments else None)
        if wrong is None:
            return
        self._note_damage(EPOCHS, "what the batches say", wrong)
        loaded.epochs = LeaderEpochCache()
        for segment in segments:
            self._read(segment, None, ProducerStateManager(), loaded.epochs)
        loaded.epochs.changed = self.changed = self.has_new_epochs = True

    def _read(
        self, segment: Segment, limit: int | None, producers: ProducerStateManager, epochs: LeaderEpochCache
    ) -> IndexRebuilder:
        rebuild = IndexRebuilder(segment, self.folder, self.config.index_interval_bytes, producers, epochs)
        rebuild.run(limit)
        return rebuild

    def _check_presence(self, loaded: LoadedLog, clean: bool) -> None:
        """Report segments that are missing, or have lost all their bytes. The rest is served."""
        if not loaded.segments:
            return
        ends = [segment.base for segment in loaded.segments[1:]]
        first = loaded.segments[0]
        expected = missing_log_start(first.base, loaded.start_offset, loaded.epochs)
        if expected is not None and not self.config.tiered:  # whether the tier has these, the leader finds out
            self._note_damage(
                file_name(expected, LOG),
                f"offsets {expected} to {first.base - 1}, with which the log starts",
                "no such file",
            )
        for number, (segment, end) in enumerate(zip(loaded.segments, ends, strict=False)):
            # below the log start nothing has to be left, whatever the recovery point says
            is_durable = max(segment.base, loaded.start_offset) < self.recovery_point
            was_flushed = clean or number < len(ends) + 1 - TORN_SEGMENTS_MAX or is_durable
            if segment.size == 0 and was_flushed and loaded.start_offset < end and not self.config.compacted:
                self._note_damage(
                    file_name(segment.base, LOG), f"batches with offsets {segment.base} to {end - 1}", "an empty file"
                )

    # --- after a clean stop

    def _load_clean(self, loaded: LoadedLog, sizes: dict[str, int]) -> bool:
        """Load without recovery; False: the folder contradicts a clean stop."""
        last = loaded.segments[-1]
        try:
            if not _indexes_plausible(last, sizes):
                return False
            last.index.check()
            last.timeindex.check()
            # Only the batches behind the last index entry: a start with ten thousand logs reads
            # some KiB of each. The others were flushed, and are checked when they are first read
            # (`read_verification`).
            for _ in scan(last.log, last.index.last().position, last.size, check=CheckLevel.CHECKSUMS):
                pass
            loaded.end_offset = last.read_tail()
            self._compare_end(loaded)
        except CorruptData as error:
            events.LOG_NOT_CLEAN.log(
                logger,
                "%s in %s was stopped cleanly, but %s; recovering it",
                folder=self.folder,
                location=self.storage.location,
                error=error,
            )
            return False
        self._rebuild_missing_indexes(loaded, len(loaded.segments) - 1, sizes)
        self._rebuild_wrong_transactions(loaded, len(loaded.segments))
        self._settle_epochs(loaded, loaded.segments)
        loaded.producers = load_producers(self.storage, self.folder, loaded.snapshots, loaded.end_offset)
        loaded.producers.end_offset = max(loaded.producers.end_offset, loaded.segments[0].base)
        replay(loaded.segments, loaded.producers, loaded.end_offset)
        return True

    def _compare_end(self, loaded: LoadedLog) -> None:
        """Raises CorruptIndex: the log does not end at the recovery point, where a clean stop
        leaves it.
        """
        if self.recovery_point and loaded.end_offset != self.recovery_point:
            raise CorruptIndex(f"it ends at {loaded.end_offset}, its recovery point is {self.recovery_point}")

    # --- after a crash

    def _recover(self, loaded: LoadedLog, sizes: dict[str, int]) -> None:
        segments = loaded.segments
        # A segment that ends exactly at the recovery point may have been sealed after the flush, so
        # its indexes are rebuilt too.
        first = bisect_left([segment.base for segment in segments[1:]], self.recovery_point)
        self._rebuild_missing_indexes(loaded, first, sizes)
        self._rebuild_wrong_transactions(loaded, first)
        loaded.producers = self._producers_at(loaded, segments[first].base)
        begin = segments[first].base
        epochs_before, epochs_changed = loaded.epochs.entries(), loaded.epochs.changed
        loaded.epochs.truncate_from_end(begin)  # the file may have epochs of batches that were cut off
        self._settle_epochs(loaded, segments[:first])
        loaded.end_offset = begin
        for number in range(first, len(segments)):
            gap = self._gap_before(loaded, number)
            if gap is not None:
                self._quarantine_from(loaded, number, gap)
                break
            if begin < segments[number].base <= loaded.start_offset:
                self._use_snapshot(loaded, segments[number].base)
            why = self._rebuild(loaded, number)
            if why is not None:
                self._quarantine_from(loaded, number + 1, why)
                break
        loaded.producers.end_offset = loaded.end_offset
        loaded.epochs.changed = epochs_changed or loaded.epochs.entries() != epochs_before
        self._check_snapshots(loaded, begin)

    def _producers_at(self, loaded: LoadedLog, offset: int) -> ProducerStateManager:
        producers = load_producers(self.storage, self.folder, loaded.snapshots, offset)
        producers.end_offset = max(producers.end_offset, loaded.segments[0].base)
        replay(loaded.segments, producers, offset)
        return producers

    def _use_snapshot(self, loaded: LoadedLog, offset: int) -> None:
        """Use the snapshot at `offset`, if there is one: the batches before may be half deleted."""
        if offset in loaded.snapshots:
            producers = load_producers(self.storage, self.folder, loaded.snapshots, offset)
            if offset in loaded.snapshots:  # it could be read
                loaded.producers = producers

    def _gap_before(self, loaded: LoadedLog, number: int) -> str | None:
        """Return why the last segment cannot follow: unflushed offsets before it are missing; None:
        it can.

        Compaction leaves gaps between segments, and segments below the log start may be half
        deleted.
        """
        base, end_offset = loaded.segments[number].base, loaded.end_offset
        if number != len(loaded.segments) - 1 or base <= max(end_offset, self.recovery_point, loaded.start_offset):
            return None
        if self.config.compacted or self.has_gaps:
            return None
        return f"offsets {end_offset} to {base - 1} are missing"

    def _rebuild(self, loaded: LoadedLog, number: int) -> str | None:
        """Read the segment and cut it where the log ends; return why, None: it is not cut."""
        segments = loaded.segments
        segment = segments[number]
        limit = segments[number + 1].base if number + 1 < len(segments) else None
        rebuild = IndexRebuilder(
            segment, self.folder, self.config.index_interval_bytes, loaded.producers, loaded.epochs
        )
        may_be_torn = number >= len(segments) - TORN_SEGMENTS_MAX
        # In the last segment a jump of offsets is a torn write; in a compacted log jumps are
        # normal.
        gapless = limit is None and not self.config.compacted and not self.has_gaps
        rebuild.run(limit, cut_from=self.recovery_point if may_be_torn else None, gapless=gapless)
        why = None
        if rebuild.cut is not None:
            why = f"expected {rebuild.cut.expected}, found {rebuild.cut.found}"
            quarantine.cut_log(self.storage, self.folder, segment, rebuild.end, rebuild.end_offset, why)
        rebuild.write_transactions()
        rebuild.write_indexes()
        rebuild.mark_verified()
        self.unsynced.append(segment)
        self.changed = True
        self.damage += rebuild.damage
        loaded.end_offset = rebuild.end_offset
        # Else damage at the end is kept, and nothing can be appended behind it: a new segment
        # begins (`_settle_bounds`).
        self.is_whole = rebuild.end == segment.log.size
        self.has_gaps |= rebuild.has_gaps
        return why

    def _quarantine_from(self, loaded: LoadedLog, number: int, why: str) -> None:
        for segment in reversed(loaded.segments[number:]):
            self.changed = True
            quarantine.quarantine_segment(self.storage, self.folder, segment, why)
        del loaded.segments[number:]

    def _check_snapshots(self, loaded: LoadedLog, begin: int) -> None:
        # also the one at `begin`: of a log whose records are all deleted it is all that is left
        for offset in [offset for offset in loaded.snapshots if begin <= offset <= loaded.end_offset]:
            if read_snapshot(self.storage, self.folder, offset) is None:
                loaded.snapshots.remove(offset)
            else:
                self.storage.open(f"{self.folder}/{file_name(offset, SNAPSHOT)}").sync()

    def _rebuild_missing_indexes(self, loaded: LoadedLog, count: int, sizes: Mapping[str, int]) -> None:
        """Rebuild the indexes of the first `count` segments, whose batches were flushed, where a
        file is missing or its size is impossible.
        """
        for number, segment in enumerate(loaded.segments[:count]):
            if _indexes_plausible(segment, sizes):
                continue
            rebuild = self._read(segment, loaded.segments[number + 1].base, ProducerStateManager(), LeaderEpochCache())
            rebuild.write_indexes()
            rebuild.mark_verified()
            self.unsynced.append(segment)
            self.changed = True
            self.damage += rebuild.damage

    def _rebuild_wrong_transactions(self, loaded: LoadedLog, count: int) -> None:
        """Rebuild transaction indexes of the first `count` segments that contradict their log."""
        for number, segment in enumerate(loaded.segments[:count]):
            wrong = transaction_contradiction(number, loaded.segments, loaded.end_offset)
            if wrong is not None:
                self._note_damage(
                    file_name(segment.base, TXNINDEX), "the transactions that were aborted in the segment", wrong
                )
                self._read(
                    segment, None, self._producers_at(loaded, segment.base), LeaderEpochCache()
                ).write_transactions()
                self.unsynced.append(segment)
                self.changed = True

    # --- bounds, and what is synced

    def _settle_bounds(self, loaded: LoadedLog) -> None:
        """Decide where the log starts and ends if it lost records, or a checkpoint is wrong."""
        log_end = loaded.end_offset
        start_offset = loaded.start_offset
        if start_offset > log_end and start_offset > self.checkpointed_end:
            self._note_damage(
                "", f"a log start of {self.checkpointed_end} at most", f"{start_offset}, which is ignored"
            )
            start_offset, self.has_tier_start = 0, False
        # Below the log start nothing has to be left: a log that restarts elsewhere empties its old
        # segments first, and their recovery point is at its log start.
        readable_end = max(log_end, start_offset)
        if readable_end < self.flushed_end:
            self._note_damage(
                "", f"records up to offset {self.flushed_end}, which were flushed", f"an end at offset {log_end}"
            )
        elif readable_end < self.recovery_point:
            self._note_damage("", f"a recovery point of {log_end} at most", f"{self.recovery_point}, which is ignored")
        loaded.has_tier_start = self.has_tier_start
        loaded.start_offset = start_offset if self.has_tier_start else max(start_offset, loaded.segments[0].base)
        # A flushed offset is never given out again, even where its record is lost: a consumer may
        # have read it.
        end_offset = max(log_end, self.flushed_end, loaded.start_offset)
        if end_offset > log_end or not self.is_whole:
            events.LOG_END_MISSING.log(
                logger,
                "%s in %s continues at offset %d, its last whole batch ends at %d",
                folder=self.folder,
                location=self.storage.location,
                end_offset=end_offset,
                last_end_offset=log_end,
            )
            self._continue_at(loaded, end_offset)

    def _begin_at(self, loaded: LoadedLog, offset: int) -> None:
        loaded.segments.append(Segment.open(self.storage, self.folder, offset, self.now_ms, create=True))
        loaded.end_offset = loaded.producers.end_offset = offset
        self.changed = True
        if loaded.producers and offset not in loaded.snapshots:
            # the batches before may be lost or deleted, and snapshots elsewhere are removed in time
            path = f"{self.folder}/{file_name(offset, SNAPSHOT)}"
            self.storage.write_atomic(path, encode_snapshot(loaded.producers))
            insort(loaded.snapshots, offset)

    def _continue_at(self, loaded: LoadedLog, offset: int) -> None:
        log_end = loaded.end_offset
        last = loaded.segments[-1]
        if last.size == 0 or last.base == offset:
            self._quarantine_from(loaded, len(loaded.segments) - 1, "it holds no whole batch")
        else:
            last.seal()
        later = load_producers(self.storage, self.folder, loaded.snapshots, offset)
        if later.end_offset > log_end:  # the snapshot includes batches that are lost
            loaded.producers = later
        self._begin_at(loaded, offset)

    def _trim(self, loaded: LoadedLog) -> None:
        """Drop epochs and snapshots of records that the log no longer has."""
        loaded.epochs.truncate_from_end(loaded.end_offset)
        loaded.epochs.truncate_from_start(loaded.start_offset)
        kept = [offset for offset in loaded.snapshots if offset <= loaded.end_offset]
        bases = {segment.base for segment in loaded.segments}
        # A snapshot is of use where a segment begins, and as the newest: the one that a clean stop
        # wrote at the log's end.
        kept = [offset for offset in kept if offset in bases or offset == kept[-1]]
        for offset in set(loaded.snapshots) - set(kept):
            self.storage.remove(f"{self.folder}/{file_name(offset, SNAPSHOT)}")
            self.changed = True
        loaded.snapshots = kept

    def _sync(self, loaded: LoadedLog, *, unclean: bool) -> None:
        # after a crash of the process alone the bytes may be in the page cache only
        for segment in self.unsynced:
            if segment in loaded.segments:
                for file in segment.files.all():
                    file.sync()
        if unclean and loaded.epochs.changed:
            self.storage.write_atomic(f"{self.folder}/{EPOCHS}", encode_epochs(loaded.epochs))
            loaded.epochs.changed = False
        self.storage.sync_folder(self.folder)
        if unclean:
            self.storage.sync_folder(parent_of(self.folder))


def _indexes_plausible(segment: Segment, sizes: Mapping[str, int]) -> bool:
    """Whether both index files exist and their sizes are whole entries."""
    index = sizes.get(file_name(segment.base, INDEX))
    times = sizes.get(file_name(segment.base, TIMEINDEX))
    return index is not None and times is not None and index % INDEX_ENTRY.size == 0 and times % TIME_ENTRY.size == 0
