"""The log of one partition: record batches in offset order, in segments; the last one is active.

Durability: a power cut may lose any part of what was appended since the last flush. What remains
starts at the log start and has no gaps. `Log.flushed_offset` is the guaranteed end. A crash of the
process alone loses nothing. Each method states its own guarantee under `Durability:`.
What a log accepts after a failed disk operation is in `log_state`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kqueue.base.clock import Clock
from kqueue.base.errors import (
    CorruptData,
    DiskFull,
    OffsetMovedToTieredStorage,
    OffsetOutOfRange,
    RequestRefused,
    StorageFailed,
    StorageUnavailable,
)
from kqueue.base.jobs import IoJob
from kqueue.log.compaction.model import SegmentGroup
from kqueue.log.config import LogConfig
from kqueue.log.deletion import DeletedSegments
from kqueue.log.flusher import Flusher
from kqueue.log.formats.checkpoints import NO_CHECKPOINT, LogCheckpoint
from kqueue.log.formats.leader_epochs import LeaderEpochCache
from kqueue.log.formats.producer_snapshot import ProducerSnapshotFiles
from kqueue.log.log_segments import LogSegments
from kqueue.log.log_state import LogHealth, LogState
from kqueue.log.producer_limit import ProducerLimit
from kqueue.log.producer_state import EndTransactionMarker
from kqueue.log.reader import LogPosition, LogReader, SteppedLookup
from kqueue.log.recovery import log_loader, recovered_log
from kqueue.log.recovery.damage import Damage
from kqueue.log.recovery.producer_replay import load_producers, replay
from kqueue.log.recovery.recovered_log import RecoveredLog
from kqueue.log.results import AppendResult, ReadResult, TimestampAndOffset
from kqueue.log.segment import Segment
from kqueue.log.views import SegmentView
from kqueue.records.batch import ABORT, BatchHeader, iter_records, set_log_append_time, stamp
from kqueue.storage import Storage

if TYPE_CHECKING:
    from kqueue.log.folders.disk_space import DiskSpace

PRODUCER_EXPIRATION_MS_DEFAULT = 86_400_000


class Log:
    """One partition's log. Open it with `Log.open`.

    Its parts: `segments`, `producers` (producer state), `epochs` (leader epochs), `reader`
    (look-ups, verification of old bytes), `flusher` (what is not on disk yet), `health` (what it
    accepts after a failed disk operation).

    Attributes:
        config: may be replaced at any time.
        start_offset, end_offset: readable offsets, end exclusive; of tier and disk together.
        local_start_offset: first offset that `read` serves. The log start, but in a log with a
            remote tier the first segment's base where that is later.
        lacks_start: the checkpoint of the log start was lost, so a log with a remote tier starts at
            its first segment, until `adopt_tier`.
        tiered_end: exclusive end of what the remote tier is known to have; 0: nothing. The owner
            sets it; `delete_local` deletes nothing at or above. A truncation lowers it.
        damage: flushed bytes found wrong, at open or at their first read; empty: none.
        flush_refused: the last flush found no room or no descriptors. Nothing is lost; the caller
            repeats it a little later. Reset by the next flush.
        defers_rolls: the owner flushes in jobs, so a roll waits until the previous segment is
            durable (`roll_due` is True meanwhile). False: a roll syncs that segment itself.
        on_flushed: called after a flush (see `flush_job`), and when `health.state` changed.
        on_failed: called when a failure ended ONLINE.
        space: refuses producers before the disk is full; None: no such check.
        on_truncate: called with the target offset before a truncation. When it returns, the
            recovery point on disk must not exceed that offset.
    Thread: one owner thread; only the `run` of `flush_job` may run in another.
    """

    __slots__ = (
        "_clock", "_jitter_ms", "_producer_limit", "_rng", "_snapshots", "config", "damage", "defers_rolls",
        "end_offset", "epochs", "flush_refused", "flusher", "folder", "health", "lacks_start", "local_start_offset",
        "on_failed", "on_flushed", "on_truncate", "pending_start_offset", "producers", "reader", "roll_due", "segments",
        "space", "start_offset", "storage", "tiered_end", "topic_id",
    )  # fmt: skip

    def __init__(
        self,
        storage: Storage,
        folder: str,
        config: LogConfig,
        clock: Clock,
        loaded: log_loader.LoadedLog,
        *,
        topic_id: bytes | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.storage = storage
        self.folder = folder
        self.health = LogHealth(f"{storage.location}: {folder}")
        self.on_flushed: Callable[[], None] | None = None
        self.on_failed: Callable[[], None] | None = None
        self.config = config
        self.topic_id = topic_id
        self.start_offset = self.pending_start_offset = loaded.start_offset
        self.end_offset = loaded.end_offset
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        self.damage: list[Damage | str] = [*loaded.damage]
        self.flush_refused = False
        self.space: DiskSpace | None = None
        self._producer_limit: ProducerLimit | None = None
        self.defers_rolls = self.roll_due = False
        self.on_truncate: Callable[[int], None] | None = None
        self._clock = clock
        self._rng = rng
        self._snapshots = ProducerSnapshotFiles(storage, folder, loaded.snapshots)
        self.reader = LogReader(loaded.segments, self.damage, storage.location, folder)
        self.segments = LogSegments(storage, folder, loaded.segments, self.reader, self._snapshots)
        self.flusher = Flusher(storage, folder, loaded.end_offset)
        self.tiered_end = 0
        self.lacks_start = config.tiered and not loaded.has_tier_start and loaded.start_offset > 0
        self.local_start_offset = self.start_offset
        self.note_local_start()
        self._jitter_ms = self._draw_jitter()

    @classmethod
    def open(
        cls,
        storage: Storage,
        folder: str,
        config: LogConfig,
        clock: Clock,
        *,
        topic_id: bytes | None = None,
        checkpoint: LogCheckpoint | RecoveredLog = NO_CHECKPOINT,
        producer_expiration_ms: int = PRODUCER_EXPIRATION_MS_DEFAULT,
        rng: random.Random | None = None,
    ) -> Log:
        """Open the log in `folder`, or create an empty one.

        Args:
            checkpoint: what the checkpoint files say, or what a job has recovered.
            producer_expiration_ms: producers idle for longer are not loaded.
            rng: draws segment.jitter.ms; None: no jitter.
        Durability: what an opened log holds is flushed; the files of a new log become durable with
            its first flush. Blocks while a log is recovered.
        Raises: StorageFailed.
        """
        now_ms = clock.wall_ms()
        loaded = recovered_log.load(storage, folder, config, now_ms, checkpoint)
        loaded.producers.expire(now_ms, producer_expiration_ms)
        log = cls(storage, folder, config, clock, loaded, topic_id=topic_id, rng=rng)
        if loaded.end_offset == log.local_start_offset == log.segments.active.base:
            log.flusher.folder_changed(parent=True)
        return log

    def __repr__(self) -> str:
        return f"Log({self.folder}: {self.start_offset} to {self.end_offset})"

    # --- appending

    def append(
        self, buf: bytearray | memoryview, header: BatchHeader, *, leader_epoch: int, client: bool = True
    ) -> AppendResult:
        """Append one batch of magic 2 and return its offsets.

        Stamps the base offset, the leader epoch and (LogAppendTime) the time into `buf`.
        Args:
            buf: exactly one batch, header and checksum already checked.
            client: False for batches of the broker itself, end markers included: only the epoch of
                their producer is checked, and the disk reserve is open to them.
        Raises:
            OutOfOrderSequence, InvalidProducerEpoch, InvalidTransactionState, CorruptBatch (of a
                marker): nothing was written.
            StorageUnavailable: nothing was written; a later append may succeed.
            StorageFailed: the log accepts no more appends.
        Durability: see the module. Recovery truncates a torn batch.
        """
        if self.health.failure is not None:
            raise self.health.failure
        if header.producer_id >= 0:
            # Before anything that may refuse: a batch that is in the log already is confirmed
            # again, on a full disk too. Otherwise its producer could never learn that it was
            # written.
            duplicate = self.producers.check(header, client=client)
            if duplicate is not None:
                offsets_and_time = duplicate.first_offset, duplicate.last_offset, duplicate.timestamp
                return AppendResult(*offsets_and_time, self.start_offset, True, self.end_offset)
        offset, space = self.end_offset, self.space
        # Both fields lie before the range of the CRC, which begins at the attributes: no batch is
        # read for it. The append time is within, so it costs a checksum.
        stamp(buf, 0, offset, leader_epoch)
        append_time_ms = -1
        if self.config.log_append_time:
            append_time_ms = self._clock.wall_ms()
            set_log_append_time(buf, 0, append_time_ms)
            header = header._replace(max_timestamp=append_time_ms)
        last_offset = offset + header.last_offset_delta
        try:
            if space is not None and space.refusal is not None and client:
                space.check()
            self._write(buf, header, last_offset, leader_epoch)
        except StorageUnavailable as error:
            # StorageUnavailable is a StorageFailed that left nothing behind: the log stays online.
            self.producers.refuse(header)
            if space is not None and isinstance(error, DiskFull) and error is not space.refusal:
                space.on_disk_full(error)
            raise
        except StorageFailed as error:
            self._fail(error)
            raise
        if space is not None:
            # The free space is asked of the system once in so many bytes, as each call costs as
            # much as a small append.
            space.bytes_until_refresh -= len(buf)
            if space.bytes_until_refresh < 0:
                space.refresh()
        fields = offset, last_offset, append_time_ms, self.start_offset, False, last_offset + 1
        appended: AppendResult = tuple.__new__(AppendResult, fields)  # without a call of Python
        return appended

    def _write(self, buf: bytearray | memoryview, header: BatchHeader, last_offset: int, leader_epoch: int) -> None:
        # Read before anything is written: a marker that can't be read is refused and leaves
        # nothing.
        marker = None
        if header.producer_id >= 0 and header.is_control:
            marker = EndTransactionMarker.of(next(iter_records(buf)))
        config = self.config
        active = self.segments.active
        max_timestamp = header.max_timestamp
        age_max_ms = config.segment_ms - self._jitter_ms
        is_due = active.must_roll(len(buf), last_offset, max_timestamp, self._clock, config.segment_bytes, age_max_ms)
        if is_due:
            # A roll that would have to sync first waits for the flush under way, as long as the
            # batch fits.
            if self._can_roll or not active.has_room(len(buf), last_offset):
                self._roll()
                active = self.segments.active
            else:
                self.roll_due = True
        offset = last_offset - header.last_offset_delta  # of a follower maybe above the log end
        if marker is not None and marker.kind == ABORT:
            aborted = self.producers.aborted_by(header.producer_id, offset)
            self.segments.append_abort(buf, last_offset, max_timestamp, config, aborted)
        else:
            active.append(buf, last_offset, max_timestamp, config.index_interval_bytes, config.segment_index_bytes)
        if leader_epoch != self.epochs.latest:  # not before the write: a failed one leaves no epoch
            self.epochs.assign(leader_epoch, offset)
        if header.producer_id >= 0:
            self.producers.apply(header, marker, offset, self._clock.wall_ms())
        # Last: readers, followers and the flusher go by it, and a failure above leaves it where it
        # was.
        self.end_offset = last_offset + 1

    # --- rolling

    @property
    def _can_roll(self) -> bool:
        """Whether a segment could start now without a wait for the disk."""
        return not self.defers_rolls or self.flusher.can_roll

    def roll_if_ready(self) -> bool:
        """`roll`, unless it would wait for a flush; then set `roll_due` and return False.

        The owner calls it again after the next flush.
        """
        self.roll_due = not self._can_roll
        if not self.roll_due:
            self.roll()
        return not self.roll_due

    def roll(self) -> None:
        """Seal the active segment and start a new one at the log end; no effect on an empty one.

        Durability: until the next flush a crash may lose the sealed segment's indexes and the new
            file's name; recovery rebuilds both.
        Raises: StorageFailed.
        """
        if self.health.failure is not None:
            raise self.health.failure
        if self.segments.active.size == 0:
            return
        try:
            self._roll()
        except StorageUnavailable:
            raise
        except StorageFailed as error:
            self._fail(error)
            raise

    def _roll(self) -> None:
        self.segments.roll(self.end_offset, self.producers, self.flusher, self._clock.wall_ms())
        self.roll_due = False
        self._jitter_ms = self._draw_jitter()

    def _draw_jitter(self) -> int:
        jitter_ms = min(self.config.segment_jitter_ms, self.config.segment_ms)
        return self._rng.randrange(jitter_ms) if jitter_ms and self._rng is not None else 0

    # --- reading

    def read(self, offset: int, max_bytes: int, *, end_offset: int, min_one_batch: bool = True) -> ReadResult:
        """Return whole batches from the one that holds `offset` on, within `max_bytes`.

        The first batch may begin before `offset`; the reader skips those records. A read at the
        `next_offset` of an earlier one searches no index.
        Args:
            end_offset: exclusive bound: the high watermark, last stable offset or log end.
            min_one_batch: the first batch may exceed `max_bytes`.
        Raises: OffsetOutOfRange: below the log start or above the log end.
            OffsetMovedToTieredStorage: below the local start, within the log. StorageFailed:
            offline, or the disk failed. CorruptBatch.
        """
        if self.health.failure is not None:
            readable_end = self.readable_end
            if readable_end <= offset < end_offset:
                raise self.health.failure
            end_offset = min(end_offset, readable_end)
        # The local start: one comparison finds both errors, so a tier costs the hot path nothing.
        if not self.local_start_offset <= offset <= self.end_offset:
            raise self._not_here(offset)
        return self.reader.read(offset, max_bytes, end_offset, self.end_offset, min_one_batch)

    def _not_here(self, offset: int) -> RequestRefused:
        if self.start_offset <= offset < self.local_start_offset:
            return OffsetMovedToTieredStorage(
                f"{self.folder}: offset {offset} is in the remote tier, the local log starts at "
                f"{self.local_start_offset}"
            )
        return OffsetOutOfRange(
            f"{self.folder}: offset {offset} is not within {self.start_offset} and {self.end_offset}"
        )

    @property
    def readable_end(self) -> int:
        """Exclusive end of what reads serve: the log end; of a read-only log the flushed offset.

        Raises: StorageFailed: the log is offline.
        """
        if self.health.failure is None:
            return self.end_offset
        if self.health.state is LogState.OFFLINE:
            raise self.health.failure
        return self._safe_end

    @property
    def _safe_end(self) -> int:
        """Exclusive end of what an fsync has covered; never below the log start."""
        return max(self.flushed_offset, self.start_offset)

    def offset_for_time(self, timestamp: int, end_offset: int) -> SteppedLookup[TimestampAndOffset | None]:
        """Find the first record (by offset) below `end_offset` at or after `timestamp` (ms).

        Runs in steps, between which the log may change. Returns: None: there is no such record.
        Raises: StorageFailed, CorruptData. Source: Kafka UnifiedLog.fetchOffsetByTimestamp.
        """
        return self.reader.offset_for_time(timestamp, self.start_offset, end_offset, self.epochs)

    def latest_timestamp(self, end_offset: int | None = None) -> SteppedLookup[TimestampAndOffset | None]:
        """Find the first record with the greatest time below `end_offset` (None: the log end).

        Runs in steps, between which the log may change. Returns: None: no record has a time.
        Raises: StorageFailed, CorruptData. Source: Kafka UnifiedLog.fetchOffsetByTimestamp, which
        also counts records outside of the bounds.
        """
        end = self.end_offset if end_offset is None else min(end_offset, self.end_offset)
        return self.reader.latest_timestamp(self.start_offset, end, self.epochs)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return the end of what read_committed consumers may read, exclusive.

        That is `high_watermark`, or the first transaction still open there. Args: high_watermark:
        must not decrease between calls.
        """
        return max(min(self.producers.first_unstable(high_watermark), high_watermark), self.start_offset)

    def segment_views(self, first_timestamps_from: int | None = None) -> tuple[SegmentView, ...]:
        """Return all segments as cleanup policies see them, oldest first.

        Args: first_timestamps_from: read `SegmentView.first_timestamp` of segments that end above
            this offset; None: of none.
        Raises: StorageFailed, CorruptData.
        """
        return self.segments.views(self.end_offset, self._clock.wall_ms(), first_timestamps_from)

    # --- truncating, deleting, replacing

    def truncate_to(self, offset: int) -> None:
        """Remove everything from `offset` on; a batch that holds `offset` goes whole.

        Where `offset` is at or above the log end, only epochs without a batch go. Blocks.
        Durability: durable on return; a crash before leaves any end between the two.
        Raises: OffsetOutOfRange: below the local start. StorageFailed.
        """
        if self.health.failure is not None:
            raise self.health.failure
        if offset < self.local_start_offset:
            raise OffsetOutOfRange(
                f"{self.folder}: can't truncate to {offset}, the log starts at {self.local_start_offset}"
            )
        if offset >= self.end_offset:
            return self.epochs.truncate_from_end(self.end_offset)
        # First the recovery point on disk: one above the log's new end would make the next start
        # report the truncated records as lost.
        if self.on_truncate is not None:
            self.on_truncate(offset)
        try:
            self._truncate(offset)
        except StorageFailed as error:
            self._fail(error, LogState.OFFLINE)
            raise
        except CorruptData as error:
            failed = StorageFailed(f"{self.folder}: can't truncate to {offset}: {error}")
            self._fail(failed, LogState.OFFLINE)
            raise failed from error

    def _truncate(self, offset: int) -> None:
        self.end_offset = end_offset = self.segments.truncate_to(offset, self.config.segment_index_bytes)
        self.epochs.truncate_from_end(end_offset)
        # What is appended next is not what the tier has; its owner finds out what it still has.
        self.tiered_end = min(self.tiered_end, end_offset)
        self.flusher.truncated(end_offset)
        if self._producer_limit is not None:
            self._producer_limit.unwatch(self.producers)
        # Producer state can't go back. It is loaded again: from the newest snapshot up to the end,
        # then from the batches behind it, of which the oldest may be deleted.
        self.producers = load_producers(self.storage, self.folder, self._snapshots.offsets, end_offset)
        self.producers.end_offset = max(self.producers.end_offset, self.segments.base_offset)
        replay(list(self.segments), self.producers, end_offset)
        if self._producer_limit is not None:
            self._producer_limit.watch(self.producers)

    def advance_start(self, offset: int) -> None:
        """Raise the log start to `offset`; it never decreases. The segments stay until cleanup.

        Durability: lost in a crash unless the log start checkpoint was written since.
        Raises: OffsetOutOfRange: above the log end.
        """
        if offset > self.end_offset:
            raise OffsetOutOfRange(f"{self.folder}: the log can't start at {offset}, it ends at {self.end_offset}")
        if offset > self.start_offset:
            self.start_offset = offset
            self.announce_start(offset)
            self.epochs.truncate_from_start(offset)
            self.note_local_start()

    def announce_start(self, offset: int) -> None:
        """Let checkpoints contain a log start that `advance_start` will set."""
        self.pending_start_offset = max(self.pending_start_offset, offset)

    def note_local_start(self) -> None:
        """Set `local_start_offset`, after a change of the log start or of the first segment."""
        # A topic whose tier was switched off keeps its local start until the log start has moved.
        has_tier = self.config.tiered or self.local_start_offset > self.start_offset
        self.local_start_offset = max(self.start_offset, self.segments.base_offset if has_tier else 0)

    def adopt_tier(self, start_offset: int, epochs: Sequence[tuple[int, int]]) -> None:
        """Let the log start at `start_offset`, if that is lower, with the tier's leader epochs.

        After the log start checkpoint or the epochs were lost, the remote tier knows both. What the
        local segments say counts; the tier's epochs replace all that are known below them.
        Args: epochs: (leader epoch, first offset) of the tier, ascending; those from the log end on
            are ignored. Empty: the log's stay.
        Durability: the epochs with the next flush that has work, the start with its next
            checkpoint. A crash before leaves the log as it was, to adopt the tier again.
        Raises: CorruptData: the epochs contradict the local ones; nothing changed.
        """
        joined = LeaderEpochCache()
        if self.end_offset > self.local_start_offset:
            joined.replace(self.epochs.entries())
            joined.truncate_from_start(self.local_start_offset)
        start = max(min(start_offset, self.start_offset), 0)
        below_end = [row for row in epochs if row[1] < self.end_offset]
        joined.put_in_front(below_end, self.local_start_offset)
        joined.truncate_from_start(start)
        if below_end:
            self.epochs.replace(joined.entries())
        if start < self.start_offset:
            if self.pending_start_offset == self.start_offset:  # else a later start is on its way to the disk
                self.pending_start_offset = start
            self.start_offset = start
            self.note_local_start()
        self.lacks_start = False

    def start_after_deletion(self, offset: int) -> int | None:
        """Return the first offset left after `delete_before(offset)` or `delete_local(offset)`;
        None: nothing would go.
        """
        return self.segments.start_after_deletion(offset) if self.health.state is not LogState.OFFLINE else None

    def delete_before(self, offset: int, *, high_watermark: int, why: str) -> DeletedSegments | None:
        """Remove the sealed segments that end at or below both offsets and raise the log start.

        Touches no file and never blocks; readers of the segments are not disturbed.
        Returns: the files left to delete (see `deletion`); None: there is no such segment, or
            `start_snapshot_job` has not run for the offset that would become the log start.
        Durability: after a crash the segments are back, unless the log start was checkpointed.
        """
        is_offline = self.health.state is LogState.OFFLINE
        # As Kafka, nothing above the high watermark: a leader may still make a follower truncate
        # there, and no log can be truncated below its start.
        end = 0 if is_offline else min(offset, high_watermark, self.readable_end)
        deleted = self.segments.delete_below(end, why, self.producers, self.flusher)
        if deleted is not None:  # else the log start of a tiered log would pass all that only the tier has
            self.advance_start(self.segments.base_offset)
            self.note_local_start()
        return deleted

    def delete_local(self, offset: int, *, high_watermark: int, why: str) -> DeletedSegments | None:
        """Remove the sealed segments that end at or below `offset` and `tiered_end`; the log start
        stays.

        As `delete_before` otherwise: it needs `start_snapshot_job` for the new first segment.
        Returns: the files left to delete; None: there is no such segment, or that job has not run.
        Durability: after a crash some of the newest of these segments may be back.
        """
        is_offline = self.health.state is LogState.OFFLINE
        end = 0 if is_offline else min(offset, self.tiered_end, high_watermark, self.readable_end)
        deleted = self.segments.delete_below(end, why, self.producers, self.flusher, in_order=True)
        self.note_local_start()
        return deleted

    def replace(self, old: list[Segment], group: SegmentGroup) -> list[str] | None:
        """Replace `old` by the segment that compaction made of it, after `swap_files.commit`.

        Readers of the old segments are not disturbed. Blocks for some renames.
        Returns: the current paths of the old files, to delete; None: `old` is not part of the log
            any more, and nothing was done.
        Durability: see `compaction.swap_files`. Raises: StorageFailed: the log is offline.
        """
        if self.health.failure is not None:
            return None
        try:
            return self.segments.replace(old, group, self._clock.wall_ms())
        except (StorageFailed, FileNotFoundError) as error:
            self._fail(error, LogState.OFFLINE)
            raise

    def limit_producers(self, limit: ProducerLimit) -> None:
        """Let `limit` count the producers, and forget some when all logs hold too many."""
        self._producer_limit = limit
        limit.watch(self.producers)

    # --- flushing and closing

    @property
    def flushed_offset(self) -> int:
        """Everything below survives a power cut."""
        return self.flusher.flushed_offset

    @property
    def needs_flush(self) -> bool:
        """Whether `flush_job` has work, now or once the running job has ended."""
        return self.health.failure is None and self.flusher.flushed_offset < self.end_offset

    @property
    def has_unflushed_segments(self) -> bool:
        """Whether segments were sealed since the last flush."""
        return self.health.failure is None and self.flusher.has_files

    def flush_job(self) -> IoJob[None] | None:
        """Return a job that makes everything appended so far durable.

        Its `finish` moves `flushed_offset`, or makes the log read-only, then calls `on_flushed`. A
        failed fsync is never retried.
        Returns: None: nothing to do, such a job is running, or the log is offline.
        """
        if self.health.failure is not None:
            return None
        self.flush_refused = False
        active = self.segments.active
        job = self.flusher.job(self.end_offset, active.log, self.epochs, self._flushed)
        if job is not None:
            # the high watermark will be here next
            self.reader.hint(self.end_offset, LogPosition(active, active.size, self.end_offset))
        return job

    def _flushed(self, error: BaseException | None) -> None:
        self.flush_refused = isinstance(error, StorageUnavailable)
        # An fsync that failed has dropped the dirty pages on Linux: the next one would succeed and
        # prove nothing. Only a refusal (no room, no descriptor) is repeated.
        if error is not None and not self.flush_refused:
            self._fail(error)
        else:
            self._notify()

    def close(self) -> None:
        """Flush everything, write the producer snapshot and close the files. Blocks; idempotent.

        Durability: until the clean-stop marker is written the next start recovers the log.
        Raises: StorageFailed; not if the log is offline already, then nothing is flushed.
        """
        if self.health.failure is not None:
            self._close_files()
            return
        try:
            # Before the sync, which covers what these two write: the last time and the snapshot.
            self.segments.active.finish_timeindex()
            self._drop_wrong_indexes()
            if self.end_offset > self.segments.base_offset:
                self.segments.take_snapshot(self.producers, self.end_offset, self.flusher)
            self.flusher.run_now(self.end_offset, self.segments.active, self.epochs)
        except StorageFailed as error:
            self._fail(error)
            raise
        finally:
            self._close_files()

    def _drop_wrong_indexes(self) -> None:
        """Remove indexes that are known to be wrong and were not rebuilt yet: the next start would
        trust them, and rebuilds those that are missing. Kafka does so too.
        """
        wrong = [segment for segment in self.segments if segment.index_mismatch]
        for segment in wrong:
            segment.files.remove_indexes()
        if wrong:
            self.flusher.folder_changed()

    def abandon(self) -> None:
        """Close the files without a flush, before they are deleted; the log is offline then."""
        self.take_offline(StorageFailed(f"{self.folder} was deleted"))
        self._close_files()

    def take_offline(self, error: StorageFailed) -> None:
        """Refuse every use with `error` and write nothing more; no effect if already offline.

        The files stay open until `abandon`. The caller logs the reason.
        """
        if self.health.take_offline(error):
            self._notify()

    def _fail(self, error: BaseException, state: LogState = LogState.READ_ONLY) -> None:
        if self.health.fail(error, state, self._safe_end):
            self._notify()
            if self.on_failed is not None:
                self.on_failed()

    def _notify(self) -> None:
        if self.on_flushed is not None:
            self.on_flushed()

    def _close_files(self) -> None:
        for segment in self.segments:
            segment.files.close()
