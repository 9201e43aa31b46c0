from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import SettingError
from kqueue.base.settings import (
    ANY,
    Catalog,
    Config,
    ConfigSource,
    Prefix,
    Scope,
    Setting,
    SettingType,
    Synonym,
    Validator,
    at_least,
    between,
    format_value,
    one_of,
)

RETENTION = Setting(
    "retention.ms",
    SettingType.LONG,
    604_800_000,
    at_least(-1),
    Scope.TOPIC,
    "Age.",
    (Synonym("log.retention.ms"), Synonym("log.retention.minutes", 60_000), Synonym("log.retention.hours", 3_600_000)),
)
SEGMENT = Setting(
    "segment.bytes", SettingType.INT, 2**30, at_least(14), Scope.TOPIC, "Size.", (Synonym("log.segment.bytes"),)
)
POLICY = Setting(
    "cleanup.policy",
    SettingType.LIST,
    ["delete"],
    Validator("not empty", bool),
    Scope.TOPIC,
    "Policy.",
    (Synonym("log.cleanup.policy"),),
)
NODE = Setting("node.id", SettingType.INT, 1, at_least(0), Scope.BROKER, "Number.")
AUTO = Setting("auto.create", SettingType.BOOLEAN, True, ANY, Scope.BROKER, "Create.")


@pytest.fixture
def catalog() -> Catalog:
    return Catalog([RETENTION, SEGMENT, POLICY], [NODE, AUTO])


def test_broker_rows_are_derived_from_topic_rows(catalog: Catalog) -> None:
    assert catalog.broker["log.segment.bytes"].default == 2**30
    assert catalog.broker["log.retention.hours"].default == 168
    assert catalog.broker["log.retention.ms"].default is None


def test_a_row_declared_twice_is_our_bug() -> None:
    with pytest.raises(AssertionError, match="declared twice"):
        Catalog([NODE], [NODE])


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("node.id", "x", "a 32-bit number, at least 0"),
        ("node.id", "-1", "at least 0"),
        ("node.id", str(2**31), "a 32-bit number"),
        ("node.id", True, "a 32-bit number"),
        ("auto.create", "yes", "true or false"),
        ("log.cleanup.policy", "", "a comma-separated list, not empty"),
        ("log.cleanup.policy", " , ", "a comma-separated list, not empty"),
    ],
)
def test_a_bad_value_is_refused_with_what_was_expected(catalog: Catalog, name: str, value: object, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        Config(catalog, {name: value})


def test_an_unknown_name_is_refused_with_the_nearest(catalog: Catalog) -> None:
    with pytest.raises(SettingError, match="did you mean 'log.segment.bytes'"):
        Config(catalog, {"log.segments.bytes": "1"})
    with pytest.raises(
        SettingError, match="^Unknown topic config name: log.segment.bytes; did you mean 'segment.bytes'"
    ):
        Config(catalog).for_topic({"log.segment.bytes": "100"})


def test_topic_values_come_from_the_topic_then_the_broker_then_the_default(catalog: Catalog) -> None:
    config = Config(catalog, {"log.retention.hours": "2", "log.segment.bytes": 4096})
    topic = config.for_topic({"segment.bytes": "100"})
    assert topic["segment.bytes"] == 100
    assert [(synonym.name, synonym.value, synonym.source) for synonym in topic.chain("segment.bytes")] == [
        ("segment.bytes", 100, ConfigSource.TOPIC),
        ("log.segment.bytes", 4096, ConfigSource.STATIC_BROKER),
        ("log.segment.bytes", 2**30, ConfigSource.DEFAULT),
    ]
    assert topic["retention.ms"] == 2 * 3_600_000
    assert topic["cleanup.policy"] == ["delete"]


def test_the_first_synonym_set_wins_and_minus_one_has_no_unit(catalog: Catalog) -> None:
    assert Config(catalog, {"log.retention.ms": "7", "log.retention.hours": "2"}).for_topic({})["retention.ms"] == 7
    assert Config(catalog, {"log.retention.hours": "-1"}).for_topic({})["retention.ms"] == -1


def test_none_means_not_set(catalog: Catalog) -> None:
    config = Config(catalog, {"node.id": None})
    assert config["node.id"] == 1
    assert not config.is_set("node.id")
    assert config.for_topic({"segment.bytes": None})["segment.bytes"] == 2**30


def test_resolve_tells_the_source(catalog: Catalog) -> None:
    assert Config(catalog, {"node.id": 7}).chain("node.id")[0] == ("node.id", 7, ConfigSource.STATIC_BROKER)
    assert Config(catalog).chain("node.id")[0] == ("node.id", 1, ConfigSource.DEFAULT)
    assert set(Config(catalog)) == set(catalog.broker)
    assert set(Config(catalog).for_topic({})) == set(catalog.topic)


@given(st.integers(-(2**31), 2**31 - 1))
def test_numbers_survive_writing_and_parsing(number: int) -> None:
    row = Setting("n", SettingType.INT, 0, ANY, Scope.BROKER, "")
    assert row.parse(format_value(number)) == number


@pytest.mark.parametrize(
    ("value", "text"), [(None, None), (True, "true"), (["a", "b"], "a,b"), ([], ""), (0.5, "0.5"), ("x", "x")]
)
def test_values_are_written_as_kafka_does(value: object, text: str | None) -> None:
    assert format_value(value) == text


def test_lists_may_be_written_with_brackets(catalog: Catalog) -> None:
    assert POLICY.parse("[compact, delete]") == ["compact", "delete"]
    assert POLICY.parse(("compact",)) == ["compact"]


def test_rules_say_their_bounds() -> None:
    assert between(1, 9).description == "from 1 to 9"
    assert between(1, 9).accepts(9)
    assert not between(1, 9).accepts(10)
    assert one_of("a", "b").description == "one of a, b"
    assert not one_of("a", "b").accepts("c")


PREFIX_CATALOG = Catalog(
    [
        Setting("ssl.x", SettingType.INT, 1, at_least(0), Scope.BROKER, "", prefix=Prefix.LISTENER),
        Setting("sasl.y", SettingType.STRING, None, ANY, Scope.BROKER, "", prefix=Prefix.MECHANISM),
        Setting("z", SettingType.INT, 1, at_least(0), Scope.BROKER, ""),
    ]
)


def test_a_listener_has_the_value_of_the_longest_prefix_that_is_set() -> None:
    config = Config(
        PREFIX_CATALOG,
        {
            "ssl.x": "2",
            "listener.name.inner.ssl.x": "3",
            "listener.name.inner.sasl.y": "listener",
            "listener.name.inner.scram-sha-256.sasl.y": "mechanism",
        },
    )
    assert config.of_listener("INNER", "ssl.x") == 3
    assert config.of_listener("OUTER", "ssl.x") == 2
    assert config.of_listener("INNER", "sasl.y", "SCRAM-SHA-256") == "mechanism"
    assert config.of_listener("INNER", "sasl.y", "PLAIN") == "listener"
    assert config.of_listener("OUTER", "sasl.y", "PLAIN") is None
    assert "listener.name.inner.ssl.x" in config
    assert config.chain("listener.name.inner.ssl.x")[-1].value is None


@pytest.mark.parametrize(
    "name",
    ["listener.name.inner.z", "listener.name.inner.plain.ssl.x", "listener.name.inner.nothing", "listener.name.ssl.x"],
)
def test_a_prefix_overrides_only_settings_that_allow_it(name: str) -> None:
    assert PREFIX_CATALOG.find_broker(name) is None
    with pytest.raises(SettingError):
        Config(PREFIX_CATALOG, {name: "3"})


def test_a_value_of_one_listener_is_checked_as_the_setting() -> None:
    with pytest.raises(SettingError, match=r"listener\.name\.inner\.ssl\.x='-1': expected"):
        Config(PREFIX_CATALOG, {"listener.name.inner.ssl.x": "-1"})
