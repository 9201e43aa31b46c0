"""What the jobs make of records: pure functions from DataFrame to DataFrame, the same for streams and batches; nothing is read or written.

    records -> bronze -> checked -> silver -> watermarked -> distinct -> gold
                              |---> quarantine

Records are what the kqueue source and Spark's Kafka source give. Of the flights' events (`kqueue.cli.demo.events`) silver has those that
can be used, and quarantine all others, with the reason; together they are bronze, record for record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

LATENESS = "2 hours"
WINDOW = "1 hour"
AIRPORTS = ("EWR", "JFK", "LGA")
DELAY_MIN, DELAY_MAX = -120, 24 * 60 * 2  # minutes; what lies outside is a mistake
LATE_START_MIN = 15  # from so many minutes on a departure counts as delayed, as the authorities count
WHERE = ("topic", "partition", "offset")


class Field(NamedTuple):
    """A field of an event: its name, its type in Spark, and whether it may be null (it must be there all the same)."""

    name: str
    type: str
    nullable: bool = False


EVENT = (
    Field("id", "bigint"),
    Field("flight", "string"),
    Field("origin", "string"),
    Field("dest", "string"),
    Field("scheduled", "timestamp"),
    Field("departed", "timestamp", nullable=True),
    Field("delay_min", "int", nullable=True),
)


def bronze(records: DataFrame) -> DataFrame:
    """Records as they came, each with its place in the log and the day of its time (`date`, UTC), by which files can be laid out.

    Columns: topic, partition, offset, timestamp, key, value, date.
    """
    return dated(records).select(*WHERE, "timestamp", "key", "value", "date")


def dated(records: DataFrame) -> DataFrame:
    """Records with the day of their time (`date`, UTC); null where they have none."""
    return records.withColumn("date", F.to_date(F.to_utc_timestamp("timestamp", F.current_timezone())))


def checked(bronze: DataFrame, lateness: str = LATENESS) -> DataFrame:
    """Bronze with the fields of an event, `event_time` (when it left, or should have) and `reason`: null if all is well.

    lateness: how long after its event a record may be told, by the record's own time; what comes later would change hours that are done.
    """
    text = F.col("value").cast("string")
    parsed = bronze.withColumn("_event", F.when(F.is_valid_utf8(text), F.try_parse_json(text)))
    parsed = parsed.withColumns({"_kind": F.schema_of_variant("_event"), **{f"_{field.name}_kind": _kind(field) for field in EVENT}})
    parsed = parsed.withColumns({f"_{field.name}": _value(field) for field in EVENT})
    parsed = parsed.withColumn("_event_time", F.coalesce("_departed", "_scheduled"))
    named = [F.col(f"_{name}").alias(name) for name in (*(field.name for field in EVENT), "event_time")]
    return parsed.select(*bronze.columns, *named, _reason(text, lateness).alias("reason"))


def silver(bronze: DataFrame, lateness: str = LATENESS) -> DataFrame:
    """The events that can be used, typed, with their places in the log.

    Columns: topic, partition, offset, those of `EVENT`, event_time, date. The times are timestamps, as the session shows them.
    """
    fine = checked(bronze, lateness).where("reason is null")
    return fine.select(*WHERE, *(field.name for field in EVENT), "event_time", "date")


def quarantine(bronze: DataFrame, lateness: str = LATENESS) -> DataFrame:
    """All other records as they came, with the reason. Columns: those of bronze, reason."""
    return checked(bronze, lateness).where("reason is not null").select(*bronze.columns, "reason")


def watermarked(silver: DataFrame, lateness: str = LATENESS) -> DataFrame:
    """The same, with `event_time` as the time by which a stream knows when an hour is done; a batch has no need of it."""
    return silver.withWatermark("event_time", lateness)


def distinct(watermarked: DataFrame) -> DataFrame:
    """Each event once, by its `id`: senders that try again may send one twice. Of a stream, once within the lateness."""
    return watermarked.dropDuplicatesWithinWatermark(["id"]) if watermarked.isStreaming else watermarked.dropDuplicates(["id"])


def gold(watermarked: DataFrame, window: str = WINDOW) -> DataFrame:
    """Delays per airport and hour (or other `window`), by the time of the events.

    Columns: start and end of the window, origin, flights, cancelled, delayed (by `LATE_START_MIN` minutes or more), delay_avg_min,
    delay_max_min (null where all were cancelled). Of a stream, a window is given (in append mode) once it is so far in the past.
    """
    hours = watermarked.groupBy(F.window("event_time", window).alias("_window"), "origin")
    counted = hours.agg(
        F.count("*").alias("flights"),
        F.count_if(F.col("departed").isNull()).alias("cancelled"),
        F.count_if(F.col("delay_min") >= LATE_START_MIN).alias("delayed"),
        F.avg("delay_min").alias("delay_avg_min"),
        F.max("delay_min").alias("delay_max_min"),
    )
    return counted.select(F.col("_window.start").alias("start"), F.col("_window.end").alias("end"), *counted.columns[1:])


def _kind(field: Field) -> Column:
    """What a field is in JSON, as Spark words it; null if it is not there."""
    return F.schema_of_variant(F.try_variant_get("_event", f"$.{field.name}", "variant"))


def _value(field: Field) -> Column:
    """The value of a field; null if it is none of its type. Text alone is a text or a time, and whole numbers alone are numbers."""
    is_time = field.type == "timestamp"
    value = F.try_variant_get("_event", f"$.{field.name}", "string" if is_time else field.type)
    if is_time:
        value = F.try_to_timestamp(value, F.lit("yyyy-MM-dd'T'HH:mm:ssX"))
    return F.when(F.col(f"_{field.name}_kind") == ("BIGINT" if field.type in ("bigint", "int") else "STRING"), value)


def _reason(text: Column, lateness: str) -> Column:
    """The first rule that a record breaks, in words; null if it breaks none."""
    rules = [
        (F.col("value").isNull(), "no value"),
        (~F.is_valid_utf8(text), "not UTF-8"),
        (F.col("_event").isNull(), "not JSON"),
        (~F.col("_kind").startswith("OBJECT"), "not an object"),
    ]
    for field in EVENT:
        kind, wrong = F.col(f"_{field.name}_kind"), F.col(f"_{field.name}").isNull()
        rules.append((kind.isNull(), f"{field.name}: missing"))
        rules.append((wrong & (kind != "VOID") if field.nullable else wrong, f"{field.name}: not a {_SHOWN[field.type]}"))
    rules += [
        (~F.col("_origin").isin(*AIRPORTS), f"origin: none of {', '.join(AIRPORTS)}"),
        (F.col("_departed").isNull() != F.col("_delay_min").isNull(), "departed and delay_min: one without the other"),
        (~F.col("_delay_min").between(DELAY_MIN, DELAY_MAX), f"delay_min: not from {DELAY_MIN} to {DELAY_MAX}"),
        (
            F.col("timestamp") > F.col("_event_time") + F.expr(f"interval {lateness}"),
            f"late: told more than {lateness} after the event",
        ),
    ]
    return F.coalesce(*(F.when(broken, F.lit(words)) for broken, words in rules))


_SHOWN = {"bigint": "whole number", "int": "whole number", "string": "text", "timestamp": "time"}
