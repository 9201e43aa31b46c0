"""Every call of confluent-kafka's administration client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import confluent_kafka
import confluent_kafka.admin
import confluent_kafka.aio
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ElectionType,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
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
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from compat_tests.clients.adapters.confluent_errors import QUIET
from compat_tests.clients.calls.contract import NO_REQUEST, Calls
from compat_tests.waits import eventually, look_until

WAIT_S = 20


def only(futures: Any) -> Any:
    """Return the result of a call for one resource."""
    (future,) = futures.values()
    return future.result(WAIT_S)


class Admin(Calls):
    CLIENT = AdminClient
    LEFT_OUT: ClassVar[dict[str, str]] = {
        "poll": NO_REQUEST,
    }

    def __init__(self, bootstrap: str, name: Callable[[str], str]) -> None:
        super().__init__(bootstrap, name)
        self.topic, self.group = name("topic"), name("group")
        self.admin = AdminClient({**QUIET, "bootstrap.servers": bootstrap})
        self.resource = ConfigResource(ResourceType.TOPIC, self.topic)
        self.user = name("user")
        self.acl = (ResourceType.TOPIC, name("secret"), ResourcePatternType.LITERAL)
        self.acl += (f"User:{self.user}", "*", AclOperation.READ, AclPermissionType.DENY)

    def _partition(self, offset: int = -1001) -> TopicPartition:
        return TopicPartition(self.topic, 0, offset)

    def call_set_sasl_credentials(self) -> None:
        self.admin.set_sasl_credentials("ann", "secret")

    def call_cluster_id(self) -> None:
        self.admin.cluster_id(timeout=WAIT_S)

    def call_describe_cluster(self) -> None:
        assert len(self.admin.describe_cluster(request_timeout=WAIT_S).result(WAIT_S).nodes) == self.members

    def call_create_topics(self) -> None:
        only(self.admin.create_topics([NewTopic(self.topic, 1, 1)]))

    def call_list_topics(self) -> None:
        names = look_until(
            lambda: self.admin.list_topics(timeout=WAIT_S).topics, lambda topics: self.topic in topics, self.topic
        )
        assert self.topic in names

    def call_create_partitions(self) -> None:
        only(self.admin.create_partitions([NewPartitions(self.topic, 2)]))

    def call_describe_topics(self) -> None:
        description = only(self.admin.describe_topics(TopicCollection([self.topic]), request_timeout=WAIT_S))
        assert len(description.partitions) == 2

    def call_describe_configs(self) -> None:
        assert only(self.admin.describe_configs([self.resource]))["retention.ms"].value

    def call_incremental_alter_configs(self) -> None:
        entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND)
        wanted = ConfigResource(ResourceType.TOPIC, self.topic, incremental_configs=[entry])
        only(self.admin.incremental_alter_configs([wanted]))

    def call_alter_configs(self) -> None:
        wanted = ConfigResource(ResourceType.TOPIC, self.topic, set_config={"retention.ms": "86400000"})
        only(self.admin.alter_configs([wanted]))

    def call_list_offsets(self) -> None:
        producer = confluent_kafka.Producer({**QUIET, "bootstrap.servers": self.bootstrap})
        for _ in range(4):
            producer.produce(self.topic, b"value", partition=0)
        assert producer.flush(WAIT_S) == 0
        asked = {self._partition(): OffsetSpec.latest()}
        options = {"isolation_level": IsolationLevel.READ_COMMITTED, "request_timeout": WAIT_S}
        assert only(self.admin.list_offsets(asked, **options)).offset == 4

    def call_delete_records(self) -> None:
        assert only(self.admin.delete_records([self._partition(2)])).low_watermark == 2

    def call_elect_leaders(self) -> None:
        elections = self.admin.elect_leaders(
            ElectionType.PREFERRED, [self._partition()]
        )  # its request_timeout fails in 2.16
        (error,) = elections.result(WAIT_S).values()
        assert error.code() == KafkaError.ELECTION_NOT_NEEDED

    def call_list_consumer_groups(self) -> None:
        settings = {**QUIET, "bootstrap.servers": self.bootstrap, "group.id": self.group}
        consumer = confluent_kafka.Consumer(settings)
        consumer.commit(offsets=[self._partition(3)], asynchronous=False)
        consumer.close()
        listed = self.admin.list_consumer_groups(states={ConsumerGroupState.EMPTY}, request_timeout=WAIT_S)
        assert self.group in {one.group_id for one in listed.result(WAIT_S).valid}

    def call_list_groups(self) -> None:
        assert self.group in {one.id for one in self.admin.list_groups(timeout=WAIT_S)}

    def call_describe_consumer_groups(self) -> None:
        description = only(self.admin.describe_consumer_groups([self.group], request_timeout=WAIT_S))
        assert description.state == ConsumerGroupState.EMPTY

    def call_alter_consumer_group_offsets(self) -> None:
        only(self.admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(self.group, [self._partition(2)])]))

    def call_list_consumer_group_offsets(self) -> None:
        offsets = only(self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(self.group)]))
        assert offsets.topic_partitions[0].offset == 2

    def call_delete_consumer_groups(self) -> None:
        only(self.admin.delete_consumer_groups([self.group], request_timeout=WAIT_S))

    def call_create_acls(self) -> None:
        only(self.admin.create_acls([AclBinding(*self.acl)]))

    def call_describe_acls(self) -> None:
        eventually(lambda: self._described_acls() == [AclBinding(*self.acl)], "the new ACL")

    def call_delete_acls(self) -> None:
        acl_filter = AclBindingFilter(*self.acl)
        eventually(lambda: only(self.admin.delete_acls([acl_filter])) == [AclBinding(*self.acl)], "the deleted ACL")
        eventually(lambda: self._described_acls() == [], "no ACL")

    def _described_acls(self) -> Any:
        return self.admin.describe_acls(AclBindingFilter(*self.acl)).result(WAIT_S)

    def call_alter_user_scram_credentials(self) -> None:
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        only(self.admin.alter_user_scram_credentials([UserScramCredentialUpsertion(self.user, info, b"secret")]))

    def call_describe_user_scram_credentials(self) -> None:
        expected = [(ScramMechanism.SCRAM_SHA_256, 4096)]
        eventually(lambda: self._described_user() == expected, "the user's credential")
        gone = UserScramCredentialDeletion(self.user, ScramMechanism.SCRAM_SHA_256)
        only(self.admin.alter_user_scram_credentials([gone]))
        eventually(lambda: self._described_user() == KafkaError.RESOURCE_NOT_FOUND, "no such user")

    def _described_user(self) -> Any:
        try:
            description = only(self.admin.describe_user_scram_credentials([self.user]))
        except KafkaException as error:
            return error.args[0].code()
        return [(one.mechanism, one.iterations) for one in description.scram_credential_infos]

    def call_delete_topics(self) -> None:
        only(self.admin.delete_topics([self.topic]))
