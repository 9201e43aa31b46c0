"""UnregisterBroker (key 64): remove a broker from the cluster (KIP-631).

Version 0: the broker's id; unknown ids get BROKER_ID_NOT_REGISTERED. Not emulated: Kafka lets its
only broker be removed, which leaves all partitions without a leader until it starts again. Here
that is refused with POLICY_VIOLATION.
"""

from __future__ import annotations

from kqueue.api.errors import CodedError, code_of, message_of
from kqueue.api.request_context import RequestContext
from kqueue.base.errors import PolicyViolation
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

VERSIONS = (0, 0)


def handle(request: UnregisterBrokerRequest, context: RequestContext) -> UnregisterBrokerResponse:
    """Refuse it: there is no other broker. Raises PolicyViolation, CodedError."""
    node_id = context.broker.node_id
    if request.broker_id != node_id:
        raise CodedError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {request.broker_id} is not registered")
    raise PolicyViolation(f"broker {node_id} is the only one: without it no partition has a leader")


def error_response(request: UnregisterBrokerRequest, version: int, error: BaseException) -> UnregisterBrokerResponse:
    """Return `error` with its message."""
    return UnregisterBrokerResponse(error_code=code_of(error), error_message=message_of(error))
