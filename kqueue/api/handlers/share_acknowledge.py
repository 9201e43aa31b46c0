"""ShareAcknowledge (key 79): a member of a share group says what became of records it holds.

Answered once the new state is persisted. Versions 1 to 2:

    1       share groups (KIP-932); version 0 was early access
    2       renewal of locks (KIP-1222)
"""

from __future__ import annotations

from kqueue.api.access import on_each, on_group
from kqueue.api.errors import code_of, message_of
from kqueue.api.leader_hints import add_share_leader_hint
from kqueue.api.request_context import RequestContext
from kqueue.api.share_acknowledgements import acknowledgements_of
from kqueue.api.slices import in_slices
from kqueue.api.topic_access import TopicAccess
from kqueue.base.errors import KqueueError
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.share.share_acknowledgements import ShareAcknowledgements
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.share.errors import InvalidShareSessionEpoch
from kqueue.share.sessions import EPOCH_FINAL, EPOCH_NEW, check_member
from kqueue.wire.messages import share_acknowledge as messages
from kqueue.wire.messages.share_acknowledge import (
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)

VERSIONS = (1, 2)
ACCESS = (
    on_group(AclOperation.READ),
    on_each(AclOperation.READ, ResourceType.TOPIC),
)


def handle(
    request: ShareAcknowledgeRequest, context: RequestContext
) -> ShareAcknowledgeResponse | DelayedOperation[ShareAcknowledgeResponse]:
    """Respond when all partitions are persisted, or were refused."""
    return in_slices(context, _handle_sliced(request, context), lambda: True)


def _handle_sliced(
    request: ShareAcknowledgeRequest, context: RequestContext
) -> SlicedWork[ShareAcknowledgeResponse | DelayedOperation[ShareAcknowledgeResponse]]:
    groups = context.broker.share
    try:
        member = check_member(request.group_id, request.member_id)
        if request.share_session_epoch == EPOCH_NEW:
            raise InvalidShareSessionEpoch("a share session begins with a ShareFetch, found epoch 0")
        session = groups.sessions.use(member, request.share_session_epoch, context.principal)
    except KqueueError as error:
        return error_response(request, context.api_version, error)
    lock_ms = groups.config_of(member.group).lock_duration_ms
    acknowledgements = ShareAcknowledgements(groups, member, TopicAccess(context, AclOperation.READ).error)
    is_final = request.share_session_epoch == EPOCH_FINAL  # before a slice ends
    yield from acknowledgements.start(acknowledgements_of(request.topics), renews=request.is_renew_ack)
    if is_final:
        acknowledgements.end_session(session)
    return acknowledgements.wait(lambda: _respond(acknowledgements, lock_ms, context))


def error_response(request: ShareAcknowledgeRequest, version: int, error: BaseException) -> ShareAcknowledgeResponse:
    """Return `error`."""
    return ShareAcknowledgeResponse(error_code=code_of(error), error_message=message_of(error))


def _respond(
    acknowledgements: ShareAcknowledgements, lock_ms: int, context: RequestContext
) -> ShareAcknowledgeResponse:
    response = ShareAcknowledgeResponse(acquisition_lock_timeout_ms=lock_ms)
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    for key, error in acknowledgements.results().items():
        topic_id, index = key
        topic = topics.setdefault(topic_id, ShareAcknowledgeTopicResponse(topic_id=topic_id))
        data = PartitionData(partition_index=index, error_code=code_of(error), error_message=message_of(error))
        add_share_leader_hint(context, key, error, data, response, messages)
        topic.partitions.append(data)
    response.responses = list(topics.values())
    return response
