"""Avro: schemas as columns, and values, which fastavro reads by the schema they were written with.

Source: the Avro specification 1.12; types of columns as those of Spark's `from_avro`.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException, UnknownType

from kqueue.spark.errors import SchemaRefused
from kqueue.spark.value_formats.avro_resolution import (
    BOX,
    BOXES,
    DIGITS_MAX,
    NAMED,
    WIDER,
    Side,
    converter,
    kind_of,
    shares_column,
)
from kqueue.spark.value_formats.columns import (
    LOCAL_TIMESTAMP,
    TIMESTAMP,
    Nesting,
    columns_of,
    in_microseconds,
    list_of,
    map_of,
    refuse_deep,
)
from kqueue.spark.value_formats.contract import Decoded, Decoder, SchemaText, shortened

WHAT = "the Avro schema"
PRIMITIVES = {
    "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "bytes": pa.binary(), "string": pa.string(),
}  # fmt: skip
LOGICAL = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("ms", tz="UTC"),
    ("long", "timestamp-micros"): TIMESTAMP,
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): LOCAL_TIMESTAMP,
}
"""Logical types whose numbers Arrow takes as they are."""
_OBJECT = re.compile(r" from <_io\.BytesIO object[^>]*>")
Names = dict[str, Any]


class AvroFormat:
    """A reader's schema: a record.

    Attributes: `name`: the record's. `raw`: its type before timestamps are converted. `side`: the
    schema. `own`: the same as fastavro is to read it.
    Raises: SchemaRefused: it has no columns.
    """

    def __init__(self, schema: SchemaText) -> None:
        self.own = parse_schema(schema, to_read=True)
        self.side = parse_schema(schema, to_read=False)
        tree = self.side.schema
        if not isinstance(tree, dict) or tree.get("type") != "record":
            raise SchemaRefused(f"{WHAT} is no record, and only those have columns")
        self.name = tree["name"]
        self.raw = _AvroTypes(self.side.names).of(tree)
        self.type = in_microseconds(self.raw)

    def decoder(self, writer: SchemaText | None, indexes: tuple[int, ...] = ()) -> Decoder:
        """Return a decoder of what was written by `writer`. Raises: SchemaRefused."""
        return AvroDecoder(self, self.own if writer is None else parse_schema(writer, to_read=True))


class AvroDecoder:
    """Decodes values of one writer's schema."""

    def __init__(self, reader: AvroFormat, written: Side) -> None:
        self._reader = reader
        self._written = written.schema
        self._convert = converter(written, reader.side)

    def decode(self, values: Sequence[bytes]) -> Decoded:
        """Return the values as columns."""
        rows: list[Any] = []
        errors: dict[int, str] = {}
        written, convert = self._written, self._convert
        for value in values:
            file = io.BytesIO(value)
            try:
                row = fastavro.schemaless_reader(file, written, None, return_named_type=True)
                if file.tell() != len(value):
                    raise ValueError(f"{len(value) - file.tell()} bytes are left over")
                rows.append(row if convert is None else convert(row))
            except Exception as error:  # whatever the bytes make fastavro raise
                reason = shortened(_OBJECT.sub("", str(error))) or type(error).__name__
                errors[len(rows)] = f"not Avro of {self._reader.name}: {reason}"
                rows.append(None)
        return columns_of(rows, self._reader.raw, errors)


def parse_schema(schema: SchemaText, *, to_read: bool) -> Side:
    """Return a schema with all names resolved, by which any bytes can be read safely.

    Args: to_read: as fastavro is to read columns, without logical types; or as it is written.
    Raises: SchemaRefused.
    """
    names: Names = {}
    boxes = count()

    def raw(text: str) -> Any:
        schema = _raw_schema(text)
        return _without_logical(schema, boxes) if to_read else schema

    try:
        for _, text in schema.references:
            fastavro.parse_schema(raw(text), named_schemas=names)
        parsed = fastavro.parse_schema(raw(schema.text), named_schemas=names)
    except (SchemaParseException, UnknownType) as error:
        raise SchemaRefused(f"{WHAT} can't be used: {shortened(error)}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SchemaRefused(f"{WHAT} can't be used: {type(error).__name__}: {shortened(error)}") from None
    except RecursionError:
        raise SchemaRefused(f"{WHAT} is nested too deeply") from None
    _refuse_dangerous(parsed, names)
    return Side(parsed, names)


def _raw_schema(text: str) -> Any:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        if text.strip().isidentifier():
            return text.strip()
        raise SchemaRefused(f"{WHAT} is no JSON: {shortened(error)}") from None
    refuse_deep(document, WHAT)
    return document


def _without_logical(schema: Any, boxes: Iterator[int]) -> Any:
    """Return a schema without logical types, which are the reader's, and with what fastavro makes
    one class of told apart in unions.
    """
    if isinstance(schema, list):
        members = [_without_logical(one, boxes) for one in schema]
        kinds = [_kind(one) for one in members]
        return [
            _boxed(kind, boxes) if BOXES.get(kind) in kinds else one for kind, one in zip(kinds, members, strict=True)
        ]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key != "logicalType"}
    for key in ("type", "items", "values"):
        if key in kept:
            kept[key] = _without_logical(kept[key], boxes)
    if isinstance(kept.get("fields"), list):
        kept["fields"] = [_without_logical(one, boxes) for one in kept["fields"]]
    return kept


def _kind(schema: Any) -> str:
    kind = schema.get("type") if isinstance(schema, dict) else schema
    return kind if isinstance(kind, str) else ""


def _boxed(kind: str, boxes: Iterator[int]) -> dict[str, Any]:
    return {"type": "record", "name": f"{BOX}{next(boxes)}", "fields": [{"name": kind, "type": kind}]}


def _refuse_dangerous(schema: Any, names: Names) -> None:
    """Raise SchemaRefused for what short values could do harm with.

    Any number of items that take no bytes fits in one; and fastavro, which is compiled, would
    follow a record that is in itself until the stack ends, and the process with it.
    """
    sizes: dict[str, bool] = {}
    within: list[str] = []

    def is_empty(one: Any) -> bool:
        if isinstance(one, list):
            for member in one:
                if isinstance(member, list):
                    raise SchemaRefused(f"{WHAT} has a union in a union")
                is_empty(member)
            return False  # the index of a union takes a byte
        if isinstance(one, str):
            if one == "null":
                return True
            if one not in names:
                return False
            if one not in sizes:
                sizes[one] = is_empty(names[one])
            return sizes[one]
        kind = one["type"]
        if kind == "record":
            if one["name"] in within:
                raise SchemaRefused(f"{WHAT}: {one['name']} is in itself; columns can't be recursive")
            within.append(one["name"])
            are_empty = [is_empty(field["type"]) for field in one["fields"]]
            within.pop()
            return all(are_empty)
        if kind == "array":
            if is_empty(one["items"]):
                raise SchemaRefused(f"{WHAT} has an array of items that take no bytes")
            return False
        if kind == "map":
            is_empty(one["values"])
            return False
        if kind == "fixed":
            return not one["size"]
        return is_empty(kind) if isinstance(kind, (dict, list)) or kind == "null" else False

    try:
        is_empty(schema)
    except RecursionError:
        raise SchemaRefused(f"{WHAT} is nested too deeply") from None


class _AvroTypes:
    """Arrow types of a schema."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names
        self._nesting = Nesting(WHAT)

    def of(self, schema: Any) -> pa.DataType:
        """Return that of a schema."""
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            if schema in self._names:
                return self.of(self._names[schema])
            if schema not in PRIMITIVES:
                raise SchemaRefused(f"{WHAT}: {schema} alone has no column; use it in a union")
            return PRIMITIVES[schema]
        kind = schema["type"]
        if isinstance(kind, (dict, list)):
            return self.of(kind)
        known = {"record": self._record, "array": self._array, "map": self._map, "enum": _enum, "fixed": _fixed}
        return known[kind](schema) if kind in known else self._primitive(schema, kind)

    def _primitive(self, schema: Any, kind: str) -> pa.DataType:
        logical = schema.get("logicalType")
        if logical == "decimal" and kind == "bytes":
            return _decimal(schema)
        return LOGICAL.get((kind, logical)) or self.of(kind)

    def _record(self, schema: Any) -> pa.DataType:
        fields = schema["fields"]
        names = [field["name"] for field in fields]
        self._nesting.enter(schema["name"])
        self._nesting.count(names, schema["name"])
        if not names:
            raise SchemaRefused(f"{WHAT}: {schema['name']} has no fields")
        struct = pa.struct([pa.field(field["name"], self.of(field["type"])) for field in fields])
        self._nesting.leave()
        return struct

    def _array(self, schema: Any) -> pa.DataType:
        self._nesting.enter(f"array {id(schema)}")
        item = self.of(schema["items"])
        self._nesting.leave()
        return list_of(item)

    def _map(self, schema: Any) -> pa.DataType:
        self._nesting.enter(f"map {id(schema)}")
        item = self.of(schema["values"])
        self._nesting.leave()
        return map_of(item)

    def _union(self, schema: list[Any]) -> pa.DataType:
        members = [one for one in schema if one != "null"]
        if not members:
            raise SchemaRefused(f"{WHAT}: a union has no type but null")
        if shares_column(members):
            return self.of(members[0]) if len(members) == 1 else PRIMITIVES[WIDER[members[0]]]
        return self._members(members)

    def _members(self, members: list[Any]) -> pa.DataType:
        """Return a struct with a column for each type of a union, as Spark's `from_avro`."""
        types = [self.of(one) for one in members]
        columns = [f"member{number}" for number in range(len(members))]
        self._nesting.count(columns, "a union")
        places: dict[str, str] = {}
        for column, one in zip(columns, members, strict=True):
            place = kind_of(one, self._names)
            if place in NAMED:
                continue
            if place in places:
                raise SchemaRefused(f"{WHAT}: members of a union can't be told apart: {column} and {places[place]}")
            places[place] = column
        return pa.struct([pa.field(name, kind) for name, kind in zip(columns, types, strict=True)])


def _enum(_: Any) -> pa.DataType:
    return pa.string()


def _fixed(schema: Any) -> pa.DataType:
    return _decimal(schema) if schema.get("logicalType") == "decimal" else pa.binary()


def _decimal(schema: Any) -> pa.DataType:
    digits, scale = schema.get("precision"), schema.get("scale", 0)
    if not isinstance(digits, int) or not isinstance(scale, int) or not 0 <= scale <= digits:
        raise SchemaRefused(f"{WHAT}: a decimal has the precision {digits!r} and the scale {scale!r}")
    if not 1 <= digits <= DIGITS_MAX:
        raise SchemaRefused(f"{WHAT}: a decimal has {digits} digits, and Spark's have {DIGITS_MAX} at most")
    return pa.decimal128(digits, scale)
