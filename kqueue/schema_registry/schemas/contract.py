"""The contract of a schema type: what it parses, and how two parsed schemas are compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kqueue.base.errors import KqueueError


class InvalidSchema(KqueueError):
    """A text that is no schema of its type, or one beyond the bounds. Its message is a sentence."""


class ResolvedReference(NamedTuple):
    """A schema that another one refers to, with its text.

    Attributes:
        name: the name by which the other schema refers to it: of Avro a type's full name, of JSON
            Schema a URI, of Protobuf the path of an import.
        subject, version: where the registry has it.
        text: its stored text.
        references: those that its own text refers to.
    """

    name: str
    subject: str
    version: int
    text: str
    references: Sequence[ResolvedReference] = ()


class Incompatibility(NamedTuple):
    """One reason why a reader can't read all that a writer wrote.

    Attributes:
        kind: a constant name, Confluent's: ``TYPE_MISMATCH``.
        path: where in the schema: a JSON pointer, or ``#/`` and names.
        description: a sentence with ``{reader}`` and ``{writer}`` for "new" and "old", whichever
            reads; braces of other text are doubled.
        detail: what Avro adds: names, sizes; empty: nothing.
    """

    kind: str
    path: str
    description: str
    detail: str = ""

    def text(self, reader: str, writer: str) -> str:
        """Return it as responses with ``verbose=true`` have it. `reader`, `writer`: new or old."""
        sentence = self.description.format(reader=reader, writer=writer)
        info = f", additionalInfo:'{self.detail}'" if self.detail else ""
        return f"{{errorType:'{self.kind}', description:'{sentence}'{info}}}"


class ParsedSchema(Protocol):
    """A schema of one type. It is immutable. Thread: any.

    Attributes:
        type_name: AVRO, JSON or PROTOBUF.
        text: as the registry stores it: one line of JSON (Avro, JSON Schema), or Protobuf's printed
            form. A text that is parsed again has itself as `text`.
    """

    @property
    def type_name(self) -> str:
        """AVRO, JSON or PROTOBUF."""
        ...

    @property
    def text(self) -> str:
        """The stored text."""
        ...

    def normalized(self) -> str:
        """Return the text of ``normalize=true``: one for all schemas that differ in order only."""
        ...

    def formatted(self, format: str) -> str:
        """Return the text of ``format=``: ``resolved`` (Avro), ``serialized`` or
        ``ignore_extensions`` (Protobuf); `text` for every other one.
        """
        ...

    def incompatibilities(self, writer: ParsedSchema) -> list[Incompatibility]:
        """Return why this schema can't read what `writer`, of the same type, wrote; empty: it can.

        It ends in bounded time: schemas too large to be compared are incompatible.
        """
        ...


class SchemaType(Protocol):
    """Parses texts of one type. Thread: any.

    Attributes: name: AVRO, JSON or PROTOBUF.
    """

    @property
    def name(self) -> str:
        """AVRO, JSON or PROTOBUF."""
        ...

    def parse(self, text: str, references: Sequence[ResolvedReference], *, is_new: bool = True) -> ParsedSchema:
        """Return a schema.

        Args:
            references: the texts that it may refer to; nothing else is looked up or fetched.
            is_new: False: it is stored already, perhaps by another registry; rules that only new
                schemas have to follow (defaults of Avro's fields) are not checked.
        Raises: InvalidSchema.
        """
        ...
