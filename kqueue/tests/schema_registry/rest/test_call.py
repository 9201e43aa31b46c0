from __future__ import annotations

from typing import Any

import pytest

from kqueue.schema_registry.catalog import Deleted
from kqueue.schema_registry.errors import RegistryError
from kqueue.schema_registry.rest.call import Call
from kqueue.schema_registry.rest.contract import Operation
from kqueue.schema_registry.subject_names import SubjectName
from kqueue.tests.schema_registry.support import INT, LoggedRegistry
from kqueue.tests.tables import for_each


def call(**more: Any) -> Call:
    return Call(LoggedRegistry(), **more)


def code(read: Any) -> int:
    with pytest.raises(RegistryError) as caught:
        read()
    return caught.value.code


A = SubjectName(".", "a")


class OnlyA:
    """Everybody may read subject `a`, and nothing else."""

    def is_allowed(self, user: str | None, operation: Operation, subject: str | None) -> bool:
        return operation is Operation.READ and subject == "a"


def test_subject_of_the_path_is_decoded_checked_and_allowed() -> None:
    assert call(path={"subject": "a%2Fb"}).subject(Operation.READ) == SubjectName(".", "a/b")
    assert code(lambda: call(path={"subject": "%00"}).subject(Operation.READ)) == 42208
    assert call(path={"subject": "a"}, authorizer=OnlyA()).subject(Operation.READ)
    assert code(lambda: call(path={"subject": "a"}, authorizer=OnlyA()).subject(Operation.WRITE)) == 40301
    assert code(lambda: call(path={"subject": "b"}, authorizer=OnlyA()).subject(Operation.READ)) == 40301


def test_scope_of_the_path_is_a_subject_a_context_or_all() -> None:
    assert call(path={"subject": "a"}).scope(Operation.READ) == SubjectName(".", "a")
    assert call(path={"subject": ":.c:"}).scope(Operation.READ) == SubjectName(".c", "")
    assert call(path={"subject": ":.:"}).scope(Operation.READ) is None
    assert call().scope(Operation.READ) is None
    assert code(lambda: call(authorizer=OnlyA()).scope(Operation.READ)) == 40301


def test_schema_may_refer_only_to_what_the_user_may_read() -> None:
    def referring(subject: str) -> Call:
        references = [{"name": "n", "subject": subject, "version": 1}]
        return call(body={"schema": INT, "references": references}, authorizer=OnlyA())

    assert referring("a").content(A).references
    assert code(lambda: referring("b").content(A)) == 40301
    assert code(lambda: referring("a").content(SubjectName(".c", "x"))) == 40301


def test_versions_of_subjects_that_the_user_may_not_read_are_left_out() -> None:
    registry = LoggedRegistry()
    versions = [registry.add(subject, INT) for subject in ("a", "b")]
    assert list(Call(registry, authorizer=OnlyA()).readable(versions)) == versions[:1]
    assert list(Call(registry).readable(versions)) == versions


def test_query_says_which_versions_and_which_page() -> None:
    assert call().deleted() is Deleted.EXCLUDED
    assert call(query=[("deleted", "TRUE")]).deleted() is Deleted.INCLUDED
    assert call(query=[("deleted", "true"), ("deletedOnly", "true")]).deleted() is Deleted.ONLY
    assert call(query=[("a", "1"), ("a", "2")]).query_values("a") == ["1", "2"]
    assert call(query=[("a", "1"), ("a", "2")]).query["a"] == "1"
    assert call(query=[("offset", "1"), ("limit", "2")]).page("abcd") == ["b", "c"]
    assert call(query=[("limit", "9" * 19)]).page("abcd") == list("abcd")
    assert call(query=[("limit", "0")]).page("abcd") == []
    assert call(query=[("offset", "1"), ("limit", "3")]).page("abcdef", maximum=2) == ["b", "c"]
    assert code(lambda: call(query=[("limit", "x")]).page("abcd")) == 400


@for_each("members", [{"id": 1.5}, {"id": True}, {"id": -2}, {"id": 2**31}, {"version": "1"}, {"version": 2**31}])
def test_ids_and_versions_of_the_body_are_numbers(members: dict[str, Any]) -> None:
    assert code(lambda: call(body={"schema": INT, **members}).schema_request(A)) == 400


def test_id_and_version_may_be_left_to_the_registry() -> None:
    for members in ({}, {"id": -1, "version": 0}, {"id": None, "version": None}):
        request = call(body={"schema": INT, **members}).schema_request(A)
        assert (request.id, request.version) == (None, None)


@for_each("body", [None, [], "text", 7])
def test_body_must_be_an_object(body: object) -> None:
    assert code(lambda: call(body=body).members()) == 400
