"""Protobuf's descriptors of files: from .proto text, from descriptor sets, and of registries.

A `SchemaText` of Protobuf has descriptors in base64, as registries give them for
``format=serialized``, so that tasks need no compiler.
"""

from __future__ import annotations

import base64
import importlib
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message import DecodeError

from kqueue.base.errors import ExtraNeeded
from kqueue.base.extras import install_hint
from kqueue.spark.errors import SchemaRefused
from kqueue.spark.value_formats.contract import SchemaText, shortened

WHAT = "the Protobuf schema"
MAIN = "kqueue/value.proto"
"""The name of the schema's own file: registries give any."""
COMPILE_TIMEOUT_S = 60
WELL_KNOWN = "google/protobuf/"
ONLY_OPTIONS = ("confluent/meta.proto",)
"""Files of which schemas use options only; registries have them built in."""
_BUILT_IN = (
    "any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type",
    "wrappers",
)  # fmt: skip


def serialized(schema: SchemaText, folder: Path | None = None) -> SchemaText:
    """Return a schema with descriptors in place of .proto text.

    Args:
        folder: where imports are looked for too; None: only among the references.
    Raises: SchemaRefused, ExtraNeeded.
    """
    texts = [schema.text, *(text for _, text in schema.references)]
    if all(_is_serialized(text) for text in texts):
        return schema
    return from_set(_compiled(schema, folder))


def from_set(data: bytes) -> SchemaText:
    """Return the schema of a descriptor set with imports, whose last file counts.

    Raises: SchemaRefused.
    """
    try:
        files = list(descriptor_pb2.FileDescriptorSet.FromString(data).file)
    except DecodeError as error:
        raise SchemaRefused(f"{WHAT} is neither .proto text nor a descriptor set: {shortened(error)}") from None
    if not files:
        raise SchemaRefused(f"{WHAT} has no files")
    texts = [(file.name, base64.b64encode(file.SerializeToString()).decode()) for file in files]
    return SchemaText(texts[-1][1], tuple(texts[:-1]))


def messages_of(schema: SchemaText) -> tuple[Any, Any]:
    """Return the descriptor of the schema's file, and the pool that it is in.

    Raises: SchemaRefused.
    """
    pool = descriptor_pool.DescriptorPool()
    known = {name: _file(text, name) for name, text in schema.references}
    main = _file(schema.text, MAIN)
    added: set[str] = set()
    try:
        _add(main, known, pool, added)
        return pool.FindFileByName(MAIN), pool
    except (TypeError, KeyError, ValueError) as error:
        raise SchemaRefused(f"{WHAT} can't be used: {shortened(error)}") from None
    except RecursionError:
        raise SchemaRefused(f"{WHAT} imports in a circle, or too deeply") from None


def indexed_message(schema: SchemaText, indexes: tuple[int, ...]) -> Any:
    """Return the descriptor of the message that the indexes of a frame lead to.

    Raises: SchemaRefused, ExtraNeeded.
    """
    file, _ = messages_of(serialized(schema))
    messages = list(file.message_types_by_name.values())
    message: Any = None
    for index in indexes:
        if index >= len(messages):
            raise SchemaRefused(f"its schema has no message at {'/'.join(map(str, indexes))}")
        message = messages[index]
        messages = list(message.nested_types)
    return message


def _add(file: Any, known: Mapping[str, Any], pool: Any, added: set[str]) -> None:
    """Add a file to a pool, after all that it imports."""
    if file.name in added:
        return
    kept = [name for name in file.dependency if name in known or name not in ONLY_OPTIONS]
    if len(kept) < len(file.dependency):
        del file.dependency[:], file.public_dependency[:], file.weak_dependency[:]
        file.dependency.extend(kept)
    for name in kept:
        _add(known[name] if name in known else _well_known(name), known, pool, added)
    added.add(file.name)
    pool.Add(file)


def _well_known(name: str) -> Any:
    stem = name.removeprefix(WELL_KNOWN).removesuffix(".proto")
    if not name.startswith(WELL_KNOWN) or stem not in _BUILT_IN:
        raise SchemaRefused(f"{WHAT} imports {shortened(name)!r}, which is not there")
    module = importlib.import_module(f"google.protobuf.{stem}_pb2")
    file = descriptor_pb2.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    return file


def _file(text: str, name: str) -> Any:
    try:
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (ValueError, DecodeError) as error:
        raise SchemaRefused(f"{WHAT} can't be used: {shortened(error)}") from None
    file.name = name
    return file


def _is_serialized(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        return False
    return True


def _compiled(schema: SchemaText, folder: Path | None) -> bytes:
    """Return the descriptor set of .proto texts: the compiler runs in a process of its own."""
    try:
        importlib.import_module("grpc_tools")
    except ImportError as error:
        raise ExtraNeeded(f".proto files need the package grpcio-tools ({error}): {install_hint('schemas')}") from None
    with tempfile.TemporaryDirectory(prefix="kqueue-proto-") as temporary:
        place = Path(temporary, "files")
        _write([*schema.references, (MAIN, schema.text)], place)
        out = Path(temporary, "set")
        includes = [f"-I{one}" for one in (place, folder) if one is not None]
        command = [sys.executable, "-m", "grpc_tools.protoc", *includes, "--include_imports"]
        try:
            done = subprocess.run(
                [*command, f"--descriptor_set_out={out}", MAIN],
                capture_output=True,
                timeout=COMPILE_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SchemaRefused(f"{WHAT} is not compiled in {COMPILE_TIMEOUT_S} s") from None
        if done.returncode or not out.is_file():
            words = done.stderr.decode(errors="replace").replace(f"{place}/", "").replace(MAIN, "line").strip()
            raise SchemaRefused(f"{WHAT} can't be compiled: {shortened(words)}")
        return out.read_bytes()


def _write(files: Iterable[tuple[str, str]], place: Path) -> None:
    for name, text in files:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\0" in name or not path.name:
            raise SchemaRefused(f"{WHAT} has a reference called {shortened(name)!r}, which is no path of an import")
        if _is_serialized(text):
            raise SchemaRefused(f"{WHAT} is partly .proto text and partly descriptors")
        try:
            target = place / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        except (OSError, UnicodeEncodeError) as error:
            raise SchemaRefused(f"{WHAT} can't be compiled: {shortened(error)}") from None
