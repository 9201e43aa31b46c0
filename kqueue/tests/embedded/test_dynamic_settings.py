"""Settings changed while a broker runs, by a Python program and by stock admin clients."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource as AioConfigResource
from aiokafka.admin.config_resource import ConfigResourceType as AioConfigResourceType
from confluent_kafka import KafkaException
from confluent_kafka import admin as confluent_admin
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import MessageSizeTooLargeError

import kqueue
from kqueue.base.errors import InvalidRequest, SettingError
from kqueue.base.log_event import plain_fields


@pytest.fixture
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker() as broker:
        broker.create_topic("t")
        yield broker


def test_a_brokers_settings_reach_topics_and_are_kept(tmp_path: Path) -> None:
    with kqueue.Broker(tmp_path) as broker:
        broker.create_topic("t")
        broker.create_topic("own", retention_ms=9)
        broker.alter_config(log_retention_ms=7, log_cleaner_threads=2)
        assert (broker.topics["t"].config["retention.ms"], broker.topics["own"].config["retention.ms"]) == (7, 9)
        with pytest.raises(InvalidRequest, match="node.id can't be changed at run time"):
            broker.alter_config(node_id=5, log_retention_ms=8)
        with pytest.raises(SettingError, match="did you mean 'log.retention.ms'"):
            broker.alter_config(log_retention_mss=8)
        broker.restart()
        assert broker.topics["t"].config["retention.ms"] == 7
    with kqueue.Broker(tmp_path) as broker:
        assert broker.topics["t"].config["retention.ms"] == 7
        broker.alter_config(log_retention_ms=None)
        assert broker.topics["t"].config["retention.ms"] == 604_800_000


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_reset_removes_what_was_changed(tmp_path: Path, kind: str) -> None:
    with kqueue.Broker(tmp_path if kind == "disk" else None) as broker:
        broker.alter_config(log_retention_ms=7)
        broker.reset()
        broker.create_topic("t")
        assert broker.topics["t"].config["retention.ms"] == 604_800_000


def logged_requests(broker: kqueue.Broker, caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """Produce a record; return the fields of the lines about that request."""
    caplog.clear()
    with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("t", b"one").get(60)
    records = [record for record in caplog.records if record.name == "kqueue.requests"]
    return [fields for fields in map(plain_fields, records) if fields["api"] == "Produce"]


def test_requests_are_logged_while_a_setting_asks_for_it(
    broker: kqueue.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kqueue.requests")
    assert logged_requests(broker, caplog) == []
    broker.alter_config(kqueue_request_log_sample=1.0)
    (line,) = logged_requests(broker, caplog)
    assert line["listener"] == "PLAINTEXT"
    assert line["took_ms"] == pytest.approx(line["queued_ms"] + line["handled_ms"] + line["waited_ms"], abs=0.01)
    broker.alter_config(kqueue_request_log_sample=0.0, kqueue_slow_request_ms=0)
    assert len(logged_requests(broker, caplog)) == 1
    broker.alter_config(kqueue_slow_request_ms=-1)
    assert logged_requests(broker, caplog) == []


def test_kafka_pythons_admin_client(broker: kqueue.Broker) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    producer.send("t", b"." * 5000).get(60)
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:
        topic = ConfigResource(
            ConfigResourceType.TOPIC, "t", {"max.message.bytes": "1000", "cleanup.policy": ("APPEND", "compact")}
        )
        assert admin.alter_configs([topic], incremental=True) == {"topic": {"t": "OK"}}
        own = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "t")])["topic"]["t"]
        assert {name: row["value"] for name, row in own.items()} == {
            "cleanup.policy": "delete,compact",
            "max.message.bytes": "1000",
        }
        with pytest.raises(MessageSizeTooLargeError):
            producer.send("t", b"." * 5000, key=b"k").get(60)
        replaced = ConfigResource(ConfigResourceType.TOPIC, "t", {"flush.ms": "7"})
        admin.alter_configs([replaced], incremental=False)
        # this client adds what is set already
        assert broker.topics["t"].own_config == {
            "cleanup.policy": ["delete", "compact"],
            "max.message.bytes": 1000,
            "flush.ms": 7,
        }
        loggers = ConfigResource(ConfigResourceType.BROKER_LOGGER, "1")
        levels = admin.describe_configs([loggers], config_filter="all")["broker_logger"]["1"]
        assert {row["config_source"] for row in levels.values()} == {"DYNAMIC_BROKER_LOGGER_CONFIG"}
        assert set(admin.list_config_resources()) >= {"topic", "broker", "broker_logger"}
    producer.close()


def test_confluents_admin_client(broker: kqueue.Broker) -> None:
    names: Any = confluent_admin  # its types do not export these
    Operation, ResourceType = names.AlterConfigOpType, names.ResourceType
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    def resource(kind: Any, name: str, *entries: tuple[str, str | None, Any]) -> Any:
        configs = [names.ConfigEntry(key, value, incremental_operation=operation) for key, value, operation in entries]
        return names.ConfigResource(kind, name, incremental_configs=configs)

    def described(kind: Any, name: str) -> dict[str, Any]:
        [future] = admin.describe_configs([names.ConfigResource(kind, name)]).values()
        return dict(future.result(60))

    def alter(*resources: Any, **options: Any) -> None:
        for future in admin.incremental_alter_configs(list(resources), **options).values():
            future.result(60)

    alter(
        resource(
            ResourceType.TOPIC,
            "t",
            ("retention.ms", "7", Operation.SET),
            ("cleanup.policy", "compact", Operation.APPEND),
            ("cleanup.policy.x", None, Operation.DELETE),
        ),
        resource(ResourceType.BROKER, "1", ("log.cleaner.threads", "2", Operation.SET)),
    )
    assert broker.topics["t"].own_config == {"retention.ms": 7, "cleanup.policy": ["delete", "compact"]}
    entry = described(ResourceType.BROKER, "1")["log.cleaner.threads"]
    assert (entry.value, entry.is_read_only, entry.is_default) == ("2", False, False)
    assert list(entry.synonyms) == ["log.cleaner.threads"]
    alter(resource(ResourceType.TOPIC, "t", ("retention.ms", None, Operation.DELETE)), validate_only=True)
    assert "retention.ms" in broker.topics["t"].own_config
    with pytest.raises(KafkaException, match="Cannot update these configs dynamically"):
        alter(resource(ResourceType.BROKER, "1", ("node.id", "2", Operation.SET)))
    with pytest.raises(KafkaException, match="Can't APPEND to key"):
        alter(resource(ResourceType.TOPIC, "t", ("retention.ms", "7", Operation.APPEND)))
    with pytest.warns(DeprecationWarning, match="incremental_alter_configs"):
        replacing = admin.alter_configs([names.ConfigResource(ResourceType.TOPIC, "t", {"flush.ms": "9"})])
    for future in replacing.values():
        future.result(60)
    assert broker.topics["t"].own_config == {"flush.ms": 9}


def test_aiokafkas_admin_client(broker: kqueue.Broker) -> None:
    async def change() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await admin.start()
        try:
            topic = AioConfigResource(AioConfigResourceType.TOPIC, "t", {"retention.ms": "7"})
            [altered] = await admin.alter_configs([topic])
            assert [row[0] for row in altered.resources] == [0]
            [described] = await admin.describe_configs([AioConfigResource(AioConfigResourceType.TOPIC, "t")])
            [row] = described.resources
            values = {entry[0]: entry[1] for entry in row[4]}
            assert values["retention.ms"] == "7"
        finally:
            await admin.close()

    asyncio.run(change())
    assert broker.topics["t"].own_config == {"retention.ms": 7}
