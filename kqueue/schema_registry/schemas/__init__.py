"""Schema types: Avro, JSON Schema and Protobuf as the registry parses, stores and compares them.

`schema_type(name)` returns a type, which parses texts with the texts that they refer to.
`check_compatibility` compares a new schema with earlier ones of its subject, at a level.
Each type is a package of its own: a parser, a printer of the stored text, and the rules by which a
reader is compatible with a writer. Nothing here fetches, stores or knows subjects.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from kqueue.base.errors import ExtraNeeded
from kqueue.base.extras import install_hint
from kqueue.schema_registry.schemas.compatibility import LEVELS, check_compatibility
from kqueue.schema_registry.schemas.contract import (
    Incompatibility,
    InvalidSchema,
    ParsedSchema,
    ResolvedReference,
    SchemaType,
)

__all__ = [
    "LEVELS",
    "TYPE_NAMES",
    "Incompatibility",
    "InvalidSchema",
    "ParsedSchema",
    "ResolvedReference",
    "SchemaType",
    "check_compatibility",
    "schema_type",
]

_PACKAGES: Mapping[str, str] = {"AVRO": "avro", "JSON": "json_schema", "PROTOBUF": "protobuf"}
TYPE_NAMES = tuple(_PACKAGES)
"""The names of the schema types, as requests and records have them."""


def schema_type(name: str) -> SchemaType:
    """Return the schema type of a name.

    Raises:
        InvalidSchema: there is none of that name.
        ExtraNeeded: the libraries of the extra `registry` are missing.
    """
    package = _PACKAGES.get(name)
    if package is None:
        raise InvalidSchema(f"Invalid schema type {name[:100]}: expected one of {', '.join(TYPE_NAMES)}")
    try:
        module = importlib.import_module(f"{__name__}.{package}")
    except ImportError as error:
        raise ExtraNeeded(f"schemas of type {name} need the package {error.name}: {install_hint('registry')}") from None
    found: SchemaType = module.TYPE
    return found
