"""InitProducerId (key 22): a producer id and epoch (KIP-98).

Versions 0 to 5:

    0       producer id and epoch
    1       clients throttle themselves (KIP-219)
    2       flexible encoding (KIP-482)
    3       the current id and epoch, to bump the epoch (KIP-360)
    4       PRODUCER_FENCED is known (KIP-588)
    5       TRANSACTION_ABORTABLE is known (KIP-890)

Without a transactional id every request gets a new producer id. Version 6 (KIP-939) is unstable in
Kafka 4.3.
"""

from __future__ import annotations

from kqueue.api.access import on_each
from kqueue.api.request_context import RequestContext, wait_for, wait_for_write
from kqueue.api.transaction_errors import transaction_code
from kqueue.base.errors import InvalidRequest, KqueueError
from kqueue.base.promise import Promise
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.transactions.transaction_metadata import ProducerIdAndEpoch
from kqueue.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

VERSIONS = (0, 5)
ACCESS = (
    on_each(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "with a transactional id"),
    on_each(AclOperation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID, "with `enable2_pc`"),
    on_each(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, "without a transactional id; or WRITE of any topic"),
)
NONE = -1
FIRST_EPOCH = 0
VERSION_FENCED = 4


def handle(
    request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse | DelayedOperation[InitProducerIdResponse]:
    """Return a new id, or that of the transactional id with a higher epoch."""
    version = context.api_version
    try:
        _authorize(request, context)
        _check(request)
    except KqueueError as error:
        return error_response(request, version, error)
    if request.transactional_id is None:
        new = context.broker.metadata.producer_ids.allocate()
        return wait_for(new, lambda promise: _respond_new(request, promise, version))
    transactions = context.broker.coordinators.transactions
    promise = transactions.init_producer_id(
        request.transactional_id,
        request.transaction_timeout_ms,
        request.producer_id,
        request.producer_epoch,
        two_phase=request.enable2_pc,
        keep_prepared=request.keep_prepared_txn,
    )
    timeout_ms = transactions.config.timeout_max_ms if request.enable2_pc else request.transaction_timeout_ms
    return wait_for_write(promise, lambda promise: _respond(request, promise, version), context, timeout_ms)


def error_response(request: InitProducerIdRequest, version: int, error: BaseException) -> InitProducerIdResponse:
    """Return `error`."""
    code = transaction_code(error, knows_fenced=version >= VERSION_FENCED)
    return InitProducerIdResponse(error_code=code, producer_epoch=NONE)


def _authorize(request: InitProducerIdRequest, context: RequestContext) -> None:
    if request.transactional_id is None:
        if not context.allows_any(AclOperation.WRITE, ResourceType.TOPIC):
            context.require(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
        return
    context.require(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    if request.enable2_pc:
        context.require(AclOperation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID, request.transactional_id)


def _check(request: InitProducerIdRequest) -> None:
    if request.transactional_id == "":
        raise InvalidRequest("a transactional id must not be empty")
    if (request.producer_id == NONE) != (request.producer_epoch == NONE):
        raise InvalidRequest(
            f"producer id {request.producer_id} with epoch {request.producer_epoch}: name both or neither"
        )


def _respond_new(request: InitProducerIdRequest, promise: Promise[int], version: int) -> InitProducerIdResponse:
    if promise.error is not None:
        return error_response(request, version, promise.error)
    return InitProducerIdResponse(producer_id=promise.result(), producer_epoch=FIRST_EPOCH)


def _respond(
    request: InitProducerIdRequest, promise: Promise[ProducerIdAndEpoch], version: int
) -> InitProducerIdResponse:
    if promise.error is not None:
        return error_response(request, version, promise.error)
    producer = promise.result()
    return InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch)
