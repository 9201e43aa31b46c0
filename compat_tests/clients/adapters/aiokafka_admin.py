"""aiokafka's admin, which returns response objects without raising their errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from compat_tests.clients.adapters.aiokafka_loop import refusals, run, started
from compat_tests.clients.adapters.contract import BrokerError, Config, GroupDescription, Place
from compat_tests.clients.security import connecting


def _check(code: int, text: str) -> None:
    if code:
        raise BrokerError(code, text)


class Admin:
    def __init__(self, bootstrap: str, config: Config) -> None:
        async def opening() -> Any:
            return await started(AIOKafkaAdminClient(**{**connecting("aiokafka", bootstrap), **config}))

        self._admin = run(opening())

    def create_topic(
        self, name: str, partitions: int = 1, *, replicas: int = 1, settings: Mapping[str, str] | None = None
    ) -> None:
        response: Any = run(
            self._admin.create_topics([NewTopic(name, partitions, replicas, topic_configs=dict(settings or {}))])
        )
        for error in response.topic_errors:
            _check(error[1], str(error))

    def delete_topic(self, name: str) -> None:
        response: Any = run(self._admin.delete_topics([name]))
        for error in response.topic_error_codes:
            _check(error[1], name)

    def topics(self) -> set[str]:
        return set(run(self._admin.list_topics()))

    def describe_topic(self, name: str) -> dict[int, int]:
        (topic,) = run(self._admin.describe_topics([name]))
        _check(topic["error_code"], name)
        return {partition["partition"]: partition["leader"] for partition in topic["partitions"]}

    def brokers(self) -> list[tuple[str, int]]:
        return [(broker["host"], broker["port"]) for broker in run(self._admin.describe_cluster())["brokers"]]

    def add_partitions(self, name: str, count: int) -> None:
        run(self._admin.create_partitions({name: NewPartitions(count)}))

    def topic_settings(self, name: str) -> dict[str, str | None]:
        (response,) = run(self._admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)]))
        ((code, text, _type, _name, entries),) = response.resources
        _check(code, text)
        return {entry[0]: entry[1] for entry in entries}

    def alter_topic(self, name: str, settings: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, name, configs=dict(settings))
        for response in run(self._admin.alter_configs([resource])):
            for code, text, *_ in response.resources:
                _check(code, text)

    def groups(self) -> set[str]:
        return {group[0] for group in run(self._admin.list_consumer_groups())}

    def describe_group(self, group: str) -> GroupDescription:
        (response,) = run(self._admin.describe_consumer_groups([group]))
        ((code, _group, state, _type, _protocol, members, *_),) = response.groups
        _check(code, group)
        return GroupDescription(state, len(members))

    def delete_group(self, group: str) -> None:
        raise NotImplementedError("aiokafka's admin deletes no groups")

    def delete_records(self, place: Place, before_offset: int) -> None:
        from aiokafka.admin import RecordsToDelete

        with refusals():
            run(
                self._admin.delete_records(
                    {TopicPartition(place.topic, place.partition): RecordsToDelete(before_offset)}
                )
            )

    def log_dirs(self) -> list[dict[Place, int]]:
        raise NotImplementedError("aiokafka's admin describes no data folders")

    def allow(self, user: str, operation: str, topic: str) -> None:
        raise NotImplementedError("aiokafka's admin creates no ACLs")

    def allowed(self, user: str) -> set[tuple[str, str]]:
        raise NotImplementedError("aiokafka's admin describes no ACLs")

    def forbid(self, user: str) -> int:
        raise NotImplementedError("aiokafka's admin deletes no ACLs")

    def set_password(self, user: str, password: str | None) -> None:
        raise NotImplementedError("aiokafka's admin sets no passwords")

    def users(self) -> set[str]:
        raise NotImplementedError("aiokafka's admin lists no users")

    def close(self) -> None:
        run(self._admin.close())
