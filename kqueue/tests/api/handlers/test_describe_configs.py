from __future__ import annotations

from typing import Any

from kqueue.base.config import ConfigSource
from kqueue.tests.api.harness import SimulatedClient, versions_of
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
KAFKAS_TOPIC_SETTINGS = 33


def describe(
    client: SimulatedClient, kind: int, name: str, keys: list[str] | None = None, version: int = 4, **fields: Any
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    (result,) = client.ask(DescribeConfigsRequest(resources=[resource], **fields), version).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result  # type: ignore[no-any-return]


def one(client: SimulatedClient, kind: int, name: str, key: str, **fields: Any) -> DescribeConfigsResourceResult:
    result = describe(client, kind, name, [key], **fields)
    assert (result.error_code, result.error_message) == (0, "")
    (config,) = result.configs
    return config


def synonyms(config: DescribeConfigsResourceResult) -> list[tuple[str, str | None, int]]:
    return [(synonym.name, synonym.value, synonym.source) for synonym in config.synonyms]


@for_each("version", versions_of("describe_configs"))
def test_a_topic_setting_at_every_version(version: int) -> None:
    client = SimulatedClient()
    client.sim.topic("a", retention_ms="5")
    asked = {"include_synonyms": True} if version >= 1 else {}
    asked |= {"include_documentation": True} if version >= 3 else {}
    own = one(client, TOPIC, "a", "retention.ms", version=version, **asked)
    assert (own.name, own.value, own.read_only, own.is_sensitive) == ("retention.ms", "5", False, False)
    default = one(client, TOPIC, "a", "segment.bytes", version=version, **asked)
    if version == 0:
        assert (own.is_default, default.is_default) == (False, True)
        return
    assert (own.config_source, default.config_source) == (1, 5)
    assert synonyms(own) == [("retention.ms", "5", 1), ("log.retention.hours", "168", 5)]
    assert synonyms(default) == [("log.segment.bytes", "1073741824", 5)]
    assert own.config_type == (5 if version >= 3 else 0)
    assert bool(own.documentation) is (version >= 3)


def test_a_topic_has_all_of_kafkas_settings() -> None:
    client = SimulatedClient()
    client.sim.topic("a")
    result = describe(client, TOPIC, "a")
    names = [config.name for config in result.configs]
    assert len(set(names)) == len(names) >= KAFKAS_TOPIC_SETTINGS
    assert {config.name: config.value for config in result.configs} | {
        "retention.ms": "604800000",
        "cleanup.policy": "delete",
    } == {config.name: config.value for config in result.configs}
    assert all(config.synonyms == [] and config.documentation is None for config in result.configs)


def test_a_brokers_setting_gives_the_topics_default() -> None:
    client = SimulatedClient({"log.retention.hours": 2, "log.retention.minutes": 3})
    client.sim.topic("a")
    config = one(client, TOPIC, "a", "retention.ms", include_synonyms=True)
    assert (config.value, config.config_source) == ("180000", 4)
    assert synonyms(config) == [
        ("log.retention.minutes", "3", 4),
        ("log.retention.hours", "2", 4),
        ("log.retention.hours", "168", 5),
    ]


@for_each("keys", [None, []])
def test_no_names_are_all_names(keys: list[str] | None) -> None:
    client = SimulatedClient()
    client.sim.topic("a")
    assert len(describe(client, TOPIC, "a", keys).configs) >= KAFKAS_TOPIC_SETTINGS


def test_unknown_names_are_left_out() -> None:
    client = SimulatedClient()
    client.sim.topic("a")
    assert [config.name for config in describe(client, TOPIC, "a", ["nope", "flush.ms"]).configs] == ["flush.ms"]


def test_the_brokers_settings() -> None:
    client = SimulatedClient({"num.partitions": 3})
    config = one(client, BROKER, "1", "num.partitions", include_synonyms=True, include_documentation=True)
    assert (config.value, config.read_only, config.config_source, config.config_type) == ("3", True, 4, 3)
    assert synonyms(config) == [("num.partitions", "3", 4), ("num.partitions", "1", 5)]
    assert config.documentation
    unset = one(client, BROKER, "1", "broker.rack", include_synonyms=True)
    assert (unset.value, unset.config_source, unset.synonyms) == (None, 5, [])
    assert len(describe(client, BROKER, "1").configs) == len(list(client.sim.broker.config))


def test_the_cluster_wide_defaults_are_empty() -> None:
    result = describe(SimulatedClient(), BROKER, "")
    assert (result.error_code, result.configs) == (0, [])


@for_each(
    "kind, key, default",
    [(CLIENT_METRICS, "interval.ms", "300000"), (GROUP, "share.isolation.level", "read_uncommitted")],
)
def test_settings_of_groups_and_client_metrics(kind: int, key: str, default: str) -> None:
    client = SimulatedClient()
    config = one(client, kind, "any", key, include_synonyms=True, include_documentation=True)
    assert (config.value, config.config_source, config.read_only) == (default, 5, False)
    assert synonyms(config) == ([(key, default, 5)] if kind == GROUP else [])
    assert config.documentation
    assert describe(client, kind, "").error_code == ErrorCode.INVALID_REQUEST


def test_broker_settings_are_read_only_unless_dynamic() -> None:
    client = SimulatedClient()
    read_only = {config.name: config.read_only for config in describe(client, BROKER, "1").configs}
    assert not any(
        read_only[name]
        for name in (
            "log.retention.ms",
            "message.max.bytes",
            "log.cleaner.threads",
            "compression.type",
        )
    )
    assert all(
        read_only[name]
        for name in ("node.id", "log.dirs", "log.retention.hours", "num.partitions", "log.cleaner.enable")
    )


def test_every_source_of_a_value_is_a_synonym() -> None:
    client = SimulatedClient({"log.retention.ms": 3, "log.retention.hours": 2})
    client.sim.topic("a", retention_ms="9")
    sources = client.sim.broker.config
    sources.set_dynamic(ConfigSource.DYNAMIC_BROKER, {"log.retention.ms": 5})
    sources.set_dynamic(ConfigSource.DYNAMIC_DEFAULT_BROKER, {"log.retention.ms": 4})
    broker = [("log.retention.ms", "5", 2), ("log.retention.ms", "4", 3), ("log.retention.ms", "3", 4)]
    config = one(client, TOPIC, "a", "retention.ms", include_synonyms=True)
    assert (config.value, config.config_source) == ("9", 1)
    assert synonyms(config) == [
        ("retention.ms", "9", 1),
        *broker,
        ("log.retention.hours", "2", 4),
        ("log.retention.hours", "168", 5),
    ]
    own = one(client, BROKER, "1", "log.retention.ms", include_synonyms=True)
    assert (own.value, own.config_source, synonyms(own)) == ("5", 2, broker)
    (default,) = describe(client, BROKER, "", include_synonyms=True).configs
    assert (default.name, default.value, default.config_source, default.read_only) == (
        "log.retention.ms",
        "4",
        3,
        False,
    )
    assert synonyms(default) == [("log.retention.ms", "4", 3)]


def test_levels_of_loggers() -> None:
    client = SimulatedClient()
    config = one(client, BROKER_LOGGER, "1", "root", include_synonyms=True)
    assert (config.config_source, config.read_only, config.is_sensitive, config.synonyms) == (6, False, False, [])
    assert config.value in ("FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE")
    assert describe(client, BROKER_LOGGER, "").error_code == ErrorCode.INVALID_REQUEST


@for_each(
    "kind, name, code",
    [
        (TOPIC, "nobody", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER, "2", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_unknown_entries_are_refused_individually(kind: int, name: str, code: ErrorCode) -> None:
    client = SimulatedClient()
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None),
        DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=["node.id"]),
    ]
    refused, fine = client.ask(DescribeConfigsRequest(resources=resources), 4).results
    assert (refused.error_code, refused.configs) == (code, [])
    assert refused.error_message
    assert (fine.error_code, [config.name for config in fine.configs]) == (0, ["node.id"])
