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
from kqueue.api.slices import SLICE_ITEMS, Work, in_slices
from kqueue.base.errors import KqueueError
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


def handle(request: FetchRequest, call: RequestContext) -> FetchResponse | DelayedOperation[FetchResponse]:
    """Answered at once if there are `min_bytes`, an error, or no time to wait; else when that much
    has come, or time is over.
    """
    by_id = call.api_version >= VERSION_IDS
    try:
        context = call.broker.fetch_sessions.open(
            request.session_id, request.session_epoch, _wanted(request, by_id), _forgotten(request, by_id), by_id=by_id
        )
    except KqueueError as error:
        return FetchResponse(error_code=code_of(error))
    return DelayedFetch(request, call, context).start()


def refuse(request: FetchRequest, version: int, error: BaseException) -> FetchResponse:
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

    __slots__ = ("call", "checks", "context", "deadline_ms", "limits", "max_wait_ms", "min_bytes", "missing", "wait")

    def __init__(self, request: FetchRequest, call: RequestContext, context: FetchContext) -> None:
        self.call = call
        self.context = context
        hard = call.api_version < VERSION_SOFT_LIMITS
        max_bytes = min(request.max_bytes, call.broker.config["fetch.max.bytes"])
        if call.api_version < VERSION_BATCHES:
            max_bytes = min(max_bytes, BYTES_MAX)
        self.limits = FetchLimits(
            max_bytes, each_one_batch=hard, read_committed=request.isolation_level == READ_COMMITTED
        )
        self.min_bytes = min(request.min_bytes, max_bytes)
        self.max_wait_ms = request.max_wait_ms
        self.missing = 0
        self.checks: _Checks | None = None

    def start(self) -> FetchResponse | DelayedOperation[FetchResponse]:
        if len(self.context.wanted) > SLICE_ITEMS:
            return in_slices(self.call, self._start_in_slices())
        return self._started(self._take())

    def _start_in_slices(self) -> Work[FetchResponse | DelayedOperation[FetchResponse]]:
        topics, wanted = self.call.broker.topics, self.context.wanted
        harvest = take(topics, wanted[:TAKEN_AT_ONCE], self.limits)
        for index in range(TAKEN_AT_ONCE, len(wanted), TAKEN_AT_ONCE):
            yield
            harvest = harvest.extended(take(topics, wanted[index : index + TAKEN_AT_ONCE], self.limits, harvest))
        if self.max_wait_ms > 0 and not harvest.size:
            # What was appended between the slices woke nobody. This pass is short: it finds each
            # partition where the first one left it.
            harvest = self._take()
        return self._started(harvest)

    def _started(self, harvest: FetchResult) -> FetchResponse | DelayedOperation[FetchResponse]:
        self.missing = harvest.missing
        if not harvest.unchecked and (self.max_wait_ms <= 0 or self._is_enough(harvest)):
            return self._respond(harvest)
        self.deadline_ms = self.call.deadline_ms(self.max_wait_ms)
        self.wait = DelayedOperation(harvest.partitions(), self.deadline_ms, self._retry)
        self._check(harvest)
        return self.wait

    def _retry(self, expired: bool) -> FetchResponse | DelayedOperation[FetchResponse] | None:
        harvest = self._take()
        if not expired and self._check(harvest):
            return None
        if expired or self._is_enough(harvest) or self.call.broker.clock.monotonic_ms() >= self.deadline_ms:
            self.wait.retry = _answered  # or the two would hold each other
            return self._respond(harvest)
        self.wait.deadline_ms = self.deadline_ms
        return None

    def _take(self) -> FetchResult:
        harvest = take(self.call.broker.topics, self.context.wanted, self.limits)
        if self.checks is not None:
            harvest.fail_unchecked(self.checks.failed)
        return harvest

    def _check(self, harvest: FetchResult) -> bool:
        """Have checked what was read unchecked; False: there is nothing."""
        if not harvest.unchecked:
            return False
        if self.checks is None:
            self.checks = _Checks(
                self.call.broker.purgatory, self.call.deadline_ms(max(self.max_wait_ms, CHECKS_WAIT_MS))
            )
        self.checks.start(harvest)
        self.wait.deadline_ms = self.checks.deadline_ms
        return True

    def _is_enough(self, harvest: FetchResult) -> bool:
        all_missing = harvest.missing == len(self.context.wanted)
        failed = self.checks is not None and bool(self.checks.failed)
        return (
            harvest.size >= self.min_bytes or harvest.urgent or failed or all_missing or harvest.missing != self.missing
        )

    def _respond(self, harvest: FetchResult) -> FetchResponse | DelayedOperation[FetchResponse]:
        try:
            self.context.check()
        except KqueueError as error:
            return FetchResponse(error_code=code_of(error))
        harvest.leave_unchecked()
        answer = FetchResponseBuilder(self.call, self.context, read_committed=self.limits.read_committed)
        if self.call.api_version < VERSION_BATCHES:
            return in_slices(self.call, self._respond_converted(harvest, answer))
        if len(harvest.taken) > SLICE_ITEMS:
            return in_slices(self.call, self._respond_in_slices(harvest, answer))
        for taken in harvest.taken:
            answer.add(taken)
        return self._finish(harvest, answer)

    def _respond_in_slices(self, harvest: FetchResult, answer: FetchResponseBuilder) -> Work[FetchResponse]:
        for taken in harvest.taken:
            answer.add(taken)
            yield
        return self._finish(harvest, answer)

    def _respond_converted(self, harvest: FetchResult, answer: FetchResponseBuilder) -> Work[FetchResponse]:
        for taken in harvest.taken:
            yield from answer.add_converted(taken)
            yield
        return self._finish(harvest, answer)

    def _finish(self, harvest: FetchResult, answer: FetchResponseBuilder) -> FetchResponse:
        for wanted, partition in harvest.idle:
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

    def start(self, harvest: FetchResult) -> None:
        for partition, key, check in harvest.to_check():
            if key not in self._running:
                self._running.add(key)
                partition.start_check(check, partial(self._checked, partition, key))

    def _checked(self, partition: Partition, key: Key, error: KqueueError | None) -> None:
        self._running.discard(key)
        if error is not None:
            self.failed[key] = error
        self._purgatory.wake(partition)
