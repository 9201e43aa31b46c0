"""DeleteShareGroupState (key 86): forget share partitions (KIP-932).

The group coordinator sends it. One that has no state is deleted already; its topic may be gone.
"""

from __future__ import annotations

from kqueue.api import share_states
from kqueue.api.access import on_cluster
from kqueue.api.request_context import RequestContext
from kqueue.api.share_states import StateApi
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.operations import AclOperation
from kqueue.wire.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)

VERSIONS = (0, 0)
ACCESS = (on_cluster(AclOperation.CLUSTER_ACTION),)
ITEM_WEIGHT = 8


def handle(
    request: DeleteShareGroupStateRequest, context: RequestContext
) -> DeleteShareGroupStateResponse | DelayedOperation[DeleteShareGroupStateResponse]:
    """Respond when the deletions are persisted."""
    return share_states.handle_states(_API, request, context)


def error_response(
    request: DeleteShareGroupStateRequest, version: int, error: BaseException
) -> DeleteShareGroupStateResponse:
    """Return `error` for each share partition."""
    return share_states.error_response(_API, request, error)


_API = StateApi(
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
    lambda call: call.coordinator.delete(call.key, call.done),
    needs_topic=False,
)
