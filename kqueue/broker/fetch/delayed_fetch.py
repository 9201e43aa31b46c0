"""One Fetch request until there is enough to answer: reads, verifies, and waits.

    start       one pass over the partitions, in slices if they are many or their logs closed
    wait        until an append, a failure or the deadline; each wake-up is another pass
    respond     with what the last pass has read

Source: Kafka's DelayedFetch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.fetch.fetch_reader import FetchLimits, FetchResult, opens_many_logs, read_partitions
from kqueue.broker.fetch.fetch_verifications import VERIFICATION_WAIT_MS, FetchVerifications
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.replicas.partition import CLOSED_LOGS_MAX

if TYPE_CHECKING:
    from kqueue.base.clock import Clock
    from kqueue.broker.fetch.fetch_sessions import PartitionFetch
    from kqueue.broker.purgatory import Purgatory
    from kqueue.broker.topics.topics import Topics

R = TypeVar("R")

PARTITIONS_AT_ONCE_MAX = 1000
"""So many partitions are read in one turn."""
PARTITIONS_PER_STEP = 8
"""Partitions read in one step of a fetch in slices."""


class DelayedFetch(Generic[R]):
    """Reads `fetches` within `limits` until there are `min_bytes`, news, or no time to wait.

    Args:
        respond: makes the response of the last pass; called once.
    """

    __slots__ = (
        "_clock", "_deadline_ms", "_fetches", "_idle", "_jobs_deadline_ms", "_limits", "_max_wait_ms", "_min_bytes",
        "_missing", "_operation", "_purgatory", "_respond", "_topics", "_verifications",
    )  # fmt: skip

    def __init__(
        self,
        topics: Topics,
        purgatory: Purgatory,
        clock: Clock,
        fetches: Sequence[PartitionFetch],
        limits: FetchLimits,
        min_bytes: int,
        max_wait_ms: int,
        respond: Callable[[FetchResult], R | DelayedOperation[R]],
    ) -> None:
        self._topics = topics
        self._purgatory = purgatory
        self._clock = clock
        self._fetches = fetches
        self._limits = limits
        self._min_bytes = min_bytes
        self._max_wait_ms = max_wait_ms
        self._respond = respond
        self._missing = 0
        self._verifications: FetchVerifications | None = None
        self._idle: FetchResult | None = None  # the last pass, if all partitions were idle in it

    def partitions_per_slice(self, *, names_partitions: bool) -> int:
        """Return how many partitions a step of `start_in_slices` reads; 0: `start` reads all.

        Args: names_partitions: False: those of the session, whose logs are open.
        """
        count = len(self._fetches)
        if count > CLOSED_LOGS_MAX and names_partitions and opens_many_logs(self._topics, self._fetches):
            return 1
        return PARTITIONS_PER_STEP if count > PARTITIONS_AT_ONCE_MAX else 0

    def start(self) -> R | DelayedOperation[R]:
        """Read the partitions; return the response, or the operation that waits for it."""
        return self._started(self._read(self._fetches))

    def start_in_slices(self, step: int) -> SlicedWork[R | DelayedOperation[R]]:
        """`start`, yielding after each `step` partitions."""
        topics, fetches, limits = self._topics, self._fetches, self._limits
        result = read_partitions(topics, fetches[:step], limits)
        for index in range(step, len(fetches), step):
            yield None
            result = result.extended(read_partitions(topics, fetches[index : index + step], limits, result))
        if self._max_wait_ms > 0 and not result.size:
            # appends between the slices woke no operation; this second pass is short
            result = self._read(fetches)
        return self._started(result)

    def _started(self, result: FetchResult) -> R | DelayedOperation[R]:
        self._missing = result.missing
        # Unverified records are never answered with, however short the client's wait is: bytes from
        # before the start may be damaged, and clients do not all check the CRC.
        if not result.pending and (self._max_wait_ms <= 0 or self._is_complete(result)):
            return self._respond(result)
        self._deadline_ms = self._after_ms(self._max_wait_ms)
        if result.pending and not self._waits_for_jobs(result):
            return self._respond(result)
        self._operation: DelayedOperation[R] = DelayedOperation(
            result.partitions(), self._deadline_ms, self._try_complete, woken=set()
        )
        self._idle = None if result.results else result
        if result.pending:
            self._operation.deadline_ms = self._jobs_deadline_ms
        return self._operation

    def _try_complete(self, expired: bool) -> R | DelayedOperation[R] | None:
        result = self._read_again()
        self._idle = None if result.results else result
        # The end of the jobs wakes the fetch again. When time is over, their records are left out.
        if result.pending and not expired and self._waits_for_jobs(result):
            self._operation.deadline_ms = self._jobs_deadline_ms
            return None
        if expired or result.pending or self._is_complete(result) or self._clock.monotonic_ms() >= self._deadline_ms:
            self._operation.try_complete = _completed  # ends the reference cycle of operation and fetch
            return self._respond(result)
        # Verified, and still too little: back from the deadline of the verification to the client's
        # own.
        self._operation.deadline_ms = self._deadline_ms
        return None

    def _read_again(self) -> FetchResult:
        """Read what may have changed since the last pass. What that one read is not used: it may be
        deleted or truncated by now.
        """
        idle, woken = self._idle, self._operation.woken
        if idle is None or woken is None:
            return self._read(self._fetches)
        if not woken:
            return idle
        changed = [fetch for fetch, partition in idle.idle if partition in woken]
        result = idle.without(woken).extended(self._read(changed))
        woken.clear()
        return result

    def _read(self, fetches: Sequence[PartitionFetch]) -> FetchResult:
        result = read_partitions(self._topics, fetches, self._limits)
        if self._verifications is not None:
            result.fail_pending(self._verifications.failed)
        return result

    def _waits_for_jobs(self, result: FetchResult) -> bool:
        """Start to verify, and to read from the tier, what the pass could not return.

        Return whether the response waits for that, until `_jobs_deadline_ms`.
        """
        jobs = self._verifications
        if jobs is None:
            wait_ms = max(self._max_wait_ms, VERIFICATION_WAIT_MS)
            jobs = self._verifications = FetchVerifications(self._purgatory, self._after_ms(wait_ms))
        verifies = jobs.start(result)
        reads = jobs.start_tiered(result, self._clock.monotonic_ms(), read_committed=self._limits.read_committed)
        self._jobs_deadline_ms = jobs.deadline_ms
        if verifies:
            return True
        if jobs.tier_deadline_ms is not None:
            self._jobs_deadline_ms = jobs.tier_deadline_ms
        # A slow tier holds up no records that are here. What it has is read on, for the next fetch.
        return reads and not result.urgent and result.size < max(self._min_bytes, 1)

    def _is_complete(self, result: FetchResult) -> bool:
        if result.size >= self._min_bytes or result.urgent:
            return True
        # Nothing is appended to the tier's part: waiting would bring no more of it.
        if result.size and result.has_tiered_records():
            return True
        # A partition that came or went, and damage that was found, are reported at once.
        has_changed = result.missing != self._missing or result.missing == len(self._fetches)
        has_failed = self._verifications is not None and bool(self._verifications.failed)
        return has_changed or has_failed

    def _after_ms(self, ms: int) -> float:
        return self._clock.monotonic_ms() + max(ms, 0)


def _completed(expired: bool) -> NoReturn:
    raise AssertionError("this fetch is complete")
