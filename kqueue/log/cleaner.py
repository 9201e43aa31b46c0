"""Chooses which log is compacted next, and sees each compaction through: the recovery point first,
then the work in a process of its own, then group by group what `compaction.swap` says, then the
checkpoint of the cleaner.

A log that fails to clean is set aside and told of, and the rest go on. A log that was deleted, cut
or closed while its job ran keeps what it has: the result is thrown away. Crash: see
`compaction.swap`; a compaction whose checkpoint was not written is done again.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kqueue.base.clock import Clock
from kqueue.base.errors import CorruptData, JobCancelled, ProcessDied, StorageFailed
from kqueue.base.jobs import CpuJob, IoJob, Jobs
from kqueue.base.settings import Config, TopicConfig
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
RETRY_MS = 600_000  # after a failure that another try may not meet: a full disk
PROCESS_DEATH_RETRY_MS = (15_000, 60_000)  # after the first deaths of the process in a row; after the next one RETRY_MS


@dataclass(frozen=True, slots=True)
class CompactionCandidate:
    """A log that could be compacted: its sealed segments that end at or below `upto`, of which all
    is new from `first_dirty` on.

    `keep`: decides in the place of keys; `owns_offset`: what was cleaned counts as clean
    afterwards.
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
        """Those whose max.compaction.lag.ms is over come first, then the dirtiest."""
        return self.log_to_clean.overdue, self.log_to_clean.ratio


class LogCleaner:
    """All compactions of one broker. Belongs to the owner thread. `on_idle` is called when a
    compaction has ended, well or not.

    `uncleanable`: the logs that were set aside, with the reason: for good where their bytes are
    damaged, else for ten minutes.
    """

    def __init__(self, config: Config, logs: LogManager, jobs: Jobs, deleter: AsyncDeleter, clock: Clock) -> None:
        self._config = config
        self.logs = logs
        self.jobs = jobs
        self.deleter = deleter
        self._clock = clock
        self._busy: dict[TopicPartition, _CompactionRun] = {}
        self._not_before: dict[TopicPartition, float] = {}  # monotonic ms
        self._deaths: Counter[TopicPartition] = Counter()  # of the process that compacts the log, in a row
        self._stopped = False
        self.uncleanable: dict[TopicPartition, str] = {}
        self.on_idle: Callable[[], None] | None = None

    def is_busy(self, key: TopicPartition) -> bool:
        """Whether the partition is being compacted: its segments are not to be dropped meanwhile."""
        return key in self._busy

    @property
    def room(self) -> int:
        """How many more compactions may begin now."""
        return int(self._config["log.cleaner.threads"]) - len(self._busy)

    def forget(self, key: TopicPartition) -> None:
        """The partition is gone; another one of the same name has a start of its own."""
        self.uncleanable.pop(key, None)
        self._not_before.pop(key, None)
        self._deaths.pop(key, None)

    def begin(self, candidates: Iterable[CompactionCandidate]) -> int:
        """Begin to compact the most urgent ones, as many as there is room for; returns how many
        were begun.
        """
        begun = 0
        if self._stopped:
            return 0
        for candidate in sorted(candidates, key=lambda one: one.urgency, reverse=True):
            if self.room <= 0:
                break
            if self._may_begin(candidate):
                begun += self._begin(candidate)
        return begun

    def _may_begin(self, candidate: CompactionCandidate) -> bool:
        if candidate.key in self._busy or candidate.log.offline is not None:
            return False
        if self._clock.monotonic_ms() < self._not_before.get(candidate.key, 0.0):
            return False
        return candidate.keep is not None or candidate.log_to_clean.dirty_bytes > 0

    def _begin(self, candidate: CompactionCandidate) -> bool:
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
        self.deleter.pause(candidate.log.folder)
        logger.info(
            "%r: compacting %d segments%s", candidate.log, len(segments), f", {candidate.why}" if candidate.why else ""
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
        """For runs alone: one has ended. With neither a result nor an error, nobody needed it any
        more.
        """
        key, now_ms = candidate.key, self._clock.monotonic_ms()
        del self._busy[key]
        self.deleter.resume(candidate.log.folder)
        if isinstance(error, JobCancelled):
            self._stopped = True
        elif error is not None:
            self._failed(candidate, error, for_good=for_good or isinstance(error, CorruptData))
        elif compacted is not None:
            self.uncleanable.pop(key, None)
            self._deaths.pop(key, None)
            if candidate.keep is not None:
                self._not_before[key] = now_ms + self._config["log.retention.check.interval.ms"]
            elif compacted.clean_to <= candidate.first_dirty:  # the table of keys has no room for even one batch
                self._not_before[key] = now_ms + self._config["log.cleaner.backoff.ms"]
        if self.on_idle is not None:
            self.on_idle()

    def _failed(self, candidate: CompactionCandidate, error: BaseException, *, for_good: bool) -> None:
        key, now_ms = candidate.key, self._clock.monotonic_ms()
        if isinstance(error, ProcessDied):
            self._deaths[key] += 1
            if self._deaths[key] <= len(PROCESS_DEATH_RETRY_MS):
                wait_ms = PROCESS_DEATH_RETRY_MS[self._deaths[key] - 1]
                self._not_before[key] = now_ms + wait_ms
                logger.warning(
                    "%r was not compacted, and nothing changed: %s; retrying in %d s",
                    candidate.log,
                    error,
                    wait_ms // 1000,
                )
                return
        self.uncleanable[key] = str(error)
        self._not_before[key] = float("inf") if for_good else now_ms + RETRY_MS
        retry = "until the next start" if for_good else f"for {RETRY_MS // 60_000} minutes"
        logger.error(
            "%r can't be compacted and is set aside %s, other logs are compacted: %s", candidate.log, retry, error
        )


def cleaner_config(config: Config, topic: TopicConfig) -> CompactionConfig:
    """What one compaction reads of the settings; what all have together is shared out."""
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
    """One compaction, from step to step; each begins where the one before has ended, on the owner
    thread.
    """

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
        self._todo: deque[SegmentGroup] = deque()

    def begin(self) -> None:
        # a start after a crash looks for losses beyond the recovery point, and what compaction
        # leaves out would be taken for one
        self._cleaner.logs.checkpoints.save_recovery_point(self.candidate.key, self._saved)

    def _saved(self, error: BaseException | None) -> None:
        if error is not None or self._log.offline is not None:
            self._end(error)
            return
        shared = self._storage.opener is not None
        self._cleaner.jobs.submit(CpuJob(f"compact {self._folder}", self._task, self._written, shared=shared))

    def _written(self, compacted: CompactionResult | None, error: BaseException | None) -> None:
        if error is not None or compacted is None:
            self._end(error)
            return
        self._compacted = compacted
        self._todo = deque(compacted.groups)
        self._next()

    def _next(self) -> None:
        """Go on with the next group, or come to the end."""
        if self._log.offline is not None:
            self._end(None)
        elif not self._todo:
            self._checkpoint()
        elif not self._is_current():
            groups = tuple(self._todo)
            self._submit("remove", lambda: swap_files.discard(self._storage, self._folder, groups), self._end)
        else:
            group = self._todo[0]
            self._submit("commit", lambda: swap_files.commit(self._storage, self._folder, group), self._committed)

    def _is_current(self) -> bool:
        """Whether the log still has all from the next group on: where later records were cut off,
        earlier ones count again.
        """
        first = self._todo[0].sources[0]
        return self._log.segments.contains([segment for segment in self._segments.values() if segment.base >= first])

    def _committed(self, error: BaseException | None) -> None:
        group = self._todo[0]
        if error is not None:
            # the names may be of either kind: the next start finds its way, another compaction
            # before that would not
            self._end(error, for_good=True)
            return
        try:
            paths = (
                self._log.replace([self._segments[base] for base in group.sources], group)
                if self._is_current()
                else None
            )
        except (StorageFailed, FileNotFoundError) as failed:
            self._end(failed)
            return
        if paths is None:
            rest = tuple(self._todo)[1:]

            def take_back() -> None:
                withdraw(self._storage, self._folder, group)
                swap_files.discard(self._storage, self._folder, rest)

            self._submit("withdraw", take_back, lambda error: self._end(error, for_good=True))
            return
        self._todo.popleft()
        self._submit(
            "sync", lambda: self._storage.sync_folder(self._folder), lambda error: self._installed(error, paths)
        )

    def _installed(self, error: BaseException | None, paths: list[str]) -> None:
        if error is not None:
            self._end(error)
            return
        self._cleaner.deleter.remove_files_later(self._storage, paths, self._log.config.file_delete_delay_ms)
        self._next()

    def _checkpoint(self) -> None:
        compacted = self._compacted
        assert compacted is not None, "the work was done"
        stats = compacted.stats
        logger.info(
            "%r is compacted up to %d: kept %d of %d records, wrote %d bytes in %.1f s",
            self._log, compacted.clean_to, stats.records_kept, stats.records_read, stats.bytes_written, stats.seconds,
        )  # fmt: skip
        if not self.candidate.owns_offset:
            self._end(None, compacted)
            return
        # where it can't be written, the log is compacted again after the next start: the manager
        # has logged why
        self._cleaner.logs.checkpoints.save_cleaner_offset(
            self.candidate.key, compacted.clean_to, lambda error: self._end(None, compacted)
        )

    def _submit(self, what: str, run: Callable[[], None], then: Callable[[BaseException | None], None]) -> None:
        name = f"{what} compaction of {self._folder}"
        self._cleaner.jobs.submit(IoJob(name, run, lambda _, error: then(error), self._storage.location))

    def _end(
        self, error: BaseException | None, compacted: CompactionResult | None = None, *, for_good: bool = False
    ) -> None:
        if self._log.offline is not None and error is not None:
            logger.info("%r: the compaction ends with the log: %s", self._log, error)
            error = None
        self._cleaner.ended(self.candidate, compacted, error, for_good=for_good)


def withdraw(storage: Storage, folder: str, group: SegmentGroup) -> None:
    """Take back `swap.commit` of a group whose segments are no part of the log any more. Blocks.
    Raises StorageFailed.

    Crash: first all is new, as after the commit; once the log file is called `.cleaned` again, all
    is old.
    """
    path = f"{folder}/{file_name(group.cleaned.base, LOG)}"
    storage.rename(path + SWAP, path + CLEANED)
    storage.sync_folder(folder)
    remove_files(storage, [f"{folder}/{file_name(group.cleaned.base, suffix)}{SWAP}" for suffix in SEGMENT_SUFFIXES])
    storage.sync_folder(folder)
    storage.remove(path + CLEANED)
