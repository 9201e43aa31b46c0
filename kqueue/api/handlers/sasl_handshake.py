"""SaslHandshake (key 17): choose a SASL mechanism.

Versions 0 and 1:

    0       the mechanism's tokens follow without requests, each with its length
    1       the tokens follow in SaslAuthenticate requests (KIP-152)

On an authenticated connection whose session has an end it begins a re-authentication (KIP-368).
Source: Kafka's SaslServerAuthenticator.
"""

from __future__ import annotations

from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext, wait_for
from kqueue.api.sasl_connection import sasl_of
from kqueue.base.promise import Promise
from kqueue.broker.purgatory import DelayedOperation
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

VERSIONS = (0, 1)
ACCESS = ()
VERSION_FRAMED = 1


def handle(
    request: SaslHandshakeRequest, context: RequestContext
) -> SaslHandshakeResponse | DelayedOperation[SaslHandshakeResponse]:
    """Respond with the mechanisms of the listener, and an error if the choice is none of them."""
    connection = sasl_of(context)
    if connection is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    mechanisms = list(connection.mechanisms)

    def respond(chosen: Promise[None]) -> SaslHandshakeResponse:
        code = ErrorCode.NONE if chosen.error is None else code_of(chosen.error)
        return SaslHandshakeResponse(error_code=code, mechanisms=mechanisms)

    return wait_for(connection.choose(request.mechanism, framed=context.api_version >= VERSION_FRAMED), respond)
