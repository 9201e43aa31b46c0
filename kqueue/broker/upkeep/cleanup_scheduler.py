"""Schedules cleanup: plans by each topic's cleanup policies at intervals, and carries them out.

No policy can drop or rewrite the active segment, a part of a segment, or anything at or above the
high watermark. A policy that raises is logged once, and its log is not cleaned. Segments below the
log start are deleted under every policy. Of a topic with a remote tier, leaders and followers each
drop the local segments that the tier has. Work before deletion is in `pre_delete`. Crash: see
`log.deletion`, `log.cleaner`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from kqueue.base import events
from kqueue.base.clock import Clock
from kqueue.base.config import Config
from kqueue.base.errors import KqueueError, LogRecovering, PluginError
from kqueue.base.jobs import Jobs
from kqueue.base.settings import LONG_MAX
from kqueue.base.slice_queue import SliceQueue
from kqueue.base.sliced_task import SlicedWork
from kqueue.base.text import counted
from kqueue.base.timers import PeriodicTimer, Timers
from kqueue.broker.purgatory import Purgatory
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.topics.topics import Topic, Topics
from kqueue.broker.upkeep.pre_delete import PreDeleteTasks
from kqueue.groups.log.records import CommittedOffset
from kqueue.log.cleaner import CompactionCandidate, LogCleaner
from kqueue.log.deletion import AsyncDeleter
from kqueue.log.log import Log
from kqueue.log.log_state import LogState
from kqueue.log.manager import LogManager
from kqueue.log.policies import POLICIES, Compact, Drop, LogView
from kqueue.log.policies.compact import find_log_to_clean
from kqueue.log.start_snapshot import start_snapshot_job

logger = logging.getLogger("kqueue.broker")
FIRST_CHECK_MS = 30_000  # after the start, as Kafka's; then at the set interval
PARTITIONS_PER_TURN = 50  # of a round of retention
DELETING_POLICIES = frozenset({"delete", "consumed"})
Key = tuple[str, int]
Plan = TypeVar("Plan", Drop, Compact)
Offsets = Callable[[str], Mapping[str, Mapping[int, CommittedOffset]]]


def _nothing() -> None:
    pass


def _never(key: Key) -> bool:
    return False


class CommittedOffsets:
    """`policies.CommittedOffsets` as the group coordinator has it."""

    def __init__(self, offsets: Offsets) -> None:
        self._offsets = offsets

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        """Return the offset that the group committed; None: none."""
        offset = self._offsets(group).get(topic, {}).get(partition)
        return None if offset is None else offset.offset


class CleanupScheduler:
    """Cleans all partitions of one broker. Belongs to the owner thread."""

    def __init__(
        self,
        config: Config,
        topics: Topics,
        logs: LogManager,
        offsets: Offsets,
        purgatory: Purgatory,
        jobs: Jobs,
        timers: Timers,
        clock: Clock,
    ) -> None:
        """`offsets(group)`: returns the committed offsets of a group, by topic and partition."""
        self._config = config
        self._topics = topics
        self._logs = logs
        self._progress = CommittedOffsets(offsets)
        self._purgatory = purgatory
        self._timers = timers
        self._clock = clock
        self._jobs = jobs
        self._deleter = AsyncDeleter(jobs, timers, clock, logs.checkpoints.save_log_starts)
        self._reported: dict[Key, set[str]] = {}
        self._round: deque[Partition] = deque()
        self._slices = SliceQueue(timers, clock)
        self._on_disk = config["kqueue.storage"] != "memory"
        self._compaction_timer: PeriodicTimer | None = None
        self.is_paused: Callable[[Key], bool] = _never
        self.cleaner = LogCleaner(config, logs, jobs, self._deleter, clock)
        self.pre_delete_tasks = PreDeleteTasks(config, jobs, clock, self._drop, self.retain)

    def start(self) -> None:
        """Start the timers; the first round follows after at most `FIRST_CHECK_MS`."""
        check_ms = self._config["log.retention.check.interval.ms"]
        self._timers.every(check_ms, self._start_round, first_after_ms=min(FIRST_CHECK_MS, check_ms))
        if self._config["log.cleaner.enable"]:
            self.cleaner.on_idle = self._compact
            self._start_compaction_timer()
            self._config.observe(["log.cleaner.backoff.ms"], self._start_compaction_timer)
            self._config.observe(["log.cleaner.threads"], self._compact)

    def report_again(self, topic: Topic) -> None:
        """Log errors of a topic again: its settings have changed."""
        for partition in topic.partitions:
            self._reported.pop((partition.topic, partition.index), None)

    def _start_compaction_timer(self) -> None:
        if self._compaction_timer is not None:
            self._compaction_timer.cancel()
        self._compaction_timer = self._timers.every(self._config["log.cleaner.backoff.ms"], self._compact)

    def is_busy(self, key: Key) -> bool:
        """Whether the log is being compacted, or a task before a deletion runs."""
        return self.cleaner.is_busy(key) or self.pre_delete_tasks.is_busy(key)

    def forget(self, partition: Partition) -> None:
        """Drop all state of a deleted partition."""
        key = (partition.topic, partition.index)
        self.cleaner.forget(key)
        self.pre_delete_tasks.forget(key)
        self._reported.pop(key, None)

    # --- retention

    def _start_round(self) -> None:
        if not self._round:  # else the last round is not over
            self._round = deque(partition for topic in self._topics for partition in topic.partitions)
            self._continue_round()

    def _continue_round(self) -> None:
        """Apply retention to some partitions; opening a log ends the turn, because it may block."""
        for _ in range(min(PARTITIONS_PER_TURN, len(self._round))):
            partition = self._round.popleft()
            was_open = partition.is_open
            self.retain(partition)
            if partition.is_open != was_open:
                break
        if self._round:
            self._timers.at(self._clock.monotonic_ms(), self._continue_round)  # now, in another turn of the loop

    def retain(self, partition: Partition) -> None:
        """Drop the segments that the partition's policies release now; skip a log that is being
        compacted.
        """
        key = (partition.topic, partition.index)
        topic = self._topics.find(partition.topic)
        if topic is None or partition.deleted or self.cleaner.is_busy(key) or self.is_paused(key):
            return
        if not partition.is_open and not self._logs.may_have_batches(*key):
            return  # nothing to drop: the log is not opened
        try:
            log = partition.log
            if log.health.state is LogState.OFFLINE:
                return
            self.drop_below_start(partition, topic)
            if not (partition.is_leader or log.config.tiered):
                return  # a follower's log starts where its leader's does
            for policy, drop in self._plans(partition, topic, Drop):
                if not (partition.is_leader or drop.local):
                    continue
                if drop.before_delete is None:
                    self._drop(partition, topic, drop)
                else:
                    self.pre_delete_tasks.start(partition, topic, policy, drop)
        except LogRecovering:
            return  # a later round cleans it
        except (KqueueError, FileNotFoundError) as error:  # FileNotFoundError: files removed from outside
            self._log_once(key, f"can't be cleaned: {error}")

    def drop_below_start(self, partition: Partition, topic: Topic) -> None:
        """Drop the segments wholly below the log start; skip a log that is being compacted."""
        if not self.is_paused((partition.topic, partition.index)):
            self._drop(partition, topic, Drop(partition.log.start_offset, "below the log start"))

    def _drop(self, partition: Partition, topic: Topic, drop: Drop, done: Callable[[], None] = _nothing) -> None:
        """Drop segments once the new log start is on disk, so that it never goes back; that of a
        local drop stays, and has to be there too.

        Args:
            done: called when the drop is made or given up.
        """
        key, log, high_watermark_bound = (topic.name, partition.index), partition.log, partition.readable_end
        if (
            drop.roll_active
            and log.health.failure is None
            and log.end_offset <= min(drop.before_offset, high_watermark_bound)
        ):
            partition.roll()
        bound = min(drop.before_offset, high_watermark_bound)
        start = log.start_after_deletion(min(bound, log.tiered_end) if drop.local else bound)
        if start is None:
            done()
            return

        # The steps, from the last to the first: they run from `keep_producers` upwards, once all
        # that goes is flushed. Producers must outlive their records, and the log start on disk must
        # not go back.
        def saved(error: BaseException | None) -> None:
            # a failed write is logged where it failed; the next round retries
            if error is None and not partition.deleted and not self.cleaner.is_busy(key) and not self.is_paused(key):
                self._drop_now(partition, topic, drop, start)
            done()

        def kept(error: BaseException | None) -> None:
            if error is not None:
                self._log_once(key, f"nothing is deleted, and it is tried again: its producers can't be kept: {error}")
                done()
            elif log.health.state is not LogState.OFFLINE and start <= log.readable_end:
                if not drop.local:
                    log.announce_start(start)
                self._logs.checkpoints.save_log_starts(key, saved)
            else:
                done()

        def keep_producers() -> None:
            job = start_snapshot_job(log, start, kept)
            if job is None:
                kept(None)
            else:
                self._jobs.submit(job)

        partition.after_flush(start, keep_producers)

    def _drop_now(self, partition: Partition, topic: Topic, drop: Drop, start: int) -> None:
        log, high_watermark = partition.log, partition.high_watermark
        delete = log.delete_local if drop.local else log.delete_before
        dropped = delete(start, high_watermark=high_watermark, why=drop.why)
        if dropped is not None:
            events.SEGMENTS_DROPPED.log(
                logger,
                "%s-%d: dropped %s, offsets %d to %d, %d bytes: %s",
                topic=topic.name,
                partition=partition.index,
                segments=counted(dropped.count, "segment"),
                first_offset=dropped.base_offset,
                last_offset=dropped.end_offset - 1,
                bytes=dropped.size,
                reason=drop.why,
            )
            self._deleter.delete_segments(
                (topic.name, partition.index),
                dropped,
                topic.config["file.delete.delay.ms"],
                lambda: partition.uses(log),
            )
            partition.log_start_moved()

    # --- compaction

    def _compact(self) -> None:
        if self.cleaner.room > 0:
            self._slices.add_once("compact", self._compact_most_urgent())

    def _compact_most_urgent(self) -> SlicedWork[None]:
        candidates: list[CompactionCandidate] = []
        for candidate in self._candidates():
            if candidate is not None:
                candidates.append(candidate)
            yield None
        # other tasks may have started on some of the logs
        self.cleaner.begin(
            candidate
            for candidate in candidates
            if not (self.pre_delete_tasks.is_busy(candidate.key) or self.is_paused(candidate.key))
        )

    def _candidates(self) -> Iterator[CompactionCandidate | None]:
        """Yield the logs that can be compacted, and None for each other open one."""
        for topic in self._topics:
            if DELETING_POLICIES.issuperset(topic.config["cleanup.policy"]):
                continue
            for partition in topic.partitions:
                key = (topic.name, partition.index)
                is_busy = self.is_busy(key) or self.is_paused(key)
                if partition.is_open and partition.log.health.failure is None and not is_busy:
                    try:
                        yield from self._candidates_of(partition, topic)
                        yield None
                    except (KqueueError, FileNotFoundError) as error:
                        self._log_once(key, f"can't be cleaned: {error}")

    def _candidates_of(self, partition: Partition, topic: Topic) -> Iterator[CompactionCandidate]:
        log = partition.log
        for _, plan in self._plans(partition, topic, Compact):
            view = self._view(partition, topic, log)
            log_to_clean = find_log_to_clean(view, topic.config, self._clock.wall_ms())
            # beyond the recovery point a start after a crash would take what compaction leaves out
            # for a loss
            bounds = [view.high_watermark, view.stable_offset, log.flushed_offset if self._on_disk else log.end_offset]
            if plan.upto_offset is not None:
                bounds.append(plan.upto_offset)
            yield CompactionCandidate(
                key=(topic.name, partition.index),
                log=log,
                upto=min(bounds),
                first_dirty=view.first_dirty,
                log_to_clean=log_to_clean,
                config=topic.config,
                keep=plan.keep,
                owns_offset=plan.keep is None or "compact" not in topic.config["cleanup.policy"],
                why=plan.why,
            )
            return

    # --- plans

    def _plans(self, partition: Partition, topic: Topic, kind: type[Plan]) -> list[tuple[str, Plan]]:
        """Return the plans of one type by the topic's policies, each after the policy's title.

        Raises: StorageFailed, CorruptData: the segments cannot be read.
        """
        view = self._view(partition, topic, partition.log)
        plans: list[tuple[str, Plan]] = []
        for name in dict.fromkeys(topic.config["cleanup.policy"]):  # one may be named twice
            title = f"cleanup policy {name!r}"
            try:
                entry = POLICIES.entry(name)
                title = entry.title("cleanup policy")
                plan = entry.value.plan(view, self._progress, topic.config, self._clock.wall_ms())
                _check(plan)
            except Exception as error:  # plugins may raise anything
                self._log_once((topic.name, partition.index), f"{title} failed, the log is not cleaned: {error!r}")
                return []
            if isinstance(plan, kind):
                plans.append((title, plan))
        return plans

    def _view(self, partition: Partition, topic: Topic, log: Log) -> LogView:
        first_dirty = self._logs.checkpoints.cleaner_offset((topic.name, partition.index))
        if first_dirty is None or not log.start_offset <= first_dirty <= log.end_offset:
            first_dirty = log.start_offset  # never compacted, or the log was recreated
        return LogView(
            topic=topic.name,
            partition=partition.index,
            segments=log.segment_views(first_dirty if topic.config["max.compaction.lag.ms"] < LONG_MAX else None),
            start_offset=log.start_offset,
            high_watermark=partition.high_watermark,
            stable_offset=partition.last_stable_offset,
            first_dirty=first_dirty,
        )

    def _log_once(self, key: Key, what: str) -> None:
        messages = self._reported.setdefault(key, set())
        if what not in messages:
            messages.add(what)
            events.CLEANUP_FAILED.log(logger, "%s-%d: %s", topic=key[0], partition=key[1], error=what)


def _check(plan: object) -> None:
    """Raises PluginError: `plan` is not what a policy may return."""
    is_plan = (
        plan is None or isinstance(plan, Compact) or (isinstance(plan, Drop) and isinstance(plan.before_offset, int))
    )
    if not is_plan:
        raise PluginError(f"expected Drop, Compact or None, found {plan!r}")
    if isinstance(plan, Compact) and not isinstance(plan.upto_offset, (int, type(None))):
        raise PluginError(f"expected an offset or None as upto_offset, found {plan.upto_offset!r}")
    if isinstance(plan, Drop) and not (plan.before_delete is None or callable(plan.before_delete)):
        raise PluginError(f"expected a function or None as before_delete, found {plan.before_delete!r}")
