"""ShareFetch (key 78): acquire records for a member of a share group, and acknowledge others.

Records leave as they are on disk; `acquired_records` says which of them the member holds. Versions
1 to 2:

    1       share groups (KIP-932); version 0 was early access
    2       renewal of locks (KIP-1222), a strict limit of records (KIP-1206)

Acknowledgements are applied first. The response has both results, once the acknowledgements are
persisted and there are `min_bytes` of available records, or no time to wait. What a fetch acquires
is in memory only: after a crash it is available again.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from kqueue.api.access import on_each, on_group
from kqueue.api.errors import code_of, message_of
from kqueue.api.leader_hints import add_share_leader_hint
from kqueue.api.request_context import RequestContext
from kqueue.api.share_acknowledgements import acknowledgements_of
from kqueue.api.slices import in_slices
from kqueue.api.topic_access import TopicAccess
from kqueue.base.errors import InvalidRequest, KqueueError
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.share.delayed_share_fetch import DelayedShareFetch, ShareFetchLimits, ShareFetchResult
from kqueue.broker.share.share_acknowledgements import ShareAcknowledgements
from kqueue.broker.share.share_reader import AcquiredRecords
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.share.sessions import EPOCH_FINAL, EPOCH_NEW, SessionPartition, check_member
from kqueue.share.share_partition import AcquireLimits
from kqueue.wire.messages import share_fetch as messages
from kqueue.wire.messages.share_fetch import (
    AcquiredRecords as AcquiredRecordsData,
)
from kqueue.wire.messages.share_fetch import (
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

VERSIONS = (1, 2)
ACCESS = (
    on_group(AclOperation.READ),
    on_each(AclOperation.READ, ResourceType.TOPIC, "at each fetch of a session"),
)
RECORD_LIMIT = 1
"""The acquire mode with a strict limit of records; 0 acquires whole batches."""


def handle(
    request: ShareFetchRequest, context: RequestContext
) -> ShareFetchResponse | DelayedOperation[ShareFetchResponse]:
    """Respond when the acknowledgements are persisted and there are records."""
    return in_slices(context, _handle_sliced(request, context), lambda: True)


def _handle_sliced(
    request: ShareFetchRequest, context: RequestContext
) -> SlicedWork[ShareFetchResponse | DelayedOperation[ShareFetchResponse]]:
    broker, epoch = context.broker, request.share_session_epoch
    groups = broker.share
    acknowledged = acknowledgements_of(request.topics)
    try:
        member = check_member(request.group_id, request.member_id)
        _check(request, has_acknowledgements=bool(acknowledged))
        session, added = groups.sessions.open(
            member, epoch, _fetched(request), _forgotten(request), context.connection, context.principal
        )
    except KqueueError as error:
        return error_response(request, context.api_version, error)
    refusal = TopicAccess(context, AclOperation.READ).error
    acknowledgements = ShareAcknowledgements(groups, member, refusal)
    lock_ms = groups.config_of(member.group).lock_duration_ms
    # Before a slice ends: it copies the numbers of the request, whose buffer is reused.
    purgatory, jobs = broker.scheduler.purgatory, broker.scheduler.jobs
    fetch = DelayedShareFetch(
        groups, broker.topics, purgatory, jobs, session, _limits(request, context), refusal,
        lambda result: acknowledgements.wait(partial(_respond, context, acknowledgements, added, lock_ms, result)),
    )  # fmt: skip
    yield from acknowledgements.start(acknowledged, renews=request.is_renew_ack)
    if epoch == EPOCH_FINAL:
        acknowledgements.end_session(session)
    return fetch.start()


def error_response(request: ShareFetchRequest, version: int, error: BaseException) -> ShareFetchResponse:
    """Return `error`."""
    return ShareFetchResponse(error_code=code_of(error), error_message=message_of(error))


def _check(request: ShareFetchRequest, *, has_acknowledgements: bool) -> None:
    if request.share_session_epoch == EPOCH_NEW and has_acknowledgements:
        raise InvalidRequest("the first request of a share session acknowledges nothing: its member holds no records")
    fetches = request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms
    if request.is_renew_ack and fetches:
        raise InvalidRequest(
            "a request with is_renew_ack fetches nothing: max_bytes, min_bytes, max_records and max_wait_ms must be 0"
        )


def _fetched(request: ShareFetchRequest) -> list[SessionPartition]:
    return [
        (bytes(topic.topic_id), partition.partition_index) for topic in request.topics for partition in topic.partitions
    ]


def _forgotten(request: ShareFetchRequest) -> Iterable[SessionPartition]:
    return [(bytes(topic.topic_id), index) for topic in request.forgotten_topics_data for index in topic.partitions]


def _limits(request: ShareFetchRequest, context: RequestContext) -> ShareFetchLimits:
    max_bytes = min(request.max_bytes, context.broker.config["fetch.max.bytes"])
    fetches = request.share_session_epoch != EPOCH_FINAL and not request.is_renew_ack and max_bytes > 0
    acquire = AcquireLimits(
        max(request.max_records, 0) if fetches else 0,
        request.share_acquire_mode == RECORD_LIMIT,
        max(request.batch_size, 1),
    )
    return ShareFetchLimits(acquire, max_bytes, min(request.min_bytes, max_bytes), request.max_wait_ms)


def _respond(
    context: RequestContext,
    acknowledgements: ShareAcknowledgements,
    added: Iterable[SessionPartition],
    lock_ms: int,
    result: ShareFetchResult,
) -> ShareFetchResponse:
    """Build the response. It names the new partitions of the session, `added`, in any case."""
    acknowledged = acknowledgements.results()
    acquired, errors = result.acquired, result.errors
    keys = dict.fromkeys((*acknowledged, *acquired, *errors, *(added if result.has_read else ())))
    topics: dict[bytes, ShareFetchableTopicResponse] = {}
    response = ShareFetchResponse(acquisition_lock_timeout_ms=lock_ms)
    for key in keys:
        topic = topics.setdefault(key[0], ShareFetchableTopicResponse(topic_id=key[0]))
        data = _data(key[1], acquired.get(key), errors.get(key))
        data.acknowledge_error_code = code_of(acknowledged.get(key))
        data.acknowledge_error_message = message_of(acknowledged.get(key))
        for error in (errors.get(key), acknowledged.get(key)):
            add_share_leader_hint(context, key, error, data, response, messages)
        topic.partitions.append(data)
    response.responses = list(topics.values())
    return response


def _data(index: int, records: AcquiredRecords | None, error: KqueueError | None) -> PartitionData:
    data = PartitionData(partition_index=index, error_code=code_of(error), error_message=message_of(error), records=b"")
    if records is not None:
        data.records = records.data
        data.acquired_records = [
            AcquiredRecordsData(first_offset=each.first, last_offset=each.last, delivery_count=each.delivery_count)
            for each in records.ranges
        ]
    return data
