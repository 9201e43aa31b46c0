"""ListGroups (key 16): the groups of this broker, filtered by state and type.

Versions 0 to 5:

    0       all groups
    1       throttle time
    2       clients throttle themselves (KIP-219)
    3       flexible encoding (KIP-482)
    4       states, in the filter and the response (KIP-518)
    5       types, in the filter and the response (KIP-848)
"""

from __future__ import annotations

from kqueue.api.access import on_each
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import in_slices
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.groups.coordinator import GroupListing
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

VERSIONS = (0, 5)
ACCESS = (on_each(AclOperation.DESCRIBE, ResourceType.GROUP, "or DESCRIBE of the cluster; others are left out"),)
ITEM_WEIGHT = 20


def handle(
    request: ListGroupsRequest, context: RequestContext
) -> ListGroupsResponse | DelayedOperation[ListGroupsResponse]:
    """Return the groups that match both filters."""
    return in_slices(context, _handle_sliced(request, context))


def _handle_sliced(request: ListGroupsRequest, context: RequestContext) -> SlicedWork[ListGroupsResponse]:
    groups = context.broker.coordinators.groups.groups(request.states_filter, request.types_filter)
    sees_all = context.allows(AclOperation.DESCRIBE, ResourceType.CLUSTER)
    response = ListGroupsResponse()
    for group in groups:
        if sees_all or context.allows(AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id):
            response.groups.append(_listed(group))
        yield None
    return response


def _listed(group: GroupListing) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type,
        group_state=group.state,
        group_type=group.type.value,
    )
