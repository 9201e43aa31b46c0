"""JoinGroup (key 11): become or stay a member of a group; responds with its next generation.

Versions 0 to 9:

    0       session timeout
    1       rebalance timeout (KIP-62)
    2       throttle time
    3       clients throttle themselves (KIP-219)
    4       MEMBER_ID_REQUIRED: a new member gets its id first (KIP-394)
    5       group instance ids: static members (KIP-345)
    6       flexible encoding (KIP-482)
    7       protocol type and nullable name in the response (KIP-559)
    8       reason of the join (KIP-800)
    9       the leader may skip the assignment (KIP-814)
"""

from __future__ import annotations

from kqueue.api.access import on_group
from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext, wait_for
from kqueue.base.errors import GroupMaxSizeReached, KqueueError, MemberIdRequired
from kqueue.base.promise import Promise
from kqueue.broker.purgatory import DelayedOperation
from kqueue.groups.classic.member import JoinRequest, JoinResult
from kqueue.security.operations import AclOperation
from kqueue.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

VERSIONS = (0, 9)
ACCESS = (on_group(AclOperation.READ),)
ITEM_WEIGHT = 100
VERSION_REBALANCE_TIMEOUT = 1
VERSION_ID_REQUIRED = 4
VERSION_NULL_PROTOCOL = 7
VERSION_SKIP_ASSIGNMENT = 9


def handle(
    request: JoinGroupRequest, context: RequestContext
) -> JoinGroupResponse | DelayedOperation[JoinGroupResponse]:
    """Respond when the group's next generation is complete."""
    version = context.api_version
    try:
        promise = context.broker.coordinators.groups.join(
            _joining(request, context),
            id_required=version >= VERSION_ID_REQUIRED,
            can_skip=version >= VERSION_SKIP_ASSIGNMENT,
        )
    except KqueueError as error:
        return _refused(request, version, error)
    return wait_for(promise, lambda promise: _respond(request, version, promise))


def _joining(request: JoinGroupRequest, context: RequestContext) -> JoinRequest:
    has_rebalance_timeout = context.api_version >= VERSION_REBALANCE_TIMEOUT
    return JoinRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocols={protocol.name: protocol.metadata for protocol in request.protocols},
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms if has_rebalance_timeout else request.session_timeout_ms,
        client_id=context.client_id or "",
        client_host=context.client_host,
    )


def _respond(request: JoinGroupRequest, version: int, promise: Promise[JoinResult]) -> JoinGroupResponse:
    try:
        joined = promise.result()
    except KqueueError as error:
        return _refused(request, version, error)
    return JoinGroupResponse(
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol_name,
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata
            )
            for member in joined.members
        ],
    )


def _refused(request: JoinGroupRequest, version: int, error: KqueueError) -> JoinGroupResponse:
    member_id = request.member_id
    if isinstance(error, MemberIdRequired):
        member_id = error.member_id
    elif isinstance(error, GroupMaxSizeReached):
        member_id = ""
    protocol_name = None if version >= VERSION_NULL_PROTOCOL else ""
    return JoinGroupResponse(error_code=code_of(error), protocol_name=protocol_name, member_id=member_id)
