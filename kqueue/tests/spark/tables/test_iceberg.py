"""Iceberg tables of files that others have written."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kqueue.base.errors import ExtraNeeded
from kqueue.spark.errors import PipelineFailed
from kqueue.spark.stores.local import LocalStore
from kqueue.spark.tables.iceberg import IcebergLog, check_installed

SCHEMA = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("date", pa.date32())])
Opened = Callable[..., IcebergLog]


@pytest.fixture(scope="module", autouse=True)
def _pyiceberg() -> None:
    """Import it here, not where tests are collected: each process of them would take as long."""
    pytest.importorskip("pyiceberg.catalog.sql")


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Return a function that opens the table, as another run would."""
    logs = []

    def open_log(schema: pa.Schema = SCHEMA, writer: str = "me", root: Path = tmp_path) -> IcebergLog:
        log = IcebergLog(LocalStore(root), "silver", schema, tmp_path / "catalog.db", writer)
        logs.append(log)
        return log

    yield open_log
    for log in logs:
        log.close()


def file(folder: Path, batch: int, *ids: int, schema: pa.Schema = SCHEMA) -> str:
    name = f"batch={batch}/part-1.parquet"
    path = folder / "silver" / name
    path.parent.mkdir(parents=True)
    rows = [{"id": id, "at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "date": dt.date(2026, 1, 1)} for id in ids]
    pq.write_table(pa.Table.from_pylist(rows, schema), path)
    return name


def ids(log: IcebergLog) -> list[int]:
    table = log._catalog.load_table("kqueue.silver")
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def test_each_batch_is_there_once(tmp_path: Path, opened: Opened) -> None:
    log = opened()
    assert (log.has(0), log.files()) == (False, [])
    first, second = file(tmp_path, 0, 1, 2), file(tmp_path, 2, 3)
    log.commit(0, [first])
    log.commit(0, [first])
    log.commit(1, [])
    opened().commit(2, [second])
    assert [opened().has(batch) for batch in (0, 2, 3)] == [True, True, False]
    assert not opened(writer="other").has(0)
    assert log.files() == [first, second]
    assert ids(log) == [1, 2, 3]


def test_empty_file_adds_no_rows(tmp_path: Path, opened: Opened) -> None:
    log = opened()
    log.commit(0, [file(tmp_path, 0)])
    assert ids(log) == []


def test_added_column_is_null_in_earlier_rows(tmp_path: Path, opened: Opened) -> None:
    opened().commit(0, [file(tmp_path, 0, 1)])
    wider = SCHEMA.append(pa.field("gate", pa.string()))
    log = opened(wider)
    log.commit(1, [file(tmp_path, 1, 2, schema=wider)])
    assert ids(log) == [1, 2]
    assert log._table.schema().find_field("gate").optional


def test_two_writers_of_one_batch_are_one(tmp_path: Path, opened: Opened) -> None:
    first, second = opened(), opened()
    added = file(tmp_path, 0, 1)
    assert not second.has(0)
    first.commit(0, [added])
    second.commit(0, [added])
    assert ids(first) == [1]


def test_one_of_two_racing_commits_is_refused(tmp_path: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    log, added = opened(), file(tmp_path, 0, 1)

    def late(self: IcebergLog, batch: int) -> bool:
        monkeypatch.undo()
        opened().commit(0, [added])  # after this one has looked
        return False

    monkeypatch.setattr(IcebergLog, "has", late)
    with pytest.raises(PipelineFailed, match="Iceberg's catalog does not take batch 0"):
        log.commit(0, [added])
    assert ids(log) == [1]


def test_catalog_with_other_tables_is_refused(tmp_path: Path, opened: Opened) -> None:
    opened()
    with pytest.raises(PipelineFailed, match=r"has a table kqueue\.silver of .*: take another catalog"):
        opened(root=tmp_path / "others")


def test_missing_package_is_reported_with_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    check_installed()
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog.sql", None)
    with pytest.raises(ExtraNeeded, match=r"pip install '\.\[iceberg\]'"):
        check_installed()
