"""Chooses which log is compacted next, and carries each compaction through its steps.

The recovery point is checkpointed first; a worker process rewrites the segments; each group is
swapped in as `compaction.swap_files` says; the cleaner's checkpoint comes last. A log that fails to
clean is excluded and reported; the others go on. The result of a job is discarded if the log was
deleted, truncated or closed meanwhile. Durability: see `compaction.swap_files`; a compaction whose
checkpoint was not written is repeated.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kqueue.base import events
from kqueue.base.clock import Clock
from kqueue.base.config import Config, TopicConfig
from kqueue.base.errors import CorruptData, JobCancelled, ProcessDied, StorageFailed
from kqueue.base.jobs import CpuJob, IoJob, Jobs
from kqueue.base.text import counted
from kqueue.log.compaction import swap_files
from kqueue.log.compaction.compaction_task import CompactionTask
from kqueue.log.compaction.model import CompactionConfig, CompactionResult, SegmentGroup, SegmentSource
from kqueue.log.deletion import AsyncDeleter, remove_files
from kqueue.log.formats.filenames import CLEANED, LOG, SEGMENT_SUFFIXES, SWAP, file_name
from kqueue.log.log import Log
from kqueue.log.manager import LogManager
from kqueue.log.policies import RecordFilter
from kqueue.log.policies.compact import LogToClean
from kqueue.log.segment import Segment
from kqueue.storage import Storage

logger = logging.getLogger("kqueue.log")
TopicPartition = tuple[str, int]
RETRY_MS = 600_000  # after a failure that a retry may avoid, such as a full disk
PROCESS_DEATH_RETRY_MS = (15_000, 60_000)  # after consecutive deaths of the process; after one more, RETRY_MS


@dataclass(frozen=True, slots=True)
class CompactionCandidate:
    """A log that could be compacted: its sealed segments that end at or below `upto`.

    first_dirty: records from this offset on were not cleaned yet. keep: decides instead of keys.
    owns_offset: the result moves the checkpointed first dirty offset.
    """

    key: TopicPartition
    log: Log
    upto: int
    first_dirty: int
    log_to_clean: LogToClean
    config: TopicConfig
    keep: RecordFilter | None = None
    owns_offset: bool = True
    why: str = ""

    @property
    def urgency(self) -> tuple[bool, float]:
        """Sort key: logs beyond max.compaction.lag.ms first, then by dirty ratio."""
        return self.log_to_clean.overdue, self.log_to_clean.ratio


class CleanerCounts:
    """The counts of all compactions since the start.

    Attributes:
        runs, failures: compactions that ended well, and that failed.
        read_bytes, written_bytes: of compactions that ended well.
        seconds: that their processes took.
        ended_ms: wall clock, at the end of the last one that ended well; None: there was none.
        dirty_ratio_max: of the logs that could be compacted at the last look: bytes that were not
            cleaned yet, to all bytes.
    """

    __slots__ = ("dirty_ratio_max", "ended_ms", "failures", "read_bytes", "runs", "seconds", "written_bytes")

    def __init__(self) -> None:
        self.runs = self.failures = self.read_bytes = self.written_bytes = 0
        self.seconds = self.dirty_ratio_max = 0.0
        self.ended_ms: int | None = None


class LogCleaner:
    """All compactions of one broker.

    uncleanable: excluded logs with the reason: until the next start if their bytes are damaged,
    else for ten minutes.
    on_idle: called when a compaction has ended, also after a failure.
    Thread: the owner.
    """

    def __init__(self, config: Config, logs: LogManager, jobs: Jobs, deleter: AsyncDeleter, clock: Clock) -> None:
        self._config = config
        self.logs = logs
        self.jobs = jobs
        self.deleter = deleter
        self._clock = clock
        self._busy: dict[TopicPartition, _CompactionRun] = {}
        self._not_before: dict[TopicPartition, float] = {}  # monotonic ms
        self._deaths: Counter[TopicPartition] = Counter()  # consecutive deaths of the log's worker process
        self._stopped = False
        self.uncleanable: dict[TopicPartition, str] = {}
        self.counts = CleanerCounts()
        self.on_idle: Callable[[], None] | None = None

    def is_busy(self, key: TopicPartition) -> bool:
        """Return whether the partition is being compacted, so that no segment may be dropped."""
        return key in self._busy

    @property
    def room(self) -> int:
        """The number of compactions that may start now."""
        return int(self._config["log.cleaner.threads"]) - len(self._busy)

    def forget(self, key: TopicPartition) -> None:
        """Drop the state of a deleted partition; a new one of its name starts without it."""
        self.uncleanable.pop(key, None)
        self._not_before.pop(key, None)
        self._deaths.pop(key, None)

    def begin(self, candidates: Iterable[CompactionCandidate]) -> int:
        """Start compacting the most urgent logs, as many as threads allow; return their number."""
        started = 0
        if self._stopped:
            return 0
        by_urgency = sorted(candidates, key=lambda candidate: candidate.urgency, reverse=True)
        self.counts.dirty_ratio_max = max((each.log_to_clean.ratio for each in by_urgency), default=0.0)
        for candidate in by_urgency:
            if self.room <= 0:
                break
            if self._may_start(candidate):
                started += self._start(candidate)
        return started

    def _may_start(self, candidate: CompactionCandidate) -> bool:
        # A log that failed is not rewritten: what it has on disk is all there is.
        if candidate.key in self._busy or candidate.log.health.failure is not None:
            return False
        if self._clock.monotonic_ms() < self._not_before.get(candidate.key, 0.0):
            return False
        return candidate.keep is not None or candidate.log_to_clean.dirty_bytes > 0

    def _start(self, candidate: CompactionCandidate) -> bool:
        segments = candidate.log.segments.sealed_below(candidate.upto)
        views = candidate.log.segment_views()
        if not segments or (candidate.keep is None and views[len(segments) - 1].end_offset <= candidate.first_dirty):
            return False
        sources = tuple(
            SegmentSource(view.base_offset, view.end_offset, view.size, segment.txnindex.file is not None)
            for segment, view in zip(segments, views, strict=False)
        )
        self._not_before.pop(candidate.key, None)
        run = self._busy[candidate.key] = _CompactionRun(candidate, segments, self._task(candidate, sources), self)
        # Until the run ends: a start after a crash needs every `.deleted` name to find out how far
        # it came.
        self.deleter.pause(candidate.log.folder)
        why = f", {candidate.why}" if candidate.why else ""
        events.COMPACTION_STARTED.log(
            logger, "%r: compacting %s%s", log=candidate.log, segments=counted(len(segments), "segment"), reason=why
        )
        run.begin()
        return True

    def _task(self, candidate: CompactionCandidate, sources: tuple[SegmentSource, ...]) -> CompactionTask:
        log = candidate.log
        storage = log.storage
        return CompactionTask(
            opener=storage.opener or (lambda: storage),
            folder=log.folder,
            sources=sources,
            first_dirty=min(max(candidate.first_dirty, sources[0].base), sources[-1].end_offset),
            config=cleaner_config(self._config, candidate.config),
            start_offset=log.start_offset,
            now_ms=self._clock.wall_ms(),
            last_batches={
                id: producer.batches[-1].last_offset for id, producer in log.producers.items() if producer.batches
            },
            marked_epochs={id: producer.epoch for id, producer in log.producers.items() if not producer.batches},
            keep=candidate.keep,
        )

    def ended(
        self,
        candidate: CompactionCandidate,
        compacted: CompactionResult | None,
        error: BaseException | None,
        *,
        for_good: bool = False,
    ) -> None:
        """Handle the end of a run; called by runs only.

        Neither a result nor an error: the log was deleted, truncated or closed meanwhile.
        """
        key, now_ms = candidate.key, self._clock.monotonic_ms()
        del self._busy[key]
        self.deleter.resume(candidate.log.folder)
        # The broker stops: no other run begins.
        if isinstance(error, JobCancelled):
            self._stopped = True
        elif error is not None:
            self._failed(candidate, error, for_good=for_good or isinstance(error, CorruptData))
        elif compacted is not None:
            self._count(compacted)
            self.uncleanable.pop(key, None)
            self._deaths.pop(key, None)
            if candidate.keep is not None:
                self._not_before[key] = now_ms + self._config["log.retention.check.interval.ms"]
            elif compacted.clean_to <= candidate.first_dirty:  # the offset map cannot hold even one batch
                self._not_before[key] = now_ms + self._config["log.cleaner.backoff.ms"]
        if self.on_idle is not None:
            self.on_idle()

    def _count(self, compacted: CompactionResult) -> None:
        counts, stats = self.counts, compacted.stats
        counts.runs += 1
        counts.read_bytes += stats.bytes_read
        counts.written_bytes += stats.bytes_written
        counts.seconds += stats.seconds
        counts.ended_ms = int(self._clock.wall_ms())

    def _failed(self, candidate: CompactionCandidate, error: BaseException, *, for_good: bool) -> None:
        key, now_ms = candidate.key, self._clock.monotonic_ms()
        self.counts.failures += 1
        if isinstance(error, ProcessDied):
            self._deaths[key] += 1
            if self._deaths[key] <= len(PROCESS_DEATH_RETRY_MS):
                wait_ms = PROCESS_DEATH_RETRY_MS[self._deaths[key] - 1]
                self._not_before[key] = now_ms + wait_ms
                events.COMPACTION_FAILED.log(
                    logger,
                    "%r was not compacted, and nothing changed: %s; retrying in %d s",
                    log=candidate.log,
                    error=error,
                    retry_s=wait_ms // 1000,
                )
                return
        self.uncleanable[key] = str(error)
        self._not_before[key] = float("inf") if for_good else now_ms + RETRY_MS
        retry = "until the next start" if for_good else f"for {RETRY_MS // 60_000} minutes"
        events.COMPACTION_EXCLUDED.log(
            logger,
            "%r cannot be compacted and is excluded %s, other logs are compacted: %s",
            log=candidate.log,
            retry=retry,
            error=error,
        )


def cleaner_config(config: Config, topic: TopicConfig) -> CompactionConfig:
    """Return the settings of one compaction; shared limits are divided by the thread count."""
    threads = max(int(config["log.cleaner.threads"]), 1)
    return CompactionConfig(
        segment_bytes=topic["segment.bytes"],
        segment_index_bytes=topic["segment.index.bytes"],
        index_interval_bytes=topic["index.interval.bytes"],
        delete_retention_ms=topic["delete.retention.ms"],
        dedupe_bytes=config["log.cleaner.dedupe.buffer.size"] // threads,
        load_factor=config["log.cleaner.io.buffer.load.factor"],
        io_bytes_per_second=config["log.cleaner.io.max.bytes.per.second"] / threads,
        io_buffer_bytes=max(config["log.cleaner.io.buffer.size"] // threads, 1024),
    )


class _CompactionRun:
    """One compaction; each step starts when the one before has ended. Thread: the owner."""

    def __init__(
        self, candidate: CompactionCandidate, segments: list[Segment], task: CompactionTask, cleaner: LogCleaner
    ) -> None:
        self.candidate = candidate
        self._log = candidate.log
        self._storage = candidate.log.storage
        self._folder = candidate.log.folder
        self._segments = {segment.base: segment for segment in segments}
        self._task = task
        self._cleaner = cleaner
        self._compacted: CompactionResult | None = None
        self._pending_groups: deque[SegmentGroup] = deque()

    def begin(self) -> None:
        # beyond the recovery point a start after a crash looks for losses, and would take the gaps
        # that compaction leaves for one
        self._cleaner.logs.checkpoints.save_recovery_point(self.candidate.key, self._saved)

    def _saved(self, error: BaseException | None) -> None:
        if error is not None or self._log.health.failure is not None:
            self._finish(error)
            return
        shared = self._storage.opener is not None
        self._cleaner.jobs.submit(CpuJob(f"compact {self._folder}", self._task, self._written, shared=shared))

    def _written(self, compacted: CompactionResult | None, error: BaseException | None) -> None:
        if error is not None or compacted is None:
            self._finish(error)
            return
        self._compacted = compacted
        self._pending_groups = deque(compacted.groups)
        self._next()

    def _next(self) -> None:
        """Continue with the next group, or finish."""
        if self._log.health.failure is not None:
            self._finish(None)
        elif not self._pending_groups:
            self._checkpoint()
        # A follower's log was truncated: what was written is thrown away.
        elif not self._is_current():
            groups = tuple(self._pending_groups)
            self._submit("remove", lambda: swap_files.discard(self._storage, self._folder, groups), self._finish)
        else:
            group = self._pending_groups[0]
            self._submit("commit", lambda: swap_files.commit(self._storage, self._folder, group), self._committed)

    def _is_current(self) -> bool:
        """Whether the log still has all segments from the next group on. If later records were
        truncated, earlier records of their keys are valid again.
        """
        first = self._pending_groups[0].sources[0]
        return self._log.segments.contains([segment for segment in self._segments.values() if segment.base >= first])

    def _committed(self, error: BaseException | None) -> None:
        group = self._pending_groups[0]
        if error is not None:
            # the names may be of either step: only the next start can complete them, so no other
            # compaction may run before it
            self._finish(error, for_good=True)
            return
        try:
            paths = (
                self._log.replace([self._segments[base] for base in group.sources], group)
                if self._is_current()
                else None
            )
        except (StorageFailed, FileNotFoundError) as failed:
            self._finish(failed)
            return
        # The log was truncated during the commit. Its names are taken back, else the new segment
        # would come into the log at the next start.
        if paths is None:
            later_groups = tuple(self._pending_groups)[1:]

            def roll_back() -> None:
                roll_back_commit(self._storage, self._folder, group)
                swap_files.discard(self._storage, self._folder, later_groups)

            self._submit("roll_back_commit", roll_back, lambda error: self._finish(error, for_good=True))
            return
        self._pending_groups.popleft()
        self._submit(
            "sync", lambda: self._storage.sync_folder(self._folder), lambda error: self._installed(error, paths)
        )

    def _installed(self, error: BaseException | None, paths: list[str]) -> None:
        if error is not None:
            self._finish(error)
            return
        self._cleaner.deleter.remove_files_later(self._storage, paths, self._log.config.file_delete_delay_ms)
        self._next()

    def _checkpoint(self) -> None:
        compacted = self._compacted
        assert compacted is not None, "the work was done"
        stats = compacted.stats
        events.COMPACTION_ENDED.log(
            logger,
            "%r is compacted up to %d: kept %d of %d records, wrote %d bytes in %.1f s",
            log=self._log,
            clean_to=compacted.clean_to,
            kept_records=stats.records_kept,
            records=stats.records_read,
            bytes=stats.bytes_written,
            seconds=stats.seconds,
        )
        if not self.candidate.owns_offset:
            self._finish(None, compacted)
            return
        # if it cannot be written, which the manager logs, the log is compacted again after the next
        # start
        self._cleaner.logs.checkpoints.save_cleaner_offset(
            self.candidate.key, compacted.clean_to, lambda error: self._finish(None, compacted)
        )

    def _submit(self, what: str, run: Callable[[], None], then: Callable[[BaseException | None], None]) -> None:
        name = f"{what} compaction of {self._folder}"
        self._cleaner.jobs.submit(IoJob(name, run, lambda _, error: then(error), self._storage.location))

    def _finish(
        self, error: BaseException | None, compacted: CompactionResult | None = None, *, for_good: bool = False
    ) -> None:
        if self._log.health.failure is not None and error is not None:
            events.COMPACTION_STOPPED.log(
                logger, "%r: the compaction ends with the log: %s", log=self._log, error=error
            )
            error = None
        self._cleaner.ended(self.candidate, compacted, error, for_good=for_good)


def roll_back_commit(storage: Storage, folder: str, group: SegmentGroup) -> None:
    """Undo `swap_files.commit` of a group whose segments are no longer part of the log.

    Durability: a crash leaves all new, as after the commit, until the log file is `.cleaned` again;
        then all old.
    Raises StorageFailed.
    """
    path = f"{folder}/{file_name(group.cleaned.base, LOG)}"
    storage.rename(path + SWAP, path + CLEANED)
    storage.sync_folder(folder)
    remove_files(storage, [f"{folder}/{file_name(group.cleaned.base, suffix)}{SWAP}" for suffix in SEGMENT_SUFFIXES])
    storage.sync_folder(folder)
    storage.remove(path + CLEANED)
