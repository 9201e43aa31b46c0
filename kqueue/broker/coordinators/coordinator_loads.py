"""Loads the coordinators' state from their internal topics, beside the clients.

A single broker loads at its start. In a cluster a coordinator follows the leaders of its topic's
partitions: what this broker leads is loaded, what it leads no more is unloaded.

Each partition is read in slices once its log is recovered and, where others have it too, all of it
is committed: else a record of the former leader could count here and be cut off later. What must be
verified before is verified in jobs. Until a partition is loaded, its coordinator refuses what it
keeps with CoordinatorLoadInProgress, which clients retry. A partition that can't be read is refused
until the next start or change of leaders, and the others are served. One whose log can't be opened
now, because the disk is full or too many files are open, is tried again.

A change of leaders ends a load at its next step, and unloads. Unloads end before the next load
begins.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple, Protocol

from kqueue.base import events
from kqueue.base.clock import Clock
from kqueue.base.errors import DiskFull, KqueueError, LogRecovering, StorageUnavailable
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.base.timers import Timers
from kqueue.broker.coordinators.internal_topic_log import is_committed
from kqueue.broker.purgatory import DelayedOperation, Purgatory
from kqueue.broker.replicas.append_queue import AppendScheduler
from kqueue.broker.replicas.partition import Partition, PartitionState
from kqueue.log.recovery.read_verification import DamagedBatch

logger = logging.getLogger("kqueue.broker")
VERIFY_BYTES = 256 * 1024
RETRY_MS = 1000


class Coordinator(Protocol):
    """The coordinator that is loaded, such as `groups.coordinator.GroupCoordinator`."""

    def require_load(self) -> None:
        """Refuse what was not loaded: other brokers may have it."""

    def begin_loading(self, partition: int) -> None:
        """Refuse what the partition keeps until `load` or `refuse` has ended."""

    def load(self, partition: int, entries: Iterable[Any], /) -> SlicedWork[None]:
        """Replay what `CoordinatorLog.read` yields, in steps, and yield None only.

        All is read before anything changes. Raises: CorruptData.
        """

    def refuse(self, partition: int, reason: str) -> None:
        """Refuse what the partition keeps: its records can't be read."""

    def unload(self, partition: int) -> SlicedWork[None]:
        """Refuse what the partition keeps, now, and fail what waits for it; return the work that
        removes it from memory, also after a load that did not end.
        """


class CoordinatorLog(Protocol):
    """The log that it is loaded from: an `InternalTopicLog`."""

    def read(self, partition: Partition) -> Iterator[Any]:
        """Yield every committed record, oldest first. Raises: CorruptBatch, StorageFailed."""


class _Source(NamedTuple):
    """A coordinator and its log. `what`: what they keep, for messages: "groups"."""

    coordinator: Coordinator
    log: CoordinatorLog
    what: str


class _Load:
    """One load of one partition; replaced by the next.

    Attributes:
        end_offset: up to which the log must be committed before it is read; None: not known yet.
        is_waiting: for other replicas, which must have the log before it is read, or for room on
            the disk. Either may take long.
        is_reported: its delay is logged.
    """

    __slots__ = ("end_offset", "is_reported", "is_running", "is_waiting", "partition", "source")

    def __init__(self, partition: Partition, source: _Source) -> None:
        self.partition = partition
        self.source = source
        self.end_offset: int | None = None
        self.is_running = False
        self.is_waiting = self.is_reported = False


class CoordinatorLoads:
    """The loads of one broker; as `ReplicaEvents`, also those that changes of leaders begin.
    Thread: owner thread.

    Args: on_ended: called when a partition is loaded or refused, or waits.
    """

    def __init__(
        self,
        scheduler: AppendScheduler,
        purgatory: Purgatory,
        timers: Timers,
        clock: Clock,
        on_ended: Callable[[], None],
    ) -> None:
        self._scheduler = scheduler
        self._purgatory = purgatory
        self._timers = timers
        self._clock = clock
        self._on_ended = on_ended
        self._sources: dict[str, _Source] = {}  # by topic
        self._loads: dict[Partition, _Load] = {}  # until they have ended
        self._held: set[Partition] = set()  # that a coordinator has, or may have, in memory
        self._unloading: Counter[Partition] = Counter()
        self._is_stopped = False

    @property
    def is_done(self) -> bool:
        """Whether all that can be is loaded or refused. What other replicas must have before is not
        waited for: their brokers may start only after this one is ready. Nor is a full disk.
        """
        return all(load.is_waiting for load in self._loads.values())

    def add(self, coordinator: Coordinator, log: CoordinatorLog, what: str, partitions: Iterable[Partition]) -> None:
        """Load `partitions` from later turns on; those that recover wait for `log_settled`.

        Args:
            what: what they keep, for messages: "groups".
        """
        source = _Source(coordinator, log, what)
        for each in partitions:
            self._begin(each, source)

    def log_settled(self, partition: Partition) -> None:
        """Go on: the partition's log was recovered, or can't be."""
        load = self._loads.get(partition)
        if load is not None:
            self._proceed(load)

    def stop(self) -> None:
        """End all loads at their next step; nothing is lost by it."""
        self._is_stopped = True

    # --- leaders

    def follow(self, topic: str, coordinator: Coordinator, log: CoordinatorLog, what: str) -> None:
        """From now on load what this broker leads of a topic, and refuse the rest. See `add`."""
        coordinator.require_load()
        self._sources[topic] = _Source(coordinator, log, what)

    def became_leader(self, partition: Partition) -> None:
        """Load the partition; once more if it was led before: others may have led it between."""
        source = self._sources.get(partition.topic)
        if source is not None:
            self._leave(partition, source)
            self._begin(partition, source)

    def became_follower(self, partition: Partition) -> None:
        """Unload the partition."""
        source = self._sources.get(partition.topic)
        if source is not None:
            self._leave(partition, source)
            self._on_ended()

    def removed(self, partition: Partition) -> None:
        """Unload the partition."""
        self.became_follower(partition)

    def _leave(self, partition: Partition, source: _Source) -> None:
        self._loads.pop(partition, None)
        if partition not in self._held:
            return
        self._held.remove(partition)
        self._unloading[partition] += 1
        promise: Promise[None] = Promise()
        work = source.coordinator.unload(partition.index)
        self._scheduler.start(work, promise, partial(self._unloaded, partition))

    def _unloaded(self, partition: Partition) -> None:
        self._unloading[partition] -= 1
        if not self._unloading[partition]:
            del self._unloading[partition]
            self.log_settled(partition)

    # --- loads

    def _begin(self, partition: Partition, source: _Source) -> None:
        source.coordinator.begin_loading(partition.index)
        load = self._loads[partition] = _Load(partition, source)
        self._held.add(partition)
        self._proceed(load)

    def _proceed(self, load: _Load) -> None:
        """Start the load once nothing is in its way; called again when that may have changed."""
        partition = load.partition
        # Three things to wait for, each of which calls this again: the load itself, an unload of
        # what was there (`_unloaded`), the recovery of the log (`log_settled`).
        if load.is_running or partition in self._unloading or partition.state is PartitionState.RECOVERING:
            return
        try:
            if load.end_offset is None and partition.topic in self._sources:
                # All that the former leader wrote. What is appended later is this broker's own.
                load.end_offset = partition.log_end_offset
            is_ready = load.end_offset is None or is_committed(partition, load.end_offset)
        except LogRecovering:
            return
        except StorageUnavailable as error:
            self._delay(load, error)
            return
        except KqueueError as error:
            self._end(load, error)
            return
        load.is_running = True
        if is_ready:
            self._start(load)
            return

        def may_start(expired: bool) -> bool | None:
            try:
                assert load.end_offset is not None
                return is_committed(partition, load.end_offset) or None
            except KqueueError:  # the load finds it, too
                return True

        # For followers, which may be down. The broker is ready without it, else two brokers could
        # wait for each other.
        load.is_waiting = True
        self._purgatory.add(DelayedOperation((partition,), None, may_start), lambda _: self._start(load))
        self._on_ended()

    def _is_current(self, load: _Load) -> bool:
        return self._loads.get(load.partition) is load and not self._is_stopped

    def _start(self, load: _Load) -> None:
        if self._is_current(load):
            load.is_waiting = False
            promise: Promise[None] = Promise()
            self._scheduler.start(self._steps(load), promise, partial(self._ended, load, promise))

    def _steps(self, load: _Load) -> SlicedWork[None]:
        yield from self._verify(load)
        partition, source = load.partition, load.source
        if not self._is_current(load):
            return
        for _ in source.coordinator.load(partition.index, source.log.read(partition)):
            if not self._is_current(load):
                return
            yield None
            if not self._is_current(load):
                return

    def _verify(self, load: _Load) -> SlicedWork[None]:
        """Verify the log in jobs, so that `read` does not."""
        partition = load.partition
        offset, end = partition.log_start_offset, partition.high_watermark
        while offset < end and self._is_current(load):
            try:
                fetched = partition.read(offset, VERIFY_BYTES).fetched
            except DamagedBatch as error:
                offset = error.damaged_range.next_offset
                continue
            if fetched.check is not None:
                result = yield fetched.check.run
                partition.log.reader.add_verified(fetched.check, result)
            elif not len(fetched):
                return
            else:
                offset = fetched.next_offset
                yield None

    def _ended(self, load: _Load, promise: Promise[None]) -> None:
        if self._loads.get(load.partition) is not load:
            return  # replaced, and what it changed is unloaded
        if isinstance(promise.error, StorageUnavailable) and not self._is_stopped:
            self._delay(load, promise.error)
        else:
            self._end(load, promise.error)

    def _delay(self, load: _Load, error: StorageUnavailable) -> None:
        """Load later: the records are intact, and the disk may have room or the process files."""
        if not load.is_reported:
            load.is_reported = True
            events.COORDINATOR_LOAD_DELAYED.log(logger, "%r is loaded later: %s", partition=load.partition, error=error)
        load.is_running = False
        load.is_waiting = isinstance(error, DiskFull)
        self._timers.at(self._clock.monotonic_ms() + RETRY_MS, partial(self._retry, load))
        self._on_ended()

    def _retry(self, load: _Load) -> None:
        if self._is_current(load):
            self._proceed(load)

    def _end(self, load: _Load, error: KqueueError | None) -> None:
        partition, source = load.partition, load.source
        del self._loads[partition]
        if error is not None:
            events.COORDINATOR_LOAD_FAILED.log(
                logger,
                "the %s of %s-%d can't be served: %s",
                what=source.what,
                topic=partition.topic,
                partition=partition.index,
                error=error,
            )
            source.coordinator.refuse(partition.index, str(error))
        self._on_ended()
