"""OffsetFetch: how far groups have come. What a group has not committed is offset -1, not an error
(but for version 0).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import collect, in_slices
from kqueue.base.errors import UnknownTopicId
from kqueue.base.names import UUID_ZERO
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.topics import Topic
from kqueue.groups.records import CommittedOffset
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
VERSION_NONE_IS_NO_ERROR = 1
VERSION_TOP_ERROR = 2
VERSION_GROUPS = 8
VERSION_IDS = 10
NONE = CommittedOffset(offset=-1, leader_epoch=-1, metadata="", committed_ms=-1)
"""What a group has not committed."""
Committed = Mapping[str, Mapping[int, CommittedOffset]]


class Found(NamedTuple):
    """One topic of an answer: partition -> offset; `code` is for all of its partitions."""

    name: str
    topic_id: bytes
    offsets: Mapping[int, CommittedOffset]
    code: ErrorCode = ErrorCode.NONE


def handle(
    request: OffsetFetchRequest, context: RequestContext
) -> OffsetFetchResponse | DelayedOperation[OffsetFetchResponse]:
    """A group is asked for all of its offsets once, however often it is named."""
    return in_slices(
        context, _respond_one(request, context) if context.api_version < VERSION_GROUPS else _respond(request, context)
    )


def _respond(request: OffsetFetchRequest, context: RequestContext) -> SlicedWork[OffsetFetchResponse]:
    groups = []
    asked_for_all: set[str] = set()
    for asked in request.groups:
        yield None
        if asked.topics is None and asked.group_id in asked_for_all:
            continue
        if asked.topics is None:
            asked_for_all.add(asked.group_id)
        group = OffsetFetchResponseGroup(group_id=asked.group_id)
        groups.append(group)
        for found in (yield from _find(asked, context)):
            topic = OffsetFetchResponseTopics(name=found.name, topic_id=found.topic_id)
            group.topics.append(topic)
            for index, committed in found.offsets.items():
                answer = OffsetFetchResponsePartitions(
                    partition_index=index,
                    committed_offset=committed.offset,
                    committed_leader_epoch=committed.leader_epoch,
                    metadata=committed.metadata,
                    error_code=found.code,
                )
                topic.partitions.append(answer)
                yield None
    return OffsetFetchResponse(groups=groups)


def error_response(request: OffsetFetchRequest, version: int, error: BaseException) -> OffsetFetchResponse:
    """The error for every group; before there were errors for groups, for every partition."""
    code = code_of(error)
    if version >= VERSION_GROUPS:
        return OffsetFetchResponse(
            groups=[OffsetFetchResponseGroup(group_id=asked.group_id, error_code=code) for asked in request.groups]
        )
    if version >= VERSION_TOP_ERROR:
        return OffsetFetchResponse(error_code=code)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=asked.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index, committed_offset=NONE.offset, metadata=NONE.metadata, error_code=code
                    )
                    for index in asked.partition_indexes
                ],
            )
            for asked in request.topics or ()
        ]
    )


def _respond_one(request: OffsetFetchRequest, context: RequestContext) -> SlicedWork[OffsetFetchResponse]:
    topics = request.topics
    asked = OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes) for topic in topics],
    )
    # Version 0 knows no offset -1: what is not there is unknown.
    none_code = (
        ErrorCode.NONE if context.api_version >= VERSION_NONE_IS_NO_ERROR else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    response = OffsetFetchResponse()
    for found in (yield from _find(asked, context)):
        topic = OffsetFetchResponseTopic(name=found.name)
        response.topics.append(topic)
        for index, committed in found.offsets.items():
            answer = OffsetFetchResponsePartition(
                partition_index=index,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                metadata=committed.metadata,
                error_code=none_code if committed is NONE else ErrorCode.NONE,
            )
            topic.partitions.append(answer)
            yield None
    return response


def _find(asked: OffsetFetchRequestGroup, context: RequestContext) -> SlicedWork[list[Found]]:
    """What the group has committed of what was asked for; all of it where no topics are named."""
    if asked.topics is not None:
        # the group's offsets are looked up for each topic, because they are a view that lives until
        # the next change
        return (
            yield from collect(
                lambda topic: _find_topic(topic, context.broker.groups.offsets(asked.group_id), context), asked.topics
            )
        )
    found = []
    for name in list(context.broker.groups.offsets(asked.group_id)):
        partitions = context.broker.groups.offsets(asked.group_id).get(name, {})
        topic = context.broker.topics.find(name)
        present = {index: one for index, one in partitions.items() if _is_of(topic, one)}
        if present and (topic is not None or context.api_version < VERSION_IDS):
            found.append(Found(name, UUID_ZERO if topic is None else topic.id, present))
        yield None
    return found


def _find_topic(asked: OffsetFetchRequestTopics, committed: Committed, context: RequestContext) -> Found:
    topics = context.broker.topics
    try:
        topic = topics.by_id(asked.topic_id) if context.api_version >= VERSION_IDS else topics.find(asked.name)
    except UnknownTopicId as error:
        return Found("", asked.topic_id, dict.fromkeys(asked.partition_indexes, NONE), code_of(error))
    partitions = committed.get(asked.name if topic is None else topic.name, {})
    offsets = {index: partitions.get(index, NONE) for index in asked.partition_indexes}
    return Found(
        asked.name, asked.topic_id, {index: one if _is_of(topic, one) else NONE for index, one in offsets.items()}
    )


def _is_of(topic: Topic | None, committed: CommittedOffset) -> bool:
    """Whether the offset is of this topic, and not of one of the same name that was deleted before
    it came to be.
    """
    return topic is None or committed.topic_id in (UUID_ZERO, topic.id)
