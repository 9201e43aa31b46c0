"""FindCoordinator (key 10): the broker that coordinates a group or a transactional id; here always
this one.

Versions 0 to 6:

    0       a group
    1       key type: group or transactional id (KIP-98); throttle time; error messages
    2       clients throttle themselves (KIP-219)
    3       flexible encoding (KIP-482)
    4       several keys at once (KIP-699)
    5       TRANSACTION_ABORTABLE is known (KIP-890)
    6       key type share group (KIP-932), which brokers ask for

Not emulated: key type share group. The members of share groups ask for that of their group.
"""

from __future__ import annotations

from collections.abc import Iterable

from kqueue.api.errors import code_of, message_of
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import collect, in_slices
from kqueue.base.errors import InvalidRequest
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

VERSIONS = (0, 6)
ITEM_WEIGHT = 4
VERSION_BATCHES = 4
GROUP = 0
TRANSACTION = 1
NO_NODE = -1


def handle(
    request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse | DelayedOperation[FindCoordinatorResponse]:
    """Return this broker for every group and every transactional id."""
    if request.key_type not in (GROUP, TRANSACTION):
        return error_response(
            request, context.api_version, InvalidRequest(f"keys of type {request.key_type} have no coordinator here")
        )
    node_id, (host, port) = context.broker.node_id, context.endpoint()
    if context.api_version < VERSION_BATCHES:
        return FindCoordinatorResponse(node_id=node_id, host=host, port=port)
    return in_slices(
        context,
        _coordinators(dict.fromkeys(request.coordinator_keys), Coordinator(node_id=node_id, host=host, port=port)),
    )


def _coordinators(keys: Iterable[str], own: Coordinator) -> SlicedWork[FindCoordinatorResponse]:
    coordinators = yield from collect(
        lambda key: Coordinator(key=key, node_id=own.node_id, host=own.host, port=own.port), keys
    )
    return FindCoordinatorResponse(coordinators=coordinators)


def error_response(request: FindCoordinatorRequest, version: int, error: BaseException) -> FindCoordinatorResponse:
    """Return `error` for each key."""
    code, words = code_of(error), message_of(error)
    if version < VERSION_BATCHES:
        return FindCoordinatorResponse(error_code=code, error_message=words, node_id=NO_NODE, port=NO_NODE)
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=NO_NODE, port=NO_NODE, error_code=code, error_message=words)
            for key in request.coordinator_keys
        ]
    )
