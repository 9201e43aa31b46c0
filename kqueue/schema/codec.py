"""Readers and writers of messages: compiled once per (class, version), on first use, to plain
functions.
"""

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
    """The function that reads a `cls` at this version: `read(buf, position) -> (object, next
    position)`.

    `record_data` fields are views of `buf`; all else is copied out of it. The function raises
    MalformedMessage for any bytes that are not such a message; before a list or text is made, its
    count or length is held against the bytes left. Raises: UnsupportedVersion: the message has no
    such version.
    """
    made = _READERS.get((cls, version))
    if made is None:
        schema = _checked(cls, version)
        made = reader_source(schema, version, version in schema.flexible).compile(
            "read", f"{schema.name} v{version} reader"
        )
        _READERS[cls, version] = made
    return made


def counted_reader(cls: type[M], version: int) -> Callable[[memoryview, int, int], tuple[M, int]]:
    """Like `reader`, for large messages: `read(buf, position, items_max) -> (object, next
    position)`.

    Items are the elements of all arrays, at every depth, and the tagged fields. They are counted
    before they are built: the function raises TooManyItems at the first array that would pass
    `items_max`. A message of n bytes never holds more than n items. Raises: UnsupportedVersion: the
    message has no such version.
    """
    made = _COUNTED_READERS.get((cls, version))
    if made is None:
        schema = _checked(cls, version)
        source = reader_source(schema, version, version in schema.flexible, counted=True)
        made = _COUNTED_READERS[cls, version] = source.compile("read", f"{schema.name} v{version} counted reader")
    return made


def writer(cls: type[M], version: int) -> Callable[[M, list[Chunk]], None]:
    """The function that writes a `cls` at this version: `write(object, chunks)` appends its bytes
    to the list.

    What a `record_data` field holds is appended as it is (bytes, a view, or a region of a file),
    never copied. The function raises UnsupportedVersion where a value that may not be ignored has
    no field at this version, UnencodableMessage for a value that its field can't carry; the list
    may then hold a part of the message. Raises: UnsupportedVersion: the message has no such
    version.
    """
    made = _WRITERS.get((cls, version))
    if made is None:
        schema = _checked(cls, version)
        made = writer_source(schema, version, version in schema.flexible).compile(
            "write", f"{schema.name} v{version} writer"
        )
        _WRITERS[cls, version] = made
    return made


def decode(cls: type[M], version: int, buf: bytes | bytearray | memoryview) -> M:
    """The message that `buf` holds from its first byte to its last.

    Raises: MalformedMessage: anything wrong with the bytes, bytes left over included;
    UnsupportedVersion.
    """
    view = memoryview(buf)
    made, position = reader(cls, version)(view, 0)
    if position != len(view):
        left = len(view) - position
        raise MalformedMessage(
            f"{cls.__name__} v{version}: expected the end at byte {position}, found {left} bytes more"
        )
    return made


def encode(message: object, version: int) -> bytes:
    """The bytes of a message; regions of files are read. Raises: UnsupportedVersion,
    UnencodableMessage; see `writer`.
    """
    chunks: list[Chunk] = []
    writer(type(message), version)(message, chunks)
    return join(chunks)


def join(chunks: list[Chunk]) -> bytes:
    """All chunks as one `bytes`; regions of files are read."""
    return b"".join([chunk if isinstance(chunk, (bytes, bytearray, memoryview)) else chunk.read() for chunk in chunks])


def _checked(cls: type[Any], version: int) -> MessageSchema:
    schema = message_schema_of(cls)
    if version not in schema.versions:
        raise UnsupportedVersion(f"{schema.name} has versions {schema.versions}, not {version}")
    return schema
