"""ReadShareGroupStateSummary (key 87): where share groups are (KIP-932).

The group coordinator sends it, to describe their offsets. Versions 0 to 1:

    0       epochs and start offset
    1       how many records from the start offset on are done (KIP-1226)
"""

from __future__ import annotations

from typing import Any

from kqueue.api import share_states
from kqueue.api.access import on_cluster
from kqueue.api.request_context import RequestContext
from kqueue.api.share_states import StateApi
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.operations import AclOperation
from kqueue.share.share_state import NO_OFFSET, ShareState
from kqueue.wire.messages.read_share_group_state_summary import (
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)

VERSIONS = (0, 1)
ACCESS = (on_cluster(AclOperation.CLUSTER_ACTION),)
ITEM_WEIGHT = 8


def handle(
    request: ReadShareGroupStateSummaryRequest, context: RequestContext
) -> ReadShareGroupStateSummaryResponse | DelayedOperation[ReadShareGroupStateSummaryResponse]:
    """Respond with what is persisted; a start offset of -1 where there is no state."""
    return share_states.handle_states(_API, request, context)


def error_response(
    request: ReadShareGroupStateSummaryRequest, version: int, error: BaseException
) -> ReadShareGroupStateSummaryResponse:
    """Return `error` for each share partition."""
    return share_states.error_response(_API, request, error)


def _fill(result: Any, state: ShareState | None) -> None:
    if state is None:
        result.start_offset = NO_OFFSET
        return
    result.state_epoch, result.leader_epoch = state.state_epoch, state.leader_epoch
    result.start_offset, result.delivery_complete_count = state.start_offset, state.delivery_complete_count


_API = StateApi(
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
    PartitionResult,
    lambda call: call.done(call.coordinator.read(call.key)),
    _fill,
)
