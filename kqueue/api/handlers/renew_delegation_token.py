"""RenewDelegationToken (key 39): let a token live longer (KIP-48).

Versions 0 to 2; 2: flexible encoding. The owner and the renewers may renew it, never beyond its
maximum lifetime. `renew_period_ms` 0 or less: `delegation.token.expiry.time.ms`.
"""

from __future__ import annotations

from kqueue.api.access import Rule
from kqueue.api.errors import CodedError, code_of
from kqueue.api.request_context import RequestContext, wait_for
from kqueue.base.errors import KqueueError
from kqueue.base.promise import Promise
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.token_principals import check_client
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

VERSIONS = (0, 2)
ACCESS: tuple[Rule, ...] = ()
TIMEOUT_MS = 30_000
"""Wait for the store; the request has no timeout of its own."""
NO_TIME = -1


def handle(
    request: RenewDelegationTokenRequest, context: RequestContext
) -> RenewDelegationTokenResponse | DelayedOperation[RenewDelegationTokenResponse]:
    """Respond when the token's new end is stored."""
    try:
        check_client(context.principal)
        tokens = context.broker.security.tokens
        promise = tokens.renew(context.principal, request.hmac, request.renew_period_ms)
    except KqueueError as error:
        return error_response(request, context.api_version, error)

    def respond(promise: Promise[int]) -> RenewDelegationTokenResponse:
        if promise.error is not None or not promise.done:
            late = CodedError(ErrorCode.REQUEST_TIMED_OUT, "the token was not stored in time")
            return error_response(request, context.api_version, promise.error or late)
        return RenewDelegationTokenResponse(expiry_timestamp_ms=promise.result())

    return wait_for(promise, respond, context.change_deadline_ms(TIMEOUT_MS))


def error_response(
    request: RenewDelegationTokenRequest, version: int, error: BaseException
) -> RenewDelegationTokenResponse:
    """Return `error`."""
    return RenewDelegationTokenResponse(error_code=code_of(error), expiry_timestamp_ms=NO_TIME)
