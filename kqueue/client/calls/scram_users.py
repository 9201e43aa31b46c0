"""DescribeUserScramCredentials and AlterUserScramCredentials."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kqueue.client.calls.reassignments import Refusal
from kqueue.client.retry_policy import bad_answer, response_error
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kqueue.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)


@dataclass(frozen=True, slots=True)
class SaltedPassword:
    """A password for one mechanism, as the broker gets it. `mechanism`: Kafka's number."""

    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    salted: bytes = field(repr=False)


class DescribeScramUsers:
    """Iterations by number of the mechanism, for each user; or why there are none. `users`: empty:
    all.
    """

    api = BY_MODULE["describe_user_scram_credentials"]
    versions = (0, 0)
    repeatable = True

    def __init__(self, users: Iterable[str]) -> None:
        self.users = list(dict.fromkeys(users))

    def request(self, version: int) -> DescribeUserScramCredentialsRequest:
        return DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in self.users] or None)

    def result(
        self, version: int, response: DescribeUserScramCredentialsResponse, broker: str
    ) -> dict[str, Mapping[int, int] | Refusal]:
        if response.error_code:
            raise response_error(response.error_code, self.api.name, broker, message=response.error_message)
        described: dict[str, Mapping[int, int] | Refusal] = {
            row.user: Refusal(row.error_code, row.error_message)
            if row.error_code
            else {info.mechanism: info.iterations for info in row.credential_infos}
            for row in response.results
        }
        if self.users and described.keys() != set(self.users):
            raise bad_answer(self.api.name, broker, "is not about the users of the request")
        return described


class AlterScramUser:
    """Set a user's password, or remove it (the number of a mechanism). Repeated, a removal fails.

    One request has one change of a user: Kafka refuses more.
    """

    api = BY_MODULE["alter_user_scram_credentials"]
    versions = (0, 0)

    def __init__(self, user: str, change: SaltedPassword | int) -> None:
        self.user = user
        self.change = change
        self.repeatable = isinstance(change, SaltedPassword)

    def request(self, version: int) -> AlterUserScramCredentialsRequest:
        deletions: Sequence[ScramCredentialDeletion] = ()
        upsertions: Sequence[ScramCredentialUpsertion] = ()
        if isinstance(self.change, SaltedPassword):
            upsertions = [
                ScramCredentialUpsertion(
                    name=self.user,
                    mechanism=self.change.mechanism,
                    iterations=self.change.iterations,
                    salt=self.change.salt,
                    salted_password=self.change.salted,
                )
            ]
        else:
            deletions = [ScramCredentialDeletion(name=self.user, mechanism=self.change)]
        return AlterUserScramCredentialsRequest(deletions=list(deletions), upsertions=list(upsertions))

    def result(self, version: int, response: AlterUserScramCredentialsResponse, broker: str) -> None:
        if [row.user for row in response.results] != [self.user]:
            raise bad_answer(self.api.name, broker, "is not about the user of the request")
        [row] = response.results
        if row.error_code:
            raise response_error(
                row.error_code, self.api.name, broker, message=row.error_message, about=f"user {self.user!r}"
            )
