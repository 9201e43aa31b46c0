from __future__ import annotations

from kqueue.groups.classic.state import ClassicGroupState
from kqueue.tests.api.group_client import join, leave, stable, start_join, world
from kqueue.tests.api.harness import versions_of
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

ONE = [version for version in versions_of("leave_group") if version < 3]
MANY = [version for version in versions_of("leave_group") if version >= 3]


@for_each("version", ONE)
def test_last_member_leaves_and_the_group_is_empty(version: int) -> None:
    client = world()
    joined = stable(client)
    request = LeaveGroupRequest(group_id="g", member_id=joined.member_id)
    assert client.ask(request, version) == LeaveGroupResponse()
    assert client.sim.broker.coordinators.groups.describe("g").state is ClassicGroupState.EMPTY
    assert client.ask(request, version) == LeaveGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)


@for_each("version", MANY)
def test_several_leave_each_with_an_answer(version: int) -> None:
    client = world()
    first, second = join(client, group_instance_id="i"), start_join(client)
    join(client, member_id=first.member_id, group_instance_id="i")
    response = leave(
        client,
        MemberIdentity(member_id=second.response.member_id),
        MemberIdentity(group_instance_id="i"),
        MemberIdentity(member_id="stranger"),
        MemberIdentity(group_instance_id="nobody's"),
        version=version,
    )
    assert response == LeaveGroupResponse(
        members=[
            MemberResponse(member_id=second.response.member_id, group_instance_id=None),
            MemberResponse(group_instance_id="i"),
            MemberResponse(member_id="stranger", group_instance_id=None, error_code=ErrorCode.UNKNOWN_MEMBER_ID),
            MemberResponse(group_instance_id="nobody's", error_code=ErrorCode.UNKNOWN_MEMBER_ID),
        ]
    )
    assert client.sim.broker.coordinators.groups.describe("g").state is ClassicGroupState.EMPTY


@for_each("version", MANY)
def test_leaving_an_unknown_group_is_an_error(version: int) -> None:
    response = leave(world(), MemberIdentity(member_id="x", group_instance_id="i"), version=version)
    assert response.error_code == ErrorCode.NONE
    assert [(member.member_id, member.group_instance_id, member.error_code) for member in response.members] == [
        ("x", "i", ErrorCode.UNKNOWN_MEMBER_ID)
    ]


@for_each("version", [*ONE, *MANY])
def test_a_group_needs_a_name(version: int) -> None:
    members = [MemberIdentity(member_id="x")] if version >= 3 else []
    response = world().ask(LeaveGroupRequest(group_id="", members=members), version)
    assert response == LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)


def test_an_empty_list_of_members_is_no_error() -> None:
    assert leave(world()) == LeaveGroupResponse()


def test_the_former_holder_of_an_instance_can_not_leave_for_the_new_one() -> None:
    client = world()
    first = join(client, group_instance_id="i")
    join(client, group_instance_id="i")
    response = leave(client, MemberIdentity(member_id=first.member_id, group_instance_id="i"))
    assert response.members[0].error_code == ErrorCode.FENCED_INSTANCE_ID
