"""The files that a .proto file imports: given references, and those that every registry has."""

from __future__ import annotations

import base64
import importlib
from collections.abc import Mapping
from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from kqueue.schema_registry.schemas.contract import InvalidSchema
from kqueue.schema_registry.schemas.limits import DEPTH_MAX
from kqueue.schema_registry.schemas.protobuf.built_in import TEXTS
from kqueue.schema_registry.schemas.protobuf.descriptor_model import file_model
from kqueue.schema_registry.schemas.protobuf.model import ProtoFile
from kqueue.schema_registry.schemas.protobuf.parser import parse_file
from kqueue.schema_registry.schemas.protobuf.tokens import WHAT

_GOOGLE = (
    "any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type",
    "wrappers",
)  # fmt: skip


def read_file(text: str) -> ProtoFile:
    """Return the model of a file: .proto text, or a descriptor in base64. Raises: InvalidSchema."""
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        return parse_file(text)
    if not data:
        return parse_file(text)
    try:
        descriptor = descriptor_pb2.FileDescriptorProto.FromString(data)
    except DecodeError:
        raise InvalidSchema(f"{WHAT} is neither .proto text nor a file descriptor in base64") from None
    try:
        return file_model(descriptor)
    except RecursionError:
        raise InvalidSchema(f"{WHAT} is nested too deeply") from None


def imported_files(file: ProtoFile, references: Mapping[str, str]) -> dict[str, ProtoFile]:
    """Return all files that a file imports, by path, each after those that it imports itself.

    Args: references: texts of files by path.
    Raises: InvalidSchema: one is missing, invalid, or imports itself.
    """
    files: dict[str, ProtoFile] = {}

    def add(paths: tuple[str, ...], within: tuple[str, ...]) -> None:
        if len(within) > DEPTH_MAX:
            raise InvalidSchema(f"{WHAT} imports files more than {DEPTH_MAX} deep")
        for path in paths:
            if path in within:
                raise InvalidSchema(f"{WHAT} has imports in a circle: {path[:100]} imports itself")
            if path in files:
                continue
            imported = _file(path, references)
            add((*imported.imports, *imported.public_imports), (*within, path))
            files[path] = imported

    add((*file.imports, *file.public_imports), ())
    return files


def _file(path: str, references: Mapping[str, str]) -> ProtoFile:
    if path in references:
        try:
            return read_file(references[path])
        except InvalidSchema as error:
            raise InvalidSchema(f"The reference {path[:100]}: {error}") from None
    built_in = built_in_file(path)
    if built_in is None:
        raise InvalidSchema(f"{WHAT} imports {path[:100]!r}, which is not among its references")
    return built_in


@cache
def _google_file(stem: str) -> ProtoFile:
    module = importlib.import_module(f"google.protobuf.{stem}_pb2")
    descriptor = descriptor_pb2.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(descriptor)
    return file_model(descriptor)


@cache
def _common_file(path: str) -> ProtoFile:
    return parse_file(TEXTS[path])


def built_in_file(path: str) -> ProtoFile | None:
    """Return a file that needs no reference; None: it is none of them."""
    if path in TEXTS:
        return _common_file(path)
    stem = path.removeprefix("google/protobuf/").removesuffix(".proto")
    return _google_file(stem) if stem in _GOOGLE and path == f"google/protobuf/{stem}.proto" else None


def google_descriptor(path: str) -> Any | None:
    """Return Google's own descriptor of one of its files; None: it is none of them."""
    stem = path.removeprefix("google/protobuf/").removesuffix(".proto")
    if stem not in _GOOGLE:
        return None
    descriptor = descriptor_pb2.FileDescriptorProto()
    importlib.import_module(f"google.protobuf.{stem}_pb2").DESCRIPTOR.CopyToProto(descriptor)
    return descriptor
