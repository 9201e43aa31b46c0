"""A folder on a mounted file system; on a cluster one that all machines share."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from kqueue.base.errors import StorageFailed
from kqueue.spark.stores.hadoop import read_files, write_files
from kqueue.spark.stores.store import Written
from kqueue.storage.local import LocalStorage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class LocalStore:
    """See `Store`. The folder is created when something is written."""

    renames = True
    settings: Mapping[str, str] = MappingProxyType({})

    def __init__(self, folder: str | Path) -> None:
        self._root = Path(folder)
        self.url = str(folder)

    def of(self, *parts: str) -> str:
        return str(self._root.joinpath(*parts))

    def exists(self, path: str = "") -> bool:
        return (self._root / path).exists()

    def names(self, folder: str) -> list[str]:
        root = self._root / folder
        return sorted(file.relative_to(root).as_posix() for file in root.rglob("*") if file.is_file())

    def read(self, path: str) -> bytes | None:
        try:
            return (self._root / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise StorageFailed(f"{self.of(path)} can't be read: {error.strerror}") from None

    def put_new(self, path: str, data: bytes) -> bool:
        if self.exists(path):
            return False
        folder, _, name = path.rpartition("/")
        LocalStorage(self._root / folder, private=False).write_atomic(name, data)
        return True

    def move(self, pairs: Iterable[tuple[str, str]]) -> None:
        for old, new in pairs:
            source, target = self._root / old, self._root / new
            if not source.exists():
                if not target.exists():
                    raise StorageFailed(f"{source} is gone, and was not moved to {target}: restore it from a copy")
                continue
            try:
                if target.is_dir():
                    shutil.rmtree(target)
                target.parent.mkdir(parents=True, exist_ok=True)
                source.replace(target)
            except OSError as error:
                raise StorageFailed(f"{source} can't be renamed to {target}: {error.strerror}") from None

    def delete(self, path: str) -> None:
        shutil.rmtree(self._root / path, ignore_errors=True)
        with contextlib.suppress(OSError):
            (self._root / path).unlink()

    @contextlib.contextmanager
    def open(self, path: str) -> Iterator[Any]:
        with pa.OSFile(self.of(path)) as file:
            yield file

    def write(self, frame: DataFrame, folder: str, by: Sequence[str], codec: str = "snappy") -> Written:
        write_files(frame, self.of(folder), by, codec)
        names = tuple(name for name in self.names(folder) if name.endswith(".parquet"))
        return Written(names, sum(pq.read_metadata(self.of(folder, name)).num_rows for name in names))

    def frame(self, spark: SparkSession, schema: StructType, folder: str, names: Sequence[str]) -> DataFrame:
        return read_files(spark, schema, self.of(folder), [self.of(folder, name) for name in names])

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[None]:
        folder, _, file = name.rpartition("/")
        held = LocalStorage(self._root / folder, private=False).lock(file)
        try:
            yield
        finally:
            held.release()
