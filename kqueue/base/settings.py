"""Settings as rows. Each layer declares the rows that it reads; help, DescribeConfigs and checks
are derived from them.

A topic-level row names the broker-level settings of its default (`segment.bytes` <-
`log.segment.bytes`); the rows of those are derived from it.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from kqueue.base.errors import SettingError
from kqueue.base.names import did_you_mean

KiB: Final = 1024
MiB: Final = 1024 * KiB
GiB = 1024 * MiB
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
LONG_MIN = -(2**63)
SHOWN_LENGTH_MAX = 200


class SettingType(enum.Enum):
    """Type of a setting; the value is its ConfigType in DescribeConfigs. Source: Kafka
    ConfigDef.Type.
    """

    UNKNOWN = 0  # of a name that nobody declares; its value may be a secret
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
    """The kinds of resource that a setting can belong to."""

    BROKER = "broker"
    TOPIC = "topic"
    GROUP = "group"
    CLIENT_METRICS = "client-metrics"


class UpdateMode(enum.Enum):
    """The ways in which a broker setting can change at run time. Source: the update modes in
    Kafka's docs.

    READ_ONLY: at a start only. PER_BROKER: for one broker. CLUSTER_WIDE: for all, and for one.
    """

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Prefix(enum.Enum):
    """The kinds of prefix with which a name overrides a broker setting. Source: Kafka's
    ListenerName.

    LISTENER: ``listener.name.{listener}.{name}``. MECHANISM: besides,
    ``listener.name.{listener}.{mechanism}.{name}``. Listener and mechanism are in lower case.
    """

    NONE = "none"
    LISTENER = "listener"
    MECHANISM = "mechanism"


_PREFIXED = re.compile(r"listener\.name\.(?P<listener>[a-z0-9_-]+)\.(?P<rest>.+)")


def _no_words(value: Any) -> str:
    return ""


def _whole(value: Any) -> Any:
    return value


class Validator(NamedTuple):
    """A condition for values.

    Attributes:
        description: of what it accepts, for messages: ``at least 1``.
        refusal: Kafka's words about a value that it does not accept; empty: Kafka has none. Scripts
            look for them. Source: Kafka ConfigDef.Range, ValidString.
        shown: the part of the value that messages show.
        is_sentence: whether `refusal` is all that Kafka says.
    """

    description: str
    accepts: Callable[[Any], bool]
    refusal: Callable[[Any], str] = _no_words
    shown: Callable[[Any], Any] = _whole
    is_sentence: bool = False


ANY = Validator("any value", lambda value: True)


def at_least(low: float) -> Validator:
    """Accept numbers from `low` on."""
    return Validator(f"at least {low}", lambda value: value >= low, lambda value: f"Value must be at least {low}")


def between(low: float, high: float) -> Validator:
    """Accept numbers from `low` to `high`, both included."""

    def refusal(value: float) -> str:
        return f"Value must be no more than {high}" if value > high else f"Value must be at least {low}"

    return Validator(f"from {low} to {high}", lambda value: low <= value <= high, refusal)


def one_of(*values: str) -> Validator:
    """Accept these texts."""
    names = ", ".join(values)
    return Validator(f"one of {names}", lambda value: value in values, lambda value: f"String must be one of: {names}")


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
        dynamic: of a broker row; rows of other scopes can change at any time.
        cluster_only: it has an effect in a cluster only. On a single broker a value other than the
            default logs a warning.
        prefix: which prefixed names override it for single listeners.
    """

    name: str
    kind: SettingType
    default: Any
    valid: Validator
    scope: Scope
    doc: str
    synonyms: tuple[Synonym, ...] = ()
    without_effect: bool = False
    dynamic: UpdateMode = UpdateMode.READ_ONLY
    cluster_only: bool = False
    prefix: Prefix = Prefix.NONE

    @property
    def is_read_only(self) -> bool:
        """Whether a change takes a restart of the broker."""
        return self.scope is Scope.BROKER and self.dynamic is UpdateMode.READ_ONLY

    @property
    def is_secret(self) -> bool:
        """Whether messages, logs and responses never contain the value."""
        return self.kind in (SettingType.PASSWORD, SettingType.UNKNOWN) or is_secret(self.name)

    def parse(self, value: object) -> Any:
        """Return the typed value of a text, or of a Python value. None stays None.

        Raises: SettingError: with what was expected.
        """
        if value is None:
            return None
        try:
            parsed = _PARSERS[self.kind](value)
        except (ValueError, TypeError):
            raise self._wrong(value, _TYPE_REFUSALS.get(self.kind, "")) from None
        if not self.valid.accepts(parsed):
            refusal = self.valid.refusal(parsed)
            if self.valid.is_sentence:
                raise SettingError(f"{refusal}; expected {self.expected}")
            raise self._wrong(self.valid.shown(parsed), refusal)
        return parsed

    def is_of_type(self, value: object) -> bool:
        """Return whether a text, or a Python value, is of the type, valid or not."""
        try:
            _PARSERS[self.kind](value)
        except (ValueError, TypeError):
            return False
        return True

    @property
    def expected(self) -> str:
        """The values that it takes, for messages."""
        return f"{_KIND_WORDS[self.kind]}, {self.valid.description}"

    def _wrong(self, value: object, refusal: str) -> SettingError:
        """Return Kafka's sentence about a value, with its words `refusal`, and what is expected."""
        shown = "[hidden]" if self.is_secret else (format_value(value) or "")[:SHOWN_LENGTH_MAX]
        words = f"{refusal}; " if refusal else ""
        return SettingError(f"Invalid value {shown} for configuration {self.name}: {words}expected {self.expected}")


_SECRET = re.compile(
    r"password|passphrase|secret|token(?!\.(?:max\.lifetime|expiry|endpoint)\.)|credential(?!s\.client\.id$)|jaas|private\.key|(?:^|\.)key$|(?:key|trust)store\.(?:key|certificate)",
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
        text = str(value).strip()
        if _WHOLE.fullmatch(text) is None:
            raise ValueError(text)  # Python would read 5_000
        number = int(text)
        if not low <= number <= high:
            raise ValueError(number)
        return number

    return parse


def _parse_double(value: object) -> float:
    text = str(value).strip()
    if "_" in text:
        raise ValueError(text)
    return float(text)


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
    SettingType.DOUBLE: _parse_double,
    SettingType.LIST: _parse_list,
    SettingType.CLASS: _parse_text,
    SettingType.PASSWORD: _parse_text,
    SettingType.UNKNOWN: _parse_text,
}
_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
_TYPE_REFUSALS = {
    kind: f"Not a number of type {kind.name}"
    for kind in (SettingType.SHORT, SettingType.INT, SettingType.LONG, SettingType.DOUBLE)
} | {SettingType.BOOLEAN: "Expected value to be either true or false"}
"""Kafka's words about a text that is not of a type. Source: Kafka ConfigDef.parseType."""
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
    SettingType.UNKNOWN: "text",
}


UndeclaredSettings = Callable[[str], Setting | None]
"""Returns the row of a broker setting that is only stored and shown; None: an unknown name."""


def unknown_setting(name: str) -> Setting:
    """Return the row of a broker setting that nobody declares."""
    of_listener = _PREFIXED.fullmatch(name) is not None
    mode = UpdateMode.PER_BROKER if of_listener else UpdateMode.CLUSTER_WIDE
    doc = "Stored and shown only: kqueue does not know it."
    return Setting(name, SettingType.UNKNOWN, None, ANY, Scope.BROKER, doc, without_effect=True, dynamic=mode)


class Catalog:
    """All rows of a broker, by scope and name. A name may be in several scopes
    (`min.insync.replicas`).
    """

    def __init__(self, *tables: Iterable[Setting], undeclared: UndeclaredSettings | None = None) -> None:
        """Take the rows. `undeclared`: knows settings of Kafka that have no row."""
        self._undeclared = undeclared or (lambda name: None)
        self.topic: dict[str, Setting] = {}
        self.broker: dict[str, Setting] = {}
        self._scopes: dict[Scope, dict[str, Setting]] = {
            Scope.TOPIC: self.topic,
            Scope.BROKER: self.broker,
            Scope.GROUP: {},
            Scope.CLIENT_METRICS: {},
        }
        for table in tables:
            for row in table:
                self._add(row)

    def _add(self, row: Setting) -> None:
        rows = self._scopes[row.scope]
        assert row.name not in rows, f"setting {row.name} is declared twice"
        rows[row.name] = row
        for synonym in row.synonyms:
            self._add(_broker_row(row, synonym))

    def rows(self, scope: Scope) -> Mapping[str, Setting]:
        """Return the rows of a scope, by name."""
        return self._scopes[scope]

    def find(self, name: str, scope: Scope, also_known: Iterable[str] = ()) -> Setting:
        """Return the row of this name. Raises: SettingError: with the nearest of all names and
        `also_known`.
        """
        rows = self._scopes[scope]
        row = self.find_broker(name) if scope is Scope.BROKER else rows.get(name)
        if row is None:
            problem = (
                f"Unknown topic config name: {name}"
                if scope is Scope.TOPIC
                else f"no {scope.value} setting is called {name!r}"
            )
            raise SettingError(f"{problem}{did_you_mean(name, [*rows, *also_known])}")
        return row

    def find_any_broker(self, name: str) -> Setting:
        """Return the row of a broker setting; of a name that nobody declares one without effect,
        whose values are never shown. Kafka stores such names too, for its plugins.
        """
        row = self.find_broker(name) or self._undeclared(name)
        return unknown_setting(name) if row is None else row

    def find_broker(self, name: str) -> Setting | None:
        """Return the row of a broker setting, also of one listener (its default is None: the value
        that holds for all listeners); None: there is no such setting.
        """
        row = self.broker.get(name)
        if row is not None:
            return row
        match = _PREFIXED.fullmatch(name)
        if match is None:
            return None
        rest = match["rest"]
        row = self.broker.get(rest)
        if row is None or row.prefix is Prefix.NONE:
            row = self.broker.get(rest.partition(".")[2])
            if row is None or row.prefix is not Prefix.MECHANISM:
                return None
        return replace(row, name=name, default=None, prefix=Prefix.NONE)


def _broker_row(row: Setting, synonym: Synonym) -> Setting:
    default = row.default
    if synonym is not row.synonyms[-1]:
        default = None
    elif synonym.factor != 1 and default is not None:
        default //= synonym.factor
    valid = row.valid if synonym.factor == 1 else Validator("a whole number", lambda value: isinstance(value, int))
    kind = row.kind if synonym.factor == 1 else SettingType.INT
    doc = f"Default of the topics' {row.name}. {row.doc}"
    # as in Kafka, of several names for one default the first can change at run time
    dynamic = UpdateMode.CLUSTER_WIDE if synonym is row.synonyms[0] else UpdateMode.READ_ONLY
    effect = row.without_effect, dynamic, row.cluster_only
    return Setting(synonym.name, kind, default, valid, Scope.BROKER, doc, (), *effect)
