"""Fetch: batches from where the client is, waiting for new ones while there are too few. Batches go
out as they lie on disk.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import NoReturn

from kqueue.api.down_conversion import BYTES_MAX, VERSION_BATCHES, VERSION_SOFT_LIMITS
from kqueue.api.errors import code_of
from kqueue.api.fetch_response import UNKNOWN, FetchResponseBuilder
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import SLICE_ITEMS, in_slices
from kqueue.base.errors import KqueueError
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.fetch_reader import FetchLimits, FetchResult, take
from kqueue.broker.fetch_sessions import FetchContext, Key, PartitionFetch
from kqueue.broker.partition import Partition
from kqueue.broker.purgatory import DelayedOperation, Purgatory
from kqueue.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

VERSIONS = (0, 18)
VERSION_SESSIONS = 7
VERSION_IDS = 13
READ_COMMITTED = 1
TAKEN_AT_ONCE = 8
"""Partitions that are read between two looks at the time, in a fetch of very many."""
CHECKS_WAIT_MS = 10_000
"""How long an answer waits for checksums to be compared, where the client itself would wait less.
"""


def handle(request: FetchRequest, context: RequestContext) -> FetchResponse | DelayedOperation[FetchResponse]:
    """Answered at once if there are `min_bytes`, an error, or no time to wait; else when that much
    has come, or time is over.
    """
    by_id = context.api_version >= VERSION_IDS
    try:
        fetch_context = context.broker.fetch_sessions.open(
            request.session_id, request.session_epoch, _wanted(request, by_id), _forgotten(request, by_id), by_id=by_id
        )
    except KqueueError as error:
        return FetchResponse(error_code=code_of(error))
    return DelayedFetch(request, context, fetch_context).start()


def error_response(request: FetchRequest, version: int, error: BaseException) -> FetchResponse:
    code = code_of(error)
    if version >= VERSION_SESSIONS:
        return FetchResponse(error_code=code)
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                partitions=[
                    PartitionData(partition_index=one.partition, error_code=code, high_watermark=UNKNOWN, records=b"")
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _wanted(request: FetchRequest, by_id: bool) -> list[PartitionFetch]:
    return [
        PartitionFetch(
            topic.topic_id if by_id else topic.topic,
            one.partition,
            one.fetch_offset,
            one.partition_max_bytes,
            one.current_leader_epoch,
            one.last_fetched_epoch,
        )
        for topic in request.topics
        for one in topic.partitions
    ]


def _forgotten(request: FetchRequest, by_id: bool) -> Iterable[Key]:
    return [
        (topic.topic_id if by_id else topic.topic, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]


class DelayedFetch:
    """One request until it is answered. Keeps nothing of the request but numbers and names: its
    buffer is another's by then.
    """

    __slots__ = (
        "checks",
        "context",
        "deadline_ms",
        "fetch_context",
        "limits",
        "max_wait_ms",
        "min_bytes",
        "missing",
        "wait",
    )

    def __init__(self, request: FetchRequest, context: RequestContext, fetch_context: FetchContext) -> None:
        self.context = context
        self.fetch_context = fetch_context
        hard = context.api_version < VERSION_SOFT_LIMITS
        max_bytes = min(request.max_bytes, context.broker.config["fetch.max.bytes"])
        if context.api_version < VERSION_BATCHES:
            max_bytes = min(max_bytes, BYTES_MAX)
        self.limits = FetchLimits(
            max_bytes, each_one_batch=hard, read_committed=request.isolation_level == READ_COMMITTED
        )
        self.min_bytes = min(request.min_bytes, max_bytes)
        self.max_wait_ms = request.max_wait_ms
        self.missing = 0
        self.checks: _Checks | None = None

    def start(self) -> FetchResponse | DelayedOperation[FetchResponse]:
        if len(self.fetch_context.wanted) > SLICE_ITEMS:
            return in_slices(self.context, self._start_in_slices())
        return self._started(self._take())

    def _start_in_slices(self) -> SlicedWork[FetchResponse | DelayedOperation[FetchResponse]]:
        topics, wanted = self.context.broker.topics, self.fetch_context.wanted
        result = take(topics, wanted[:TAKEN_AT_ONCE], self.limits)
        for index in range(TAKEN_AT_ONCE, len(wanted), TAKEN_AT_ONCE):
            yield None
            result = result.extended(take(topics, wanted[index : index + TAKEN_AT_ONCE], self.limits, result))
        if self.max_wait_ms > 0 and not result.size:
            # What was appended between the slices woke nobody. This pass is short: it finds each
            # partition where the first one left it.
            result = self._take()
        return self._started(result)

    def _started(self, result: FetchResult) -> FetchResponse | DelayedOperation[FetchResponse]:
        self.missing = result.missing
        if not result.unchecked and (self.max_wait_ms <= 0 or self._is_enough(result)):
            return self._respond(result)
        self.deadline_ms = self.context.deadline_ms(self.max_wait_ms)
        self.wait = DelayedOperation(result.partitions(), self.deadline_ms, self._retry)
        self._check(result)
        return self.wait

    def _retry(self, expired: bool) -> FetchResponse | DelayedOperation[FetchResponse] | None:
        result = self._take()
        if not expired and self._check(result):
            return None
        if expired or self._is_enough(result) or self.context.broker.clock.monotonic_ms() >= self.deadline_ms:
            self.wait.retry = _answered  # or the two would hold each other
            return self._respond(result)
        self.wait.deadline_ms = self.deadline_ms
        return None

    def _take(self) -> FetchResult:
        result = take(self.context.broker.topics, self.fetch_context.wanted, self.limits)
        if self.checks is not None:
            result.fail_unchecked(self.checks.failed)
        return result

    def _check(self, result: FetchResult) -> bool:
        """Have checked what was read unchecked; False: there is nothing."""
        if not result.unchecked:
            return False
        if self.checks is None:
            self.checks = _Checks(
                self.context.broker.purgatory, self.context.deadline_ms(max(self.max_wait_ms, CHECKS_WAIT_MS))
            )
        self.checks.start(result)
        self.wait.deadline_ms = self.checks.deadline_ms
        return True

    def _is_enough(self, result: FetchResult) -> bool:
        all_missing = result.missing == len(self.fetch_context.wanted)
        failed = self.checks is not None and bool(self.checks.failed)
        return result.size >= self.min_bytes or result.urgent or failed or all_missing or result.missing != self.missing

    def _respond(self, result: FetchResult) -> FetchResponse | DelayedOperation[FetchResponse]:
        try:
            self.fetch_context.check()
        except KqueueError as error:
            return FetchResponse(error_code=code_of(error))
        result.leave_unchecked()
        answer = FetchResponseBuilder(self.context, self.fetch_context, read_committed=self.limits.read_committed)
        if self.context.api_version < VERSION_BATCHES:
            return in_slices(self.context, self._respond_converted(result, answer))
        if len(result.taken) > SLICE_ITEMS:
            return in_slices(self.context, self._respond_in_slices(result, answer))
        for taken in result.taken:
            answer.add(taken)
        return self._finish(result, answer)

    def _respond_in_slices(self, result: FetchResult, answer: FetchResponseBuilder) -> SlicedWork[FetchResponse]:
        for taken in result.taken:
            answer.add(taken)
            yield None
        return self._finish(result, answer)

    def _respond_converted(self, result: FetchResult, answer: FetchResponseBuilder) -> SlicedWork[FetchResponse]:
        for taken in result.taken:
            yield from answer.add_converted(taken)
            yield None
        return self._finish(result, answer)

    def _finish(self, result: FetchResult, answer: FetchResponseBuilder) -> FetchResponse:
        for wanted, partition in result.idle:
            answer.add_idle(wanted, partition)
        return answer.finish()


def _answered(expired: bool) -> NoReturn:
    raise AssertionError("this fetch was answered")


class _Checks:
    """The checks that one request waits for: their partitions are woken when they are over.

    `deadline_ms`: the disk may take longer than the client would wait for new records, and an empty
    answer would say that there are none.
    """

    __slots__ = ("_purgatory", "_running", "deadline_ms", "failed")

    def __init__(self, waiting: Purgatory, deadline_ms: float) -> None:
        self._purgatory = waiting
        self._running: set[Key] = set()
        self.deadline_ms = deadline_ms
        self.failed: dict[Key, KqueueError] = {}

    def start(self, result: FetchResult) -> None:
        for partition, key, check in result.to_check():
            if key not in self._running:
                self._running.add(key)
                partition.start_check(check, partial(self._checked, partition, key))

    def _checked(self, partition: Partition, key: Key, error: KqueueError | None) -> None:
        self._running.discard(key)
        if error is not None:
            self.failed[key] = error
        self._purgatory.wake(partition)
