"""Stores without Spark, of which every change can be the last before a kill."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kqueue.spark.stores import Store, Written

Files = dict[str, list[int]]
"""The "frame" of these tests: the ids in each file."""


class Killed(BaseException):
    """Raised in place of a kill of the process."""


class CutStore:
    """A store that writes `Files`, and calls `before` in front of each change.

    Attributes:
        before: called with the name of the change; may raise Killed.
        renames: as the test wants it, where the store does.
    """

    def __init__(self, store: Store, before: Callable[[str], None] = lambda change: None, renames: bool = False):
        self._store = store
        self.before = before
        self.url = store.url
        self.renames = renames and store.renames
        self.settings = store.settings
        self.of, self.exists, self.names, self.read, self.open = (
            store.of,
            store.exists,
            store.names,
            store.read,
            store.open,
        )

    def put_new(self, path: str, data: bytes) -> bool:
        self.before(f"put {path}")
        return self._store.put_new(path, data)

    def move(self, pairs: Iterable[tuple[str, str]]) -> None:
        for pair in pairs:
            self.before(f"move {pair[1]}")
            self._store.move([pair])

    def delete(self, path: str) -> None:
        self.before(f"delete {path}")
        self._store.delete(path)

    def write(self, frame: Any, folder: str, by: Sequence[str], codec: str = "snappy") -> Written:
        files: Files = frame
        for name, ids in files.items():
            self.before(f"write {name}")
            data = io.BytesIO()
            pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), data)
            self._store.put_new(f"{folder}/{name}", data.getvalue())
        return Written(tuple(files), sum(map(len, files.values())))

    def frame(self, *_: Any) -> Any:
        raise NotImplementedError

    def lock(self, name: str) -> AbstractContextManager[None]:
        return self._store.lock(name)


def ids_of(store: Store, files: Iterable[str]) -> list[int]:
    """Return the ids in files, which all have to be whole."""
    ids: list[int] = []
    for name in files:
        with store.open(name) as file:
            ids += pq.ParquetFile(file).read()["id"].to_pylist()
    return sorted(ids)
