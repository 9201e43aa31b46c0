"""Work that a cleanup policy wants done before segments go (`policies.Drop.before_delete`): begun, kept
apart from compaction, and followed by the drop of exactly those segments that it was given.

The order: the segments are flushed, so that no power cut gives their offsets to other records; the
work runs; the log is compared with what was handed over; then they are dropped as any others (see
`log.dropping`). Crash: before the log start is checkpointed, the segments are all there, and the
work is done again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from kqueue.base.clock import Clock
from kqueue.base.errors import JobCancelled
from kqueue.base.jobs import CpuJob, Jobs
from kqueue.base.settings import Config
from kqueue.broker.partition import Partition
from kqueue.broker.topics import Topic
from kqueue.log.log import Log
from kqueue.log.policies import Drop, SegmentView
from kqueue.log.sealed_segments import PreDeleteTask, SealedSegments
from kqueue.log.segment import Segment

logger = logging.getLogger("kqueue.broker")
SLOW_MS = 3_600_000  # work that takes longer is told of, since it may hang, and others wait for it
HANDED_BYTES_MAX = (
    1 << 30
)  # at a time, or one segment: so that a failure late in a long log does not cost all that was done before
Key = tuple[str, int]
DropNow = Callable[[Partition, Topic, Drop, Callable[[], None]], None]
"""Drops, and calls the last argument when that is done, or was given up."""


@dataclass(slots=True)
class _Work:
    """One that is under way: what was handed over, on whose word (`policy`, for people), since when
    (monotonic ms).

    `is_slow`: it was told that it takes long.
    """

    partition: Partition
    topic: Topic
    log: Log
    policy: str
    drop: Drop
    segments: list[Segment]
    views: tuple[SegmentView, ...]
    begun_ms: float
    is_slow: bool = False

    @property
    def end_offset(self) -> int:
        return self.views[-1].end_offset

    def still_there(self) -> list[Segment]:
        """Those of the segments that the log still has."""
        gone = self.log.segments.sealed_below(self.end_offset)
        return [segment for segment in self.segments if any(segment is one for one in gone)]

    def is_current(self) -> bool:
        """Whether all that would be dropped was handed over, and is what it was then."""
        handed = dict(zip(map(id, self.segments), self.views, strict=True))
        views = {view.base_offset: view for view in self.log.segment_views()}
        for segment in self.log.segments.sealed_below(self.end_offset):
            then, now = handed.get(id(segment)), views[segment.base]
            if then is None or (then.end_offset, then.size) != (now.end_offset, now.size):
                return False
        return True


class PreDeleteTasks:
    """All such work of one broker: one per partition, `kqueue.cleanup.work.max` at a time. Belongs
    to the owner thread.

    `drop(partition, topic, drop, done)`: what follows where it succeeds. `again(partition)`: have
    the partition's policies asked again, because there is room now, or more to hand over.
    """

    def __init__(
        self, config: Config, jobs: Jobs, clock: Clock, drop: DropNow, again: Callable[[Partition], None]
    ) -> None:
        self._config = config
        self._jobs = jobs
        self._clock = clock
        self._drop = drop
        self._again = again
        self._busy: dict[Key, _Work] = {}
        self._waiting: dict[Key, Partition] = {}  # in the order in which they came
        self._told: dict[tuple[Key, str], str] = {}  # the last failure
        self._stopped = False

    def is_busy(self, key: Key) -> bool:
        """Whether segments of the partition are being worked on: they are not to be replaced
        meanwhile.
        """
        return key in self._busy

    @property
    def room(self) -> int:
        """How many more may begin now."""
        return 0 if self._stopped else int(self._config["kqueue.cleanup.work.max"]) - len(self._busy)

    def forget(self, key: Key) -> None:
        """The partition is gone. What is under way for it ends without any effect."""
        self._waiting.pop(key, None)
        if self._told:
            self._told = {(told, policy): what for (told, policy), what in self._told.items() if told != key}

    def begin(self, partition: Partition, topic: Topic, policy: str, drop: Drop) -> None:
        """Have `drop.before_delete` done, and then the drop; where there is no room, when there is.

        Args: policy: its name, for people. Raises StorageFailed, CorruptData.
        """
        key = (topic.name, partition.index)
        if key in self._busy:
            self._look_at(self._busy[key])
            return
        work = _cut_out(partition, topic, policy, drop, self._clock.monotonic_ms())
        if work is None:
            return
        if self.room <= 0:
            self._waiting.setdefault(key, partition)
            return
        self._waiting.pop(key, None)
        self._busy[key] = work
        partition.after_flush(work.end_offset, lambda: self._start(work))

    def _look_at(self, work: _Work) -> None:
        if not work.is_slow and self._clock.monotonic_ms() - work.begun_ms >= SLOW_MS:
            work.is_slow = True
            logger.warning("%s-%d: %s has been at work for an hour", work.topic.name, work.partition.index, work.policy)

    def _start(self, work: _Work) -> None:
        if work.partition.deleted or work.log.offline is not None:
            self._end(work)
            return
        before_delete, storage = work.drop.before_delete, work.log.storage
        assert before_delete is not None, "it was asked for"
        segments = SealedSegments(
            topic=work.topic.name,
            partition=work.partition.index,
            topic_id=work.log.topic_id,
            folder=work.log.folder,
            place=f"{storage.location}/{work.log.folder}",
            segments=work.views,
            start_offset=max(work.log.start_offset, work.views[0].base_offset),
            end_offset=work.end_offset,
            opener=storage.opener or (lambda: storage),
        )
        name = f"{work.policy}: {work.log.folder}, offsets {segments.start_offset} to {segments.end_offset - 1}"
        logger.info("%s works on %s-%d, offsets %d to %d, %d bytes", work.policy, segments.topic, segments.partition,
                    segments.start_offset, segments.end_offset - 1, segments.size)  # fmt: skip
        task = PreDeleteTask(before_delete, segments)
        self._jobs.submit(
            CpuJob(name, task, lambda _, error: self._done(work, error), shared=storage.opener is not None)
        )

    def _done(self, work: _Work, error: BaseException | None) -> None:
        if isinstance(error, JobCancelled):
            self._stopped = True
            return
        if work.partition.deleted or work.log.offline is not None:
            self._end(work)
            return
        if error is not None:
            self._failed(work, error)
            self._end(work)
            return
        try:
            is_current = work.is_current()
        except Exception as failed:  # what can be wrong with a log's files, seen where it is next looked at
            logger.error("%r: %s", work.partition, failed)
            is_current = False
        if not is_current:
            logger.info("%r has changed since %s began its work, which is done again", work.partition, work.policy)
            self._end(work)
            return
        self._told.pop(((work.topic.name, work.partition.index), work.policy), None)
        drop = replace(work.drop, before_offset=work.end_offset, roll_active=False)
        self._drop(work.partition, work.topic, drop, lambda: self._end(work, more=not work.still_there()))

    def _failed(self, work: _Work, error: BaseException) -> None:
        if len(work.still_there()) < len(work.segments):
            logger.info(
                "%r: %s ended its work, because segments went meanwhile: %s", work.partition, work.policy, error
            )
            return
        key = ((work.topic.name, work.partition.index), work.policy)
        what = f"{type(error).__name__}: {error}"
        if self._told.get(key) != what:
            self._told[key] = what
            logger.error(
                "%s-%d: %s failed on offsets %d to %d, nothing is dropped, and it is tried again: %s",
                *key[0], work.policy, work.views[0].base_offset, work.end_offset - 1, error,
            )  # fmt: skip

    def _end(self, work: _Work, *, more: bool = False) -> None:
        """Make room. `more`: the policy may have more to hand over than one work takes."""
        key = (work.topic.name, work.partition.index)
        del self._busy[key]
        if more and not work.partition.deleted:
            self._waiting.setdefault(key, work.partition)
        for _ in range(len(self._waiting)):
            if self.room <= 0:
                return
            key = next(iter(self._waiting))
            self._again(self._waiting.pop(key))


def _cut_out(partition: Partition, topic: Topic, policy: str, drop: Drop, now_ms: float) -> _Work | None:
    """What can be handed over now; None: nothing. Raises StorageFailed, CorruptData."""
    log = partition.log
    # until a transaction is ended nobody knows whether its records count
    high = min(partition.high_watermark, partition.last_stable_offset)
    if drop.roll_active and log.end_offset <= min(drop.before_offset, high):
        partition.roll()
    segments = log.segments.sealed_below(min(drop.before_offset, high))
    views = log.segment_views()[: len(segments)]
    count, size = 0, 0
    for view in views:
        size += view.size
        if count and size > HANDED_BYTES_MAX:
            break
        count += 1
    return _Work(partition, topic, log, policy, drop, segments[:count], views[:count], now_ms) if count else None
