from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.config import Config
from kqueue.base.errors import SettingError
from kqueue.base.settings import (
    ANY,
    Catalog,
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
from kqueue.tests.tables import for_each

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


@given(st.integers(-(2**31), 2**31 - 1))
def test_numbers_survive_writing_and_parsing(number: int) -> None:
    row = Setting("n", SettingType.INT, 0, ANY, Scope.BROKER, "")
    assert row.parse(format_value(number)) == number


@for_each("value, text", [(None, None), (True, "true"), (["a", "b"], "a,b"), ([], ""), (0.5, "0.5"), ("x", "x")])
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


@for_each(
    "name",
    ["listener.name.inner.z", "listener.name.inner.plain.ssl.x", "listener.name.inner.nothing", "listener.name.ssl.x"],
)
def test_a_prefix_overrides_only_settings_that_allow_it(name: str) -> None:
    assert PREFIX_CATALOG.find_broker(name) is None
    with pytest.raises(SettingError):
        Config(PREFIX_CATALOG, {name: "3"})


def test_a_value_of_one_listener_is_checked_as_the_setting() -> None:
    with pytest.raises(
        SettingError, match=r"Invalid value -1 for configuration listener\.name\.inner\.ssl\.x: .*expected"
    ):
        Config(PREFIX_CATALOG, {"listener.name.inner.ssl.x": "-1"})
