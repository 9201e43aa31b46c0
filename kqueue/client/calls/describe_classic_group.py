"""DescribeGroups of one classic group."""

from __future__ import annotations

from typing import NamedTuple

from kqueue.client.retry_policy import bad_answer, response_error
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse


class ClassicMember(NamedTuple):
    """A member of a classic group.

    `assignment`: as the leader of the group encoded it; of consumers a ConsumerProtocolAssignment.
    Empty while the group rebalances.
    """

    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    assignment: bytes


class ClassicGroup(NamedTuple):
    """A classic group. `state`: "Dead": there is no such group.

    `protocol_type`: "consumer", "connect", …; "" for a group that has only committed offsets.
    `protocol`: the assignor that the members agreed on; "" without members.
    """

    name: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[ClassicMember, ...]


class DescribeClassicGroup:
    """DescribeGroups up to version 5, in which an unknown group has the state Dead and no error."""

    api = BY_MODULE["describe_groups"]
    versions = (0, 5)
    repeatable = True

    def __init__(self, name: str) -> None:
        self.name = name

    def request(self, version: int) -> DescribeGroupsRequest:
        return DescribeGroupsRequest(groups=[self.name])

    def result(self, version: int, response: DescribeGroupsResponse, broker: str) -> ClassicGroup:
        if [group.group_id for group in response.groups] != [self.name]:
            raise bad_answer(self.api.name, broker, f"is not about group {self.name!r}")
        [group] = response.groups
        if group.error_code:
            raise response_error(group.error_code, self.api.name, broker, about=f"group {self.name!r}")
        members = tuple(
            ClassicMember(
                member.member_id,
                member.client_id,
                member.client_host,
                member.group_instance_id,
                bytes(member.member_assignment),
            )
            for member in group.members
        )
        return ClassicGroup(self.name, group.group_state, group.protocol_type, group.protocol_data, members)
