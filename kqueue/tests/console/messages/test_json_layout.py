from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.console.messages.json_layout import laid_out, on_one_line, parse_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_layouts_are_the_same_document(value: Any) -> None:
    text = json.dumps(value)
    assert json.loads(laid_out(text, 10**9)) == value
    assert json.loads(on_one_line(text)) == value


@given(VALUES.filter(lambda value: isinstance(value, (dict, list))))
def test_the_layout_is_that_of_json(value: Any) -> None:
    assert laid_out(json.dumps(value, ensure_ascii=False), 10**9) == json.dumps(value, indent=2, ensure_ascii=False)


def test_numbers_escapes_and_repeated_names_stay() -> None:
    text = '{"n":123456789012345678901234567890.10,"a":"\\u0041","a":1e400}'
    assert on_one_line(text) == '{"n": 123456789012345678901234567890.10, "a": "\\u0041", "a": 1e400}'


def test_a_layout_is_cut() -> None:
    text = "[" * 5_000 + "]" * 5_000
    assert len(laid_out(text, 1_000)) < 1_200


@pytest.mark.parametrize("text", ["{", "NaN", "[Infinity]", "", "[" * 100_000, '{"a":1}x'])
def test_what_is_no_json_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_json(text)


def test_a_number_too_long_for_python_is_its_text() -> None:
    assert parse_json("9" * 5_000) == "9" * 5_000
