from __future__ import annotations

import json

import pytest

from kqueue.schema_registry.election.group_messages import (
    DUPLICATE_URLS,
    MESSAGE_BYTES_MAX,
    NO_ERROR,
    LeaderAssignment,
    MalformedGroupMessage,
    RegistryIdentity,
    choose_leader,
    decode_assignment,
    decode_identity,
    encode_assignment,
    encode_identity,
)

FIRST = RegistryIdentity("a", 8081)
KARAPACE = {
    "version": 2,
    "karapace_version": "5.0.0",
    "host": "k",
    "port": 8081,
    "scheme": "http",
    "master_eligibility": True,
}


def test_an_identity_has_the_members_of_confluents_registry() -> None:
    expected = {"version": 1, "host": "a", "port": 8081, "master_eligibility": True, "scheme": "http"}
    assert json.loads(encode_identity(FIRST)) == expected
    assert decode_identity(encode_identity(FIRST)) == FIRST


def test_an_identity_of_karapace_is_understood() -> None:
    assert decode_identity(json.dumps(KARAPACE).encode()) == RegistryIdentity("k", 8081)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://a:8081", FIRST),
        ("https://a", RegistryIdentity("a", 443, True, "https")),
        ("http://[::1]:8081/", RegistryIdentity("::1", 8081)),
    ],
)
def test_a_url_gives_an_identity(url: str, expected: RegistryIdentity) -> None:
    assert RegistryIdentity.of_url(url) == expected
    assert RegistryIdentity.of_url(expected.url) == expected


@pytest.mark.parametrize("url", ["a:8081", "ftp://a", "http://a/path", "http://", "http://a:99999"])
def test_a_url_of_another_form_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"expected http://HOST:PORT|Port out of range"):
        RegistryIdentity.of_url(url)


@pytest.mark.parametrize(
    "changes",
    [
        {"host": 1},
        {"host": ""},
        {"host": "a/b"},
        {"host": "user@a"},
        {"host": "a\nb"},
        {"port": 0},
        {"port": "8081"},
        {"port": True},
        {"scheme": "file"},
        {"master_eligibility": "yes"},
    ],
)
def test_an_identity_with_a_hostile_member_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(MalformedGroupMessage, match="is no identity of a registry"):
        decode_identity(json.dumps(KARAPACE | changes).encode())


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"[]", b"null", b"[" * 60_000])
def test_bytes_that_are_no_object_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedGroupMessage, match="expected an object in JSON"):
        decode_identity(data)
    with pytest.raises(MalformedGroupMessage, match="expected an object in JSON"):
        decode_assignment(data)


def test_a_long_message_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(MalformedGroupMessage, match="expected at most 65,536"):
        decode_identity(b" " * (MESSAGE_BYTES_MAX + 1))


def test_the_eligible_member_with_the_first_url_writes() -> None:
    members = {
        "m-1": encode_identity(RegistryIdentity("b", 8081)),
        "m-2": encode_identity(RegistryIdentity("a", 8082)),
        "m-3": encode_identity(RegistryIdentity("a", 8081, is_eligible=False)),
        "m-4": b"not JSON",
    }
    assert choose_leader(members) == LeaderAssignment(NO_ERROR, "m-2", RegistryIdentity("a", 8082))


def test_nobody_writes_without_an_eligible_member() -> None:
    members = {"m-1": encode_identity(RegistryIdentity("a", 8081, is_eligible=False))}
    assert choose_leader(members) == LeaderAssignment(NO_ERROR, None, None)


def test_nobody_writes_if_two_members_have_one_url() -> None:
    chosen = choose_leader({"m-1": encode_identity(FIRST), "m-2": encode_identity(FIRST)})
    assert chosen.error == DUPLICATE_URLS
    assert decode_assignment(encode_assignment(chosen)) == chosen


def test_an_assignment_has_the_members_of_confluents_registry() -> None:
    assignment = LeaderAssignment(NO_ERROR, "m-1", FIRST)
    fields = json.loads(encode_assignment(assignment))
    assert (fields["error"], fields["master"], fields["master_identity"]["host"]) == (0, "m-1", "a")
    assert decode_assignment(encode_assignment(assignment)) == assignment


def test_a_writer_that_is_not_eligible_is_none() -> None:
    identity = KARAPACE | {"master_eligibility": False}
    data = json.dumps({"master": "m-1", "master_identity": identity, "error": 0}).encode()
    assert decode_assignment(data) == LeaderAssignment(NO_ERROR, None, None)


def test_an_error_that_is_no_number_is_refused() -> None:
    with pytest.raises(MalformedGroupMessage, match="the assignment's error is 'x'"):
        decode_assignment(b'{"error": "x"}')
