"""The Avro schema type: texts parsed and checked, with names from references."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from kqueue.schema_registry.schemas.avro.compatibility import avro_incompatibilities
from kqueue.schema_registry.schemas.avro.model import AvroType
from kqueue.schema_registry.schemas.avro.parser import AvroParser
from kqueue.schema_registry.schemas.avro.printer import AvroPrinter
from kqueue.schema_registry.schemas.contract import Incompatibility, InvalidSchema, ParsedSchema, ResolvedReference
from kqueue.schema_registry.schemas.json_text import compact, read_document
from kqueue.schema_registry.schemas.limits import all_references

WHAT = "The Avro schema"


class AvroSchema:
    """A parsed Avro schema; a `ParsedSchema`.

    Attributes: root: its type. `referenced`: full names of the types that references define.
    """

    type_name = "AVRO"

    def __init__(self, root: AvroType, referenced: frozenset[str]) -> None:
        self.root = root
        self.referenced = referenced

    @cached_property
    def text(self) -> str:
        """The JSON as Apache Avro prints it; types of references are names."""
        return compact(AvroPrinter(self.referenced).document(self.root))

    def normalized(self) -> str:
        """Return the text with attributes and aliases in the order of their names."""
        return compact(AvroPrinter(self.referenced, is_normal=True).document(self.root))

    def formatted(self, format: str) -> str:
        """Return the text; with ``resolved``, the types of references are written out in it."""
        if format != "resolved":
            return self.text
        try:
            return compact(AvroPrinter().document(self.root))
        except RecursionError:
            raise InvalidSchema(f"{WHAT} is too deep to be written with its references") from None

    def incompatibilities(self, writer: ParsedSchema) -> list[Incompatibility]:
        """Return why values of `writer` can't be read; empty: they can."""
        assert isinstance(writer, AvroSchema)
        return avro_incompatibilities(self.root, writer.root)


class AvroSchemaType:
    """Parses Avro schemas."""

    name = "AVRO"

    def parse(self, text: str, references: Sequence[ResolvedReference], *, is_new: bool = True) -> AvroSchema:
        """Return a schema. Raises: InvalidSchema."""
        parser = AvroParser()
        for name, referenced in all_references(references).items():
            parser.parse(_document(referenced, f"The reference {name[:100]}"))
        names = frozenset(parser.names)
        schema = AvroSchema(parser.parse(_document(text, WHAT)), names)
        if is_new:
            _check_defaults(schema)
        return schema


TYPE = AvroSchemaType()


def _document(text: str, what: str) -> Any:
    """Return a schema's JSON; the name of a type may be without quotes, as Apache Avro takes it."""
    name = text.strip()
    return name if name.replace(".", "_").isidentifier() else read_document(text, what)


def _check_defaults(schema: AvroSchema) -> None:
    """Raise InvalidSchema if a default or a logical type is wrong, as fastavro says."""
    try:
        fastavro.parse_schema(AvroPrinter().document(schema.root), named_schemas={})
    except RecursionError:
        raise InvalidSchema(f"{WHAT} is nested too deeply, together with its references") from None
    except Exception as error:  # fastavro's own errors, and whatever wrong attributes make it raise
        reason = str(error) if isinstance(error, (SchemaParseException, UnknownType)) else repr(error)
        raise InvalidSchema(f"{WHAT} is not valid: {reason[:300]}") from None
