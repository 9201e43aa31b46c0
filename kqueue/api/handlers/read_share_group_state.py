"""ReadShareGroupState (key 84): the persisted state of share partitions (KIP-932).

The leader of a partition sends it before it serves the share group. Its leader epoch is noted:
requests of earlier leaders are refused with FENCED_LEADER_EPOCH. A leader epoch of -1 is not
checked.
"""

from __future__ import annotations

from typing import Any

from kqueue.api import share_states
from kqueue.api.access import on_cluster
from kqueue.api.request_context import RequestContext
from kqueue.api.share_states import StateApi, StateCall
from kqueue.base.errors import InvalidRequest, KqueueError
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.operations import AclOperation
from kqueue.share.share_state import ShareState
from kqueue.wire.messages.read_share_group_state import (
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)

VERSIONS = (0, 0)
ACCESS = (on_cluster(AclOperation.CLUSTER_ACTION),)
ITEM_WEIGHT = 8


def handle(
    request: ReadShareGroupStateRequest, context: RequestContext
) -> ReadShareGroupStateResponse | DelayedOperation[ReadShareGroupStateResponse]:
    """Respond when the leader epochs are persisted; INVALID_REQUEST: there is no state."""
    return share_states.handle_states(_API, request, context)


def error_response(
    request: ReadShareGroupStateRequest, version: int, error: BaseException
) -> ReadShareGroupStateResponse:
    """Return `error` for each share partition."""
    return share_states.error_response(_API, request, error)


def _read(call: StateCall) -> None:
    def done(state: ShareState | KqueueError | None) -> None:
        if state is None:
            state = InvalidRequest("Read operation on uninitialized share partition not allowed.")
        call.done(state)

    call.coordinator.read_for_leader(call.key, max(call.partition.leader_epoch, -1), done)


def _fill(result: Any, state: ShareState | None) -> None:
    assert state is not None
    result.state_epoch, result.start_offset = state.state_epoch, state.start_offset
    result.state_batches = [
        StateBatch(
            first_offset=batch.first,
            last_offset=batch.last,
            delivery_state=int(batch.state),
            delivery_count=batch.delivery_count,
        )
        for batch in state.batches
    ]


_API = StateApi(ReadShareGroupStateResponse, ReadStateResult, PartitionResult, _read, _fill)
