"""SaslAuthenticate (key 36): exchange one step of a SASL mechanism.

Versions 0 to 2:

    0       tokens
    1       how long the session lasts (KIP-368)
    2       flexible encoding

Source: Kafka's SaslServerAuthenticator.
"""

from __future__ import annotations

from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext, wait_for
from kqueue.api.sasl_connection import SaslAnswer, sasl_of
from kqueue.base.promise import Promise
from kqueue.broker.purgatory import DelayedOperation
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

VERSIONS = (0, 2)
ACCESS = ()


def handle(
    request: SaslAuthenticateRequest, context: RequestContext
) -> SaslAuthenticateResponse | DelayedOperation[SaslAuthenticateResponse]:
    """Respond with the server's token, or an error that says nothing about what is wrong."""
    connection = sasl_of(context)
    if connection is None:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message="the listener has no SASL"
        )
    return wait_for(connection.respond(bytes(request.auth_bytes)), _respond)


def _respond(answer: Promise[SaslAnswer]) -> SaslAuthenticateResponse:
    if answer.error is not None:
        return SaslAuthenticateResponse(error_code=code_of(answer.error), error_message=str(answer.error))
    token, session_ms = answer.result()
    return SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=session_ms)


def error_response(request: SaslAuthenticateRequest, version: int, error: BaseException) -> SaslAuthenticateResponse:
    """Return the error alone: what an unexpected one says may be a secret."""
    return SaslAuthenticateResponse(error_code=code_of(error), error_message="the broker could not authenticate")
