"""The transformations of the jobs, on small DataFrames.

One test covers all cases of a kind, because each query is expensive and each row is cheap.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from kqueue.demo.events import EventKind, events
from kqueue.demo.flights import Flights
from kqueue.spark import transforms
from kqueue.spark.event_schema import FLIGHTS, EventSchema, parse

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
TOLD = NOON + timedelta(minutes=10)
IN_TIME = NOON + timedelta(hours=2, minutes=10)  # the last moment for EVENT
EVENT = {
    "id": 1, "flight": "UA1", "origin": "EWR", "dest": "IAH", "scheduled": "2013-01-01T12:00:00Z",
    "departed": "2013-01-01T12:10:00Z", "delay_min": 10,
}  # fmt: skip
CANCELLED = {**EVENT, "departed": None, "delay_min": None}
RECORDS = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
Value = bytes | dict[str, Any] | None


def records_of(spark: SparkSession, values: Iterable[tuple[Value, datetime]]) -> DataFrame:
    """Return records as the source returns them: dicts as JSON, offsets from 0."""
    rows = [
        (b"EWR", json.dumps(value).encode() if isinstance(value, dict) else value, "flights", 0, offset, told, 0)
        for offset, (value, told) in enumerate(values)
    ]
    return spark.createDataFrame(rows, RECORDS)


def judged(bronze: DataFrame, schema: EventSchema = FLIGHTS) -> list[Row]:
    """Return the outcome of each record by offset.

    `event` has the fields of silver, or `reason` is that of quarantine.
    """
    silver, quarantine = transforms.silver(bronze, schema), transforms.quarantine(bronze, schema)
    event = F.struct(*schema.names, F.unix_micros("event_time").alias("event_us"))
    fine = silver.select(
        "offset", event.alias("event"), F.lit(None).cast("string").alias("reason"), F.lit(None).alias("value")
    )
    fine = fine.withColumn("value", F.col("value").cast("binary"))
    wrong = quarantine.select(
        "offset", F.lit(None).cast(fine.schema["event"].dataType).alias("event"), "reason", "value"
    )
    return sorted(fine.unionAll(wrong).collect(), key=lambda row: row.offset)


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in EVENT.items() if key != name}


def test_bronze_has_record_position_and_utc_day_in_any_session_zone(
    spark: SparkSession,
) -> None:
    records = records_of(
        spark, [(b"\xff", datetime(2013, 1, 1, 23, 59, tzinfo=UTC)), (None, datetime(2013, 1, 2, 1, tzinfo=UTC))]
    )
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        row, next_day = transforms.bronze(records).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert list(row.asDict()) == ["topic", "partition", "offset", "timestamp", "key", "value", "date"]
    assert (row.topic, row.partition, row.offset, bytes(row.key), bytes(row.value)) == (
        "flights",
        0,
        0,
        b"EWR",
        b"\xff",
    )
    assert (row.date, next_day.date, next_day.value) == (date(2013, 1, 1), date(2013, 1, 2), None)


ONE_WITHOUT_THE_OTHER = "departed and delay_min: one without the other"
BROKEN: list[tuple[Value, str]] = [
    (None, "no value"),
    (b"", "not JSON"),
    (b"{", "not JSON"),
    (b'{"id":1,"id":2}', "not JSON"),
    (b"\xff\xfe{}", "not UTF-8"),
    (b"[1]", "not an object"),
    (b"null", "not an object"),
    (b'"text"', "not an object"),
    ({}, "id: missing"),
    *(
        (without(field.name), ONE_WITHOUT_THE_OTHER if field.nullable else f"{field.name}: missing")
        for field in FLIGHTS.fields
    ),
    ({**EVENT, "id": None}, "id: not a whole number"),
    ({**EVENT, "id": "1"}, "id: not a whole number"),
    ({**EVENT, "id": 1.5}, "id: not a whole number"),
    ({**EVENT, "id": 10**30}, "id: not a whole number"),
    ({**EVENT, "delay_min": 10**12}, "delay_min: not a whole number"),
    ({**EVENT, "delay_min": "ten"}, "delay_min: not a whole number"),
    ({**EVENT, "flight": 7}, "flight: not a text"),
    ({**EVENT, "dest": {"airport": "IAH"}}, "dest: not a text"),
    ({**EVENT, "scheduled": "yesterday"}, "scheduled: not a time"),
    ({**EVENT, "scheduled": "12:30"}, "scheduled: not a time"),
    ({**EVENT, "scheduled": "2013-02-30T12:00:00Z"}, "scheduled: not a time"),
    ({**EVENT, "scheduled": "2013-02-20T12:00:00"}, "scheduled: not a time"),
    ({**EVENT, "departed": True}, "departed: not a time"),
    ({**EVENT, "origin": "Newark"}, "origin: none of EWR, JFK, LGA"),
    ({**EVENT, "departed": None}, ONE_WITHOUT_THE_OTHER),
    ({**EVENT, "delay_min": None}, ONE_WITHOUT_THE_OTHER),
    ({**EVENT, "delay_min": 100_000}, "delay_min: not from -120 to 2880"),
]


def test_each_record_is_in_silver_or_quarantine(spark: SparkSession) -> None:
    fine = [(EVENT, TOLD), (CANCELLED, TOLD), ({**EVENT, "departed": "2013-01-01T13:10:00.5+01:00"}, IN_TIME)]
    late = [(EVENT, IN_TIME + timedelta(seconds=1)), (CANCELLED, IN_TIME)]
    values: list[tuple[Value, datetime]] = [*fine, *late, *((value, TOLD) for value, _ in BROKEN)]
    bronze = transforms.bronze(records_of(spark, values))
    rows = judged(bronze)
    assert [row.offset for row in rows] == list(range(len(values)))  # each record is in exactly one of them
    events, rest = [row.event for row in rows[:3]], rows[3:]
    assert [row.reason for row in rest] == ["late: told more than 2 hours after the event"] * 2 + [
        reason for _, reason in BROKEN
    ]
    assert bytes(rest[2 + 4].value) == b"\xff\xfe{}"
    noon_us = int(NOON.timestamp()) * 1_000_000
    first = events[0]
    assert (first.id, first.flight, first.origin, first.delay_min, first.event_us) == (
        1,
        "UA1",
        "EWR",
        10,
        noon_us + 600_000_000,
    )
    assert (events[1].departed, events[1].delay_min, events[1].event_us) == (None, None, noon_us)
    assert events[2].event_us == noon_us + 600_500_000
    assert dict(transforms.silver(bronze).dtypes) == {
        "topic": "string", "partition": "int", "offset": "bigint", "timestamp": "timestamp", "id": "bigint",
        "flight": "string",
        "origin": "string", "dest": "string", "scheduled": "timestamp", "departed": "timestamp", "delay_min": "int",
        "event_time": "timestamp", "date": "date",
    }  # fmt: skip
    assert transforms.quarantine(bronze).columns == [*bronze.columns, "reason"]


ORDERS = parse("""
id = "number"
time = "at"
by = "shop"
lateness = "1 day"
[fields]
number = "string"
shop = "string?"
at = "timestamp_ms"
amount = "decimal(6,2)"
weight = "double?"
paid = "boolean?"
due = "date?"
kind = "string?"
event = "string?"
[rules]
"amount: not above nothing" = "amount > 0"
"weight: too heavy for its price" = "weight / (amount - 1) < 1000"
"told under a wrong key" = "cast(key as string) = 'EWR'"
[gold]
"orders" = "count(*)"
"sum" = "sum(amount)"
""")
ORDER = {
    "number": "a",
    "shop": "x",
    "at": 1357041600123,
    "amount": 12.5,
    "weight": 3,
    "paid": True,
    "due": "2013-02-28",
    "kind": "k",
    "event": "e",
}
ESCAPED = 'a "b" \\ c\td\u20ac\U0001f600'
ORDERED: list[tuple[Value, str | None]] = [
    (ORDER, None),
    (
        {"number": "b", "at": 1357041600000, "amount": 1},
        None,
    ),  # nullable fields may be missing; no division by 0
    ({**ORDER, "weight": 1.5e300, "amount": 10}, "weight: too heavy for its price"),
    (b'{"number":"a","at":1357041600123,"amount":1,"weight":1e999}', "weight: not a number"),
    ({**ORDER, "weight": "3"}, "weight: not a number"),
    ({**ORDER, "amount": 0}, "amount: not above nothing"),
    ({**ORDER, "amount": 12.505}, "amount: not a number of 6 digits, 2 of them after the point"),
    ({**ORDER, "amount": 12345}, "amount: not a number of 6 digits, 2 of them after the point"),
    ({**ORDER, "amount": "12.50"}, "amount: not a number of 6 digits, 2 of them after the point"),
    ({**ORDER, "paid": 1}, "paid: not a true or false"),
    ({**ORDER, "due": "2013-02-29"}, "due: not a day"),
    ({**ORDER, "due": "28.2.2013"}, "due: not a day"),
    ({**ORDER, "at": 10**17}, "at: not a time in ms"),
    ({**ORDER, "at": "2013-01-01T12:00:00Z"}, "at: not a time in ms"),
    ({**ORDER, "shop": ["x"]}, "shop: not a text"),
    ({**ORDER, "due": "2013-02-28\n"}, "due: not a day"),
    ({**ORDER, "shop": ""}, None),
    ({**ORDER, "shop": ESCAPED}, None),
    (json.dumps({**ORDER, "shop": ESCAPED}, ensure_ascii=False).encode(), None),
    (b'{"number":"null","at":1357041600123,"amount":12.500,"weight":0.30000000000000004,"paid":false}', None),
]


def test_events_are_checked_by_their_own_schema(spark: SparkSession) -> None:
    rows = judged(transforms.bronze(records_of(spark, ((value, NOON) for value, _ in ORDERED))), ORDERS)
    assert [row.reason for row in rows] == [reason for _, reason in ORDERED]
    first = rows[0].event
    assert first.event_us == 1357041600123000
    assert (first.kind, first.event) == ("k", "e")
    assert (first.number, first.amount, first.weight, first.paid, first.due) == (
        "a",
        Decimal("12.50"),
        3.0,
        True,
        date(2013, 2, 28),
    )
    assert (
        rows[1].event.asDict().items()
        >= {"shop": None, "weight": None, "paid": None, "due": None, "amount": Decimal(1)}.items()
    )
    assert [row.event.shop for row in rows[-4:-1]] == ["", ESCAPED, ESCAPED]
    last = rows[-1].event
    assert (last.number, last.amount, last.weight, last.paid) == ("null", Decimal("12.50"), 0.30000000000000004, False)


TIMED = parse("""
id = "number"
time = "received"
lateness = "3000 days"
[fields]
number = "int"
received = "timestamp_ms"
at = "timestamp?"
due = "date?"
""")
MOMENTS: dict[str, datetime | None] = {
    "2013-01-01T12:00:00Z": NOON,
    "2013-01-01 12:00:00Z": NOON,
    "2013-01-01T12:00:00.5Z": NOON + timedelta(milliseconds=500),
    "2013-01-01T12:00:00.123Z": NOON + timedelta(milliseconds=123),
    "2013-01-01T12:00:00.123456789Z": NOON + timedelta(microseconds=123456),
    "2013-01-01T13:30:00.123+01:30": NOON + timedelta(milliseconds=123),
    **dict.fromkeys(
        (
            "2013-01-01T12:00:00", "2013-01-01T12:00Z", "2013-01-01T12:00:00.1234567890Z", "2013-01-01T25:00:00Z",
            "2013-01-01T12:00:0 Z", "2013-01-01T12:00:00 Z", "2013-01-01T12:00:00.1 Z", "2013-01-01T12:00:00NZ",
            "2013-01-01T12:00:00.1NZ", "2013-01-01T12:00:00.+1Z", "2013-01-01T12:00:00.Z", "2013-01-01T12:00:00.123z",
            "2013-1-01T12:00:00.12Z", " 013-01-01T12:00:00Z", "+013-01-01T12:00:00Z", "2013-01-01T12:00:00é",
            "2013-02-29T12:00:00.123Z",
        )
    ),
}  # fmt: skip
DAYS: dict[str, date | None] = {
    "2013-02-28": date(2013, 2, 28),
    "2012-02-29": date(2012, 2, 29),
    **dict.fromkeys(
        ("2013-02-29", "2013-02-1 ", "2013-02-1T", "2013-02- 1", " 013-02-01", "2013-02-28Z", "2013-02", "é")
    ),
}


def test_incomplete_times_and_days_are_refused(spark: SparkSession) -> None:
    event = {"number": 1, "received": 1357041600000}
    texts = [("at", text) for text in MOMENTS] + [("due", text) for text in DAYS]
    values = (({**event, name: text}, NOON) for name, text in texts)
    checked = transforms.checked(transforms.bronze(records_of(spark, values)), TIMED)
    rows = checked.select(F.unix_micros("at"), "due", "reason").orderBy("offset").collect()
    wrong = {"at": "at: not a time", "due": "due: not a day"}
    expected = [
        *((at and round(at.timestamp() * 1_000_000), None, None if at else wrong["at"]) for at in MOMENTS.values()),
        *((None, due, None if due else wrong["due"]) for due in DAYS.values()),
    ]
    assert [tuple(row) for row in rows] == expected


def test_gold_counts_each_event_once(spark: SparkSession) -> None:
    def flight(number: int, delay: int | None, origin: str = "EWR", hour: int = 12) -> dict[str, Any]:
        scheduled = f"2013-01-01T{hour}:00:00Z"
        departed = None if delay is None else scheduled
        return {
            **EVENT,
            "id": number,
            "origin": origin,
            "scheduled": scheduled,
            "departed": departed,
            "delay_min": delay,
        }

    flights = [
        flight(1, 14),
        flight(2, 15),
        flight(3, None),
        flight(4, -3, "JFK"),
        flight(5, 0, hour=13),
        flight(6, None, "LGA"),
    ]
    again = [flight(1, 14), flight(1, 20), flight(6, None, "LGA")]
    bronze = transforms.bronze(records_of(spark, ((value, NOON) for value in flights + again)))
    gold = transforms.gold(transforms.distinct(transforms.watermarked(transforms.silver(bronze))))
    rows = gold.selectExpr("*", "hour(start) as hour").orderBy("origin", "start").collect()
    hourly = [
        (row.hour, row.origin, row.flights, row.cancelled, row.delayed, row.delay_avg_min, row.delay_max_min)
        for row in rows
    ]
    assert hourly == [
        (12, "EWR", 3, 1, 1, 14.5, 15),
        (13, "EWR", 1, 0, 0, 0.0, 0),
        (12, "JFK", 1, 0, 0, -3.0, -3),
        (12, "LGA", 1, 1, 0, None, None),
    ]
    assert gold.columns == [
        "start",
        "end",
        "origin",
        "flights",
        "cancelled",
        "delayed",
        "delay_avg_min",
        "delay_max_min",
    ]


class Flown(NamedTuple):
    """Days of flights as files of records, in order of their reports.

    `last` is the time of the first record in the last file.
    """

    folder: Path
    counts: dict[EventKind, int]
    last: datetime


@pytest.fixture(scope="module")
def flown(tmp_path_factory: pytest.TempPathFactory) -> Flown:
    folder = tmp_path_factory.mktemp("flown")
    told = list(events(itertools.islice(Flights(), 1600), seed=3, late_share=0.02, broken_share=0.02))
    times = [datetime.fromtimestamp(event.send_ms / 1000, UTC) for event in told]
    columns = {
        "key": pa.array([event.key for event in told]),
        "value": pa.array([event.value for event in told]),
        "topic": pa.array(["flights"] * len(told)),
        "partition": pa.array([0] * len(told), pa.int32()),
        "offset": pa.array(range(len(told)), pa.int64()),
        "timestamp": pa.array(times, pa.timestamp("us", "UTC")),
        "timestampType": pa.array([0] * len(told), pa.int32()),
    }
    firsts = range(0, len(told), 800)
    for number, first in enumerate(firsts):
        file = folder / f"{number}.parquet"
        pq.write_table(pa.table(columns).slice(first, 800), file)
        os.utime(file, (number, number))  # a stream reads the oldest file first
    return Flown(folder, {kind: sum(event.kind is kind for event in told) for kind in EventKind}, times[firsts[-1]])


def test_quarantine_has_only_late_and_invalid_records(spark: SparkSession, flown: Flown) -> None:
    checked = transforms.checked(transforms.bronze(spark.read.parquet(str(flown.folder))))
    late = F.coalesce(F.startswith("reason", F.lit("late:")), F.lit(False)).alias("late")
    rows = checked.groupBy(late, F.isnull("reason").alias("fine")).count()
    kinds = {(True, False): EventKind.LATE, (False, False): EventKind.MALFORMED, (False, True): EventKind.VALID}
    assert {kinds[row.late, row.fine]: row["count"] for row in rows.collect()} == flown.counts


def test_stream_and_batch_give_equal_results(
    spark: SparkSession, flown: Flown, tmp_path: Path, checkpoint: str
) -> None:
    def made(records: DataFrame) -> DataFrame:
        return transforms.gold(
            transforms.distinct(transforms.watermarked(transforms.silver(transforms.bronze(records))))
        )

    folder, gold = str(flown.folder), str(tmp_path / "gold")
    stream = made(spark.readStream.schema(RECORDS).option("maxFilesPerTrigger", 1).parquet(folder))
    query = stream.writeStream.format("parquet").option("path", gold).option("checkpointLocation", checkpoint)
    query.trigger(availableNow=True).start().awaitTermination()
    hours = "*", "unix_timestamp(start) as began"
    streamed = {(row.began, row.origin): row for row in spark.read.parquet(gold).selectExpr(*hours).collect()}
    whole = {(row.began, row.origin): row for row in made(spark.read.parquet(folder)).selectExpr(*hours).collect()}
    assert streamed.items() <= whole.items()
    assert len(streamed) > 25
    done = flown.last - timedelta(hours=4)
    assert all(
        began > done.timestamp() for began, _ in whole.keys() - streamed.keys()
    )  # the remaining hours are not complete yet
