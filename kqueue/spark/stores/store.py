"""The contract of a place of archives and tables: it needs no atomic rename and no lock.

Paths are relative to the store, with "/" between parts; "" is the store itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

NULL_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The value of null in names of partition folders."""


@dataclass(frozen=True)
class Location:
    """The place of a job's results.

    Attributes:
        url: a folder, ``s3://bucket/prefix``, or a URL that Spark's Hadoop knows.
        storage: settings of an object store, such as AWS_ENDPOINT_URL; they go before environment
            variables of the same names.
        checkpoint: a mounted folder for the progress of `ingest`; None: in the tables' folder.
        catalog: the SQLite file of Iceberg's catalog; None: in the folder of the progress.
    """

    url: str
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    checkpoint: str | None = None
    catalog: str | None = None


def location_of(place: str | Location) -> Location:
    """Return a location for the text of one."""
    return place if isinstance(place, Location) else Location(place)


class Written(NamedTuple):
    """The files that Spark has written. names: below their folder. rows: in all of them."""

    names: tuple[str, ...]
    rows: int


class Store(Protocol):
    """A folder or a prefix of an object store.

    All methods raise PipelineFailed or StorageFailed: it cannot be read or written.

    Attributes:
        url: where it is.
        renames: a folder is moved by one rename, so that readers of it see all of it or nothing.
        settings: of an object store, by the names of environment variables.
    """

    url: str
    renames: bool
    settings: Mapping[str, str]

    def of(self, *parts: str) -> str:
        """Return the whole path or URL of a path."""

    def exists(self, path: str = "") -> bool:
        """Return whether there is a file, or a folder with something in it."""

    def names(self, folder: str) -> list[str]:
        """Return the files below a folder, relative to it, sorted; none if it does not exist."""

    def read(self, path: str) -> bytes | None:
        """Return the content of a file; None: it does not exist."""

    def put_new(self, path: str, data: bytes) -> bool:
        """Write a file that is not there yet, whole or not at all.

        Returns: False: it is there. On mounted folders that holds for holders of the lock only.
        """

    def move(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Move files, each whole; those that are moved already are left as they are.

        Where the store `renames`, the source may be a folder; it takes the place of its target.
        """

    def delete(self, path: str) -> None:
        """Delete a file or a folder, if it is there."""

    def open(self, path: str) -> AbstractContextManager[Any]:
        """Open a file for pyarrow: with `read`, `seek`, and `size`, a number or a method."""

    def write(self, frame: DataFrame, folder: str, by: Sequence[str], codec: str = "snappy") -> Written:
        """Write rows as Parquet files below a new folder, partitioned by columns.

        Returns: the files of the tasks that count; attempts of others may have left more.
        """

    def frame(self, spark: SparkSession, schema: StructType, folder: str, names: Sequence[str]) -> DataFrame:
        """Return the rows of files below a folder; columns that their folders name included."""

    def lock(self, name: str) -> AbstractContextManager[None]:
        """Hold a lock, where there are locks. Raises: FolderInUse."""
