"""Delta's log of files that others have written."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kqueue.base.errors import ExtraNeeded
from kqueue.spark.errors import PipelineFailed
from kqueue.spark.stores.local import LocalStore
from kqueue.spark.tables.delta import DeltaLog, check_installed

deltalake = pytest.importorskip("deltalake")
NOON = dt.datetime(2013, 1, 1, 12, tzinfo=dt.UTC)


def schema(**columns: str) -> str:
    fields = [{"name": name, "type": kind, "nullable": False, "metadata": {}} for name, kind in columns.items()]
    return json.dumps({"type": "struct", "fields": fields})


PLAIN = schema(id="long", at="timestamp", name="string", date="date")


def log_of(folder: Path, columns: str = PLAIN, writer: str = "me") -> DeltaLog:
    return DeltaLog(LocalStore(folder.parent), folder.name, columns, ["date"], writer)


def file(folder: Path, name: str, *rows: tuple[Any, Any, Any]) -> str:
    path = folder / name
    path.parent.mkdir(parents=True)
    kinds = [("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("name", pa.string())]
    columns = [pa.array([row[index] for row in rows], kind) for index, (_, kind) in enumerate(kinds)]
    pq.write_table(pa.table(columns, names=[name for name, _ in kinds]), path)
    return name


def rows(folder: Path) -> list[dict[str, Any]]:
    return sorted(deltalake.DeltaTable(folder).to_pyarrow_table().to_pylist(), key=lambda row: row["id"])


def test_each_batch_is_there_once(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    assert not log.has(0)
    log.commit(0, [file(tmp_path, "batch=0/date=2013-01-01/a.parquet", (1, NOON, "x"), (2, None, None))])
    assert log.has(0)
    assert not log.has(1)
    log.commit(1, [])
    log.commit(2, [file(tmp_path, "batch=2/date=__HIVE_DEFAULT_PARTITION__/a.parquet", (3, NOON, "y"))])
    again = log_of(tmp_path)  # another run
    assert again.has(2)
    assert not log_of(tmp_path, writer="other").has(0)
    assert [(row["id"], row["at"], row["name"], row["date"]) for row in rows(tmp_path)] == [
        (1, NOON, "x", dt.date(2013, 1, 1)), (2, None, None, dt.date(2013, 1, 1)), (3, NOON, "y", None),
    ]  # fmt: skip
    assert sorted(Path(name).parts[0] for name in again.files()) == ["batch=0", "batch=2"]
    assert deltalake.DeltaTable(tmp_path).metadata().partition_columns == ["date"]


def test_log_entries_have_statistics_of_numbers_and_times(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    added = [(1, NOON, "x"), (5, NOON + dt.timedelta(microseconds=1), None)]
    another = file(tmp_path, "batch=0/date=2013-01-02/a.parquet", (9, None, "z"))
    log.commit(0, [file(tmp_path, "batch=0/date=2013-01-01/a.parquet", *added), another])
    entry = (tmp_path / "_delta_log" / "00000000000000000001.json").read_text().splitlines()
    adds = [json.loads(line)["add"] for line in entry if '"add"' in line]
    first, second = (json.loads(add["stats"]) for add in adds)
    assert first == {
        "numRecords": 2,
        "minValues": {"id": 1, "at": "2013-01-01T12:00:00.000000Z"},
        "maxValues": {"id": 5, "at": "2013-01-01T12:00:00.000001Z"},
        "nullCount": {"id": 0, "at": 0, "name": 1},
    }
    assert second == {
        "numRecords": 1,
        "minValues": {"id": 9},
        "maxValues": {"id": 9},
        "nullCount": {"id": 0, "at": 1, "name": 0},
    }
    table = deltalake.DeltaTable(tmp_path)
    assert table.to_pyarrow_dataset().count_rows(filter=pa.compute.field("id") > 5) == 1


def test_added_column_is_null_in_earlier_rows(tmp_path: Path) -> None:
    log_of(tmp_path).commit(0, [file(tmp_path, "batch=0/date=2013-01-01/a.parquet", (1, NOON, "x"))])
    wider = schema(id="long", at="timestamp", name="string", date="date", gate="string")
    log_of(tmp_path, wider).commit(1, [file(tmp_path, "batch=1/date=2013-01-01/a.parquet", (2, NOON, "x"))])
    assert [(row["id"], row["gate"]) for row in rows(tmp_path)] == [(1, None), (2, None)]
    assert all(field.nullable for field in deltalake.DeltaTable(tmp_path).schema().fields)


def test_two_writers_of_one_batch_are_one(tmp_path: Path) -> None:
    first, second = log_of(tmp_path), log_of(tmp_path)
    added = file(tmp_path, "batch=0/date=2013-01-01/a.parquet", (1, NOON, "x"))
    first.commit(0, [added])
    second.commit(0, [added])
    assert len(rows(tmp_path)) == 1


def test_one_of_two_racing_commits_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, added = log_of(tmp_path), file(tmp_path, "batch=0/date=2013-01-01/a.parquet", (1, NOON, "x"))

    def late(self: DeltaLog, batch: int) -> bool:
        monkeypatch.undo()
        log_of(tmp_path).commit(0, [added])  # after this one has looked
        return False

    monkeypatch.setattr(DeltaLog, "has", late)
    with pytest.raises(PipelineFailed, match="Delta's log does not take batch 0"):
        log.commit(0, [added])
    assert len(rows(tmp_path)) == 1


def test_committed_batch_is_recognized_after_files_were_compacted(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    for batch in range(2):
        log.commit(batch, [file(tmp_path, f"batch={batch}/date=2013-01-01/a.parquet", (batch, NOON, "x"))])
    deltalake.DeltaTable(tmp_path).optimize.compact()
    (merged,) = log.files()
    assert "batch=" not in merged
    assert log.has(1)


def test_missing_package_is_reported_with_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    check_installed()
    monkeypatch.setitem(__import__("sys").modules, "deltalake", None)
    with pytest.raises(ExtraNeeded, match=r"pip install '\.\[delta\]'"):
        check_installed()
