"""ShareGroupDescribe (key 77): state, members and assignments of share groups (KIP-932).

Version 1 only: version 0 was early access.
"""

from __future__ import annotations

from kqueue.api.access import on_each
from kqueue.api.authorized_operations import authorized_operations
from kqueue.api.errors import code_of, message_of
from kqueue.api.handlers.share_group_heartbeat import check_served
from kqueue.api.request_context import RequestContext, hidden_topic
from kqueue.api.slices import in_slices
from kqueue.base.errors import KqueueError
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.topics.topics import Topics
from kqueue.groups.share.member import ShareMember
from kqueue.groups.share.simple_assignor import NAME
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.wire.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)

VERSIONS = (1, 1)
ACCESS = (
    on_each(AclOperation.DESCRIBE, ResourceType.GROUP),
    on_each(AclOperation.DESCRIBE, ResourceType.TOPIC, "one that is denied refuses the group that has it"),
)
ITEM_WEIGHT = 4


def handle(
    request: ShareGroupDescribeRequest, context: RequestContext
) -> ShareGroupDescribeResponse | DelayedOperation[ShareGroupDescribeResponse]:
    """Describe each group once, so that a small request cannot repeat a large group."""
    return in_slices(context, _handle_sliced(request, context))


def _handle_sliced(
    request: ShareGroupDescribeRequest, context: RequestContext
) -> SlicedWork[ShareGroupDescribeResponse]:
    requested = request.include_authorized_operations
    response = ShareGroupDescribeResponse()
    for group_id in dict.fromkeys(request.group_ids):
        yield None
        try:
            check_served(context)
            context.require(AclOperation.DESCRIBE, ResourceType.GROUP, group_id)
            promise = context.broker.groups.share.describe(group_id)
            if not promise.done:
                yield promise
            group = promise.result()
        except KqueueError as error:
            response.groups.append(_refused(group_id, error))
            continue
        described = DescribedGroup(
            group_id=group_id,
            group_state=group.state,
            group_epoch=group.epoch,
            assignment_epoch=group.target_epoch,
            assignor_name=NAME,
            authorized_operations=authorized_operations(context, ResourceType.GROUP, group_id, requested=requested),
        )
        for member in group.members:
            described.members.append(_member(member, context.broker.topics))
            yield None
        response.groups.append(_visible(described, context))
    return response


def error_response(
    request: ShareGroupDescribeRequest, version: int, error: BaseException
) -> ShareGroupDescribeResponse:
    """Return `error` for each group."""
    return ShareGroupDescribeResponse(groups=[_refused(group_id, error) for group_id in request.group_ids])


def _refused(group_id: str, error: BaseException) -> DescribedGroup:
    return DescribedGroup(error_code=code_of(error), error_message=message_of(error), group_id=group_id)


def _visible(described: DescribedGroup, context: RequestContext) -> DescribedGroup:
    """Return the group, or its refusal if it has a topic that the client may not describe."""
    if context.broker.security.authorizer is None:
        return described
    topics = {topic.topic_name for member in described.members for topic in member.assignment.topic_partitions}
    topics.update(name for member in described.members for name in member.subscribed_topic_names)
    error = hidden_topic(context, topics)
    return described if error is None else _refused(described.group_id, error)


def _member(member: ShareMember, topics: Topics) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.metadata.rack_id,
        member_epoch=member.current.epoch,
        client_id=member.metadata.client_id,
        client_host=member.metadata.client_host,
        subscribed_topic_names=list(member.metadata.topics),
        assignment=Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=id, topic_name=topic.name, partitions=sorted(indexes))
                for id, indexes in member.current.assigned.items()
                if (topic := topics.find_by_id(id)) is not None
            ]
        ),
    )
