"""Parses event schemas from TOML files; loads the built-in one."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kqueue.base.names import did_you_mean
from kqueue.spark.errors import OptionError
from kqueue.spark.event_schema.schema import POSITION, RESERVED, TYPES, EventSchema, Field, seconds_of, type_of

BUILT_IN = ("flights",)
SIZE_MAX = 1_000_000
KEYS = ("fields", "id", "time", "by", "rules", "gold", "window", "lateness")
NEEDED = ("fields", "id", "time")
TIMES = ("timestamp", "timestamp_ms")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}", re.ASCII)


def load(events: str) -> EventSchema:
    """Return a built-in schema by name, or the schema of a TOML file.

    Raises: OptionError: one sentence with the file's name.
    """
    if events in BUILT_IN:
        return parse(Path(__file__).with_name(f"{events}.toml").read_text(encoding="utf-8"), f"{events}.toml")
    file = Path(events)
    try:
        with file.open("rb") as opened:
            data = opened.read(SIZE_MAX + 1)
    except FileNotFoundError:
        raise OptionError(
            f"there is no file {events!r}{did_you_mean(events, BUILT_IN)}, and no built-in events of that name"
        ) from None
    except OSError as error:
        raise OptionError(f"{events} can't be read: {error.strerror}") from None
    if len(data) > SIZE_MAX:
        raise OptionError(f"{events} is no description of events: it has more than {SIZE_MAX:,} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise OptionError(f"{events} is not UTF-8 at byte {error.start}") from None
    return parse(text, file.name)


def parse(text: str, file: str = "events.toml") -> EventSchema:
    """Return the schema that TOML text describes.

    Args:
        file: its name, for messages.
    Raises: OptionError: the error, in one sentence.
    """
    try:
        table = tomllib.loads(text)
        return _schema(table)
    except tomllib.TOMLDecodeError as error:
        raise OptionError(f"{file}: it is no TOML: {error}") from None
    except RecursionError:
        raise OptionError(f"{file}: it is nested too deeply") from None
    except OptionError as error:
        raise OptionError(f"{file}: {error}") from None


def _schema(table: Mapping[str, Any]) -> EventSchema:
    for key in table:
        if key not in KEYS:
            raise OptionError(f"there is no {key!r}{did_you_mean(key, KEYS)} (there are {', '.join(KEYS)})")
    for key in NEEDED:
        if key not in table:
            raise OptionError(f"{key} is missing")
    fields = tuple(_field(name, kind) for name, kind in _texts(table, "fields").items())
    by_name = {field.name: field for field in fields}
    _no_two_alike("fields", [*by_name, *RESERVED])
    more: dict[str, Any] = {key: _texts(table, key) for key in ("rules", "gold") if key in table}
    more |= {key: _text(table, key) for key in ("window", "lateness") if key in table}
    schema = EventSchema(
        fields, _name_of(table, "id", by_name), _names(table, "time", by_name), _names(table, "by", by_name), **more
    )
    _check(schema, by_name)
    return schema


def _check(schema: EventSchema, by_name: Mapping[str, Field]) -> None:
    if by_name[schema.id].nullable:
        raise OptionError(f"id: every event needs one, and {schema.id!r} may be null")
    if not schema.time:
        raise OptionError("time: no field is named")
    for name in schema.time:
        if by_name[name].type not in TIMES:
            raise OptionError(f"time: {name!r} is a {by_name[name].type}, expected one of {', '.join(TIMES)}")
    if not schema.gold:
        raise OptionError('gold: no column is named; leave it out, or say e.g. events = "count(*)"')
    for name in schema.gold:
        _check_name("gold", name)
    _no_two_alike("gold", ["start", "end", *schema.by, *schema.gold])
    for key in ("window", "lateness"):
        seconds_of(getattr(schema, key), key)


def _field(name: str, kind: str) -> Field:
    _check_name("fields", name)
    plain = kind.removesuffix("?")
    if type_of(plain) is None:
        known = [*TYPES, "decimal(10,2)"]
        raise OptionError(
            f"fields: {name}: there is no type {plain!r}{did_you_mean(plain, known)} (there are {', '.join(known)})"
        )
    return Field(name, plain, nullable=kind.endswith("?"))


def _check_name(where: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise OptionError(
            f"{where}: {name!r} can't be a column: expected a letter, then up to 99 letters, digits and _"
        )


def _no_two_alike(where: str, names: Iterable[str]) -> None:
    """Raise OptionError for names that differ only in case: Spark ignores case."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other is not name:
            taken = " (the tables have that of themselves)" if name in RESERVED or name in POSITION else ""
            raise OptionError(f"{where}: {other!r} is there twice{taken}; call it otherwise")


def _names(table: Mapping[str, Any], key: str, fields: Mapping[str, Field]) -> tuple[str, ...]:
    given = table.get(key, [])
    listed = given if isinstance(given, list) else [given]
    names = tuple(_name_of({key: name}, key, fields) for name in listed)
    if len(set(names)) != len(names):
        raise OptionError(f"{key}: a field is named twice")
    return names


def _name_of(table: Mapping[str, Any], key: str, fields: Mapping[str, Field]) -> str:
    name = _text(table, key)
    if name not in fields:
        raise OptionError(f"{key}: there is no field {name!r}{did_you_mean(name, fields)}")
    return name


def _texts(table: Mapping[str, Any], key: str) -> dict[str, str]:
    value = table[key]
    if not isinstance(value, dict) or (key == "fields" and not value):
        raise OptionError(f"{key}: expected a table, [{key}], with a line for each")
    return {name: _text(value, name) for name in value}


def _text(table: Mapping[str, Any], key: str) -> str:
    value = table[key]
    if not isinstance(value, str) or not value.strip():
        raise OptionError(f"{key}: expected a text in quotes, found {value!r}")
    return value.strip()


FLIGHTS = load("flights")
