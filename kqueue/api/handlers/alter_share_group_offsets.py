"""AlterShareGroupOffsets (key 91): move an empty share group (KIP-932).

What its members had acquired or acknowledged from the new start on is forgotten. A group that is
not there is created if a topic is. A negative offset lets it begin by `share.auto.offset.reset`.
"""

from __future__ import annotations

from kqueue.api.access import on_each, on_group
from kqueue.api.errors import code_of, message_of
from kqueue.api.modern_groups import check_served
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import in_slices, settled
from kqueue.base.errors import KqueueError
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.groups.group import GroupType
from kqueue.groups.share.records import StateTopic
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.share.share_state import NO_OFFSET, SharePartitionKey
from kqueue.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)

VERSIONS = (0, 0)
ACCESS = (
    on_group(AclOperation.READ),
    on_each(AclOperation.READ, ResourceType.TOPIC),
)
ITEM_WEIGHT = 8


def handle(
    request: AlterShareGroupOffsetsRequest, context: RequestContext
) -> AlterShareGroupOffsetsResponse | DelayedOperation[AlterShareGroupOffsetsResponse]:
    """Respond when the new offsets are persisted."""
    return in_slices(context, _handle_sliced(request, context), lambda: True)


def _handle_sliced(
    request: AlterShareGroupOffsetsRequest, context: RequestContext
) -> SlicedWork[AlterShareGroupOffsetsResponse]:
    broker, response = context.broker, AlterShareGroupOffsetsResponse()
    groups = broker.coordinators.groups.share
    allowed = context.allowed(AclOperation.READ, ResourceType.TOPIC, (topic.topic_name for topic in request.topics))
    try:
        check_served(context, GroupType.SHARE)
        if allowed or not request.topics:  # else nothing is asked of the group, as by Kafka
            groups.check_alterable(request.group_id)
        is_named = any(broker.topics.find(name) is not None for name in allowed)
        if is_named:  # else there is nothing to create a group for, as by Kafka
            yield from settled(groups.ensure_empty(request.group_id))
    except KqueueError as error:
        return error_response(request, context.api_version, error)
    moved: dict[bytes, StateTopic] = {}
    for topic in request.topics:
        known = broker.topics.find(topic.topic_name) if topic.topic_name in allowed else None
        answer = AlterShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name, topic_id=bytes(16) if known is None else known.id
        )
        response.responses.append(answer)
        for partition in topic.partitions:
            part = AlterShareGroupOffsetsResponsePartition(partition_index=partition.partition_index)
            answer.partitions.append(part)
            try:
                context.topic_named(AclOperation.READ, topic.topic_name).partition(partition.partition_index)
                key = SharePartitionKey(request.group_id, answer.topic_id, partition.partition_index)
                yield from settled(broker.share.reset(key, max(partition.start_offset, NO_OFFSET)))
            except KqueueError as error:
                part.error_code, part.error_message = code_of(error), message_of(error)
            else:
                former = moved[answer.topic_id].partitions if answer.topic_id in moved else frozenset[int]()
                moved[answer.topic_id] = StateTopic(topic.topic_name, former | {partition.partition_index})
    if is_named:
        try:
            yield from settled(groups.add_states(request.group_id, moved))
        except KqueueError as error:
            return error_response(request, context.api_version, error)
    return response


def error_response(
    request: AlterShareGroupOffsetsRequest, version: int, error: BaseException
) -> AlterShareGroupOffsetsResponse:
    """Return `error`."""
    return AlterShareGroupOffsetsResponse(error_code=code_of(error), error_message=message_of(error))
