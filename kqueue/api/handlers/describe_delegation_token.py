"""DescribeDelegationToken (key 41): the tokens of users (KIP-48).

Versions 0 to 3; 2: flexible encoding, 3: who created the token (KIP-373). The owner, the creator
and the renewers of a token see it, and whoever may DESCRIBE it, or DESCRIBE_TOKENS of its owner.
Its HMAC, with which they can authenticate as its owner, is in the response, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kqueue.api.access import Rule
from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import in_slices
from kqueue.base.errors import InvalidRequest, KqueueError
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.security.principals import Principal
from kqueue.security.token_principals import check_client
from kqueue.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

if TYPE_CHECKING:
    from kqueue.security.tokens import DelegationToken

VERSIONS = (0, 3)
VERSION_REQUESTERS = 3
ACCESS = (
    Rule(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, note="of others, or DESCRIBE_TOKENS; left out"),
    Rule(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, note="tokens of this owner; left out"),
)
ITEM_WEIGHT = 10
OWNERS_MAX = 1_000


def handle(
    request: DescribeDelegationTokenRequest, context: RequestContext
) -> DescribeDelegationTokenResponse | DelayedOperation[DescribeDelegationTokenResponse]:
    """Return what the client may see of the tokens of these owners; null: of all, empty: none."""
    owners = None
    if request.owners is not None:
        if len(request.owners) > OWNERS_MAX:
            raise InvalidRequest(f"{len(request.owners)} owners in one request, at most {OWNERS_MAX} are taken")
        owners = {Principal(row.principal_type, row.principal_name) for row in request.owners}
    try:
        check_client(context.principal)
        known = context.broker.security.tokens.all()
    except KqueueError as error:
        return DescribeDelegationTokenResponse(error_code=code_of(error))
    return in_slices(context, _handle_sliced(known if owners is None or owners else [], owners, context))


def _handle_sliced(
    known: list[DelegationToken], owners: set[Principal] | None, context: RequestContext
) -> SlicedWork[DescribeDelegationTokenResponse]:
    tokens = context.broker.security.tokens
    described = []
    for token in known:
        if (owners is None or token.owner in owners) and _may_see(context, token):
            described.append(_described(token, tokens.hmac_of(token), context.api_version))
        yield None
    return DescribeDelegationTokenResponse(tokens=described)


def _may_see(context: RequestContext, token: DelegationToken) -> bool:
    return (
        token.is_of(context.principal)
        or context.allows(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.id)
        or context.allows(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner))
    )


def _described(token: DelegationToken, mac: bytes, version: int) -> DescribedDelegationToken:
    described = DescribedDelegationToken(
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        issue_timestamp=token.issue_ms,
        expiry_timestamp=token.expiry_ms,
        max_timestamp=token.max_ms,
        token_id=token.id,
        hmac=mac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=principal.type, principal_name=principal.name)
            for principal in token.renewers
        ],
    )
    if version >= VERSION_REQUESTERS:
        described.token_requester_principal_type, described.token_requester_principal_name = token.requester[:2]
    return described
