"""OffsetFetch (key 9): the committed offsets of groups. An offset that was not committed is -1.

Versions 0 to 10:

    0       UNKNOWN_TOPIC_OR_PARTITION for an offset that was not committed
    1       -1 without an error
    2       null stands for all topics; an error of the whole response
    3       throttle time
    4       clients throttle themselves (KIP-219)
    5       leader epochs (KIP-320)
    6       flexible encoding (KIP-482)
    7       may require stable offsets: UNSTABLE_OFFSET_COMMIT where a transaction is open (KIP-447)
    8       several groups at once (KIP-709)
    9       member and epoch of the new protocol (KIP-848)
    10      topics by id (KIP-848)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from kqueue.api.access import on_each
from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import collect, in_slices
from kqueue.base.errors import KqueueError
from kqueue.base.names import UUID_ZERO
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.topics.topics import Topic
from kqueue.groups.log.records import CommittedOffset
from kqueue.groups.offsets.offset_store import NOT_COMMITTED, UNSTABLE
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

VERSIONS = (0, 10)
ACCESS = (
    on_each(AclOperation.DESCRIBE, ResourceType.GROUP),
    on_each(AclOperation.DESCRIBE, ResourceType.TOPIC, "left out of all topics"),
)
VERSION_NONE_IS_NO_ERROR = 1
VERSION_TOP_ERROR = 2
VERSION_GROUPS = 8
VERSION_IDS = 10
T = TypeVar("T", OffsetFetchResponseTopic, OffsetFetchResponseTopics)


class TopicOffsets(NamedTuple):
    """One topic of a response: partition -> offset; `code` holds for all of its partitions."""

    name: str
    topic_id: bytes
    offsets: Mapping[int, CommittedOffset]
    code: ErrorCode = ErrorCode.NONE


def handle(
    request: OffsetFetchRequest, context: RequestContext
) -> OffsetFetchResponse | DelayedOperation[OffsetFetchResponse]:
    """Return the requested offsets; all offsets of a group only once, however often it is named."""
    has_groups = context.api_version >= VERSION_GROUPS
    if not has_groups:
        context.require(AclOperation.DESCRIBE, ResourceType.GROUP, request.group_id)
    return in_slices(context, _respond_groups(request, context) if has_groups else _respond_group(request, context))


def _respond_groups(request: OffsetFetchRequest, context: RequestContext) -> SlicedWork[OffsetFetchResponse]:
    groups = []
    complete: set[str] = set()  # groups whose response holds all offsets
    for group in request.groups:
        yield None
        if group.topics is None:
            if group.group_id in complete:
                continue
            complete.add(group.group_id)
        refused = _refusal(group, context)
        if refused is not None:
            groups.append(refused)
            continue
        topics = yield from _response_topics(
            group, request.require_stable, context, OffsetFetchResponseTopics, OffsetFetchResponsePartitions
        )
        groups.append(OffsetFetchResponseGroup(group_id=group.group_id, topics=topics))
    return OffsetFetchResponse(groups=groups)


def _refusal(group: OffsetFetchRequestGroup, context: RequestContext) -> OffsetFetchResponseGroup | None:
    """Return the answer to a group whose member may not fetch; None: it may."""
    try:
        context.require(AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id)
        context.broker.coordinators.groups.check_offset_fetch(group.group_id, group.member_id, group.member_epoch)
    except KqueueError as error:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=code_of(error))
    return None


def _respond_group(request: OffsetFetchRequest, context: RequestContext) -> SlicedWork[OffsetFetchResponse]:
    topics = request.topics
    group = OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes) for topic in topics],
    )
    return OffsetFetchResponse(
        topics=(
            yield from _response_topics(
                group, request.require_stable, context, OffsetFetchResponseTopic, OffsetFetchResponsePartition
            )
        )
    )


def _response_topics(
    group: OffsetFetchRequestGroup,
    require_stable: bool,
    context: RequestContext,
    topic_class: type[T],
    partition_class: type[OffsetFetchResponsePartition | OffsetFetchResponsePartitions],
) -> SlicedWork[list[T]]:
    """Build the topics of one group in the response."""
    topics: list[T] = []
    for topic_offsets in (yield from _find_offsets(group, require_stable, context)):
        topic = topic_class(name=topic_offsets.name)
        if isinstance(topic, OffsetFetchResponseTopics):
            topic.topic_id = topic_offsets.topic_id
        topics.append(topic)
        for index, committed in topic_offsets.offsets.items():
            partition: Any = partition_class(
                partition_index=index,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                metadata=committed.metadata,
                error_code=topic_offsets.code or _code(committed, context.api_version),
            )
            topic.partitions.append(partition)
            yield None
    return topics


def error_response(request: OffsetFetchRequest, version: int, error: BaseException) -> OffsetFetchResponse:
    """Return `error` for every group, below version 2 for every partition."""
    code = code_of(error)
    if version >= VERSION_GROUPS:
        return OffsetFetchResponse(
            groups=[
                OffsetFetchResponseGroup(group_id=requested.group_id, error_code=code) for requested in request.groups
            ]
        )
    if version >= VERSION_TOP_ERROR:
        return OffsetFetchResponse(error_code=code)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=requested.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=NOT_COMMITTED.offset,
                        metadata=NOT_COMMITTED.metadata,
                        error_code=code,
                    )
                    for index in requested.partition_indexes
                ],
            )
            for requested in request.topics or ()
        ]
    )


def _code(committed: CommittedOffset, version: int) -> ErrorCode:
    if committed is UNSTABLE:
        return ErrorCode.UNSTABLE_OFFSET_COMMIT
    if committed is NOT_COMMITTED and version < VERSION_NONE_IS_NO_ERROR:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _find_offsets(
    group: OffsetFetchRequestGroup, require_stable: bool, context: RequestContext
) -> SlicedWork[list[TopicOffsets]]:
    """Return the group's offsets of the requested topics; of all topics if None are named."""
    groups, topics, group_id = context.broker.coordinators.groups, context.broker.topics, group.group_id
    if group.topics is not None:
        return (yield from collect(lambda topic: _find_topic(group_id, topic, require_stable, context), group.topics))
    all_offsets = []
    for name in list(groups.offsets(group_id)):
        if context.describes(name):
            topic = topics.find(name)
            topic_id = None if topic is None else topic.id
            offsets = groups.fetch_offsets(group_id, name, topic_id, require_stable=require_stable)
            if offsets and (topic is not None or context.api_version < VERSION_IDS):
                all_offsets.append(TopicOffsets(name, topic_id or UUID_ZERO, offsets))
        yield None
    return all_offsets


def _find_topic(
    group_id: str, requested: OffsetFetchRequestTopics, require_stable: bool, context: RequestContext
) -> TopicOffsets:
    named, indexes = (requested.name, requested.topic_id), requested.partition_indexes
    try:
        if context.api_version >= VERSION_IDS:
            topic: Topic | None = context.topic_with_id(AclOperation.DESCRIBE, requested.topic_id)
        else:
            context.require(AclOperation.DESCRIBE, ResourceType.TOPIC, requested.name)
            topic = context.broker.topics.find(requested.name)
    except KqueueError as error:
        return TopicOffsets(*named, dict.fromkeys(indexes, NOT_COMMITTED), code_of(error))
    name, topic_id = (requested.name, None) if topic is None else (topic.name, topic.id)
    return TopicOffsets(
        *named,
        context.broker.coordinators.groups.fetch_offsets(
            group_id, name, topic_id, indexes, require_stable=require_stable
        ),
    )
