"""A metadata store in memory, for tests and for brokers whose logs are in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from kqueue.base.errors import Conflict, StorageFailed
from kqueue.metadata.store import Entry, Snapshot, check_commit, check_guards


class MemoryStore:
    """Implements `MetadataStore`. Several brokers may share one object."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._last_version = 0
        self._closed = False
        self._lock = threading.Lock()

    def read(self, prefix: str) -> Snapshot:
        with self._lock:
            self._check_open()
            return {key: self._entries[key] for key in sorted(self._entries) if key.startswith(prefix)}

    def commit(
        self, guards: Mapping[str, int | None], puts: Mapping[str, bytes], deletes: Iterable[str]
    ) -> Mapping[str, int]:
        deletes = list(deletes)
        check_commit(guards, puts, deletes)
        with self._lock:
            self._check_open()
            violation = check_guards(
                guards, {key: entry.version for key, entry in self._entries.items() if key in guards}
            )
            if violation is not None:
                raise Conflict(violation)
            # One counter for all keys: a key that is deleted and created again never repeats a
            # version.
            self._last_version += 1
            for key, value in puts.items():
                self._entries[key] = Entry(bytes(value), self._last_version)
            for key in deletes:
                self._entries.pop(key, None)
            return dict.fromkeys(puts, self._last_version)

    def close(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise StorageFailed("the metadata store is closed")
