"""The layout of an archive folder, and the atomic commit of a batch.

    records/topic=orders/date=2026-01-31/00000007-….parquet   records of batch 7;
        date=__HIVE_DEFAULT_PARTITION__: no timestamp
    batches/00000007.json                                     describes batch 7; written after its
        files
    .staging/00000008.new/…                                   a batch being written; ignored
    .staging/00000008/…                                       a committed batch whose files are
        being moved
    .lock                                                     held by the running job, on mounted
        file systems

A batch is committed when its staging folder is renamed to the name without `.new`. After that its
files are only moved, one by one; after a kill the next run moves the rest. Before it, the batch is
ignored and written again. So no record is ever present twice, for any reader. Until the move ends,
readers may see part of a batch. This needs a file system with atomic folder renames: local disks
and HDFS have them, object stores do not.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kqueue.base.errors import FolderInUse
from kqueue.client.topic_partition import TopicPartition
from kqueue.spark.errors import PipelineFailed
from kqueue.spark.source.offsets import Offsets, from_json, to_json
from kqueue.storage.local import LocalStorage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS, BATCHES, STAGING, NEW = "records", "batches", ".staging", ".new"
ABOUT = "batch.json"
VERSION = 1


@dataclass(frozen=True, slots=True)
class ArchivedBatch:
    """One batch, and the state of the archive after it.

    id: of the archive. ends: the next offset to archive of each known partition. rows: records of
    this batch. rows_total: records up to and including it. files: of this batch, below `records`.
    """

    number: int
    id: str
    ends: Offsets = field(default_factory=dict)
    rows: int = 0
    rows_total: int = 0
    files: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Return the text of its file."""
        about = {"version": VERSION, "batch": self.number, "archive": self.id, "next": to_json(self.ends)}
        return json.dumps({**about, "rows": self.rows, "rows_total": self.rows_total, "files": self.files}, indent=1)

    @property
    def partitions(self) -> dict[str, int]:
        """The number of partitions of each topic."""
        found: dict[str, int] = {}
        for topic_partition in self.ends:
            found[topic_partition.topic] = max(found.get(topic_partition.topic, 0), topic_partition.partition + 1)
        return found


def batch_from(text: str, where: str) -> ArchivedBatch:
    """Parse the text of `ArchivedBatch.to_json`. Raises: PipelineFailed: another form."""
    try:
        read: dict[str, Any] = json.loads(text)
        if read["version"] != VERSION:
            raise ValueError(f"version {read['version']!r}, expected {VERSION}")
        ends = {
            TopicPartition(*topic_partition): offset
            for topic_partition, offset in from_json(read["next"], "next").items()
        }
        files = tuple(map(str, read["files"]))
        return ArchivedBatch(
            int(read["batch"]), str(read["archive"]), ends, int(read["rows"]), int(read["rows_total"]), files
        )
    except (ValueError, KeyError, TypeError) as error:
        raise PipelineFailed(f"{where} is no description of a batch: {error!r}") from None


def batch_name(number: int) -> str:
    """Return the batch number as it occurs in names."""
    return f"{number:08d}"


class ArchiveLayout:
    """An archive folder, on any file system that Spark supports.

    All methods raise PipelineFailed: the folder cannot be read or written.
    """

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self.folder = folder.rstrip("/") or folder
        assert spark._jvm is not None
        self._path: Any = spark._jvm.org.apache.hadoop.fs.Path
        self._files = self._path(self.folder).getFileSystem(spark._jsc.hadoopConfiguration())

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder's lock during the block. On unmounted file systems there is no lock.

        Raises: FolderInUse.
        """
        if "://" in self.folder:
            yield
            return
        try:
            lock = LocalStorage(Path(self.folder), private=False).lock(".lock")
        except FolderInUse:
            raise FolderInUse(
                f"another archive is at work on {self.folder}: wait until it is done, or take another folder"
            ) from None
        try:
            yield
        finally:
            lock.release()

    def exists(self) -> bool:
        """Return whether there is a folder."""
        return self._exists(self.folder)

    def of(self, *parts: str) -> str:
        """Return a path below the folder."""
        return "/".join((self.folder, *parts))

    def batches(self) -> list[ArchivedBatch]:
        """Return all batches, oldest first; none if there is no archive."""
        names = sorted(name for name in self._names(BATCHES) if name.endswith(".json"))
        return [batch_from(self._read(self.of(BATCHES, name)), self.of(BATCHES, name)) for name in names]

    def last(self) -> ArchivedBatch | None:
        """Return the newest batch."""
        names = sorted(name for name in self._names(BATCHES) if name.endswith(".json"))
        return batch_from(self._read(self.of(BATCHES, names[-1])), self.of(BATCHES, names[-1])) if names else None

    def begin(self, number: int) -> str:
        """Delete staged files of an interrupted run; return the folder for a batch's records."""
        self._delete(self.of(STAGING))
        return self.of(STAGING, f"{batch_name(number)}{NEW}")

    def staged(self, number: int) -> list[str]:
        """Return the files written since `begin`."""
        root = self.of(STAGING, f"{batch_name(number)}{NEW}")
        return [name for name in self._walk(root) if name.endswith(".parquet")]

    def commit(self, batch: ArchivedBatch) -> None:
        """Commit the staged files as this batch."""
        new = self.of(STAGING, f"{batch_name(batch.number)}{NEW}")
        self._write(f"{new}/{ABOUT}", batch.to_json())
        self._rename(new, self.of(STAGING, batch_name(batch.number)))

    def publish(self, number: int) -> bool:
        """Move a committed batch's files to their final folders.

        Returns: False: the batch was not committed.
        """
        root = self.of(STAGING, batch_name(number))
        if not self._exists(f"{root}/{ABOUT}"):
            return False
        for name in self._walk(root):
            if name.endswith(".parquet"):
                self._move(f"{root}/{name}", self.of(RECORDS, final_name(name, number)))
        self._move(f"{root}/{ABOUT}", self.of(BATCHES, f"{batch_name(number)}.json"))
        self._delete(self.of(STAGING))
        return True

    # --- file system

    def _exists(self, path: str) -> bool:
        return bool(self._files.exists(self._path(path)))

    def _names(self, folder: str) -> list[str]:
        if not self._exists(self.of(folder)):
            return []
        return [status.getPath().getName() for status in self._files.listStatus(self._path(self.of(folder)))]

    def _walk(self, root: str) -> Iterator[str]:
        """Yield the files below `root`, relative to it, sorted."""
        if not self._exists(root):
            return
        depth = len(self._path(root).toUri().getPath().rstrip("/")) + 1
        found = self._files.listFiles(self._path(root), True)
        names = []
        while found.hasNext():
            names.append(found.next().getPath().toUri().getPath()[depth:])
        yield from sorted(names)

    def _read(self, path: str) -> str:
        stream = self._files.open(self._path(path))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def _write(self, path: str, text: str) -> None:
        stream = self._files.create(self._path(path), True)
        try:
            stream.write(text.encode())
        finally:
            stream.close()

    def _move(self, source: str, target: str) -> None:
        self._files.mkdirs(self._path(target).getParent())
        self._rename(source, target)

    def _rename(self, source: str, target: str) -> None:
        if not self._files.rename(self._path(source), self._path(target)):
            raise PipelineFailed(
                f"could not rename {source} to {target}; is it there already, or the folder not to be written to?"
            )

    def _delete(self, path: str) -> None:
        self._files.delete(self._path(path), True)


def final_name(name: str, number: int) -> str:
    """Return the final name of a staged file.

    ``topic=a/date=2026-01-31/part-….parquet`` -> ``topic=a/date=2026-01-31/00000007-….parquet``.
    """
    folder, _, file = name.rpartition("/")
    return f"{folder}/{batch_name(number)}-{file.removeprefix('part-')}"
