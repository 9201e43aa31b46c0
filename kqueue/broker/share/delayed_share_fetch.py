"""One ShareFetch until there is enough to acquire: opens share partitions, reads, verifies, waits.

    start       one pass over the partitions of the session
    wait        until records are available, a share partition is open, bytes are verified, headers
                are in memory, or the deadline; each wake-up is another pass
    acquire     what the last pass has read, if it is enough or the time is over
    respond     with the records that were acquired

What a fetch acquires is in memory only: after a crash it is available again.
Source: Kafka's DelayedShareFetch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Generic, NamedTuple, NoReturn, TypeVar

from kqueue.base.errors import KqueueError
from kqueue.broker.fetch.fetch_verifications import VERIFICATION_WAIT_MS, FetchVerifications
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.share.share_headers import HeaderReads
from kqueue.broker.share.share_reader import AcquiredRecords, SharePass, ShareReader
from kqueue.share.errors import NoShareState
from kqueue.share.share_partition import RANGES_MAX, AcquireLimits

if TYPE_CHECKING:
    from kqueue.base.jobs import Jobs
    from kqueue.broker.purgatory import Purgatory
    from kqueue.broker.share.share_groups import ShareGroups
    from kqueue.broker.topics.topics import Topics
    from kqueue.share.sessions import SessionPartition, ShareSession

R = TypeVar("R")

PASSES_MAX = 10
"""Passes in one turn over partitions whose records are all skipped."""


class ShareFetchLimits(NamedTuple):
    """The limits of one request. `acquire.records_max` 0: no records."""

    acquire: AcquireLimits
    max_bytes: int
    min_bytes: int
    max_wait_ms: int


class ShareFetchResult(NamedTuple):
    """The records and errors of one response.

    Attributes:
        acquired: partition of the session -> its records.
        errors: partition of the session -> why it has none, or no more.
        has_read: False: the partitions were not looked at, as no records are wanted, the member may
            read none of the topics, or its session has ended.
    """

    acquired: Mapping[SessionPartition, AcquiredRecords]
    errors: Mapping[SessionPartition, KqueueError]
    has_read: bool


class DelayedShareFetch(Generic[R]):
    """Reads the partitions of `session` until there are records, news, or no time to wait.

    Args:
        refusal: returns why the member may not read a topic, of which it gets the id; None: it may.
        respond: makes the response; called once.
    """

    __slots__ = (
        "_clock", "_deadline_ms", "_headers", "_headers_until_ms", "_keys", "_limits", "_open_until_ms", "_operation",
        "_purgatory", "_reader", "_refusal", "_respond", "_session", "_sessions", "_until_ms", "_verifications",
        "_write_timeout_ms",
    )  # fmt: skip

    def __init__(
        self,
        groups: ShareGroups,
        topics: Topics,
        purgatory: Purgatory,
        jobs: Jobs,
        session: ShareSession,
        limits: ShareFetchLimits,
        refusal: Callable[[bytes], KqueueError | None],
        respond: Callable[[ShareFetchResult], R | DelayedOperation[R]],
    ) -> None:
        self._clock = groups.clock
        self._sessions = groups.sessions
        self._write_timeout_ms = groups.write_timeout_ms
        self._purgatory = purgatory
        self._session = session
        self._limits = limits
        self._refusal = refusal
        self._respond = respond
        self._reader = ShareReader(groups, topics, *session.key)
        self._headers = HeaderReads(jobs, purgatory)
        self._verifications: FetchVerifications | None = None

    def start(self) -> R | DelayedOperation[R]:
        """Return the response, or the operation that waits for it."""
        if not self._limits.acquire.records_max:
            return self._respond(ShareFetchResult({}, {}, has_read=False))
        if not self._readable():
            return self._respond_unread()
        self._deadline_ms = self._after_ms(self._limits.max_wait_ms)
        self._until_ms = self._deadline_ms
        self._headers_until_ms = self._after_ms(VERIFICATION_WAIT_MS)
        self._open_until_ms = self._after_ms(self._write_timeout_ms)
        response = self._next(self._limits.max_wait_ms <= 0)
        if response is None:
            response = self._operation = DelayedOperation(self._keys, self._until_ms, self._try_complete)
        return response

    def _try_complete(self, expired: bool) -> R | DelayedOperation[R] | None:
        former = self._operation
        is_over = expired or self._clock.monotonic_ms() >= self._deadline_ms
        response = self._next(is_over, must_end=expired)
        if response is not None:
            former.try_complete = _completed  # ends the reference cycle of operation and fetch
        elif self._keys != former.keys:
            response = self._operation = DelayedOperation(self._keys, self._until_ms, self._try_complete)
        else:
            former.deadline_ms = self._until_ms
        return response

    def _next(self, expired: bool, *, must_end: bool = False) -> R | DelayedOperation[R] | None:
        """Read, and acquire if there is enough; None: wait for `_keys`.

        Args: expired: the client waits no longer. must_end: respond even if that says nothing of
            records that there may be.
        """
        if self._sessions.find(self._session.key) is not self._session:
            # The member's records were released, or it has begun another session: what this fetch
            # acquired would not be delivered, and yet be counted.
            return self._respond_unread()
        for _ in range(PASSES_MAX):
            self._until_ms = self._deadline_ms
            # Rights are asked at each pass: they may have been taken while the fetch waited.
            result = self._reader.read(self._readable(), self._limits.max_bytes)
            self._keys = result.keys()
            # The deadline of the whole operation: the answer leaves out what it may not contain,
            # and says what could not be opened.
            if must_end:
                result.read.drop_pending()
                result.errors.update(_last_errors(result))
            elif self._is_opening(result) or (result.read.pending and not self._is_read(result)):
                return None
            is_enough = result.read.size >= max(self._limits.min_bytes, 1) or _has_failed(result) or result.read.urgent
            if not (is_enough or expired):
                return None
            acquired = self._acquire(result)
            if self._headers.running and not (acquired or _has_failed(result) or must_end):
                self._until_ms = max(self._deadline_ms, self._headers_until_ms)
                if self._clock.monotonic_ms() < self._until_ms:
                    return None
            # Else all that was read is skipped: the next pass goes on behind it.
            has_news = acquired or _has_failed(result) or result.read.urgent
            if has_news or expired or not result.read.size:
                errors = {**self._refused(), **result.errors, **_read_errors(result)}
                return self._respond(ShareFetchResult(acquired, errors, has_read=True))
        # So many passes found only records that are skipped: others are served before the next
        # ones.
        self._purgatory.wake_in_later_turn(self._keys[0])
        return None

    def _readable(self) -> list[SessionPartition]:
        """Return the partitions of the session whose topics the member may read."""
        return [key for key in self._session.partitions if self._refusal(key[0]) is None]

    def _refused(self) -> dict[SessionPartition, KqueueError]:
        errors = {key: self._refusal(key[0]) for key in self._session.partitions}
        return {key: error for key, error in errors.items() if error is not None}

    def _respond_unread(self) -> R | DelayedOperation[R]:
        return self._respond(ShareFetchResult({}, self._refused(), has_read=False))

    def _is_opening(self, result: SharePass) -> bool:
        """Whether to wait for share partitions that open: no client waits for what it can't see."""
        if all(opened.share is not None for opened in result.opened.values()):
            return False
        self._until_ms = max(self._deadline_ms, self._open_until_ms)
        return self._clock.monotonic_ms() < self._open_until_ms

    def _is_read(self, result: SharePass) -> bool:
        """Whether all that was read may be served; else start to verify it, or to read it from the
        tier.
        """
        if self._verifications is None:
            wait_ms = max(self._limits.max_wait_ms, VERIFICATION_WAIT_MS)
            self._verifications = FetchVerifications(self._purgatory, self._after_ms(wait_ms))
        jobs, now_ms = self._verifications, self._clock.monotonic_ms()
        result.read.fail_pending(jobs.failed)
        verifies = jobs.start(result.read)
        reads = jobs.start_tiered(result.read, now_ms, read_committed=self._reader.read_committed)
        if verifies and now_ms < jobs.deadline_ms:
            self._until_ms = jobs.deadline_ms
            return False
        if reads and jobs.tier_deadline_ms is not None and not result.read.size:
            self._until_ms = jobs.tier_deadline_ms
            return False
        result.read.drop_pending()
        return True

    def _acquire(self, result: SharePass) -> dict[SessionPartition, AcquiredRecords]:
        """Acquire from what was read, but for partitions whose headers are on the disk only:
        a job reads those.
        """
        acquired: dict[SessionPartition, AcquiredRecords] = {}
        limits = self._limits.acquire
        left, ranges = limits.records_max, 0
        for read in result.read.results:
            region = read.read.fetched.region if read.read is not None else None
            if not region or left <= 0 or ranges >= RANGES_MAX:
                continue
            assert isinstance(read.fetch.topic, bytes)
            key = (read.fetch.topic, read.fetch.index)
            try:
                headers = self._headers.read(key, region, left, read.partition)
                if headers is None:
                    continue
                records = self._reader.acquire(result.opened[key], read, headers, limits._replace(records_max=left))
            except KqueueError as error:
                result.errors[key] = error.with_traceback(None)
                continue
            if records.ranges:
                acquired[key] = records
                ranges += len(records.ranges)
                left -= sum(each.last - each.first + 1 for each in records.ranges)
                # To the end of the order, so that a busy partition does not keep the others from
                # this member.
                self._session.rotate(key)
        return acquired

    def _after_ms(self, ms: int) -> float:
        return self._clock.monotonic_ms() + max(ms, 0)


def _has_failed(result: SharePass) -> bool:
    """Whether to respond at once; not for a missing state: the client would ask again at once."""
    return any(not isinstance(error, NoShareState) for error in result.errors.values())


def _last_errors(result: SharePass) -> dict[SessionPartition, KqueueError]:
    """Return the errors of partitions that could not be opened, and are being opened once more."""
    return {
        key: opened.error for key, opened in result.opened.items() if opened.share is None and opened.error is not None
    }


def _read_errors(result: SharePass) -> dict[SessionPartition, KqueueError]:
    return {
        (read.fetch.topic, read.fetch.index): read.error
        for read in result.read.results
        if read.error is not None and isinstance(read.fetch.topic, bytes)
    }


def _completed(expired: bool) -> NoReturn:
    raise AssertionError("this fetch is complete")
