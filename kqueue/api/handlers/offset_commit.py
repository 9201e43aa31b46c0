"""OffsetCommit: how far a group has come, answered when it is in the log."""

from __future__ import annotations

from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext, wait_for
from kqueue.api.slices import in_slices
from kqueue.base.errors import GroupIdNotFound, IllegalGeneration, KqueueError, RequestRefused, UnknownTopicId
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.topics import Topic
from kqueue.groups.offset_manager import OffsetToCommit
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

VERSIONS = (0, 10)
ITEM_WEIGHT = 8
VERSION_GROUP_NOT_FOUND = 9
VERSION_IDS = 10
NOT_GIVEN = -1
Answers = list[RequestRefused | None]


def handle(
    request: OffsetCommitRequest, context: RequestContext
) -> OffsetCommitResponse | DelayedOperation[OffsetCommitResponse]:
    """Partitions that don't exist are refused one by one; the others are committed together, all or
    none.
    """
    return in_slices(context, _handle_sliced(request, context))


def _handle_sliced(
    request: OffsetCommitRequest, context: RequestContext
) -> SlicedWork[OffsetCommitResponse | DelayedOperation[OffsetCommitResponse]]:
    response = OffsetCommitResponse()
    commits: list[OffsetToCommit] = []
    places: list[OffsetCommitResponsePartition] = []  # where the answers to `commits` go
    for asked in request.topics:
        topic = _topic(asked, context)
        partitions = [OffsetCommitResponsePartition(partition_index=one.partition_index) for one in asked.partitions]
        response.topics.append(
            OffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id, partitions=partitions)
        )
        for one, place in zip(asked.partitions, partitions, strict=True):
            if topic is None:
                place.error_code = (
                    ErrorCode.UNKNOWN_TOPIC_ID
                    if context.api_version >= VERSION_IDS
                    else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                )
            elif not 0 <= one.partition_index < len(topic.partitions):
                place.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                commits.append(_commit(topic, one))
                places.append(place)
            yield None
        yield None
    if not commits:
        return response
    try:
        promise = context.broker.groups.commit(
            request.group_id,
            request.generation_id_or_member_epoch,
            request.member_id,
            request.group_instance_id,
            commits,
            None if request.retention_time_ms == NOT_GIVEN else request.retention_time_ms,
        )
    except KqueueError as error:
        return _fill(response, places, _code(error, context.api_version))
    return wait_for(
        promise,
        lambda promise: _respond(response, places, promise),
        context.deadline_ms(context.broker.groups.config.commit_timeout_ms),
    )


def error_response(request: OffsetCommitRequest, version: int, error: BaseException) -> OffsetCommitResponse:
    """The error for every partition."""
    code = code_of(error)
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=asked.name,
                topic_id=asked.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=code)
                    for one in asked.partitions
                ],
            )
            for asked in request.topics
        ]
    )


def _topic(asked: OffsetCommitRequestTopic, context: RequestContext) -> Topic | None:
    if context.api_version < VERSION_IDS:
        return context.broker.topics.find(asked.name)
    try:
        return context.broker.topics.by_id(asked.topic_id)
    except UnknownTopicId:
        return None


def _commit(topic: Topic, asked: OffsetCommitRequestPartition) -> OffsetToCommit:
    return OffsetToCommit(
        topic.name,
        asked.partition_index,
        asked.committed_offset,
        asked.committed_leader_epoch,
        asked.committed_metadata or "",
        topic.id,
        None if asked.commit_timestamp == NOT_GIVEN else asked.commit_timestamp,
    )


def _respond(
    response: OffsetCommitResponse, places: list[OffsetCommitResponsePartition], promise: Promise[Answers]
) -> OffsetCommitResponse:
    if not promise.done:
        return _fill(response, places, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if promise.error is not None:
        return _fill(response, places, code_of(promise.error))
    for place, answer in zip(places, promise.result(), strict=True):
        place.error_code = code_of(answer)
    return response


def _fill(
    response: OffsetCommitResponse, places: list[OffsetCommitResponsePartition], code: ErrorCode
) -> OffsetCommitResponse:
    for place in places:
        place.error_code = code
    return response


def _code(error: KqueueError, version: int) -> ErrorCode:
    # Before version 9 clients take an unknown group for one whose generations began anew.
    if isinstance(error, GroupIdNotFound) and version < VERSION_GROUP_NOT_FOUND:
        return code_of(IllegalGeneration())
    return code_of(error)
