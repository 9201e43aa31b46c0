"""OffsetFetch: how far groups have come. What a group has not committed is offset -1, not an error (but for version 0)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kqueue.api.call import Call
from kqueue.api.errors import ErrorCode, code_of
from kqueue.base.errors import UnknownTopicId
from kqueue.base.names import UUID_ZERO
from kqueue.broker.topics import Topic
from kqueue.groups.records import CommittedOffset
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


def handle(request: OffsetFetchRequest, call: Call) -> OffsetFetchResponse:
    if call.api_version < VERSION_GROUPS:
        return _respond_one(request, call)
    groups = [
        OffsetFetchResponseGroup(
            group_id=asked.group_id,
            topics=[
                OffsetFetchResponseTopics(
                    name=found.name,
                    topic_id=found.topic_id,
                    partitions=[
                        OffsetFetchResponsePartitions(
                            partition_index=index,
                            committed_offset=committed.offset,
                            committed_leader_epoch=committed.leader_epoch,
                            metadata=committed.metadata,
                            error_code=found.code,
                        )
                        for index, committed in found.offsets.items()
                    ],
                )
                for found in _find(asked, call)
            ],
        )
        for asked in request.groups
    ]
    return OffsetFetchResponse(groups=groups)


def refuse(request: OffsetFetchRequest, version: int, error: BaseException) -> OffsetFetchResponse:
    """The error for every group; before there were errors for groups, for every partition."""
    code = code_of(error)
    if version >= VERSION_GROUPS:
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id=asked.group_id, error_code=code) for asked in request.groups])
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


def _respond_one(request: OffsetFetchRequest, call: Call) -> OffsetFetchResponse:
    topics = request.topics
    asked = OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes) for topic in topics],
    )
    # Version 0 knows no offset -1: what is not there is unknown.
    none_code = ErrorCode.NONE if call.api_version >= VERSION_NONE_IS_NO_ERROR else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=found.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=committed.offset,
                        committed_leader_epoch=committed.leader_epoch,
                        metadata=committed.metadata,
                        error_code=none_code if committed is NONE else ErrorCode.NONE,
                    )
                    for index, committed in found.offsets.items()
                ],
            )
            for found in _find(asked, call)
        ]
    )


def _find(asked: OffsetFetchRequestGroup, call: Call) -> list[Found]:
    """What the group has committed of what was asked for; all of it where no topics are named."""
    committed = call.broker.groups.offsets(asked.group_id)
    if asked.topics is not None:
        return [_find_topic(topic, committed, call) for topic in asked.topics]
    return [
        Found(name, UUID_ZERO if topic is None else topic.id, present)
        for name, partitions in committed.items()
        if (topic := call.broker.topics.find(name)) is not None or call.api_version < VERSION_IDS
        if (present := {index: one for index, one in partitions.items() if _is_of(topic, one)})
    ]


def _find_topic(asked: OffsetFetchRequestTopics, committed: Committed, call: Call) -> Found:
    topics = call.broker.topics
    try:
        topic = topics.by_id(asked.topic_id) if call.api_version >= VERSION_IDS else topics.find(asked.name)
    except UnknownTopicId as error:
        return Found("", asked.topic_id, dict.fromkeys(asked.partition_indexes, NONE), code_of(error))
    partitions = committed.get(asked.name if topic is None else topic.name, {})
    offsets = {index: partitions.get(index, NONE) for index in asked.partition_indexes}
    return Found(asked.name, asked.topic_id, {index: one if _is_of(topic, one) else NONE for index, one in offsets.items()})


def _is_of(topic: Topic | None, committed: CommittedOffset) -> bool:
    """Whether the offset is of this topic, and not of one of the same name that was deleted before it came to be."""
    return topic is None or committed.topic_id in (UUID_ZERO, topic.id)
