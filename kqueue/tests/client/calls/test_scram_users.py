from __future__ import annotations

import pytest

from kqueue.client.calls.reassignments import Refusal
from kqueue.client.calls.scram_users import AlterScramUser, DescribeScramUsers, SaltedPassword
from kqueue.client.errors import BadAnswer, BrokerRefused
from kqueue.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kqueue.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

PASSWORD = SaltedPassword(1, 4096, b"SALT", b"SALTED")


def described(user: str, code: int = 0) -> DescribeUserScramCredentialsResult:
    infos = [] if code else [CredentialInfo(mechanism=1, iterations=4096)]
    return DescribeUserScramCredentialsResult(
        user=user, error_code=code, error_message="why" if code else None, credential_infos=infos
    )


def test_users_are_described_or_refused_alone() -> None:
    call = DescribeScramUsers(["ann", "bob", "ann"])
    assert [row.name for row in call.request(0).users or ()] == ["ann", "bob"]
    response = DescribeUserScramCredentialsResponse(results=[described("ann"), described("bob", 91)])
    assert call.result(0, response, "b:1") == {"ann": {1: 4096}, "bob": Refusal(91, "why")}
    with pytest.raises(BadAnswer, match="users of the request"):
        call.result(0, DescribeUserScramCredentialsResponse(results=[described("ann")]), "b:1")
    with pytest.raises(BrokerRefused, match="CLUSTER_AUTHORIZATION_FAILED"):
        call.result(0, DescribeUserScramCredentialsResponse(error_code=31), "b:1")


def test_no_names_ask_for_all() -> None:
    call = DescribeScramUsers([])
    assert call.request(0).users is None
    assert call.result(0, DescribeUserScramCredentialsResponse(results=[described("eve")]), "b:1") == {"eve": {1: 4096}}


def test_a_password_is_set_and_removed() -> None:
    [row] = AlterScramUser("ann", PASSWORD).request(0).upsertions
    assert (row.name, row.mechanism, row.iterations, row.salt, row.salted_password) == (
        "ann", 1, 4096, b"SALT", b"SALTED",
    )  # fmt: skip
    [deletion] = AlterScramUser("ann", 2).request(0).deletions
    assert (deletion.name, deletion.mechanism) == ("ann", 2)
    assert AlterScramUser("ann", PASSWORD).repeatable
    assert not AlterScramUser("ann", 2).repeatable


def test_a_refusal_is_raised_without_the_password() -> None:
    call = AlterScramUser("ann", PASSWORD)
    call.result(0, AlterUserScramCredentialsResponse(results=[AlterUserScramCredentialsResult(user="ann")]), "b:1")
    refused = AlterUserScramCredentialsResult(user="ann", error_code=93, error_message="Too few iterations")
    with pytest.raises(BrokerRefused, match="user 'ann': UNACCEPTABLE_CREDENTIAL") as caught:
        call.result(0, AlterUserScramCredentialsResponse(results=[refused]), "b:1")
    assert "SALT" not in str(caught.value)
    assert "SALT" not in repr(PASSWORD)
    with pytest.raises(BadAnswer, match="user of the request"):
        call.result(0, AlterUserScramCredentialsResponse(results=[]), "b:1")
