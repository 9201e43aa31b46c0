"""DescribeGroups (key 15): state and members of groups.

Versions 0 to 6:

    0       state, protocol, members
    1       throttle time
    2       clients throttle themselves (KIP-219)
    3       authorized operations (KIP-430)
    4       group instance ids (KIP-345)
    5       flexible encoding (KIP-482)
    6       GROUP_ID_NOT_FOUND and error messages (KIP-1043); before, a group in state Dead

Groups of other types are not found: each type has an API of its own.
"""

from __future__ import annotations

from kqueue.api.access import on_each
from kqueue.api.authorized_operations import authorized_operations
from kqueue.api.errors import code_of, message_of
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import collect, in_slices
from kqueue.base.errors import GroupIdNotFound, KqueueError
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.groups.classic.state import ClassicGroupState
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

VERSIONS = (0, 6)
ACCESS = (on_each(AclOperation.DESCRIBE, ResourceType.GROUP),)
ITEM_WEIGHT = 4
VERSION_NOT_FOUND = 6


def handle(
    request: DescribeGroupsRequest, context: RequestContext
) -> DescribeGroupsResponse | DelayedOperation[DescribeGroupsResponse]:
    """Describe each group once, so that a small request cannot repeat a large group."""
    return in_slices(context, _handle_sliced(request, context))


def _handle_sliced(request: DescribeGroupsRequest, context: RequestContext) -> SlicedWork[DescribeGroupsResponse]:
    requested = request.include_authorized_operations
    groups = yield from collect(lambda id: _describe(id, context, requested=requested), dict.fromkeys(request.groups))
    return DescribeGroupsResponse(groups=groups)


def error_response(request: DescribeGroupsRequest, version: int, error: BaseException) -> DescribeGroupsResponse:
    """Return `error` for each group."""
    return DescribeGroupsResponse(groups=[_refused(group_id, version, error) for group_id in request.groups])


def _describe(group_id: str, context: RequestContext, *, requested: bool) -> DescribedGroup:
    try:
        context.require(AclOperation.DESCRIBE, ResourceType.GROUP, group_id)
        operations = authorized_operations(context, ResourceType.GROUP, group_id, requested=requested)
        group = context.broker.coordinators.groups.describe(group_id)
    except GroupIdNotFound as error:
        if context.api_version < VERSION_NOT_FOUND:  # older clients take a dead group for a missing one
            return DescribedGroup(
                group_id=group_id, group_state=ClassicGroupState.DEAD.value, authorized_operations=operations
            )
        return _refused(group_id, context.api_version, error)
    except KqueueError as error:
        return _refused(group_id, context.api_version, error)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
        authorized_operations=operations,
    )


def _refused(group_id: str, version: int, error: BaseException) -> DescribedGroup:
    words = message_of(error) if version >= VERSION_NOT_FOUND else None
    state = ClassicGroupState.DEAD.value if isinstance(error, GroupIdNotFound) else ""  # nothing is known, as in Kafka
    return DescribedGroup(error_code=code_of(error), error_message=words, group_id=group_id, group_state=state)
