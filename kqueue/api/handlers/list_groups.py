"""ListGroups: every group of this broker, or those in some states or of some types."""

from __future__ import annotations

from kqueue.api.request_context import RequestContext
from kqueue.api.slices import Work, collect, in_slices
from kqueue.broker.purgatory import DelayedOperation
from kqueue.groups.coordinator import GROUP_TYPE, GroupListing
from kqueue.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

VERSIONS = (0, 5)
ITEM_WEIGHT = 20


def handle(
    request: ListGroupsRequest, call: RequestContext
) -> ListGroupsResponse | DelayedOperation[ListGroupsResponse]:
    return in_slices(call, _work(request, call))


def _work(request: ListGroupsRequest, call: RequestContext) -> Work[ListGroupsResponse]:
    groups = yield from collect(_listed, call.broker.groups.groups(request.states_filter, request.types_filter))
    return ListGroupsResponse(groups=groups)


def _listed(group: GroupListing) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id, protocol_type=group.protocol_type, group_state=group.state.value, group_type=GROUP_TYPE
    )
