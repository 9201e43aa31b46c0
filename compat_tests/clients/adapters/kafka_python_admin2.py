"""The admin of kafka-python 2.x, which uses NewTopic, ConfigResource and response objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic

from compat_tests.clients.adapters.contract import (
    TOPIC_AUTHORIZATION_FAILED,
    BrokerError,
    Config,
    GroupDescription,
    Place,
)
from compat_tests.clients.adapters.kafka_python import REQUEST_TIMEOUT_MS, refusals
from compat_tests.clients.adapters.kafka_python_acls import AclAdmin
from compat_tests.clients.security import connecting


def _check(code: int, text: str) -> None:
    if code:
        raise BrokerError(code, text)


class Admin(AclAdmin):
    def __init__(self, bootstrap: str, config: Config) -> None:
        given = {**connecting("kafka-python", bootstrap), "request_timeout_ms": REQUEST_TIMEOUT_MS, **config}
        self._admin = KafkaAdminClient(**given)

    def create_topic(
        self, name: str, partitions: int = 1, *, replicas: int = 1, settings: Mapping[str, str] | None = None
    ) -> None:
        with refusals():
            self._admin.create_topics([NewTopic(name, partitions, replicas, topic_configs=dict(settings or {}))])

    def delete_topic(self, name: str) -> None:
        with refusals():
            self._admin.delete_topics([name])

    def topics(self) -> set[str]:
        return set(self._admin.list_topics())

    def describe_topic(self, name: str) -> dict[int, int]:
        try:
            (topic,) = self._admin.describe_topics([name])
        except ValueError as error:  # 2.3 can't read that the operations on a refused topic are not told
            raise BrokerError(TOPIC_AUTHORIZATION_FAILED, str(error)) from None
        _check(topic["error_code"], name)
        return {partition["partition"]: partition["leader"] for partition in topic["partitions"]}

    def brokers(self) -> list[tuple[str, int]]:
        return [(broker["host"], broker["port"]) for broker in self._admin.describe_cluster()["brokers"]]

    def add_partitions(self, name: str, count: int) -> None:
        with refusals():
            self._admin.create_partitions({name: NewPartitions(count)})

    def topic_settings(self, name: str) -> dict[str, str | None]:
        (response,) = self._admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
        ((code, text, _type, _name, entries),) = response.resources
        _check(code, text)
        return {entry[0]: entry[1] for entry in entries}

    def alter_topic(self, name: str, settings: Mapping[str, str]) -> None:
        response: Any = self._admin.alter_configs(
            [ConfigResource(ConfigResourceType.TOPIC, name, configs=dict(settings))]
        )
        for code, text, _type, _name in response.resources:
            _check(code, text)

    def groups(self) -> set[str]:
        return {group for group, _protocol_type in self._admin.list_consumer_groups()}

    def describe_group(self, group: str) -> GroupDescription:
        (description,) = self._admin.describe_consumer_groups([group])
        return GroupDescription(description.state, len(description.members))

    def delete_group(self, group: str) -> None:
        for _name, error in self._admin.delete_consumer_groups([group]):
            _check(error.errno, group)

    def delete_records(self, place: Place, before_offset: int) -> None:
        with refusals():
            self._admin.delete_records({TopicPartition(place.topic, place.partition): before_offset})

    def log_dirs(self) -> list[dict[Place, int]]:
        raise NotImplementedError("kafka-python 2's admin describes no data folders")

    def set_password(self, user: str, password: str | None) -> None:
        raise NotImplementedError("kafka-python 2's admin sets no passwords")

    def users(self) -> set[str]:
        raise NotImplementedError("kafka-python 2's admin lists no users")

    def close(self) -> None:
        self._admin.close()
