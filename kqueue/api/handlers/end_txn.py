"""EndTxn (key 26): commit or abort a transaction (KIP-98).

Responds when the decision is in the log, and normally when every partition has its marker. Versions
0 to 5:

    0       transactional id, producer id and epoch, decision
    1       clients throttle themselves (KIP-219)
    2       PRODUCER_FENCED is known (KIP-588)
    3       flexible encoding (KIP-482)
    4       TRANSACTION_ABORTABLE is known (KIP-890)
    5       each end raises the epoch; the response has the next one (KIP-890)
"""

from __future__ import annotations

from kqueue.api.access import on_transactional_id
from kqueue.api.request_context import RequestContext, wait_for_write
from kqueue.api.transaction_errors import transaction_code
from kqueue.base.promise import Promise
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.operations import AclOperation
from kqueue.transactions.transaction_metadata import ProducerIdAndEpoch
from kqueue.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

VERSIONS = (0, 5)
ACCESS = (on_transactional_id(AclOperation.WRITE),)
VERSION_FENCED = 2
VERSION_EPOCH_BUMP = 5


def handle(request: EndTxnRequest, context: RequestContext) -> EndTxnResponse | DelayedOperation[EndTxnResponse]:
    """End the producer's transaction."""
    version = context.api_version
    promise = context.broker.coordinators.transactions.end(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        transaction_version=2 if version >= VERSION_EPOCH_BUMP else 0,
    )
    timeout_ms = context.broker.coordinators.transactions.write_timeout_ms(request.transactional_id)
    return wait_for_write(promise, lambda promise: _respond(promise, version), context, timeout_ms)


def _respond(promise: Promise[ProducerIdAndEpoch], version: int) -> EndTxnResponse:
    if promise.error is not None:
        return EndTxnResponse(error_code=transaction_code(promise.error, knows_fenced=version >= VERSION_FENCED))
    if version < VERSION_EPOCH_BUMP:
        return EndTxnResponse()
    producer = promise.result()
    return EndTxnResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch)
