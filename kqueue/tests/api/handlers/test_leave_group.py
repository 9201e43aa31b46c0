from __future__ import annotations

import pytest

from kqueue.groups.classic_state import ClassicGroupState
from kqueue.tests.api.group_client import join, leave, stable, start_join, world
from kqueue.tests.api.harness import versions_of
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

ONE = [version for version in versions_of("leave_group") if version < 3]
MANY = [version for version in versions_of("leave_group") if version >= 3]


@pytest.mark.parametrize("version", ONE)
def test_one_member_leaves(version: int) -> None:
    asker = world()
    joined = stable(asker)
    request = LeaveGroupRequest(group_id="g", member_id=joined.member_id)
    assert asker.ask(request, version) == LeaveGroupResponse()
    assert asker.sim.broker.groups.describe("g").state is ClassicGroupState.EMPTY
    assert asker.ask(request, version) == LeaveGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)


@pytest.mark.parametrize("version", MANY)
def test_several_leave_each_with_an_answer(version: int) -> None:
    asker = world()
    first, second = join(asker, group_instance_id="i"), start_join(asker)
    join(asker, member_id=first.member_id, group_instance_id="i")
    response = leave(
        asker,
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
    assert asker.sim.broker.groups.describe("g").state is ClassicGroupState.EMPTY


@pytest.mark.parametrize("version", MANY)
def test_leaving_an_unknown_group_is_an_error(version: int) -> None:
    response = leave(world(), MemberIdentity(member_id="x", group_instance_id="i"), version=version)
    assert response.error_code == ErrorCode.NONE
    assert [(one.member_id, one.group_instance_id, one.error_code) for one in response.members] == [
        ("x", "i", ErrorCode.UNKNOWN_MEMBER_ID)
    ]


@pytest.mark.parametrize("version", [*ONE, *MANY])
def test_a_group_needs_a_name(version: int) -> None:
    members = [MemberIdentity(member_id="x")] if version >= 3 else []
    response = world().ask(LeaveGroupRequest(group_id="", members=members), version)
    assert response == LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)


def test_an_empty_list_of_members_is_no_error() -> None:
    assert leave(world()) == LeaveGroupResponse()


def test_the_former_holder_of_an_instance_can_not_leave_for_the_new_one() -> None:
    asker = world()
    first = join(asker, group_instance_id="i")
    join(asker, group_instance_id="i")
    response = leave(asker, MemberIdentity(member_id=first.member_id, group_instance_id="i"))
    assert response.members[0].error_code == ErrorCode.FENCED_INSTANCE_ID
