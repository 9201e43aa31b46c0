"""What the jobs make of records: pure functions from DataFrame to DataFrame, the same for streams
and batches; nothing is read or written.

    records -> bronze -> checked -> silver -> watermarked -> distinct -> gold
                              |---> quarantine

Records are what the kqueue source and Spark's Kafka source give. A `EventSchema` says what events are
like; of them silver has those that can be used, and quarantine all others, with the reason;
together they are bronze, record for record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kqueue.spark.event_schema import FLIGHTS, EventSchema, Field
from kqueue.spark.event_schema.schema import POSITION

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# A time needs its zone, or its moment would hang on where the session is; a day of its own (12:30)
# would be today's.
_MOMENT = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)$"
_DAY = r"^\d{4}-\d\d-\d\d$"
_MS_MIN, _MS_MAX = -62_135_596_800_000, 253_402_300_799_999  # the years 1 to 9999


def bronze(records: DataFrame) -> DataFrame:
    """Records as they came, each with its place in the log and the day of its time (`date`, UTC),
    by which files can be laid out.

    Columns: topic, partition, offset, timestamp, key, value, date.
    """
    return dated(records).select(*POSITION, "timestamp", "key", "value", "date")


def dated(records: DataFrame) -> DataFrame:
    """Records with the day of their time (`date`, UTC); null where they have none."""
    return records.withColumn("date", F.to_date(F.to_utc_timestamp("timestamp", F.current_timezone())))


def checked(bronze: DataFrame, shape: EventSchema = FLIGHTS) -> DataFrame:
    """Bronze with the fields of an event, `event_time` (when it happened) and `reason`: null if all
    is well.

    What is told later than the shape's `lateness`, by the record's own time, has a reason too: it
    would change hours that are done.
    """
    text = F.col("value").cast("string")
    parsed = bronze.withColumn("_event", F.when(F.is_valid_utf8(text), F.try_parse_json(text)))
    kinds = {f"_{field.name}": F.schema_of_variant(_part(field, "variant")) for field in shape.fields}
    parsed = parsed.withColumns({"_kind": F.schema_of_variant("_event"), **kinds})
    parsed = parsed.withColumns({field.name: _value(field) for field in shape.fields})
    parsed = parsed.withColumn("event_time", F.coalesce(*shape.time))
    return parsed.select(*bronze.columns, *shape.names, "event_time", _reason(text, shape).alias("reason"))


def silver(bronze: DataFrame, shape: EventSchema = FLIGHTS) -> DataFrame:
    """The events that can be used, typed, with their places in the log.

    Columns: topic, partition, offset, timestamp (when it was told), the shape's fields, event_time,
    date.
    """
    fine = checked(bronze, shape).where("reason is null")
    return fine.select(*POSITION, "timestamp", *shape.names, "event_time", "date")


def quarantine(bronze: DataFrame, shape: EventSchema = FLIGHTS) -> DataFrame:
    """All other records as they came, with the reason. Columns: those of bronze, reason."""
    return checked(bronze, shape).where("reason is not null").select(*bronze.columns, "reason")


def watermarked(silver: DataFrame, shape: EventSchema = FLIGHTS) -> DataFrame:
    """The same, with `event_time` as the time by which a stream knows when a window is done; a
    batch has no need of it.
    """
    return silver.withWatermark("event_time", shape.lateness)


def distinct(watermarked: DataFrame, shape: EventSchema = FLIGHTS) -> DataFrame:
    """Each event once, by its id: senders that try again may send one twice. Of a stream, once
    within the lateness.

    Of a batch, the first stays: the one that was told first, and of those the one with the lowest
    topic, partition and offset.
    """
    if watermarked.isStreaming:
        return watermarked.dropDuplicatesWithinWatermark([shape.id])
    first = F.min_by(F.struct("*"), F.struct("timestamp", *POSITION)).alias("_first")
    return watermarked.groupBy(F.col(shape.id).alias("_id")).agg(first).select("_first.*")


def gold(watermarked: DataFrame, shape: EventSchema = FLIGHTS) -> DataFrame:
    """The shape's aggregates for each window of time and each value of its `by`, by the time of the
    events.

    Columns: start and end of the window, those of `by`, those of the shape's `gold`. Of a stream, a
    window is given (in append mode) once it is so far in the past as events may be late.
    """
    windows = watermarked.groupBy(F.window("event_time", shape.window).alias("_window"), *shape.by)
    counted = windows.agg(*(F.expr(sql).alias(name) for name, sql in shape.gold.items()))
    return counted.select(
        F.col("_window.start").alias("start"), F.col("_window.end").alias("end"), *counted.columns[1:]
    )


def _part(field: Field, type: str) -> Column:
    return F.try_variant_get("_event", f"$.{field.name}", type)


def _value(field: Field) -> Column:
    """The value of a field; null if it is none of its type. Text alone is a text or a time, and
    whole numbers alone are numbers.
    """
    kind = F.regexp_extract(f"_{field.name}", r"^\w+", 0)
    value = _READ.get(field.type.partition("(")[0], _plain)(field)
    return F.when(kind.isin(*field.kind.kinds), value)


def _plain(field: Field) -> Column:
    return _part(field, field.kind.spark)


def _decimal(field: Field) -> Column:
    """None that would have to be rounded. What a number in JSON has after its point is told by its
    kind: DECIMAL(3,2).
    """
    scale = F.regexp_extract(f"_{field.name}", r",(\d+)", 1).try_cast("int")
    return F.when(F.coalesce(scale, F.lit(0)) <= field.kind.scale, _plain(field))


def _double(field: Field) -> Column:
    value = _part(field, "double")
    return F.when(F.abs(value) < float("inf"), value)


def _timestamp(field: Field) -> Column:
    text = _part(field, "string")
    return F.when(text.rlike(_MOMENT), F.try_to_timestamp(text))


def _timestamp_ms(field: Field) -> Column:
    value = _part(field, "bigint")
    return F.when(value.between(_MS_MIN, _MS_MAX), F.timestamp_millis(value))


def _date(field: Field) -> Column:
    text = _part(field, "string")
    return F.when(text.rlike(_DAY), F.to_date(F.try_to_timestamp(text, F.lit("yyyy-MM-dd"))))


_READ = {"decimal": _decimal, "double": _double, "timestamp": _timestamp, "timestamp_ms": _timestamp_ms, "date": _date}


def _reason(text: Column, shape: EventSchema) -> Column:
    """The first rule that a record breaks, in words; null if it breaks none."""
    found = [
        (F.col("value").isNull(), "no value"),
        (~F.is_valid_utf8(text), "not UTF-8"),
        (F.col("_event").isNull(), "not JSON"),
        (~F.col("_kind").startswith("OBJECT"), "not an object"),
    ]
    for field in shape.fields:
        kind, wrong = F.col(f"_{field.name}"), F.col(field.name).isNull()
        if not field.nullable:
            found.append((kind.isNull(), f"{field.name}: missing"))
        found.append((wrong & (kind != "VOID") if field.nullable else wrong, f"{field.name}: not a {field.kind.shown}"))
    found += [(~F.expr(sql), words) for words, sql in shape.rules.items()]
    found += [
        (F.col("event_time").isNull(), f"no time: {' and '.join(shape.time)} are null"),
        (
            F.col("timestamp") > F.col("event_time") + F.expr(f"interval {shape.lateness}"),
            f"late: told more than {shape.lateness} after the event",
        ),
    ]
    return F.coalesce(*(F.when(broken, F.lit(words)) for broken, words in found))
