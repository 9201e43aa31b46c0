"""The look-ups by time in the tier that one request waits for, before it looks into the local logs.

The tier is asked for all that it has, not only for what is not here: local segments may be deleted
before the local log is looked into. Source: Kafka's DelayedRemoteListOffsets.
"""

from __future__ import annotations

from functools import partial

from kqueue.base.errors import KqueueError, RequestTimedOut
from kqueue.broker.purgatory import Purgatory
from kqueue.broker.replicas.partition import Partition
from kqueue.log.results import TimestampAndOffset

Key = tuple[Partition, int]


class TierLookups:
    """The look-ups of one request. It is a key of the purgatory, woken when all have ended."""

    def __init__(self, purgatory: Purgatory) -> None:
        self._purgatory = purgatory
        self._results: dict[Key, TimestampAndOffset | KqueueError | None] = {}
        self._running: set[Key] = set()

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._running or self._results)

    @property
    def all_ended(self) -> bool:
        """Whether none is under way."""
        return not self._running

    def start(self, partition: Partition, timestamp: int) -> None:
        """Look for the first record at or after `timestamp` in the tier, if the log begins there.

        Raises: StorageFailed: the log can't be opened.
        """
        log, key = partition.log, (partition, timestamp)
        if log.start_offset < log.local_start_offset and key not in self._running:
            self._running.add(key)
            partition.start_tiered_lookup(
                timestamp, max(log.tiered_end, log.local_start_offset), partial(self._end, key)
            )

    def _end(self, key: Key, result: TimestampAndOffset | KqueueError | None) -> None:
        self._results[key] = result
        self._running.discard(key)
        if not self._running:
            self._purgatory.wake(self)

    def result(self, partition: Partition, timestamp: int) -> TimestampAndOffset | None:
        """Return what was found; None: nothing, or the tier was not asked.

        Raises: RequestTimedOut: the look-up is under way. KqueueError: it failed.
        """
        key = (partition, timestamp)
        if key in self._running:
            raise RequestTimedOut(f"{partition!r}: the tier did not answer in time, where the time was looked for")
        result = self._results.get(key)
        if isinstance(result, KqueueError):
            raise result
        return result
