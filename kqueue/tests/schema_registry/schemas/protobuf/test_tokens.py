from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.schema_registry.schemas import InvalidSchema
from kqueue.schema_registry.schemas.protobuf.tokens import escaped, tokens_of


def test_tokens_have_their_kind_and_line_and_comments_none() -> None:
    tokens = tokens_of('a // b\n/* c\n * d **/ "e\\n" .5e3 0x1F\n;')
    assert [tuple(one) for one in tokens] == [
        ("name", "a", 1),
        ("string", "e\n", 3),
        ("number", ".5e3", 3),
        ("number", "0x1F", 3),
        ("symbol", ";", 4),
        ("end", "", 4),
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"\x41\101\u00e9\U0001F600\?\'"', "AAé😀?'"),
        (r"'\xff'", "\udcff"),
        (r'"\xc3\xa9"', "é"),
        ('"a\'b"', "a'b"),
    ],
)
def test_escapes_are_resolved(text: str, value: str) -> None:
    assert tokens_of(text)[0].text == value


@given(
    st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary().map(lambda data: data.decode("utf-8", "surrogateescape"))
)
def test_text_is_the_same_after_it_was_escaped(text: str) -> None:
    assert tokens_of(f'"{escaped(text)}"')[0].text == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\n§", "line 2"),
        ('"abc', "at line 1"),
        ('"a\nb"', "at line 1"),
        ("/* a", "at line 1"),
        ("/*" * 50_000, "at line 1"),
        (r'"\q"', "unknown escape"),
        (r'"\ud800"', "no character"),
        (r'"\UFFFFFFFF"', "no character"),
        ("1" * 101, "a number of 101 characters"),
    ],
)
def test_what_is_no_token_is_refused_with_the_line(text: str, message: str) -> None:
    with pytest.raises(InvalidSchema, match=message):
        tokens_of(text)
