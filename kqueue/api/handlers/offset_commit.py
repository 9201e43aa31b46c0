"""OffsetCommit (key 8): commit offsets of a group; responds when they are in the log.

Versions 0 to 10:

    0       offsets and metadata (Kafka kept them in ZooKeeper; here they are kept as of version 1)
    1       generation and member; commit timestamps
    2       retention time; no timestamps
    3       throttle time
    4       clients throttle themselves (KIP-219)
    5       no retention time (KIP-211)
    6       leader epochs (KIP-320)
    7       group instance ids (KIP-345)
    8       flexible encoding (KIP-482)
    9       GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH (KIP-848); members of the new protocol
    10      topics by id (KIP-848)
"""

from __future__ import annotations

from kqueue.api.access import on_each, on_group
from kqueue.api.errors import code_of
from kqueue.api.offset_selection import OffsetSelection, Outcomes
from kqueue.api.request_context import RequestContext, wait_for
from kqueue.api.slices import in_slices
from kqueue.base.errors import GroupIdNotFound, IllegalGeneration, KqueueError
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.topics.topics import Topic
from kqueue.security.operations import AclOperation, ResourceType
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
ACCESS = (
    on_group(AclOperation.READ),
    on_each(AclOperation.READ, ResourceType.TOPIC),
)
ITEM_WEIGHT = 8
VERSION_GROUP_NOT_FOUND = VERSION_EPOCHS = 9
VERSION_IDS = 10
NOT_GIVEN = -1


def handle(
    request: OffsetCommitRequest, context: RequestContext
) -> OffsetCommitResponse | DelayedOperation[OffsetCommitResponse]:
    """Commit all partitions that exist together, all or none; each other one fails by itself."""
    return in_slices(context, _handle_sliced(request, context))


def _handle_sliced(
    request: OffsetCommitRequest, context: RequestContext
) -> SlicedWork[OffsetCommitResponse | DelayedOperation[OffsetCommitResponse]]:
    response = OffsetCommitResponse()
    selection = OffsetSelection()
    for requested in request.topics:
        partitions = [
            OffsetCommitResponsePartition(partition_index=partition.partition_index)
            for partition in requested.partitions
        ]
        response.topics.append(
            OffsetCommitResponseTopic(name=requested.name, topic_id=requested.topic_id, partitions=partitions)
        )
        topic, code = _find_topic(requested, context)
        yield from selection.add(topic, requested.partitions, partitions, code, _committed_ms)
        yield None
    if not selection.offsets:
        return response
    try:
        if context.api_version < VERSION_EPOCHS:
            context.broker.coordinators.groups.check_old_commit(request.group_id, request.member_id)
        promise = context.broker.coordinators.groups.commit(
            request.group_id,
            request.generation_id_or_member_epoch,
            request.member_id,
            request.group_instance_id,
            selection.offsets,
            None if request.retention_time_ms == NOT_GIVEN else request.retention_time_ms,
        )
    except KqueueError as error:
        selection.fail(_code(error, context.api_version))
        return response
    return wait_for(
        promise,
        lambda promise: _respond(response, selection, promise),
        context.deadline_ms(context.broker.coordinators.groups.config.commit_timeout_ms),
    )


def error_response(request: OffsetCommitRequest, version: int, error: BaseException) -> OffsetCommitResponse:
    """Return `error` for every partition."""
    code = code_of(error)
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=requested.name,
                topic_id=requested.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                    for partition in requested.partitions
                ],
            )
            for requested in request.topics
        ]
    )


def _find_topic(requested: OffsetCommitRequestTopic, context: RequestContext) -> tuple[Topic | None, ErrorCode]:
    """Return the topic, or the error of its partitions."""
    try:
        if context.api_version < VERSION_IDS:
            return context.topic_named(AclOperation.READ, requested.name), ErrorCode.NONE
        return context.topic_with_id(AclOperation.READ, requested.topic_id), ErrorCode.NONE
    except KqueueError as error:
        return None, code_of(error)


def _committed_ms(requested: OffsetCommitRequestPartition) -> int | None:
    return None if requested.commit_timestamp == NOT_GIVEN else requested.commit_timestamp


def _respond(
    response: OffsetCommitResponse, selection: OffsetSelection, promise: Promise[Outcomes]
) -> OffsetCommitResponse:
    selection.settle(promise)
    return response


def _code(error: KqueueError, version: int) -> ErrorCode:
    # clients before version 9 take an unknown group for one that restarted its generations
    if isinstance(error, GroupIdNotFound) and version < VERSION_GROUP_NOT_FOUND:
        return code_of(IllegalGeneration())
    return code_of(error)
