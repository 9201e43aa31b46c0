"""confluent-kafka's admin, in which every call returns one future per resource."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from compat_tests.clients.adapters.confluent_errors import CALL_TIMEOUT_S, QUIET, refusals, refuse
from compat_tests.clients.adapters.contract import Config, GroupDescription, Place
from compat_tests.clients.security import connecting


def _result(futures: Mapping[Any, Any]) -> Any:
    (future,) = futures.values()
    with refusals():
        return future.result(CALL_TIMEOUT_S)


class Admin:
    def __init__(self, bootstrap: str, config: Config) -> None:
        self._admin = AdminClient({**QUIET, **connecting("confluent-kafka", bootstrap), **config})

    def create_topic(
        self, name: str, partitions: int = 1, *, replicas: int = 1, settings: Mapping[str, str] | None = None
    ) -> None:
        _result(self._admin.create_topics([NewTopic(name, partitions, replicas, config=dict(settings or {}))]))

    def delete_topic(self, name: str) -> None:
        _result(self._admin.delete_topics([name]))

    def topics(self) -> set[str]:
        with refusals():
            return set(self._admin.list_topics(timeout=CALL_TIMEOUT_S).topics)

    def describe_topic(self, name: str) -> dict[int, int]:
        with refusals():
            topic = self._admin.list_topics(name, timeout=CALL_TIMEOUT_S).topics[name]
        if topic.error:
            raise refuse(topic.error)
        return {partition: info.leader for partition, info in topic.partitions.items()}

    def brokers(self) -> list[tuple[str, int]]:
        return [
            (broker.host, broker.port) for broker in self._admin.list_topics(timeout=CALL_TIMEOUT_S).brokers.values()
        ]

    def add_partitions(self, name: str, count: int) -> None:
        _result(self._admin.create_partitions([NewPartitions(name, count)]))

    def topic_settings(self, name: str) -> dict[str, str | None]:
        entries = _result(self._admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)]))
        return {key: entry.value for key, entry in entries.items()}

    def alter_topic(self, name: str, settings: Mapping[str, str]) -> None:
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in settings.items()
        ]
        _result(
            self._admin.incremental_alter_configs(
                [ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)]
            )
        )

    def groups(self) -> set[str]:
        with refusals():
            listing = self._admin.list_consumer_groups(request_timeout=CALL_TIMEOUT_S).result(CALL_TIMEOUT_S)
        if listing.errors:
            raise KafkaException(listing.errors[0])
        return {group.group_id for group in listing.valid}

    def describe_group(self, group: str) -> GroupDescription:
        description = _result(self._admin.describe_consumer_groups([group], request_timeout=CALL_TIMEOUT_S))
        return GroupDescription(description.state.name.title().replace("_", ""), len(description.members))

    def delete_group(self, group: str) -> None:
        _result(self._admin.delete_consumer_groups([group], request_timeout=CALL_TIMEOUT_S))

    def delete_records(self, place: Place, before_offset: int) -> None:
        _result(self._admin.delete_records([TopicPartition(*place, before_offset)], request_timeout=CALL_TIMEOUT_S))

    def log_dirs(self) -> list[dict[Place, int]]:
        raise NotImplementedError("confluent-kafka's admin describes no data folders")

    def allow(self, user: str, operation: str, topic: str) -> None:
        _result(self._admin.create_acls([AclBinding(*_topic_acl(user, operation, topic))]))

    def allowed(self, user: str) -> set[tuple[str, str]]:
        with refusals():
            acls = self._admin.describe_acls(_all_of(user)).result(CALL_TIMEOUT_S)
        return {(acl.operation.name, acl.name) for acl in acls}

    def forbid(self, user: str) -> int:
        return len(_result(self._admin.delete_acls([_all_of(user)])))

    def set_password(self, user: str, password: str | None) -> None:
        mechanism = ScramMechanism.SCRAM_SHA_512
        change: Any = UserScramCredentialDeletion(user, mechanism)
        if password is not None:
            change = UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), password.encode())
        _result(self._admin.alter_user_scram_credentials([change]))

    def users(self) -> set[str]:
        with refusals():
            return set(self._admin.describe_user_scram_credentials().result(CALL_TIMEOUT_S))

    def close(self) -> None:
        del self._admin


def _topic_acl(user: str, operation: str, topic: str) -> tuple[Any, ...]:
    where = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL)
    return (*where, f"User:{user}", "*", AclOperation[operation], AclPermissionType.ALLOW)


def _all_of(user: str) -> AclBindingFilter:
    where = (ResourceType.ANY, None, ResourcePatternType.ANY)
    return AclBindingFilter(*where, f"User:{user}", None, AclOperation.ANY, AclPermissionType.ANY)
