"""LeaveGroup: members go at once, so that the others need not wait for their sessions to end."""

from __future__ import annotations

from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext
from kqueue.base.errors import KqueueError
from kqueue.groups.classic_member import LeavingMember
from kqueue.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

VERSIONS = (0, 5)
ITEM_WEIGHT = 20
VERSION_SEVERAL = 3


def handle(request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
    """Version 3 and later name several members, each with an answer of its own."""
    several = context.api_version >= VERSION_SEVERAL
    leaving = (
        [LeavingMember(one.member_id, one.group_instance_id) for one in request.members]
        if several
        else [LeavingMember(request.member_id)]
    )
    try:
        answers = context.broker.groups.leave(request.group_id, leaving)
    except KqueueError as error:
        return LeaveGroupResponse(error_code=code_of(error))
    if not several:
        return LeaveGroupResponse(error_code=code_of(answers[0]))
    return LeaveGroupResponse(
        members=[
            MemberResponse(member_id=one.member_id, group_instance_id=one.instance_id, error_code=code_of(answer))
            for one, answer in zip(leaving, answers, strict=True)
        ]
    )
