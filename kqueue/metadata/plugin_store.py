"""Wraps metadata stores of plugins: any breach of contract is a StorageFailed that names the
plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kqueue.base.errors import Conflict, PluginError, StorageFailed
from kqueue.base.plugin_call import PluginCall
from kqueue.base.registry import RegistryEntry
from kqueue.metadata.store import Entry, MetadataStore, Snapshot, check_commit

_PASSING = (StorageFailed, Conflict)
_METHODS = ("read", "commit", "close")


OpenStore = Callable[[str], MetadataStore]


def wrap_opener(open_store: OpenStore, entry: RegistryEntry[OpenStore]) -> OpenStore:
    """Return a callable that opens the same stores, wrapped. Raises: PluginError: not callable."""
    title = entry.title("metadata store")
    if not callable(open_store):
        raise PluginError(f"{title}: expected a callable that takes a data folder's path, found {open_store!r:.100}")

    def guarded(folder: str) -> MetadataStore:
        call = PluginCall(title, _PASSING)
        store = call("opening", object, open_store, folder)
        missing = next((name for name in _METHODS if not callable(getattr(store, name, None))), None)
        if missing is not None:
            raise PluginError(
                f"{title}: expected a MetadataStore, found {type(store).__name__} without the method {missing}"
            )
        return PluginMetadataStore(store, call)

    return guarded


class PluginMetadataStore:
    """A plugin's store, with its arguments and results checked. See `store.MetadataStore`."""

    def __init__(self, store: MetadataStore, call: PluginCall) -> None:
        self._store = store
        self._call = call

    def read(self, prefix: str) -> Snapshot:
        snapshot: Snapshot = self._call("read", Mapping, self._store.read, prefix)
        for key, entry in snapshot.items():
            if not isinstance(key, str) or not key.startswith(prefix):
                raise StorageFailed(
                    f"{self._call.title} broke its contract: read({prefix!r}) returned the key {key!r:.100}"
                )
            if not isinstance(entry, Entry) or not isinstance(entry.value, bytes) or not isinstance(entry.version, int):
                raise StorageFailed(
                    f"{self._call.title} broke its contract: read returned no Entry of bytes and a version for {key}"
                )
        return snapshot

    def commit(
        self, guards: Mapping[str, int | None], puts: Mapping[str, bytes], deletes: Iterable[str]
    ) -> Mapping[str, int]:
        deletes = list(deletes)
        check_commit(guards, puts, deletes)
        versions: Mapping[str, int] = self._call("commit", Mapping, self._store.commit, guards, puts, deletes)
        for key in puts:
            if not isinstance(versions.get(key), int):
                raise StorageFailed(f"{self._call.title} broke its contract: commit returned no version of {key}")
        return versions

    def close(self) -> None:
        self._call("close", type(None), self._store.close)
