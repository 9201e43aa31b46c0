"""ListGroups: the groups that one broker coordinates."""

from __future__ import annotations

from typing import NamedTuple

from kqueue.client.retry_policy import response_error
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


class GroupListing(NamedTuple):
    """A group of the cluster.

    `protocol_type`: "consumer", "connect", … or "" for a group that has only committed offsets.
    `state`: "" where the broker is too old to report it (before Kafka 2.6).
    `type`: "classic", "consumer", "share", "streams", or "" (before Kafka 3.8).
    """

    name: str
    protocol_type: str
    state: str
    type: str = ""


class ListGroups:
    """ListGroups of one broker."""

    api = BY_MODULE["list_groups"]
    versions = (0, 5)
    repeatable = True

    def request(self, version: int) -> ListGroupsRequest:
        return ListGroupsRequest()

    def result(self, version: int, response: ListGroupsResponse, broker: str) -> list[GroupListing]:
        if response.error_code:
            raise response_error(response.error_code, self.api.name, broker)
        return [
            GroupListing(group.group_id, group.protocol_type, group.group_state, group.group_type.lower())
            for group in response.groups
        ]
