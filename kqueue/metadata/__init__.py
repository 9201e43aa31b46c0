"""The metadata store and its backends.

`METADATA_STORES`: name -> a callable that opens a MetadataStore for a data folder's path.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kqueue.base.errors import StorageFailed
from kqueue.base.registry import Registry
from kqueue.metadata.memory import MemoryStore
from kqueue.metadata.plugin_store import wrap_opener
from kqueue.metadata.store import MetadataStore

__all__ = ["METADATA_STORES", "MetadataStore"]


def _sqlite(folder: str) -> MetadataStore:
    from kqueue.metadata.sqlite import FILE_NAME, SqliteStore  # on first use: a broker in memory does not need it

    try:
        Path(folder).mkdir(0o700, parents=True, exist_ok=True)  # a storage plugin may keep the logs elsewhere
    except OSError as error:
        raise StorageFailed(f"{folder}: the folder of the metadata store can't be made: {error.strerror}") from error
    return SqliteStore(Path(folder, FILE_NAME))


METADATA_STORES: Registry[Callable[[str], MetadataStore]] = Registry(
    "kqueue.metadata", "metadata store", guard=wrap_opener
)
METADATA_STORES.add("sqlite", _sqlite)
METADATA_STORES.add("memory", lambda folder: MemoryStore())
