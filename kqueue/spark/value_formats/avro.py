"""Avro: schemas as columns, and values by fastavro, which resolves writer's and reader's schemas.

Source: the Avro specification 1.12; types of columns as those of Spark's `from_avro`.
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException, UnknownType

from kqueue.records.arrow.engine import load_compiled
from kqueue.spark.errors import SchemaRefused
from kqueue.spark.value_formats.avro_plan import AvroPlan, NoPlan, plan_of
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
DIGITS_MAX = 38
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
WIDER = {"int": "long", "long": "long", "float": "double", "double": "double"}
"""Members of a union that share a column, and its type."""
FAST = "kqueue.spark.value_formats.avro_fast"  # its import fails without numba
FEW = 100_000
"""Values that fastavro decodes before numba is imported, which compiles where it has no cache."""
_OBJECT = re.compile(r" from <_io\.BytesIO object[^>]*>")
Names = dict[str, Any]
Convert = Callable[[Any], Any]


class AvroFormat:
    """A reader's schema: a record.

    Attributes: `name`: the record's. `raw`: its type before timestamps are converted. `convert`:
    what rows need before Arrow takes them; None: nothing. `has_members`: of unions of many types.
    Raises: SchemaRefused: it has no columns.
    """

    def __init__(self, schema: SchemaText) -> None:
        self.schema = _parsed(schema, numbers=True)
        names: Names = {}
        tree = _parsed(schema, numbers=False, names=names)
        if not isinstance(tree, dict) or tree.get("type") != "record":
            raise SchemaRefused(f"{WHAT} is no record, and only those have columns")
        self.name = tree["name"]
        types = _AvroTypes(names)
        self.raw, self.convert = types.of(tree)
        self.has_members = types.has_members
        self.type = in_microseconds(self.raw)
        try:
            self._plan: AvroPlan | None = plan_of(tree, names, self.type)
        except NoPlan:
            self._plan = None

    def decoder(self, writer: SchemaText | None, indexes: tuple[int, ...] = ()) -> Decoder:
        """Return a decoder of what was written by `writer`. Raises: SchemaRefused."""
        written = self.schema if writer is None else _parsed(writer, numbers=True)
        slow = AvroDecoder(self, written)
        if written != self.schema or self._plan is None:
            return slow
        return AutoDecoder(self._plan, slow)


class AvroDecoder:
    """Decodes values of one writer's schema."""

    def __init__(self, reader: AvroFormat, written: Any) -> None:
        self._reader = reader
        self._written = written
        self._read_as = None if written == reader.schema else reader.schema

    def decode(self, values: Sequence[bytes]) -> Decoded:
        """Return the values as columns."""
        rows: list[Any] = []
        errors: dict[int, str] = {}
        written, read_as, convert = self._written, self._read_as, self._reader.convert
        named = self._reader.has_members
        for value in values:
            file = io.BytesIO(value)
            try:
                row = fastavro.schemaless_reader(
                    file, written, read_as, return_named_type=named, return_named_type_override=named
                )
                if file.tell() != len(value):
                    raise ValueError(f"{len(value) - file.tell()} bytes are left over")
                rows.append(row if convert is None else convert(row))
            except Exception as error:  # whatever the bytes make fastavro raise
                reason = shortened(_OBJECT.sub("", str(error))) or type(error).__name__
                errors[len(rows)] = f"not Avro of {self._reader.name}: {reason}"
                rows.append(None)
        return columns_of(rows, self._reader.raw, errors)


class AutoDecoder:
    """Decodes many values of the reader's own schema by the compiled kernel, if it is installed."""

    def __init__(self, plan: AvroPlan, slow: AvroDecoder) -> None:
        self._plan = plan
        self._decoder: Decoder = slow
        self._values_slow = 0
        self._is_open = True

    def decode(self, values: Sequence[bytes]) -> Decoded:
        """Return the values as columns."""
        if self._is_open:
            self._values_slow += len(values)
            if self._values_slow > FEW or FAST in sys.modules:
                self._is_open = False
                fast = load_compiled(FAST)
                if fast is not None:
                    self._decoder = fast.FastAvroDecoder(self._plan, self._decoder)
        return self._decoder.decode(values)


def _parsed(schema: SchemaText, *, numbers: bool, names: Names | None = None) -> Any:
    """Return a schema with all names resolved.

    Args:
        numbers: leave out logical types whose numbers are all that is wanted.
        names: gets the named types.
    """
    names = {} if names is None else names
    try:
        for _, text in schema.references:
            fastavro.parse_schema(_raw_schema(text, numbers), named_schemas=names)
        found = fastavro.parse_schema(_raw_schema(schema.text, numbers), named_schemas=names)
    except (SchemaParseException, UnknownType) as error:
        raise SchemaRefused(f"{WHAT} can't be used: {shortened(error)}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SchemaRefused(f"{WHAT} can't be used: {type(error).__name__}: {shortened(error)}") from None
    except RecursionError:
        raise SchemaRefused(f"{WHAT} is nested too deeply") from None
    _refuse_dangerous(found, names)
    return found


def _raw_schema(text: str, numbers: bool) -> Any:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        if text.strip().isidentifier():
            return text.strip()
        raise SchemaRefused(f"{WHAT} is no JSON: {shortened(error)}") from None
    refuse_deep(found, WHAT)
    return _as_numbers(found) if numbers else found


def _as_numbers(schema: Any) -> Any:
    """Return a schema without the logical types that Arrow does itself; text stays text."""
    if isinstance(schema, list):
        return [_as_numbers(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value if key == "default" else _as_numbers(value) for key, value in schema.items()}
    if isinstance(kept.get("logicalType"), str) and kept.get("type") in ("int", "long", "string"):
        del kept["logicalType"]
    return kept


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
            found = [is_empty(field["type"]) for field in one["fields"]]
            within.pop()
            return all(found)
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
    """Arrow types of a schema, with what converts rows before Arrow takes them; None: nothing."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._nesting = Nesting(WHAT)
        self.has_members = False

    def of(self, schema: Any) -> tuple[pa.DataType, Convert | None]:
        """Return both of a schema."""
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            if schema in self._names:
                return self.of(self._names[schema])
            if schema not in PRIMITIVES:
                raise SchemaRefused(f"{WHAT}: {schema} alone has no column; use it in a union")
            return PRIMITIVES[schema], None
        kind = schema["type"]
        if isinstance(kind, (dict, list)):
            return self.of(kind)
        known = {"record": self._record, "array": self._array, "map": self._map, "enum": _enum, "fixed": _fixed}
        return known[kind](schema) if kind in known else self._primitive(schema, kind)

    def _primitive(self, schema: Any, kind: str) -> tuple[pa.DataType, None]:
        logical = schema.get("logicalType")
        if logical == "decimal" and kind == "bytes":
            return _decimal(schema), None
        return LOGICAL.get((kind, logical)) or self.of(kind)[0], None

    def _record(self, schema: Any) -> tuple[pa.DataType, Convert | None]:
        fields = schema["fields"]
        names = [field["name"] for field in fields]
        self._nesting.enter(schema["name"])
        self._nesting.count(names, schema["name"])
        if not names:
            raise SchemaRefused(f"{WHAT}: {schema['name']} has no fields")
        found = [self.of(field["type"]) for field in fields]
        self._nesting.leave()
        converts = {name: convert for name, (_, convert) in zip(names, found, strict=True) if convert is not None}

        def convert(row: Any) -> Any:
            for name, one in converts.items():
                row[name] = one(row[name])
            return row

        type = pa.struct([pa.field(name, kind) for name, (kind, _) in zip(names, found, strict=True)])
        return type, convert if converts else None

    def _array(self, schema: Any) -> tuple[pa.DataType, Convert | None]:
        self._nesting.enter(f"array {id(schema)}")
        item, convert = self.of(schema["items"])
        self._nesting.leave()
        return list_of(item), None if convert is None else lambda row: [convert(one) for one in row]

    def _map(self, schema: Any) -> tuple[pa.DataType, Convert | None]:
        self._nesting.enter(f"map {id(schema)}")
        item, convert = self.of(schema["values"])
        self._nesting.leave()
        return map_of(item), lambda row: [(key, one if convert is None else convert(one)) for key, one in row.items()]

    def _union(self, schema: list[Any]) -> tuple[pa.DataType, Convert | None]:
        members = [one for one in schema if one != "null"]
        if not members:
            raise SchemaRefused(f"{WHAT}: a union has no type but null")
        if len(members) == 1:
            kind, convert = self.of(members[0])
            return kind, None if convert is None else lambda row: None if row is None else convert(row)
        if all(isinstance(one, str) and one in WIDER for one in members) and len({WIDER[one] for one in members}) == 1:
            return PRIMITIVES[WIDER[members[0]]], None
        return self._members(members)

    def _members(self, members: list[Any]) -> tuple[pa.DataType, Convert]:
        """A union of several types: a struct with a column for each, as of Spark's `from_avro`."""
        found = [self.of(one) for one in members]
        columns = [f"member{number}" for number in range(len(members))]
        self._nesting.count(columns, "a union")
        several = sum(self._named(one) is not None for one in members) > 1
        places: dict[Any, tuple[str, Convert | None]] = {}
        for column, one, (kind, convert) in zip(columns, members, found, strict=True):
            named = self._named(one)
            place = named["name"] if several and named is not None else _class(kind)
            if place in places:
                raise SchemaRefused(f"{WHAT}: members of a union can't be told apart: {column} and {places[place][0]}")
            places[place] = column, convert

        def convert_one(row: Any) -> Any:
            if row is None:
                return None
            place, value = row if isinstance(row, tuple) else (type(row), row)
            column, convert = places[place]
            return {column: value if convert is None else convert(value)}

        self.has_members = True
        return pa.struct([pa.field(name, kind) for name, (kind, _) in zip(columns, found, strict=True)]), convert_one

    def _named(self, schema: Any) -> Any:
        """Return the definition of a named type; None: it is none."""
        if isinstance(schema, str):
            return self._names.get(schema)
        return schema if isinstance(schema, dict) and schema["type"] in ("record", "enum", "fixed") else None


def _class(kind: pa.DataType) -> type:
    """Return the class of the values that fastavro makes for a type of columns."""
    if pa.types.is_struct(kind):
        return dict
    if pa.types.is_map(kind):
        return dict
    if pa.types.is_list(kind):
        return list
    if pa.types.is_decimal(kind):
        return Decimal
    if pa.types.is_string(kind):
        return str
    if pa.types.is_binary(kind):
        return bytes
    if pa.types.is_floating(kind):
        return float
    return bool if pa.types.is_boolean(kind) else int


def _enum(_: Any) -> tuple[pa.DataType, None]:
    return pa.string(), None


def _fixed(schema: Any) -> tuple[pa.DataType, None]:
    return _decimal(schema) if schema.get("logicalType") == "decimal" else pa.binary(), None


def _decimal(schema: Any) -> pa.DataType:
    digits, scale = schema.get("precision"), schema.get("scale", 0)
    if not isinstance(digits, int) or not isinstance(scale, int) or not 0 <= scale <= digits:
        raise SchemaRefused(f"{WHAT}: a decimal has the precision {digits!r} and the scale {scale!r}")
    if not 1 <= digits <= DIGITS_MAX:
        raise SchemaRefused(f"{WHAT}: a decimal has {digits} digits, and Spark's have {DIGITS_MAX} at most")
    return pa.decimal128(digits, scale)
