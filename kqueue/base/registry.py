"""One registry for built-ins and plugins alike."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from typing import Generic, NamedTuple, TypeVar

from kqueue.base.errors import PluginError
from kqueue.base.names import did_you_mean

T = TypeVar("T")
BUILT_IN = "kqueue"


class Entry(NamedTuple, Generic[T]):
    """Who stands in a registry: the thing, its name and number, and the distribution that brought it."""

    name: str
    value: T
    id: int | None
    distribution: str


class Registry(Generic[T]):
    """Named things of one contract, e.g. the codecs; plugins join through the entry-point `group`, read on first need.

    A name or id that is taken raises and says who holds it. A plugin that fails to import is kept in `failed`, with
    its distribution and error, and raises only when it is asked for by name.
    """

    def __init__(self, group: str, noun: str) -> None:
        self.group = group
        self.noun = noun
        self.failed: dict[str, str] = {}
        self._entries: dict[str, Entry[T]] = {}
        self._by_id: dict[int, Entry[T]] = {}
        self._plugins_read = False

    def add(self, name: str, value: T, *, id: int | None = None, distribution: str = BUILT_IN) -> None:
        """Register `value`. Raises PluginError: the name or the id is taken."""
        holder = self._entries.get(name) or (self._by_id.get(id) if id is not None else None)
        if holder is not None:
            raise PluginError(
                f"{self.noun} {name!r} (id {id}) of {distribution}: name or id is already held by {holder.name!r} of {holder.distribution}"
            )
        entry = Entry(name, value, id, distribution)
        self._entries[name] = entry
        if id is not None:
            self._by_id[id] = entry

    def get(self, name: str) -> T:
        """The thing of this name. Raises PluginError: unknown (with the nearest name), or its plugin failed to load."""
        if name not in self._entries:
            self._read_plugins()
        if name not in self._entries:
            if name in self.failed:
                raise PluginError(f"{self.noun} {name!r} can't be used: {self.failed[name]}")
            there = ", ".join(sorted(self._entries))
            raise PluginError(f"no {self.noun} is called {name!r}{did_you_mean(name, self._entries)} (there are: {there})")
        return self._entries[name].value

    def by_id(self, id: int) -> T | None:
        """The thing with this number; None when nobody has it."""
        entry = self._by_id.get(id)
        if entry is None and not self._plugins_read:
            self._read_plugins()
            entry = self._by_id.get(id)
        return entry.value if entry else None

    def __iter__(self) -> Iterator[Entry[T]]:
        self._read_plugins()
        return iter(list(self._entries.values()))

    def names(self) -> list[str]:
        return sorted(entry.name for entry in self)

    def _read_plugins(self) -> None:
        if self._plugins_read:
            return
        self._plugins_read = True
        for point in metadata.entry_points(group=self.group):
            distribution = f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown distribution"
            try:
                value = point.load()
                self.add(point.name, value, id=getattr(value, "id", None), distribution=distribution)
            except Exception as error:  # a plugin may fail in any way; the broker goes on without it
                self.failed[point.name] = f"{distribution} failed to load: {type(error).__name__}: {error}"
