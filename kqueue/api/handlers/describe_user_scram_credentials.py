"""DescribeUserScramCredentials (key 50): mechanisms and iterations of users' passwords (KIP-554).

Version 0. No users, or null: all. Nothing that could help to authenticate is in the response.
Source: Kafka's ScramImage.describe.
"""

from __future__ import annotations

from collections import Counter

from kqueue.api.access import on_cluster
from kqueue.api.errors import code_of, message_of
from kqueue.api.request_context import RequestContext
from kqueue.base.errors import InvalidRequest
from kqueue.security.errors import CredentialNotFound, DuplicateCredential
from kqueue.security.operations import AclOperation
from kqueue.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

VERSIONS = (0, 0)
ACCESS = (on_cluster(AclOperation.DESCRIBE),)
ITEM_WEIGHT = 10
USERS_MAX = 10_000
"""Users that one request may name."""


def handle(
    request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    """Return the users that are named, in their order, or all, by name."""
    users = context.broker.security.scram
    counts = Counter(row.name for row in request.users or ())
    if len(counts) > USERS_MAX:
        raise InvalidRequest(f"{len(counts)} users in one request, at most {USERS_MAX} are taken")
    results = []
    for name in counts or users.users():
        credentials = users.of_user(name)
        error: Exception | None = None
        if counts[name] > 1:
            error = DuplicateCredential(
                f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
            )
        elif not credentials:
            error = CredentialNotFound(f"Attempt to describe a user credential that does not exist: {name}")
        results.append(
            DescribeUserScramCredentialsResult(
                user=name,
                error_code=code_of(error),
                error_message=message_of(error),
                credential_infos=[]
                if error is not None
                else [
                    CredentialInfo(mechanism=mechanism.number, iterations=credential.iterations)
                    for mechanism, credential in sorted(credentials.items())
                ],
            )
        )
    return DescribeUserScramCredentialsResponse(error_message=None, results=results)


def error_response(
    request: DescribeUserScramCredentialsRequest, version: int, error: BaseException
) -> DescribeUserScramCredentialsResponse:
    """Return `error` for the whole request, and for each user that it names."""
    code, message = code_of(error), message_of(error)
    results = [
        DescribeUserScramCredentialsResult(error_code=code, error_message=message)
        for row in (request.users or ())[:USERS_MAX]
    ]
    return DescribeUserScramCredentialsResponse(error_code=code, error_message=message, results=results)
