"""DeleteShareGroupOffsets (key 92): let an empty share group forget topics (KIP-932)."""

from __future__ import annotations

from kqueue.api.access import on_each, on_group
from kqueue.api.errors import code_of, message_of
from kqueue.api.modern_groups import check_served
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import in_slices, settled
from kqueue.base.errors import KqueueError, UnknownTopicOrPartition
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.groups.group import GroupType
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.share.share_state import SharePartitionKey
from kqueue.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)

VERSIONS = (0, 0)
ACCESS = (
    on_group(AclOperation.DELETE),
    on_each(AclOperation.READ, ResourceType.TOPIC),
)
ITEM_WEIGHT = 8


def handle(
    request: DeleteShareGroupOffsetsRequest, context: RequestContext
) -> DeleteShareGroupOffsetsResponse | DelayedOperation[DeleteShareGroupOffsetsResponse]:
    """Respond when the states are deleted."""
    return in_slices(context, _handle_sliced(request, context), lambda: True)


def _handle_sliced(
    request: DeleteShareGroupOffsetsRequest, context: RequestContext
) -> SlicedWork[DeleteShareGroupOffsetsResponse]:
    broker, response = context.broker, DeleteShareGroupOffsetsResponse()
    try:
        check_served(context, GroupType.SHARE)
        group = broker.coordinators.groups.share.check_empty(request.group_id)
    except KqueueError as error:
        return error_response(request, context.api_version, error)
    for topic in {topic.topic_name: topic for topic in request.topics}.values():
        answer = DeleteShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, topic_id=bytes(16))
        response.responses.append(answer)
        try:
            known = context.topic_named(AclOperation.READ, topic.topic_name)
            answer.topic_id = known.id
            state = group.state_partitions
            if known.id not in state.initialized and known.id not in state.initializing:
                raise UnknownTopicOrPartition("There is no offset information to delete.")
            yield from settled(broker.coordinators.groups.share.forget_states(request.group_id, known.id))
            for index in range(len(known.partitions)):
                yield from settled(broker.share.delete(SharePartitionKey(request.group_id, known.id, index)))
                yield None
        except KqueueError as error:
            answer.error_code, answer.error_message = code_of(error), message_of(error)
    return response


def error_response(
    request: DeleteShareGroupOffsetsRequest, version: int, error: BaseException
) -> DeleteShareGroupOffsetsResponse:
    """Return `error`."""
    return DeleteShareGroupOffsetsResponse(error_code=code_of(error), error_message=message_of(error))
