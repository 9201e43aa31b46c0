"""An archive's folder: what is where, and how a batch gets there whole.

    records/topic=orders/date=2026-01-31/00000007-….parquet     records of batch 7; date=__HIVE_DEFAULT_PARTITION__: without a time
    batches/00000007.json                                       what batch 7 is (`Batch`), written when all its files are there
    .staging/00000008.new/…                                     a batch that is being written; counts for nothing
    .staging/00000008/…                                         a batch that is whole, and being moved to its place
    .lock                                                       held by who adds to it, where it is on a mounted file system

A batch counts from the moment at which its folder under `.staging` gets its name without `.new`;
from then on its files are only moved, one by one, and whoever comes after a kill moves the rest.
Before, it counts for nothing and is written again. So no record is there twice at any time, not for
readers that know nothing of this either; for a moment, or until the next run after a kill, they may
see part of a batch. That takes a file system that renames folders at once: local disks and HDFS do,
object stores don't.
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
class Batch:
    """One batch, and what there is up to it.

    id: of the archive, the same in all its batches. ends: the next offset to archive of each
    partition there is, those without records too. rows: records of this batch. rows_total: of all
    up to it. files: of this batch, below `records`.
    """

    number: int
    id: str
    ends: Offsets = field(default_factory=dict)
    rows: int = 0
    rows_total: int = 0
    files: tuple[str, ...] = ()

    def to_json(self) -> str:
        about = {"version": VERSION, "batch": self.number, "archive": self.id, "next": to_json(self.ends)}
        return json.dumps({**about, "rows": self.rows, "rows_total": self.rows_total, "files": self.files}, indent=1)

    @property
    def partitions(self) -> dict[str, int]:
        """How many each topic has."""
        found: dict[str, int] = {}
        for topic_partition in self.ends:
            found[topic_partition.topic] = max(found.get(topic_partition.topic, 0), topic_partition.partition + 1)
        return found


def batch_from(text: str, where: str) -> Batch:
    """What `Batch.to_json` made. Raises PipelineFailed: it is something else."""
    try:
        read: dict[str, Any] = json.loads(text)
        if read["version"] != VERSION:
            raise ValueError(f"version {read['version']!r}, expected {VERSION}")
        ends = {
            TopicPartition(*topic_partition): offset
            for topic_partition, offset in from_json(read["next"], "next").items()
        }
        files = tuple(map(str, read["files"]))
        return Batch(int(read["batch"]), str(read["archive"]), ends, int(read["rows"]), int(read["rows_total"]), files)
    except (ValueError, KeyError, TypeError) as error:
        raise PipelineFailed(f"{where} is no description of a batch: {error!r}") from None


def batch_name(number: int) -> str:
    return f"{number:08d}"


class ArchiveLayout:
    """The folder, in any file system that Spark knows. Raises PipelineFailed, from all methods: it
    can't be read or written.
    """

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self.folder = folder.rstrip("/") or folder
        assert spark._jvm is not None
        self._path: Any = spark._jvm.org.apache.hadoop.fs.Path
        self._files = self._path(self.folder).getFileSystem(spark._jsc.hadoopConfiguration())

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Nobody else adds to the folder meanwhile; of file systems that are not mounted here the
        user has to see to that.

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

    def of(self, *parts: str) -> str:
        return "/".join((self.folder, *parts))

    def batches(self) -> list[Batch]:
        """Those that are there, oldest first; none where there is no archive."""
        names = sorted(name for name in self._names(BATCHES) if name.endswith(".json"))
        return [batch_from(self._read(self.of(BATCHES, name)), self.of(BATCHES, name)) for name in names]

    def last(self) -> Batch | None:
        """The newest of `batches`."""
        names = sorted(name for name in self._names(BATCHES) if name.endswith(".json"))
        return batch_from(self._read(self.of(BATCHES, names[-1])), self.of(BATCHES, names[-1])) if names else None

    def begin(self, number: int) -> str:
        """Where to write the records of a batch; what lies there of an attempt that was cut off is
        taken away.
        """
        self._delete(self.of(STAGING))
        return self.of(STAGING, f"{batch_name(number)}{NEW}")

    def staged(self, number: int) -> list[str]:
        """The files that were written since `begin`."""
        root = self.of(STAGING, f"{batch_name(number)}{NEW}")
        return [name for name in self._walk(root) if name.endswith(".parquet")]

    def decide(self, batch: Batch) -> None:
        """From now on what was staged is this batch."""
        new = self.of(STAGING, f"{batch_name(batch.number)}{NEW}")
        self._write(f"{new}/{ABOUT}", batch.to_json())
        self._rename(new, self.of(STAGING, batch_name(batch.number)))

    def settle(self, number: int) -> bool:
        """Move what was decided to its place. False: this batch was not decided."""
        root = self.of(STAGING, batch_name(number))
        if not self._exists(f"{root}/{ABOUT}"):
            return False
        for name in self._walk(root):
            if name.endswith(".parquet"):
                self._move(f"{root}/{name}", self.of(RECORDS, placed(name, number)))
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
        """The files below, as named from there."""
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


def placed(name: str, number: int) -> str:
    """Where a staged file goes: ``topic=a/date=2026-01-31/part-….parquet`` ->
    ``topic=a/date=2026-01-31/00000007-….parquet``.
    """
    folder, _, file = name.rpartition("/")
    return f"{folder}/{batch_name(number)}-{file.removeprefix('part-')}"
