"""Which segment of a log is copied to the tier next, and how fast copies may go."""

from __future__ import annotations

import threading
from itertools import pairwise

from kqueue.base.clock import Clock
from kqueue.base.config import Config
from kqueue.base.rate_limiter import RateLimiter
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.tier_config import COPY_RATE
from kqueue.log.log import Log
from kqueue.tier.copier import SegmentToCopy
from kqueue.tier.errors import TierUnavailable


def next_to_copy(partition: Partition) -> SegmentToCopy | None:
    """Return the oldest sealed segment that the tier lacks; None: there is none yet.

    What is copied is committed and in no open transaction: only so will each later leader have it
    too, and only so are its transactions decided where it is read. Before it is copied, it must be
    flushed, which `LeaderTasks` sees to.
    """
    log = partition.log
    if log.health.failure is not None:
        return None
    bound = partition.last_stable_offset
    for segment, following in pairwise(log.segments):
        start = max(log.tiered_end, segment.base, log.start_offset)
        if following.base <= start:
            continue
        if following.base > bound:
            return None
        bases = [each.base for each in log.segments if each.base < following.base]
        return SegmentToCopy(
            storage=log.storage,
            folder=log.folder,
            base_offset=segment.base,
            start_offset=start,
            end_offset=following.base,
            size=segment.size,
            epochs=log.epochs.entries(),
            snapshots=tuple(log.segments.snapshots.offsets),
            bases=bases,
        )
    return None


def uncopied(log: Log) -> tuple[int, int]:
    """Return the number and the bytes of sealed segments that the tier lacks."""
    sizes = [
        segment.size
        for segment, following in pairwise(log.segments)
        if following.base > max(log.tiered_end, log.start_offset)
    ]
    return len(sizes), sum(sizes)


def local_only_bytes(log: Log) -> int:
    """Return the bytes of the segments that are not in the tier, the active one included."""
    ends = [*(segment.base for segment in list(log.segments)[1:]), log.end_offset]
    return sum(segment.size for segment, end in zip(log.segments, ends, strict=True) if end > log.tiered_end)


class CopyRate:
    """The bound on the bytes that all copies of a broker send per second. Thread: any."""

    def __init__(self, config: Config, clock: Clock) -> None:
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._rate = RateLimiter(config[COPY_RATE], clock)
        config.observe([COPY_RATE], lambda: self._set(config[COPY_RATE]))

    def _set(self, per_second: int) -> None:
        with self._lock:
            self._rate.configure(per_second)

    def spend(self, size: int) -> None:
        """Count bytes that are sent next; wait while too many were. Raises: TierUnavailable: the
        broker stops.
        """
        with self._lock:
            wait_ms = self._rate.debt_ms()
            self._rate.count(size)
        if self._stopped.wait(wait_ms / 1000) if wait_ms else self._stopped.is_set():
            raise TierUnavailable("the broker stops: the copy begins again at the next start")

    def stop(self) -> None:
        """End the copies that wait or go on."""
        self._stopped.set()
