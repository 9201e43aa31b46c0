"""The log of one partition: batches in order of offset, in segments, of which the last is appended
to.

What a crash costs: what was appended since the last flush, all or any part of it; what is left
begins where the log began and has no holes. `flushed_offset` says how far a power cut reaches at
most. A crash of the process alone costs nothing. Every write says the same of itself.

What may be done with a log after a disk operation has failed, until the next start:

    state       after                                             append  read   drop, DeleteRecords  flush
    online      a full disk or too many open files refused a      yes     yes    yes                  yes
                write: what was written of it is taken back
    read-only   another write failed, or an fsync                 no      (1)    (1)                  no
    offline     a truncation or a replacement failed half-way,    no      no     no                   no
                the folder was deleted or taken by another
    (1) below what was flushed

A write or fsync that fails may have lost bytes that were appended, and a second fsync would report
success for them; but what an earlier fsync covered is there.
"""

from __future__ import annotations

import enum
import logging
import random
from collections.abc import Callable
from typing import Protocol

from kqueue.base.clock import Clock
from kqueue.base.errors import CorruptData, DiskFull, OffsetOutOfRange, StorageFailed, StorageUnavailable
from kqueue.base.jobs import IoJob
from kqueue.base.sliced_task import run_to_end
from kqueue.log.compaction.model import SegmentGroup
from kqueue.log.config import LogConfig
from kqueue.log.deletion import DeletedSegments, remove_folder
from kqueue.log.flusher import Flusher
from kqueue.log.formats.leader_epochs import EpochEndOffset
from kqueue.log.formats.producer_snapshot import ProducerSnapshotFiles
from kqueue.log.formats.transaction_index import AbortedTxn
from kqueue.log.log_segments import LogSegments
from kqueue.log.policies import SegmentView
from kqueue.log.producer_limit import ProducerLimit
from kqueue.log.producer_state import BatchMetadata, EndTransactionMarker
from kqueue.log.reader import LogPosition, LogReader, ReadResult, SteppedLookup, TimestampAndOffset
from kqueue.log.recovery import log_loader
from kqueue.log.recovery.damage import Damage, report_damage
from kqueue.log.recovery.producer_replay import load_producers, replay
from kqueue.log.recovery.read_verification import Done, VerificationResult, VerificationTask
from kqueue.log.results import AppendResult, SegmentInfo
from kqueue.log.segment import Segment
from kqueue.records.batch import ABORT, BatchHeader, iter_records, set_log_append_time, stamp
from kqueue.storage import Storage

logger = logging.getLogger("kqueue.log")
PRODUCER_EXPIRATION_MS_DEFAULT = 86_400_000


class LogState(enum.Enum):
    """What may be done with a log; see the module."""

    ONLINE = "online"
    READ_ONLY = "read-only"
    OFFLINE = "offline"


class DiskSpaceGuard(Protocol):
    """The room on the disk as a log sees it; see `folders.disk_space`."""

    bytes_until_refresh: int
    refusal: DiskFull | None

    def check(self) -> None: ...
    def look(self) -> None: ...
    def met(self, error: DiskFull) -> None: ...


class Log:
    """One partition's log. Belongs to one thread; only the `run` of `flush_job` may run in another.

    `config` may be replaced at any time. `on_flushed` is called when `flushed_offset` has moved,
    the state has changed, or a flush found no room or could not open its files (`flush_refused`,
    until the next one): nothing is lost then, and it is to be repeated a little later. `space`: who
    refuses producers before the disk is full; None: nobody does. `offline`: why the log is
    read-only or offline (`state` says which); None: it is online. `on_offline` is called when it
    left ONLINE by a failure. `on_truncate(offset)` is called before anything is cut off: the
    recovery point on disk must not lie above `offset` when it returns. `defers_rolls`: somebody
    flushes it in jobs, so a segment goes on beyond its size until the one before is durable,
    instead of waiting for the disk (`roll_due`: it does now); else a roll syncs that one at once.
    `damage`: flushed bytes that were found wrong, when the log was opened or when they were first
    read; empty: none.
    """

    __slots__ = (
        "_active",
        "_clock",
        "_flusher",
        "_jitter_ms",
        "_list",
        "_producer_expiration_ms",
        "_producer_limit",
        "_reader",
        "_rng",
        "_segments",
        "_snapshots",
        "_storage",
        "config",
        "damage",
        "defers_rolls",
        "end_offset",
        "epochs",
        "flush_refused",
        "folder",
        "offline",
        "on_flushed",
        "on_offline",
        "on_truncate",
        "pending_start_offset",
        "producers",
        "roll_due",
        "space",
        "start_offset",
        "state",
        "topic_id",
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
        producer_expiration_ms: int = PRODUCER_EXPIRATION_MS_DEFAULT,
        rng: random.Random | None = None,
    ) -> None:
        """Use `open`."""
        self.config = config
        self.folder = folder
        self.topic_id = topic_id
        self.start_offset = self.pending_start_offset = loaded.start_offset
        self.end_offset = loaded.end_offset
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        self.damage: list[Damage | str] = [*loaded.damage]
        self.state = LogState.ONLINE
        self.offline: StorageFailed | None = None
        self.flush_refused = False
        self.space: DiskSpaceGuard | None = None
        self._producer_limit: ProducerLimit | None = None
        self.defers_rolls = self.roll_due = False
        self.on_flushed: Callable[[], None] | None = None
        self.on_offline: Callable[[], None] | None = None
        self.on_truncate: Callable[[int], None] | None = None
        self._storage = storage
        self._clock = clock
        self._rng = rng
        self._producer_expiration_ms = producer_expiration_ms
        self._segments = loaded.segments
        self._active = loaded.segments[-1]
        self._snapshots = ProducerSnapshotFiles(storage, folder, loaded.snapshots)
        self._reader = LogReader(loaded.segments)
        self._list = LogSegments(storage, folder, loaded.segments, self._reader, self._snapshots)
        self._flusher = Flusher(storage, folder, loaded.end_offset)
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
        recovery_point: int = 0,
        clean: bool = False,
        start_offset: int = 0,
        high_watermark: int | None = None,
        producer_expiration_ms: int = PRODUCER_EXPIRATION_MS_DEFAULT,
        rng: random.Random | None = None,
        files_to_sync: tuple[str, ...] = (),
    ) -> Log:
        """Open the log in `folder`; make it, empty, if there is none.

        Args: recovery_point: all below was flushed; start_offset: checkpointed log start, 0 = none;
        high_watermark: checkpointed, None = not known; clean: the last stop was. rng: for
        segment.jitter.ms. files_to_sync: files of the folder, new and not synced, that the first
        flush takes along. Durability: what it finds is flushed; a new log's names become so with
        the first flush. Blocks while a log is recovered. Raises StorageFailed.
        """
        now_ms = clock.wall_ms()
        loaded = log_loader.load_log(
            storage, folder, config, now_ms, recovery_point=recovery_point, clean=clean, start_offset=start_offset,
            high_watermark=high_watermark,
        )  # fmt: skip
        loaded.producers.expire(now_ms, producer_expiration_ms)
        log = cls(
            storage,
            folder,
            config,
            clock,
            loaded,
            topic_id=topic_id,
            producer_expiration_ms=producer_expiration_ms,
            rng=rng,
        )
        if loaded.end_offset == loaded.start_offset == log._active.base:
            log._flusher.folder_changed(parent=True)
        log._flusher.add(*(storage.open(f"{folder}/{name}") for name in files_to_sync))
        return log

    def __repr__(self) -> str:
        return f"Log({self.folder}: {self.start_offset} to {self.end_offset})"

    # --- appending

    def append(
        self, buf: bytearray | memoryview, header: BatchHeader, *, leader_epoch: int, client: bool = True
    ) -> AppendResult:
        """Append one batch of magic 2; offsets, leader epoch and (where the topic stamps times) the
        time are written into `buf`.

        Args: buf: the whole batch and nothing else, checksum and header checked. client: False for
        the broker's own batches, end markers among them: their sequence is not checked. Crash: see
        the module; a process crash costs nothing, recovery cuts a torn batch off. Raises:
        OutOfOrderSequence, InvalidProducerEpoch, InvalidTransactionState, CorruptBatch (of a
        marker): nothing was written. StorageFailed: the log takes no more. StorageUnavailable:
        nothing was written, and the next append may succeed.
        """
        if self.offline is not None:
            raise self.offline
        if header.producer_id >= 0 and client:
            repeated = self.producers.check(header)
            if repeated is not None:
                return self._repeated(repeated)
        space = self.space
        if space is not None and space.refusal is not None and client:
            space.check()
        marker = (
            EndTransactionMarker.of(next(iter_records(buf))) if header.producer_id >= 0 and header.is_control else None
        )
        offset = self.end_offset
        stamp(buf, 0, offset, leader_epoch)
        append_time_ms = -1
        if self.config.log_append_time:
            append_time_ms = self._clock.wall_ms()
            set_log_append_time(buf, 0, append_time_ms)
            header = header._replace(max_timestamp=append_time_ms)
        last_offset = offset + header.last_offset_delta
        try:
            self._write(buf, header, last_offset, leader_epoch, marker)
        except StorageUnavailable as error:
            if space is not None and isinstance(error, DiskFull):
                space.met(error)
            raise
        except StorageFailed as error:
            self._fail(error)
            raise
        if space is not None:
            space.bytes_until_refresh -= len(buf)
            if space.bytes_until_refresh < 0:
                space.look()
        return AppendResult(offset, last_offset, append_time_ms, self.start_offset, False, last_offset + 1)

    def _write(
        self,
        buf: bytearray | memoryview,
        header: BatchHeader,
        last_offset: int,
        leader_epoch: int,
        marker: EndTransactionMarker | None,
    ) -> None:
        config = self.config
        active = self._active
        max_timestamp = header.max_timestamp
        age_max_ms = config.segment_ms - self._jitter_ms
        is_due = active.must_roll(len(buf), last_offset, max_timestamp, self._clock, config.segment_bytes, age_max_ms)
        if is_due:
            if self._may_roll or not active.has_room(len(buf), last_offset):
                self._roll()
                active = self._active
            else:
                self.roll_due = True
        if leader_epoch != self.epochs.latest:
            self.epochs.assign(leader_epoch, self.end_offset)
        if marker is not None and marker.kind == ABORT:
            active.txnindex.prepare()
        active.append(buf, last_offset, max_timestamp, config.index_interval_bytes, config.segment_index_bytes)
        if header.producer_id >= 0:
            aborted = self.producers.count(header, marker, self.end_offset, self._clock.wall_ms())
            if aborted is not None:
                self._note_aborted(aborted)
        self.end_offset = last_offset + 1

    def _note_aborted(self, aborted: AbortedTxn) -> None:
        try:
            self._active.txnindex.append(aborted)
        except DiskFull as error:  # readers would get the aborted records of the marker that is written already
            raise StorageFailed(f"an aborted transaction can't be indexed: {error}") from error

    def _repeated(self, batch: BatchMetadata) -> AppendResult:
        append_time_ms = batch.timestamp if self.config.log_append_time else -1
        return AppendResult(
            batch.first_offset, batch.last_offset, append_time_ms, self.start_offset, True, self.end_offset
        )

    @property
    def active(self) -> Segment:
        """The segment that is appended to."""
        return self._active

    @property
    def _may_roll(self) -> bool:
        """Whether a segment could begin now without waiting for the disk."""
        return not self.defers_rolls or self._flusher.can_roll

    def roll_if_ready(self) -> bool:
        """`roll`; False: that has to wait for a flush, after which this is to be called again
        (`roll_due`).
        """
        self.roll_due = not self._may_roll
        if not self.roll_due:
            self.roll()
        return not self.roll_due

    def roll(self) -> None:
        """End the active segment and begin a new one at the end of the log; nothing happens while
        it is empty.

        Crash: the old segment's indexes and the new one's name may be lost until the next flush,
        and are made anew. Raises StorageFailed.
        """
        if self.offline is not None:
            raise self.offline
        if self._active.size == 0:
            return
        try:
            self._roll()
        except StorageUnavailable:
            raise
        except StorageFailed as error:
            self._fail(error)
            raise

    def _roll(self) -> None:
        old = self._active
        self._flusher.sync_sealed()
        old.seal()
        old.modified_ms(self._clock.wall_ms())
        self._take_snapshot()
        new = Segment.make(self._storage, self.folder, self.end_offset, self._clock.wall_ms())
        self._flusher.add(*old.files())
        self._flusher.folder_changed()
        self._segments.append(new)
        self._active = new
        self.roll_due = False
        self._jitter_ms = self._draw_jitter()

    def _take_snapshot(self) -> None:
        file = self._snapshots.take(self.producers, self.end_offset, {segment.base for segment in self._segments})
        if file is not None:
            self._flusher.add(file)
            self._flusher.folder_changed()

    def _draw_jitter(self) -> int:
        jitter_ms = min(self.config.segment_jitter_ms, self.config.segment_ms)
        return self._rng.randrange(jitter_ms) if jitter_ms and self._rng is not None else 0

    # --- reading

    def read(self, offset: int, max_bytes: int, *, end_offset: int, min_one_batch: bool = True) -> ReadResult:
        """Whole batches from the one that holds `offset` on, as many as fit `max_bytes`, none that
        reaches `end_offset` (exclusive).

        Args: end_offset: the high watermark, last stable offset or log end. min_one_batch: the
        first batch may be larger than `max_bytes`. A read at the `next_offset` of an earlier one
        searches no index. Batches before `offset` in the first one are the reader's to skip.
        Raises: OffsetOutOfRange: below the log start or above the log end. StorageFailed: offline,
        or the disk fails. CorruptBatch.
        """
        if self.offline is not None:
            readable_end = self.readable_end
            if readable_end <= offset < end_offset:
                raise self.offline
            end_offset = min(end_offset, readable_end)
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(
                f"{self.folder}: offset {offset} is not within {self.start_offset} and {self.end_offset}"
            )
        return self._reader.read(offset, max_bytes, end_offset, self.end_offset, min_one_batch)

    @property
    def readable_end(self) -> int:
        """Reads are served below this offset: the log end, or of a read-only log what was flushed.
        Raises StorageFailed: offline.
        """
        if self.offline is None:
            return self.end_offset
        if self.state is LogState.OFFLINE:
            raise self.offline
        return max(self.flushed_offset, self.start_offset)

    def disable_verification(self) -> None:
        """From now on no read says that something is to be checked before it is served."""
        self._reader.verifies = False

    def check_job(self, check: VerificationTask, done: Done) -> IoJob[VerificationResult] | None:
        """The work that stands before a read may be served; `done(error or None)` when the read is
        to be repeated.

        None: such a job is under way, and will call `done`. What it finds damaged is in `damage`
        then, and refused with DamagedBatch.
        """
        job = check.job(self._found_damaged, done)
        if job is not None:
            job.queue = self._storage.location
        return job

    def check_now(self, check: VerificationTask) -> None:
        """The same work at once. Blocks. Raises StorageFailed."""
        self._found_damaged(check.finish(check.run()))

    def _found_damaged(self, damages: list[Damage]) -> None:
        report_damage(damages, self.damage, self._storage.location, self.folder)

    def offset_for_time(self, timestamp: int, end_offset: int) -> TimestampAndOffset | None:
        """The first record (by offset) below `end_offset` whose time is `timestamp` or later; None:
        there is none.

        Raises: StorageFailed, CorruptData. Source: Kafka UnifiedLog.fetchOffsetByTimestamp.
        """
        return run_to_end(self.offset_for_time_steps(timestamp, end_offset))

    def offset_for_time_steps(self, timestamp: int, end_offset: int) -> SteppedLookup[TimestampAndOffset | None]:
        """`offset_for_time` in steps, between which the log may change."""
        return self._reader.offset_for_time(timestamp, self.start_offset, end_offset, self.epochs)

    def latest_timestamp(self, end_offset: int | None = None) -> TimestampAndOffset | None:
        """The record below `end_offset` (None: the log's end) with the greatest time, the first of
        them; None: none has a time.

        Raises: StorageFailed, CorruptData. Source: Kafka UnifiedLog.fetchOffsetByTimestamp, which
        counts records outside of the bounds too.
        """
        return run_to_end(self.latest_timestamp_steps(end_offset))

    def latest_timestamp_steps(self, end_offset: int | None = None) -> SteppedLookup[TimestampAndOffset | None]:
        """`latest_timestamp` in steps, between which the log may change."""
        end = self.end_offset if end_offset is None else min(end_offset, self.end_offset)
        return self._reader.latest_timestamp(self.start_offset, end, self.epochs)

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset:
        """Where the largest epoch that is not above `epoch` ends; (-1, -1): unknown. See
        `LeaderEpochCache.end_offset_for`.
        """
        return self.epochs.end_offset_for(epoch, self.end_offset)

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """A leader of `epoch` begins at `start_offset`. Crash: forgotten unless something was
        flushed since; batches carry their epoch.
        """
        self.epochs.assign(epoch, start_offset)

    @property
    def last_stable_offset(self) -> int:
        """First offset of an open transaction, or the log end, as if all were committed; see
        `stable_below`.
        """
        return max(min(self.producers.first_open(), self.end_offset), self.start_offset)

    def stable_below(self, high_watermark: int) -> int:
        """How far read_committed consumers may read: to `high_watermark`, or to the first
        transaction that is open there.

        The high watermark must not go back between calls.
        """
        return max(min(self.producers.first_unstable(high_watermark), high_watermark), self.start_offset)

    def aborted(self, start_offset: int, end_offset: int) -> list[AbortedTxn]:
        """The aborted transactions that reach into the offsets from `start_offset` to `end_offset`
        (exclusive), in order of their ends.

        Raises: StorageFailed, CorruptIndex.
        """
        return self._reader.aborted(start_offset, end_offset)

    @property
    def storage(self) -> Storage:
        """Where its folder is."""
        return self._storage

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return sum(segment.size for segment in self._segments)

    @property
    def first_base(self) -> int:
        """First offset of the oldest segment; the log starts there or later."""
        return self._segments[0].base

    def segment_views(self, first_timestamps_from: int | None = None) -> tuple[SegmentView, ...]:
        """All segments as cleanup policies see them; `first_timestamps_from`: see `SegmentView`,
        None: they are not read.

        Raises: StorageFailed, CorruptData.
        """
        return self._list.views(self.end_offset, self._clock.wall_ms(), first_timestamps_from)

    def segments(self) -> list[SegmentInfo]:
        """All segments, oldest first; the last is the active one. Raises: StorageFailed,
        CorruptIndex.
        """
        return [SegmentInfo(segment.base, segment.size, segment.max_timestamp) for segment in self._segments]

    # --- cutting

    def truncate_to(self, offset: int) -> None:
        """Drop all from `offset` on; a batch that holds it goes whole. `offset` at or above the
        end: nothing to do.

        Blocks on the disk. Crash: on return it is durable; before, the log may have any end between
        the two. Raises: OffsetOutOfRange: below the log start. StorageFailed.
        """
        if self.offline is not None:
            raise self.offline
        if offset < self.start_offset:
            raise OffsetOutOfRange(f"{self.folder}: can't truncate to {offset}, the log starts at {self.start_offset}")
        if offset >= self.end_offset:
            return
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
        self.end_offset = end_offset = self._list.cut(offset, self.config.segment_index_bytes)
        self._active = self._segments[-1]
        self.epochs.truncate_from_end(end_offset)
        self._flusher.truncated(end_offset)
        if self._producer_limit is not None:
            self._producer_limit.unwatch(self.producers)
        self.producers = load_producers(self._storage, self.folder, self._snapshots.offsets, end_offset)
        self.producers.end_offset = max(self.producers.end_offset, self._segments[0].base)
        replay(self._segments, self.producers, end_offset)
        if self._producer_limit is not None:
            self._producer_limit.watch(self.producers)

    def advance_start(self, offset: int) -> None:
        """Records below `offset` are gone for readers; it never goes back. Their segments stay
        until they are cleaned.

        Crash: forgotten unless the manager has written its checkpoint since. Raises
        OffsetOutOfRange: above the end.
        """
        if offset > self.end_offset:
            raise OffsetOutOfRange(f"{self.folder}: the log can't start at {offset}, it ends at {self.end_offset}")
        if offset > self.start_offset:
            self.start_offset = offset
            self.announce_start(offset)
            self.epochs.truncate_from_start(offset)

    def announce_start(self, offset: int) -> None:
        """`advance_start` is to come, to `offset`; what is checkpointed in the meantime says so
        already.
        """
        self.pending_start_offset = max(self.pending_start_offset, offset)

    def start_after_deletion(self, offset: int) -> int | None:
        """Where the log would start after `delete_before(offset)`; None: that would drop nothing."""
        return self._list.start_after_deletion(offset) if self.state is not LogState.OFFLINE else None

    def delete_before(self, offset: int, *, high_watermark: int, why: str) -> DeletedSegments | None:
        """Let go of the sealed segments that end at or below both offsets; the log starts after
        them.

        Returns: what is left to be done to their files (see `dropping`); None: there is no such
        segment. Who reads them goes on. Crash: the segments are back unless the log start
        checkpoint was written since. Touches no file, and never blocks.
        """
        is_offline = self.state is LogState.OFFLINE
        dropped = None if is_offline else self._list.delete_below(min(offset, high_watermark, self.readable_end), why)
        self.advance_start(self.first_base)
        return dropped

    def sealed_below(self, offset: int) -> list[Segment]:
        """The sealed segments that end at or below `offset`, oldest first; to be looked at, and to
        be given back to `replace`.
        """
        return self._list.sealed_below(offset)

    def has_sealed(self, segments: list[Segment]) -> bool:
        """Whether these are sealed segments of the log, still, and neighbours."""
        return self._list.find(segments) is not None

    def replace(self, old: list[Segment], group: SegmentGroup) -> list[str] | None:
        """Put the segment that compaction made of `old` in their place, after `swap.commit`; what
        follows is in `swap`.

        Returns: the paths that the old files have now; None: `old` is no part of the log any more,
        and nothing was done. Who reads them goes on. Blocks for some renames. Crash: see `swap`.
        Raises StorageFailed: the log is offline.
        """
        if self.offline is not None:
            return None
        try:
            return self._list.replace(old, group, self._clock.wall_ms())
        except (StorageFailed, FileNotFoundError) as error:
            self._fail(error, LogState.OFFLINE)
            raise

    def limit_producers(self, limit: ProducerLimit) -> None:
        """Let `limit` count the producers, and forget some when all logs have too many."""
        self._producer_limit = limit
        limit.watch(self.producers)

    def expire_producers(self) -> int:
        """Forget the producers that have been silent for producer.id.expiration.ms; returns how
        many.
        """
        return self.producers.expire(self._clock.wall_ms(), self._producer_expiration_ms)

    # --- flushing and closing

    @property
    def flushed_offset(self) -> int:
        """All below survives a power cut."""
        return self._flusher.flushed_offset

    @property
    def needs_flush(self) -> bool:
        """Whether `flush_job` would have something to do, now or once the job under way is done."""
        return self.offline is None and self._flusher.flushed_offset < self.end_offset

    @property
    def has_unflushed_segments(self) -> bool:
        """Whether segments were ended since the last flush; under `kqueue.flush=kafka` too they are
        due to be flushed then.
        """
        return self.offline is None and self._flusher.has_files

    def flush_job(self) -> IoJob[None] | None:
        """A job that makes all appended so far survive a power cut; None: nothing to do, or such a
        job is under way, or offline.

        Its `finish` moves `flushed_offset`, or makes the log read-only, and calls `on_flushed`. An
        fsync that failed is never tried again.
        """
        if self.offline is not None:
            return None
        self.flush_refused = False
        job = self._flusher.job(self.end_offset, self._active.log, self.epochs, self._flushed)
        if job is not None:
            # the high watermark will be there next
            self._reader.hint(self.end_offset, LogPosition(self._active, self._active.size, self.end_offset))
        return job

    def _flushed(self, error: BaseException | None) -> None:
        self.flush_refused = isinstance(error, StorageUnavailable)
        if error is not None and not self.flush_refused:
            self._fail(error)
        elif self.on_flushed is not None:
            self.on_flushed()

    def _fail(self, error: BaseException, state: LogState = LogState.READ_ONLY) -> None:
        if self.offline is None:
            place = f"{self._storage.location}: {self.folder}"
            failure = error if isinstance(error, StorageFailed) else StorageFailed(f"{place}: {error!r}")
            if state is LogState.READ_ONLY:
                logger.error(
                    "%s is read-only until the next start, records below offset %d are served: %s",
                    place, max(self.flushed_offset, self.start_offset), failure,
                )  # fmt: skip
            else:
                logger.error("%s is offline until the next start: %s", place, failure)
            self._leave(state, failure)
            if self.on_offline is not None:
                self.on_offline()

    def _leave(self, state: LogState, failure: StorageFailed) -> None:
        self.state, self.offline = state, failure
        if self.on_flushed is not None:
            self.on_flushed()

    def take_offline(self, error: StorageFailed) -> None:
        """Refuse every use with `error` from now on, and write nothing more; the caller has logged
        why. Harmless if it is offline.
        """
        if self.state is not LogState.OFFLINE:
            self._leave(LogState.OFFLINE, self.offline or error)

    def close(self) -> None:
        """Flush all, write the snapshot that makes the next start quick, and let go of the files.
        Blocks. Twice is harmless.

        Crash: before the manager has marked the stop as clean, the next start recovers as ever.
        Raises StorageFailed; not if the log is offline already, then nothing is flushed.
        """
        if self.offline is not None:
            self._close_files()
            return
        try:
            self._active.finish_timeindex()
            if self.end_offset > self.first_base:
                self._take_snapshot()
            self._flusher.run_now(self.end_offset, self._active, self.epochs)
        except StorageFailed as error:
            self._fail(error)
            raise
        finally:
            self._close_files()

    def index_times(self) -> None:
        """Put the greatest time so far into the active segment's time index, for whoever copies the
        files. Raises StorageFailed.
        """
        self._active.finish_timeindex()

    def retire(self) -> None:
        """The log was deleted: it is offline from now on. Its files stay open until `abandon`."""
        self.take_offline(StorageFailed(f"{self.folder} was deleted"))

    def abandon(self) -> None:
        """Let go of the files without flushing, before they are deleted; the log is offline then."""
        self.retire()
        self._close_files()

    def _close_files(self) -> None:
        for segment in self._segments:
            segment.close()


__all__ = ["AppendResult", "Log", "ReadResult", "SegmentInfo", "TimestampAndOffset", "remove_folder"]
