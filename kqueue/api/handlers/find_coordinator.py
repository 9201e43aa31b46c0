"""FindCoordinator (key 10): the broker that coordinates a group, a transactional id or a share
partition; here always this one.

Versions 0 to 6:

    0       a group
    1       key type: group or transactional id (KIP-98); throttle time; error messages
    2       clients throttle themselves (KIP-219)
    3       flexible encoding (KIP-482)
    4       several keys at once (KIP-699)
    5       TRANSACTION_ABORTABLE is known (KIP-890)
    6       key type share partition (KIP-932): a key `group:topic id:partition`, the id in base64
"""

from __future__ import annotations

import re
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
VERSION_SHARE = 6
GROUP = 0
TRANSACTION = 1
SHARE = 2
SHARE_KEY = re.compile(r".+:[A-Za-z0-9_-]{22}:[0-9]{1,10}", re.DOTALL)
NO_NODE = -1


def handle(
    request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse | DelayedOperation[FindCoordinatorResponse]:
    """Return this broker for every key of a known type."""
    if not _has_coordinator(request.key_type, context.api_version):
        return error_response(
            request, context.api_version, InvalidRequest(f"keys of type {request.key_type} have no coordinator here")
        )
    node_id, (host, port) = context.broker.node_id, context.endpoint()
    if context.api_version < VERSION_BATCHES:
        return FindCoordinatorResponse(node_id=node_id, host=host, port=port)
    return in_slices(
        context,
        _coordinators(
            dict.fromkeys(request.coordinator_keys),
            Coordinator(node_id=node_id, host=host, port=port),
            SHARE_KEY if request.key_type == SHARE else None,
        ),
    )


def _has_coordinator(key_type: int, version: int) -> bool:
    return key_type in (GROUP, TRANSACTION) or (key_type == SHARE and version >= VERSION_SHARE)


def _coordinators(
    keys: Iterable[str], own: Coordinator, pattern: re.Pattern[str] | None
) -> SlicedWork[FindCoordinatorResponse]:
    """Return `own` for each key, an error for those that do not match `pattern`."""

    def one(key: str) -> Coordinator:
        if pattern is None or pattern.fullmatch(key):
            return Coordinator(key=key, node_id=own.node_id, host=own.host, port=own.port)
        return _refused(key, InvalidRequest("a key of type 2 is group:topic id:partition, the topic id in base64"))

    coordinators = yield from collect(one, keys)
    return FindCoordinatorResponse(coordinators=coordinators)


def error_response(request: FindCoordinatorRequest, version: int, error: BaseException) -> FindCoordinatorResponse:
    """Return `error` for each key."""
    if version < VERSION_BATCHES:
        return FindCoordinatorResponse(
            error_code=code_of(error), error_message=message_of(error), node_id=NO_NODE, port=NO_NODE
        )
    return FindCoordinatorResponse(coordinators=[_refused(key, error) for key in request.coordinator_keys])


def _refused(key: str, error: BaseException) -> Coordinator:
    return Coordinator(
        key=key, node_id=NO_NODE, port=NO_NODE, error_code=code_of(error), error_message=message_of(error)
    )
