"""ConsumerGroupHeartbeat (key 68): join, stay in and leave a consumer group (KIP-848).

Versions 0 to 1:

    0       the broker may choose the id of a member that joins
    1       topics by a pattern; the member chooses its id (KIP-1082)
"""

from __future__ import annotations

from kqueue.api.access import on_each, on_group
from kqueue.api.errors import code_of, message_of
from kqueue.api.modern_groups import answer_heartbeat, check_served
from kqueue.api.request_context import RequestContext, require_topics
from kqueue.base.promise import Promise
from kqueue.broker.purgatory import DelayedOperation
from kqueue.groups.consumer.member import HeartbeatRequest, HeartbeatResult, TopicFilter, every_topic
from kqueue.groups.group import GroupType
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

VERSIONS = (0, 1)
ACCESS = (
    on_group(AclOperation.READ),
    on_each(
        AclOperation.DESCRIBE,
        ResourceType.TOPIC,
        "one that is denied refuses the request; patterns find the others only",
    ),
)
ITEM_WEIGHT = 4
VERSION_ID_REQUIRED = 1


def handle(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerGroupHeartbeatResponse | DelayedOperation[ConsumerGroupHeartbeatResponse]:
    """Respond when what the heartbeat changes is in the log."""

    def send() -> Promise[HeartbeatResult]:
        check_served(context, GroupType.CONSUMER)
        require_topics(context, AclOperation.DESCRIBE, request.subscribed_topic_names or ())
        return context.broker.coordinators.groups.consumer.heartbeat(_heartbeat(request, context))

    return answer_heartbeat(context, send, _respond, lambda error: error_response(request, context.api_version, error))


def error_response(
    request: ConsumerGroupHeartbeatRequest, version: int, error: BaseException
) -> ConsumerGroupHeartbeatResponse:
    """Return `error`."""
    return ConsumerGroupHeartbeatResponse(error_code=code_of(error), error_message=message_of(error))


def _heartbeat(request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> HeartbeatRequest:
    owned = None
    if request.topic_partitions is not None:
        owned = {topic.topic_id: frozenset(topic.partitions) for topic in request.topic_partitions}
    return HeartbeatRequest(
        request.group_id,
        request.member_id,
        request.member_epoch,
        request.instance_id,
        request.rack_id,
        request.rebalance_timeout_ms,
        request.subscribed_topic_names,
        request.subscribed_topic_regex,
        request.server_assignor,
        owned,
        context.client_id or "",
        context.client_host,
        id_required=context.api_version >= VERSION_ID_REQUIRED,
        visible=_visible_to(context),
    )


def _visible_to(context: RequestContext) -> TopicFilter:
    if context.broker.security.authorizer is None:
        return every_topic
    client = context.without_connection()  # the filter may outlive it
    return lambda names: client.allowed(AclOperation.DESCRIBE, ResourceType.TOPIC, names)


def _respond(result: HeartbeatResult) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if result.assigned is not None:
        topics = result.assigned.items()
        assignment = Assignment(
            topic_partitions=[TopicPartitions(topic_id=topic, partitions=sorted(indexes)) for topic, indexes in topics]
        )
    return ConsumerGroupHeartbeatResponse(
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=assignment,
    )
