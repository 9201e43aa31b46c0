"""ExpireDelegationToken (key 40): end a token, or say when it ends (KIP-48).

Versions 0 to 2; 2: flexible encoding. The owner and the renewers may end it. A negative
`expiry_time_period_ms` ends it at once, and is the end in the response, as in Kafka.
"""

from __future__ import annotations

from kqueue.api.access import Rule
from kqueue.api.request_context import RequestContext
from kqueue.api.token_expiry import expiry_response, refused_expiry
from kqueue.broker.purgatory import DelayedOperation
from kqueue.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse

VERSIONS = (0, 2)
ACCESS: tuple[Rule, ...] = ()


def handle(
    request: ExpireDelegationTokenRequest, context: RequestContext
) -> ExpireDelegationTokenResponse | DelayedOperation[ExpireDelegationTokenResponse]:
    """Respond when the token's new end is stored."""
    tokens = context.broker.security.tokens
    return expiry_response(
        context,
        lambda: tokens.expire(context.principal, request.hmac, request.expiry_time_period_ms),
        ExpireDelegationTokenResponse,
    )


def error_response(
    request: ExpireDelegationTokenRequest, version: int, error: BaseException
) -> ExpireDelegationTokenResponse:
    """Return `error`."""
    return refused_expiry(ExpireDelegationTokenResponse, error)
