"""Loads the coordinators' state from their internal topics at the start, beside the clients.

Each partition of such a topic is read in slices once its log is recovered; what must be verified
before is verified in jobs. Until a partition is loaded, its coordinator refuses what it keeps with
CoordinatorLoadInProgress, which clients retry. A partition that can't be read is refused until the
next start, and the others are served.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple, Protocol

from kqueue.base.clock import Clock
from kqueue.base.errors import TooManyOpenFiles
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.base.timers import Timers
from kqueue.broker.append_queue import AppendScheduler
from kqueue.broker.partition import Partition, PartitionState
from kqueue.log.recovery.read_verification import DamagedBatch

logger = logging.getLogger("kqueue.broker")
VERIFY_BYTES = 256 * 1024
RETRY_MS = 1000


class Coordinator(Protocol):
    """What is loaded, such as `groups.coordinator.GroupCoordinator`."""

    def begin_loading(self, partition: int) -> None:
        """Refuse what the partition keeps until `load` or `refuse` has ended."""

    def load(self, partition: int, entries: Iterable[Any], /) -> SlicedWork[None]:
        """Replay what `CoordinatorLog.read` yields, in steps, and yield None only.

        All is read before anything changes. Raises: CorruptData.
        """

    def refuse(self, partition: int, reason: str) -> None:
        """Refuse what the partition keeps: its records can't be read."""


class CoordinatorLog(Protocol):
    """Where it is loaded from: an `InternalTopicLog`."""

    def read(self, partition: Partition) -> Iterator[Any]:
        """Yield every committed record, oldest first. Raises: CorruptBatch, StorageFailed."""


class _Load(NamedTuple):
    coordinator: Coordinator
    log: CoordinatorLog
    what: str


class CoordinatorLoads:
    """The loads of one broker. Thread: owner thread.

    Args: on_ended: called when a partition is loaded or refused.
    """

    def __init__(self, scheduler: AppendScheduler, timers: Timers, clock: Clock, on_ended: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._timers = timers
        self._clock = clock
        self._on_ended = on_ended
        self._loads: dict[Partition, _Load] = {}
        self._is_stopped = False

    @property
    def is_done(self) -> bool:
        """Whether all that was added is loaded or refused."""
        return not self._loads

    def add(self, coordinator: Coordinator, log: CoordinatorLog, what: str, partitions: Iterable[Partition]) -> None:
        """Load `partitions` from later turns on; those that recover wait for `log_settled`.

        Args: what: what they keep, for messages: "groups".
        """
        for each in partitions:
            coordinator.begin_loading(each.index)
            self._loads[each] = _Load(coordinator, log, what)
            if each.state is not PartitionState.RECOVERING:
                self._start(each)

    def log_settled(self, partition: Partition) -> None:
        """Go on: the partition's log was recovered, or can't be."""
        if partition in self._loads:
            self._start(partition)

    def stop(self) -> None:
        """End all loads at their next step; nothing is lost by it."""
        self._is_stopped = True

    def _start(self, partition: Partition) -> None:
        promise: Promise[None] = Promise()
        self._scheduler.start(
            self._steps(partition, self._loads[partition]), promise, partial(self._ended, partition, promise)
        )

    def _steps(self, partition: Partition, load: _Load) -> SlicedWork[None]:
        yield from self._verify(partition)
        for _ in load.coordinator.load(partition.index, load.log.read(partition)):
            if self._is_stopped:
                return
            yield None

    def _verify(self, partition: Partition) -> SlicedWork[None]:
        """Verify the log in jobs, so that `read` does not."""
        offset, end = partition.log_start_offset, partition.high_watermark
        while offset < end and not self._is_stopped:
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

    def _ended(self, partition: Partition, promise: Promise[None]) -> None:
        if isinstance(promise.error, TooManyOpenFiles) and not self._is_stopped:
            # the records are intact
            logger.warning("%r is loaded later: %s", partition, promise.error)
            self._timers.at(self._clock.monotonic_ms() + RETRY_MS, partial(self.log_settled, partition))
            return
        load = self._loads.pop(partition)
        if promise.error is not None:
            logger.error(
                "the %s of %s-%d can't be served: %s", load.what, partition.topic, partition.index, promise.error
            )
            load.coordinator.refuse(partition.index, str(promise.error))
        self._on_ended()
