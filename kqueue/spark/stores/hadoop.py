"""A folder in a file system that Spark's Hadoop knows, such as HDFS, through its Java API."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kqueue.spark.errors import PipelineFailed
from kqueue.spark.remote import refuse_remote
from kqueue.spark.stores.store import Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

NO_MARKS = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}


class HadoopStore:
    """See `Store`. Files of HDFS are renamed at once; `renames` is not assumed."""

    renames = False
    settings: Mapping[str, str] = MappingProxyType({})

    def __init__(self, spark: SparkSession, url: str) -> None:
        self.url = url.rstrip("/")
        refuse_remote(spark, f"the file system of {url}")
        assert spark._jvm is not None
        self._spark = spark
        self._path: Any = spark._jvm.org.apache.hadoop.fs.Path
        self._files = self._path(self.url).getFileSystem(spark._jsc.hadoopConfiguration())

    def of(self, *parts: str) -> str:
        return "/".join((self.url, *(part for part in parts if part)))

    def exists(self, path: str = "") -> bool:
        return bool(self._files.exists(self._path(self.of(path))))

    def names(self, folder: str) -> list[str]:
        if not self.exists(folder):
            return []
        root = self._path(self.of(folder))
        depth = len(root.toUri().getPath().rstrip("/")) + 1
        files = self._files.listFiles(root, True)
        names = []
        while files.hasNext():
            names.append(str(files.next().getPath().toUri().getPath())[depth:])
        return sorted(names)

    def read(self, path: str) -> bytes | None:
        if not self.exists(path):
            return None
        stream = self._files.open(self._path(self.of(path)))
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def put_new(self, path: str, data: bytes) -> bool:
        """Write it beside its place and rename it: HDFS doesn't rename over another file."""
        if self.exists(path):
            return False
        beside = self._path(self.of(f"{path}.tmp"))
        stream = self._files.create(beside, True)
        try:
            stream.write(data)
        finally:
            stream.close()
        return bool(self._files.rename(beside, self._path(self.of(path))))

    def move(self, pairs: Iterable[tuple[str, str]]) -> None:
        for old, new in pairs:
            source, target = self._path(self.of(old)), self._path(self.of(new))
            if not self._files.exists(source):
                if self._files.exists(target):
                    continue
                raise PipelineFailed(f"{self.of(old)} is gone, and was not moved to {self.of(new)}")
            self._files.mkdirs(target.getParent())
            if not self._files.rename(source, target):
                raise PipelineFailed(
                    f"could not rename {self.of(old)} to {self.of(new)}; is it there already, or the folder not to be "
                    "written to?"
                )

    def delete(self, path: str) -> None:
        self._files.delete(self._path(self.of(path)), True)

    @contextlib.contextmanager
    def open(self, path: str) -> Iterator[Any]:
        data = self.read(path)
        if data is None:
            raise PipelineFailed(f"{self.of(path)} is gone")
        yield pa.BufferReader(data)

    def write(self, frame: DataFrame, folder: str, by: Sequence[str], codec: str = "snappy") -> Written:
        write_files(frame, self.of(folder), by, codec)
        names = tuple(name for name in self.names(folder) if name.endswith(".parquet"))
        files = [self.of(folder, name) for name in names]
        return Written(names, self._spark.read.parquet(*files).count() if files else 0)

    def frame(self, spark: SparkSession, schema: StructType, folder: str, names: Sequence[str]) -> DataFrame:
        return read_files(spark, schema, self.of(folder), [self.of(folder, name) for name in names])

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Hold nothing: of two jobs at once, `put_new` lets one win."""
        yield


def write_files(frame: DataFrame, folder: str, by: Sequence[str], codec: str) -> None:
    """Write rows below a new folder. Executors have to reach it."""
    frame.write.options(**NO_MARKS).partitionBy(*by).option("compression", codec).parquet(folder)


def read_files(spark: SparkSession, schema: StructType, folder: str, files: Sequence[str]) -> DataFrame:
    """Return the rows of files below a folder, with the columns that folders name."""
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", folder).parquet(*files)
