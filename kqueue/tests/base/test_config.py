"""Tests of `kqueue.base.config`."""

from __future__ import annotations

from kqueue.base.config import Config, ConfigSource
from kqueue.base.settings import Catalog
from kqueue.tests.base.test_settings import PREFIX_CATALOG, catalog

__all__ = ["catalog"]


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
