"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: a member of a classic group.

Errors that end a membership or a generation (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION,
REBALANCE_IN_PROGRESS) are BrokerRefused: the member decides what comes next.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kqueue.client.retry_policy import response_error
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kqueue.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kqueue.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kqueue.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

NO_GENERATION = -1
VERSION_MANY_LEAVE = 3  # several members at once


class GroupProtocol(NamedTuple):
    """What a member joins with: the type of the group, one protocol of it, the member's metadata.

    `rebalance_timeout_ms`: how long the coordinator waits for members to join again.
    """

    group: str
    protocol_type: str
    name: str
    metadata: bytes
    session_timeout_ms: int
    rebalance_timeout_ms: int


class JoinedGroup(NamedTuple):
    """The answer to a join.

    Attributes:
        generation: NO_GENERATION: not a member yet; join again with `member_id`.
        members: the metadata of each by member id, at the leader of the group; empty at others.
    """

    member_id: str
    generation: int
    leader: str
    members: Mapping[str, bytes]

    @property
    def is_leader(self) -> bool:
        """Whether this member has to make the assignments of all."""
        return self.generation != NO_GENERATION and self.leader == self.member_id


class JoinGroup:
    """JoinGroup. The coordinator answers once all members have joined, or after the rebalance
    timeout. Not repeatable: a lost response leaves a member without a client.
    """

    api = BY_MODULE["join_group"]
    versions = (1, 9)
    repeatable = False

    def __init__(self, protocol: GroupProtocol, member_id: str = "") -> None:
        self.protocol = protocol
        self.member_id = member_id

    def request(self, version: int) -> JoinGroupRequest:
        protocol = self.protocol
        return JoinGroupRequest(
            group_id=protocol.group,
            session_timeout_ms=protocol.session_timeout_ms,
            rebalance_timeout_ms=protocol.rebalance_timeout_ms,
            member_id=self.member_id,
            protocol_type=protocol.protocol_type,
            protocols=[JoinGroupRequestProtocol(name=protocol.name, metadata=protocol.metadata)],
        )

    def result(self, version: int, response: JoinGroupResponse, broker: str) -> JoinedGroup:
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED and response.member_id and not self.member_id:
            return JoinedGroup(response.member_id, NO_GENERATION, "", {})
        _raise(response.error_code, self.api.name, broker, self.protocol.group)
        members = {member.member_id: bytes(member.metadata) for member in response.members}
        return JoinedGroup(response.member_id, response.generation_id, response.leader, members)


class SyncGroup:
    """SyncGroup. Result: the member's own assignment.

    Args:
        assignments: of all members, by member id; of the group's leader only.
    """

    api = BY_MODULE["sync_group"]
    versions = (1, 5)
    repeatable = True

    def __init__(
        self, protocol: GroupProtocol, member_id: str, generation: int, assignments: Mapping[str, bytes]
    ) -> None:
        self.protocol = protocol
        self.member_id = member_id
        self.generation = generation
        self.assignments = assignments

    def request(self, version: int) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self.protocol.group,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type=self.protocol.protocol_type,
            protocol_name=self.protocol.name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in self.assignments.items()
            ],
        )

    def result(self, version: int, response: SyncGroupResponse, broker: str) -> bytes:
        _raise(response.error_code, self.api.name, broker, self.protocol.group)
        return bytes(response.assignment)


class Heartbeat:
    """Heartbeat: the member stays one. Result: None."""

    api = BY_MODULE["heartbeat"]
    versions = (1, 4)
    repeatable = True

    def __init__(self, group: str, member_id: str, generation: int) -> None:
        self.group = group
        self.member_id = member_id
        self.generation = generation

    def request(self, version: int) -> HeartbeatRequest:
        return HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.member_id)

    def result(self, version: int, response: HeartbeatResponse, broker: str) -> None:
        _raise(response.error_code, self.api.name, broker, self.group)


class LeaveGroup:
    """LeaveGroup of one member; one that has left already is no error. Result: None."""

    api = BY_MODULE["leave_group"]
    versions = (1, 5)
    repeatable = True

    def __init__(self, group: str, member_id: str) -> None:
        self.group = group
        self.member_id = member_id

    def request(self, version: int) -> LeaveGroupRequest:
        if version < VERSION_MANY_LEAVE:
            return LeaveGroupRequest(group_id=self.group, member_id=self.member_id)
        return LeaveGroupRequest(group_id=self.group, members=[MemberIdentity(member_id=self.member_id)])

    def result(self, version: int, response: LeaveGroupResponse, broker: str) -> None:
        codes = [response.error_code, *(member.error_code for member in response.members)]
        for code in codes:
            if code != ErrorCode.UNKNOWN_MEMBER_ID:
                _raise(code, self.api.name, broker, self.group)


def _raise(code: int, api: str, broker: str, group: str) -> None:
    if code:
        raise response_error(code, api, broker, about=f"group {group!r}")
