"""ListGroups: every group of this broker, or those in some states or of some types."""

from __future__ import annotations

from kqueue.api.call import Call
from kqueue.groups.coordinator import GROUP_TYPE
from kqueue.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

VERSIONS = (0, 5)


def handle(request: ListGroupsRequest, call: Call) -> ListGroupsResponse:
    return ListGroupsResponse(
        groups=[
            ListedGroup(group_id=group.group_id, protocol_type=group.protocol_type, group_state=group.state.value, group_type=GROUP_TYPE)
            for group in call.broker.groups.groups(request.states_filter, request.types_filter)
        ]
    )
