from __future__ import annotations

import pytest

from kqueue.config.catalog import CATALOG
from kqueue.tests.api.handlers.test_describe_configs import BROKER, BROKER_LOGGER, TOPIC, one
from kqueue.tests.api.harness import SimulatedClient, versions_of
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from kqueue.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

UNDECLARED = "share.coordinator.cached.buffer.max.bytes"


def alter(
    client: SimulatedClient,
    kind: int,
    name: str,
    *values: tuple[str, str | None],
    version: int = 2,
    validate_only: bool = False,
) -> tuple[int, str | None]:
    configs = [AlterableConfig(name=key, value=value) for key, value in values]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = AlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (result,) = client.ask(request, version).responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result.error_code, result.error_message


@for_each("version", versions_of("alter_configs"))
def test_all_settings_of_a_topic_are_replaced(version: int) -> None:
    client = SimulatedClient()
    topic = client.sim.topic("a", retention_ms="5", flush_ms="3")
    assert alter(client, TOPIC, "a", ("retention.ms", "6"), validate_only=True, version=version) == (0, None)
    assert topic.config.overrides == {"retention.ms": 5, "flush.ms": 3}
    assert alter(client, TOPIC, "a", ("retention.ms", "6"), version=version) == (0, None)
    assert topic.config.overrides == {"retention.ms": 6}
    assert alter(client, TOPIC, "a", version=version) == (0, None)
    assert topic.config.overrides == {}


def test_the_dynamic_settings_of_a_broker_are_replaced() -> None:
    client = SimulatedClient({"log.cleaner.backoff.ms": 9})
    assert alter(client, BROKER, "1", ("log.cleaner.threads", "2"), ("log.cleaner.backoff.ms", "7")) == (0, None)
    assert one(client, BROKER, "1", "log.cleaner.backoff.ms").value == "7"
    assert alter(client, BROKER, "1", ("log.cleaner.threads", "3")) == (0, None)
    assert one(client, BROKER, "1", "log.cleaner.backoff.ms").value == "9"
    assert one(client, BROKER, "1", "log.cleaner.threads").value == "3"


@for_each(
    "kind, values, code, words",
    [
        (TOPIC, [("retention.ms", "1"), ("retention.ms", "2")], ErrorCode.INVALID_REQUEST, "twice"),
        (TOPIC, [("retention.ms", None)], ErrorCode.INVALID_REQUEST, "found null"),
        (TOPIC, [("nope", "1")], ErrorCode.INVALID_CONFIG, "Unknown topic config name"),
        (
            TOPIC,
            [("retention.ms", "never")],
            ErrorCode.INVALID_CONFIG,
            "Invalid value never for configuration retention.ms: Not a number of type LONG",
        ),
        (
            BROKER,
            [("log.dirs", "/x")],
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs dynamically: [l",
        ),
        (BROKER, [("num.partitions", "2")], ErrorCode.INVALID_REQUEST, "at run time"),
        (BROKER_LOGGER, [("root", "INFO")], ErrorCode.INVALID_REQUEST, "IncrementalAlterConfigs"),
        (5, [], ErrorCode.INVALID_REQUEST, "Unknown resource type 5"),
    ],
)
def test_wrong_requests_are_refused(
    kind: int, values: list[tuple[str, str | None]], code: ErrorCode, words: str
) -> None:
    client = SimulatedClient()
    client.sim.topic("1", flush_ms="3")
    error, message = alter(client, kind, "1", *values)
    assert (error, words in (message or "")) == (code, True), message
    assert client.sim.broker.topics.get("1").config.overrides == {"flush.ms": 3}


@pytest.mark.parametrize("name", ["1", ""])
def test_an_unknown_setting_of_a_broker_is_stored_and_shown_without_its_value(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kqueue.testing.simulation.CATALOG", CATALOG)
    client = SimulatedClient()
    assert alter(client, BROKER, name, ("my.plugin.key", "s3cret"), (UNDECLARED, "600000")) == (0, None)
    shown = one(client, BROKER, name, "my.plugin.key")
    assert (shown.value, shown.is_sensitive, shown.read_only, shown.config_type) == (None, True, True, 0)
    known = one(client, BROKER, name, UNDECLARED)
    assert (known.value, known.is_sensitive, known.read_only, known.config_type) == ("600000", False, False, 3)
    assert alter(client, BROKER, name) == (0, None)


def test_static_settings_are_all_named_whatever_their_value() -> None:
    client = SimulatedClient()
    code, message = alter(client, BROKER, "1", ("node.id", "1"), ("log.retention.ms", "5"), ("log.dirs", ""))
    assert code == ErrorCode.INVALID_REQUEST
    assert (message or "").startswith("Cannot update these configs dynamically: [node.id, log.dirs]")


def test_all_that_is_described_of_a_topic_can_be_written_back() -> None:
    client = SimulatedClient()
    topic = client.sim.topic("a", kqueue_backlog_messages_max="1000")
    rows = (
        client.ask(
            DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=TOPIC, resource_name="a")]), 4
        )
        .results[0]
        .configs
    )
    values = [(row.name, row.value) for row in rows if row.value is not None]
    assert "kqueue.backlog" in dict(values)
    assert alter(client, TOPIC, "a", *values) == (0, None)
    assert topic.config["kqueue.backlog.messages.max"] == 1000
    assert "kqueue.backlog" not in topic.config.overrides
