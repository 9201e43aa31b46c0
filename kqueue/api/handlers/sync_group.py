"""SyncGroup (key 14): distribute the leader's assignments; responds when they are in the log.

Versions 0 to 5:

    0       assignments
    1       throttle time
    2       clients throttle themselves (KIP-219)
    3       group instance ids (KIP-345)
    4       flexible encoding (KIP-482)
    5       protocol type and name are checked (KIP-559)
"""

from __future__ import annotations

from kqueue.api.access import on_group
from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext, wait_for
from kqueue.base.errors import InconsistentGroupProtocol, KqueueError
from kqueue.base.promise import Promise
from kqueue.broker.purgatory import DelayedOperation
from kqueue.groups.classic.member import SyncResult
from kqueue.security.operations import AclOperation
from kqueue.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

VERSIONS = (0, 5)
ACCESS = (on_group(AclOperation.READ),)
ITEM_WEIGHT = 10
VERSION_PROTOCOL = 5


def handle(
    request: SyncGroupRequest, context: RequestContext
) -> SyncGroupResponse | DelayedOperation[SyncGroupResponse]:
    """Respond with the member's assignment when the group's assignments are in the log."""
    try:
        if context.api_version >= VERSION_PROTOCOL and (request.protocol_type is None or request.protocol_name is None):
            raise InconsistentGroupProtocol("protocol type and name are required from version 5 on")
        promise = context.broker.coordinators.groups.sync(
            request.group_id,
            request.generation_id,
            request.member_id,
            request.group_instance_id,
            {assignment.member_id: assignment.assignment for assignment in request.assignments},
            request.protocol_type,
            request.protocol_name,
        )
    except KqueueError as error:
        return SyncGroupResponse(error_code=code_of(error))
    return wait_for(promise, _respond)


def _respond(promise: Promise[SyncResult]) -> SyncGroupResponse:
    try:
        synced = promise.result()
    except KqueueError as error:
        return SyncGroupResponse(error_code=code_of(error))
    return SyncGroupResponse(
        protocol_type=synced.protocol_type, protocol_name=synced.protocol_name, assignment=synced.assignment
    )
