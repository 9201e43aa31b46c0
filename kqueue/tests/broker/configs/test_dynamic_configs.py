from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from kqueue.base.config_resources import ConfigChange, ConfigOperation, ResourceType
from kqueue.base.errors import (
    Conflict,
    InvalidConfig,
    InvalidRequest,
    KqueueError,
    PolicyViolation,
    StorageFailed,
)
from kqueue.base.promise import Promise
from kqueue.broker.config_changes import RESOURCE_BYTES_MAX
from kqueue.broker.configs.dynamic_configs import QUEUED_MAX, ConfigResource
from kqueue.config.catalog import CATALOG
from kqueue.config.kafka_settings import reason_for
from kqueue.metadata.memory import MemoryStore
from kqueue.testing.simulation import Simulation
from kqueue.tests.tables import for_each

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
TOPIC = ConfigResource(ResourceType.TOPIC, "t")
BROKER = ConfigResource(ResourceType.BROKER, "1")
DEFAULTS = ConfigResource(ResourceType.BROKER, "")
LOGGERS = ConfigResource(ResourceType.BROKER_LOGGER, "1")
GROUP = ConfigResource(ResourceType.GROUP, "g")
METRICS = ConfigResource(ResourceType.CLIENT_METRICS, "m")


def crashed(sim: Simulation) -> Simulation:
    """A new broker on the same metadata; it has no logs."""
    return Simulation(sim.settings, store=sim.store, clock=sim.clock)


def put(sim: Simulation, resource: ConfigResource, **values: str) -> None:
    changes = [ConfigChange(SET, name.replace("_", "."), value) for name, value in values.items()]
    sim.result(sim.broker.configs.alter(resource, changes))


def unset(sim: Simulation, resource: ConfigResource, *names: str) -> None:
    sim.result(sim.broker.configs.alter(resource, [ConfigChange(DELETE, name) for name in names]))


def refusal(sim: Simulation, resource: ConfigResource, *changes: ConfigChange) -> KqueueError:
    promise = sim.broker.configs.alter(resource, changes)
    sim.settle()
    assert promise.error is not None
    return promise.error


@for_each(
    "resource, name, value, parsed",
    [
        (TOPIC, "retention.ms", "5000", 5000),
        (TOPIC, "cleanup.policy", "compact,delete", ["compact", "delete"]),
        (BROKER, "log.retention.ms", "5000", 5000),
        (DEFAULTS, "log.cleaner.threads", "2", 2),
        (GROUP, "consumer.session.timeout.ms", "46000", 46000),
        (METRICS, "match", "client_id=a.*,client_source_port=1", ["client_id=a.*", "client_source_port=1"]),
    ],
)
def test_values_are_kept_across_a_crash(resource: ConfigResource, name: str, value: str, parsed: Any) -> None:
    sim = Simulation()
    sim.topic("t")
    put(sim, resource, **{name: value})
    assert sim.broker.configs.own(resource) == {name: parsed}
    sim = crashed(sim)
    assert sim.broker.configs.own(resource) == {name: parsed}
    unset(sim, resource, name)
    assert sim.broker.configs.own(resource) == {}
    assert crashed(sim).broker.configs.own(resource) == {}
    if resource != TOPIC:
        assert not sim.broker.metadata.cache.with_prefix("/configs/")


def test_the_strongest_source_of_a_topics_value_counts() -> None:
    sim = Simulation({"log.retention.hours": 1, "log.segment.bytes": 5000})
    topic = sim.topic("t")
    seen = []
    for resource, name, value in [
        (DEFAULTS, "log.retention.ms", "2"),
        (BROKER, "log.retention.ms", "3"),
        (TOPIC, "retention.ms", "4"),
    ]:
        seen.append(topic.config["retention.ms"])
        put(sim, resource, **{name: value})
    for resource, name in [(TOPIC, "retention.ms"), (BROKER, "log.retention.ms"), (DEFAULTS, "log.retention.ms")]:
        seen.append(topic.config["retention.ms"])
        unset(sim, resource, name)
    assert [*seen, topic.config["retention.ms"]] == [3_600_000, 2, 3, 4, 3, 2, 3_600_000]
    assert topic.log_config.segment_bytes == 5000
    put(sim, DEFAULTS, log_segment_bytes="6000")
    assert topic.log_config.segment_bytes == 6000


@for_each(
    "resource, change, error, words",
    [
        (TOPIC, ConfigChange(SET, "retention.mss", "1"), InvalidConfig, "Unknown topic config name: retention.mss"),
        (
            TOPIC,
            ConfigChange(SET, "retention.ms", "-5"),
            InvalidConfig,
            "retention.ms: Value must be at least -1; expected.*at least -1",
        ),
        (TOPIC, ConfigChange(SET, "retention.ms", "x"), InvalidConfig, "expected a 64-bit number"),
        (TOPIC, ConfigChange(APPEND, "cleanup.policy", "shred"), InvalidConfig, "cleanup.policy"),
        (TOPIC, ConfigChange(SET, "kqueue.partitioner", "nope"), InvalidConfig, "nope"),
        (TOPIC, ConfigChange(SET, "max.compaction.lag.ms", "5"), InvalidConfig, "min.compaction.lag.ms"),
        (
            BROKER,
            ConfigChange(APPEND, "log.retention.mss", "1"),
            InvalidConfig,
            "Unknown config name: log.retention.mss",
        ),
        (
            DEFAULTS,
            ConfigChange(SET, "listener.name.a.b", "5"),
            InvalidRequest,
            "at default cluster level, broker id must",
        ),
        (BROKER, ConfigChange(SET, "log.dirs", "/x"), InvalidRequest, "log.dirs can't be changed at run time"),
        (BROKER, ConfigChange(SET, "log.retention.hours", "1"), InvalidRequest, "can't be changed at run time"),
        (BROKER, ConfigChange(SET, "log.retention.ms", "x"), InvalidRequest, "expected a 64-bit number"),
        (DEFAULTS, ConfigChange(SET, "node.id", "4"), InvalidRequest, "can't be changed at run time"),
        (GROUP, ConfigChange(SET, "retention.ms", "4"), InvalidConfig, "no group setting is called 'retention.ms'"),
        (GROUP, ConfigChange(SET, "share.auto.offset.reset", "never"), InvalidConfig, "latest, earliest"),
        (METRICS, ConfigChange(SET, "interval.ms", "4"), InvalidRequest, "from 100 to 3600000"),
        (METRICS, ConfigChange(SET, "match", "client_id=("), InvalidConfig, "KEY=PATTERN"),
        (METRICS, ConfigChange(SET, "match", "color=blue"), InvalidConfig, "client_id"),
    ],
)
def test_wrong_values_are_refused_and_change_nothing(
    resource: ConfigResource, change: ConfigChange, error: type[KqueueError], words: str
) -> None:
    sim = Simulation()
    sim.topic("t", min_compaction_lag_ms="10")
    before = dict(sim.broker.configs.own(resource)), sim.store.read("/")
    refused = refusal(sim, resource, change)
    assert isinstance(refused, error)
    with pytest.raises(error, match=words):
        raise refused
    assert (dict(sim.broker.configs.own(resource)), sim.store.read("/")) == before


@for_each(
    "resource, words",
    [
        (ConfigResource(ResourceType.TOPIC, "nobody"), "there is no topic"),
        (ConfigResource(ResourceType.BROKER, "2"), "this is broker 1"),
        (ConfigResource(ResourceType.BROKER, "x"), "expected the id of a broker"),
        (ConfigResource(ResourceType.GROUP, ""), "expected the name of a group"),
        (ConfigResource(ResourceType.GROUP, "g" * 1001), "1 to 1000 characters"),
        (ConfigResource(ResourceType.CLIENT_METRICS, "a\0b"), "without NUL"),
        (ConfigResource(ResourceType.BROKER_LOGGER, ""), "loggers have no defaults"),
        (ConfigResource(ResourceType.BROKER_LOGGER, "2"), "this is broker 1"),
    ],
)
def test_resources_that_are_not_there_are_refused(resource: ConfigResource, words: str) -> None:
    assert words in str(refusal(Simulation(), resource, ConfigChange(SET, "retention.ms", "1")))


def test_replace_unsets_what_is_not_named() -> None:
    sim = Simulation()
    sim.topic("t", retention_ms="1", segment_bytes="5000")
    sim.result(sim.broker.configs.replace(TOPIC, [("flush.ms", "9"), ("retention.ms", "2")]))
    assert sim.broker.configs.own(TOPIC) == {"flush.ms": 9, "retention.ms": 2}
    promise = sim.broker.configs.replace(LOGGERS, [("root", "INFO")])
    assert isinstance(promise.error, InvalidRequest)


def test_validate_only_checks_and_changes_nothing() -> None:
    sim = Simulation()
    topic = sim.topic("t")
    fine = sim.broker.configs.alter(TOPIC, [ConfigChange(SET, "retention.ms", "1")], validate_only=True)
    wrong = sim.broker.configs.replace(TOPIC, [("retention.ms", "x")], validate_only=True)
    loggers = sim.broker.configs.alter(LOGGERS, [ConfigChange(SET, "root", "FATAL")], validate_only=True)
    level = logging.getLogger("kqueue").level
    sim.settle()
    assert (fine.error, loggers.error) == (None, None)
    assert isinstance(wrong.error, InvalidConfig)
    assert topic.config.overrides == {}
    assert logging.getLogger("kqueue").level == level


def test_changes_of_one_resource_build_on_each_other() -> None:
    sim = Simulation()
    topic = sim.topic("t")
    configs = sim.broker.configs
    promises = [
        configs.alter(TOPIC, [ConfigChange(APPEND, "cleanup.policy", "compact")]),
        configs.alter(TOPIC, [ConfigChange(SUBTRACT, "cleanup.policy", "delete")]),
        configs.alter(TOPIC, [ConfigChange(SET, "retention.ms", "x")]),
        configs.alter(TOPIC, [ConfigChange(SET, "retention.ms", "7")]),
    ]
    sim.settle()
    assert [promise.error is None for promise in promises] == [True, True, False, True]
    assert topic.config.overrides == {"cleanup.policy": ["compact"], "retention.ms": 7}


def test_a_change_beside_more_partitions_is_repeated() -> None:
    sim = Simulation()
    topic = sim.topic("t")
    grown = sim.broker.topics.add_partitions("t", 3)
    altered = sim.broker.configs.alter(TOPIC, [ConfigChange(SET, "retention.ms", "7")])
    sim.settle()
    assert (grown.error, altered.error) == (None, None)
    record = json.loads(sim.store.read("/topics/t")["/topics/t"].value)
    assert (record["partitions"], record["configs"]) == (3, {"retention.ms": "7"})
    assert (len(topic.partitions), topic.config["retention.ms"]) == (3, 7)


def test_a_change_of_a_topic_that_is_being_deleted_fails() -> None:
    sim = Simulation()
    sim.topic("t")
    sim.broker.topics.delete("t")
    error = refusal(sim, TOPIC, ConfigChange(SET, "retention.ms", "7"))
    assert "there is no topic" in str(error)
    assert sim.broker.topics.names() == []


def test_a_store_that_another_writer_has_changed_fails_the_change() -> None:
    sim = Simulation()
    sim.topic("t")
    sim.store.commit({}, {"/topics/t": b"{}"}, [])
    assert isinstance(refusal(sim, TOPIC, ConfigChange(SET, "retention.ms", "7")), Conflict)
    assert sim.broker.topics.get("t").config.overrides == {}


def test_hostile_sizes_are_bounded() -> None:
    sim = Simulation()
    sim.topic("t")
    error = refusal(sim, TOPIC, ConfigChange(SET, "kqueue.consumed.groups", "g" * RESOURCE_BYTES_MAX))
    assert isinstance(error, InvalidConfig)
    changes = [ConfigChange(SET, "retention.ms", "1")]
    promises: list[Promise[None]] = [sim.broker.configs.alter(TOPIC, changes) for _ in range(QUEUED_MAX + 1)]
    assert isinstance(promises[-1].error, PolicyViolation)
    sim.settle()
    assert [promise.error for promise in promises[:-1]] == [None] * QUEUED_MAX


def test_only_so_many_groups_have_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kqueue.broker.configs.config_targets.RESOURCES_MAX", 1)
    sim = Simulation()
    put(sim, GROUP, consumer_session_timeout_ms="50000")
    other = ConfigResource(ResourceType.GROUP, "other")
    change = ConfigChange(SET, "consumer.session.timeout.ms", "50000")
    assert isinstance(refusal(sim, other, change), PolicyViolation)
    put(sim, GROUP, consumer_session_timeout_ms="60000")
    unset(sim, GROUP, "consumer.session.timeout.ms")
    put(sim, other, consumer_session_timeout_ms="50000")
    assert sim.broker.configs.names(ResourceType.GROUP) == ["other"]
    assert sim.broker.configs.groups.values("other")["consumer.session.timeout.ms"] == 50000
    assert sim.broker.configs.groups.values("another")["consumer.session.timeout.ms"] == 45000


def test_a_stored_setting_that_is_gone_is_skipped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    sim = Simulation()
    stored = {"kqueue.of.a.plugin": "1", "log.retention.ms": "5", "log.cleaner.threads": "x"}
    sim.store.commit({}, {"/configs/brokers/1": json.dumps(stored).encode()}, [])
    restarted = crashed(sim)
    assert restarted.broker.configs.own(BROKER) == {"log.retention.ms": 5, "kqueue.of.a.plugin": "1"}
    assert "kqueue.of.a.plugin has no effect" in caplog.text
    assert "log.cleaner.threads" in caplog.text


def accepted(sim: Simulation, resource: ConfigResource, change: ConfigChange) -> bool:
    promise = sim.broker.configs.alter(resource, [change])
    sim.settle()
    return promise.done and promise.error is None


def test_unknown_settings_of_a_broker_are_stored_with_one_warning(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kqueue.testing.simulation.CATALOG", CATALOG)
    sim = Simulation()
    for value in ("1", "2"):
        assert accepted(sim, BROKER, ConfigChange(SET, "log.retention.mss", value))
    assert accepted(sim, DEFAULTS, ConfigChange(SET, "my.plugin", "x"))
    assert accepted(sim, BROKER, ConfigChange(SET, "metric.reporters", "com.example.Reporter"))
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [text.partition(" has no effect: Stored and shown only: ")[::2] for text in warnings] == [
        ("broker 1: log.retention.mss", "kqueue does not know it; did you mean 'log.retention.ms'?"),
        ("broker 1: my.plugin", "kqueue does not know it"),
        ("broker 1: metric.reporters", reason_for("metric.reporters")),
    ]
    restarted = crashed(sim)
    own = restarted.broker.configs.own
    assert own(BROKER) == {"log.retention.mss": "2", "metric.reporters": ["com.example.Reporter"]}
    assert own(DEFAULTS) == {"my.plugin": "x"}
    assert accepted(restarted, BROKER, ConfigChange(DELETE, "log.retention.mss"))
    assert own(BROKER) == {"metric.reporters": ["com.example.Reporter"]}


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("principal.builder.class", "x", "Class x could not be found.; expected .*principals that a class builds"),
        ("listener.name.a.max.connections", "5", "a limit on the connections of one listener"),
        ("listener.name.a.ssl.engine.factory.class", "x", "a TLS engine written in Java"),
        ("share.coordinator.cached.buffer.max.bytes", "0", "Value must be at least 524288"),
        ("controller.quorum.voters", "x", r"Cannot update these configs dynamically: \[controller.quorum.voters\]"),
    ],
)
def test_settings_of_kafka_that_kqueue_does_not_have_are_checked(
    name: str, value: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kqueue.testing.simulation.CATALOG", CATALOG)
    with pytest.raises(InvalidRequest, match=words):
        raise refusal(Simulation(), BROKER, ConfigChange(SET, name, value))


class CutStore(MemoryStore):
    """Fails a commit before or after it is made, as a power cut does."""

    cut: str | None = None

    def commit(
        self, guards: Mapping[str, int | None], puts: Mapping[str, bytes], deletes: Iterable[str]
    ) -> Mapping[str, int]:
        if self.cut == "before":
            raise StorageFailed("no power")
        versions = super().commit(guards, puts, deletes)
        if self.cut == "after":
            raise StorageFailed("no power")
        return versions


@for_each("name, low, high", [("consumer.session", 45_000, 60_000), ("share.session", 45_000, 60_000)])
def test_a_groups_times_lie_within_the_brokers_bounds(name: str, low: int, high: int) -> None:
    sim = Simulation()
    for value in (low - 1, high + 1):
        error = refusal(sim, GROUP, ConfigChange(SET, f"{name}.timeout.ms", str(value)))
        assert isinstance(error, InvalidConfig)
        assert f"from {low} to {high}" in str(error)
    for value in (low, high):
        put(sim, GROUP, **{f"{name}.timeout.ms": str(value)})


@for_each("cut", ["before", "after"])
@for_each(
    "resource, names",
    [
        (TOPIC, ("retention.ms", "flush.ms")),
        (BROKER, ("log.retention.ms", "log.cleaner.threads")),
        (DEFAULTS, ("log.retention.ms", "log.cleaner.threads")),
        (GROUP, ("share.assignment.interval.ms", "consumer.assignment.interval.ms")),
        (METRICS, ("interval.ms", "match")),
    ],
)
def test_a_power_cut_leaves_the_old_or_the_new_values(
    cut: str, resource: ConfigResource, names: tuple[str, str]
) -> None:
    store = CutStore()
    sim = Simulation(store=store)
    sim.topic("t")
    first, second = names
    put(sim, resource, **{first: "5000"})
    old = dict(sim.broker.configs.own(resource))
    store.cut = cut
    error = refusal(
        sim, resource, ConfigChange(DELETE, first), ConfigChange(SET, second, "" if second == "match" else "7")
    )
    assert isinstance(error, StorageFailed)
    assert sim.broker.configs.own(resource) == old
    store.cut = None
    kept = crashed(sim).broker.configs.own(resource)
    assert kept == (old if cut == "before" else {second: [] if second == "match" else 7})


def test_levels_of_loggers_are_not_stored() -> None:
    sim = Simulation()
    before = sim.store.read("/")
    level = logging.getLogger("kqueue.broker").level
    sim.result(sim.broker.configs.alter(LOGGERS, [ConfigChange(SET, "kqueue.broker", "FATAL")]))
    assert logging.getLogger("kqueue.broker").level == logging.CRITICAL
    assert sim.store.read("/") == before
    sim.stop()
    assert logging.getLogger("kqueue.broker").level == level
