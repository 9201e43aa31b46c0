"""Config entries: value, source and synonyms of settings, in DescribeConfigs and CreateTopics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kqueue.base.config import BROKER_SOURCES, Config, ConfigSource, TopicConfig
from kqueue.base.settings import Setting, format_value


class ConfigSynonym(NamedTuple):
    """A setting that gives, or would give, the value; `value` as text, None if it is secret."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One setting in force. `synonyms`: all settings that give it a value, by precedence, unset
    ones left out.
    """

    setting: Setting
    value: str | None
    source: ConfigSource
    synonyms: list[ConfigSynonym]

    @property
    def is_sensitive(self) -> bool:
        """Whether the value is secret."""
        return self.setting.is_secret


class TopicConfigEntries:
    """The config entries of topics, by name. All topics share the entry of a setting that they do
    not override.
    """

    def __init__(self, config: Config) -> None:
        defaults = config.for_topic({})
        self._shared = {name: _topic_entry(defaults, config.catalog.topic[name]) for name in sorted(defaults)}

    def of(self, config: TopicConfig) -> list[ConfigEntry]:
        """Return the entries of a topic with this `config`."""
        own = config.overrides
        if not own:
            return list(self._shared.values())
        return [_topic_entry(config, row.setting) if name in own else row for name, row in self._shared.items()]


def broker_config_entries(config: Config) -> list[ConfigEntry]:
    """Return the entries of a broker, by name."""
    return [_broker_entry(config, config.catalog.find_any_broker(name)) for name in sorted(config)]


def broker_default_entries(config: Config) -> list[ConfigEntry]:
    """Return the entries of the dynamic defaults of all brokers, by name: those that are set."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    values = config.set_by(source)
    return [own_entry(config.catalog.find_any_broker(name), values[name], source) for name in sorted(values)]


def own_entries(
    rows: Mapping[str, Setting], values: Mapping[str, Any], source: ConfigSource, default_names: Mapping[str, str]
) -> list[ConfigEntry]:
    """Return an entry per row, by name: with the value of `values` from `source`, or the default.

    Args:
        default_names: by setting, the synonym that has its default; without one there is none.
    """
    entries = []
    for name in sorted(rows):
        row = rows[name]
        entry = (
            own_entry(row, values[name], source)
            if name in values
            else ConfigEntry(row, _text(row, row.default), ConfigSource.DEFAULT, [])
        )
        if name in default_names:
            default = ConfigSynonym(default_names[name], _text(row, row.default), ConfigSource.DEFAULT)
            entry = entry._replace(synonyms=[*entry.synonyms, default])
        entries.append(entry)
    return entries


def own_entry(setting: Setting, value: object, source: ConfigSource) -> ConfigEntry:
    """Return the entry of a value that only `source` gives."""
    text = _text(setting, value)
    return ConfigEntry(setting, text, source, [ConfigSynonym(setting.name, text, source)])


def _topic_entry(config: TopicConfig, setting: Setting) -> ConfigEntry:
    resolved = config.chain(setting.name)[0]
    synonyms = []
    if setting.name in config.overrides:
        synonyms.append(ConfigSynonym(setting.name, _text(setting, config.overrides[setting.name]), ConfigSource.TOPIC))
    # broker settings keep their own units: log.retention.hours in hours, beside retention.ms
    for source in BROKER_SOURCES:
        values = config.broker.set_by(source)
        for synonym in setting.synonyms:
            if synonym.name in values:
                text = _text(config.broker.catalog.broker[synonym.name], values[synonym.name])
                synonyms.append(ConfigSynonym(synonym.name, text, source))
    if setting.synonyms:
        synonyms += _default_synonym(config.broker.catalog.broker[setting.synonyms[-1].name])
    return ConfigEntry(setting, _text(setting, resolved.value), resolved.source, synonyms)


def _broker_entry(config: Config, setting: Setting) -> ConfigEntry:
    *own, default = config.chain(setting.name)
    synonyms = [ConfigSynonym(setting.name, _text(setting, given.value), given.source) for given in own]
    resolved = own[0] if own else default
    return ConfigEntry(setting, _text(setting, resolved.value), resolved.source, synonyms + _default_synonym(setting))


def _default_synonym(setting: Setting) -> list[ConfigSynonym]:
    return (
        []
        if setting.default is None
        else [ConfigSynonym(setting.name, _text(setting, setting.default), ConfigSource.DEFAULT)]
    )


def _text(setting: Setting, value: object) -> str | None:
    return None if setting.is_secret else format_value(value)
