"""Named files in folders: the storage contract and its backends.

`STORAGES` maps a name of `kqueue.storage` to a callable that opens a data folder's path.
"""

from __future__ import annotations

from collections.abc import Callable

from kqueue.base.registry import Registry
from kqueue.storage.contract import File, FolderEntry, Lock, Region, Storage
from kqueue.storage.delegating import DelegatingFile, DelegatingStorage
from kqueue.storage.guarded_storage import guard_storage
from kqueue.storage.local import LocalStorage
from kqueue.storage.memory import MemoryStorage

__all__ = [
    "STORAGES",
    "DelegatingFile",
    "DelegatingStorage",
    "File",
    "FolderEntry",
    "LocalStorage",
    "Lock",
    "MemoryStorage",
    "Region",
    "Storage",
]

STORAGES: Registry[Callable[[str], Storage]] = Registry("kqueue.storage", "storage", guard=guard_storage)
STORAGES.add("local", LocalStorage)
STORAGES.add("memory", lambda path: MemoryStorage())
