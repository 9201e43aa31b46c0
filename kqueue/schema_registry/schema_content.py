"""The content of a schema: all that makes it this schema and no other, with its MD5.

Schemas of equal content share one id within a context, whatever their subjects.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from kqueue.schema_registry.data_contract import (
    Metadata,
    RuleSet,
    metadata_parts,
    parse_metadata,
    parse_rule_set,
    rule_set_parts,
)
from kqueue.schema_registry.errors import INVALID_SCHEMA, SCHEMA_TOO_LARGE, RegistryError
from kqueue.schema_registry.limits import VERSION_MAX, Limits

AVRO = "AVRO"
MD5_BYTES = 16
LATEST_VERSION = -1
"""As the version of a reference: the newest, when the schema is registered."""


class SchemaReference(NamedTuple):
    """A schema's reference to a version of a subject.

    Attributes:
        name: by which the schema names it.
        subject: in the context of the schema, if its name has none.
        version: -1 is the newest.
    """

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class SchemaContent:
    """What is registered. Two of equal MD5 and type are the same schema.

    Attributes: text: of the schema. metadata, rule_set: None: none was given.
    """

    type_name: str
    text: str
    references: tuple[SchemaReference, ...] = ()
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None

    @cached_property
    def md5(self) -> bytes:
        """16 bytes over text, references, metadata and rules, as Confluent's clients hash them."""
        digest = hashlib.md5(self.text.encode(), usedforsecurity=False)
        for part in (
            *reference_parts(self.references),
            *metadata_parts(self.metadata),
            *rule_set_parts(self.rule_set),
        ):
            digest.update(part)
        return digest.digest()

    @property
    def identity(self) -> tuple[str, bytes]:
        """What equal schemas have in common; hashable."""
        return self.type_name, self.md5

    def with_text(self, text: str) -> SchemaContent:
        """Return the same with another text."""
        return replace(self, text=text)

    def with_contract(self, metadata: Metadata | None, rule_set: RuleSet | None) -> SchemaContent:
        """Return the same with other metadata and rules."""
        return replace(self, metadata=metadata, rule_set=rule_set)

    def with_references(self, references: tuple[SchemaReference, ...]) -> SchemaContent:
        """Return the same with other references."""
        return replace(self, references=references)

    def fields(self) -> dict[str, Any]:
        """Return the members of JSON that requests, responses and records have in common, in
        Confluent's order. AVRO is not named: readers take a schema without a type for Avro.
        """
        fields: dict[str, Any] = {}
        if self.type_name != AVRO:
            fields["schemaType"] = self.type_name
        if self.references:
            fields["references"] = [reference._asdict() for reference in self.references]
        if self.metadata is not None:
            fields["metadata"] = self.metadata
        if self.rule_set is not None:
            fields["ruleSet"] = self.rule_set
        fields["schema"] = self.text
        return fields


def reference_parts(references: Sequence[SchemaReference]) -> Iterator[bytes]:
    """Yield what a schema's MD5 includes of its references."""
    for reference in references:
        yield reference.name.encode()
        yield reference.subject.encode()
        yield reference.version.to_bytes(4, "big", signed=True)


def parse_content(fields: Mapping[str, Any], limits: Limits | None) -> SchemaContent:
    """Return the content that a request or record has. Its text is not parsed.

    Args: limits: None: it is stored already, perhaps by a registry with other limits.
    Raises: RegistryError: a member has the wrong type, or is beyond the limits.
    """
    text = fields.get("schema")
    if not isinstance(text, str):
        raise _invalid(f"schema is {type(text).__name__}; expected a string")
    if limits is not None and len(text) > limits.schema_characters_max:
        raise RegistryError(
            SCHEMA_TOO_LARGE, reason=f"it has {len(text):,} characters, at most {limits.schema_characters_max:,}"
        )
    type_name = fields.get("schemaType") or AVRO
    if not isinstance(type_name, str):
        raise _invalid(f"schemaType is {type(type_name).__name__}; expected a string")
    return SchemaContent(
        type_name,
        _utf8(text, "schema"),
        _references(fields.get("references"), limits),
        parse_metadata(fields.get("metadata")),
        parse_rule_set(fields.get("ruleSet"), is_new=limits is not None),
    )


def _references(given: object, limits: Limits | None) -> tuple[SchemaReference, ...]:
    if given is None:
        return ()
    if not isinstance(given, list):
        raise _invalid(f"references is {type(given).__name__}; expected a list")
    if limits is not None and len(given) > limits.references_max:
        raise RegistryError(
            SCHEMA_TOO_LARGE, reason=f"it has {len(given):,} references, at most {limits.references_max:,}"
        )
    references = tuple(map(_reference, given))
    if len({reference.name for reference in references}) < len(references):
        raise _invalid("two references have the same name")
    return references


def _reference(given: object) -> SchemaReference:
    if not isinstance(given, dict):
        raise _invalid(f"a reference is {type(given).__name__}; expected an object")
    name, subject, version = given.get("name"), given.get("subject"), given.get("version")
    if not (isinstance(name, str) and isinstance(subject, str) and name and subject):
        raise _invalid("a reference needs the strings name and subject")
    if type(version) is not int or not (version == LATEST_VERSION or 1 <= version <= VERSION_MAX):
        raise _invalid(f"reference {name[:100]!r} has no version: expected a number above 0, or -1 for the newest")
    return SchemaReference(_utf8(name, "name"), _utf8(subject, "subject"), version)


def _utf8(text: str, what: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _invalid(f"{what} has half a surrogate pair, which no UTF-8 text can have") from None
    return text


def _invalid(reason: str) -> RegistryError:
    return RegistryError(INVALID_SCHEMA, reason=reason)
