"""DescribeShareGroupOffsets (key 90): where share groups are (KIP-932).

Versions 0 to 1:

    0       start offsets
    1       lag: records behind the start offset that the group is not done with (KIP-1226)
"""

from __future__ import annotations

from collections.abc import Iterable

from kqueue.api.access import on_each
from kqueue.api.errors import code_of, message_of
from kqueue.api.modern_groups import check_served
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import in_slices
from kqueue.base.errors import KqueueError
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.groups.group import GroupType
from kqueue.groups.share.group import ShareGroup
from kqueue.security.errors import TopicAuthorizationFailed
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.share.share_state import NO_COUNT, NO_OFFSET, SharePartitionKey, ShareState
from kqueue.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

VERSIONS = (0, 1)
ACCESS = (
    on_each(AclOperation.DESCRIBE, ResourceType.GROUP),
    on_each(AclOperation.DESCRIBE, ResourceType.TOPIC, "left out of all topics"),
)
ITEM_WEIGHT = 8


def handle(
    request: DescribeShareGroupOffsetsRequest, context: RequestContext
) -> DescribeShareGroupOffsetsResponse | DelayedOperation[DescribeShareGroupOffsetsResponse]:
    """Return what is persisted of the named partitions, or of all of a group; of a group that is
    not there, nothing.
    """
    return in_slices(context, _handle_sliced(request, context))


def _handle_sliced(
    request: DescribeShareGroupOffsetsRequest, context: RequestContext
) -> SlicedWork[DescribeShareGroupOffsetsResponse]:
    response = DescribeShareGroupOffsetsResponse()
    for requested in request.groups:
        described = DescribeShareGroupOffsetsResponseGroup(group_id=requested.group_id)
        response.groups.append(described)
        try:
            check_served(context, GroupType.SHARE)
            context.require(AclOperation.DESCRIBE, ResourceType.GROUP, requested.group_id)
        except KqueueError as error:
            described.error_code, described.error_message = code_of(error), message_of(error)
            continue
        group = context.broker.coordinators.groups.share.find(requested.group_id)
        for name, indexes in _partitions(requested, group):
            decide = context.allows if requested.topics is None else context.permits
            if not decide(AclOperation.DESCRIBE, ResourceType.TOPIC, name):
                if requested.topics is not None:
                    described.topics.append(_denied(name, indexes))
                yield None
                continue
            topic = context.broker.topics.find(name)
            topic_id = bytes(16) if topic is None else topic.id
            answer = DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_id)
            described.topics.append(answer)
            for index in indexes:
                key = SharePartitionKey(requested.group_id, topic_id, index)
                summary = context.broker.share.summary(key)
                if not summary.done:
                    yield summary
                end = _end_of(key, summary, context)
                if end is not None and not end.done:
                    yield end
                answer.partitions.append(_partition(key, summary, end))
                yield None
    return response


def error_response(
    request: DescribeShareGroupOffsetsRequest, version: int, error: BaseException
) -> DescribeShareGroupOffsetsResponse:
    """Return `error` for each group."""
    return DescribeShareGroupOffsetsResponse(
        groups=[
            DescribeShareGroupOffsetsResponseGroup(
                group_id=group.group_id, error_code=code_of(error), error_message=message_of(error)
            )
            for group in request.groups
        ]
    )


def _partitions(
    requested: DescribeShareGroupOffsetsRequestGroup, group: ShareGroup | None
) -> Iterable[tuple[str, Iterable[int]]]:
    if requested.topics is not None:
        return [(topic.topic_name, topic.partitions) for topic in requested.topics]
    if group is None:
        return []
    return [(topic.name, sorted(topic.partitions)) for topic in group.state_partitions.initialized.values()]


def _end_of(
    key: SharePartitionKey, summary: Promise[ShareState | None], context: RequestContext
) -> Promise[int] | None:
    """Return a promise of the partition's high watermark, if its lag can be known."""
    state = None if summary.error is not None else summary.result()
    if state is None or state.start_offset == NO_OFFSET or state.delivery_complete_count == NO_COUNT:
        return None
    topic = context.broker.topics.find_by_id(key.topic_id)
    if topic is None or not 0 <= key.partition < len(topic.partitions):
        return None
    return context.broker.share.end_of(topic.partitions[key.partition])


def _denied(name: str, indexes: Iterable[int]) -> DescribeShareGroupOffsetsResponseTopic:
    error = TopicAuthorizationFailed("the client may not describe this topic")
    partitions = [
        DescribeShareGroupOffsetsResponsePartition(
            partition_index=index, error_code=code_of(error), error_message=message_of(error)
        )
        for index in indexes
    ]
    return DescribeShareGroupOffsetsResponseTopic(topic_name=name, partitions=partitions)


def _partition(
    key: SharePartitionKey, summary: Promise[ShareState | None], end: Promise[int] | None
) -> DescribeShareGroupOffsetsResponsePartition:
    answer = DescribeShareGroupOffsetsResponsePartition(partition_index=key.partition, start_offset=NO_OFFSET)
    try:
        state = summary.result()
        if state is None or state.start_offset == NO_OFFSET:
            return answer
        answer.start_offset, answer.leader_epoch = state.start_offset, state.leader_epoch
        if end is not None and end.error is None:
            answer.lag = max(end.result() - state.start_offset - state.delivery_complete_count, 0)
    except KqueueError as error:
        answer.error_code, answer.error_message = code_of(error), message_of(error)
    return answer
