"""InitializeShareGroupState (key 83): give share partitions a state, or another one (KIP-932).

The group coordinator sends it. A state of a lower state epoch is refused with FENCED_STATE_EPOCH.
"""

from __future__ import annotations

from kqueue.api import share_states
from kqueue.api.access import on_cluster
from kqueue.api.request_context import RequestContext
from kqueue.api.share_states import StateApi, StateCall
from kqueue.base.errors import InvalidRequest
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.operations import AclOperation
from kqueue.share.share_state import NO_OFFSET
from kqueue.wire.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)

VERSIONS = (0, 0)
ACCESS = (on_cluster(AclOperation.CLUSTER_ACTION),)
ITEM_WEIGHT = 8


def handle(
    request: InitializeShareGroupStateRequest, context: RequestContext
) -> InitializeShareGroupStateResponse | DelayedOperation[InitializeShareGroupStateResponse]:
    """Respond when the states are persisted."""
    return share_states.handle_states(_API, request, context)


def error_response(
    request: InitializeShareGroupStateRequest, version: int, error: BaseException
) -> InitializeShareGroupStateResponse:
    """Return `error` for each share partition."""
    return share_states.error_response(_API, request, error)


def _initialize(call: StateCall) -> None:
    state_epoch, start_offset = call.partition.state_epoch, call.partition.start_offset
    if state_epoch < 0 or start_offset < NO_OFFSET:
        raise InvalidRequest(f"expected a state epoch and an offset, found {state_epoch} and {start_offset}")
    call.coordinator.initialize(call.key, state_epoch, start_offset, call.done)


_API = StateApi(InitializeShareGroupStateResponse, InitializeStateResult, PartitionResult, _initialize)
