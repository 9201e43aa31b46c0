"""Typed, versioned structures, and the compiler of their readers and writers.

Wire messages and the records of internal topics use it. `structs` declares classes; `codec` reads
and writes their bytes.
"""

from kqueue.schema.codec import counted_reader, decode, encode, join, reader, writer
from kqueue.schema.field_types import (
    Chunk,
    FieldType,
    FileRegionLike,
    array,
    boolean,
    bytes_,
    float64,
    int8,
    int16,
    int32,
    int64,
    record_data,
    string,
    uint16,
    uuid,
)
from kqueue.schema.structs import (
    Field,
    MessageSchema,
    Schema,
    field,
    message,
    message_schema_of,
    schema_of,
    shortened,
    struct,
)

__all__ = [
    "Chunk",
    "Field",
    "FieldType",
    "FileRegionLike",
    "MessageSchema",
    "Schema",
    "array",
    "boolean",
    "bytes_",
    "counted_reader",
    "decode",
    "encode",
    "field",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "join",
    "message",
    "message_schema_of",
    "reader",
    "record_data",
    "schema_of",
    "shortened",
    "string",
    "struct",
    "uint16",
    "uuid",
    "writer",
]
