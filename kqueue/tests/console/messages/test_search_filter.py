from __future__ import annotations

import msgpack  # type: ignore[import-untyped]
import pytest

from kqueue.console.messages.search_filter import SearchFilter
from kqueue.records.record import Record

RECORD = Record(0, 0, b"customer-7", b'{"total": 12, "name": "Ada"}', (("trace", b"abc"), ("none", None)))


@pytest.mark.parametrize(
    "search",
    [
        {},
        {"key": "tomer-7"},
        {"text": '"Ada"'},
        {"header": "trace"},
        {"header": "none"},
        {"header": "trace=b"},
        {"path": "$.total > 10"},
        {"key": "7", "text": "Ada", "header": "trace=abc", "path": "$.name"},
    ],
)
def test_a_record_with_all_that_is_asked_for_is_found(search: dict[str, str]) -> None:
    assert SearchFilter(**search)(0, RECORD)


@pytest.mark.parametrize(
    "search",
    [
        {"key": "Customer"},
        {"text": "Bob"},
        {"header": "tra"},
        {"header": "trace=x"},
        {"header": "none=x"},
        {"path": "$.missing"},
        {"key": "7", "text": "Bob"},
    ],
)
def test_a_record_without_one_of_them_is_not(search: dict[str, str]) -> None:
    assert not SearchFilter(**search)(0, RECORD)


def test_null_has_no_text() -> None:
    nothing = Record(0, 0, None, None)
    assert SearchFilter()(0, nothing)
    for search in ({"key": "x"}, {"text": "x"}, {"path": "$"}):
        assert not SearchFilter(**search)(0, nothing)


def test_text_is_found_in_what_a_format_makes_of_bytes() -> None:
    assert SearchFilter(text='"n": 300')(0, Record(0, 0, None, msgpack.packb({"n": 300})))


def test_values_without_a_document_are_counted() -> None:
    search = SearchFilter(path="$.a")
    assert not search(0, Record(0, 0, None, b"plain"))
    assert search(0, Record(0, 0, None, b'{"a":1}'))
    assert search.skipped == 1


def test_a_search_for_nothing_is_empty() -> None:
    assert SearchFilter(path="  ").is_empty
    assert not SearchFilter(header="x").is_empty


def test_what_is_no_path_or_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="no JSON path"):
        SearchFilter(path="total")
    with pytest.raises(ValueError, match="at most 500"):
        SearchFilter(text="x" * 501)


def test_half_of_a_surrogate_pair_is_found_nowhere() -> None:
    assert not SearchFilter(text="\ud800")(0, RECORD)
