"""Bounds on what clients may send and what records may hold."""

from __future__ import annotations

from typing import NamedTuple


class Limits(NamedTuple):
    """Bounds of one registry.

    Attributes:
        body_bytes_max: of a request, before it is read.
        schema_characters_max: of the text of one schema.
        references_max: of one schema, itself.
        resolved_references_max: of one schema, with those of its references.
        reference_depth_max: of references of references.
        subject_characters_max: of a subject's name, with its context.
        stored_bytes_max: of all records that count; beyond it nothing is added.
        parsed_schemas_max: how many parsed schemas are kept for the next request.
        parsed_schema_characters_max: of a schema that is kept.
        names_listed_max: names and numbers in one answer.
        schemas_listed_max: schemas in one answer.
    """

    body_bytes_max: int = 4_000_000
    schema_characters_max: int = 1_000_000
    references_max: int = 100
    resolved_references_max: int = 1_000
    reference_depth_max: int = 30
    subject_characters_max: int = 1_000
    stored_bytes_max: int = 1_000_000_000
    parsed_schemas_max: int = 500
    parsed_schema_characters_max: int = 50_000
    names_listed_max: int = 20_000
    schemas_listed_max: int = 1_000


DEFAULT_LIMITS = Limits()
VERSION_MAX = ID_MAX = 2**31 - 1
