"""The owners of dynamic settings: topics, brokers, groups, client metrics subscriptions.

A target knows the rows of its type, the values of each resource, how they are checked, and where
they are stored. It follows the records in the metadata store, whoever changed them. Topics keep
theirs in their own metadata record; the other types have one record per resource, with the values
as text.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from kqueue.base import events
from kqueue.base.config import Config, ConfigSource, SlowCheck
from kqueue.base.config_resources import ConfigOperation
from kqueue.base.errors import InvalidConfig, InvalidRequest, PolicyViolation, SettingError, StorageFailed
from kqueue.base.names import INTERNAL_TOPICS, check_topic, did_you_mean
from kqueue.base.settings import Scope, Setting, SettingType, UpdateMode, format_value
from kqueue.broker.config_changes import not_a_list
from kqueue.broker.metadata.cache import MetadataCache
from kqueue.broker.topics.topic_configs import check_configs
from kqueue.broker.topics.topics import PREFIX as TOPICS_PREFIX
from kqueue.broker.topics.topics import Topics
from kqueue.groups.config import GROUP_DEFAULT_NAMES
from kqueue.security.tls_config import KEY_SETTINGS
from kqueue.storage.sealing import Sealer

logger = logging.getLogger("kqueue.broker")
CONFIGS_PREFIX = "/configs/"
BROKERS_PREFIX = f"{CONFIGS_PREFIX}brokers/"
GROUPS_PREFIX = f"{CONFIGS_PREFIX}groups/"
CLIENT_METRICS_PREFIX = f"{CONFIGS_PREFIX}client-metrics/"
SEALED = "sealed"
"""The only member of the object that is stored in place of an encrypted value."""
DEFAULT_BROKER = "default"
"""Last part of the key of the defaults of all brokers; a broker's own key ends with its number."""
NAME_LENGTH_MAX = 1000
REPORTED_MAX = 1000
"""Names of settings without effect that a broker warns of."""
RESOURCES_MAX = 10_000
"""Resources of one type that have settings without existing otherwise: groups, client metrics."""


_OF_LISTENERS = frozenset(row.name for row in KEY_SETTINGS)
"""The settings that change at run time only with the prefix of a listener, as in Kafka."""


class CheckedValues(NamedTuple):
    """New values of a resource, parsed. `slow`: what a job must check before they are stored."""

    values: dict[str, Any]
    slow: Sequence[SlowCheck] = ()


class ConfigTarget(Protocol):
    """The settings of all resources of one type. `source`: of the resources' own values."""

    source: ConfigSource

    def find(self, name: str) -> Setting:
        """Return the row of a setting. Raises SettingError."""
        ...

    def not_a_list(self, name: str, operation: ConfigOperation) -> str:
        """Return Kafka's words about APPEND and SUBTRACT of a setting that is no list."""
        ...

    def own(self, resource: str) -> Mapping[str, Any]:
        """Return the parsed values of a resource. Raises RequestRefused: there is none."""
        ...

    def in_force(self, resource: str, row: Setting) -> Any:
        """Return the value that a resource without its own value has."""
        ...

    def check(self, resource: str, values: Mapping[str, Any]) -> CheckedValues:
        """Return new values of a resource, parsed. Raises SettingError, RequestRefused."""
        ...

    def record(self, resource: str, values: Mapping[str, Any]) -> tuple[str, bytes | None]:
        """Return key and value of the metadata record with these values; None: no record."""
        ...

    def names(self) -> list[str]:
        """Return the resources that have settings, sorted."""
        ...


class TopicTarget:
    """Topics; `own` is what `topics describe` shows."""

    source = ConfigSource.TOPIC

    def __init__(self, config: Config, topics: Topics) -> None:
        self._config = config
        self._topics = topics

    def find(self, name: str) -> Setting:
        """See `ConfigTarget`."""
        return self._config.catalog.find(name, Scope.TOPIC)

    def not_a_list(self, name: str, operation: ConfigOperation) -> str:
        """See `ConfigTarget`."""
        return not_a_list(name, operation)

    def own(self, resource: str) -> Mapping[str, Any]:
        """See `ConfigTarget`."""
        if not resource:
            raise InvalidRequest(
                "Default topic resources are not allowed.: expected the name of a topic, found an empty name: topics "
                "have no defaults of their own"
            )
        return self._topics.get(check_topic(resource)).config.overrides

    def in_force(self, resource: str, row: Setting) -> Any:
        """See `ConfigTarget`."""
        return self._config.for_topic({})[row.name]

    def check(self, resource: str, values: Mapping[str, Any]) -> CheckedValues:
        """See `ConfigTarget`; the checks are those of a new topic."""
        is_internal = resource in INTERNAL_TOPICS
        return CheckedValues(check_configs(self._config, values, self.own(resource), is_internal=is_internal).overrides)

    def record(self, resource: str, values: Mapping[str, Any]) -> tuple[str, bytes | None]:
        """See `ConfigTarget`."""
        return TOPICS_PREFIX + resource, self._topics.record_with(resource, values)

    def names(self) -> list[str]:
        """Return all topics: each has settings."""
        return self._topics.names()


class BrokerTarget:
    """This broker, by its id, and, under the empty name, the defaults of all brokers.

    Args: sealer: encrypts secrets of this broker where they are stored; None: they are stored as
        they are. Other brokers may have other keys, so the defaults of all are never encrypted.
    """

    source = ConfigSource.DYNAMIC_BROKER

    def __init__(self, config: Config, node_id: int, metadata: MetadataCache, sealer: Sealer | None = None) -> None:
        self._config = config
        self._sealer = sealer
        self._node_id = node_id
        self._metadata = metadata
        self._reported: set[str] = set()

    def load(self) -> None:
        """Put the stored values in force. A setting that no longer exists is skipped and logged."""
        for part in (DEFAULT_BROKER, str(self._node_id)):
            stored = self._metadata.get(BROKERS_PREFIX + part)
            if stored is not None:
                self._apply(part, stored)
        self._metadata.observe(BROKERS_PREFIX, self._apply_changed)

    def _apply_changed(self, records: Mapping[str, bytes | None]) -> None:
        for part, stored in records.items():
            if part in (DEFAULT_BROKER, str(self._node_id)):
                self._apply(part, stored)

    def _apply(self, part: str, stored: bytes | None) -> None:
        values = {} if stored is None else _decoded(BROKERS_PREFIX + part, stored)
        source = _source("" if part == DEFAULT_BROKER else part)
        usable = _usable(self._config.catalog.find_any_broker, self._unsealed(values), "the broker")
        self._warn_of_ineffective(usable)
        self._config.set_dynamic(source, usable)

    def _warn_of_ineffective(self, values: Mapping[str, Any]) -> None:
        """Warn once of each setting that has no effect."""
        for name, value in values.items():
            row = self.find(name)
            if row.without_effect and value != row.default and self._is_new(name):
                guess = did_you_mean(name, self._config.catalog.broker) if row.kind is SettingType.UNKNOWN else ""
                events.SETTING_WITHOUT_EFFECT.log(
                    logger,
                    "broker %d: %s has no effect: %s%s",
                    broker=self._node_id,
                    setting=name,
                    reason=row.doc.rstrip("."),
                    guess=guess,
                )

    def _is_new(self, name: str) -> bool:
        """Return whether no warning named the setting; bounded, as clients choose names."""
        if name in self._reported or len(self._reported) >= REPORTED_MAX:
            return False
        self._reported.add(name)
        return True

    def _unsealed(self, values: Mapping[str, Any]) -> dict[str, str]:
        """Return values as text; those that can't be decrypted are left out, and logged."""
        texts = {}
        for name, value in values.items():
            if not isinstance(value, dict):
                texts[name] = value
                continue
            try:
                if self._sealer is None:
                    raise StorageFailed("the storage has no key any more")
                texts[name] = self._sealer.unseal(name, str(value.get(SEALED)))
            except Exception as error:  # of a plugin too
                events.STORED_SETTING_IGNORED.log(
                    logger, "a stored setting of the broker is ignored, set it again: %s: %s", setting=name, error=error
                )
        return texts

    def _sealed(self, name: str, text: str | None) -> str | dict[str, str] | None:
        if self._sealer is None or text is None or not self.find(name).is_secret:
            return text
        try:
            return {SEALED: self._sealer.seal(name, text)}
        except Exception as error:  # of a plugin
            raise StorageFailed(f"the storage could not encrypt {name}: {type(error).__name__}") from None

    def check_name(self, resource: str) -> None:
        """Raise InvalidRequest if `resource` is neither this broker nor the empty name."""
        if resource in ("", str(self._node_id)):
            return
        if not resource.isdecimal():
            raise InvalidRequest(
                f"Node id must be an integer, but it is: {resource[:80]}: expected the id of a broker, or an empty "
                f"name for all, found {resource[:80]!r}"
            )
        raise InvalidRequest(
            f"Unexpected broker id, expected {self._node_id}, but received {resource}: this is broker {self._node_id}: "
            f"settings of broker {resource} are known to that one only, ask it"
        )

    def find(self, name: str) -> Setting:
        """See `ConfigTarget`. A name that nobody declares has a row without effect."""
        return self._config.catalog.find_any_broker(name)

    def not_a_list(self, name: str, operation: ConfigOperation) -> str:
        """See `ConfigTarget`."""
        if self.find(name).kind is SettingType.UNKNOWN:
            return f"Unknown config name: {name}."
        return f"Config value {operation.name.lower()} is not allowed for config key: {name}."

    def own(self, resource: str) -> Mapping[str, Any]:
        """See `ConfigTarget`."""
        self.check_name(resource)
        return self._config.set_by(_source(resource))

    def in_force(self, resource: str, row: Setting) -> Any:
        """See `ConfigTarget`."""
        return self._config.chain(row.name)[0].value

    def check(self, resource: str, values: Mapping[str, Any]) -> CheckedValues:
        """See `ConfigTarget`. A wrong value is an InvalidRequest, as in Kafka, and the checks have
        the order of Kafka's.
        """
        rows = {name: self.find(name) for name in values}
        _check_none(
            [name for name, row in rows.items() if row.is_read_only],
            "Cannot update these configs dynamically",
            "can't be changed at run time: set it in the broker's configuration and restart the broker",
        )
        _check_none(
            [name for name in rows if name in _OF_LISTENERS],
            "These security configs can be dynamically updated only per-listener using the listener prefix",
            "can be changed at run time for one listener only: expected listener.name.<listener>. before the name",
        )
        parsed = {}
        for name, value in values.items():
            try:
                parsed[name] = rows[name].parse(value)
            except SettingError as error:
                raise InvalidRequest(str(error)) from None
        if resource == "":
            _check_none(
                [name for name, row in rows.items() if row.dynamic is UpdateMode.PER_BROKER],
                "Cannot update these configs at default cluster level, broker id must be specified",
                "can be changed for one broker only: expected the id of a broker",
            )
        try:
            slow = self._config.check_dynamic(_source(resource), parsed)
        except SettingError as error:
            raise InvalidRequest(str(error)) from None
        return CheckedValues(parsed, slow)

    def record(self, resource: str, values: Mapping[str, Any]) -> tuple[str, bytes | None]:
        """See `ConfigTarget`."""
        seal = self._sealed if resource else lambda name, text: text
        return self._key(resource), _encoded(values, seal)

    def names(self) -> list[str]:
        """Return this broker."""
        return [str(self._node_id)]

    def _key(self, resource: str) -> str:
        return BROKERS_PREFIX + (resource or DEFAULT_BROKER)


class ResourceKind(NamedTuple):
    """A type of resources that exist by their settings alone.

    Attributes:
        noun: for messages, such as ``group``.
        prefix: of the keys of the stored values.
        source: of the values.
        default_names: under which name the default of a setting is a synonym; none: it is not.
        config_errors: settings whose wrong values are INVALID_CONFIG, None: all; others are
            INVALID_REQUEST, as in Kafka.
        unknown: Kafka's words about the name of a setting that does not exist.
        empty_name: Kafka's words about an empty name of a resource.
    """

    noun: str
    prefix: str
    source: ConfigSource
    unknown: str
    empty_name: str
    default_names: Mapping[str, str] = {}
    config_errors: Container[str] | None = None


GROUP_KIND = ResourceKind(
    "group",
    GROUPS_PREFIX,
    ConfigSource.GROUP,
    unknown="Unknown group config name",
    empty_name="Default group resources are not allowed.",
    default_names=GROUP_DEFAULT_NAMES,
)
CLIENT_METRICS_KIND = ResourceKind(
    "client metrics subscription",
    CLIENT_METRICS_PREFIX,
    ConfigSource.CLIENT_METRICS,
    unknown="Unknown client metrics configuration",
    empty_name="Subscription name can't be empty",
    config_errors=("match",),
)


class NamedTarget:
    """Resources that exist by their settings alone: groups and client metrics subscriptions.

    A group's settings may come before the group.
    """

    def __init__(
        self,
        kind: ResourceKind,
        rows: Mapping[str, Setting],
        metadata: MetadataCache,
        check_values: Callable[[Mapping[str, Any]], None] = lambda values: None,
    ) -> None:
        """Take the type and its settings. `check_values`: raises RequestRefused for parsed values
        that the broker does not allow.
        """
        self.source = kind.source
        self.default_names = kind.default_names
        self._kind = kind
        self._check_values = check_values
        self._rows = rows
        self._metadata = metadata
        self._values: dict[str, dict[str, Any]] = {}
        self.generation = 0
        """Raised by each change."""

    def load(self) -> None:
        """Read the stored values. A setting that no longer exists is skipped and logged."""
        for resource, stored in self._metadata.with_prefix(self._kind.prefix).items():
            self._apply(resource, stored)
        self._metadata.observe(self._kind.prefix, self._apply_changed)

    def _apply_changed(self, records: Mapping[str, bytes | None]) -> None:
        self.generation += 1
        for resource, stored in records.items():
            if stored is None:
                self._values.pop(resource, None)
            else:
                self._apply(resource, stored)

    def _apply(self, resource: str, stored: bytes) -> None:
        decoded = _decoded(self._kind.prefix + resource, stored)
        self._values[resource] = _usable(self._rows.get, decoded, f"{self._kind.noun} {resource}")

    @property
    def rows(self) -> Mapping[str, Setting]:
        """The settings of this type."""
        return self._rows

    def find(self, name: str) -> Setting:
        """See `ConfigTarget`."""
        if name not in self._rows:
            raise SettingError(
                f"{self._kind.unknown}: {name}: no {self._kind.noun} setting is called {name!r}"
                f"{did_you_mean(name, self._rows)}"
            )
        return self._rows[name]

    def own(self, resource: str) -> Mapping[str, Any]:
        """See `ConfigTarget`; empty where nothing is set."""
        if not resource:
            raise InvalidRequest(
                f"{self._kind.empty_name}: expected the name of a {self._kind.noun}, found an empty name"
            )
        if not resource or len(resource) > NAME_LENGTH_MAX or "\0" in resource:
            raise InvalidRequest(
                f"expected the name of a {self._kind.noun}, 1 to {NAME_LENGTH_MAX} characters without NUL, "
                f"found {resource[:80]!r}"
            )
        return self._values.get(resource, {})

    def set_values(self, resource: str) -> Mapping[str, Any]:
        """Return the values set for a resource; empty where nothing is set."""
        return self._values.get(resource, {})

    def values(self, resource: str) -> dict[str, Any]:
        """Return the values in force of a resource, by name of all settings of its type."""
        return {name: row.default for name, row in self._rows.items()} | self._values.get(resource, {})

    def not_a_list(self, name: str, operation: ConfigOperation) -> str:
        """See `ConfigTarget`."""
        return not_a_list(name, operation)

    def in_force(self, resource: str, row: Setting) -> Any:
        """See `ConfigTarget`."""
        return row.default

    def check(self, resource: str, values: Mapping[str, Any]) -> CheckedValues:
        """See `ConfigTarget`."""
        if values and resource not in self._values and len(self._values) >= RESOURCES_MAX:
            raise PolicyViolation(
                f"{RESOURCES_MAX} resources of type {self._kind.noun} have settings: remove some first"
            )
        parsed = {}
        for name, value in values.items():
            as_config = self._kind.config_errors is None or name in self._kind.config_errors
            try:
                row = self.find(name)
                parsed[name] = row.parse(value)
            except SettingError as error:
                as_config = as_config or (name in self._rows and not self._rows[name].is_of_type(value))
                raise (InvalidConfig if as_config else InvalidRequest)(str(error)) from None
        self._check_values(parsed)
        return CheckedValues(parsed)

    def record(self, resource: str, values: Mapping[str, Any]) -> tuple[str, bytes | None]:
        """See `ConfigTarget`."""
        return self._kind.prefix + resource, _encoded(values)

    def names(self) -> list[str]:
        """See `ConfigTarget`."""
        return sorted(self._values)


def _check_none(names: Sequence[str], refusal: str, problem: str) -> None:
    """Raise InvalidRequest if there are `names`, with Kafka's words `refusal`, then `problem`."""
    if names:
        raise InvalidRequest(f"{refusal}: [{', '.join(names)}]: {', '.join(names[:3])} {problem}")


def _source(resource: str) -> ConfigSource:
    return ConfigSource.DYNAMIC_BROKER if resource else ConfigSource.DYNAMIC_DEFAULT_BROKER


def _encoded(
    values: Mapping[str, Any], seal: Callable[[str, str | None], object] = lambda name, text: text
) -> bytes | None:
    texts = {name: seal(name, format_value(value)) for name, value in values.items()}
    return json.dumps(texts).encode() if values else None


def _decoded(key: str, stored: bytes) -> dict[str, Any]:
    """Return the values as text; an encrypted one as it is stored."""
    try:
        items = dict(json.loads(stored)).items()
        return {str(name): value if isinstance(value, dict) else str(value) for name, value in items}
    except (ValueError, TypeError) as error:
        raise StorageFailed(f"the metadata store is damaged: {key} can't be read: {error!r}") from error


def _usable(find: Callable[[str], Setting | None], values: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return the parsed values of settings that `find` knows; log the others, which a removed
    plugin or another version of kqueue has set.
    """
    usable = {}
    for name, value in values.items():
        try:
            row = find(name)
            if row is None:
                raise SettingError(f"no setting is called {name!r}")
            usable[name] = row.parse(value)
        except SettingError as error:
            events.STORED_SETTING_IGNORED.log(
                logger, "a stored setting of %s is ignored: %s", resource=what, error=error
            )
    return usable
