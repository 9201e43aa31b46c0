"""The responses to requests that move the end of a delegation token: renew and expire (KIP-48)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext, error_of, wait_for
from kqueue.base.errors import KqueueError
from kqueue.base.promise import Promise
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.token_principals import check_client

TIMEOUT_MS = 30_000
"""Wait for the store; the requests have no timeout of their own."""
LATE = "the token was not stored in time"
NO_TIME = -1
R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


class ExpiryResponse(Protocol[R_co]):
    """The class of such a response."""

    def __call__(self, *, error_code: int = 0, expiry_timestamp_ms: int = 0) -> R_co: ...


def expiry_response(
    context: RequestContext, change: Callable[[], Promise[int]], response: ExpiryResponse[R]
) -> R | DelayedOperation[R]:
    """Respond when the token's new end is stored.

    Args: change: begins the change, and returns a promise of the new end; may raise KqueueError.
    """
    try:
        check_client(context.principal)
        promise = change()
    except KqueueError as error:
        return refused_expiry(response, error)

    def respond(promise: Promise[int]) -> R:
        error = error_of(promise, LATE)
        return response(expiry_timestamp_ms=promise.result()) if error is None else refused_expiry(response, error)

    return wait_for(promise, respond, context.change_deadline_ms(TIMEOUT_MS))


def refused_expiry(response: ExpiryResponse[R], error: BaseException) -> R:
    """Return the response that says `error`."""
    return response(error_code=code_of(error), expiry_timestamp_ms=NO_TIME)
