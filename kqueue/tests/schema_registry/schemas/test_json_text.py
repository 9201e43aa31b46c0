from __future__ import annotations

import pytest

from kqueue.schema_registry.schemas import InvalidSchema
from kqueue.schema_registry.schemas.json_text import compact, read_document, refuse_deep, sorted_members
from kqueue.schema_registry.schemas.limits import DEPTH_MAX


def test_document_is_written_on_one_line_in_its_order() -> None:
    text = '{ "b" : [1, 2.50, true],\n "a" : {"é": null} }'
    assert compact(read_document(text, "It")) == '{"b":[1,2.5,true],"a":{"é":null}}'


def test_members_are_sorted_at_all_levels() -> None:
    assert list(sorted_members([{"b": {"d": 1, "c": 2}, "a": 0}])[0]) == ["a", "b"]
    assert list(sorted_members([{"b": {"d": 1, "c": 2}, "a": 0}])[0]["b"]) == ["c", "d"]


@pytest.mark.parametrize("text", ["", "{", "[NaN]", "[Infinity]", "[1e400]", '{"a":1}x', "[" * 50_000])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema, match="^It is"):
        read_document(text, "It")


def test_nesting_is_bounded() -> None:
    def nested(levels: int) -> object:
        value: object = 0
        for level in range(levels):
            value = {"a": value} if level % 2 else [value]
        return value

    refuse_deep(nested(DEPTH_MAX), "It")
    with pytest.raises(InvalidSchema, match="It is nested more than"):
        refuse_deep(nested(DEPTH_MAX + 1), "It")


def test_text_that_utf_8_can_not_have_is_refused() -> None:
    with pytest.raises(InvalidSchema, match="surrogate"):
        compact(["\ud800"])
