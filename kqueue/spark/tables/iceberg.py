"""Iceberg tables of files that Spark has written, kept with the package `pyiceberg`.

The catalog is an SQLite file. Each batch is one commit that adds its files and sets a property of
the table, the writer's last batch, which tells whether a batch is already committed.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from kqueue.base.errors import ExtraNeeded
from kqueue.base.extras import install_hint
from kqueue.spark.errors import PipelineFailed
from kqueue.spark.stores.store import Store

NEEDED = f"Iceberg tables need the package pyiceberg with SQLite ({{}}): {install_hint('iceberg')}"
NAMESPACE = "kqueue"
"""Of the tables in the catalog, and the catalog's name in it."""
PROPERTIES = {"format-version": "2", "commit.retry.num-retries": "0"}
"""Of a new table. A commit that is tried again would add the files of a batch that another writer
has added meanwhile.
"""
FILE_SETTINGS = {
    "AWS_ACCESS_KEY_ID": "s3.access-key-id",
    "AWS_SECRET_ACCESS_KEY": "s3.secret-access-key",
    "AWS_SESSION_TOKEN": "s3.session-token",
    "AWS_REGION": "s3.region",
    "AWS_ENDPOINT_URL": "s3.endpoint",
}
"""The settings of an object store, and pyiceberg's names for them."""


def check_installed() -> None:
    """Raise ExtraNeeded if pyiceberg or what it needs for SQLite is missing."""
    try:
        importlib.import_module("pyiceberg.catalog.sql")
    except ImportError as error:
        raise ExtraNeeded(NEEDED.format(error)) from None


class IcebergLog:
    """One table of the catalog; created if it does not exist.

    Args:
        name: of the table, and of its folder in the store.
        schema: of the files; missing columns are added to the table.
        catalog: the SQLite file.
        writer: our id in the table's properties.
    Raises: PipelineFailed: the catalog's table is elsewhere.
    """

    by: Sequence[str] = ()
    """The table is not partitioned: its files' minima and maxima tell readers which to skip."""

    def __init__(self, store: Store, name: str, schema: pa.Schema, catalog: Path, writer: str) -> None:
        from pyiceberg.catalog.sql import SqlCatalog

        self._store = store
        self._name = name
        self._property = f"kqueue.batch.{writer}"
        self._catalog = SqlCatalog(
            NAMESPACE, uri=f"sqlite:///{catalog}", warehouse=store.url, **_file_settings(store.settings)
        )
        self._catalog.create_namespace_if_not_exists(NAMESPACE)
        schema = pa.schema([field.with_nullable(True) for field in schema])
        self._table = self._catalog.create_table_if_not_exists(
            (NAMESPACE, name), schema, location=store.of(name), properties=PROPERTIES
        )
        if self._table.location() != store.of(name):
            there = f"{NAMESPACE}.{name} of {self._table.location()}"
            raise PipelineFailed(f"the catalog {catalog} has a table {there}: take another catalog")
        if set(schema.names) - {field.name for field in self._table.schema().fields}:
            with self._table.update_schema() as update:
                update.union_by_name(schema)

    def has(self, batch: int) -> bool:
        """Return whether this writer has committed the batch."""
        self._table.refresh()
        return int(self._table.properties.get(self._property, -1)) >= batch

    def commit(self, batch: int, files: Sequence[str]) -> None:
        """Add files, below the table's folder, as one batch, unless it is committed.

        Raises: PipelineFailed: the catalog refuses the commit.
        """
        from pyiceberg.exceptions import CommitFailedException

        if self.has(batch):
            return
        try:
            with self._table.transaction() as transaction:
                transaction.set_properties({self._property: str(batch)})
                if files:
                    urls = [self._store.of(self._name, file) for file in files]
                    transaction.add_files(urls, check_duplicate_files=False)
        except CommitFailedException as error:
            table = self._store.of(self._name)
            raise PipelineFailed(f"{table}: Iceberg's catalog does not take batch {batch}: {error}") from None

    def files(self) -> list[str]:
        """Return the table's current files, below its folder.

        Raises: PipelineFailed: others have deleted rows of them.
        """
        self._table.refresh()
        tasks = list(self._table.scan().plan_files())
        if any(task.delete_files for task in tasks):
            raise PipelineFailed(f"rows of {self._store.of(self._name)} were deleted by others: rewrite its files")
        return sorted(task.file.file_path.removeprefix(f"{self._store.of(self._name)}/") for task in tasks)

    def close(self) -> None:
        """Close the catalog."""
        self._catalog.close()


def _file_settings(settings: Mapping[str, str]) -> dict[str, Any]:
    return {FILE_SETTINGS[name]: value for name, value in settings.items() if name in FILE_SETTINGS}
