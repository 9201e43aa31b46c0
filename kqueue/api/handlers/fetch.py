"""Fetch (key 1): batches from the client's offsets, delayed until there are `min_bytes`.

Records leave as they are on disk. Versions 0 to 18:

    0-3     message sets, converted from batches (`down_conversion`); 1 throttle time;
            3 a limit for the whole response (KIP-74)
    4       batches of magic 2, isolation level, aborted transactions (KIP-98)
    5       log start offset (KIP-107)
    6       KAFKA_STORAGE_ERROR is known (KIP-112)
    7       fetch sessions (KIP-227; `broker.fetch.fetch_sessions`)
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
has no records (`_respond`). Records of the tier (KIP-405) come from memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from kqueue.api import follower_fetch
from kqueue.api.access import on_each
from kqueue.api.down_conversion import BYTES_MAX, VERSION_BATCHES, VERSION_SOFT_LIMITS
from kqueue.api.errors import code_of
from kqueue.api.fetch_response import UNKNOWN, FetchResponseBuilder
from kqueue.api.isolation import READ_COMMITTED, is_read_committed
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import SLICE_ITEMS, in_slices
from kqueue.api.topic_access import readable
from kqueue.base.errors import KqueueError
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.fetch.delayed_fetch import DelayedFetch
from kqueue.broker.fetch.fetch_reader import FetchLimits, FetchResult, PartitionFetchResult
from kqueue.broker.fetch.fetch_sessions import FetchContext, Key, PartitionFetch
from kqueue.broker.fetch.replica_selector import selector_for
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

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
_NONE_DENIED: Sequence[PartitionFetchResult] = ()


def handle(request: FetchRequest, context: RequestContext) -> FetchResponse | DelayedOperation[FetchResponse]:
    """Respond now if there are `min_bytes`, an error, or no time to wait; else delay the fetch."""
    by_id = context.api_version >= VERSION_IDS
    # Followers have other rules throughout: CLUSTER_ACTION in place of READ, sessions of their own,
    # and the log end in place of the high watermark.
    if follower_fetch.replica_of(request, context.api_version)[0] >= 0:
        if not context.allows(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER):
            return FetchResponse(responses=_failed(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        return follower_fetch.handle(request, context, _fetches(request, by_id), list(_forgotten(request, by_id)))
    is_read_committed(request.isolation_level)  # before a session is opened
    try:
        fetch_context = context.broker.fetch_sessions.of_consumers.open(
            request.session_id,
            request.session_epoch,
            _fetches(request, by_id),
            _forgotten(request, by_id) if request.forgotten_topics_data else (),
            by_id=by_id,
            principal=context.principal,
        )
    except KqueueError as error:
        return FetchResponse(error_code=code_of(error))
    return _start(request, context, fetch_context)


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


def _start(
    request: FetchRequest, context: RequestContext, fetch_context: FetchContext
) -> FetchResponse | DelayedOperation[FetchResponse]:
    """Read the partitions of the session; respond, or wait."""
    broker, version = context.broker, context.api_version
    fetches, denied = fetch_context.fetches, _NONE_DENIED
    security = broker.security
    if security.authorizer is not None:
        fetches, denied = readable(context, fetches)
    max_bytes = min(request.max_bytes, broker.config["fetch.max.bytes"])
    if version < VERSION_BATCHES:
        max_bytes = min(max_bytes, BYTES_MAX)
    quotas = security.active_quotas
    if quotas is not None:  # more would never be sent
        max_bytes = min(max_bytes, quotas.fetch_bytes_max(context.principal.name, context.client_id))
    selector = None
    if request.rack_id:  # else not even looked for
        selector = selector_for(broker.metadata.cluster, broker.config["replica.selector.class"], request.rack_id)
    read_committed = request.isolation_level == READ_COMMITTED
    limits = FetchLimits(
        max_bytes,
        each_one_batch=version < VERSION_SOFT_LIMITS,
        read_committed=read_committed,
        from_followers=version >= VERSION_RACK,
        selector=selector,
    )
    # Of the request only numbers and names are kept, because its buffer is reused.
    scheduler = broker.scheduler
    fetch = DelayedFetch(
        broker.topics, scheduler.purgatory, scheduler.clock, fetches, limits, min(request.min_bytes, max_bytes),
        request.max_wait_ms, partial(_respond, context, fetch_context, denied, read_committed),
    )  # fmt: skip
    step = fetch.partitions_per_slice(names_partitions=bool(request.topics))
    return in_slices(context, fetch.start_in_slices(step)) if step else fetch.start()


def _respond(
    context: RequestContext,
    fetch_context: FetchContext,
    denied: Sequence[PartitionFetchResult],
    read_committed: bool,
    result: FetchResult,
) -> FetchResponse | DelayedOperation[FetchResponse]:
    # A later request may have used the session while this one waited, so its client has given up on
    # it: nothing may be recorded as sent.
    try:
        fetch_context.check()
    except KqueueError as error:
        return FetchResponse(error_code=code_of(error))
    # Only a fetch whose time is over still has some. They are left out, and the next fetch gets
    # them.
    if result.pending:
        result.drop_pending()
    quotas = context.broker.security.active_quotas
    if quotas is not None:
        throttle_ms = quotas.count_fetched(context.principal.name, context.client_id, result.size)
        if throttle_ms:  # without records; the session stays as it was
            return FetchResponse(throttle_time_ms=throttle_ms, session_id=fetch_context.session_id)
    builder = FetchResponseBuilder(context, fetch_context, read_committed=read_committed)
    if context.api_version < VERSION_BATCHES or len(result.results) > SLICE_ITEMS:
        return in_slices(context, _respond_in_slices(context, result, denied, builder))
    for partition_result in result.results:
        builder.add(partition_result)
    return _finish(result, denied, builder)


def _respond_in_slices(
    context: RequestContext,
    result: FetchResult,
    denied: Sequence[PartitionFetchResult],
    builder: FetchResponseBuilder,
) -> SlicedWork[FetchResponse]:
    for partition_result in result.results:
        if context.api_version < VERSION_BATCHES:
            yield from builder.add_converted(partition_result)
        else:
            builder.add(partition_result)
        yield None
    return _finish(result, denied, builder)


def _finish(
    result: FetchResult, denied: Sequence[PartitionFetchResult], builder: FetchResponseBuilder
) -> FetchResponse:
    for fetch, partition in result.unreported:
        builder.add_idle(fetch, partition)
    for each in denied:
        builder.add(each)
    return builder.finish()
