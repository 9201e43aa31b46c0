"""LeaveGroup (key 13): remove members now, without waiting for their sessions to expire.

Versions 0 to 5:

    0       one member
    1       throttle time
    2       clients throttle themselves (KIP-219)
    3       several members, each with its own error (KIP-345)
    4       flexible encoding (KIP-482)
    5       reason (KIP-800)
"""

from __future__ import annotations

from collections.abc import Sequence

from kqueue.api.access import on_group
from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext, wait_for_write
from kqueue.base.errors import KqueueError
from kqueue.base.promise import Promise
from kqueue.broker.purgatory import DelayedOperation
from kqueue.groups.classic.member import LeavingMember
from kqueue.groups.offsets.offset_manager import Outcomes
from kqueue.security.operations import AclOperation
from kqueue.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

VERSIONS = (0, 5)
ACCESS = (on_group(AclOperation.READ),)
ITEM_WEIGHT = 20
VERSION_SEVERAL = 3


def handle(
    request: LeaveGroupRequest, context: RequestContext
) -> LeaveGroupResponse | DelayedOperation[LeaveGroupResponse]:
    """Remove the members; from version 3 on each has an error of its own."""
    several = context.api_version >= VERSION_SEVERAL
    leaving = (
        [LeavingMember(member.member_id, member.group_instance_id) for member in request.members]
        if several
        else [LeavingMember(request.member_id)]
    )
    try:
        promise = context.broker.coordinators.groups.leave(request.group_id, leaving)
    except KqueueError as error:
        return LeaveGroupResponse(error_code=code_of(error))
    return wait_for_write(promise, lambda promise: _respond(leaving, promise, several=several), context)


def _respond(leaving: Sequence[LeavingMember], promise: Promise[Outcomes], *, several: bool) -> LeaveGroupResponse:
    try:
        outcomes = promise.result()
    except KqueueError as error:
        return LeaveGroupResponse(error_code=code_of(error))
    if not several:
        return LeaveGroupResponse(error_code=code_of(outcomes[0]))
    return LeaveGroupResponse(
        members=[
            MemberResponse(
                member_id=member.member_id, group_instance_id=member.instance_id, error_code=code_of(outcome)
            )
            for member, outcome in zip(leaving, outcomes, strict=True)
        ]
    )
