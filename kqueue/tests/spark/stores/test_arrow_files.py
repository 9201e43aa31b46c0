"""Files that tasks write as objects, and read."""

from __future__ import annotations

import datetime as dt
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.spark.stores import arrow_files
from kqueue.spark.stores.arrow_files import read_task, write_task
from kqueue.spark.stores.local import LocalStore

DAYS = [None, dt.date(2026, 1, 30), dt.date(2026, 1, 31)]
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("topic", pa.string()),
        ("date", pa.date32()),
    ]
)


class Objects:
    """Objects in memory."""

    def __init__(self) -> None:
        self.there: dict[str, bytes] = {}

    def get(self, path: str) -> bytes:
        return self.there[path]

    def put(self, path: str, data: bytes) -> None:
        self.there[path] = data


def row(number: int, topic: str = "2026-01-31", date: dt.date | None = None) -> dict[str, Any]:
    at = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
    return {"id": number, "at": at, "headers": [{"key": "k", "value": b"v"}], "topic": topic, "date": date}


def batches(rows: list[dict[str, Any]], size: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(rows), size):
        yield pa.RecordBatch.from_pylist(rows[start : start + size], SCHEMA)


def told(rows_written: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in rows_written for row in batch.to_pylist()]


def read(objects: Objects, names: list[str], schema: pa.Schema = SCHEMA) -> list[dict[str, Any]]:
    return told(read_task(objects, "data", schema)(iter([pa.record_batch({"name": names})])))


@given(
    places=st.lists(st.tuples(st.sampled_from(["a", "2026-01-31"]), st.integers(0, 2)), max_size=30),
    size=st.integers(1, 7),
)
def test_written_files_are_read_in_order(places: list[tuple[str, int]], size: int) -> None:
    rows = [row(number, topic, DAYS[day]) for number, (topic, day) in enumerate(sorted(places))]
    objects = Objects()
    files = told(write_task(objects, "data", ["topic", "date"], "zstd")(batches(rows, size)))
    assert sorted(objects.there) == sorted(f"data/{file['name']}" for file in files)
    assert sum(file["rows"] for file in files) == len(rows)
    assert len(files) == len(set(places))
    assert read(objects, [file["name"] for file in files]) == rows


def test_unpartitioned_rows_are_one_file_and_no_rows_are_none() -> None:
    objects = Objects()
    (file,) = told(write_task(objects, "data", [], "none")(batches([row(1), row(2)], 1)))
    assert file["name"].startswith("part-00000-")
    assert [one["id"] for one in read(objects, [file["name"]])] == [1, 2]
    assert told(write_task(objects, "data", [], "none")(iter(()))) == []


def test_large_tasks_write_several_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_files, "GROUP_BYTES", 1)
    monkeypatch.setattr(arrow_files, "FILE_BYTES", 2500)
    objects, rows = Objects(), [row(number) for number in range(30)]
    files = told(write_task(objects, "data", ["date"], "none")(batches(rows, 2)))
    assert len(files) > 1
    assert pq.ParquetFile(pa.BufferReader(objects.there[f"data/{files[0]['name']}"])).num_row_groups > 1
    assert [one["id"] for one in read(objects, [file["name"] for file in files])] == list(range(30))


def test_columns_that_a_file_lacks_are_null() -> None:
    objects = Objects()
    (file,) = told(write_task(objects, "data", ["topic"], "snappy")(batches([row(1)], 1)))
    wider = SCHEMA.append(pa.field("gate", pa.string()))
    (rows,) = read(objects, [file["name"]], wider)
    assert (rows["gate"], rows["topic"]) == (None, "2026-01-31")


def test_other_readers_find_the_columns_of_folders(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)

    class Disk(Objects):
        def put(self, path: str, data: bytes) -> None:
            store.put_new(path, data)

    told(write_task(Disk(), "data", ["date"], "zstd")(batches([row(1, date=None), row(2, date=DAYS[1])], 2)))
    ds = importlib.import_module("pyarrow.dataset")  # brings pandas, which takes a second
    rows = ds.dataset(tmp_path / "data", partitioning="hive").to_table(columns=["id", "date"]).to_pylist()
    assert sorted((one["id"], str(one["date"])) for one in rows) == [(1, "None"), (2, "2026-01-30")]
