"""WriteShareGroupState (key 85): change the persisted state of share partitions (KIP-932).

The leader of a partition sends it. Versions 0 to 1:

    0       start offset and states of records
    1       how many records from the start offset on are done (KIP-1226)
"""

from __future__ import annotations

from kqueue.api import share_states
from kqueue.api.access import on_cluster
from kqueue.api.request_context import RequestContext
from kqueue.api.share_states import StateApi, StateCall, checked_batches
from kqueue.base.errors import InvalidRequest
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.operations import AclOperation
from kqueue.share.share_state import ShareUpdate
from kqueue.wire.messages.write_share_group_state import (
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)

VERSIONS = (0, 1)
ACCESS = (on_cluster(AclOperation.CLUSTER_ACTION),)
ITEM_WEIGHT = 8


def handle(
    request: WriteShareGroupStateRequest, context: RequestContext
) -> WriteShareGroupStateResponse | DelayedOperation[WriteShareGroupStateResponse]:
    """Respond when the changes are persisted; FENCED_STATE_EPOCH: the share partition was reset or
    deleted, FENCED_LEADER_EPOCH: a later leader has read it.
    """
    return share_states.handle_states(_API, request, context)


def error_response(
    request: WriteShareGroupStateRequest, version: int, error: BaseException
) -> WriteShareGroupStateResponse:
    """Return `error` for each share partition."""
    return share_states.error_response(_API, request, error)


def _write(call: StateCall) -> None:
    partition = call.partition
    if min(partition.start_offset, partition.leader_epoch, partition.delivery_complete_count) < -1:
        raise InvalidRequest("an offset, a leader epoch and a count are -1 or more")
    update = ShareUpdate(
        partition.start_offset,
        checked_batches(partition.state_batches),
        partition.delivery_complete_count,
        partition.leader_epoch,
    )
    call.coordinator.write(call.key, partition.state_epoch, update, call.done)


_API = StateApi(WriteShareGroupStateResponse, WriteStateResult, PartitionResult, _write)
