"""The JSON Schema type: texts checked by their meta-schema, with references by name or URI."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from kqueue.schema_registry.schemas.contract import Incompatibility, InvalidSchema, ParsedSchema, ResolvedReference
from kqueue.schema_registry.schemas.json_schema.comparison import SchemaComparison
from kqueue.schema_registry.schemas.json_schema.documents import WHAT, Location, SchemaDocuments
from kqueue.schema_registry.schemas.json_schema.drafts import check_by_meta_schema, check_pattern
from kqueue.schema_registry.schemas.json_schema.kinds import BY_KIND
from kqueue.schema_registry.schemas.json_schema.views import REFERENCE_KEYWORDS, SchemaViews
from kqueue.schema_registry.schemas.json_text import compact, read_document, sorted_members
from kqueue.schema_registry.schemas.limits import ComparisonTooLarge, all_references, too_large

PATTERNS_MAX = 1_000
"""Different patterns of one schema."""


class JsonSchema:
    """A parsed JSON Schema; a `ParsedSchema`."""

    type_name = "JSON"

    def __init__(self, document: Any, documents: SchemaDocuments) -> None:
        self._document = document
        self._documents = documents

    @cached_property
    def text(self) -> str:
        """The JSON on one line, members in their order."""
        return compact(self._document)

    def normalized(self) -> str:
        """Return the text with members sorted by name."""
        return compact(sorted_members(self._document))

    def formatted(self, format: str) -> str:
        """Return the text: JSON Schema has no other formats."""
        return self.text

    def incompatibilities(self, writer: ParsedSchema) -> list[Incompatibility]:
        """Return where values that are valid for `writer` are not for this one; empty: nowhere."""
        assert isinstance(writer, JsonSchema)
        original, update = SchemaViews(writer._documents), SchemaViews(self._documents)
        try:
            found = SchemaComparison(original, update, BY_KIND).compare(original.root(), update.root())
        except (ComparisonTooLarge, RecursionError) as error:
            return [too_large(error)]
        except Exception as error:  # whatever a stored schema, which no meta-schema checked, makes it raise
            reason = str(error) if isinstance(error, InvalidSchema) else "one of them is not valid"
            return [Incompatibility("INVALID_SCHEMA", "#/", _escaped(f"Schemas can not be compared: {reason}"))]
        return [one.incompatibility() for one in dict.fromkeys(found)]


class JsonSchemaType:
    """Parses JSON Schemas."""

    name = "JSON"

    def parse(self, text: str, references: Sequence[ResolvedReference], *, is_new: bool = True) -> JsonSchema:
        """Return a schema. Raises: InvalidSchema."""
        document = read_document(text, WHAT)
        others = {
            name: read_document(referenced, f"The reference {name[:100]}")
            for name, referenced in all_references(references).items()
        }
        if not isinstance(document, (dict, bool)):
            raise InvalidSchema(f"{WHAT} is neither an object nor a boolean")
        documents = SchemaDocuments(document, others)
        if is_new:
            check_by_meta_schema(document, documents.draft, WHAT)
        _check_parts(documents, is_new=is_new)
        return JsonSchema(document, documents)


TYPE = JsonSchemaType()


def _check_parts(documents: SchemaDocuments, *, is_new: bool) -> None:
    """Raise InvalidSchema if a reference means nothing, or a pattern is none."""
    patterns: set[str] = set()
    views = SchemaViews(documents)
    for location in documents.parts():
        for keyword in REFERENCE_KEYWORDS:
            reference = location.part.get(keyword)
            if isinstance(reference, str):
                documents.resolve(reference, location)
                views.followed(location)
        patterns.update(_patterns(location))
    if not is_new:
        return
    if len(patterns) > PATTERNS_MAX:
        raise InvalidSchema(f"{WHAT} has {len(patterns):,} patterns; {PATTERNS_MAX:,} are allowed")
    for pattern in patterns:
        check_pattern(pattern, WHAT)


def _patterns(location: Location) -> list[str]:
    one, by_pattern = location.part.get("pattern"), location.part.get("patternProperties")
    return [
        *([one] if isinstance(one, str) else []),
        *(by_pattern if isinstance(by_pattern, dict) else []),
    ]


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
