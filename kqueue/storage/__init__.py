"""The file contract and its backends. `STORAGES`: name -> a callable that makes a Storage out of a
folder's path.
"""

from __future__ import annotations

from collections.abc import Callable

from kqueue.base.registry import Registry
from kqueue.storage.contract import File, FolderEntry, Lock, Region, Storage
from kqueue.storage.guarded_storage import guard_maker
from kqueue.storage.local import LocalStorage
from kqueue.storage.memory import MemoryStorage

__all__ = ["STORAGES", "File", "FolderEntry", "LocalStorage", "Lock", "MemoryStorage", "Region", "Storage"]

STORAGES: Registry[Callable[[str], Storage]] = Registry("kqueue.storage", "storage", guard=guard_maker)
STORAGES.add("local", LocalStorage)
STORAGES.add("memory", lambda path: MemoryStorage())
