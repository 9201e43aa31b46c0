"""Readers and writers of messages, compiled to functions per (class, version) on first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kqueue.base.errors import MalformedMessage, UnsupportedVersion
from kqueue.schema.field_types import Chunk
from kqueue.schema.reader_codegen import reader_source
from kqueue.schema.structs import MessageSchema, message_schema_of
from kqueue.schema.writer_codegen import writer_source

M = TypeVar("M")

_READERS: dict[tuple[type[Any], int], Callable[..., Any]] = {}
_COUNTED_READERS: dict[tuple[type[Any], int], Callable[..., Any]] = {}
_WRITERS: dict[tuple[type[Any], int], Callable[..., Any]] = {}


def reader(cls: type[M], version: int) -> Callable[[memoryview, int], tuple[M, int]]:
    """Return the reader of `cls` at this version: `read(buf, position) -> (object, next position)`.

    `record_data` fields are views of `buf`; all others are copied. The reader raises
    MalformedMessage for bytes that are not such a message. It compares each count and length with
    the remaining bytes before it allocates.

    Raises:
        UnsupportedVersion: the message has no such version.
    """
    function = _READERS.get((cls, version))
    if function is None:
        schema = _checked(cls, version)
        function = reader_source(schema, version, version in schema.flexible).compile(
            "read", f"{schema.name} v{version} reader"
        )
        _READERS[cls, version] = function
    return function


def counted_reader(cls: type[M], version: int) -> Callable[[memoryview, int, int], tuple[M, int]]:
    """Return a reader that limits items: `read(buf, position, items_max)`.

    It returns (object, next position). Items are the elements of all arrays, at every depth, and
    the tagged fields. They are counted before they are created: the reader raises TooManyItems at
    the first array that would exceed `items_max`. A message of n bytes has at most n items.

    Raises:
        UnsupportedVersion: the message has no such version.
    """
    function = _COUNTED_READERS.get((cls, version))
    if function is None:
        schema = _checked(cls, version)
        source = reader_source(schema, version, version in schema.flexible, counted=True)
        function = _COUNTED_READERS[cls, version] = source.compile("read", f"{schema.name} v{version} counted reader")
    return function


def writer(cls: type[M], version: int) -> Callable[[M, list[Chunk]], None]:
    """Return the writer of `cls` at this version: `write(object, chunks)` appends to `chunks`.

    The value of a `record_data` field (bytes, a view, or a region of a file) is appended without a
    copy. If the writer raises, `chunks` may hold a part of the message. It raises:

    - UnsupportedVersion: a value that is not ignorable has no field at this version.
    - UnencodableMessage: a field cannot encode its value.

    Raises:
        UnsupportedVersion: the message has no such version.
    """
    function = _WRITERS.get((cls, version))
    if function is None:
        schema = _checked(cls, version)
        function = writer_source(schema, version, version in schema.flexible).compile(
            "write", f"{schema.name} v{version} writer"
        )
        _WRITERS[cls, version] = function
    return function


def decode(cls: type[M], version: int, buf: bytes | bytearray | memoryview) -> M:
    """Return the message that `buf` holds.

    Raises:
        MalformedMessage: the bytes are not such a message, or bytes remain after it.
        UnsupportedVersion: the message has no such version.
    """
    view = memoryview(buf)
    decoded, position = reader(cls, version)(view, 0)
    if position != len(view):
        left = len(view) - position
        raise MalformedMessage(
            f"{cls.__name__} v{version}: expected the end at byte {position}, found {left} bytes more"
        )
    return decoded


def encode(message: object, version: int) -> bytes:
    """Return the bytes of a message; regions of files are read. Raises: as the `writer`."""
    chunks: list[Chunk] = []
    writer(type(message), version)(message, chunks)
    return join(chunks)


def join(chunks: list[Chunk]) -> bytes:
    """Return all chunks as one `bytes`; regions of files are read."""
    return b"".join([chunk if isinstance(chunk, (bytes, bytearray, memoryview)) else chunk.read() for chunk in chunks])


def _checked(cls: type[Any], version: int) -> MessageSchema:
    schema = message_schema_of(cls)
    if version not in schema.versions:
        raise UnsupportedVersion(f"{schema.name} has versions {schema.versions}, not {version}")
    return schema
