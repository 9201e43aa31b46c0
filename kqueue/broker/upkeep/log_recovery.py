"""Recovers the logs of a start after a crash in jobs, while the broker serves.

    log         is                                    a request gets
    waiting     queued: internal topics first, then   NOT_LEADER_OR_FOLLOWER (`LogRecovering`);
                those that were written last          its log is recovered next
    under way   read by a job                         NOT_LEADER_OR_FOLLOWER
    recovered   opened at its first use               what it asks for
    failed      refused: disk or log are bad          the error; after a while another try begins

Logs with little to read are recovered in a thread, several at once; others in a process of low
priority, because reading batches one by one would hold the interpreter's lock. A log of which a job
is under way is neither opened nor deleted; `drop` waits for it.
Durability: what a job has recovered is flushed. A stop or a crash costs what was not recovered: the
next start recovers it.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import NamedTuple

from kqueue.base import events
from kqueue.base.clock import Clock
from kqueue.base.errors import JobCancelled, JobFailed, LogRecovering, ProcessDied, StorageFailed
from kqueue.base.jobs import CpuJob, IoJob, Jobs
from kqueue.base.names import INTERNAL_TOPICS
from kqueue.base.settings import KiB, MiB
from kqueue.base.text import counted
from kqueue.broker.replicas.partition import Partition
from kqueue.log.folders.partition_folders import TopicPartition
from kqueue.log.formats.filenames import LOG, file_name, parse_file_name
from kqueue.log.manager import LogManager
from kqueue.log.recovery.recovered_log import RecoveredLog
from kqueue.log.recovery.recovery_task import LogToRecover, RecoveryResult, RecoveryTask
from kqueue.storage import Storage

logger = logging.getLogger("kqueue.broker")
JOB_BYTES_MAX = 16 * MiB
JOB_LOGS_MAX = 64
"""A job ends at the first of the two bounds: so an urgent log, and a stop, wait for little."""
THREAD_BYTES_MAX = 512 * KiB
"""So much is read in a thread, in some 100 ms; a process takes that long to start."""
PROGRESS_MS = 5_000
RETRY_MS = 10_000
LogOf = Callable[[Partition], tuple[Storage, LogToRecover]]


@dataclass(slots=True)
class _Folder:
    """The logs of one data folder. waiting: in the order of their recovery."""

    storage: Storage
    waiting: dict[TopicPartition, LogToRecover] = field(default_factory=dict)
    sizes: dict[TopicPartition, int] = field(default_factory=dict)
    urgent: dict[TopicPartition, None] = field(default_factory=dict)
    alone: set[TopicPartition] = field(default_factory=set)
    running: int = 0
    is_measured: bool = False
    is_measuring: bool = False


class _Failure(NamedTuple):
    partition: Partition
    error: StorageFailed
    at_ms: float


class LogRecovery:
    """The recovery of one broker. Thread: owner thread.

    Args:
        jobs_max: jobs at once for one data folder.
        log_of: returns the log of a partition, or raises StorageFailed.
        on_settled: called with each partition that was recovered or has failed.

    Attributes: is_intact: nothing that was flushed was found wrong or missing, so far.
    """

    def __init__(
        self,
        logs: LogManager,
        jobs: Jobs,
        clock: Clock,
        jobs_max: int,
        log_of: LogOf,
        on_settled: Callable[[Partition], None],
    ) -> None:
        self._logs = logs
        self._log_of = log_of
        self._jobs = jobs
        self._clock = clock
        self._jobs_max = jobs_max
        self._on_settled = on_settled
        self._folders: dict[str, _Folder] = {}
        self._pending: dict[TopicPartition, Partition] = {}  # waiting or under way
        self._under_way: set[TopicPartition] = set()
        self._failed: dict[TopicPartition, _Failure] = {}
        self._dropped: list[tuple[set[TopicPartition], Callable[[], None]]] = []
        self._has_processes = True
        self._is_stopped = False
        self.is_intact = True
        self._count = self._count_settled = self._count_failed = 0
        self._began_ms = self._reported_ms = 0.0

    @property
    def is_done(self) -> bool:
        """Whether no log waits or is under way."""
        return not self._pending

    def is_pending(self, topic: str, index: int) -> bool:
        """Whether the partition's log waits or is under way."""
        return bool(self._pending) and (topic, index) in self._pending

    def start(self, partitions: Iterable[Partition]) -> None:
        """Recover the logs of `partitions`."""
        self._began_ms = self._reported_ms = self._clock.monotonic_ms()
        for each in partitions:
            self._add(each)
        self._count = len(self._pending)
        for folder in self._folders.values():
            self._begin(folder)

    def check(self, topic: str, index: int) -> None:
        """Check that a partition's log can be opened; what waits is recovered next, and what failed
        a while ago is tried again.

        Raises: LogRecovering: not yet. StorageFailed: it could not be recovered.
        """
        key = (topic, index)
        failure = self._failed.get(key)
        if failure is not None:
            # Clients ask again and again: a bad disk is not read for each of them.
            if self._clock.monotonic_ms() - failure.at_ms < RETRY_MS or self._is_stopped:
                raise failure.error
            del self._failed[key]
            self._add(failure.partition)
            for folder in self._folders.values():
                self._begin(folder)
        if key in self._pending or key in self._under_way:
            self.hurry(topic, index)
            raise LogRecovering(f"the log of {topic}-{index} is being recovered after a crash, or cut")

    def hurry(self, topic: str, index: int) -> None:
        """Recover a log next, if it waits."""
        key = (topic, index)
        if key in self._pending and key not in self._under_way:
            for folder in self._folders.values():
                if key in folder.waiting:
                    folder.urgent.pop(key, None)
                    folder.urgent[key] = None  # the last one that was asked for goes first

    def hold(self, topic: str, index: int) -> None:
        """Let `drop` wait for another job that has a log for itself, until `release`."""
        self._under_way.add((topic, index))

    def release(self, topic: str, index: int, recovers: Partition | None = None) -> None:
        """The job of `hold` has ended.

        Args: recovers: the partition, if the job has left a log that has to be recovered; that is
            not done for one that `drop` waits for.
        """
        key = (topic, index)
        self._under_way.discard(key)
        if recovers is not None and not any(key in keys for keys, _ in self._dropped):
            self._add(recovers)
        self._end_drops([key])
        for folder in () if self._is_stopped else self._folders.values():
            self._begin(folder)

    def drop(self, keys: Sequence[TopicPartition], then: Callable[[], None]) -> None:
        """Recover these logs no more, and call `then` when no job reads one of them."""
        for key in keys:
            self._failed.pop(key, None)
            if key in self._pending and key not in self._under_way:
                del self._pending[key]
                for folder in self._folders.values():
                    folder.waiting.pop(key, None)
                    folder.urgent.pop(key, None)
        busy = self._under_way.intersection(keys)
        if busy:
            self._dropped.append((busy, then))
        else:
            then()
        self._report()

    def stop(self) -> None:
        """Start no more jobs. What is pending stays refused."""
        self._is_stopped = True

    # --- the queue

    def _add(self, partition: Partition) -> None:
        try:
            storage, log = self._log_of(partition)
        except StorageFailed as error:
            self._fail(partition, error)
            return
        folder = self._folders.setdefault(storage.location, _Folder(storage))
        folder.waiting[log.key] = log
        self._pending[log.key] = partition

    def _begin(self, folder: _Folder) -> None:
        """Start jobs, once it is known how much there is to read."""
        if folder.is_measured:
            self._start_jobs(folder)
        elif not folder.is_measuring:  # also at a later try: at the start the folder may have failed
            self._measure(folder)

    def _measure(self, folder: _Folder) -> None:
        """Find out how much there is to read, in a job; then begin."""
        logs = list(folder.waiting.values())
        folder.is_measuring = True

        def finish(sizes: dict[TopicPartition, int] | None, error: BaseException | None) -> None:
            if error is not None:
                events.RECOVERY_FAILED.log(
                    logger, "%s: the logs can't be listed: %s", location=folder.storage.location, error=error
                )
            folder.sizes = sizes or {}
            order = [*folder.sizes, *folder.waiting]  # those that failed come last
            folder.waiting = {key: folder.waiting[key] for key in order if key in folder.waiting}
            folder.is_measured = True
            total = sum(folder.sizes.get(key, 0) for key in folder.waiting)
            events.RECOVERY_STARTED.log(
                logger,
                "%s: recovering %s, reading %.1f MB; each is served when it is ready",
                location=folder.storage.location,
                logs=counted(len(folder.waiting), "log"),
                megabytes=total / MiB,
            )
            self._start_jobs(folder)

        self._jobs.submit(
            IoJob("list what to recover", lambda: measure(folder.storage, logs), finish, folder.storage.location)
        )

    def _start_jobs(self, folder: _Folder) -> None:
        while folder.waiting and folder.running < self._jobs_max and folder.is_measured and not self._is_stopped:
            self._start_job(folder, self._take(folder))

    def _take(self, folder: _Folder) -> tuple[LogToRecover, ...]:
        keys: list[TopicPartition] = []
        size = 0
        for key in islice(reversed(folder.urgent) if folder.urgent else folder.waiting, JOB_LOGS_MAX):
            is_large = folder.sizes.get(key, 0) > THREAD_BYTES_MAX
            if keys and is_large and size <= THREAD_BYTES_MAX:
                break  # what is read soon does not wait for it
            size += folder.sizes.get(key, 0)
            if keys and (size > JOB_BYTES_MAX or key in folder.alone):
                break
            keys.append(key)
            if key in folder.alone:
                break
        for key in keys:
            folder.urgent.pop(key, None)
        return tuple(folder.waiting.pop(key) for key in keys)

    def _start_job(self, folder: _Folder, logs: tuple[LogToRecover, ...]) -> None:
        folder.running += 1
        self._under_way.update(log.key for log in logs)
        size = sum(folder.sizes.get(log.key, 0) for log in logs)
        name = f"recover {logs[0].folder}" + (f" and {len(logs) - 1} more" if len(logs) > 1 else "")
        finish = partial(self._ended, folder, logs)
        opener = folder.storage.opener if self._has_processes else None
        task = RecoveryTask(partial(_same, folder.storage), logs, self._clock.wall_ms())
        if size <= THREAD_BYTES_MAX and logs[0].key not in folder.alone:
            self._jobs.submit(IoJob(name, task, finish, folder.storage.location))
        elif opener is None:
            self._jobs.submit(CpuJob(name, task, finish, shared=False))
        else:
            task = RecoveryTask(opener, logs, self._clock.wall_ms(), sends_messages=True)
            self._jobs.submit(CpuJob(name, task, finish))

    # --- the end of a job

    def _ended(
        self,
        folder: _Folder,
        logs: tuple[LogToRecover, ...],
        result: RecoveryResult | None,
        error: BaseException | None,
    ) -> None:
        folder.running -= 1
        self._under_way.difference_update(log.key for log in logs)
        outcomes: Sequence[RecoveredLog | StorageFailed] = ()
        if result is not None:
            for line in result.messages:
                line.log(logger)
            outcomes = result.outcomes
        elif self._is_stopped or isinstance(error, JobCancelled):
            self._is_stopped = True
        elif isinstance(error, JobFailed) and self._has_processes:
            events.RECOVERY_IN_THREAD.log(logger, "recovering logs in a thread: %s", error=error)
            # Workers can't be started here (a script without a main guard, say). A thread is
            # slower, but recovers.
            self._has_processes = False
            self._put_back(folder, logs)
        elif isinstance(error, ProcessDied) and len(logs) > 1:
            folder.alone.update(log.key for log in logs)  # one of them is to blame
            self._put_back(folder, logs)
        else:
            outcomes = [StorageFailed(f"{log.folder} can't be recovered: {error}") for log in logs]
        for log, outcome in zip(logs, outcomes, strict=False):
            self._settle(log.key, outcome)
        self._end_drops(log.key for log in logs)
        self._report()
        self._start_jobs(folder)

    def _put_back(self, folder: _Folder, logs: tuple[LogToRecover, ...]) -> None:
        folder.waiting = {log.key: log for log in logs} | folder.waiting

    def _settle(self, key: TopicPartition, outcome: RecoveredLog | StorageFailed) -> None:
        # The partition was deleted meanwhile: `_end_drops` calls who waits to remove the files.
        if any(key in keys for keys, _ in self._dropped):
            return
        partition = self._pending.pop(key)
        self._count_settled += 1
        if isinstance(outcome, RecoveredLog):
            self.is_intact &= not outcome.damage
            self._logs.recovered(key, outcome)
            self._on_settled(partition)
        else:
            self._fail(partition, outcome)

    def _fail(self, partition: Partition, error: StorageFailed) -> None:
        self.is_intact = False
        events.RECOVERY_FAILED.log(
            logger, "%s-%d can't be recovered: %s", topic=partition.topic, partition=partition.index, error=error
        )
        self._count_failed += 1
        self._failed[partition.topic, partition.index] = _Failure(partition, error, self._clock.monotonic_ms())
        self._on_settled(partition)

    def _end_drops(self, ended: Iterable[TopicPartition]) -> None:
        ended = set(ended)
        for keys, _ in self._dropped:
            for key in keys & ended:
                self._pending.pop(key, None)
                for folder in self._folders.values():
                    folder.waiting.pop(key, None)
            # In place: the sets are those of `_dropped`.
            keys -= ended
        over = [then for keys, then in self._dropped if not keys]
        self._dropped = [entry for entry in self._dropped if entry[0]]
        for then in over:
            then()

    def _report(self) -> None:
        now_ms = self._clock.monotonic_ms()
        seconds = (now_ms - self._began_ms) / 1000
        if not self._pending and self._count:
            events.RECOVERY_ENDED.log(
                logger,
                "recovered %s in %.1f s, %d failed",
                logs=counted(self._count_settled - self._count_failed, "log"),
                seconds=seconds,
                failed=self._count_failed,
            )
            self._count = 0
        elif self._count and now_ms - self._reported_ms >= PROGRESS_MS:
            self._reported_ms = now_ms
            events.RECOVERY_PROGRESS.log(
                logger,
                "recovered %d of %d logs in %.0f s",
                settled=self._count_settled,
                logs=self._count,
                seconds=seconds,
            )


def measure(storage: Storage, logs: Iterable[LogToRecover]) -> dict[TopicPartition, int]:
    """Return the bytes that recovery of each log reads, in the order in which to recover them.

    Internal topics come first, because coordinators wait for them; then the logs written last.
    Thread: any.
    """
    rows = [(log.key, *_measure_log(storage, log)) for log in logs]
    rows.sort(key=lambda row: (row[0][0] not in INTERNAL_TOPICS, row[2]))
    return {key: size for key, size, _ in rows}


def _measure_log(storage: Storage, log: LogToRecover) -> tuple[int, int]:
    """Return the bytes to read, and the age of the last write in ms."""
    try:
        files = [(parse_file_name(entry.name), entry.size) for entry in storage.list(log.folder)]
        sizes = sorted((parsed[0], size) for parsed, size in files if parsed and parsed[1] == LOG)
        if not sizes:
            return 0, 0
        first = bisect_left([base for base, _ in sizes[1:]], log.checkpoint.recovery_point)
        age_ms = storage.open(f"{log.folder}/{file_name(sizes[-1][0], LOG)}").age_ms()
        return sum(size for _, size in sizes[first:]), age_ms or 0
    except (StorageFailed, FileNotFoundError):
        return 0, 0  # its recovery reports it


def _same(storage: Storage) -> Storage:
    return storage
