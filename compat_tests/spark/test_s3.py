"""Archives and tables in an object store, which Spark itself has no file system for."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

import kqueue
from compat_tests.spark.test_jobs_ingest import Killed, check_tables, counted, gold_of, killed_at, send, source
from kqueue.cli.app import kqueue as command
from kqueue.demo.events import events
from kqueue.demo.flights import Flights
from kqueue.spark.batches import whole_files
from kqueue.spark.jobs.ingest import ingest
from kqueue.spark.stores import Location, open_store
from kqueue.tests.spark.stores.s3_server import KEYS, s3_place

NewTopic = Callable[..., str]


def rows_of(place: Location, table: str | None = None) -> list[dict[str, Any]]:
    """Return the rows of all whole batches, with the columns of their folders."""
    store, rows = open_store(place, None), []
    for url in whole_files(place, table):
        with store.open(url.removeprefix(f"{store.url}/")) as file:
            rows += pq.ParquetFile(file).read().to_pylist()
    return rows


def iceberg_rows(catalog: Path, name: str, s3: dict[str, str]) -> list[dict[str, Any]]:
    """Return the rows of a table, as a user of the catalog finds them."""
    settings = {
        "s3.endpoint": s3["AWS_ENDPOINT_URL"],
        "s3.access-key-id": s3["AWS_ACCESS_KEY_ID"],
        "s3.secret-access-key": s3["AWS_SECRET_ACCESS_KEY"],
        "s3.region": s3["AWS_REGION"],
    }
    opened = SqlCatalog("kqueue", uri=f"sqlite:///{catalog}", **settings)
    try:
        rows: list[dict[str, Any]] = opened.load_table(f"kqueue.{name}").scan().to_arrow().to_pylist()
        return rows
    finally:
        opened.close()


def test_replayed_archive_equals_its_topic(
    spark: SparkSession,
    broker: kqueue.Broker,
    s3: dict[str, str],
    new_topic: NewTopic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in KEYS:
        monkeypatch.setenv(name, KEYS[name])
    topic = new_topic(2)
    there = ["--s3-endpoint", s3["AWS_ENDPOINT_URL"], "-b", broker.bootstrap]
    for run in range(2):
        for number in range(20):
            broker.topics[topic].produce(
                str(number), str(number), partition=number % 2, headers={"run": str(run)}, timestamp=number * 43_200_000
            )
        result = CliRunner().invoke(command, ["pipeline", "archive", "s3://bucket/twice/kept", "-t", topic, *there])
        assert result.exit_code == 0, result.output
    assert result.stdout.endswith("; the archive now has 40.\n")
    again = ["--create", "--delivery", "exactly-once", "-t", f"{topic}-again"]
    result = CliRunner().invoke(command, ["pipeline", "replay", "s3://bucket/twice/kept", *again, *there])
    assert result.exit_code == 0, result.output
    for partition in (0, 1):
        first, second = (
            [(one.offset, one.key, one.value, one.headers, one.timestamp) for one in records.records(partition)]
            for records in (broker.topics[topic], broker.topics[f"{topic}-again"])
        )
        assert first == second
    rows = rows_of(s3_place(s3, "twice/kept"))
    assert len({(row["partition"], row["offset"]) for row in rows}) == len(rows) == 40
    result = CliRunner().invoke(command, ["pipeline", "replay", "s3://bucket-2/kept", *again, *there])
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1), result.output
    assert "s3://bucket-2/kept/batches can't be reached: The specified bucket does not exist" in result.stderr


@pytest.mark.parametrize("format", [pytest.param("parquet", marks=pytest.mark.thorough), "delta", "iceberg"])
def test_ingest_into_object_store_is_complete_after_a_killed_run(
    spark: SparkSession, broker: kqueue.Broker, s3: dict[str, str], new_topic: NewTopic, tmp_path: Path, format: Any
) -> None:
    """A run that is killed, and one that finishes."""
    topic = new_topic(2, retention_ms=-1)
    told = list(events(itertools.islice(Flights(), 600), seed=1, late_share=0.02, broken_share=0.02))
    place = s3_place(s3, f"tables-{format}", checkpoint=str(tmp_path / "progress"))

    def read(name: str) -> list[dict[str, Any]]:
        if format == "parquet":
            return rows_of(place, name)
        if format == "iceberg":
            return iceberg_rows(tmp_path / "progress" / "catalog.db", name, s3)
        table = DeltaTable(f"{place.url}/{name}", storage_options={**s3, "AWS_ALLOW_HTTP": "true"})
        return pa.table(table.to_pyarrow_table()).to_pylist()

    send(broker, topic, told[:300])
    with pytest.raises(Killed):
        ingest(spark, source(broker, topic), place, format=format, tell=killed_at("quarantine", 1))
    assert len(read("silver")) < 300
    send(broker, topic, told[300:])
    done = ingest(spark, source(broker, topic), place, format=format, finish=True)
    assert done.rows["bronze"] == 600
    check_tables(read, told)
    assert gold_of(read("gold")) == counted(told)[0]
    owner = open_store(place, None).read("checkpoints/owner")
    assert owner is not None
    assert json.loads((tmp_path / "progress" / "tables.json").read_text())["writer"] == owner.decode()
