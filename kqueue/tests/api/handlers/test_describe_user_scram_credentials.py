from __future__ import annotations

import pytest

from kqueue.api import handler_table
from kqueue.api.handlers.describe_user_scram_credentials import USERS_MAX
from kqueue.base.errors import InvalidRequest
from kqueue.broker.access.scram_users import ScramAlteration
from kqueue.security.scram_credentials import SCRAM_MECHANISMS, ScramCredential
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName

SHA256, SHA512 = SCRAM_MECHANISMS.values()


@pytest.fixture
def client() -> SimulatedClient:
    made = SimulatedClient()
    alterations = [
        ScramAlteration("bob", SHA256, ScramCredential(b"SALT", b"K" * 32, b"K" * 32, 4096)),
        ScramAlteration("ann", SHA512, ScramCredential(b"SALT", b"K" * 64, b"K" * 64, 8192)),
        ScramAlteration("ann", SHA256, ScramCredential(b"SALT", b"K" * 32, b"K" * 32, 4096)),
    ]
    made.sim.result(made.sim.broker.security.scram.alter(alterations))
    return made


def described(client: SimulatedClient, users: list[str] | None) -> dict[str, list[tuple[int, int]] | int]:
    """Mechanisms and iterations by user, or the user's error."""
    rows = None if users is None else [UserName(name=name) for name in users]
    response = client.ask(DescribeUserScramCredentialsRequest(users=rows), 0)
    assert (response.error_code, response.error_message) == (0, None)
    for row in response.results:
        assert (row.error_message is None) == (row.error_code == 0)
        assert not (row.error_code and row.credential_infos)
    return {
        row.user: row.error_code or [(info.mechanism, info.iterations) for info in row.credential_infos]
        for row in response.results
    }


@pytest.mark.parametrize("users", [None, []])
def test_all_users_are_described(client: SimulatedClient, users: list[str] | None) -> None:
    assert described(client, users) == {"ann": [(1, 4096), (2, 8192)], "bob": [(1, 4096)]}


def test_named_users_are_described_once(client: SimulatedClient) -> None:
    assert described(client, ["bob", "eve", "ann", "ann"]) == {
        "bob": [(1, 4096)],
        "eve": ErrorCode.RESOURCE_NOT_FOUND,
        "ann": ErrorCode.DUPLICATE_RESOURCE,
    }


def test_no_key_and_no_salt_is_in_the_response(client: SimulatedClient) -> None:
    response = client.ask(DescribeUserScramCredentialsRequest(users=None), 0)
    assert not any(secret in repr(response) for secret in ("SALT", "KKKK"))


def test_a_request_is_bounded(client: SimulatedClient) -> None:
    with pytest.raises(InvalidRequest, match="at most"):
        described(client, [f"{number}" for number in range(USERS_MAX + 1)])


@for_each("users", [None, [], ["ann", "bob"]])
def test_an_error_is_that_of_the_whole_request_and_of_each_user(users: list[str] | None) -> None:
    """Source: Kafka's DescribeUserScramCredentialsRequest.getErrorResponse, which names nobody."""
    rows = None if users is None else [UserName(name=name) for name in users]
    response = handler_table.error_response(DescribeUserScramCredentialsRequest(users=rows), 0, InvalidRequest("why"))
    assert (response.error_code, response.error_message) == (ErrorCode.INVALID_REQUEST, "why")
    answered = [(row.user, row.error_code, row.error_message) for row in response.results]
    assert answered == [("", ErrorCode.INVALID_REQUEST, "why")] * len(users or ())
