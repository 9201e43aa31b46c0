"""Delta Lake's log for files that Spark has written, kept with the package `deltalake`.

Each batch is one commit with its files and an application transaction (the writer's id and the
batch number). The transaction tells whether a batch is already committed.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from kqueue.base.clock import wall_ms
from kqueue.base.errors import ExtraNeeded
from kqueue.base.extras import install_hint
from kqueue.spark.errors import PipelineFailed
from kqueue.spark.stores.store import NULL_VALUE, Store

NEEDED = f"Delta tables need the package deltalake ({{}}): {install_hint('delta')}"


def check_installed() -> None:
    """Raise ExtraNeeded if deltalake is missing."""
    try:
        importlib.import_module("deltalake")
    except ImportError as error:
        raise ExtraNeeded(NEEDED.format(error)) from None


class DeltaLog:
    """The Delta log of one table; created if it does not exist.

    Args:
        name: of the table's folder in the store.
        schema: in Spark's JSON, which Delta uses too; missing columns are added to the table.
        by: the partition columns.
        writer: our application id in the log.
    """

    def __init__(self, store: Store, name: str, schema: str, by: Sequence[str], writer: str) -> None:
        import deltalake

        self._store = store
        self._name = name
        self.by: Sequence[str] = list(by)
        self._writer = writer
        self._schema = deltalake.Schema.from_json(_all_nullable(schema))
        url, options = store.of(name), dict(store.settings)
        if not deltalake.DeltaTable.is_deltatable(url, options):
            if store.renames:
                Path(url).mkdir(parents=True, exist_ok=True)
            deltalake.DeltaTable.create(url, self._schema, partition_by=self.by, storage_options=options)
        self._table = deltalake.DeltaTable(url, storage_options=options)
        self._add_columns()

    def has(self, batch: int) -> bool:
        """Return whether this writer has committed the batch."""
        self._table.update_incremental()
        last = self._table.transaction_version(self._writer)
        return last is not None and last >= batch

    def commit(self, batch: int, files: Sequence[str]) -> None:
        """Add files, below the table's folder, to the table as one batch, unless it is committed.

        Raises: PipelineFailed: Delta refuses the commit.
        """
        from deltalake.exceptions import DeltaError
        from deltalake.transaction import CommitProperties, Transaction

        if self.has(batch):
            return
        done = CommitProperties(app_transactions=[Transaction(self._writer, batch)])
        added = [self._added(file) for file in files]
        try:
            self._table.create_write_transaction(added, "append", self._schema, self.by, commit_properties=done)
        except DeltaError as error:
            raise PipelineFailed(
                f"{self._store.of(self._name)}: Delta's log does not take batch {batch}: {error}"
            ) from None

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def files(self) -> list[str]:
        """Return the table's current files, below its folder."""
        self._table.update_incremental()
        return [str(path) for path in pa.table(self._table.get_add_actions())["path"].to_pylist()]

    def _add_columns(self) -> None:
        there = {field.name for field in self._table.schema().fields}
        new = [field for field in self._schema.fields if field.name not in there]
        if new:
            self._table.alter.add_columns(new)

    def _added(self, file: str) -> Any:
        from deltalake.transaction import AddAction

        values = dict(part.split("=", 1) for part in file.split("/")[:-1])
        partition = {name: None if values[name] == NULL_VALUE else values[name] for name in self.by}
        with self._store.open(f"{self._name}/{file}") as opened:
            size = opened.size() if callable(opened.size) else opened.size
            stats = json.dumps(_stats(opened))
        return AddAction(quote(file, safe="/="), size, partition, wall_ms(), True, stats)


def _all_nullable(schema: str) -> str:
    """Return the schema with all fields nullable: later events may lack earlier fields."""
    table = json.loads(schema)
    for field in table["fields"]:
        field["nullable"] = True
        field["metadata"] = {}
    return json.dumps(table)


def _stats(file: Any) -> dict[str, Any]:
    """Return row count, minima, maxima and null counts; readers skip files by them."""
    footer = pq.read_metadata(file)
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for column in range(footer.num_columns):
        statistics = [footer.row_group(group).column(column).statistics for group in range(footer.num_row_groups)]
        name = footer.schema.column(column).path
        if statistics and all(one is not None and one.has_null_count for one in statistics):
            nulls[name] = sum(one.null_count for one in statistics)
        valued = [one for one in statistics if one is None or one.num_values]
        if valued and all(one is not None and one.has_min_max and _is_told(one.min) for one in valued):
            least[name] = _told(min(one.min for one in valued))
            most[name] = _told(max(one.max for one in valued))
    return {"numRecords": footer.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}


def _is_told(value: object) -> bool:
    return isinstance(value, int | datetime | date) and not isinstance(value, bool)


def _told(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return value.isoformat() if isinstance(value, date) else value
