"""Ingest from topics to tables, with repeated and killed runs."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from kafka import KafkaAdminClient, KafkaProducer
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import kqueue
from kqueue.cli.app import kqueue as command
from kqueue.demo.events import Event, EventKind, events, replay
from kqueue.demo.flights import Flights
from kqueue.spark.batches import whole_files
from kqueue.spark.errors import OptionError
from kqueue.spark.event_schema import EventSchema, Field, parse
from kqueue.spark.jobs.ingest import BEHIND, ingest
from kqueue.spark.jobs.sql_validation import check
from kqueue.spark.stores.local import LocalStore
from kqueue.spark.tables.delta import DeltaLog
from kqueue.spark.tables.table import Table

NewTopic = Callable[..., str]


class Killed(Exception):
    """Raised by the progress callback in place of a kill."""


def send(broker: kqueue.Broker, topic: str, told: list[Event]) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all", linger_ms=5)
    replay(producer, topic, told)
    producer.close()


def source(broker: kqueue.Broker, topic: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic}


def killed_at(stage: str, count: int) -> Callable[[str, int], None]:
    """Return a callback that raises Killed at the n-th report of `stage`.

    Each stage is reported before and after it is written.
    """
    left = itertools.count(count, -1)

    def tell(now: str, rows: int) -> None:
        if now == stage and next(left) == 1:
            raise Killed(stage)

    return tell


class Behind:
    """Notes what is told of unread records; the second batch waits for it."""

    def __init__(self) -> None:
        self.told: list[int] = []
        self._is_next = False
        self._heard = threading.Event()

    def tell(self, stage: str, rows: int) -> None:
        if stage == BEHIND:
            self.told.append(rows)
            self._heard.set()
        elif stage == "quarantine":
            self._is_next = True
        elif self._is_next:
            assert self._heard.wait(240)


def counted(
    told: list[Event], lateness: timedelta = timedelta(hours=2)
) -> tuple[dict[tuple[datetime, str], tuple[int, int]], datetime]:
    """Return the expected gold table, computed in plain Python, and its last complete hour.

    Values are the flights and cancelled flights by hour and airport.
    """
    hours: Counter[tuple[datetime, str]] = Counter()
    cancelled: Counter[tuple[datetime, str]] = Counter()
    last = datetime(1970, 1, 1, tzinfo=UTC)
    for event in told:
        if event.kind is EventKind.VALID:
            row = json.loads(event.value)
            happened = datetime.fromisoformat(row["departed"] or row["scheduled"])
            hour = happened.replace(minute=0, second=0), row["origin"]
            hours[hour] += 1
            cancelled[hour] += row["departed"] is None
            last = max(last, happened)
    until = (last - lateness).replace(minute=0, second=0)
    return {hour: (hours[hour], cancelled[hour]) for hour in hours}, until


def gold_of(rows: list[dict[str, Any]]) -> dict[tuple[datetime, str], tuple[int, int]]:
    gold = {(row["start"], row["origin"]): (row["flights"], row["cancelled"]) for row in rows}
    assert len(gold) == len(rows)  # each hour is in it once
    return gold


def check_tables(read: Callable[[str], list[dict[str, Any]]], told: list[Event]) -> None:
    """Assert that bronze has each record once, and silver or quarantine has each of them."""
    places = {
        name: Counter((row["partition"], row["offset"]) for row in read(name))
        for name in ("bronze", "silver", "quarantine")
    }
    assert len(places["bronze"]) == len(told)
    assert set(places["bronze"].values()) == {1}
    assert places["silver"] + places["quarantine"] == places["bronze"]
    fine = sum(event.kind is EventKind.VALID for event in told)
    assert len(places["silver"]) == fine


def test_parquet_tables_are_complete_after_a_killed_run(
    spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    """A killed run, a complete run and a finishing run, as a plain Parquet reader sees them."""
    topic, folder = new_topic(2, retention_ms=-1), tmp_path / "tables"
    told = list(events(itertools.islice(Flights(), 900), seed=1, late_share=0.02, broken_share=0.02))
    before = spark.conf.get("spark.sql.ansi.enabled"), spark.conf.get("spark.sql.session.timeZone")

    def read(name: str) -> list[dict[str, Any]]:
        return pq.read_table(folder / name).to_pylist()

    send(broker, topic, told[:450])
    with pytest.raises(Killed):
        ingest(spark, source(broker, topic), str(folder), tell=killed_at("quarantine", 1))
    assert not (folder / "quarantine").exists()
    send(broker, topic, told[450:])
    behind = Behind()
    done = ingest(spark, source(broker, topic), str(folder), tell=behind.tell)
    assert behind.told[0] == 450
    assert (done.rows["bronze"], done.rows["silver"] + done.rows["quarantine"], done.reasons.total()) == (
        900,
        900,
        done.rows["quarantine"],
    )
    check_tables(read, told)
    hours, until = counted(told)
    assert done.until == until
    assert gold_of(read("gold")) == {hour: count for hour, count in hours.items() if hour[0] < until}
    assert len(read("gold")) > 30

    command_line = ["pipeline", "ingest", str(folder), "-t", topic, "-b", broker.bootstrap, "--events", "flights"]
    result = CliRunner().invoke(command, [*command_line, "--finish"])
    assert re.findall(r"^(\w+) +(\d+) ", result.stdout, re.MULTILINE)[:3] == [
        ("bronze", "0"),
        ("silver", "0"),
        ("quarantine", "0"),
    ]
    assert result.stdout.endswith(
        f"Gold has the windows that ended by {max(hours)[0] + timedelta(hours=1):%Y-%m-%d %H:%M} UTC.\n"
    )
    assert gold_of(read("gold")) == hours
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.delete_topics([topic])
    admin.close()
    result = CliRunner().invoke(command, command_line)
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
    assert "gone" in result.stderr
    assert str(pd.read_parquet(folder / "silver").dtypes["event_time"]) == "datetime64[us, UTC]"
    assert (spark.conf.get("spark.sql.ansi.enabled"), spark.conf.get("spark.sql.session.timeZone")) == before


ORDERS = parse("""
id = "number"
time = "at"
by = "shop"
[fields]
number = "bigint"
shop = "string"
at = "timestamp_ms"
amount = "int"
parts = "int"
[rules]
"amount: dear" = "amount / parts < 100"
[gold]
amount = "sum(amount)"
parts = "count(distinct parts)"
""")
HOUR_MS = 3_600_000
FUTURE_H = 1_000_000  # an order of a sender with a wrong clock


def order(number: int, hour: float, amount: int, **more: object) -> dict[str, Any]:
    return {"number": number, "shop": "x", "at": int(hour * HOUR_MS), "amount": amount, "parts": number % 2, **more}


def test_delta_tables_gain_columns_and_hold_each_event_once(
    spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, folder = new_topic(1, retention_ms=-1), tmp_path / "tables"
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)

    def tell_of(*orders: dict[str, Any]) -> None:
        for one in orders:
            producer.send(topic, json.dumps(one).encode(), timestamp_ms=min(one["at"], 13 * HOUR_MS))
        producer.flush()

    def read(name: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = DeltaTable(folder / name).to_pyarrow_table().to_pylist()
        return rows

    def gold() -> list[tuple[float, int, int]]:
        return sorted((row["start"].timestamp() / 3600, row["amount"], row["parts"]) for row in read("gold"))

    tell_of(
        order(1, 10.1, 5), order(2, 10.2, 7), order(1, 10.1, 5), order(3, 11.5, 500), order(4, 11.6, 1)
    )  # some have 0 parts
    tell_of(order(5, FUTURE_H, 9), order(6, 13, 2))
    with pytest.raises(Killed):
        ingest(spark, source(broker, topic), str(folder), schema=ORDERS, format="delta", tell=killed_at("gold", 2))
    assert gold() == [(10, 12, 2)]  # the completed hour, each order once; the future order does not end other hours
    assert [row["reason"] for row in read("quarantine")] == ["amount: dear"]
    assert sorted(row["number"] for row in read("silver")) == [1, 1, 2, 4, 5, 6]

    tell_of(
        order(7, 13.5, 3, gate="A1"), order(8, 15.2, 4), order(2, 11.9, 7)
    )  # order 2 has an event in an hour that gold already has
    wider = dataclasses.replace(ORDERS, fields=(*ORDERS.fields, Field("gate", "string", True)))
    done = ingest(spark, source(broker, topic), str(folder), schema=wider, format="delta", finish=True)
    assert (done.rows, done.until) == (
        {"bronze": 3, "silver": 3, "quarantine": 0, "gold": 3},
        datetime(1970, 1, 1, 16, tzinfo=UTC),
    )
    assert gold() == [(10, 12, 2), (11, 1, 1), (13, 5, 2), (15, 4, 1)]
    assert {row["number"]: row["gate"] for row in read("silver") if row["gate"]} == {7: "A1"}
    assert len(read("bronze")) == 10
    assert DeltaTable(folder / "bronze").metadata().partition_columns == ["date"]


def test_batch_is_in_table_once_after_kill(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.sql("select id, if(id = 1, null, date'2013-01-01') as date from range(3)").coalesce(1)
    none = rows.where("id < 0")
    store, folder = LocalStore(tmp_path), tmp_path / "table"

    def log() -> DeltaLog:
        return DeltaLog(store, "table", rows.schema.json(), ["date"], "me")

    plain = Table(store, "table", none, None)
    assert plain.write(none, 0) == 0
    assert pd.read_parquet(folder).columns.tolist() == ["id", "batch", "date"]  # the table is empty and readable
    assert (plain.write(rows, 1), plain.write(rows.unionAll(rows), 1)) == (3, 3)  # the second table is never created
    assert [plain.has(batch) for batch in range(3)] == [True, True, False]
    assert sorted(pd.read_parquet(folder)["id"]) == [0, 1, 2]
    assert plain.read_batch(spark, 1).columns == ["id", "date"]

    # as the first release left it: without manifests, and killed before the commit to Delta's log
    shutil.rmtree(tmp_path / "checkpoints")
    old = Table(store, "table", none, None)
    assert ([old.has(batch) for batch in range(3)], old.write(none, 1)) == ([True, True, False], 3)
    assert old.read_batch(spark, 1).count() == 3
    logged = Table(store, "table", none, log())
    assert not logged.has(1)
    assert logged.read(spark).isEmpty()
    assert (logged.write(none, 0), logged.write(rows, 1), logged.write(rows, 1)) == (0, 3, 3)
    assert sorted((row["id"], str(row["date"])) for row in DeltaTable(folder).to_pyarrow_table().to_pylist()) == [
        (0, "2013-01-01"), (1, "1970-01-01"), (2, "2013-01-01"),
    ]  # fmt: skip
    assert sorted(row.id for row in logged.read(spark).collect()) == [0, 1, 2]
    assert store.names("checkpoints/table/.staging") == []
    assert len(whole_files(str(tmp_path), "table")) == len(logged.read(spark).inputFiles())


SQL = {
    ("rules", "amount >"): "rules: 'words': Syntax error at or near end of input",
    (
        "rules",
        "amuont > 0",
    ): "rules: 'words': A column, variable, or function parameter with name `amuont` cannot be resolved",
    ("rules", "amount + 1"): "rules: 'words': ",
    ("rules", "amount > 0) or (true"): "rules: 'words': Syntax error",
    ("rules", "sum(amount) > 1"): "rules: 'words': ",
    ("rules", "amount > rand()"): "rules: 'words': it hangs on chance or on the time of the day",
    ("rules", "event_time < now()"): "rules: 'words': it hangs on chance or on the time of the day",
    ("gold", "amount"): "gold: 'words': ",
    (
        "gold",
        "sum(amuont)",
    ): "gold: 'words': A column, variable, or function parameter with name `amuont` cannot be resolved",
    ("gold", "sum(amount"): "gold: 'words': Syntax error",
}


def test_invalid_sql_is_reported_before_any_write(spark: SparkSession) -> None:
    for (key, sql), words in SQL.items():
        schema: EventSchema = dataclasses.replace(ORDERS, **{key: {"words": sql}})  # type: ignore[arg-type]
        with pytest.raises(OptionError, match=f"^{words}") as caught:
            check(spark, schema)
        assert "\n" not in str(caught.value)
        assert "==" not in str(caught.value)


@pytest.mark.parametrize("job", [["ingest", "--events", "flights"], ["archive"]])
def test_a_folder_in_use_is_not_passed_over(spark: SparkSession, tmp_path: Path, job: list[str]) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    with kqueue.Broker(data) as broker:
        broker.create_topic("orders", segment_bytes=1024)
        broker.topics["orders"].produce("{}")
        with pytest.raises(PySparkException, match="nothing can be read: .* is in use.*: 1 offset in the last"):
            spark.read.format("kqueue").option("path", str(data)).option("subscribe", "orders").load().collect()
        arguments = ["pipeline", *job, str(out), "-t", "orders", "--path", str(data)]
        result = CliRunner().invoke(command, arguments)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith("Error: nothing can be read: ")
        assert not out.exists()
        for _ in range(2):
            broker.topics["orders"].produce("{}" + " " * 1000)
        result = CliRunner().invoke(command, arguments)
        assert result.exit_code == 0, result.output
        assert "is in use, or was not stopped cleanly: 1 offset in the last segments" in result.stderr
