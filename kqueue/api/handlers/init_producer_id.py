"""InitProducerId (key 22): a producer id for an idempotent producer (KIP-98).

Versions 0 to 5:

    0       producer id and epoch
    1       clients throttle themselves (KIP-219)
    2       flexible encoding (KIP-482)
    3       the current id and epoch, to bump the epoch (KIP-360)
    4       PRODUCER_FENCED is known (KIP-588)
    5       TRANSACTION_ABORTABLE is known (KIP-890)

Not emulated: transactions (TransactionsNotServed) and bumped epochs: every request gets a new id.
"""

from __future__ import annotations

from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext, wait_for
from kqueue.base.errors import InvalidRequest, KqueueError, TransactionsNotServed
from kqueue.base.promise import Promise
from kqueue.broker.purgatory import DelayedOperation
from kqueue.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

VERSIONS = (0, 5)
NONE = -1
FIRST_EPOCH = 0


def handle(
    request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse | DelayedOperation[InitProducerIdResponse]:
    """Return a new id, also to a producer that names its old one. Raises TransactionsNotServed."""
    if request.transactional_id:
        raise TransactionsNotServed(request.transactional_id)
    try:
        _check(request)
        promise = context.broker.producer_ids.allocate()
    except KqueueError as error:
        return _refused(error)
    return wait_for(promise, _respond)


def error_response(request: InitProducerIdRequest, version: int, error: BaseException) -> InitProducerIdResponse:
    """Return `error`."""
    return _refused(error)


def _check(request: InitProducerIdRequest) -> None:
    if request.transactional_id == "":
        raise InvalidRequest("a transactional id must not be empty")
    if (request.producer_id == NONE) != (request.producer_epoch == NONE):
        raise InvalidRequest(
            f"producer id {request.producer_id} with epoch {request.producer_epoch}: name both or neither"
        )


def _respond(promise: Promise[int]) -> InitProducerIdResponse:
    try:
        return InitProducerIdResponse(producer_id=promise.result(), producer_epoch=FIRST_EPOCH)
    except KqueueError as error:
        return _refused(error)


def _refused(error: BaseException) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code_of(error), producer_epoch=NONE)
