"""Wraps tier stores of plugins: any breach of contract is a TierError that names the plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from kqueue.base.errors import ExtraNeeded, PluginError
from kqueue.base.registry import RegistryEntry
from kqueue.tier.errors import TierCorrupt, TierError
from kqueue.tier.stores.contract import (
    Buffer,
    Object,
    ObjectEntry,
    TierStore,
    Version,
    check_key,
    check_prefix,
    check_range,
    is_key,
    one_line,
)

OpenTierStore = Callable[[str], TierStore]
"""Opens the store of a URL. Raises: TierError, ExtraNeeded."""
_METHODS = ("put", "put_if", "get", "get_range", "list", "list_folders", "delete", "close")


def wrap_opener(open_store: OpenTierStore, entry: RegistryEntry[OpenTierStore]) -> OpenTierStore:
    """Return a callable that opens the same stores, wrapped. Raises: PluginError: not callable."""
    title = entry.title("tier store")
    if not callable(open_store):
        raise PluginError(f"{title}: expected a callable that takes a URL, found {open_store!r:.100}")

    def guarded(url: str) -> TierStore:
        try:
            store = open_store(url)
        except (TierError, ExtraNeeded):
            raise
        except Exception as error:
            # The error's own text may have the URL in it, whose options may be secrets.
            raise TierError(f"{title}: opening failed with {type(error).__name__}") from error
        missing = next((name for name in _METHODS if not callable(getattr(store, name, None))), None)
        if missing is not None:
            raise PluginError(
                f"{title}: expected a TierStore, found {type(store).__name__} without the method {missing}"
            )
        if not isinstance(getattr(store, "location", None), str):
            raise PluginError(f"{title}: expected a TierStore, found {type(store).__name__} without a text `location`")
        return PluginTierStore(store, title)

    return guarded


class PluginTierStore:
    """A plugin's store, with arguments, errors and results checked. See `contract.TierStore`."""

    def __init__(self, store: TierStore, title: str) -> None:
        self._store = store
        self._title = title
        self.location = store.location

    def put(self, key: str, parts: Iterable[Buffer], size: int) -> None:
        check_key(key)
        source = _PluginParts(parts)
        try:
            self._store.put(key, source, size)
        except Exception as error:
            if error is source.error:
                raise
            self._check_error("put", error)
            raise

    def put_if(self, key: str, body: bytes, expected: Version | None) -> Version:
        check_key(key)
        version: Version = self._call("put_if", str, self._store.put_if, key, body, expected)
        return version

    def get(self, key: str, *, max_bytes: int) -> Object:
        check_key(key)
        found: Object = self._call("get", Object, self._store.get, key, max_bytes=max_bytes)
        if not isinstance(found.body, bytes) or not isinstance(found.version, str):
            raise self._violation("get", "no Object of bytes and a version")
        if len(found.body) > max_bytes:
            raise TierCorrupt(f"{self._title}: {key} has {len(found.body)} bytes, at most {max_bytes} were expected")
        return found

    def get_range(self, key: str, start: int, length: int) -> bytes:
        check_key(key)
        check_range(start, length)
        data: bytes = self._call("get_range", bytes, self._store.get_range, key, start, length)
        if len(data) != length:
            raise self._violation("get_range", f"{len(data)} bytes where {length} were asked for")
        return data

    def list(self, prefix: str) -> Iterator[ObjectEntry]:
        folder = check_prefix(prefix)
        entries = iter(self._call("list", Iterable, self._store.list, prefix))
        return self._checked(folder, entries)

    def _checked(self, folder: str, entries: Iterator[Any]) -> Iterator[ObjectEntry]:
        last = ""
        while True:
            entry = self._call("list", (ObjectEntry, type(None)), next, entries, None)
            if entry is None:
                return
            if not isinstance(entry.key, str) or not is_key(entry.key) or not entry.key.startswith(folder):
                raise self._violation("list", f"the key {entry.key!r:.100} for the prefix {folder!r}")
            if entry.key <= last:
                raise self._violation("list", f"the key {entry.key!r:.100} after {last!r:.100}")
            if not isinstance(entry.size, int) or not isinstance(entry.modified_ms, int):
                raise self._violation("list", f"no whole numbers as size and time of {entry.key}")
            last = entry.key
            yield entry

    def list_folders(self, prefix: str) -> Sequence[str]:
        check_prefix(prefix)
        names: list[str] = self._call("list_folders", list, self._store.list_folders, prefix)
        for name in names:
            if not isinstance(name, str) or "/" in name or not is_key(name):
                raise self._violation("list_folders", f"the name {name!r:.100}")
        return names

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            check_key(key)
        self._call("delete", type(None), self._store.delete, keys)

    def close(self) -> None:
        self._call("close", type(None), self._store.close)

    def _call(
        self, what: str, expected: type | tuple[type, ...], run: Callable[..., Any], *args: Any, **named: Any
    ) -> Any:
        try:
            result = run(*args, **named)
        except Exception as error:
            self._check_error(what, error)
            raise
        if not isinstance(result, expected):
            raise self._violation(what, f"{type(result).__name__}")
        return result

    def _check_error(self, what: str, error: Exception) -> None:
        """Raise TierError in place of an error that the contract does not allow."""
        if isinstance(error, (TierError, ValueError)):
            return
        raise TierError(
            f"{self._title} broke its contract: {what} raised {type(error).__name__}: {one_line(str(error))}"
        ) from error

    def _violation(self, what: str, found: str) -> TierError:
        return TierError(f"{self._title} broke its contract: {what} returned {found}")


class _PluginParts:
    """The parts of an object, with the error that they raised themselves."""

    def __init__(self, parts: Iterable[Buffer]) -> None:
        self._parts = parts
        self.error: BaseException | None = None

    def __iter__(self) -> Iterator[Buffer]:
        try:
            yield from self._parts
        except BaseException as error:
            self.error = error
            raise
