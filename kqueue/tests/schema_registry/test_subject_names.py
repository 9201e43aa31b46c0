from __future__ import annotations

import pytest

from kqueue.schema_registry.errors import RegistryError
from kqueue.schema_registry.limits import DEFAULT_LIMITS
from kqueue.schema_registry.subject_names import SubjectName, checked_scope, checked_subject, parse_subject
from kqueue.tests.tables import for_each


@for_each(
    "text, context, subject",
    [
        ("orders", ".", "orders"),
        (":.:orders", ".", "orders"),
        (":.a:orders", ".a", "orders"),
        (":.a.b:with:colons", ".a.b", "with:colons"),
        (":.a:", ".a", ""),
        (":orders", ".", ":orders"),
        (":.orders", ".", ":.orders"),
    ],
)
def test_context_is_what_stands_between_colons_at_the_beginning(text: str, context: str, subject: str) -> None:
    assert parse_subject(text) == SubjectName(context, subject)


def test_name_without_context_is_in_the_given_one() -> None:
    assert parse_subject("orders", ".a") == SubjectName(".a", "orders")
    assert parse_subject(":.b:orders", ".a") == SubjectName(".b", "orders")


@for_each("text", ["orders", ":.a:orders", ":.a:", "ü/x y"])
def test_name_is_written_as_it_was_read(text: str) -> None:
    assert str(parse_subject(text)) == text


def test_default_context_is_not_written() -> None:
    assert str(parse_subject(":.:orders")) == "orders"


@for_each(
    "text",
    [
        "",
        ":.a:",
        "a\x00b",
        "a\nb",
        "\ud800",
        "__GLOBAL",
        ":.a:__EMPTY",
        ":.__GLOBAL:a",
        ":.::.c:x",
        "x" * 1001,
        "x" * 10**6,
    ],
)
def test_subject_that_may_not_be_registered_is_refused(text: str) -> None:
    with pytest.raises(RegistryError) as caught:
        checked_subject(text, DEFAULT_LIMITS)
    assert caught.value.code == 42208
    assert len(str(caught.value)) < 200


@for_each("text", [":.c:\x00", ":.\x00:", ":.c\n:", ":.:" + ":.c:x", "x" * 1001])
def test_scope_of_such_a_name_is_refused(text: str) -> None:
    with pytest.raises(RegistryError) as caught:
        checked_scope(text, DEFAULT_LIMITS)
    assert caught.value.code == 42208


def test_context_is_a_scope() -> None:
    assert checked_scope(":.c:", DEFAULT_LIMITS) == SubjectName(".c", "")
    assert checked_scope(":.__GLOBAL:", DEFAULT_LIMITS) == SubjectName(".__GLOBAL", "")


def test_any_other_subject_is_taken() -> None:
    assert checked_subject("x" * 1000, DEFAULT_LIMITS) == SubjectName(".", "x" * 1000)
    assert checked_subject(":.a:日本 %/", DEFAULT_LIMITS) == SubjectName(".a", "日本 %/")
