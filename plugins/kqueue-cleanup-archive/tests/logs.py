"""Logs to be archived, archives read back, and filesystems that break."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileSystemHandler, LocalFileSystem, PyFileSystem

from kqueue.broker.replicas.partition import Partition
from kqueue.log.log import Log
from kqueue.log.sealed_segments import SealedSegments
from kqueue.records.batch import Record, read_header
from kqueue.records.builder import build_batch
from kqueue.storage import LocalStorage
from kqueue.testing.simulation import Simulation

DAY_MS = 86_400_000
START_MS = 19_700 * DAY_MS  # 2023-12-09
FOLDERS = ds.partitioning(pa.schema([("topic", pa.string()), ("date", pa.date32())]), flavor="hive")


def simulation(folder: Path, **settings: object) -> Simulation:
    folder.mkdir(exist_ok=True)
    return Simulation({name.replace("_", "."): value for name, value in settings.items()}, storage=LocalStorage(folder))


def partition_of(sim: Simulation, name: str = "orders", **configs: str) -> Partition:
    own: dict[str, str] = {"segment_bytes": "1000", "cleanup_policy": "archive", "retention_ms": "60000", **configs}
    return sim.topic(name, 1, **own).partition(0)


def put(sim: Simulation, partition: Partition, records: Sequence[Record], **facts: Any) -> None:
    """One batch."""
    batch = build_batch(records, base_offset=0, **facts)
    partition.append(memoryview(batch), read_header(batch), client=False)
    sim.settle()


def fill(
    sim: Simulation, partition: Partition, count: int, times: Sequence[int] = (START_MS,), *, keys: int = 7
) -> None:
    """`count` records of about 200 bytes, two to a batch; their times are `times` over and over."""
    number = partition.log_end_offset
    for first in range(number, number + count, 2):
        records = [
            Record(
                at - first,
                times[at % len(times)],
                b"key-%d" % (at % keys),
                b"%d" % at + b"." * 150,
                (("number", b"%d" % at),),
            )
            for at in range(first, min(first + 2, number + count))
        ]
        put(sim, partition, records)


def sealed(
    partition: Partition, count: int | None = None, skip: int = 0, *, start_offset: int | None = None
) -> SealedSegments:
    """`count` of the sealed segments (None: all), as the broker would hand them over."""
    log: Log = partition.log
    views = log.segment_views()[:-1][skip:][:count]
    storage = log.storage
    return SealedSegments(
        topic=partition.topic,
        partition=partition.index,
        topic_id=log.topic_id,
        folder=log.folder,
        location=f"{storage.location}/{log.folder}",
        segments=views,
        start_offset=max(log.start_offset, views[0].base_offset) if start_offset is None else start_offset,
        end_offset=views[-1].end_offset,
        opener=storage.opener or (lambda: storage),
    )


def archived(root: Path | str, filesystem: FileSystem | None = None, topic: str = "orders") -> pa.Table:
    """All rows of a topic that readers of the archive see, by partition and offset."""
    if isinstance(root, Path) and not whole_files(root):
        return pa.table({"offset": pa.array([], pa.int64())})
    table = ds.dataset(str(root), format="parquet", partitioning=FOLDERS, filesystem=filesystem).to_table(
        filter=ds.field("topic") == topic
    )
    return table.sort_by([("partition", "ascending"), ("offset", "ascending")]) if table.num_rows else table


def offsets(root: Path | str, filesystem: FileSystem | None = None) -> list[int]:
    column: list[int] = archived(root, filesystem)["offset"].to_pylist()
    return column


def files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


def whole_files(root: Path) -> list[Path]:
    return [path for path in files(root) if path.name.endswith(".parquet")]


class Broken(FileSystemHandler):  # type: ignore[misc]
    """A local filesystem of which operation `at` fails, and every later one where `for_good`.

    `counted`: how many there were; `open_streams`, `open_streams_max`: of those that write;
    `change`: what becomes of bytes on the way.
    """

    def __init__(self, at: int | None = None, *, for_good: bool = True, kill: bool = False) -> None:
        self.local = LocalFileSystem()
        self.at = at
        self.for_good = for_good
        self.kill = kill
        self.counted = 0
        self.open_streams = self.open_streams_max = 0
        self.change: Callable[[bytes], bytes] = bytes

    def count(self) -> None:
        self.counted += 1
        if self.at is not None and (self.counted == self.at or (self.for_good and self.counted > self.at)):
            if self.kill:
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError(28, "No space left on device")

    def get_type_name(self) -> str:
        return "broken"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[FileInfo]:
        self.count()
        return [self.local.get_file_info(path) for path in paths]

    def get_file_info_selector(self, selector: FileSelector) -> list[FileInfo]:
        self.count()
        return list(self.local.get_file_info(selector))

    def create_dir(self, path: str, recursive: bool) -> None:
        self.count()
        self.local.create_dir(path, recursive=recursive)

    def delete_file(self, path: str) -> None:
        self.count()
        self.local.delete_file(path)

    def move(self, source: str, target: str) -> None:
        self.count()
        self.local.move(source, target)

    def open_input_file(self, path: str) -> pa.NativeFile:
        self.count()
        return self.local.open_input_file(path)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        raise NotImplementedError

    def open_output_stream(self, path: str, metadata: object) -> pa.NativeFile:
        self.count()
        return pa.PythonFile(_Stream(self, Path(path)), mode="w")

    def open_append_stream(self, path: str, metadata: object) -> pa.NativeFile:
        raise NotImplementedError

    def copy_file(self, source: str, target: str) -> None:
        raise NotImplementedError

    def delete_dir(self, path: str) -> None:
        raise NotImplementedError

    def delete_dir_contents(self, path: str, missing_dir_ok: bool) -> None:
        raise NotImplementedError

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError


class _Stream:
    """What `Broken` writes to: each write comes to the disk at once."""

    def __init__(self, broken: Broken, path: Path) -> None:
        self._broken = broken
        self._file = path.open("wb", buffering=0)
        self.closed = False
        broken.open_streams += 1
        broken.open_streams_max = max(broken.open_streams_max, broken.open_streams)

    def write(self, data: bytes) -> int:
        self._broken.count()
        self._file.write(self._broken.change(bytes(data)))
        return len(data)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        pass

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._file.close()
            self._broken.open_streams -= 1

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


def broken(handler: Broken) -> FileSystem:
    return PyFileSystem(handler)
