"""AlterUserScramCredentials (key 51): set or remove passwords for SCRAM (KIP-554).

Version 0. The client sends the salted password, from which the keys to store are computed; it is
neither stored nor logged. A user that the request names twice, or whose change is invalid, is
refused; the other users' changes are one commit. Source: Kafka's ScramControlManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kqueue.api.access import on_cluster
from kqueue.api.errors import code_of, message_of
from kqueue.api.request_context import RequestContext, error_of, wait_for
from kqueue.base.errors import InvalidRequest, KqueueError
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.errors import CredentialNotFound, DuplicateCredential
from kqueue.security.operations import AclOperation
from kqueue.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

if TYPE_CHECKING:
    from kqueue.broker.access.scram_users import ScramAlteration, ScramUsers

VERSIONS = (0, 0)
ACCESS = (on_cluster(AclOperation.ALTER),)
ITEM_WEIGHT = 20
ALTERATIONS_MAX = 1_000
"""Changes in one request, so that a turn checks them all."""
TIMEOUT_MS = 30_000
"""Wait for the store; the request has no timeout of its own."""
LATE = "the credentials were not stored in time; they may still be"

Outcomes = dict[str, KqueueError | None]
Row = ScramCredentialDeletion | ScramCredentialUpsertion


def handle(
    request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse | DelayedOperation[AlterUserScramCredentialsResponse]:
    """Respond when the valid changes are stored."""
    count = len(request.deletions) + len(request.upsertions)
    if count > ALTERATIONS_MAX:
        raise InvalidRequest(f"{count} changes in one request, at most {ALTERATIONS_MAX} are taken")
    users = context.broker.security.scram
    outcomes: Outcomes = {}
    alterations: dict[str, ScramAlteration] = {}
    for row in _rows(request):
        try:
            if row.name in outcomes:
                raise DuplicateCredential("A user credential cannot be altered twice in the same request")
            alterations[row.name] = _alteration(row, users)
            outcomes[row.name] = None
        except KqueueError as error:
            alterations.pop(row.name, None)
            outcomes[row.name] = outcomes.get(row.name) or error
    try:
        promise = users.alter(list(alterations.values()))
    except KqueueError as error:
        return _respond(outcomes, error)
    return wait_for(
        promise,
        lambda stored: _respond(outcomes, error_of(stored, LATE)),
        context.change_deadline_ms(TIMEOUT_MS),
    )


def error_response(
    request: AlterUserScramCredentialsRequest, version: int, error: BaseException
) -> AlterUserScramCredentialsResponse:
    """Return `error` for each user."""
    return _respond(dict.fromkeys(row.name for row in _rows(request)), error)


def _rows(request: AlterUserScramCredentialsRequest) -> list[Row]:
    return [*request.deletions, *request.upsertions]


def _alteration(row: Row, users: ScramUsers) -> ScramAlteration:
    from kqueue.broker.access.scram_users import ScramAlteration  # on use: who sets no password does not need them
    from kqueue.security import scram_validation as valid
    from kqueue.security.scram_credentials import credential_of_salted

    valid.check_user_name(row.name)
    mechanism = valid.mechanism_of_number(row.mechanism)
    if isinstance(row, ScramCredentialDeletion):
        if not users.is_known(row.name, mechanism):
            raise CredentialNotFound("Attempt to delete a user credential that does not exist")
        return ScramAlteration(row.name, mechanism, None)
    valid.check_iterations(row.iterations)
    valid.check_salt(row.salt)
    valid.check_salted_password(mechanism, row.salted_password)
    salt = bytes(row.salt)  # not a view of the request's buffer
    credential = credential_of_salted(mechanism, bytes(row.salted_password), salt, row.iterations)
    return ScramAlteration(row.name, mechanism, credential)


def _respond(outcomes: Outcomes, error: BaseException | None) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=user, error_code=code_of(refusal or error), error_message=message_of(refusal or error)
            )
            for user, refusal in outcomes.items()
        ]
    )
