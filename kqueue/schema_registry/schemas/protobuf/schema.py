"""The Protobuf schema type: text or descriptors, with imports from references."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from google.protobuf import descriptor_pool

from kqueue.schema_registry.schemas.contract import Incompatibility, InvalidSchema, ParsedSchema, ResolvedReference
from kqueue.schema_registry.schemas.limits import ComparisonTooLarge, all_references, check_text, too_large
from kqueue.schema_registry.schemas.protobuf.compatibility import ComparedFile, protobuf_incompatibilities
from kqueue.schema_registry.schemas.protobuf.descriptors import file_descriptor
from kqueue.schema_registry.schemas.protobuf.imports import google_descriptor, imported_files, read_file
from kqueue.schema_registry.schemas.protobuf.model import ProtoFile
from kqueue.schema_registry.schemas.protobuf.printer import print_file
from kqueue.schema_registry.schemas.protobuf.symbols import SymbolTable
from kqueue.schema_registry.schemas.protobuf.tokens import WHAT

FILE_NAME = "default"
"""The path of a schema's own file in its descriptor: registries do not know it."""


class ProtobufSchema:
    """A parsed file; a `ParsedSchema`.

    Attributes: file: its model. imported: those of the files that it imports, by path.
    """

    type_name = "PROTOBUF"

    def __init__(self, file: ProtoFile, imported: Mapping[str, ProtoFile]) -> None:
        self.file = file
        self._symbols = SymbolTable()
        for one in (file, *imported.values()):
            self._symbols.add(one)

    @cached_property
    def text(self) -> str:
        """The text without comments, declarations of each kind together."""
        return _checked(print_file(self.file))

    def normalized(self) -> str:
        """Return the text with declarations sorted and names of types in full."""
        return _checked(print_file(self.file, resolve=self._symbols.full_name))

    def formatted(self, format: str) -> str:
        """Return the text; with ``serialized`` a descriptor in base64, with ``ignore_extensions``
        the text without custom options and extensions.
        """
        if format == "serialized":
            return base64.b64encode(self.descriptor(FILE_NAME).SerializeToString()).decode()
        if format == "ignore_extensions":
            return _checked(print_file(self.file, with_extensions=False))
        return self.text

    def descriptor(self, path: str) -> Any:
        """Return the `FileDescriptorProto`. Raises: InvalidSchema."""
        return file_descriptor(self.file, path, self._symbols)

    def incompatibilities(self, writer: ParsedSchema) -> list[Incompatibility]:
        """Return why messages of `writer` can't be read; empty: they can."""
        assert isinstance(writer, ProtobufSchema)
        compared = ComparedFile(self.file, self._symbols), ComparedFile(writer.file, writer._symbols)
        try:
            return protobuf_incompatibilities(*compared)
        except (ComparisonTooLarge, RecursionError) as error:
            return [too_large(error)]


class ProtobufSchemaType:
    """Parses Protobuf schemas."""

    name = "PROTOBUF"

    def parse(self, text: str, references: Sequence[ResolvedReference], *, is_new: bool = True) -> ProtobufSchema:
        """Return a schema. Raises: InvalidSchema."""
        check_text(text)
        file = read_file(text)
        imported = imported_files(file, all_references(references))
        schema = ProtobufSchema(file, imported)
        if is_new:
            _check_by_pool(schema, imported)
        return schema


TYPE = ProtobufSchemaType()


def _check_by_pool(schema: ProtobufSchema, imported: Mapping[str, ProtoFile]) -> None:
    """Raise InvalidSchema if Google's package can't make the file's messages."""
    pool = descriptor_pool.DescriptorPool()
    try:
        for path, file in imported.items():
            own = google_descriptor(path)
            pool.Add(file_descriptor(file, path, schema._symbols) if own is None else own)
        pool.Add(schema.descriptor(FILE_NAME))
    except RecursionError:
        raise InvalidSchema(f"{WHAT} is nested too deeply") from None
    except (TypeError, ValueError, KeyError) as error:
        raise InvalidSchema(f"{WHAT} is not valid: {str(error)[:300]}") from None


def _checked(text: str) -> str:
    check_text(text)
    return text
