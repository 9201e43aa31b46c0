"""Fetch (key 1): batches from the client's offsets, delayed until there are `min_bytes`.

Records leave as they are on disk. Versions 0 to 18:

    0-3     message sets, converted from batches (`down_conversion`); 1 throttle time;
            3 a limit for the whole response (KIP-74)
    4       batches of magic 2, isolation level, aborted transactions (KIP-98)
    5       log start offset (KIP-107)
    6       KAFKA_STORAGE_ERROR is known (KIP-112)
    7       fetch sessions (KIP-227; `broker.fetch_sessions`)
    8       clients throttle themselves (KIP-219)
    9       the client's leader epoch is checked (KIP-320)
    10      zstd (KIP-110)
    11      rack of the client (KIP-392)
    12      flexible encoding (KIP-482); diverging epochs (KIP-595)
    13      topics by id (KIP-516)
    14      OFFSET_MOVED_TO_TIERED_STORAGE is known (KIP-405)
    15      replica state (KIP-903)
    16      leader hints and node endpoints (KIP-951)
    17      directory ids of voters (KIP-853)
    18      high watermark of a follower (KIP-1166)

Fetches of followers are in `follower_fetch`. Above a quota of its bytes a fetch
has no records (`_throttled`). Not emulated: tiered storage.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NoReturn

from kqueue.api import follower_fetch
from kqueue.api.access import on_each
from kqueue.api.down_conversion import BYTES_MAX, VERSION_BATCHES, VERSION_SOFT_LIMITS
from kqueue.api.errors import code_of
from kqueue.api.fetch_response import UNKNOWN, FetchResponseBuilder
from kqueue.api.fetch_verifications import VERIFICATION_WAIT_MS, FetchVerifications
from kqueue.api.isolation import READ_COMMITTED, is_read_committed
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import SLICE_ITEMS, in_slices
from kqueue.api.topic_access import readable
from kqueue.base.errors import KqueueError
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.fetch.fetch_reader import (
    FetchLimits,
    FetchResult,
    PartitionFetchResult,
    opens_many_logs,
    read_partitions,
)
from kqueue.broker.fetch.fetch_sessions import FetchContext, Key, PartitionFetch
from kqueue.broker.fetch.replica_selector import selector_for
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

if TYPE_CHECKING:
    from kqueue.broker.access.client_quotas import ClientQuotas

VERSIONS = (0, 18)
ACCESS = (
    on_each(AclOperation.READ, ResourceType.TOPIC, "at each fetch of a session"),
    on_each(
        AclOperation.CLUSTER_ACTION,
        ResourceType.CLUSTER,
        "for followers, in place of READ",
    ),
)
VERSION_SESSIONS = 7
VERSION_RACK = 11
VERSION_IDS = 13
PARTITIONS_PER_STEP = 8
"""Partitions read in one step of a fetch in slices."""


def handle(request: FetchRequest, context: RequestContext) -> FetchResponse | DelayedOperation[FetchResponse]:
    """Respond now if there are `min_bytes`, an error, or no time to wait; else delay the fetch."""
    by_id = context.api_version >= VERSION_IDS
    if follower_fetch.replica_of(request, context.api_version)[0] >= 0:
        if not context.allows(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER):
            return FetchResponse(responses=_failed(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        return follower_fetch.handle(request, context, _fetches(request, by_id), list(_forgotten(request, by_id)))
    is_read_committed(request.isolation_level)  # before a session is opened
    try:
        fetch_context = context.broker.fetch_sessions.open(
            request.session_id,
            request.session_epoch,
            _fetches(request, by_id),
            _forgotten(request, by_id),
            by_id=by_id,
            principal=context.principal,
        )
    except KqueueError as error:
        return FetchResponse(error_code=code_of(error))
    return DelayedFetch(request, context, fetch_context).start(names_partitions=bool(request.topics))


def error_response(request: FetchRequest, version: int, error: BaseException) -> FetchResponse:
    """Return `error`, below version 7 for every partition."""
    code = code_of(error)
    if version >= VERSION_SESSIONS:
        return FetchResponse(error_code=code)
    return FetchResponse(responses=_failed(request, code))


def _failed(request: FetchRequest, code: ErrorCode) -> list[FetchableTopicResponse]:
    return [
        FetchableTopicResponse(
            topic=topic.topic,
            topic_id=topic.topic_id,
            partitions=[
                PartitionData(partition_index=partition.partition, error_code=code, high_watermark=UNKNOWN, records=b"")
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]


def _fetches(request: FetchRequest, by_id: bool) -> list[PartitionFetch]:
    return [
        PartitionFetch(
            topic.topic_id if by_id else topic.topic,
            partition.partition,
            partition.fetch_offset,
            partition.partition_max_bytes,
            partition.current_leader_epoch,
            partition.last_fetched_epoch,
            replica_start=partition.log_start_offset,
        )
        for topic in request.topics
        for partition in topic.partitions
    ]


def _forgotten(request: FetchRequest, by_id: bool) -> Iterable[Key]:
    return [
        (topic.topic_id if by_id else topic.topic, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]


class DelayedFetch:
    """One Fetch request until its response. Source: Kafka's DelayedFetch.

    Keeps numbers and names of the request only, because its buffer is reused.
    """

    __slots__ = (
        "context",
        "deadline_ms",
        "denied",
        "fetch_context",
        "fetches",
        "limits",
        "max_wait_ms",
        "min_bytes",
        "missing",
        "operation",
        "verifications",
    )

    def __init__(self, request: FetchRequest, context: RequestContext, fetch_context: FetchContext) -> None:
        self.context = context
        self.fetch_context = fetch_context
        self.fetches: list[PartitionFetch] = fetch_context.fetches
        self.denied: Sequence[PartitionFetchResult] = ()
        security = context.broker.security
        if security.authorizer is not None:
            self.fetches, self.denied = readable(context, self.fetches)
        hard_limits = context.api_version < VERSION_SOFT_LIMITS
        max_bytes = min(request.max_bytes, context.broker.config["fetch.max.bytes"])
        if context.api_version < VERSION_BATCHES:
            max_bytes = min(max_bytes, BYTES_MAX)
        if security.active_quotas is not None:  # more would never be sent
            quotas = security.active_quotas
            max_bytes = min(max_bytes, quotas.fetch_bytes_max(context.principal.name, context.client_id))
        selector = None
        if request.rack_id:  # else not even looked for
            broker = context.broker
            selector = selector_for(broker.cluster, broker.config["replica.selector.class"], request.rack_id)
        self.limits = FetchLimits(
            max_bytes,
            each_one_batch=hard_limits,
            read_committed=request.isolation_level == READ_COMMITTED,
            from_followers=context.api_version >= VERSION_RACK,
            selector=selector,
        )
        self.min_bytes = min(request.min_bytes, max_bytes)
        self.max_wait_ms = request.max_wait_ms
        self.missing = 0
        self.verifications: FetchVerifications | None = None

    def start(self, *, names_partitions: bool) -> FetchResponse | DelayedOperation[FetchResponse]:
        """Read the partitions; return the response, or the operation that waits for it.

        Args: names_partitions: False: those of the session, whose logs are open.
        """
        topics, fetches = self.context.broker.topics, self.fetches
        if names_partitions and opens_many_logs(topics, fetches):
            return in_slices(self.context, self._start_in_slices(1))
        if len(fetches) > SLICE_ITEMS:
            return in_slices(self.context, self._start_in_slices(PARTITIONS_PER_STEP))
        return self._started(self._read())

    def _start_in_slices(self, step: int) -> SlicedWork[FetchResponse | DelayedOperation[FetchResponse]]:
        topics, fetches = self.context.broker.topics, self.fetches
        result = read_partitions(topics, fetches[:step], self.limits)
        for index in range(step, len(fetches), step):
            yield None
            result = result.extended(read_partitions(topics, fetches[index : index + step], self.limits, result))
        if self.max_wait_ms > 0 and not result.size:
            # appends between the slices woke no operation; this second pass is short
            result = self._read()
        return self._started(result)

    def _started(self, result: FetchResult) -> FetchResponse | DelayedOperation[FetchResponse]:
        self.missing = result.missing
        if not result.unverified and (self.max_wait_ms <= 0 or self._is_complete(result)):
            return self._respond(result)
        self.deadline_ms = self.context.deadline_ms(self.max_wait_ms)
        self.operation = DelayedOperation(result.partitions(), self.deadline_ms, self._try_complete)
        self._verify(result)
        return self.operation

    def _try_complete(self, expired: bool) -> FetchResponse | DelayedOperation[FetchResponse] | None:
        result = self._read()
        if not expired and self._verify(result):
            return None
        if expired or self._is_complete(result) or self.context.broker.clock.monotonic_ms() >= self.deadline_ms:
            self.operation.try_complete = _completed  # ends the reference cycle of operation and fetch
            return self._respond(result)
        self.operation.deadline_ms = self.deadline_ms
        return None

    def _read(self) -> FetchResult:
        result = read_partitions(self.context.broker.topics, self.fetches, self.limits)
        if self.verifications is not None:
            result.fail_unverified(self.verifications.failed)
        return result

    def _verify(self, result: FetchResult) -> bool:
        """Start verifying what was read unverified; return False if there is nothing to verify."""
        if not result.unverified:
            return False
        if self.verifications is None:
            self.verifications = FetchVerifications(
                self.context.broker.purgatory, self.context.deadline_ms(max(self.max_wait_ms, VERIFICATION_WAIT_MS))
            )
        self.verifications.start(result)
        self.operation.deadline_ms = self.verifications.deadline_ms
        return True

    def _is_complete(self, result: FetchResult) -> bool:
        all_missing = result.missing == len(self.fetches)
        failed = self.verifications is not None and bool(self.verifications.failed)
        return result.size >= self.min_bytes or result.urgent or failed or all_missing or result.missing != self.missing

    def _respond(self, result: FetchResult) -> FetchResponse | DelayedOperation[FetchResponse]:
        try:
            self.fetch_context.check()
        except KqueueError as error:
            return FetchResponse(error_code=code_of(error))
        result.drop_unverified()
        quotas = self.context.broker.security.active_quotas
        if quotas is not None:
            throttled = self._throttled(result, quotas)
            if throttled is not None:
                return throttled
        builder = FetchResponseBuilder(self.context, self.fetch_context, read_committed=self.limits.read_committed)
        if self.context.api_version < VERSION_BATCHES:
            return in_slices(self.context, self._respond_converted(result, builder))
        if len(result.results) > SLICE_ITEMS:
            return in_slices(self.context, self._respond_in_slices(result, builder))
        for partition_result in result.results:
            builder.add(partition_result)
        return self._finish(result, builder)

    def _throttled(self, result: FetchResult, quotas: ClientQuotas) -> FetchResponse | None:
        """Count the bytes of the response. Returns the one without records if the client is above
        its quota; the session stays as it was.
        """
        context = self.context
        throttle_ms = quotas.count_fetched(context.principal.name, context.client_id, result.size)
        if not throttle_ms:
            return None
        return FetchResponse(throttle_time_ms=throttle_ms, session_id=self.fetch_context.session_id)

    def _respond_in_slices(self, result: FetchResult, builder: FetchResponseBuilder) -> SlicedWork[FetchResponse]:
        for partition_result in result.results:
            builder.add(partition_result)
            yield None
        return self._finish(result, builder)

    def _respond_converted(self, result: FetchResult, builder: FetchResponseBuilder) -> SlicedWork[FetchResponse]:
        for partition_result in result.results:
            yield from builder.add_converted(partition_result)
            yield None
        return self._finish(result, builder)

    def _finish(self, result: FetchResult, builder: FetchResponseBuilder) -> FetchResponse:
        for fetches, partition in result.idle:
            builder.add_idle(fetches, partition)
        for denied in self.denied:
            builder.add(denied)
        return builder.finish()


def _completed(expired: bool) -> NoReturn:
    raise AssertionError("this fetch is complete")
