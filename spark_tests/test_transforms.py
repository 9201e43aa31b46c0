"""The transformations of the jobs, on small DataFrames."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kqueue.cli.demo.events import Kind, events
from kqueue.cli.demo.flights import Flights
from kqueue.spark import transforms

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
EVENT = {
    "id": 1, "flight": "UA1", "origin": "EWR", "dest": "IAH", "scheduled": "2013-01-01T12:00:00Z",
    "departed": "2013-01-01T12:10:00Z", "delay_min": 10,
}  # fmt: skip
RECORDS = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
Value = bytes | dict[str, Any] | None
Records = Callable[..., DataFrame]


@pytest.fixture(scope="module")
def records(spark: SparkSession) -> Records:
    """``records(*values, told=NOON)``: as the source gives them; a dict is written as JSON."""

    def make(*values: Value, told: datetime = NOON + timedelta(minutes=10)) -> DataFrame:
        rows = [
            (b"EWR", json.dumps(value).encode() if isinstance(value, dict) else value, "flights", 0, offset, told, 0)
            for offset, value in enumerate(values)
        ]
        return spark.createDataFrame(rows, RECORDS)

    return make


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in EVENT.items() if key != name}


def test_bronze_is_what_came_and_where_it_stood(records: Records) -> None:
    (row,) = transforms.bronze(records(b"\xff", told=datetime(2013, 1, 1, 23, 59, tzinfo=UTC))).collect()
    assert list(row.asDict()) == ["topic", "partition", "offset", "timestamp", "key", "value", "date"]
    assert (row.topic, row.partition, row.offset, bytes(row.key), bytes(row.value)) == ("flights", 0, 0, b"EWR", b"\xff")
    assert row.date == date(2013, 1, 1)


def test_the_day_is_that_of_utc_wherever_the_session_is(spark: SparkSession, records: Records) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        (row,) = transforms.bronze(records(EVENT, told=datetime(2013, 1, 2, 1, tzinfo=UTC))).select("date").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert row.date == date(2013, 1, 2)


def test_silver_is_typed(records: Records) -> None:
    cancelled = {**EVENT, "id": 2, "departed": None, "delay_min": None}
    silver = transforms.silver(transforms.bronze(records(EVENT, cancelled)))
    assert dict(silver.dtypes) == {
        "topic": "string", "partition": "int", "offset": "bigint", "id": "bigint", "flight": "string", "origin": "string", "dest": "string",
        "scheduled": "timestamp", "departed": "timestamp", "delay_min": "int", "event_time": "timestamp", "date": "date",
    }  # fmt: skip
    first, second = silver.selectExpr("*", "unix_timestamp(event_time) as s").orderBy("offset").collect()
    assert (first.id, first.flight, first.origin, first.delay_min, first.s) == (1, "UA1", "EWR", 10, NOON.timestamp() + 600)
    assert (second.departed, second.delay_min, second.s) == (None, None, NOON.timestamp())


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
    *((without(name), f"{name}: missing") for name in EVENT),
    ({**EVENT, "id": None}, "id: not a whole number"),
    ({**EVENT, "id": "1"}, "id: not a whole number"),
    ({**EVENT, "id": 1.5}, "id: not a whole number"),
    ({**EVENT, "id": 10**30}, "id: not a whole number"),
    ({**EVENT, "delay_min": 10**12}, "delay_min: not a whole number"),
    ({**EVENT, "delay_min": "ten"}, "delay_min: not a whole number"),
    ({**EVENT, "flight": 7}, "flight: not a text"),
    ({**EVENT, "dest": {"airport": "IAH"}}, "dest: not a text"),
    ({**EVENT, "scheduled": "yesterday"}, "scheduled: not a time"),
    ({**EVENT, "scheduled": "2013-02-30T12:00:00Z"}, "scheduled: not a time"),
    ({**EVENT, "departed": True}, "departed: not a time"),
    ({**EVENT, "origin": "Newark"}, "origin: none of EWR, JFK, LGA"),
    ({**EVENT, "departed": None}, "departed and delay_min: one without the other"),
    ({**EVENT, "delay_min": None}, "departed and delay_min: one without the other"),
    ({**EVENT, "delay_min": 100_000}, "delay_min: not from -120 to 2880"),
]


def test_each_broken_record_is_in_quarantine_with_its_reason(records: Records) -> None:
    bronze = transforms.bronze(records(*(value for value, _ in BROKEN), EVENT))
    rows = transforms.quarantine(bronze).orderBy("offset").collect()
    assert [row.reason for row in rows] == [reason for _, reason in BROKEN]
    assert bytes(rows[4].value) == b"\xff\xfe{}"
    assert [row.offset for row in transforms.silver(bronze).collect()] == [len(BROKEN)]


def test_late_ones_are_in_quarantine(records: Records) -> None:
    told = NOON + timedelta(hours=2, minutes=10)
    bronze = transforms.bronze(records(EVENT, told=told).union(records({**EVENT, "id": 2}, told=told + timedelta(seconds=1))))
    assert [row.id for row in transforms.silver(bronze).collect()] == [1]
    assert [row.reason for row in transforms.quarantine(bronze).collect()] == ["late: told more than 2 hours after the event"]
    assert transforms.silver(bronze, lateness="3 hours").count() == 2


def test_distinct_keeps_one_of_each(records: Records) -> None:
    silver = transforms.silver(transforms.bronze(records(EVENT, EVENT, {**EVENT, "id": 2})))
    assert sorted(row.id for row in transforms.distinct(transforms.watermarked(silver)).collect()) == [1, 2]


def test_gold_counts_per_airport_and_hour(records: Records) -> None:
    def flight(number: int, delay: int | None, origin: str = "EWR", hour: int = 12) -> dict[str, Any]:
        scheduled = f"2013-01-01T{hour}:00:00Z"
        departed = None if delay is None else scheduled
        return {**EVENT, "id": number, "origin": origin, "scheduled": scheduled, "departed": departed, "delay_min": delay}

    values = [flight(1, 14), flight(2, 15), flight(3, None), flight(4, -3, "JFK"), flight(5, 0, hour=13), flight(6, None, "LGA")]
    gold = transforms.gold(transforms.watermarked(transforms.silver(transforms.bronze(records(*values)))))
    rows = gold.selectExpr("*", "hour(start) as hour").orderBy("origin", "start").collect()
    found = [(row.hour, row.origin, row.flights, row.cancelled, row.delayed, row.delay_avg_min, row.delay_max_min) for row in rows]
    assert found == [
        (12, "EWR", 3, 1, 1, 14.5, 15), (13, "EWR", 1, 0, 0, 0.0, 0), (12, "JFK", 1, 0, 0, -3.0, -3), (12, "LGA", 1, 1, 0, None, None),
    ]  # fmt: skip
    assert gold.columns == ["start", "end", "origin", "flights", "cancelled", "delayed", "delay_avg_min", "delay_max_min"]


class Flown(NamedTuple):
    """Two days of flights as files of records, in the order in which they were told; `last` is the time of the first in the last file."""

    folder: Path
    counts: dict[Kind, int]
    last: datetime


@pytest.fixture(scope="module")
def flown(tmp_path_factory: pytest.TempPathFactory) -> Flown:
    folder = tmp_path_factory.mktemp("flown")
    told = list(events(itertools.islice(Flights(), 1600), seed=3, late_share=0.02, broken_share=0.02))
    times = [datetime.fromtimestamp(event.told_ms / 1000, UTC) for event in told]
    columns = {
        "key": pa.array([event.key for event in told]),
        "value": pa.array([event.value for event in told]),
        "topic": pa.array(["flights"] * len(told)),
        "partition": pa.array([0] * len(told), pa.int32()),
        "offset": pa.array(range(len(told)), pa.int64()),
        "timestamp": pa.array(times, pa.timestamp("us", "UTC")),
        "timestampType": pa.array([0] * len(told), pa.int32()),
    }
    firsts = range(0, len(told), 400)
    for number, first in enumerate(firsts):
        file = folder / f"{number}.parquet"
        pq.write_table(pa.table(columns).slice(first, 400), file)
        os.utime(file, (number, number))  # a stream takes the oldest first
    return Flown(folder, {kind: sum(event.kind is kind for event in told) for kind in Kind}, times[firsts[-1]])


def test_quarantine_has_the_late_and_broken_ones_and_nothing_else(spark: SparkSession, flown: Flown) -> None:
    checked = transforms.checked(transforms.bronze(spark.read.parquet(str(flown.folder))))
    late = F.coalesce(F.startswith("reason", F.lit("late:")), F.lit(False)).alias("late")
    rows = checked.groupBy(late, F.isnull("reason").alias("fine")).count()
    kinds = {(True, False): Kind.LATE, (False, False): Kind.BROKEN, (False, True): Kind.FINE}
    assert {kinds[row.late, row.fine]: row["count"] for row in rows.collect()} == flown.counts


def test_a_stream_gives_what_a_batch_gives(spark: SparkSession, flown: Flown, tmp_path: Path, checkpoint: str) -> None:
    def made(records: DataFrame) -> DataFrame:
        return transforms.gold(transforms.distinct(transforms.watermarked(transforms.silver(transforms.bronze(records)))))

    folder, gold = str(flown.folder), str(tmp_path / "gold")
    stream = made(spark.readStream.schema(RECORDS).option("maxFilesPerTrigger", 1).parquet(folder))
    query = stream.writeStream.format("parquet").option("path", gold).option("checkpointLocation", checkpoint)
    query.trigger(availableNow=True).start().awaitTermination()
    hours = "*", "unix_timestamp(start) as began"
    streamed = {(row.began, row.origin): row for row in spark.read.parquet(gold).selectExpr(*hours).collect()}
    whole = {(row.began, row.origin): row for row in made(spark.read.parquet(folder)).selectExpr(*hours).collect()}
    assert streamed.items() <= whole.items()
    assert len(streamed) > 50
    done = flown.last - timedelta(hours=4)
    assert all(began > done.timestamp() for began, _ in whole.keys() - streamed.keys())  # the others are not done yet
