"""CreateDelegationToken (key 38): a token with which others may act as a user (KIP-48).

Versions 0 to 3:

    0, 1    a token of the client's own
    2       flexible encoding
    3       a token of another user (KIP-373)

Any client that authenticated, but not by a token, may create tokens of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kqueue.api.access import Rule
from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext, error_of, wait_for
from kqueue.api.token_expiry import LATE, NO_TIME, TIMEOUT_MS
from kqueue.base.errors import KqueueError
from kqueue.base.promise import Promise
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.errors import TokenAuthorizationFailed
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.security.principals import Principal
from kqueue.security.token_principals import check_client, check_principals
from kqueue.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse

if TYPE_CHECKING:
    from kqueue.broker.access.delegation_tokens import CreatedToken

VERSIONS = (0, 3)
VERSION_REQUESTERS = 3
ITEM_WEIGHT = 10
ACCESS = (
    Rule(AclOperation.CREATE_TOKENS, ResourceType.USER, note="for another user; DELEGATION_TOKEN_AUTHORIZATION_FAILED"),
)


def handle(
    request: CreateDelegationTokenRequest, context: RequestContext
) -> CreateDelegationTokenResponse | DelayedOperation[CreateDelegationTokenResponse]:
    """Respond when the token is stored."""
    requester = context.principal
    owner = requester
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
    renewers = [Principal(row.principal_type, row.principal_name) for row in request.renewers]
    try:
        check_client(requester)
        check_principals(owner, renewers)
        if owner != requester and not context.allows(AclOperation.CREATE_TOKENS, ResourceType.USER, str(owner)):
            raise TokenAuthorizationFailed(f"{requester} may not create tokens for {owner}")
        promise = context.broker.security.tokens.create(owner, requester, renewers, request.max_lifetime_ms)
    except KqueueError as error:
        return _refusal(owner, requester, error, context.api_version)

    def respond(promise: Promise[CreatedToken]) -> CreateDelegationTokenResponse:
        error = error_of(promise, LATE)
        if error is not None:
            return _refusal(owner, requester, error, context.api_version)
        token, mac = promise.result()
        response = _response(owner, requester, context.api_version)
        response.issue_timestamp_ms = token.issue_ms
        response.expiry_timestamp_ms = token.expiry_ms
        response.max_timestamp_ms = token.max_ms
        response.token_id = token.id
        response.hmac = mac
        return response

    return wait_for(promise, respond, context.change_deadline_ms(TIMEOUT_MS))


def error_response(
    request: CreateDelegationTokenRequest, version: int, error: BaseException
) -> CreateDelegationTokenResponse:
    """Return `error`."""
    return _refusal(Principal("", ""), Principal("", ""), error, version)


def _refusal(
    owner: Principal, requester: Principal, error: BaseException, version: int
) -> CreateDelegationTokenResponse:
    response = _response(owner, requester, version)
    response.error_code = code_of(error)
    return response


def _response(owner: Principal, requester: Principal, version: int) -> CreateDelegationTokenResponse:
    response = CreateDelegationTokenResponse(
        principal_type=owner.type,
        principal_name=owner.name,
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
    )
    if version >= VERSION_REQUESTERS:
        response.token_requester_principal_type, response.token_requester_principal_name = requester[:2]
    return response
