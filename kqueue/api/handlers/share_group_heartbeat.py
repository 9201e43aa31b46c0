"""ShareGroupHeartbeat (key 76): join, stay in and leave a share group (KIP-932).

Version 1 only: version 0 was early access.
"""

from __future__ import annotations

from kqueue.api.access import on_each, on_group
from kqueue.api.errors import code_of, message_of
from kqueue.api.modern_groups import answer_heartbeat, check_served
from kqueue.api.request_context import RequestContext, require_topics
from kqueue.base.promise import Promise
from kqueue.broker.purgatory import DelayedOperation
from kqueue.groups.group import GroupType
from kqueue.groups.share.member import ShareHeartbeat, ShareHeartbeatResult
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.wire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

VERSIONS = (1, 1)
ACCESS = (
    on_group(AclOperation.READ),
    on_each(AclOperation.DESCRIBE, ResourceType.TOPIC, "one subscribed topic that is denied refuses the request"),
)
ITEM_WEIGHT = 4


def handle(
    request: ShareGroupHeartbeatRequest, context: RequestContext
) -> ShareGroupHeartbeatResponse | DelayedOperation[ShareGroupHeartbeatResponse]:
    """Respond when what the heartbeat changes is in the log."""

    def send() -> Promise[ShareHeartbeatResult]:
        check_served(context, GroupType.SHARE)
        require_topics(context, AclOperation.DESCRIBE, request.subscribed_topic_names or ())
        heartbeat = ShareHeartbeat(
            request.group_id,
            request.member_id,
            request.member_epoch,
            request.rack_id,
            request.subscribed_topic_names,
            context.client_id or "",
            context.client_host,
        )
        return context.broker.coordinators.groups.share.heartbeat(heartbeat)

    return answer_heartbeat(context, send, _respond, lambda error: error_response(request, context.api_version, error))


def error_response(
    request: ShareGroupHeartbeatRequest, version: int, error: BaseException
) -> ShareGroupHeartbeatResponse:
    """Return `error`."""
    return ShareGroupHeartbeatResponse(error_code=code_of(error), error_message=message_of(error))


def _respond(result: ShareHeartbeatResult) -> ShareGroupHeartbeatResponse:
    assignment = None
    if result.assigned is not None:
        assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=id, partitions=sorted(indexes)) for id, indexes in result.assigned.items()
            ]
        )
    return ShareGroupHeartbeatResponse(
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=assignment,
    )
