from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.console.messages.json_path import EXPRESSION_CHARACTERS_MAX, JsonPath, JsonPathError

ORDER = {
    "total": 120, "paid": True, "note": None, "a b": "x", "text": "5",
    "items": [{"sku": "A", "n": 1}, {"sku": "B", "n": 2}],
}  # fmt: skip
FOUND = (
    "$", "$.total", "$.note", '$["a b"]', "$.items[1].sku", "$..sku", "$.items[?@.n > 1]", '$.items[?@.sku == "A"]',
    "$.items[?length(@.sku) == 1]", "$.total == 120", "$.total>100", "$.total >= 120.0", "$.total != 3",
    '$.items[*].sku == "B"', "$.paid == true", "$.note == null", "$..n <= 1", '$.text == "5"', " $.total < 121 ",
)  # fmt: skip
NOT_FOUND = (
    "$.missing", "$.items[7]", "$.items[?@.n > 5]", "$.total == 121", "$.total > 120", '$.items[*].sku == "C"',
    "$.paid == 1", "$.text > 3", "$.text == 5", "$.missing != 1",
)  # fmt: skip


@pytest.mark.parametrize("expression", FOUND)
def test_paths_and_comparisons_that_apply_match(expression: str) -> None:
    assert JsonPath(expression).matches(ORDER)


@pytest.mark.parametrize("expression", NOT_FOUND)
def test_paths_and_comparisons_that_do_not_apply_do_not_match(expression: str) -> None:
    assert not JsonPath(expression).matches(ORDER)


@pytest.mark.parametrize("document", ["text", 5, None, True])
def test_a_document_that_is_one_value_has_only_its_root(document: Any) -> None:
    assert JsonPath("$").matches(document)
    assert not JsonPath("$.a").matches(document)


@pytest.mark.parametrize(
    "expression",
    ["", "total", "$.", "$[", "$.total ==", "$.total == abc", "$.a | $.b", "$" + "[0]" * EXPRESSION_CHARACTERS_MAX,
     '$[?match(@.a, "(a+)+$")]', '$[?search(@.a, "(a+)+$")]', "$[?@..a]", "$[?count(@.*) > 1]", "$[?@[?@.a]]"],
)  # fmt: skip
def test_other_expressions_and_costly_ones_are_refused(expression: str) -> None:
    with pytest.raises(JsonPathError):
        JsonPath(expression)


@pytest.mark.parametrize("expression", ["$..*..*..*..*.z", "$[*,*,*,*][*,*,*,*][*,*,*,*][*,*,*,*].z"])
def test_a_path_that_multiplies_nodes_is_stopped(expression: str) -> None:
    document: Any = [[[[1] * 8] * 8] * 8] * 8
    with pytest.raises(JsonPathError, match="visits more than"):
        JsonPath(expression).matches(document)


def test_a_large_document_is_refused() -> None:
    with pytest.raises(JsonPathError, match="has more than"):
        JsonPath("$[0]").matches([0] * 100_000)


def test_a_document_that_is_nested_deeply_is_refused() -> None:
    document: Any = {}
    for _ in range(5_000):
        document = {"a": document}
    with pytest.raises(JsonPathError):
        JsonPath("$..b").matches(document)


@given(st.text("$.[]?@*'\"=<>!&|()a1,: -", max_size=40))
def test_any_text_is_a_path_or_an_error(expression: str) -> None:
    with contextlib.suppress(JsonPathError):
        JsonPath(expression).matches(ORDER)
