"""Heartbeat (key 12): keep a member's session alive; the response says whether it must rejoin.

Versions 0 to 4:

    0       group, generation, member
    1       throttle time
    2       clients throttle themselves (KIP-219)
    3       group instance ids (KIP-345)
    4       flexible encoding (KIP-482)
"""

from __future__ import annotations

from kqueue.api.access import on_group
from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext
from kqueue.base.errors import KqueueError
from kqueue.security.operations import AclOperation
from kqueue.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

VERSIONS = (0, 4)
ACCESS = (on_group(AclOperation.READ),)


def handle(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
    """Renew the member's session."""
    try:
        context.broker.coordinators.groups.heartbeat(
            request.group_id, request.generation_id, request.member_id, request.group_instance_id
        )
    except KqueueError as error:
        return HeartbeatResponse(error_code=code_of(error))
    return HeartbeatResponse()
