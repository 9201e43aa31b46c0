"""ListGroups: the groups that one broker coordinates; all of them together are the cluster's."""

from __future__ import annotations

from typing import NamedTuple

from kqueue.client.retry_policy import response_error
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


class GroupListing(NamedTuple):
    """`protocol_type`: "consumer", "connect", … or "" (offsets alone); `state`: "" where the broker
    is too old to tell.
    """

    name: str
    protocol_type: str
    state: str


class ListGroups:
    api = BY_MODULE["list_groups"]
    versions = (0, 5)
    repeatable = True

    def request(self, version: int) -> ListGroupsRequest:
        return ListGroupsRequest()

    def result(self, version: int, response: ListGroupsResponse, broker: str) -> list[GroupListing]:
        if response.error_code:
            raise response_error(response.error_code, self.api.name, broker)
        return [GroupListing(one.group_id, one.protocol_type, one.group_state) for one in response.groups]
