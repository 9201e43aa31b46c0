"""Settings as rows for the wire; DescribeConfigs and CreateTopics test the rest."""

from __future__ import annotations

from kqueue.api.config_entries import TopicConfigEntries, broker_config_entries
from kqueue.base.config import Config, ConfigSource
from kqueue.base.settings import ANY, Catalog, Scope, Setting, SettingType, Synonym

ROWS = (
    Setting(
        "time.ms",
        SettingType.LONG,
        120_000,
        ANY,
        Scope.TOPIC,
        "doc",
        (Synonym("log.time.ms"), Synonym("log.time.minutes", 60_000)),
    ),
    Setting("plain", SettingType.STRING, "x", ANY, Scope.TOPIC, "doc"),
    Setting("secret", SettingType.PASSWORD, None, ANY, Scope.BROKER, "doc"),
)


def config(**values: object) -> Config:
    return Config(Catalog(ROWS), {key.replace("_", "."): value for key, value in values.items()})


def test_rows_come_by_name() -> None:
    assert [row.setting.name for row in TopicConfigEntries(config()).of(config().for_topic({}))] == ["plain", "time.ms"]
    assert [row.setting.name for row in broker_config_entries(config())] == [
        "log.time.minutes",
        "log.time.ms",
        "secret",
    ]


def test_a_secret_value_is_never_returned() -> None:
    row = broker_config_entries(config(secret="geheim"))[-1]
    assert (row.value, row.is_sensitive, row.source) == (None, True, ConfigSource.STATIC_BROKER)
    assert row.synonyms == [("secret", None, ConfigSource.STATIC_BROKER)]
    assert "geheim" not in repr(row)


def test_synonyms_have_their_own_units() -> None:
    row = TopicConfigEntries(config(log_time_minutes=7)).of(config(log_time_minutes=7).for_topic({"time.ms": "5"}))[1]
    assert (row.value, row.source) == ("5", ConfigSource.TOPIC)
    assert row.synonyms == [
        ("time.ms", "5", ConfigSource.TOPIC),
        ("log.time.minutes", "7", ConfigSource.STATIC_BROKER),
        ("log.time.minutes", "2", ConfigSource.DEFAULT),
    ]


def test_a_setting_without_synonyms_returns_none() -> None:
    assert TopicConfigEntries(config()).of(config().for_topic({}))[0].synonyms == []
