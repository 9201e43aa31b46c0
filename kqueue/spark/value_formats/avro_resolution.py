"""Avro's schema resolution: what makes of a value, as fastavro reads it by the schema that it was
written with, a row of the reader's columns.

Source: "Schema Resolution" and the defaults of fields in the Avro specification 1.12.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from typing import Any, NamedTuple

from kqueue.spark.value_formats.contract import shortened

Names = Mapping[str, Any]
Convert = Callable[[Any], Any]
NAMED = ("record", "enum", "fixed")
WIDER = {"int": "long", "long": "long", "float": "double", "double": "double"}
"""Members of a union that share a column, and its type."""
BOXES = {"int": "long", "float": "double"}
"""Types of which fastavro makes the same class; beside the second, a union has the first boxed."""
BOX = "kqueue.boxed"
"""The first part of the names of boxes: records of one field, which are encoded as it is."""
PROMOTIONS: Mapping[tuple[str, str], Convert | None] = {
    ("int", "long"): None, ("int", "float"): float, ("int", "double"): float, ("long", "float"): float,
    ("long", "double"): float, ("float", "double"): None, ("string", "bytes"): str.encode,
    ("bytes", "string"): bytes.decode,
}  # fmt: skip
CLASSES: Mapping[str, type] = {
    "null": type(None), "boolean": bool, "int": int, "long": int, "float": float, "double": float, "bytes": bytes,
    "string": str, "array": list, "map": dict, "record": dict, "enum": str, "fixed": bytes,
}  # fmt: skip
DIGITS_MAX = 38
UNSCALED_MAX = 10**DIGITS_MAX - 1
"""Of decimals. One of 1 MiB would take minutes to convert."""
_EXACT = Context(prec=2 * DIGITS_MAX)


class Unresolved(ValueError):
    """A value has no place in the reader's schema; the message says why."""


class Side(NamedTuple):
    """A parsed schema and the named types in it."""

    schema: Any
    names: Names


def converter(writer: Side, reader: Side) -> Convert | None:
    """Return what makes rows of values; None: they are rows as they are.

    Args:
        writer: without logical types.
        reader: with those that are more than a number of their column.
    Returns: a function that raises, most often Unresolved, for values without a place.
    """
    return _Resolution(writer.names, reader.names).of(writer.schema, reader.schema)


def shares_column(members: list[Any]) -> bool:
    """Return whether a union, without null, has one column: it has one type, or a wider one."""
    kinds = {WIDER.get(one, "") if isinstance(one, str) else "" for one in members}
    return len(members) == 1 or (len(kinds) == 1 and "" not in kinds)


def kind_of(schema: Any, names: Names) -> str:
    """Return a schema's type, without its attributes."""
    return str(_plain(schema, names)["type"])


def _plain(schema: Any, names: Names) -> dict[str, Any]:
    """Return the definition of a schema that is no union."""
    while isinstance(schema, str):
        if schema not in names:
            return {"type": schema}
        schema = names[schema]
    return schema  # type: ignore[no-any-return]


def _is_same(written: dict[str, Any], read: dict[str, Any]) -> bool:
    """Return whether the types are the same, and of named ones the names, or an alias."""
    if written["type"] != read["type"] or written["type"] not in NAMED:
        return bool(written["type"] == read["type"])
    name = written["name"]
    short = name.rpartition(".")[2]
    return short == read["name"].rpartition(".")[2] or not {name, short}.isdisjoint(read.get("aliases", ()))


def _wrong(reason: str) -> Convert:
    def refuse(_: Any) -> Any:
        raise Unresolved(reason)

    return refuse


def _identity(value: Any) -> Any:
    return value


class _Resolution:
    """Pairs the parts of two schemas."""

    def __init__(self, written: Names, read: Names) -> None:
        self._written = written
        self._read = read
        self._records: dict[tuple[str, str], Convert | None] = {}

    def of(self, written: Any, read: Any) -> Convert | None:
        """Return what converts values of `written` to `read`."""
        if isinstance(written, list):
            return self._from_union(written, read)
        if isinstance(read, list):
            return self._to_union(written, read)
        one, other = _plain(written, self._written), _plain(read, self._read)
        kinds = one["type"], other["type"]
        if kinds in PROMOTIONS:
            promoted = PROMOTIONS[kinds]
            decimal = self._logical(other)
            if decimal is None or promoted is None:
                return promoted
            return lambda value: decimal(promoted(value))
        if not _is_same(one, other):
            return _wrong(f"{_called(one)} is written, expected {_called(other)}")
        if kinds[0] == "record":
            pair = one["name"], other["name"]
            if pair not in self._records:
                self._records[pair] = self._record(one, other)
            return self._records[pair]
        if kinds[0] == "array":
            return _each_item(self.of(one["items"], other["items"]))
        if kinds[0] == "map":
            return _each_value(self.of(one["values"], other["values"]))
        if kinds[0] == "enum":
            return _enum(one, other)
        if kinds[0] == "fixed" and one["size"] != other["size"]:
            return _wrong(f"{_called(one)} of {one['size']} bytes is written, expected {other['size']}")
        return self._logical(other)

    def _record(self, written: dict[str, Any], read: dict[str, Any]) -> Convert | None:
        types = {field["name"]: field["type"] for field in written["fields"]}
        own = {field["name"] for field in read["fields"]}
        parts: list[tuple[str, str, Convert | None]] = []
        defaults: dict[str, Any] = {}
        for field in read["fields"]:
            name = field["name"]
            aliases = [one for one in field.get("aliases", ()) if one not in own]
            source = next((one for one in (name, *aliases) if one in types), None)
            if source is not None:
                parts.append((name, source, self.of(types[source], field["type"])))
            elif "default" not in field:
                return _wrong(f"{_called(written)} has no field {shortened(name)!r}, which has no default")
            else:
                try:
                    defaults[name] = self._default(field["type"], field["default"])
                except (Unresolved, ValueError, TypeError, ArithmeticError, KeyError, AttributeError):
                    return _wrong(f"the default of {shortened(name)!r} is not of its type")
        changed = [(name, convert) for name, source, convert in parts if convert is not None]
        if all(name == source for name, source, _ in parts):
            # what the reader's schema has not is left in, and Arrow leaves it out
            if not changed and not defaults:
                return None

            def convert_changed(row: dict[str, Any]) -> dict[str, Any]:
                for name, convert in changed:
                    row[name] = convert(row[name])
                row.update(defaults)
                return row

            return convert_changed
        pairs = [(name, source, convert or _identity) for name, source, convert in parts]
        return lambda row: {name: convert(row[source]) for name, source, convert in pairs} | defaults

    def _from_union(self, written: list[Any], read: Any) -> Convert | None:
        """Convert from a union: named types come with the name, others differ by class."""
        table: dict[Any, Convert | None] = {}
        named = False
        for member in written:
            one = _plain(member, self._written)
            if one["type"] not in NAMED:
                table[CLASSES.get(one["type"])] = self.of(member, read)
                continue
            named = True
            if one["name"].startswith(BOX):
                field = one["fields"][0]
                table[one["name"]] = _unboxed(field["name"], self.of(field["type"], read))
            else:
                table[one["name"]] = self.of(member, read)
        if not named and all(convert is None for convert in table.values()):
            return None

        def convert_member(value: Any) -> Any:
            place = type(value)
            if place is tuple:
                place, value = value
            convert = table[place]
            return value if convert is None else convert(value)

        return convert_member

    def _to_union(self, written: Any, read: list[Any]) -> Convert | None:
        """Convert to a union: to the same type first, else to the first that it is promoted to."""
        one = _plain(written, self._written)
        if one["type"] == "null":
            return None if "null" in read else _wrong("null is written, expected a value")
        members = [member for member in read if member != "null"]
        plain = [_plain(member, self._read) for member in members]
        name = one.get("name")
        candidates = [number for number, other in enumerate(plain) if name is not None and other.get("name") == name]
        candidates += [number for number, other in enumerate(plain) if _is_same(one, other)]
        candidates += [number for number, other in enumerate(plain) if (one["type"], other["type"]) in PROMOTIONS]
        if not candidates:
            return _wrong(f"{_called(one)} is written, expected {', '.join(map(_called, plain))}")
        convert = self.of(written, members[candidates[0]])
        return convert if shares_column(members) else _as_member(candidates[0], convert)

    def _logical(self, read: dict[str, Any]) -> Convert | None:
        if read.get("logicalType") != "decimal" or read["type"] not in ("bytes", "fixed"):
            return None
        scale = -read.get("scale", 0)

        def decimal(value: bytes) -> Decimal:
            number = int.from_bytes(value, "big", signed=True)
            if abs(number) > UNSCALED_MAX:
                raise Unresolved(f"a decimal has more than {DIGITS_MAX} digits")
            return Decimal(number).scaleb(scale, _EXACT)

        return decimal

    def _default(self, schema: Any, given: Any) -> Any:
        """Return a field's default, which is JSON, as values of its column are."""
        if isinstance(schema, list):
            return self._default_of_union(schema, given)
        read = _plain(schema, self._read)
        kind = read["type"]
        if kind in ("float", "double") and type(given) is int:
            given = float(given)
        if kind in ("bytes", "fixed"):
            data = given.encode("latin-1")
            logical = self._logical(read)
            if kind == "fixed" and len(data) != read["size"]:
                raise Unresolved("of another size")
            return data if logical is None else logical(data)
        if type(given) is not CLASSES[kind] or (kind == "enum" and given not in read["symbols"]):
            raise Unresolved(f"not {kind}")
        default: Any = given
        if kind == "array":
            return [self._default(read["items"], one) for one in default]
        if kind == "map":
            return [(key, self._default(read["values"], one)) for key, one in default.items()]
        if kind == "record":
            return {
                field["name"]: self._default(field["type"], default.get(field["name"], field.get("default")))
                for field in read["fields"]
            }
        return default

    def _default_of_union(self, schema: list[Any], given: Any) -> Any:
        members = [one for one in schema if one != "null"]
        if given is None and "null" in schema:
            return None
        for number, member in enumerate(members):
            try:
                default = self._default(member, given)
            except (Unresolved, KeyError, AttributeError, UnicodeError):
                continue
            return default if shares_column(members) else {f"member{number}": default}
        raise Unresolved("of no type of the union")


def _called(schema: dict[str, Any]) -> str:
    return shortened(f"{schema['type']} {schema['name']}" if "name" in schema else schema["type"])


def _unboxed(field: str, convert: Convert | None) -> Convert:
    return lambda row: row[field] if convert is None else convert(row[field])


def _as_member(number: int, convert: Convert | None) -> Convert:
    column = f"member{number}"
    return lambda value: {column: value if convert is None else convert(value)}


def _each_item(convert: Convert | None) -> Convert | None:
    return None if convert is None else lambda row: [convert(one) for one in row]


def _each_value(convert: Convert | None) -> Convert:
    if convert is None:
        return lambda row: list(row.items())
    return lambda row: [(key, convert(one)) for key, one in row.items()]


def _enum(written: dict[str, Any], read: dict[str, Any]) -> Convert | None:
    known = set(read["symbols"])
    if known.issuperset(written["symbols"]):
        return None
    default = read.get("default")

    def convert(symbol: str) -> str:
        if symbol in known:
            return symbol
        if default is None:
            raise Unresolved(f"{shortened(symbol)} is no symbol of {_called(read)}, which has no default")
        return str(default)

    return convert
