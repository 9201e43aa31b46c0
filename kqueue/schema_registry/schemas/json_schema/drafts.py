"""The drafts of JSON Schema, and the checks of documents by their meta-schemas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

import jsonschema_rs

from kqueue.base.text import short_repr
from kqueue.schema_registry.schemas.contract import InvalidSchema

PATTERN_BYTES_MAX = 1 << 20
"""Memory that one compiled pattern may take."""
BACKTRACKS_MAX = 10_000
"""Steps back that a pattern may take on one name; it does not match beyond them."""
REASON_CHARACTERS_MAX = 300


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft.

    Attributes:
        uri: of its meta-schema.
        id_keyword: by which a schema gives itself a URI.
        is_modern: ``$ref`` stands beside other keywords (2019-09 and later).
        has_prefix_items: ``prefixItems`` and ``items`` instead of a list in ``items`` (2020-12).
    """

    uri: str
    id_keyword: str = "$id"
    is_modern: bool = False
    has_prefix_items: bool = False


DRAFTS: Mapping[str, Draft] = {
    draft.uri.removesuffix("#"): draft
    for draft in (
        Draft("http://json-schema.org/draft-04/schema#", id_keyword="id"),
        Draft("http://json-schema.org/draft-06/schema#"),
        Draft("http://json-schema.org/draft-07/schema#"),
        Draft("https://json-schema.org/draft/2019-09/schema", is_modern=True),
        Draft("https://json-schema.org/draft/2020-12/schema", is_modern=True, has_prefix_items=True),
    )
}
"""By the URI of ``$schema``, without its fragment."""
DEFAULT_DRAFT = DRAFTS["http://json-schema.org/draft-07/schema"]
"""That of schemas without ``$schema``, or with an unknown one, as in Confluent's registry."""


def draft_of(document: Any) -> Draft:
    """Return the draft that a document names, or `DEFAULT_DRAFT`."""
    uri = document.get("$schema") if isinstance(document, dict) else None
    if not isinstance(uri, str):
        return DEFAULT_DRAFT
    rest = uri.removesuffix("#").partition("://")[2]
    return DRAFTS.get(f"http://{rest}") or DRAFTS.get(f"https://{rest}", DEFAULT_DRAFT)


def check_by_meta_schema(document: Any, draft: Draft, what: str) -> None:
    """Raise InvalidSchema if a document is no schema of a draft. `what`: names it in messages."""
    try:
        _meta_validator(draft).validate(document)
    except jsonschema_rs.ValidationError as error:
        path = "/".join(map(str, error.instance_path))
        raise InvalidSchema(f"{what} is not valid at #/{path}: {error.message[:REASON_CHARACTERS_MAX]}") from None


def matches(pattern: str, name: str) -> bool:
    """Return whether a pattern is found in a name, in bounded time. Raises: InvalidSchema."""
    return bool(_compiled(pattern).is_valid(name))


def check_pattern(pattern: str, what: str) -> None:
    """Raise InvalidSchema if a pattern is no regular expression, or needs too much memory."""
    try:
        _compiled(pattern)
    except InvalidSchema as error:
        raise InvalidSchema(f"{what} is not valid: {error}") from None


@cache
def _meta_validator(draft: Draft) -> Any:
    return jsonschema_rs.validator_for({"$schema": draft.uri, "$ref": draft.uri}, retriever=_refuse)


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is not fetched")


def _compiled(pattern: str) -> Any:
    options = jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACKS_MAX, size_limit=PATTERN_BYTES_MAX)
    try:
        return jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=options)
    except (jsonschema_rs.ValidationError, ValueError):
        raise InvalidSchema(f"{short_repr(pattern)} is no regular expression, or too large a one") from None
