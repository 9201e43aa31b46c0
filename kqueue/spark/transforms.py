"""The transformations of the jobs: pure functions from DataFrame to DataFrame, without I/O.

They work on streams and batches.

    records -> bronze -> checked -> silver -> watermarked -> distinct -> gold
                              |---> quarantine

Records have the columns of the kqueue source or of Spark's Kafka source. An `EventSchema` describes
the events. Silver has the valid events and quarantine all other records, with the reason. Together
they have every record of bronze.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from kqueue.spark.errors import OptionError
from kqueue.spark.event_schema import FLIGHTS, EventSchema, Field
from kqueue.spark.event_schema.schema import POSITION
from kqueue.spark.value_formats.frames import ERROR, VALUE, DecodeFrame

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from kqueue.spark.value_formats.decoder import ValueSchema

# Of times as JSON. A time needs its zone, or its moment would hang on where the session is; a time
# without a day (12:30) would be today's.
_MOMENT = r'^"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)"$'
_EVENT = "parsed event"
"""A column whose name no field has, as it has a space; so have those of `_part`, `_kind` and
`_text`.
"""
UNDECODED = "can't be decoded"
"""Beginning of the reason for a value that can't be decoded; the rest depends on the value."""
_MS_MIN, _MS_MAX = -62_135_596_800_000, 253_402_300_799_999  # the years 1 to 9999


def bronze(records: DataFrame) -> DataFrame:
    """Return the records unchanged, with their position and `date`, the UTC day of the timestamp.

    Columns: topic, partition, offset, timestamp, key, value, date. Files can be partitioned by
    `date`.
    """
    return dated(records).select(*POSITION, "timestamp", "key", "value", "date")


def dated(records: DataFrame) -> DataFrame:
    """Return records with `date`, the UTC day of the timestamp; null without one."""
    return records.withColumn("date", F.to_date(F.to_utc_timestamp("timestamp", F.current_timezone())))


def checked(bronze: DataFrame, schema: EventSchema = FLIGHTS, values: ValueSchema | None = None) -> DataFrame:
    """Return bronze with the fields of an event, `event_time` and `reason` (null: valid).

    An event whose record is later than the schema's `lateness` is invalid: it would change closed
    windows. Each value is parsed once, whatever is selected of the result.

    Args:
        values: by which values are decoded to events; None: they are JSON.
    """
    text = F.col("value").cast("string")
    if values is None:
        parsed = computed_once(bronze, {_EVENT: F.when(F.is_valid_utf8(text), F.try_parse_json(text))})
        # Looked at a second time only of values without an event: it takes half as long as parsing.
        no_event = F.col(_EVENT).isNull()
        undecoded = [(no_event & ~F.is_valid_utf8(text), F.lit("not UTF-8")), (no_event, F.lit("not JSON"))]
    else:
        parsed = computed_once(decoded(bronze, values), {_EVENT: _variant(values, schema)})
        undecoded = [(F.col(ERROR).isNotNull(), F.concat(F.lit(f"{UNDECODED}: "), F.col(ERROR)))]
    parsed = parsed.select("*", F.inline(F.array(_parts(schema))).alias(*map(_part, schema.fields)))
    parsed = computed_once(parsed, {_kind(field): F.schema_of_variant(_part(field)) for field in schema.fields})
    parsed = computed_once(parsed, {_text(field): _json(field) for field in schema.fields})
    parsed = computed_once(parsed, {field.name: _value(field) for field in schema.fields})
    parsed = parsed.withColumn("event_time", F.coalesce(*schema.time))
    result = computed_once(parsed, {"reason": _reason(undecoded, schema)})
    return result.select(*bronze.columns, *schema.names, "event_time", "reason")


def computed_once(frame: DataFrame, columns: Mapping[str, Column]) -> DataFrame:
    """Return `frame` with further columns, each computed once per row.

    Spark puts the expression of a column in place of its name when it moves filters below
    projections, and merges projections. An expression is then computed once for each mention, and
    mentions of mentions multiply: a JSON value was parsed 56 times. Neither passes a generator;
    that of a list of one row changes nothing else.
    """
    row = F.struct(*(column.alias(name) for name, column in columns.items()))
    return frame.select("*", F.inline(F.array(row)))


def decoded(bronze: DataFrame, values: ValueSchema) -> DataFrame:
    """Return bronze with `_value`, the decoded value, and `_error`, why it can't be decoded."""
    from pyspark.sql.pandas.types import from_arrow_schema

    decode = DecodeFrame(values)
    added = from_arrow_schema(decode.columns, prefer_timestamp_ntz=True)
    return bronze.mapInArrow(decode, StructType([*bronze.schema.fields, *added.fields]))


def _variant(values: ValueSchema, schema: EventSchema) -> Column:
    """Return the fields of the event, as parsed JSON has them; those without a column are left out.

    Raises: OptionError: values never have a field that events need.
    """
    columns = set(values.reader().type.names)
    missing = [field.name for field in schema.fields if not field.nullable and field.name not in columns]
    if missing:
        raise OptionError(f"events need {', '.join(missing)}, and the schema of values has no such field")
    kept = [F.col(VALUE).getField(name).alias(name) for name in schema.names if name in columns]
    return F.when(F.col(VALUE).isNotNull(), F.to_variant_object(F.struct(*kept)))


def silver(bronze: DataFrame, schema: EventSchema = FLIGHTS, values: ValueSchema | None = None) -> DataFrame:
    """Return the valid events, typed.

    Columns: topic, partition, offset, timestamp (of the record), the schema's fields, event_time,
    date.
    """
    return valid(checked(bronze, schema, values), schema)


def quarantine(bronze: DataFrame, schema: EventSchema = FLIGHTS, values: ValueSchema | None = None) -> DataFrame:
    """Return the invalid records with the reason. Columns: those of bronze, reason."""
    return invalid(checked(bronze, schema, values), schema)


def valid(checked: DataFrame, schema: EventSchema = FLIGHTS) -> DataFrame:
    """Return silver of checked records."""
    return checked.where("reason is null").select(*POSITION, "timestamp", *schema.names, "event_time", "date")


def invalid(checked: DataFrame, schema: EventSchema = FLIGHTS) -> DataFrame:
    """Return quarantine of checked records."""
    return checked.where("reason is not null").drop(*schema.names, "event_time")


def watermarked(silver: DataFrame, schema: EventSchema = FLIGHTS) -> DataFrame:
    """Return silver with a watermark on `event_time`, so a stream can close windows.

    A batch does not need it.
    """
    return silver.withWatermark("event_time", schema.lateness)


def distinct(watermarked: DataFrame, schema: EventSchema = FLIGHTS) -> DataFrame:
    """Return each event once, by its id: retries of senders can duplicate an event.

    A stream deduplicates within the lateness. A batch keeps the first event: by timestamp, then by
    topic, partition and offset.
    """
    if watermarked.isStreaming:
        return watermarked.dropDuplicatesWithinWatermark([schema.id])
    first = F.min_by(F.struct("*"), F.struct("timestamp", *POSITION)).alias("_first")
    return watermarked.groupBy(F.col(schema.id).alias("_id")).agg(first).select("_first.*")


def gold(watermarked: DataFrame, schema: EventSchema = FLIGHTS) -> DataFrame:
    """Return the schema's aggregates per time window and value of its `by`, by event time.

    Columns: start and end of the window, those of `by`, those of the schema's `gold`. A stream (in
    append mode) emits a window once the watermark has passed its end.
    """
    windows = watermarked.groupBy(F.window("event_time", schema.window).alias("_window"), *schema.by)
    counted = windows.agg(*(F.expr(sql).alias(name) for name, sql in schema.gold.items()))
    return counted.select(
        F.col("_window.start").alias("start"), F.col("_window.end").alias("end"), *counted.columns[1:]
    )


def _parts(schema: EventSchema) -> Column:
    """Return the fields of an event as variants: one pass over the object finds all of them."""
    fields = ", ".join(f"`{field.name}` variant" for field in schema.fields)
    return F.try_variant_get(_EVENT, "$", f"struct<{fields}>")


def _part(field: Field) -> str:
    """Return the column with a field's value as a variant; null: missing."""
    return f"part of {field.name}"


def _kind(field: Field) -> str:
    """Return the column with the type of a field's value, as Spark names it; null: missing."""
    return f"kind of {field.name}"


def _text(field: Field) -> str:
    """Return the column with a field's value as JSON."""
    return f"text of {field.name}"


def _json(field: Field) -> Column:
    """Return a field's value as JSON; null if it is a time or a day, as decoded columns have them.

    Values are cast from this text, by compiled code. Spark casts a variant by a cast that it makes
    again for each row, which takes three times as long.
    """
    text = F.to_json(_part(field))
    times = [kind for kind in field.kind.kinds if kind in ("TIMESTAMP", "DATE")]
    return F.when(~F.col(_kind(field)).isin(times), text) if times else text


def _as(field: Field, type: str) -> Column:
    return F.try_variant_get(_part(field), "$", type)


def _value(field: Field) -> Column:
    """Return a field's value; null if it has another type. JSON text never becomes a number."""
    value = _READ.get(field.type.partition("(")[0], _number)(field)
    return F.when(functools.reduce(operator.or_, (_is(field, kind) for kind in field.kind.kinds)), value)


def _number(field: Field) -> Column:
    return F.col(_text(field)).try_cast(field.kind.spark)


def _string(field: Field) -> Column:
    """Return a text: its JSON without the quotes, unless that has escapes."""
    has_escapes = F.contains(F.col(_text(field)), F.lit("\\"))
    return F.when(has_escapes, _as(field, "string")).otherwise(_unquoted(field))


def _unquoted(field: Field) -> Column:
    """Return a text without its quotes, cut as bytes: to count characters takes longer."""
    text = F.col(_text(field))
    return F.substr(text.cast("binary"), F.lit(2), F.octet_length(text) - 2).cast("string")


def _boolean(field: Field) -> Column:
    return F.col(_text(field)) == "true"


def _decimal(field: Field) -> Column:
    """Return a decimal; null if it needs rounding. Its JSON has no exponent, and no zeros
    at the end.
    """
    text = F.col(_text(field))
    scale = F.when(F.contains(text, F.lit(".")), F.length(text) - F.instr(text, ".")).otherwise(0)
    return F.when(scale <= field.kind.scale, text.try_cast(field.kind.spark))


def _double(field: Field) -> Column:
    """Return a double. The text of a FLOAT has fewer digits than a double needs."""
    value = F.when(_is(field, "FLOAT"), _as(field, "double")).otherwise(_number(field))
    return F.when(F.abs(value) < float("inf"), value)


def _timestamp(field: Field) -> Column:
    moment = F.when(_is_plain_moment(field) | F.col(_text(field)).rlike(_MOMENT), F.try_to_timestamp(_unquoted(field)))
    return F.when(_is(field, "STRING"), moment).otherwise(_moment(field))


def _is_plain_moment(field: Field) -> Column:
    """Return whether a text is a time if it can be cast to one, like 2024-05-01T12:00:00.123Z.

    The bytes at fixed places tell, five times as fast as `_MOMENT`: the cast demands digits between
    them. After the seconds it takes any zone, but the name of none ends in a digit and Z.
    """
    size = F.octet_length(F.col(_text(field)))
    has_fraction = size.between(24, 32) & (_byte_at(field, 21) == _byte("."))
    return (
        _has_bytes(field, {6: "-", 9: "-", 12: "T", 15: ":", 18: ":"})
        & ((size == 22) | has_fraction)
        & _is_digit(field, size - 2)
        & (_byte_at(field, size - 1) == _byte("Z"))
    )


def _timestamp_ms(field: Field) -> Column:
    value = F.col(_text(field)).try_cast("bigint")
    return F.coalesce(_moment(field), F.when(value.between(_MS_MIN, _MS_MAX), F.timestamp_millis(value)))


def _moment(field: Field) -> Column:
    """Return the time of a decoded value that is one; otherwise, and outside the years, null."""
    value = F.when(_is(field, "TIMESTAMP"), _as(field, "timestamp"))
    return F.when(F.unix_millis(value).between(_MS_MIN, _MS_MAX), value)


def _date(field: Field) -> Column:
    day = F.when(_is_plain_day(field), _unquoted(field).try_cast("date"))
    return F.when(_is(field, "STRING"), day).otherwise(F.when(_is(field, "DATE"), _as(field, "date")))


def _is_plain_day(field: Field) -> Column:
    """Return whether a text is a day if it can be cast to one: 2024-05-01, and nothing else."""
    size = F.octet_length(F.col(_text(field)))
    return (size == 12) & _has_bytes(field, {6: "-", 9: "-"}) & _is_digit(field, F.lit(11))


def _byte_at(field: Field, position: Column | int) -> Column:
    """Return the byte at a position of a field's JSON, counted from 1."""
    at = F.lit(position) if isinstance(position, int) else position
    return F.substr(F.col(_text(field)).cast("binary"), at, F.lit(1))


def _byte(character: str) -> Column:
    return F.lit(bytearray(character.encode()))


def _has_bytes(field: Field, characters: Mapping[int, str]) -> Column:
    matches = (_byte_at(field, position) == _byte(character) for position, character in characters.items())
    return functools.reduce(operator.and_, matches)


def _is_digit(field: Field, position: Column) -> Column:
    return _byte_at(field, position).between(_byte("0"), _byte("9"))


def _is(field: Field, kind: str) -> Column:
    name = F.col(_kind(field))
    return F.startswith(name, F.lit("DECIMAL(")) if kind == "DECIMAL" else name == kind


_READ = {
    "string": _string, "boolean": _boolean, "decimal": _decimal, "double": _double, "timestamp": _timestamp,
    "timestamp_ms": _timestamp_ms, "date": _date,
}  # fmt: skip


def _is_object(schema: EventSchema) -> Column:
    """Return whether the event is an object. One with a field is; its whole type takes longer."""
    has_field = functools.reduce(operator.or_, (F.col(_kind(field)).isNotNull() for field in schema.fields))
    return has_field | F.schema_of_variant(_EVENT).startswith("OBJECT")


def _reason(undecoded: Sequence[tuple[Column, Column]], schema: EventSchema) -> Column:
    """Return the first rule that a record breaks; null if it breaks none.

    Args:
        undecoded: why a value is no event.
    """
    reasons: list[tuple[Column, str | Column]] = [
        (F.col("value").isNull(), "no value"),
        *undecoded,
        (~_is_object(schema), "not an object"),
    ]
    for field in schema.fields:
        kind, wrong = F.col(_kind(field)), F.col(field.name).isNull()
        if not field.nullable:
            reasons.append((kind.isNull(), f"{field.name}: missing"))
        reasons.append(
            (wrong & (kind != "VOID") if field.nullable else wrong, f"{field.name}: not a {field.kind.shown}")
        )
    reasons += [(~F.expr(sql), words) for words, sql in schema.rules.items()]
    reasons += [
        (F.col("event_time").isNull(), f"no time: {' and '.join(schema.time)} are null"),
        (
            F.col("timestamp") > F.col("event_time") + F.expr(f"interval {schema.lateness}"),
            f"late: told more than {schema.lateness} after the event",
        ),
    ]
    return F.coalesce(*(F.when(broken, F.lit(words) if isinstance(words, str) else words) for broken, words in reasons))
