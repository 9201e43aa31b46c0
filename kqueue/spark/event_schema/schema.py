"""The event schema. `toml_parser` validates its texts, `jobs.sql_validation` its SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kqueue.spark.errors import OptionError

POSITION = ("topic", "partition", "offset")
RESERVED = frozenset({*POSITION, "timestamp", "key", "value", "date", "event_time", "reason", "batch"})
"""Column names that the tables use themselves."""
UNITS_S = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
SECONDS_MAX = 10 * 366 * 86_400
DIGITS_MAX = 38  # of a decimal, in Spark
_PART = re.compile(r"(\d{1,9}) (second|minute|hour|day|week)s?")
_DECIMAL = re.compile(r"decimal\((\d{1,2}), ?(\d{1,2})\)")


class Type(NamedTuple):
    """A field type.

    `spark`: its type in tables. `shown`: its name in messages. `kinds`: accepted types of values,
    those of JSON and of decoded columns, as Spark names them. `scale`: of a decimal, the digits
    after the point.
    """

    spark: str
    shown: str
    kinds: tuple[str, ...]
    scale: int = 0


TYPES: dict[str, Type] = {
    "bigint": Type("bigint", "whole number", ("BIGINT",)),
    "int": Type("int", "whole number", ("BIGINT",)),
    "double": Type("double", "number", ("BIGINT", "DOUBLE", "FLOAT", "DECIMAL")),
    "string": Type("string", "text", ("STRING",)),
    "boolean": Type("boolean", "true or false", ("BOOLEAN",)),
    "date": Type("date", "day", ("STRING", "DATE")),
    "timestamp": Type("timestamp", "time", ("STRING", "TIMESTAMP")),
    "timestamp_ms": Type("timestamp", "time in ms", ("BIGINT", "TIMESTAMP")),
}


def type_of(name: str) -> Type | None:
    """Return the type of this name, also ``decimal(10,2)``; None: unknown."""
    decimal = _DECIMAL.fullmatch(name)
    if decimal is None:
        return TYPES.get(name)
    digits, scale = int(decimal[1]), int(decimal[2])
    if not 1 <= digits <= DIGITS_MAX or scale > digits:
        return None
    shown = f"number of {digits} digits, {scale} of them after the point"
    return Type(f"decimal({digits},{scale})", shown, ("BIGINT", "DECIMAL"), scale)


class Field(NamedTuple):
    """A field of an event: name, type name, and whether it may be null or missing."""

    name: str
    type: str
    nullable: bool = False

    @property
    def kind(self) -> Type:
        """Its type."""
        field_type = type_of(self.type)
        assert field_type is not None, f"a shape has types that there are, found {self.type!r}"
        return field_type


@dataclass(frozen=True)
class EventSchema:
    """One kind of event, and the aggregates of its gold table.

    The attribute names are keys of TOML files and of tables.json: they are a file format.

    Attributes:
        fields: in the order of the table's columns.
        id: the field that identifies an event; a repeated id is the same event.
        time: timestamp fields; the first that is not null is the event time.
        by: fields by which `gold` groups; empty: no grouping.
        rules: message for an event that breaks the rule -> SQL condition; null counts as true.
        gold: column -> SQL aggregate.
        window: duration of a gold row: ``1 hour``, ``1 day``.
        lateness: maximum delay of a record after its event.
    """

    fields: tuple[Field, ...]
    id: str
    time: tuple[str, ...]
    by: tuple[str, ...] = ()
    rules: Mapping[str, str] = field(default_factory=dict)
    gold: Mapping[str, str] = field(default_factory=lambda: {"events": "count(*)"})
    window: str = "1 hour"
    lateness: str = "2 hours"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields."""
        return tuple(one.name for one in self.fields)


def seconds_of(text: str, what: str) -> int:
    """Return the seconds of ``2 hours`` or ``1 hour 30 minutes``.

    Args:
        what: its name in messages.
    Raises: OptionError: not a duration.
    """
    parts = list(_PART.finditer(text))
    seconds = sum(int(part[1]) * UNITS_S[part[2]] for part in parts)
    if " ".join(part[0] for part in parts) != text or not 0 < seconds <= SECONDS_MAX:
        raise OptionError(
            f"{what}: expected a time such as '30 minutes', '2 hours' or '1 day 12 hours', ten years at most, "
            f"found {text!r}"
        )
    return seconds
