from __future__ import annotations

from kqueue.client import ResourceType, SettingRow
from kqueue.client.calls.resource_configs import SettingSynonym
from kqueue.console.setting_rows import meaning_of, setting_views

OWN = SettingSynonym("retention.ms", "1", "DYNAMIC_TOPIC_CONFIG")
FILE = SettingSynonym("log.retention.ms", "2", "STATIC_BROKER_CONFIG")
DEFAULT = SettingSynonym("log.retention.ms", "3", "DEFAULT_CONFIG")


def row(value: str | None, source: str, *synonyms: SettingSynonym, **given: object) -> SettingRow:
    fields = {"is_read_only": False, "is_sensitive": False, "documentation": None} | given
    return SettingRow("retention.ms", value, source, synonyms=list(synonyms), **fields)


def test_a_value_of_the_topic_has_what_a_reset_brings_and_the_default() -> None:
    [view] = setting_views(ResourceType.TOPIC, [row("1", "DYNAMIC_TOPIC_CONFIG", OWN, FILE, DEFAULT)])
    assert (view.value, view.source, view.is_own, view.default) == ("1", "this topic", True, "3")
    assert view.inherited == ("2", "the broker's file")


def test_the_meaning_is_the_brokers_or_that_of_the_table() -> None:
    [given] = setting_views(ResourceType.TOPIC, [row("3", "DEFAULT_CONFIG", documentation="Kafka's words.")])
    assert (given.meaning, given.default, given.is_own) == ("Kafka's words.", "3", False)
    [ours] = setting_views(ResourceType.TOPIC, [row("3", "DEFAULT_CONFIG")])
    assert ours.meaning == meaning_of(ResourceType.TOPIC, "retention.ms") != ""
    assert meaning_of(ResourceType.TOPIC, "no.such") == ""
    assert meaning_of(ResourceType.BROKER_LOGGER, "x") == ""


def test_a_default_in_hours_is_shown_in_the_unit_of_the_setting() -> None:
    hours = SettingSynonym("log.retention.hours", "168", "DEFAULT_CONFIG")
    [view] = setting_views(ResourceType.TOPIC, [row("1", "DYNAMIC_TOPIC_CONFIG", OWN, hours)])
    assert view.default == "604800000"
    assert view.inherited == ("604800000", "default")


def test_a_source_that_is_not_known_is_in_words() -> None:
    [view] = setting_views(ResourceType.TOPIC, [row("1", "SOME_NEW_CONFIG")])
    assert view.source == "some new config"
