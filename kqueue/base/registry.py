"""Registries of named implementations, built-in and from plugins."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Generic, NamedTuple, TypeVar

from kqueue.base.clock import monotonic_s
from kqueue.base.errors import PluginError
from kqueue.base.names import did_you_mean

T = TypeVar("T")
BUILT_IN = "kqueue"
RESCAN_INTERVAL_S = 5.0


class RegistryEntry(NamedTuple, Generic[T]):
    """One implementation in a registry.

    Attributes:
        id: its number in the protocol or in files; None if it has none.
        origin: `BUILT_IN`, a distribution with its version, or what added it at run time (settings,
            a broker).
    """

    name: str
    value: T
    id: int | None
    origin: str

    def title(self, noun: str) -> str:
        """Return how messages name it: ``codec 'isal' of kqueue-codec-isal 0.1.0``."""
        return f"{noun} {self.name!r} of {self.origin}"


class PluginSource(NamedTuple):
    """Module and qualified name of a plugin's class or function; `title` names it in messages."""

    title: str
    module: str
    qualname: str


@dataclass(slots=True)
class TemporaryEntry(Generic[T]):
    """An implementation that is registered for a limited time, e.g. for a broker's life.

    Attributes:
        path: the `module:object` by which another process imports it; None if unknown.
        count: how often it is added now.
    """

    entry: RegistryEntry[T]
    path: str | None
    count: int = 0


PluginWrapper = Callable[[T, RegistryEntry[T]], T]
"""Checks a plugin and wraps it, so that its errors name it. Built-ins are not wrapped.

Raises: PluginError: the plugin lacks a required attribute or method.
"""


class Registry(Generic[T]):
    """Implementations of one contract by name, e.g. the codecs.

    Plugins register through the entry-point `group`; each is loaded on first use. A name or id
    that is in use raises PluginError with its holder. Exception: a plugin may have the id of a
    built-in; it serves that id only while it is `preferred`. A plugin that fails to load is listed
    in `failed`, and raises only when it is looked up by name.

    Thread: one registry per process; brokers of several threads may add to it.
    """

    def __init__(self, group: str, noun: str, *, guard: PluginWrapper[T] | None = None) -> None:
        self.group = group
        self.noun = noun
        self.failed: dict[str, str] = {}
        self._guard = guard
        self._lock = threading.RLock()
        self._points: list[metadata.EntryPoint] | None = None  # not loaded yet; None: not scanned yet
        self._now_installed: dict[str, metadata.EntryPoint] = {}
        self._looked_s: float | None = None
        self._entries: dict[str, RegistryEntry[T]] = {}
        self._guests: dict[str, TemporaryEntry[T]] = {}
        self._preferred: dict[str, int] = {}  # name -> how many callers prefer it
        self._lost: dict[int, str] = {}
        self._sources: dict[tuple[str, str], PluginSource] = {}
        # derived from the tables above and replaced as a whole, so readers need no lock
        self._by_name: dict[str, RegistryEntry[T]] = {}
        self._by_id: dict[int, RegistryEntry[T]] = {}

    # --- looking up

    def get(self, name: str) -> T:
        """Return the implementation of this name. Imports only an installed plugin of this name.

        Raises: PluginError: unknown (with the nearest name), or its plugin failed to load.
        """
        return self.entry(name).value

    def entry(self, name: str) -> RegistryEntry[T]:
        """Return the entry that serves this name, possibly a preferred one. Raises: as `get`."""
        if name not in self._by_name:
            self._load(name)
        known = self._by_name.get(name)
        if known is None:
            raise self._unknown(name)
        return known

    def by_id(self, id: int) -> T | None:
        """Return the implementation with this id, or None. Raises: PluginError: it was `lost`."""
        entry = self._by_id.get(id)
        if entry is not None:
            return entry.value
        if id in self._lost:
            raise PluginError(self._lost[id])
        self._load()
        entry = self._by_id.get(id)
        return entry.value if entry else None

    def find(self, name_or_path: str) -> T:
        """Return the implementation of this name, or import the one at `module:object`.

        Only for names from the operator (settings, command line, Python), never from the network:
        a path imports any module.

        Raises: PluginError: as `get`; the module can't be imported, has no such object, or the
            object does not fulfil the contract.
        """
        if ":" not in name_or_path:
            return self.get(name_or_path)
        raw = import_object(name_or_path, self.noun)
        return self.guarded(name_of(raw) or name_or_path, raw, name_or_path)

    def guarded(self, name: str, value: T, origin: str) -> T:
        """Return `value` checked and wrapped as `add` does, without adding it.

        Raises: PluginError: it does not fulfil the contract.
        """
        return self._guarded(RegistryEntry(name, value, _id_of(value), origin)).value

    def __iter__(self) -> Iterator[RegistryEntry[T]]:
        """Iterate over all entries, built-ins first."""
        self._load()
        return iter(list(self._entries.values()))

    def names(self) -> list[str]:
        """Return the names of all entries, sorted."""
        return sorted(entry.name for entry in self)

    def sources(self) -> list[PluginSource]:
        """Return the sources of all plugins registered so far, also of those removed again."""
        return list(self._sources.values())

    # --- joining

    def add(self, name: str, value: T, *, id: int | None = None, origin: str = BUILT_IN) -> None:
        """Register `value` permanently.

        Raises: PluginError: the name or the id is in use, or `value` does not fulfil the contract.
        """
        self._register(RegistryEntry(name, value, id, origin))

    @contextmanager
    def added(self, name: str, value: T, origin: str, *, path: str | None = None) -> Iterator[None]:
        """Register `value` within the `with` block; it serves its id only while it is `preferred`.

        The same object may be added several times.

        Args:
            path: the `module:object` by which another process imports it.
        Raises: PluginError: the name is in use, or `value` does not fulfil the contract.
        """
        with self._lock:
            self._load(name)
            guest = self._guests.get(name)
            if guest is None or guest.entry.value is not value:
                entry = RegistryEntry(name, value, _id_of(value), origin)
                self._register(entry, waits=True)
                guest = self._guests[name] = TemporaryEntry(entry, path)
            guest.count += 1
        try:
            yield
        finally:
            with self._lock:
                guest.count -= 1
                if not guest.count:
                    del self._guests[name], self._entries[name]
                    self._index()

    @contextmanager
    def preferred(self, name: str) -> Iterator[None]:
        """Within the `with` block, `name` serves its id, and the name of the id's other holder.

        Raises: PluginError: unknown, without an id, or another one is preferred for the id now.
        """
        with self._lock:
            self._load(name)
            entry = self._entries.get(name)
            if entry is None:
                raise self._unknown(name)
            self._check_no_rival(entry)
            self._preferred[name] = self._preferred.get(name, 0) + 1
            self._index()
        try:
            yield
        finally:
            with self._lock:
                self._preferred[name] -= 1
                if not self._preferred[name]:
                    del self._preferred[name]
                self._index()

    def met(self, value: object, title: str) -> None:
        """Add this plugin to `sources`."""
        definition: Any = value if hasattr(value, "__qualname__") else type(value)
        module, qualname = str(definition.__module__), str(definition.__qualname__)
        self._sources[module, qualname] = PluginSource(title, module, qualname)

    # --- another process

    def temporary_entries(self) -> list[TemporaryEntry[T]]:
        """Return what was added at run time: another process can't find it by itself."""
        with self._lock:
            return list(self._guests.values())

    def preferences(self) -> list[RegistryEntry[T]]:
        """Return the preferred entries."""
        with self._lock:
            return [self._entries[name] for name in self._preferred]

    def lost(self, name: str, id: int | None, why: str) -> None:
        """In a worker process: `name` was not importable. Lookups of it or its id raise `why`."""
        with self._lock:
            self.failed[name] = why
            if id is not None:
                self._lost[id] = why
                self._index()

    # --- inside

    def _register(self, entry: RegistryEntry[T], *, waits: bool = False) -> None:
        with self._lock:
            holder = self._entries.get(entry.name)
            if holder is None and entry.id is not None:
                holder = next((one for one in self._entries.values() if one.id == entry.id), None)
                if waits or (holder is not None and holder.origin == BUILT_IN != entry.origin):
                    holder = None
            if holder is not None:
                raise PluginError(
                    f"{self.noun} {entry.name!r} (id {entry.id}) of {entry.origin}: name or id is already held by "
                    f"{holder.name!r} of {holder.origin}; give it another, or leave one of the two out"
                )
            self._entries[entry.name] = self._guarded(entry)
            self._index()

    def _guarded(self, entry: RegistryEntry[T]) -> RegistryEntry[T]:
        if entry.origin != BUILT_IN:
            self.met(entry.value, entry.title(self.noun))
        if self._guard is None or entry.origin == BUILT_IN:
            return entry
        return entry._replace(value=self._guard(entry.value, entry))

    def _check_no_rival(self, entry: RegistryEntry[T]) -> None:
        if entry.id is None:
            raise PluginError(
                f"{self.noun} {entry.name!r} of {entry.origin} can't be preferred: it has no id that it could serve"
            )
        for name in self._preferred:
            rival = self._entries[name]
            if rival.id == entry.id and rival is not entry:
                raise PluginError(
                    f"{self.noun} {entry.name!r} of {entry.origin} can't serve id {entry.id}: {rival.name!r} of "
                    f"{rival.origin} is "
                    "preferred for it in this process already; name one of them, or stop the other broker first"
                )

    def _index(self) -> None:
        by_name, by_id = dict(self._entries), dict[int, RegistryEntry[T]]()
        for entry in self._entries.values():
            if entry.id is not None:
                by_id.setdefault(entry.id, entry)
        for entry in map(self._entries.__getitem__, self._preferred):
            assert entry.id is not None, "only what has an id is preferred"
            by_name[by_id[entry.id].name] = entry
            by_id[entry.id] = entry
        for id in self._lost:
            by_id.pop(id, None)
        self._by_name, self._by_id = by_name, by_id

    def _load(self, name: str | None = None) -> None:
        """Load the plugin of this name, or all plugins."""
        with self._lock:
            if self._points is None:
                self._points = list(metadata.entry_points(group=self.group))
            wanted = [point for point in self._points if name in (None, point.name)]
            self._points = [point for point in self._points if point not in wanted]
            for point in wanted:
                self._load_point(point)

    def _load_point(self, point: metadata.EntryPoint) -> None:
        origin = _origin(point)
        try:
            value = point.load()
            self.add(point.name, value, id=_id_of(value), origin=origin)
        except (Exception, SystemExit) as error:  # a plugin may raise anything; the broker runs without it
            self.failed[point.name] = f"{origin} failed to load: {type(error).__name__}: {error}"

    def _unknown(self, name: str) -> PluginError:
        if name in self.failed:
            return PluginError(f"{self.noun} {name!r} can't be used: {self.failed[name]}")
        installed = self._installed_since().get(name)
        if installed is not None:
            return PluginError(
                f"{self.noun} {name!r} of {_origin(installed)} was installed while this process ran: restart the "
                "broker to use it"
            )
        there = sorted({*self._by_name, *(point.name for point in self._points or ())})
        return PluginError(
            f"no {self.noun} is called {name!r:.300}{did_you_mean(name, there)} (there are: {', '.join(there)})"
        )

    def _installed_since(self) -> dict[str, metadata.EntryPoint]:
        """Return entry points, by name, that were installed since the first scan.

        Remote clients can trigger this, so it scans again only every few seconds.
        """
        with self._lock:
            now_s = monotonic_s()
            if self._looked_s is None or now_s >= self._looked_s + RESCAN_INTERVAL_S:
                self._looked_s = now_s
                self._now_installed = {point.name: point for point in metadata.entry_points(group=self.group)}
            return self._now_installed


def _origin(point: metadata.EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown distribution"


def _id_of(value: object) -> int | None:
    id = getattr(value, "id", None)
    return id if isinstance(id, int) else None


def name_of(value: object) -> str | None:
    """Return the object's own `name`, or None."""
    name = getattr(value, "name", None)
    return name if isinstance(name, str) and name else None


def import_object(path: str, noun: str) -> Any:
    """Return the object at `module:object`; only for paths from the operator.

    Raises: PluginError: it can't be imported; says why, and what to do.
    """
    module_name, _, inside = path.partition(":")
    if not module_name or not inside:
        raise PluginError(f"{noun} {path!r}: expected a name, or a path like package.module:object")
    try:
        imported: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a module may raise anything
        raise PluginError(
            f"{noun} {path!r}: module {module_name!r} can't be imported: {type(error).__name__}: {error}; "
            "if it is not installed, name its folder in PYTHONPATH"
        ) from error
    for part in inside.split("."):
        holder = imported
        try:
            imported = getattr(holder, part)
        except Exception as error:
            raise PluginError(
                f"{noun} {path!r}: {module_name!r} has no {inside!r}{did_you_mean(part, dir(holder))}"
            ) from error
    return imported
