"""Settings as the protocol tells them: what DescribeConfigs and CreateTopics have in common."""

from __future__ import annotations

from typing import NamedTuple

from kqueue.base.settings import Config, ConfigSource, Setting, TopicConfig, format_value


class ConfigSynonym(NamedTuple):
    """A setting that gives, or would give, the value; `value` as text, None where it is secret."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One setting in force. `synonyms`: all that gives it a value, the one in force first; unset
    ones are left out.
    """

    setting: Setting
    value: str | None
    source: ConfigSource
    synonyms: list[ConfigSynonym]

    @property
    def is_sensitive(self) -> bool:
        return self.setting.is_secret


class TopicConfigEntries:
    """The settings of topics, by name. A setting that a topic does not set itself has one row,
    which all topics share.
    """

    def __init__(self, config: Config) -> None:
        bare = config.for_topic({})
        self._shared = {name: _topic_row(bare, config.catalog.topic[name]) for name in sorted(bare)}

    def of(self, config: TopicConfig) -> list[ConfigEntry]:
        """All settings of one topic of the broker with this `config`."""
        own = config.overrides
        if not own:
            return list(self._shared.values())
        return [_topic_row(config, row.setting) if name in own else row for name, row in self._shared.items()]


def broker_config_entries(config: Config) -> list[ConfigEntry]:
    """All settings of a broker, by name."""
    return [_broker_row(config, config.catalog.broker[name]) for name in sorted(config)]


def _topic_row(config: TopicConfig, setting: Setting) -> ConfigEntry:
    found = config.chain(setting.name)[0]
    synonyms = []
    if setting.name in config.overrides:
        synonyms.append(ConfigSynonym(setting.name, _text(setting, config.overrides[setting.name]), ConfigSource.TOPIC))
    # broker settings are told with their own numbers: log.retention.hours in hours, though
    # retention.ms is in ms
    for synonym in setting.synonyms:
        synonyms += _set_at_broker(config.broker, config.broker.catalog.broker[synonym.name])
    if setting.synonyms:
        synonyms += _default_of(config.broker.catalog.broker[setting.synonyms[-1].name])
    return ConfigEntry(setting, _text(setting, found.value), found.source, synonyms)


def _broker_row(config: Config, setting: Setting) -> ConfigEntry:
    found = config.resolve(setting.name)
    return ConfigEntry(
        setting, _text(setting, found.value), found.source, _set_at_broker(config, setting) + _default_of(setting)
    )


def _set_at_broker(config: Config, setting: Setting) -> list[ConfigSynonym]:
    if not config.is_set(setting.name):
        return []
    return [ConfigSynonym(setting.name, _text(setting, config[setting.name]), ConfigSource.STATIC_BROKER)]


def _default_of(setting: Setting) -> list[ConfigSynonym]:
    return (
        []
        if setting.default is None
        else [ConfigSynonym(setting.name, _text(setting, setting.default), ConfigSource.DEFAULT)]
    )


def _text(setting: Setting, value: object) -> str | None:
    return None if setting.is_secret else format_value(value)
