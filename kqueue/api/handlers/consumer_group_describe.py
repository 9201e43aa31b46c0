"""ConsumerGroupDescribe (key 69): state, members and assignments of consumer groups (KIP-848).

Versions 0 to 1:

    0       current and target assignment of each member
    1       whether a member uses the classic protocol (KIP-1099)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kqueue.api.access import on_each
from kqueue.api.authorized_operations import authorized_operations
from kqueue.api.errors import code_of, message_of
from kqueue.api.handlers.consumer_group_heartbeat import check_served
from kqueue.api.request_context import RequestContext, hidden_topic
from kqueue.api.slices import in_slices
from kqueue.base.errors import KqueueError
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.topics.topics import Topics
from kqueue.groups.consumer.member import ConsumerGroupDescription, Subscription, all_owned
from kqueue.groups.modern.member import ModernMemberDescription
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

VERSIONS = (0, 1)
ACCESS = (
    on_each(AclOperation.DESCRIBE, ResourceType.GROUP),
    on_each(AclOperation.DESCRIBE, ResourceType.TOPIC, "one that is denied refuses the group that has it"),
)
ITEM_WEIGHT = 4
CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def handle(
    request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse | DelayedOperation[ConsumerGroupDescribeResponse]:
    """Describe each group once, so that a small request cannot repeat a large group."""
    return in_slices(context, _handle_sliced(request, context))


def _handle_sliced(
    request: ConsumerGroupDescribeRequest, context: RequestContext
) -> SlicedWork[ConsumerGroupDescribeResponse]:
    requested = request.include_authorized_operations
    response = ConsumerGroupDescribeResponse()
    for group_id in dict.fromkeys(request.group_ids):
        yield None
        try:
            check_served(context)
            context.require(AclOperation.DESCRIBE, ResourceType.GROUP, group_id)
            promise = context.broker.groups.consumer.describe(group_id)
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
            assignor_name=group.assignor,
            authorized_operations=authorized_operations(context, ResourceType.GROUP, group_id, requested=requested),
        )
        yield from _add_members(described, group, context.broker.topics)
        response.groups.append(_visible(described, context))
    return response


def error_response(
    request: ConsumerGroupDescribeRequest, version: int, error: BaseException
) -> ConsumerGroupDescribeResponse:
    """Return `error` for each group."""
    return ConsumerGroupDescribeResponse(groups=[_refused(group_id, error) for group_id in request.group_ids])


def _refused(group_id: str, error: BaseException) -> DescribedGroup:
    return DescribedGroup(error_code=code_of(error), error_message=message_of(error), group_id=group_id)


def _visible(described: DescribedGroup, context: RequestContext) -> DescribedGroup:
    """Return the group, or its refusal if it has a topic that the client may not describe."""
    if context.broker.security.authorizer is None:
        return described
    topics = {
        topic.topic_name
        for member in described.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }
    topics.update(name for member in described.members for name in member.subscribed_topic_names)
    error = hidden_topic(context, topics)
    return described if error is None else _refused(described.group_id, error)


def _add_members(described: DescribedGroup, group: ConsumerGroupDescription, topics: Topics) -> SlicedWork[None]:
    for one in group.members:
        described.members.append(_member(one, topics))
        yield None


def _member(one: ModernMemberDescription[Subscription, bytes], topics: Topics) -> Member:
    member = one.member
    subscription, current = member.metadata, member.current
    return Member(
        member_id=member.member_id,
        instance_id=subscription.instance_id,
        rack_id=subscription.rack_id,
        member_epoch=current.epoch,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        subscribed_topic_names=list(subscription.topics),
        subscribed_topic_regex=subscription.regex,
        assignment=_assignment(all_owned(current), topics),
        target_assignment=_assignment(one.target, topics),
        member_type=CONSUMER_MEMBER if subscription.classic is None else CLASSIC_MEMBER,
    )


def _assignment(partitions: Mapping[bytes, Collection[int]], topics: Topics) -> Assignment:
    """Return an assignment, without topics that were deleted."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=id, topic_name=topic.name, partitions=sorted(indexes))
            for id, indexes in partitions.items()
            if (topic := topics.find_by_id(id)) is not None
        ]
    )
