"""The admin of kafka-python 3.x, which uses dicts and error names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kafka import KafkaAdminClient, TopicPartition, errors
from kafka.admin import (
    ConfigResource,
    ConfigResourceType,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

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
        topic = {"num_partitions": partitions, "replication_factor": replicas, "configs": dict(settings or {})}
        with refusals():
            self._admin.create_topics({name: topic})

    def delete_topic(self, name: str) -> None:
        with refusals():
            self._admin.delete_topics([name])

    def topics(self) -> set[str]:
        return set(self._admin.list_topics())

    def describe_topic(self, name: str) -> dict[int, int]:
        (topic,) = self._admin.describe_topics([name])
        _check(topic["error_code"], name)
        return {partition["partition_index"]: partition["leader_id"] for partition in topic["partitions"]}

    def brokers(self) -> list[tuple[str, int]]:
        return [(broker["host"], broker["port"]) for broker in self._admin.describe_cluster()["brokers"]]

    def add_partitions(self, name: str, count: int) -> None:
        with refusals():
            self._admin.create_partitions({name: count})

    def topic_settings(self, name: str) -> dict[str, str | None]:
        configs = self._admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)], config_filter="all")
        if not configs["topic"][name]:  # the client leaves out why
            raise BrokerError(TOPIC_AUTHORIZATION_FAILED, "no setting is described")
        return {key: entry["value"] for key, entry in configs["topic"][name].items()}

    def alter_topic(self, name: str, settings: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, name, configs=dict(settings))
        with refusals():
            results = self._admin.alter_configs([resource], raise_on_unknown=False)
        self._raise_named(results["topic"][name])

    def groups(self) -> set[str]:
        return {group["group_id"] for group in self._admin.list_groups()}

    def describe_group(self, group: str) -> GroupDescription:
        with refusals():
            description = self._admin.describe_groups([group])[group]
        return GroupDescription(description["group_state"], len(description["members"]))

    def delete_group(self, group: str) -> None:
        with refusals():
            answer = self._admin.delete_groups([group])[group]
        self._raise_named(answer)

    def delete_records(self, place: Place, before_offset: int) -> None:
        with refusals():
            self._admin.delete_records({TopicPartition(place.topic, place.partition): before_offset})

    def log_dirs(self) -> list[dict[Place, int]]:
        folders = [folder for broker in self._admin.describe_log_dirs() for folder in broker["log_dirs"]]
        for folder in folders:
            _check(folder["error_code"], folder["log_dir"])
        return [
            {
                Place(topic["name"], partition["partition_index"]): partition["partition_size"]
                for topic in folder["topics"]
                for partition in topic["partitions"]
            }
            for folder in folders
        ]

    def set_password(self, user: str, password: str | None) -> None:
        mechanism = ScramMechanism.SCRAM_SHA_512
        change = (
            UserScramCredentialDeletion(user, mechanism)
            if password is None
            else UserScramCredentialUpsertion(user, mechanism, password)
        )
        with refusals():
            error = self._admin.alter_user_scram_credentials([change])[user]
        assert error is None, error

    def users(self) -> set[str]:
        with refusals():
            return set(self._admin.describe_user_scram_credentials())

    def close(self) -> None:
        self._admin.close()

    @staticmethod
    def _raise_named(answer: Any) -> None:
        """Raise BrokerError unless the answer is 'OK'.

        An answer is 'OK', ``[Error 40] …`` or the name of an error class.
        """
        text = str(answer)
        if text == "OK":
            return
        number = re.match(r"\[Error (\d+)\]", text)
        raise BrokerError(int(number[1]) if number else getattr(getattr(errors, text, None), "errno", -1), text)
