"""Common parts of all formats: settings, texts of schemas, decoded columns, limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from kqueue.schema_registry.rest_client import RegistrySettings

if TYPE_CHECKING:
    import pyarrow as pa

FormatName = Literal["avro", "protobuf", "json-schema"]
FORMATS: tuple[FormatName, ...] = ("avro", "protobuf", "json-schema")
SCHEMA_BYTES_MAX = 1024 * 1024
DEPTH_MAX = 32
"""Levels of nesting of a column."""
FIELDS_MAX = 2_000
"""Fields of a column, those of all levels together."""
ERROR_CHARACTERS_MAX = 300


@dataclass(frozen=True, slots=True)
class ValueSettings:
    """The options about values.

    Attributes:
        schema: its text, or the path of a file.
        registry: None: values have no frame before them, and `schema` is theirs.
        subject: whose newest schema counts if `schema` is None.
        message: the name of a Protobuf message; None: the first of the schema.
        permissive: wrong values become null with a reason; otherwise they fail the query.
    """

    format: FormatName
    schema: str | None = None
    registry: RegistrySettings | None = None
    subject: str | None = None
    message: str | None = None
    permissive: bool = False


class SchemaText(NamedTuple):
    """A schema as registries have it; of Protobuf, descriptors in base64.

    `references`: texts of others that it names, by name, each after those that it needs itself.
    """

    text: str
    references: tuple[tuple[str, str], ...] = ()


class Decoded(NamedTuple):
    """Decoded values: a struct array, null where a value is wrong, and the reasons by index."""

    values: pa.StructArray
    errors: Mapping[int, str]


class Decoder(Protocol):
    """Decodes values that were written with one schema."""

    def decode(self, values: Sequence[bytes]) -> Decoded:
        """Return the values as columns. A wrong value never raises."""
        ...


class ReaderFormat(Protocol):
    """The reader's schema, in one format.

    Attributes: type: the Arrow type of the column, as Spark names its parts.
    """

    @property
    def type(self) -> pa.StructType: ...

    def decoder(self, writer: Any, indexes: tuple[int, ...]) -> Decoder:
        """Return a decoder.

        Args:
            writer: the writer's schema, a `SchemaText`; None: it is the reader's.
            indexes: which message of the writer's schema it is (Protobuf).
        Raises: SchemaRefused: the schemas do not fit together, or `writer` is of no use.
        """
        ...


def shortened(text: object) -> str:
    """Return a message on one line, of bounded length."""
    line = " ".join(str(text).split())
    return line if len(line) <= ERROR_CHARACTERS_MAX else line[: ERROR_CHARACTERS_MAX - 1] + "…"
