"""One registry for built-ins and plugins alike."""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Generic, NamedTuple, TypeVar

from kqueue.base.errors import PluginError
from kqueue.base.names import did_you_mean

T = TypeVar("T")
BUILT_IN = "kqueue"
LOOK_AGAIN_S = 5.0


class RegistryEntry(NamedTuple, Generic[T]):
    """Who stands in a registry: the thing, its name and number, and who brought it.

    origin: `BUILT_IN`, an installed distribution with its version, or who added it while the
    program runs (settings, a broker).
    """

    name: str
    value: T
    id: int | None
    origin: str

    def title(self, noun: str) -> str:
        """Who this is, for messages: ``codec 'isal' of kqueue-codec-isal 0.1.0``."""
        return f"{noun} {self.name!r} of {self.origin}"


class PluginSource(NamedTuple):
    """Where a plugin is written: the module and name of its class or function. `title`: the plugin,
    for messages.
    """

    title: str
    module: str
    qualname: str


@dataclass(slots=True)
class TemporaryEntry(Generic[T]):
    """What was added for a while: the thing as it was given, and the `module:object` where another
    process finds it, if that is known.
    """

    entry: RegistryEntry[T]
    path: str | None
    count: int = 0


PluginWrapper = Callable[[T, RegistryEntry[T]], T]
"""Looks at what is not built in, and wraps it, so that its mistakes carry its name. Raises
PluginError: it lacks what it needs.
"""


class Registry(Generic[T]):
    """Named things of one contract, e.g. the codecs; plugins join through the entry-point `group`,
    each loaded on first need.

    A name or id that is taken raises and says who holds it; but a plugin may have the id of a
    built-in: it waits under its own name to be `preferred`. A plugin that fails to load is kept in
    `failed`, with its distribution and error, and raises only when it is asked for by name. The
    registry belongs to the process: several brokers may add to it, each in its own thread.
    """

    def __init__(self, group: str, noun: str, *, guard: PluginWrapper[T] | None = None) -> None:
        self.group = group
        self.noun = noun
        self.failed: dict[str, str] = {}
        self._guard = guard
        self._lock = threading.RLock()
        self._points: list[metadata.EntryPoint] | None = None  # not loaded yet; None: not looked for
        self._now_installed: dict[str, metadata.EntryPoint] = {}
        self._looked_s: float | None = None
        self._entries: dict[str, RegistryEntry[T]] = {}
        self._guests: dict[str, TemporaryEntry[T]] = {}
        self._preferred: dict[str, int] = {}  # how often each was asked for
        self._lost: dict[int, str] = {}
        self._sources: dict[tuple[str, str], PluginSource] = {}
        # made from those above, and replaced as a whole, so that who reads needs no lock
        self._by_name: dict[str, RegistryEntry[T]] = {}
        self._by_id: dict[int, RegistryEntry[T]] = {}

    # --- looking up

    def get(self, name: str) -> T:
        """The thing of this name. Imports no module but an installed plugin's of just this name.

        Raises PluginError: unknown (with the nearest name), or its plugin failed to load.
        """
        return self.entry(name).value

    def entry(self, name: str) -> RegistryEntry[T]:
        """Who serves this name; another than its own where one is preferred. Raises: as `get`."""
        if name not in self._by_name:
            self._load(name)
        found = self._by_name.get(name)
        if found is None:
            raise self._unknown(name)
        return found

    def by_id(self, id: int) -> T | None:
        """The thing with this number; None when nobody has it. Raises PluginError: who should serve
        it here was `lost`.
        """
        found = self._by_id.get(id)
        if found is not None:
            return found.value
        if id in self._lost:
            raise PluginError(self._lost[id])
        self._load()
        found = self._by_id.get(id)
        return found.value if found else None

    def find(self, name_or_path: str) -> T:
        """The thing of this name, or what `module:object` leads to, which is imported: for the
        operator's own words alone (settings, command line, Python), never for what came over the
        network.

        Raises PluginError: as `get`; the module can't be imported, has no such object, or that is
        not what it should be.
        """
        if ":" not in name_or_path:
            return self.get(name_or_path)
        raw = import_object(name_or_path, self.noun)
        return self.guarded(name_of(raw) or name_or_path, raw, name_or_path)

    def guarded(self, name: str, value: T, origin: str) -> T:
        """`value` as it would stand here if it were added, without adding it. Raises PluginError:
        it is not what it should be.
        """
        return self._guarded(RegistryEntry(name, value, _id_of(value), origin)).value

    def __iter__(self) -> Iterator[RegistryEntry[T]]:
        """All there are, each under its own name, the built-ins first."""
        self._load()
        return iter(list(self._entries.values()))

    def names(self) -> list[str]:
        return sorted(entry.name for entry in self)

    def sources(self) -> list[PluginSource]:
        """Where the plugins are written that were met so far, also those that are gone again."""
        return list(self._sources.values())

    # --- joining

    def add(self, name: str, value: T, *, id: int | None = None, origin: str = BUILT_IN) -> None:
        """Register `value` for good. Raises PluginError: the name or the id is taken, or it is not
        what it should be.
        """
        self._register(RegistryEntry(name, value, id, origin))

    @contextmanager
    def added(self, name: str, value: T, origin: str, *, path: str | None = None) -> Iterator[None]:
        """Have `value` here for as long as the `with` lasts, e.g. a broker's life. Its `id`, if it
        has one, waits to be `preferred`.

        The same object may be added several times. `path`: the `module:object` under which another
        process finds it. Raises PluginError: another has the name (says who), or `value` is not
        what it should be.
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
        """Serve the id of `name`, and the name of who holds that id, by this one for as long as the
        `with` lasts.

        Raises PluginError: unknown, it has no id, or another is preferred for it now (says who).
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
        """Have `sources` tell of this plugin."""
        definition: Any = value if hasattr(value, "__qualname__") else type(value)
        module, qualname = str(definition.__module__), str(definition.__qualname__)
        self._sources[module, qualname] = PluginSource(title, module, qualname)

    # --- another process

    def temporary_entries(self) -> list[TemporaryEntry[T]]:
        """What was added for a while, as it was given: another process does not find it by itself."""
        with self._lock:
            return list(self._guests.values())

    def preferences(self) -> list[RegistryEntry[T]]:
        """Who is preferred now."""
        with self._lock:
            return [self._entries[name] for name in self._preferred]

    def lost(self, name: str, id: int | None, why: str) -> None:
        """In another process: `name` could not come along. Who asks for it, or for its number,
        hears `why` as PluginError.
        """
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
                    f"{self.noun} {entry.name!r} of {entry.origin} can't serve id {entry.id}: {rival.name!r} of {rival.origin} is "
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
        """Load the plugins of this name, or all."""
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
        except (Exception, SystemExit) as error:  # a plugin may fail in any way; the broker goes on without it
            self.failed[point.name] = f"{origin} failed to load: {type(error).__name__}: {error}"

    def _unknown(self, name: str) -> PluginError:
        if name in self.failed:
            return PluginError(f"{self.noun} {name!r} can't be used: {self.failed[name]}")
        installed = self._installed_since().get(name)
        if installed is not None:
            return PluginError(
                f"{self.noun} {name!r} of {_origin(installed)} was installed while this process ran: restart the broker to use it"
            )
        there = sorted({*self._by_name, *(point.name for point in self._points or ())})
        return PluginError(
            f"no {self.noun} is called {name!r:.300}{did_you_mean(name, there)} (there are: {', '.join(there)})"
        )

    def _installed_since(self) -> dict[str, metadata.EntryPoint]:
        """RegistryEntry points, by name, that the first look at them did not see. Strangers may ask, so it
        looks anew every few seconds only.
        """
        with self._lock:
            now_s = time.monotonic()
            if self._looked_s is None or now_s >= self._looked_s + LOOK_AGAIN_S:
                self._looked_s = now_s
                self._now_installed = {point.name: point for point in metadata.entry_points(group=self.group)}
            return self._now_installed


def _origin(point: metadata.EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown distribution"


def _id_of(value: object) -> int | None:
    id = getattr(value, "id", None)
    return id if isinstance(id, int) else None


def name_of(value: object) -> str | None:
    """The name that the object has by itself, None if it has none."""
    name = getattr(value, "name", None)
    return name if isinstance(name, str) and name else None


def import_object(path: str, noun: str) -> Any:
    """The object at `module:object`; for the operator's own words alone. Raises PluginError: there
    is none; says why, and what to do.
    """
    module_name, _, inside = path.partition(":")
    if not module_name or not inside:
        raise PluginError(f"{noun} {path!r}: expected a name, or a path like package.module:object")
    try:
        found: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a module may fail in any way
        raise PluginError(
            f"{noun} {path!r}: module {module_name!r} can't be imported: {type(error).__name__}: {error}; "
            "if it is not installed, name its folder in PYTHONPATH"
        ) from error
    for part in inside.split("."):
        holder = found
        try:
            found = getattr(holder, part)
        except Exception as error:
            raise PluginError(
                f"{noun} {path!r}: {module_name!r} has no {inside!r}{did_you_mean(part, dir(holder))}"
            ) from error
    return found
