"""Pre-delete tasks: work of a cleanup policy before segments are deleted
(`policies.Drop.before_delete`).

A task never overlaps compaction of its log, and exactly the segments that it got are dropped:

1. The segments are flushed, so that no power cut gives their offsets to other records.
2. The task runs.
3. The log must still hold the same segments.
4. They are dropped as any others (see
`log.deletion`). Crash: before the log start is checkpointed, the segments are all there, and the
work is done again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from kqueue.base import events
from kqueue.base.clock import Clock
from kqueue.base.config import Config
from kqueue.base.errors import JobCancelled
from kqueue.base.jobs import CpuJob, Jobs
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.topics.topics import Topic
from kqueue.log.log import Log
from kqueue.log.policies import Drop, SegmentView
from kqueue.log.sealed_segments import PreDeleteTask, SealedSegments
from kqueue.log.segment import Segment

logger = logging.getLogger("kqueue.broker")
SLOW_MS = 3_600_000  # a warning follows: the task may hang, and others wait for it
TASK_BYTES_MAX = 1 << 30  # per task, or one segment: a failure costs at most one task
Key = tuple[str, int]
DropNow = Callable[[Partition, Topic, Drop, Callable[[], None]], None]
"""Drops, and calls the last argument when the drop is done or given up."""


@dataclass(slots=True)
class _PreDeleteTask:
    """A task that runs: its segments, the title of its policy, its start (monotonic ms). `is_slow`:
    warned.
    """

    partition: Partition
    topic: Topic
    log: Log
    policy: str
    drop: Drop
    segments: list[Segment]
    views: tuple[SegmentView, ...]
    started_ms: float
    is_slow: bool = False

    @property
    def end_offset(self) -> int:
        return self.views[-1].end_offset

    def remaining(self) -> list[Segment]:
        """Return the segments that the log still has."""
        gone = self.log.segments.sealed_below(self.end_offset)
        return [segment for segment in self.segments if any(segment is deleted for deleted in gone)]

    def is_current(self) -> bool:
        """Return whether all segments to drop were given to the task and are unchanged."""
        handed = dict(zip(map(id, self.segments), self.views, strict=True))
        views = {view.base_offset: view for view in self.log.segment_views()}
        for segment in self.log.segments.sealed_below(self.end_offset):
            then, now = handed.get(id(segment)), views[segment.base]
            if then is None or (then.end_offset, then.size) != (now.end_offset, now.size):
                return False
        return True


class PreDeleteTasks:
    """All tasks of one broker: one per partition, `kqueue.cleanup.work.max` at a time.

    Belongs to the owner thread. `drop(partition, topic, drop, done)`: called after success.
    `plan_again(partition)`: called to plan again when a slot is free, or more segments may go.
    """

    def __init__(
        self, config: Config, jobs: Jobs, clock: Clock, drop: DropNow, plan_again: Callable[[Partition], None]
    ) -> None:
        self._config = config
        self._jobs = jobs
        self._clock = clock
        self._drop = drop
        self._plan_again = plan_again
        self._running: dict[Key, _PreDeleteTask] = {}
        self._waiting: dict[Key, Partition] = {}  # in order of arrival
        self._reported: dict[tuple[Key, str], str] = {}  # last failure
        self._stopped = False

    def is_busy(self, key: Key) -> bool:
        """Return whether the partition has a task: its segments must not be replaced."""
        return key in self._running

    @property
    def free_slots(self) -> int:
        """Number of tasks that may start now."""
        return 0 if self._stopped else int(self._config["kqueue.cleanup.work.max"]) - len(self._running)

    def forget(self, key: Key) -> None:
        """Drop all state of a deleted partition. A running task ends without effect."""
        self._waiting.pop(key, None)
        if self._reported:
            self._reported = {
                (reported, policy): message for (reported, policy), message in self._reported.items() if reported != key
            }

    def start(self, partition: Partition, topic: Topic, policy: str, drop: Drop) -> None:
        """Run `drop.before_delete`, then drop; without a free slot, later.

        Args:
            policy: its title, for logs.
        Raises: StorageFailed, CorruptData.
        """
        key = (topic.name, partition.index)
        if key in self._running:
            self._warn_if_slow(self._running[key])
            return
        task = _make_task(partition, topic, policy, drop, self._clock.monotonic_ms())
        if task is None:
            return
        if self.free_slots <= 0:
            self._waiting.setdefault(key, partition)
            return
        self._waiting.pop(key, None)
        self._running[key] = task
        partition.after_flush(task.end_offset, lambda: self._submit(task))

    def _warn_if_slow(self, task: _PreDeleteTask) -> None:
        if not task.is_slow and self._clock.monotonic_ms() - task.started_ms >= SLOW_MS:
            task.is_slow = True
            events.PRE_DELETE_SLOW.log(
                logger,
                "%s-%d: %s has been running for an hour",
                topic=task.topic.name,
                partition=task.partition.index,
                policy=task.policy,
            )

    def _submit(self, task: _PreDeleteTask) -> None:
        if task.partition.deleted or task.log.health.failure is not None:
            self._end(task)
            return
        before_delete, storage = task.drop.before_delete, task.log.storage
        assert before_delete is not None, "a task has work"
        segments = SealedSegments(
            topic=task.topic.name,
            partition=task.partition.index,
            topic_id=task.log.topic_id,
            folder=task.log.folder,
            location=f"{storage.location}/{task.log.folder}",
            segments=task.views,
            start_offset=max(task.log.start_offset, task.views[0].base_offset),
            end_offset=task.end_offset,
            opener=storage.opener or (lambda: storage),
        )
        name = f"{task.policy}: {task.log.folder}, offsets {segments.start_offset} to {segments.end_offset - 1}"
        events.PRE_DELETE_STARTED.log(
            logger,
            "%s works on %s-%d, offsets %d to %d, %d bytes",
            policy=task.policy,
            topic=segments.topic,
            partition=segments.partition,
            first_offset=segments.start_offset,
            last_offset=segments.end_offset - 1,
            bytes=segments.size,
        )
        work = PreDeleteTask(before_delete, segments)
        self._jobs.submit(
            CpuJob(name, work, lambda _, error: self._done(task, error), shared=storage.opener is not None)
        )

    def _done(self, task: _PreDeleteTask, error: BaseException | None) -> None:
        if isinstance(error, JobCancelled):
            self._stopped = True
            return
        if task.partition.deleted or task.log.health.failure is not None:
            self._end(task)
            return
        if error is not None:
            self._failed(task, error)
            self._end(task)
            return
        try:
            is_current = task.is_current()
        except Exception as failed:  # the log's files cannot be read; the next round reports it
            events.PRE_DELETE_FAILED.log(logger, "%r: %s", partition=task.partition, error=failed)
            is_current = False
        if not is_current:
            events.PRE_DELETE_REPEATED.log(
                logger,
                "%r has changed since %s began its work, which is done again",
                partition=task.partition,
                policy=task.policy,
            )
            self._end(task)
            return
        self._reported.pop(((task.topic.name, task.partition.index), task.policy), None)
        drop = replace(task.drop, before_offset=task.end_offset, roll_active=False)
        self._drop(task.partition, task.topic, drop, lambda: self._end(task, more=not task.remaining()))

    def _failed(self, task: _PreDeleteTask, error: BaseException) -> None:
        if len(task.remaining()) < len(task.segments):
            events.PRE_DELETE_ENDED_EARLY.log(
                logger,
                "%r: %s ended its work, because segments went meanwhile: %s",
                partition=task.partition,
                policy=task.policy,
                error=error,
            )
            return
        key = ((task.topic.name, task.partition.index), task.policy)
        message = f"{type(error).__name__}: {error}"
        if self._reported.get(key) != message:
            self._reported[key] = message
            events.PRE_DELETE_FAILED.log(
                logger,
                "%s-%d: %s failed on offsets %d to %d, nothing is dropped, and it is tried again: %s",
                topic=key[0][0],
                partition=key[0][1],
                policy=task.policy,
                first_offset=task.views[0].base_offset,
                last_offset=task.end_offset - 1,
                error=error,
            )

    def _end(self, task: _PreDeleteTask, *, more: bool = False) -> None:
        """End the task. `more`: the policy may have more segments than one task takes."""
        key = (task.topic.name, task.partition.index)
        del self._running[key]
        if more and not task.partition.deleted:
            self._waiting.setdefault(key, task.partition)
        for _ in range(len(self._waiting)):
            if self.free_slots <= 0:
                return
            key = next(iter(self._waiting))
            self._plan_again(self._waiting.pop(key))


def _make_task(partition: Partition, topic: Topic, policy: str, drop: Drop, now_ms: float) -> _PreDeleteTask | None:
    """Return the task for the segments that may go now; None: none. Raises StorageFailed,
    CorruptData.
    """
    log = partition.log
    # records of an open transaction may still be aborted
    high = min(partition.high_watermark, partition.last_stable_offset)
    if drop.roll_active and log.end_offset <= min(drop.before_offset, high):
        partition.roll()
    segments = log.segments.sealed_below(min(drop.before_offset, high))
    views = log.segment_views()[: len(segments)]
    count, size = 0, 0
    for view in views:
        size += view.size
        if count and size > TASK_BYTES_MAX:
            break
        count += 1
    return (
        _PreDeleteTask(partition, topic, log, policy, drop, segments[:count], views[:count], now_ms) if count else None
    )
