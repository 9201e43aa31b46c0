"""Settings as rows. Each layer declares the rows that it reads; help, DescribeConfigs and checks
are derived from them.

A topic-level row names the broker-level settings of its default (`segment.bytes` <-
`log.segment.bytes`); the rows of those are derived from it.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kqueue.base.errors import SettingError
from kqueue.base.names import did_you_mean

KiB = 1024
MiB = 1024 * KiB
GiB = 1024 * MiB
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
LONG_MIN = -(2**63)


class SettingType(enum.Enum):
    """Type of a setting; the value is its ConfigType in DescribeConfigs. Source: Kafka
    ConfigDef.Type.
    """

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Scope(enum.Enum):
    """Whether a setting is the broker's or a topic's."""

    BROKER = "broker"
    TOPIC = "topic"


class Validator(NamedTuple):
    """A condition for values, and its description for messages (``at least 1``)."""

    description: str
    accepts: Callable[[Any], bool]


ANY = Validator("any value", lambda value: True)


def at_least(low: float) -> Validator:
    """Accept numbers from `low` on."""
    return Validator(f"at least {low}", lambda value: value >= low)


def between(low: float, high: float) -> Validator:
    """Accept numbers from `low` to `high`, both included."""
    return Validator(f"from {low} to {high}", lambda value: low <= value <= high)


def one_of(*values: str) -> Validator:
    """Accept these texts."""
    return Validator(f"one of {', '.join(values)}", lambda value: value in values)


class Synonym(NamedTuple):
    """A broker-level setting that gives a topic-level default: its value times `factor`."""

    name: str
    factor: int = 1


@dataclass(frozen=True, slots=True)
class Setting:
    """One row.

    Attributes:
        default: a value, or None where unset has a meaning of its own (see `doc`).
        synonyms: of a topic row, the broker-level names; the first one that is set wins, the last
            one carries the default.
        without_effect: the value is kept and shown only. A value other than the default logs a
            warning.
    """

    name: str
    kind: SettingType
    default: Any
    valid: Validator
    scope: Scope
    doc: str
    synonyms: tuple[Synonym, ...] = ()
    without_effect: bool = False

    @property
    def is_secret(self) -> bool:
        """Whether messages, logs and responses never contain the value."""
        return self.kind is SettingType.PASSWORD or is_secret(self.name)

    def parse(self, value: object) -> Any:
        """Return the typed value of a text, or of a Python value. None stays None.

        Raises: SettingError: with what was expected.
        """
        if value is None:
            return None
        try:
            parsed = _PARSERS[self.kind](value)
        except (ValueError, TypeError):
            raise self._wrong(value) from None
        if not self.valid.accepts(parsed):
            raise self._wrong(value)
        return parsed

    def _wrong(self, value: object) -> SettingError:
        shown = self.name if self.is_secret else f"{self.name}={value!r}"
        return SettingError(f"{shown}: expected {_KIND_WORDS[self.kind]}, {self.valid.description}")


_SECRET = re.compile(
    r"password|passphrase|secret|token|credential|jaas|private\.key|(?:^|\.)key$|(?:key|trust)store\.(?:key|certificate)",
    re.IGNORECASE,
)


def is_secret(name: str) -> bool:
    """Return whether a setting of this name may hold a secret, so that its value is never shown.

    True for all of Kafka's settings of type PASSWORD. Values of unknown settings are never shown.
    """
    return _SECRET.search(name) is not None


def format_value(value: Any) -> str | None:
    """Return a value as Kafka writes it in DescribeConfigs; None stays None."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value)
    return str(value)


def _parse_bool(value: object) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def _parse_int(low: int, high: int) -> Callable[[object], int]:
    def parse(value: object) -> int:
        if isinstance(value, (bool, float)):
            raise ValueError(value)
        number = int(str(value).strip())
        if not low <= number <= high:
            raise ValueError(number)
        return number

    return parse


def _parse_list(value: object) -> list[str]:
    if isinstance(value, (list, tuple)):
        return [str(item) for item in value]
    text = str(value).strip().removeprefix("[").removesuffix("]")
    return [item.strip() for item in text.split(",") if item.strip()]


def _parse_text(value: object) -> str:
    return str(value).strip()


_PARSERS: dict[SettingType, Callable[[object], Any]] = {
    SettingType.BOOLEAN: _parse_bool,
    SettingType.STRING: _parse_text,
    SettingType.SHORT: _parse_int(-(2**15), 2**15 - 1),
    SettingType.INT: _parse_int(-(2**31), INT_MAX),
    SettingType.LONG: _parse_int(LONG_MIN, LONG_MAX),
    SettingType.DOUBLE: lambda value: float(str(value)),
    SettingType.LIST: _parse_list,
    SettingType.CLASS: _parse_text,
    SettingType.PASSWORD: _parse_text,
}
_KIND_WORDS: dict[SettingType, str] = {
    SettingType.BOOLEAN: "true or false",
    SettingType.STRING: "text",
    SettingType.SHORT: "a 16-bit number",
    SettingType.INT: "a 32-bit number",
    SettingType.LONG: "a 64-bit number",
    SettingType.DOUBLE: "a number",
    SettingType.LIST: "a comma-separated list",
    SettingType.CLASS: "a class name",
    SettingType.PASSWORD: "text",
}


class Catalog:
    """All rows of a broker, by scope (`topic`, `broker`) and name. A name may be in both scopes
    (`min.insync.replicas`).
    """

    def __init__(self, *tables: Iterable[Setting]) -> None:
        self.topic: dict[str, Setting] = {}
        self.broker: dict[str, Setting] = {}
        for table in tables:
            for row in table:
                self._add(row)

    def _add(self, row: Setting) -> None:
        rows = self.topic if row.scope is Scope.TOPIC else self.broker
        assert row.name not in rows, f"setting {row.name} is declared twice"
        rows[row.name] = row
        for synonym in row.synonyms:
            self._add(_broker_row(row, synonym, last=synonym is row.synonyms[-1]))

    def find(self, name: str, scope: Scope, also_known: Iterable[str] = ()) -> Setting:
        """Return the row of this name. Raises: SettingError: with the nearest of all names and
        `also_known`.
        """
        rows = self.topic if scope is Scope.TOPIC else self.broker
        if name not in rows:
            problem = (
                f"Unknown topic config name: {name}"
                if scope is Scope.TOPIC
                else f"no {scope.value} setting is called {name!r}"
            )
            raise SettingError(f"{problem}{did_you_mean(name, [*rows, *also_known])}")
        return rows[name]


def _broker_row(row: Setting, synonym: Synonym, *, last: bool) -> Setting:
    default = row.default
    if not last:
        default = None
    elif synonym.factor != 1 and default is not None:
        default //= synonym.factor
    valid = row.valid if synonym.factor == 1 else Validator("a whole number", lambda value: isinstance(value, int))
    kind = row.kind if synonym.factor == 1 else SettingType.INT
    doc = f"Default of the topics' {row.name}. {row.doc}"
    return Setting(synonym.name, kind, default, valid, Scope.BROKER, doc, without_effect=row.without_effect)


class ConfigSource(enum.Enum):
    """Where a value comes from; the number is its ConfigSource in DescribeConfigs."""

    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5


class ResolvedValue(NamedTuple):
    """A value and its source; `name` is the setting that gives it, possibly a synonym."""

    name: str
    value: Any
    source: ConfigSource


class Config:
    """The broker-level values of one broker: set values over the catalog's defaults. Immutable.

    Raises: SettingError on construction: unknown name or invalid value.
    """

    def __init__(self, catalog: Catalog, values: Mapping[str, object] | None = None) -> None:
        self.catalog = catalog
        self._set: dict[str, Any] = {
            name: catalog.find(name, Scope.BROKER).parse(value) for name, value in (values or {}).items()
        }

    def __getitem__(self, name: str) -> Any:
        """Return the value. A name that no layer declares is a bug (KeyError)."""
        value = self._set.get(name)
        return self.catalog.broker[name].default if value is None else value

    def is_set(self, name: str) -> bool:
        """Return whether the setting has a value of its own."""
        return self._set.get(name) is not None

    def resolve(self, name: str) -> ResolvedValue:
        """Return the value and its source."""
        source = ConfigSource.STATIC_BROKER if self.is_set(name) else ConfigSource.DEFAULT
        return ResolvedValue(name, self[name], source)

    def __iter__(self) -> Iterator[str]:
        return iter(self.catalog.broker)

    def for_topic(self, overrides: Mapping[str, str | None]) -> TopicConfig:
        """Return the values of a topic with these overrides. Raises: SettingError: unknown name or
        invalid value.
        """
        return TopicConfig(self, overrides)


class TopicConfig:
    """Immutable values of one topic: overrides, else the broker's synonyms, else the defaults."""

    def __init__(self, broker: Config, overrides: Mapping[str, str | None]) -> None:
        self.broker = broker
        rows = broker.catalog
        self.overrides: dict[str, Any] = {
            name: rows.find(name, Scope.TOPIC).parse(value) for name, value in overrides.items() if value is not None
        }

    def __getitem__(self, name: str) -> Any:
        return self.chain(name)[0].value

    def __iter__(self) -> Iterator[str]:
        return iter(self.broker.catalog.topic)

    def chain(self, name: str) -> list[ResolvedValue]:
        """Return all values of this setting, the effective one first, the default last."""
        row = self.broker.catalog.topic[name]
        values = []
        if name in self.overrides:
            values.append(ResolvedValue(name, self.overrides[name], ConfigSource.TOPIC))
        for synonym in row.synonyms:
            if self.broker.is_set(synonym.name):
                value = self.broker[synonym.name]
                if synonym.factor != 1 and value > 0:  # a negative number means "no limit" whatever its unit
                    value *= synonym.factor
                values.append(ResolvedValue(synonym.name, value, ConfigSource.STATIC_BROKER))
        values.append(ResolvedValue(row.synonyms[-1].name if row.synonyms else name, row.default, ConfigSource.DEFAULT))
        return values
