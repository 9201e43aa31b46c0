from __future__ import annotations

from kqueue.tests.api.handlers.test_describe_configs import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC, one
from kqueue.tests.api.harness import SimulatedClient, versions_of
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

SET, DELETE, APPEND, SUBTRACT = range(4)
Change = tuple[int, str, str | None]


def resource(kind: int, name: str, *changes: Change) -> AlterConfigsResource:
    configs = [AlterableConfig(name=key, config_operation=number, value=value) for number, key, value in changes]
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)


def alter(
    client: SimulatedClient, *resources: AlterConfigsResource, version: int = 1, validate_only: bool = False
) -> list[tuple[int, str | None]]:
    request = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    responses = client.ask(request, version).responses
    assert [(result.resource_type, result.resource_name) for result in responses] == [
        (asked.resource_type, asked.resource_name) for asked in resources
    ]
    return [(result.error_code, result.error_message) for result in responses]


@for_each("version", versions_of("incremental_alter_configs"))
def test_every_operation_on_a_topic(version: int) -> None:
    client = SimulatedClient()
    topic = client.sim.topic("a", retention_bytes="5", flush_ms="3")
    changes: list[Change] = [
        (SET, "retention.ms", "1"),
        (DELETE, "flush.ms", None),
        (APPEND, "cleanup.policy", "compact"),
        (SUBTRACT, "kqueue.consumed.groups", "g"),
    ]
    assert alter(client, resource(TOPIC, "a", *changes), version=version) == [(0, None)]
    assert topic.config.overrides == {
        "retention.bytes": 5,
        "retention.ms": 1,
        "cleanup.policy": ["delete", "compact"],
        "kqueue.consumed.groups": [],
    }


def test_every_type_of_resource() -> None:
    client = SimulatedClient()
    client.sim.topic("a")
    assert (
        alter(
            client,
            resource(TOPIC, "a", (SET, "retention.ms", "1")),
            resource(BROKER, "1", (SET, "log.retention.ms", "2")),
            resource(BROKER, "", (SET, "log.retention.ms", "3")),
            resource(BROKER_LOGGER, "1", (SET, "kqueue.broker", "ERROR")),
            resource(GROUP, "g", (SET, "consumer.session.timeout.ms", "46000")),
            resource(CLIENT_METRICS, "m", (SET, "interval.ms", "1000")),
        )
        == [(0, None)] * 6
    )
    assert one(client, TOPIC, "a", "retention.ms").value == "1"
    assert one(client, BROKER, "1", "log.retention.ms").value == "2"
    assert one(client, BROKER, "", "log.retention.ms").value == "3"
    assert one(client, BROKER_LOGGER, "1", "kqueue.broker").value == "ERROR"
    assert one(client, GROUP, "g", "consumer.session.timeout.ms").value == "46000"
    assert one(client, CLIENT_METRICS, "m", "interval.ms").value == "1000"
    client.sim.stop()


def test_validate_only_answers_and_changes_nothing() -> None:
    client = SimulatedClient()
    topic = client.sim.topic("a")
    asked = resource(TOPIC, "a", (SET, "retention.ms", "1")), resource(TOPIC, "b", (SET, "retention.ms", "1"))
    assert [code for code, _ in alter(client, *asked, validate_only=True)] == [
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert topic.config.overrides == {}


@for_each(
    "asked, code, words",
    [
        (resource(TOPIC, "a", (SET, "nope", "1")), ErrorCode.INVALID_CONFIG, "Unknown topic config name"),
        (resource(TOPIC, "a", (9, "retention.ms", "1")), ErrorCode.INVALID_REQUEST, "Unknown operations type 9"),
        (resource(TOPIC, "a", (SET, "retention.ms", None)), ErrorCode.INVALID_REQUEST, "found null"),
        (resource(TOPIC, "a", (SET, "retention.ms", "1"), (DELETE, "retention.ms", "")), 42, "twice"),
        (resource(TOPIC, "a", (APPEND, "retention.ms", "1")), ErrorCode.INVALID_CONFIG, "is for lists"),
        (resource(TOPIC, "", (SET, "retention.ms", "1")), ErrorCode.INVALID_REQUEST, "an empty name"),
        (resource(TOPIC, "a b", (SET, "retention.ms", "1")), ErrorCode.INVALID_TOPIC_EXCEPTION, "a b"),
        (resource(BROKER, "1", (SET, "node.id", "1")), ErrorCode.INVALID_REQUEST, "at run time"),
        (resource(BROKER, "1", (APPEND, "nope", "1")), ErrorCode.INVALID_CONFIG, "Unknown config name: nope"),
        (
            resource(CLIENT_METRICS, "a", (SET, "interval.ms", "soon")),
            ErrorCode.INVALID_CONFIG,
            "Not a number of type INT",
        ),
        (
            resource(CLIENT_METRICS, "a", (SET, "interval.ms", "5")),
            ErrorCode.INVALID_REQUEST,
            "Invalid value 5 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        (
            resource(CLIENT_METRICS, "a", (SET, "nope", "5")),
            ErrorCode.INVALID_REQUEST,
            "Unknown client metrics configuration: nope",
        ),
        (resource(GROUP, "a", (SET, "nope", "5")), ErrorCode.INVALID_CONFIG, "Unknown group config name: nope"),
        (
            resource(GROUP, "a", (SET, "consumer.session.timeout.ms", "1")),
            ErrorCode.INVALID_CONFIG,
            "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            resource(GROUP, "a", (SET, "share.record.lock.duration.ms", "60001")),
            ErrorCode.INVALID_CONFIG,
            "share.record.lock.duration.ms must be less than or equal to group.share.max.record.lock.duration.ms",
        ),
        (
            resource(GROUP, "a", (SET, "share.delivery.count.limit", "11")),
            ErrorCode.INVALID_CONFIG,
            "share.delivery.count.limit must be less than or equal to group.share.max.delivery.count.limit",
        ),
        (
            resource(GROUP, "a", (SET, "share.partition.max.record.locks", "4001")),
            ErrorCode.INVALID_CONFIG,
            "share.partition.max.record.locks must be less than or equal to group.share.max.partition.max.record.locks",
        ),
        (resource(BROKER, "5", (SET, "log.retention.ms", "1")), ErrorCode.INVALID_REQUEST, "this is broker 1"),
        (resource(BROKER_LOGGER, "1", (SET, "nope", "INFO")), ErrorCode.INVALID_CONFIG, "no logger"),
        (resource(GROUP, "", (SET, "consumer.session.timeout.ms", "50000")), ErrorCode.INVALID_REQUEST, "group"),
        (resource(77, "a"), ErrorCode.INVALID_REQUEST, "Unknown resource type 77: expected one of 2 (TOPIC)"),
    ],
)
@for_each("validate_only", [True, False])
def test_a_refused_resource_leaves_the_others(
    asked: AlterConfigsResource, code: int, words: str, validate_only: bool
) -> None:
    client = SimulatedClient()
    client.sim.topic("a")
    other = resource(GROUP, "other", (SET, "consumer.session.timeout.ms", "50000"))
    (error, message), fine = alter(client, asked, other, validate_only=validate_only)
    assert (error, fine) == (code, (0, None))
    assert words in (message or "")


def test_a_resource_twice_is_refused_twice() -> None:
    client = SimulatedClient()
    topic = client.sim.topic("a")
    asked = [resource(TOPIC, "a", (SET, "retention.ms", "1"))] * 2 + [resource(GROUP, "a")]
    assert [code for code, _ in alter(client, *asked)] == [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST, 0]
    assert topic.config.overrides == {}
