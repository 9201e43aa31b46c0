"""The values of settings: a broker's, from several sources, and a topic's over them."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kqueue.base.settings import Catalog, Scope


class ConfigSource(enum.Enum):
    """The source of a value; the number is its ConfigSource in DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


BROKER_SOURCES = (ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER, ConfigSource.STATIC_BROKER)
"""Sources of values at broker level, the strongest first."""


class ResolvedValue(NamedTuple):
    """A value and its source; `name` is the setting that gives it, possibly a synonym."""

    name: str
    value: Any
    source: ConfigSource


SlowCheck = Callable[[], None]
"""The part of a check that takes too long for the broker's thread: it runs in a job, touches
nothing that others change, and raises SettingError.
"""
ConfigCheck = Callable[["Config"], SlowCheck | None]
"""Called before a change with the new configuration. Raises SettingError to refuse it."""


class ConfigObserver(NamedTuple):
    """One `Config.observe`."""

    names: frozenset[str]
    apply: Callable[[], None]
    check: ConfigCheck | None


class Config:
    """The broker-level values of one broker: dynamic and static values over the catalog's defaults.

    A reader either reads a value whenever it needs it, or takes a copy and observes the name.

    Raises: SettingError on construction: unknown name or invalid value.
    """

    def __init__(self, catalog: Catalog, values: Mapping[str, object] | None = None) -> None:
        self.catalog = catalog
        static = {name: catalog.find(name, Scope.BROKER).parse(value) for name, value in (values or {}).items()}
        self._layers: dict[ConfigSource, Mapping[str, Any]] = {source: {} for source in BROKER_SOURCES}
        self._layers[ConfigSource.STATIC_BROKER] = {name: value for name, value in static.items() if value is not None}
        self._set: dict[str, Any] = self._merged()
        self._observers: list[ConfigObserver] = []

    def __getitem__(self, name: str) -> Any:
        """Return the value. A name that no layer declares is a bug (KeyError)."""
        value = self._set.get(name)
        return self.catalog.broker[name].default if value is None else value

    def of_listener(self, listener: str, name: str, mechanism: str | None = None) -> Any:
        """Return the value of a setting for a listener, and a SASL mechanism: that of the longest
        prefix that is set, else the one for all. See `Prefix`.
        """
        prefix = f"listener.name.{listener.lower()}"
        names = [f"{prefix}.{mechanism.lower()}.{name}"] if mechanism is not None else []
        for prefixed in (*names, f"{prefix}.{name}"):
            if (value := self._set.get(prefixed)) is not None:
                return value
        return self[name]

    def is_set(self, name: str) -> bool:
        """Return whether the setting has a value other than its default."""
        return name in self._set

    def set_by(self, source: ConfigSource) -> Mapping[str, Any]:
        """Return the values from one of `BROKER_SOURCES`, by name."""
        return self._layers[source]

    def chain(self, name: str) -> list[ResolvedValue]:
        """Return all values of this setting, the effective one first, the default last."""
        values = [ResolvedValue(name, layer[name], source) for source, layer in self._layers.items() if name in layer]
        return [*values, ResolvedValue(name, self.catalog.find_any_broker(name).default, ConfigSource.DEFAULT)]

    def __iter__(self) -> Iterator[str]:
        """Iterate over all declared names, and the names of single listeners that are set."""
        return iter({**self.catalog.broker, **self._set})

    def copy(self) -> Config:
        """Return a configuration with the same values and no observers."""
        copy = Config(self.catalog)
        copy._layers = dict(self._layers)
        copy._set = dict(self._set)
        return copy

    def observe(self, names: Iterable[str], apply: Callable[[], None], check: ConfigCheck | None = None) -> None:
        """Call `apply` after each change of one of these settings at run time."""
        self._observers.append(ConfigObserver(frozenset(names), apply, check))

    def check_dynamic(self, source: ConfigSource, values: Mapping[str, Any]) -> list[SlowCheck]:
        """Check the parsed values of a dynamic source as a whole; return what a job must check
        besides. Raises SettingError.
        """
        changed = self.copy()
        changed_names = changed.set_dynamic(source, values)
        slow = [
            observer.check(changed)
            for observer in self._observers
            if observer.check is not None and not observer.names.isdisjoint(changed_names)
        ]
        return [check for check in slow if check is not None]

    def set_dynamic(self, source: ConfigSource, values: Mapping[str, Any]) -> set[str]:
        """Replace the values of a dynamic source and call the observers.

        Args:
            values: parsed, by name.
        Returns: the names whose value in force has changed.
        """
        old = self._set
        self._layers[source] = dict(values)
        self._set = self._merged()
        changed = {name for name in old.keys() | self._set.keys() if old.get(name) != self._set.get(name)}
        for observer in self._observers:
            if not observer.names.isdisjoint(changed):
                observer.apply()
        return changed

    def _merged(self) -> dict[str, Any]:
        return {name: value for source in reversed(BROKER_SOURCES) for name, value in self._layers[source].items()}

    def for_topic(self, overrides: Mapping[str, Any]) -> TopicConfig:
        """Return the values of a topic with these overrides. Raises: SettingError: unknown name or
        invalid value.
        """
        return TopicConfig(self, overrides)


class TopicConfig:
    """The values of one topic: overrides, else the broker's synonyms, else the defaults.

    The overrides never change; what the broker gives is read at each use.
    """

    def __init__(self, broker: Config, overrides: Mapping[str, Any]) -> None:
        self.broker = broker
        rows = broker.catalog
        self.overrides: dict[str, Any] = {
            name: rows.find(name, Scope.TOPIC).parse(value) for name, value in overrides.items() if value is not None
        }

    def __getitem__(self, name: str) -> Any:
        return self.overrides[name] if name in self.overrides else self.chain(name)[0].value

    def __iter__(self) -> Iterator[str]:
        return iter(self.broker.catalog.topic)

    def chain(self, name: str) -> list[ResolvedValue]:
        """Return all values of this setting, the effective one first, the default last.

        Of the broker's names a stronger source counts before a name that comes first.
        """
        row = self.broker.catalog.topic[name]
        values = []
        if name in self.overrides:
            values.append(ResolvedValue(name, self.overrides[name], ConfigSource.TOPIC))
        for source in BROKER_SOURCES:
            layer = self.broker.set_by(source)
            for synonym in row.synonyms:
                if synonym.name in layer:
                    value = layer[synonym.name]
                    if synonym.factor != 1 and value > 0:  # a negative number means "no limit" whatever its unit
                        value *= synonym.factor
                    values.append(ResolvedValue(synonym.name, value, source))
        values.append(ResolvedValue(row.synonyms[-1].name if row.synonyms else name, row.default, ConfigSource.DEFAULT))
        return values
