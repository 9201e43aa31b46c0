"""JSON Schema: schemas as columns, and values that jsonschema-rs validates.

Source: JSON Schema, drafts 4 to 2020-12. What has no column of its own is JSON text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, NoReturn
from urllib.parse import unquote, urljoin

import jsonschema_rs
import pyarrow as pa

from kqueue.spark.errors import SchemaRefused
from kqueue.spark.value_formats.columns import TIMESTAMP, Nesting, columns_of, list_of, map_of, refuse_deep
from kqueue.spark.value_formats.contract import Decoded, SchemaText, shortened

WHAT = "the JSON Schema"
Convert = Callable[[Any], Any]
KINDS: Mapping[type, str] = {
    dict: "an object", list: "an array", str: "text", int: "a whole number", float: "a number", bool: "a boolean",
}  # fmt: skip


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


_decode = json.JSONDecoder(parse_constant=_no_number).decode


class JsonFormat:
    """A reader's schema: an object with properties. Raises: SchemaRefused: it has no columns."""

    def __init__(self, schema: SchemaText) -> None:
        types = _JsonTypes(schema)
        self.type, self.convert = types.of(types.document, "")
        if not pa.types.is_struct(self.type):
            raise SchemaRefused(f"{WHAT} has no properties, and only those are columns")
        self._validator = _validator(schema)

    def decoder(self, writer: SchemaText | None, indexes: tuple[int, ...] = ()) -> JsonDecoder:
        """Return a decoder of what is valid by `writer`. Raises: SchemaRefused."""
        return JsonDecoder(self, self._validator if writer is None else _validator(writer))


class JsonDecoder:
    """Decodes values that one schema is to allow."""

    def __init__(self, reader: JsonFormat, validator: Any) -> None:
        self._reader = reader
        self._validator = validator

    def decode(self, values: Sequence[bytes]) -> Decoded:
        """Return the values as columns."""
        rows: list[Any] = []
        errors: dict[int, str] = {}
        is_valid, convert = self._validator.is_valid, self._reader.convert
        for value in values:
            try:
                row = _decode(value.decode())
                if not is_valid(row):
                    self._validator.validate(row)
                rows.append(convert(row))
            except jsonschema_rs.ValidationError as error:
                place = "/".join(map(str, error.instance_path))
                errors[len(rows)] = f"not valid: {f'{place}: ' if place else ''}{shortened(error.message)}"
                rows.append(None)
            except UnicodeDecodeError:
                errors[len(rows)] = "not UTF-8"
                rows.append(None)
            except json.JSONDecodeError as error:
                errors[len(rows)] = f"not JSON: {shortened(error)}"
                rows.append(None)
            except Exception as error:  # numbers and nesting beyond bounds, days that there are not
                errors[len(rows)] = f"not valid: {shortened(error) or type(error).__name__}"
                rows.append(None)
        return columns_of(rows, self._reader.type, errors)


def _validator(schema: SchemaText) -> Any:
    known = {name: _document(text) for name, text in schema.references}

    def retrieve(uri: str) -> Any:
        for name, document in known.items():
            if uri in (name, _own_uri(document)) or uri.endswith(f"/{name}"):
                return document
        raise ValueError("nothing is fetched")

    try:
        return jsonschema_rs.validator_for(_document(schema.text), retriever=retrieve)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        raise SchemaRefused(f"{WHAT} can't be used: {shortened(getattr(error, 'message', error))}") from None


def _document(text: str) -> Any:
    try:
        document = _decode(text)
    except (ValueError, RecursionError) as error:
        raise SchemaRefused(f"{WHAT} is no JSON: {shortened(error)}") from None
    refuse_deep(document, WHAT)
    return document


class _JsonTypes:
    """Arrow types of a schema, and what converts JSON to what Arrow takes.

    `document`: the whole schema.
    """

    def __init__(self, schema: SchemaText) -> None:
        self.document = _document(schema.text)
        self._others = {name: _document(text) for name, text in schema.references}
        self._nesting = Nesting(WHAT)

    def of(self, schema: Any, file: str) -> tuple[pa.DataType, Convert]:
        """Return both of a part of the schema. `file`: its reference's name; "": `document`."""
        if not isinstance(schema, dict):
            return pa.string(), _text_of_json
        if isinstance(schema.get("$ref"), str):
            return self._referred(schema["$ref"], file)
        for key in ("oneOf", "anyOf", "allOf"):
            members = schema.get(key)
            if isinstance(members, list) and "properties" not in schema:
                kept = [one for one in members if not (isinstance(one, dict) and one.get("type") == "null")]
                return self._within(key, kept[0], file) if len(kept) == 1 else (pa.string(), _text_of_json)
        kind = _kind(schema)
        if kind == "object":
            return self._object(schema, file)
        if kind == "array":
            items = schema.get("items")
            item, convert = self._within("items", items, file)
            return list_of(item), _checked(list, lambda row: [convert(one) for one in row])
        if kind == "string":
            return FORMATS.get(schema.get("format"), (pa.string(), _checked(str, str)))
        return PRIMITIVES.get(kind, (pa.string(), _text_of_json))

    def _within(self, what: str, schema: Any, file: str) -> tuple[pa.DataType, Convert]:
        self._nesting.enter(f"{what} {id(schema)}")
        column = self.of(schema, file)
        self._nesting.leave()
        return column

    def _object(self, schema: dict[str, Any], file: str) -> tuple[pa.DataType, Convert]:
        properties = schema.get("properties")
        if not isinstance(properties, dict) or not properties:
            if not isinstance(schema.get("additionalProperties"), dict):
                return pa.string(), _text_of_json
            item, convert = self._within("additionalProperties", schema["additionalProperties"], file)
            return map_of(item), _checked(dict, lambda row: [(name, convert(one)) for name, one in row.items()])
        self._nesting.enter(f"an object {id(schema)}")
        self._nesting.count(list(properties), "an object")
        columns = {name: self.of(one, file) for name, one in properties.items()}
        self._nesting.leave()
        converts = {name: convert for name, (_, convert) in columns.items()}

        def convert_all(row: dict[str, Any]) -> dict[str, Any]:
            return {name: converts[name](one) for name, one in row.items() if name in converts}

        return pa.struct([pa.field(name, kind) for name, (kind, _) in columns.items()]), _checked(dict, convert_all)

    def _referred(self, reference: str, file: str) -> tuple[pa.DataType, Convert]:
        name, _, part = reference.partition("#")
        file = self._file(name, file) if name else file
        part = unquote(part)
        self._nesting.enter(f"{file}#{part}")
        document = self._others[file] if file else self.document
        column = self.of(_at(document, part) if part[:1] in ("", "/") else _anchored(document, part), file)
        self._nesting.leave()
        return column

    def _file(self, name: str, within: str) -> str:
        """Return which document a reference from another one, or the same, means."""
        documents = {"": self.document, **self._others}
        try:
            uri = urljoin(_own_uri(documents[within]) or within, name)
        except ValueError:  # no URL
            uri = name
        for one in (name, uri):
            if one in self._others:
                return one
        for one, document in documents.items():
            if _own_uri(document) == uri:
                return one
        raise SchemaRefused(f"{WHAT} refers to {shortened(name)!r}, which is not among its references")


def _at(document: Any, pointer: str) -> Any:
    """Return what a JSON pointer leads to. Raises: SchemaRefused."""
    value = document
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and key.isdecimal() and int(key[:9]) < len(value):
            value = value[int(key[:9])]
        elif isinstance(value, dict) and key in value:
            value = value[key]
        else:
            raise SchemaRefused(f"{WHAT} refers to {shortened('#' + pointer)!r}, which is not there")
    return value


def _anchored(document: Any, name: str) -> Any:
    """Return the part that has a name of its own. Raises: SchemaRefused."""
    left = [document]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            if part.get("$anchor") == name or f"#{name}" in (part.get("$id"), part.get("id")):
                return part
            left += part.values()
        elif isinstance(part, list):
            left += part
    raise SchemaRefused(f"{WHAT} refers to {shortened('#' + name)!r}, which is not there")


def _own_uri(document: Any) -> str:
    """Return the URI that a schema gives itself; "": none."""
    uri = (document.get("$id") or document.get("id")) if isinstance(document, dict) else None
    return uri.partition("#")[0] if isinstance(uri, str) else ""


def _kind(schema: dict[str, Any]) -> str:
    """Return the type of values; "": several, or any."""
    kinds = schema.get("type")
    if isinstance(kinds, str):
        return kinds
    if isinstance(kinds, list):
        left = {kind for kind in kinds if kind != "null"}
        if left == {"integer", "number"}:
            return "number"
        return str(left.pop()) if len(left) == 1 else ""
    if "properties" in schema:
        return "object"
    listed = schema["enum"] if isinstance(schema.get("enum"), list) else [schema["const"]] if "const" in schema else []
    return "string" if listed and all(isinstance(one, str) for one in listed if one is not None) else ""


def _checked(kind: type, convert: Convert) -> Convert:
    """Return a function that converts values of a type, keeps null, and raises of others."""

    def checked(row: Any) -> Any:
        if type(row) is kind:
            return convert(row)
        if row is None:
            return None
        raise ValueError(f"expected {KINDS[kind]}, found {KINDS[type(row)]}")

    return checked


def _text_of_json(row: Any) -> str | None:
    return None if row is None else json.dumps(row, ensure_ascii=False, separators=(",", ":"))


def _integer(row: Any) -> int | None:
    if type(row) is int or row is None:
        return row
    if type(row) is float and row.is_integer():
        return int(row)
    raise ValueError(f"expected a whole number, found {KINDS[type(row)]}")


def _number(row: Any) -> float | None:
    if row is None:
        return None
    if type(row) not in (int, float) or not math.isfinite(number := float(row)):
        raise ValueError(f"expected a number of 64 bits, found {shortened(row)}")
    return number


def _moment(row: str) -> datetime:
    moment = datetime.fromisoformat(row)
    if moment.tzinfo is None:
        raise ValueError(f"{shortened(row)} has no zone")
    return moment


def _boolean(row: Any) -> Any:
    return row


PRIMITIVES: Mapping[str, tuple[pa.DataType, Convert]] = {
    "integer": (pa.int64(), _integer),
    "number": (pa.float64(), _number),
    "boolean": (pa.bool_(), _checked(bool, _boolean)),
}
FORMATS: Mapping[Any, tuple[pa.DataType, Convert]] = {
    "date": (pa.date32(), _checked(str, date.fromisoformat)),
    "date-time": (TIMESTAMP, _checked(str, _moment)),
}
"""Formats of text that are types in Spark."""
