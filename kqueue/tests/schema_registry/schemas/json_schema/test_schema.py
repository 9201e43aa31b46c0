from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.schema_registry.schemas import InvalidSchema, ResolvedReference, check_compatibility, limits, schema_type
from kqueue.schema_registry.schemas.limits import DEPTH_MAX

pytest.importorskip("jsonschema_rs")
JSON = schema_type("JSON")

SCHEMAS = st.recursive(
    st.sampled_from(
        [True, False, {}, {"type": "string", "maxLength": 3}, {"type": "integer"}, {"enum": ["a", 1]}, {"const": None}]
    ),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2)}),
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=2)}),
        st.fixed_dictionaries({"additionalProperties": inner, "not": inner}),
    ),
    max_leaves=6,
)


@given(SCHEMAS)
def test_schema_is_compatible_with_itself_and_its_stored_texts(document: Any) -> None:
    schema = JSON.parse(json.dumps(document, indent=1), [])
    assert JSON.parse(schema.text, []).text == schema.text
    assert JSON.parse(schema.normalized(), []).normalized() == schema.normalized()
    assert schema.formatted("resolved") == schema.text
    again = JSON.parse(schema.normalized(), [])
    if '"not"' not in schema.text:
        assert check_compatibility("FULL", again, [schema]) == []


@given(SCHEMAS, SCHEMAS)
def test_comparison_of_any_two_schemas_ends_with_reasons(old: Any, new: Any) -> None:
    first, second = JSON.parse(json.dumps(old), []), JSON.parse(json.dumps(new), [])
    assert all(one.text("new", "old") for one in second.incompatibilities(first))


def test_members_keep_their_order_and_the_normal_form_sorts_them() -> None:
    schema = JSON.parse('{ "type": "object", "properties": {"b": {}, "a": {}} }', [])
    assert schema.text == '{"type":"object","properties":{"b":{},"a":{}}}'
    assert schema.normalized() == '{"properties":{"a":{},"b":{}},"type":"object"}'


def test_change_of_a_reference_is_an_incompatibility() -> None:
    text = '{"properties":{"a":{"$ref":"other.json"}}}'
    old = JSON.parse(text, [ResolvedReference("other.json", "s", 1, '{"type":"string"}')])
    new = JSON.parse(text, [ResolvedReference("other.json", "s", 2, '{"type":"number"}')])
    (reason,) = new.incompatibilities(old)
    assert (reason.kind, reason.path) == ("TYPE_CHANGED", "#/properties/a")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("[]", "neither an object nor a boolean"),
        ("5", "neither an object nor a boolean"),
        ('{"type":"objekt"}', "not valid at #/type"),
        ('{"$schema":"http://json-schema.org/draft-04/schema#","const":{"a":{"$ref":5}},"required":[]}', "#/required"),
        ('{"$ref":"http://127.0.0.1:1/a.json"}', "not among its references"),
        ('{"properties":{"a":{"pattern":"("}}}', "not valid at #/properties/a/pattern"),
        ('{"$schema":"https://json-schema.org/draft/2020-12/schema","pattern":"("}', "no regular expression"),
        ('{"not":' * (DEPTH_MAX + 1) + "{}" + "}" * (DEPTH_MAX + 1), "nested"),
        (json.dumps({"patternProperties": {f"p{number}": {} for number in range(1_001)}}), "1,001 patterns"),
    ],
)
def test_text_that_is_no_schema_or_beyond_bounds_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidSchema, match=message):
        JSON.parse(text, [])


def test_references_that_only_lead_to_each_other_are_refused() -> None:
    with pytest.raises(InvalidSchema, match="only lead to each other"):
        JSON.parse('{"properties":{"a":{"$ref":"#/properties/a"}}}', [])


def test_references_that_double_at_each_level_are_compared_quickly() -> None:
    levels = 60
    definitions: dict[str, Any] = {
        f"d{level}": {
            "allOf": [
                {"$ref": f"#/definitions/d{level + 1}"},
                {"properties": {"a": {"$ref": f"#/definitions/d{level + 1}"}}},
            ]
        }
        for level in range(levels)
    }
    definitions[f"d{levels}"] = {"type": "string"}
    one = JSON.parse(json.dumps({"$ref": "#/definitions/d0", "definitions": definitions}), [])
    definitions[f"d{levels}"] = {"type": "string", "maxLength": 1}
    other = JSON.parse(json.dumps({"$ref": "#/definitions/d0", "definitions": definitions}), [])
    assert one.incompatibilities(other) == []
    assert other.incompatibilities(one)


def test_sums_with_too_many_members_end_as_incompatible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMPARISON_STEPS_MAX", 3_000)

    def members(keyword: str) -> Any:
        return JSON.parse(json.dumps({"anyOf": [{keyword: number} for number in range(60)]}), [])

    (reason,) = members("minimum").incompatibilities(members("maximum"))
    assert reason.kind == "TOO_LARGE"


def test_deepest_allowed_schema_is_compared_or_too_large() -> None:
    def deep(end: str) -> Any:
        return JSON.parse('{"items":' * (DEPTH_MAX - 1) + end + "}" * (DEPTH_MAX - 1), [])

    (reason,) = deep('{"type":"string"}').incompatibilities(deep('{"type":"null"}'))
    assert reason.path == "#/" + "/".join(["items"] * (DEPTH_MAX - 1))


def test_stored_schema_with_a_broken_pattern_is_incompatible_and_no_error() -> None:
    text = '{"patternProperties":{"(":{}},"additionalProperties":false}'
    stored = JSON.parse(text, [], is_new=False)
    (reason,) = JSON.parse('{"properties":{"a":{}}}', []).incompatibilities(stored)
    assert reason.kind == "INVALID_SCHEMA"


def test_stored_schema_that_no_meta_schema_allows_is_incompatible_and_no_error() -> None:
    stored = JSON.parse('{"required":5,"maxLength":"x"}', [], is_new=False)
    new = JSON.parse('{"required":["a"],"maxLength":1}', [])
    assert stored.incompatibilities(new)
    assert new.incompatibilities(stored)


def test_keywords_of_later_drafts_do_not_count() -> None:
    old = JSON.parse('{"type":"object","dependentRequired":{"a":[{}]}}', [])
    new = JSON.parse('{"type":"object","dependentRequired":{"a":["b"]},"unevaluatedProperties":5}', [])
    assert new.incompatibilities(old) == []
