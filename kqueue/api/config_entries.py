"""Config entries: value, source and synonyms of settings, in DescribeConfigs and CreateTopics."""

from __future__ import annotations

from typing import NamedTuple

from kqueue.base.settings import Config, ConfigSource, Setting, TopicConfig, format_value


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
    return [_broker_entry(config, config.catalog.broker[name]) for name in sorted(config)]


def _topic_entry(config: TopicConfig, setting: Setting) -> ConfigEntry:
    resolved = config.chain(setting.name)[0]
    synonyms = []
    if setting.name in config.overrides:
        synonyms.append(ConfigSynonym(setting.name, _text(setting, config.overrides[setting.name]), ConfigSource.TOPIC))
    # broker settings keep their own units: log.retention.hours in hours, beside retention.ms
    for synonym in setting.synonyms:
        synonyms += _broker_override(config.broker, config.broker.catalog.broker[synonym.name])
    if setting.synonyms:
        synonyms += _default_synonym(config.broker.catalog.broker[setting.synonyms[-1].name])
    return ConfigEntry(setting, _text(setting, resolved.value), resolved.source, synonyms)


def _broker_entry(config: Config, setting: Setting) -> ConfigEntry:
    resolved = config.resolve(setting.name)
    return ConfigEntry(
        setting,
        _text(setting, resolved.value),
        resolved.source,
        _broker_override(config, setting) + _default_synonym(setting),
    )


def _broker_override(config: Config, setting: Setting) -> list[ConfigSynonym]:
    if not config.is_set(setting.name):
        return []
    return [ConfigSynonym(setting.name, _text(setting, config[setting.name]), ConfigSource.STATIC_BROKER)]


def _default_synonym(setting: Setting) -> list[ConfigSynonym]:
    return (
        []
        if setting.default is None
        else [ConfigSynonym(setting.name, _text(setting, setting.default), ConfigSource.DEFAULT)]
    )


def _text(setting: Setting, value: object) -> str | None:
    return None if setting.is_secret else format_value(value)
