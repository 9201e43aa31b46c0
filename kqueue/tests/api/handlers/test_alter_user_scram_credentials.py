from __future__ import annotations

import logging
from typing import Any

import pytest

from kqueue.api.handlers.alter_user_scram_credentials import ALTERATIONS_MAX, LATE
from kqueue.base.errors import InvalidRequest
from kqueue.security.scram_credentials import SCRAM_MECHANISMS, make_credential, salted_password
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.broker.failing_store import FailingStore
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kqueue.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName

SHA256 = SCRAM_MECHANISMS["SCRAM-SHA-256"]
SALTED = salted_password(SHA256, b"secret", b"salt", 4096)


def upsertion(name: str = "ann", mechanism: int = 1, iterations: int = 4096, **fields: Any) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name,
        mechanism=mechanism,
        iterations=iterations,
        salt=fields.get("salt", b"salt"),
        salted_password=fields.get("salted", SALTED if mechanism == 1 else bytes(64)),
    )


def deletion(name: str = "ann", mechanism: int = 1) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def alter(client: SimulatedClient, *rows: ScramCredentialDeletion | ScramCredentialUpsertion) -> dict[str, int]:
    """The error code of each user."""
    deletions = [row for row in rows if isinstance(row, ScramCredentialDeletion)]
    upsertions = [row for row in rows if isinstance(row, ScramCredentialUpsertion)]
    response = client.ask(AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions), 0)
    for result in response.results:
        assert (result.error_message is None) == (result.error_code == 0)
    return {result.user: result.error_code for result in response.results}


def describe(client: SimulatedClient, *names: str) -> list[tuple[str, int, list[tuple[int, int]]]]:
    users = [UserName(name=name) for name in names] or None
    response = client.ask(DescribeUserScramCredentialsRequest(users=users), 0)
    assert response.error_code == 0
    return [
        (row.user, row.error_code, [(info.mechanism, info.iterations) for info in row.credential_infos])
        for row in response.results
    ]


def test_a_credential_is_that_of_the_password() -> None:
    client = SimulatedClient()
    assert alter(client, upsertion()) == {"ann": 0}
    account = client.sim.broker.security.find_scram_account("SCRAM-SHA-256", "ann", False)
    assert account is not None
    assert account.credential == make_credential(SHA256, "secret", 4096, b"salt")


def test_users_are_set_described_and_deleted() -> None:
    client = SimulatedClient()
    assert alter(client, upsertion("bob"), upsertion("ann", iterations=16384)) == {"bob": 0, "ann": 0}
    assert alter(client, upsertion("ann", 2)) == {"ann": 0}
    assert describe(client) == [("ann", 0, [(1, 16384), (2, 4096)]), ("bob", 0, [(1, 4096)])]
    assert describe(client, "bob", "eve", "ann", "ann") == [
        ("bob", 0, [(1, 4096)]),
        ("eve", ErrorCode.RESOURCE_NOT_FOUND, []),
        ("ann", ErrorCode.DUPLICATE_RESOURCE, []),
    ]
    assert alter(client, deletion("bob"), deletion("ann", 2)) == {"bob": 0, "ann": 0}
    assert describe(client) == [("ann", 0, [(1, 16384)])]
    empty = client.ask(DescribeUserScramCredentialsRequest(users=[]), 0)
    assert [row.user for row in empty.results] == ["ann"]


@for_each(
    "row, code",
    [
        (upsertion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("x" * 256), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("x\ny"), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=-1), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(salt=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(salt=b"x" * 257), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(salted=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(salted=b"x" * 33), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (deletion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (deletion(mechanism=-1), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (deletion("nobody"), ErrorCode.RESOURCE_NOT_FOUND),
    ],
)
def test_an_invalid_change_is_refused_alone(
    row: ScramCredentialDeletion | ScramCredentialUpsertion, code: ErrorCode
) -> None:
    client = SimulatedClient()
    assert alter(client, row, upsertion("good")) == {row.name: code, "good": 0}
    assert [user for user, _, _ in describe(client)] == ["good"]


def test_a_user_that_is_named_twice_is_left_as_it_is() -> None:
    """As Kafka does, also for two mechanisms of one user."""
    client = SimulatedClient()
    alter(client, upsertion("ann"))
    duplicate = ErrorCode.DUPLICATE_RESOURCE
    assert alter(client, upsertion("bob"), upsertion("bob", 2), upsertion("bob")) == {"bob": duplicate}
    assert alter(client, deletion("ann"), upsertion("ann", 2)) == {"ann": duplicate}
    invalid_first = alter(client, upsertion("eve", iterations=1), upsertion("eve"))
    assert invalid_first == {"eve": ErrorCode.UNACCEPTABLE_CREDENTIAL}
    assert describe(client) == [("ann", 0, [(1, 4096)])]


def test_requests_are_bounded() -> None:
    client = SimulatedClient()
    rows = [upsertion(f"u{number}") for number in range(ALTERATIONS_MAX + 1)]
    with pytest.raises(InvalidRequest, match="at most"):
        client.ask(AlterUserScramCredentialsRequest(deletions=[], upsertions=rows), 0)
    assert len(alter(client, *rows[:-1])) == ALTERATIONS_MAX


def test_a_store_that_fails_is_the_error_of_each_valid_user() -> None:
    store = FailingStore()
    client = SimulatedClient(sim=Simulation(store=store))
    store.failing = True
    codes = alter(client, upsertion("ann"), upsertion("bob", iterations=1))
    assert codes == {"ann": ErrorCode.KAFKA_STORAGE_ERROR, "bob": ErrorCode.UNACCEPTABLE_CREDENTIAL}


def test_a_store_that_does_not_answer_is_not_waited_for_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    client = SimulatedClient()
    monkeypatch.setattr(client.sim.jobs, "run_all", lambda: 0)
    started = client.start(AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion()]), 0)
    client.sim.advance(30_000)
    assert [(row.error_code, row.error_message) for row in started.response.results] == [
        (ErrorCode.REQUEST_TIMED_OUT, LATE)
    ]


def test_nothing_of_the_password_is_logged_or_answered(caplog: pytest.LogCaptureFixture) -> None:
    client = SimulatedClient()
    request = AlterUserScramCredentialsRequest(
        deletions=[], upsertions=[upsertion(salted=b"S3CRET" + bytes(26)), upsertion("bob", salted=b"S3CRET")]
    )
    with caplog.at_level(logging.DEBUG):
        response = client.ask(request, 0)
    assert "S3CRET" not in caplog.text
    assert "S3CRET" not in repr(response)
