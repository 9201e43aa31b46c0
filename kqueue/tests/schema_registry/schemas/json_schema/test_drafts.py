from __future__ import annotations

import pytest

from kqueue.schema_registry.schemas import InvalidSchema
from kqueue.schema_registry.schemas.json_schema.drafts import (
    DEFAULT_DRAFT,
    DRAFTS,
    check_by_meta_schema,
    check_pattern,
    draft_of,
    matches,
)


def test_draft_is_named_by_its_uri_with_or_without_a_fragment_and_tls() -> None:
    draft_4 = DRAFTS["http://json-schema.org/draft-04/schema"]
    for uri in ("http://json-schema.org/draft-04/schema#", "https://json-schema.org/draft-04/schema"):
        assert draft_of({"$schema": uri}) is draft_4
    assert draft_of({"$schema": "https://json-schema.org/draft/2020-12/schema"}).has_prefix_items


@pytest.mark.parametrize("document", [True, {}, {"$schema": "http://e.org/own"}, {"$schema": 5}])
def test_other_documents_are_of_draft_7(document: object) -> None:
    assert draft_of(document) is DEFAULT_DRAFT


@pytest.mark.parametrize("draft", DRAFTS.values(), ids=DRAFTS)
def test_meta_schema_of_each_draft_refuses_what_it_does_not_allow(draft: object) -> None:
    check_by_meta_schema({"type": "object", "properties": {"a": {"minLength": 1}}}, draft, "It")
    with pytest.raises(InvalidSchema, match="It is not valid at #/properties/a/minLength"):
        check_by_meta_schema({"properties": {"a": {"minLength": -1}}}, draft, "It")


def test_unknown_meta_schema_is_not_fetched() -> None:
    document = {"$schema": "http://127.0.0.1:1/none", "type": "object"}
    check_by_meta_schema(document, draft_of(document), "It")


def test_pattern_that_steps_back_for_ever_ends() -> None:
    assert matches("^s_", "s_1")
    assert not matches("^s_", "1")
    assert not matches("^(?=a)(a+)+$", "a" * 60 + "!")


@pytest.mark.parametrize("pattern", ["(", "(((a{1,100}){1,100}){1,100}){1,100}"])
def test_pattern_that_is_none_or_too_large_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidSchema, match="It is not valid: .* is no regular expression"):
        check_pattern(pattern, "It")
