from __future__ import annotations

import pytest

from kqueue.client.calls.classic_membership import (
    NO_GENERATION,
    GroupProtocol,
    Heartbeat,
    JoinedGroup,
    JoinGroup,
    LeaveGroup,
    SyncGroup,
)
from kqueue.client.errors import BrokerRefused
from kqueue.wire.messages.heartbeat import HeartbeatResponse
from kqueue.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from kqueue.wire.messages.leave_group import LeaveGroupResponse, MemberResponse
from kqueue.wire.messages.sync_group import SyncGroupResponse

PROTOCOL = GroupProtocol("g", "sr", "v0", b"{}", 10_000, 20_000)


def test_a_join_without_an_id_returns_the_id_to_join_with() -> None:
    response = JoinGroupResponse(error_code=79, member_id="m-1")
    joined = JoinGroup(PROTOCOL).result(9, response, "b:1")
    assert joined == JoinedGroup("m-1", NO_GENERATION, "", {})
    assert not joined.is_leader
    with pytest.raises(BrokerRefused, match="MEMBER_ID_REQUIRED"):
        JoinGroup(PROTOCOL, "m-1").result(9, response, "b:1")


def test_a_join_sends_type_protocol_and_timeouts_and_returns_the_members() -> None:
    call = JoinGroup(PROTOCOL, "m-1")
    request = call.request(9)
    assert (request.protocol_type, request.session_timeout_ms, request.rebalance_timeout_ms) == ("sr", 10_000, 20_000)
    assert [(protocol.name, protocol.metadata) for protocol in request.protocols] == [("v0", b"{}")]
    members = [JoinGroupResponseMember(member_id="m-1", metadata=b"x")]
    response = JoinGroupResponse(generation_id=3, leader="m-1", member_id="m-1", members=members)
    joined = call.result(9, response, "b:1")
    assert joined == JoinedGroup("m-1", 3, "m-1", {"m-1": b"x"})
    assert joined.is_leader


def test_a_sync_sends_the_assignments_and_returns_its_own() -> None:
    call = SyncGroup(PROTOCOL, "m-1", 3, {"m-1": b"a", "m-2": b"b"})
    assert [(part.member_id, part.assignment) for part in call.request(5).assignments] == [("m-1", b"a"), ("m-2", b"b")]
    assert call.result(5, SyncGroupResponse(assignment=b"a"), "b:1") == b"a"
    with pytest.raises(BrokerRefused, match="SyncGroup of group 'g': REBALANCE_IN_PROGRESS"):
        call.result(5, SyncGroupResponse(error_code=27), "b:1")


def test_a_heartbeat_of_an_old_generation_is_refused() -> None:
    call = Heartbeat("g", "m-1", 3)
    assert (call.request(4).generation_id, call.request(4).member_id) == (3, "m-1")
    call.result(4, HeartbeatResponse(), "b:1")
    with pytest.raises(BrokerRefused, match="ILLEGAL_GENERATION"):
        call.result(4, HeartbeatResponse(error_code=22), "b:1")


@pytest.mark.parametrize("version", [2, 5])
def test_leaving_twice_is_no_error(version: int) -> None:
    call = LeaveGroup("g", "m-1")
    request = call.request(version)
    assert request.member_id == ("m-1" if version < 3 else "")
    assert [member.member_id for member in request.members] == (["m-1"] if version >= 3 else [])
    gone = [MemberResponse(member_id="m-1", group_instance_id=None, error_code=25)]
    call.result(version, LeaveGroupResponse(members=gone), "b:1")
    with pytest.raises(BrokerRefused, match="GROUP_AUTHORIZATION_FAILED"):
        call.result(version, LeaveGroupResponse(error_code=30), "b:1")
