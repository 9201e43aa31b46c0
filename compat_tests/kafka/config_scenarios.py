"""Requests about settings that are put to Kafka and to kqueue, whose answers must be the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compat_tests.kafka.admin_scenarios import NODE, Ask, Scenario, created, topic
from compat_tests.waits import look_until
from kqueue.wire.messages import alter_configs as replace
from kqueue.wire.messages import describe_configs as describe
from kqueue.wire.messages import incremental_alter_configs as alter
from kqueue.wire.messages.list_config_resources import ListConfigResourcesRequest

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
BARRIER, BARRIER_SETTING, BARRIER_DEFAULT = "barrier", "consumer.session.timeout.ms", "45000"
Change = tuple[int, str, str | None]


def altered(ask: Ask, kind: int, name: str, *changes: Change, validate: bool = False, version: int = 1) -> Any:
    """The answer to IncrementalAlterConfigs of one resource."""
    configs = [alter.AlterableConfig(name=key, config_operation=number, value=value) for number, key, value in changes]
    resource = alter.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return ask(alter.IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate), version)


def replaced(ask: Ask, kind: int, name: str, validate: bool = False, version: int = 2, **values: str | None) -> Any:
    """The answer to AlterConfigs of one resource; names of settings have underscores for dots."""
    configs = [replace.AlterableConfig(name=key.replace("_", "."), value=value) for key, value in values.items()]
    resource = replace.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return ask(replace.AlterConfigsRequest(resources=[resource], validate_only=validate), version)


def described(ask: Ask, kind: int, name: str, *names: str, version: int = 4) -> Any:
    """The answer to DescribeConfigs of one resource, sorted, without documentation."""
    settle(ask)
    return _described(ask, kind, name, *names, version=version)


def settle(ask: Ask) -> None:
    """Return once the broker has all changes before this one: Kafka answers a change before its
    broker has it, and brokers take changes in order. The first change here may still be taken
    together with those before it; the second is not.
    """
    for operation, value in ((SET, "46000"), (DELETE, None)):
        altered(ask, GROUP, BARRIER, (operation, BARRIER_SETTING, value))
        look_until(
            lambda: _described(ask, GROUP, BARRIER, BARRIER_SETTING, version=4).results[0].configs[0].value,
            (value or BARRIER_DEFAULT).__eq__,
            f"the barrier: {value}",
        )


def _described(ask: Ask, kind: int, name: str, *names: str, version: int) -> Any:
    resource = describe.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(names) or None
    )
    request = describe.DescribeConfigsRequest(resources=[resource])
    request.include_synonyms = version >= 1
    answer = ask(request, version)
    for result in answer.results:
        result.configs.sort(key=lambda row: row.name)
    return answer


def changing_topics(ask: Ask) -> Iterator[Any]:
    """Every operation on a topic, and what it leaves."""
    created(ask, topic("s-topic", 1, 1, delete_retention_ms="5000"))
    for version in (0, 1):
        yield altered(ask, TOPIC, "s-topic", (SET, "retention.bytes", "70"), version=version)
    for change in (
        (APPEND, "cleanup.policy", "compact"),
        (APPEND, "cleanup.policy", "compact,delete"),
        (SUBTRACT, "cleanup.policy", "delete"),
        (SUBTRACT, "cleanup.policy", "nothing"),
        (DELETE, "delete.retention.ms", None),
        (DELETE, "delete.retention.ms", "7"),
        (DELETE, "no.such.setting", None),
        (SET, "retention.bytes", "80"),
        (SET, "no.such.setting", "1"),
        (SET, "retention.bytes", None),
        (APPEND, "cleanup.policy", None),
        (SET, "retention.bytes", "x"),
        (SET, "retention.bytes", ""),
        (SET, "max.message.bytes", "-1"),
        (SET, "cleanup.policy", "sweep"),
        (SET, "", "1"),
        (APPEND, "retention.bytes", "1"),
        (SUBTRACT, "retention.bytes", "1"),
        (APPEND, "no.such.setting", "1"),
        (SET, "min.compaction.lag.ms", "9223372036854775807"),
        (SET, "compression.type", "zip"),
        (SET, "message.timestamp.type", "Never"),
    ):
        for validate in (True, False):
            yield altered(ask, TOPIC, "s-topic", change, validate=validate)
        yield described(
            ask, TOPIC, "s-topic", "cleanup.policy", "delete.retention.ms", "retention.bytes", "max.message.bytes"
        )
    yield altered(ask, TOPIC, "s-topic", (SET, "max.compaction.lag.ms", "5"), (SET, "min.compaction.lag.ms", "6"))
    yield altered(ask, TOPIC, "s-topic", (SET, "delete.retention.ms", "5"), (DELETE, "delete.retention.ms", None))
    yield altered(ask, TOPIC, "s-topic")
    for name in ("s-nobody", "", "a b", "x" * 250, "__consumer_offsets_not"):
        yield altered(ask, TOPIC, name, (SET, "delete.retention.ms", "5"))
    yield altered(ask, 5, "s-topic", (SET, "delete.retention.ms", "5"))
    for version in range(1, 5):
        yield described(ask, TOPIC, "s-topic", "cleanup.policy", "delete.retention.ms", "preallocate", version=version)


def replacing_all_settings(ask: Ask) -> Iterator[Any]:
    """AlterConfigs of topics and others."""
    created(ask, topic("s-replaced", 1, 1, delete_retention_ms="5000"))
    for version in range(3):
        yield replaced(ask, TOPIC, "s-replaced", retention_bytes=str(version), version=version)
        yield described(ask, TOPIC, "s-replaced", "delete.retention.ms", "retention.bytes")
    yield replaced(ask, TOPIC, "s-replaced", retention_bytes=None)
    yield replaced(ask, TOPIC, "s-replaced", retention_bytes="x")
    yield replaced(ask, TOPIC, "s-replaced", no_such_setting="1")
    yield replaced(ask, TOPIC, "s-replaced", delete_retention_ms="7", validate=True)
    yield replaced(ask, TOPIC, "s-nobody", delete_retention_ms="7")
    yield replaced(ask, LOGGER, str(NODE), root="INFO")
    yield replaced(ask, 5, "s-replaced")
    yield described(ask, TOPIC, "s-replaced", "delete.retention.ms", "retention.bytes")
    yield replaced(ask, TOPIC, "s-replaced")
    yield described(ask, TOPIC, "s-replaced", "delete.retention.ms", "retention.bytes")


def changing_several(ask: Ask) -> Iterator[Any]:
    """Several resources in a request, one of them twice."""
    created(ask, topic("s-a", 1, 1), topic("s-b", 1, 1))

    def resource(name: str, value: str) -> alter.AlterConfigsResource:
        configs = [alter.AlterableConfig(name="delete.retention.ms", config_operation=SET, value=value)]
        return alter.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=configs)

    for resources in (
        [resource("s-a", "5"), resource("s-b", "x")],
        [resource("s-a", "6"), resource("s-b", "6"), resource("s-a", "6")],
        [],
    ):
        answer = ask(alter.IncrementalAlterConfigsRequest(resources=resources), 1)
        answer.responses.sort(key=lambda row: (row.resource_name, row.error_code))
        yield answer
    for name in ("s-a", "s-b"):
        yield described(ask, TOPIC, name, "delete.retention.ms")


def changing_brokers(ask: Ask) -> Iterator[Any]:
    """Settings of this broker, of all brokers, and their order."""
    created(ask, topic("s-default", 1, 1))
    watched = ("log.segment.bytes", "log.retention.bytes", "log.cleaner.min.cleanable.ratio")
    for name in ("", str(NODE)):
        for change in (
            (SET, "log.segment.bytes", "2000000"),
            (SET, "log.segment.bytes", "x"),
            (SET, "log.retention.bytes", None),
            (SET, "node.id", "9"),
            (SET, "num.partitions", "9"),
            (SET, "log.retention.hours", "9"),
            (SET, "log.dirs", "/x"),
            (APPEND, "log.segment.bytes", "9"),
            (APPEND, "log.cleanup.policy", "compact"),
            (SUBTRACT, "log.cleanup.policy", "delete"),
        ):
            yield altered(ask, BROKER, name, change)
        yield described(ask, BROKER, name, *watched[:3])
        yield described(ask, TOPIC, "s-default", "segment.bytes", "cleanup.policy")
    yield described(ask, BROKER, str(NODE), *watched)
    for name in ("", str(NODE)):
        yield altered(ask, BROKER, name, (DELETE, "log.segment.bytes", None), (DELETE, "log.cleanup.policy", None))
        yield described(ask, BROKER, name, *watched[:3])
    for name in ("9", "x", "-1"):
        yield altered(ask, BROKER, name, (SET, "log.segment.bytes", "2000000"))
        yield described(ask, BROKER, name, *watched)
    yield described(ask, TOPIC, "s-default", "segment.bytes", "cleanup.policy")


def changing_loggers(ask: Ask) -> Iterator[Any]:
    """Levels of loggers: the root's, as others have other names."""
    for change in (
        (SET, "root", "WARN"),
        (SET, "root", "LOUD"),
        (SET, "root", "info"),
        (SET, "root", None),
        (DELETE, "root", None),
        (APPEND, "root", "INFO"),
        (SUBTRACT, "root", "INFO"),
        (SET, "no.such.logger", "INFO"),
        (DELETE, "no.such.logger", None),
        (SET, "root", "ERROR"),
        (SET, "root", "INFO"),
    ):
        for validate in (True, False):
            yield altered(ask, LOGGER, str(NODE), change, validate=validate)
        yield described(ask, LOGGER, str(NODE), "root")
    for name in ("", "9", "x"):
        yield altered(ask, LOGGER, name, (SET, "root", "INFO"))
        yield described(ask, LOGGER, name)


def changing_groups(ask: Ask) -> Iterator[Any]:
    """Settings of groups that do not exist."""
    for change in (
        (SET, "consumer.session.timeout.ms", "50000"),
        (SET, "consumer.session.timeout.ms", "x"),
        (SET, "consumer.session.timeout.ms", "44999"),
        (SET, "consumer.session.timeout.ms", "60001"),
        (SET, "consumer.heartbeat.interval.ms", "4999"),
        (SET, "consumer.heartbeat.interval.ms", "15001"),
        (SET, "consumer.assignment.interval.ms", "15001"),
        (SET, "consumer.assignment.interval.ms", "15000"),
        (SET, "share.session.timeout.ms", "44999"),
        (SET, "share.heartbeat.interval.ms", "15001"),
        (SET, "share.auto.offset.reset", "earliest"),
        (SET, "share.auto.offset.reset", "by_duration:PT1H"),
        (SET, "share.auto.offset.reset", "by_duration:x"),
        (SET, "share.isolation.level", "read_none"),
        (SET, "retention.ms", "5"),
        (DELETE, "retention.ms", None),
        (APPEND, "consumer.session.timeout.ms", "5"),
    ):
        yield altered(ask, GROUP, "s-group", change)
    yield altered(ask, GROUP, "", (SET, "consumer.session.timeout.ms", "50000"))
    yield described(ask, GROUP, "s-group")
    yield described(ask, GROUP, "s-other", "share.isolation.level", "no.such")
    yield described(ask, GROUP, "")


def changing_client_metrics(ask: Ask) -> Iterator[Any]:
    """Client metrics subscriptions."""
    for change in (
        (SET, "interval.ms", "1000"),
        (SET, "interval.ms", "99"),
        (SET, "interval.ms", "3600001"),
        (SET, "metrics", "org.apache.kafka.producer."),
        (SET, "match", "client_id=a.*,client_source_port=1"),
        (SET, "match", "color=blue"),
        (SET, "match", "client_id"),
        (SET, "match", "client_id=("),
        (SET, "retention.ms", "5"),
    ):
        yield altered(ask, METRICS, "s-metrics", change)
    yield altered(ask, METRICS, "", (SET, "interval.ms", "1000"))
    yield described(ask, METRICS, "s-metrics")
    yield described(ask, METRICS, "s-other")
    yield described(ask, METRICS, "")
    for version, types in ((0, []), (1, [METRICS]), (1, [GROUP]), (1, [BROKER]), (1, [LOGGER]), (1, [5])):
        answer = ask(ListConfigResourcesRequest(resource_types=types), version)
        answer.config_resources.sort(key=lambda row: (row.resource_type, row.resource_name))
        yield answer


SCENARIOS: tuple[Scenario, ...] = (
    changing_topics,
    replacing_all_settings,
    changing_several,
    changing_brokers,
    changing_loggers,
    changing_groups,
    changing_client_metrics,
)
