"""AddOffsetsToTxn (key 25): make a group's offsets part of a transaction (KIP-98).

Versions 0 to 4:

    0       transactional id, producer id and epoch, group
    1       clients throttle themselves (KIP-219)
    2       PRODUCER_FENCED is known (KIP-588)
    3       flexible encoding (KIP-482)
    4       TRANSACTION_ABORTABLE is known (KIP-890)

Producers of transactions V2 do not send it: TxnOffsetCommit adds the partition.
"""

from __future__ import annotations

from kqueue.api.access import on_group, on_transactional_id
from kqueue.api.request_context import RequestContext, wait_for_write
from kqueue.api.transaction_errors import transaction_code
from kqueue.base.promise import Promise
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.topics.topics import OFFSETS_TOPIC
from kqueue.security.operations import AclOperation
from kqueue.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

VERSIONS = (0, 4)
ACCESS = (on_transactional_id(AclOperation.WRITE), on_group(AclOperation.READ))
VERSION_FENCED = 2


def handle(
    request: AddOffsetsToTxnRequest, context: RequestContext
) -> AddOffsetsToTxnResponse | DelayedOperation[AddOffsetsToTxnResponse]:
    """Add the partition that keeps the group's offsets."""
    broker, version = context.broker, context.api_version
    promise = broker.coordinators.transactions.add_partitions(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        [(OFFSETS_TOPIC, broker.coordinators.groups.partition_of(request.group_id))],
        transaction_version=0,
    )
    timeout_ms = broker.coordinators.transactions.write_timeout_ms(request.transactional_id)
    return wait_for_write(promise, lambda promise: _respond(promise, version), context, timeout_ms)


def _respond(promise: Promise[None], version: int) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=transaction_code(promise.error, knows_fenced=version >= VERSION_FENCED))
