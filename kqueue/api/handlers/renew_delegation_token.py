"""RenewDelegationToken (key 39): let a token live longer (KIP-48).

Versions 0 to 2; 2: flexible encoding. The owner and the renewers may renew it, never beyond its
maximum lifetime. `renew_period_ms` 0 or less: `delegation.token.expiry.time.ms`.
"""

from __future__ import annotations

from kqueue.api.access import Rule
from kqueue.api.request_context import RequestContext
from kqueue.api.token_expiry import expiry_response, refused_expiry
from kqueue.broker.purgatory import DelayedOperation
from kqueue.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

VERSIONS = (0, 2)
ACCESS: tuple[Rule, ...] = ()


def handle(
    request: RenewDelegationTokenRequest, context: RequestContext
) -> RenewDelegationTokenResponse | DelayedOperation[RenewDelegationTokenResponse]:
    """Respond when the token's new end is stored."""
    tokens = context.broker.security.tokens
    return expiry_response(
        context,
        lambda: tokens.renew(context.principal, request.hmac, request.renew_period_ms),
        RenewDelegationTokenResponse,
    )


def error_response(
    request: RenewDelegationTokenRequest, version: int, error: BaseException
) -> RenewDelegationTokenResponse:
    """Return `error`."""
    return refused_expiry(RenewDelegationTokenResponse, error)
