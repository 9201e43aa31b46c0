"""UnregisterBroker (key 64): remove a broker from the cluster (KIP-631).

Version 0: the broker's id; unknown ids get BROKER_ID_NOT_REGISTERED. Not emulated: Kafka removes
brokers that serve, too, which leaves their partitions to others until they start again. Here that
is refused with POLICY_VIOLATION; stop it first.
"""

from __future__ import annotations

from kqueue.api.access import on_cluster
from kqueue.api.errors import CodedError, code_of, message_of
from kqueue.api.request_context import RequestContext, error_of, wait_for
from kqueue.broker.cluster.broker_removal import remove_broker
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.operations import AclOperation
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

VERSIONS = (0, 0)
ACCESS = (on_cluster(AclOperation.ALTER),)
WAIT_MS = 10_000
LATE = "the removal was not stored in time; it may still happen"


def handle(
    request: UnregisterBrokerRequest, context: RequestContext
) -> UnregisterBrokerResponse | DelayedOperation[UnregisterBrokerResponse]:
    """Respond when it is stored. Raises PolicyViolation: it serves. CodedError: it is unknown."""
    broker = context.broker
    if broker.metadata.cluster.find(request.broker_id) is None:
        raise CodedError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {request.broker_id} is not registered")
    promise = remove_broker(request.broker_id, broker.metadata.cache, broker.metadata.cluster)
    return wait_for(promise, lambda removed: _response(error_of(removed, LATE)), context.deadline_ms(WAIT_MS))


def error_response(request: UnregisterBrokerRequest, version: int, error: BaseException) -> UnregisterBrokerResponse:
    """Return `error` with its message."""
    return _response(error)


def _response(error: BaseException | None) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_code=code_of(error), error_message=message_of(error))
