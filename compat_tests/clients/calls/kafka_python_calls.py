"""Every call of kafka-python 3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition, TopicPartitionReplica
from kafka.admin import (
    ACL,
    AbortTransactionSpec,
    ACLOperation,
    ACLPermissionType,
    ConfigResource,
    ConfigResourceType,
    MemberToRemove,
    OffsetSpec,
    ResourcePattern,
    ResourceType,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka.structs import OffsetAndMetadata

from compat_tests.clients import protocol_client
from compat_tests.clients.calls.contract import NO_REQUEST, Calls
from compat_tests.waits import HangLimit, eventually

VERSION = tuple(int(part) for part in kafka.__version__.split(".")[:3])
TESTED_VERSION = (3, 0, 12)
OLDEST_VERSION = (3, 0, 12)
NAMESPACES = (kafka,)
OTHER_CLASSES: dict[str, str] = {}
WAIT_S = 20


def ok(results: Any) -> None:
    """Assert that each leaf of a nested dict is 'OK'."""
    for value in results.values():
        if isinstance(value, dict):
            ok(value)
        else:
            assert value == "OK", results


class Producer(Calls):
    CLIENT = KafkaProducer
    LEFT_OUT: ClassVar[dict[str, str]] = {"max_usable_produce_magic": NO_REQUEST}

    def __init__(self, bootstrap: str, name: Callable[[str], str]) -> None:
        super().__init__(bootstrap, name)
        self.topic = name("topic")
        protocol_client.create_topic(bootstrap, self.topic, 2)
        self.producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name("txn"))

    def call_bootstrap_connected(self) -> None:
        self.producer.bootstrap_connected()

    def call_partitions_for(self) -> None:
        assert self.producer.partitions_for(self.topic) == {0, 1}

    def call_init_transactions(self) -> None:
        self.producer.init_transactions()

    def call_begin_transaction(self) -> None:
        self.producer.begin_transaction()

    def call_send(self) -> None:
        assert self.producer.send(self.topic, b"value", partition=0).get(WAIT_S).offset == 0

    def call_flush(self) -> None:
        self.producer.flush(WAIT_S)

    def call_send_offsets_to_transaction(self) -> None:
        offsets = {TopicPartition(self.topic, 0): OffsetAndMetadata(1, "", -1)}
        self.producer.send_offsets_to_transaction(offsets, self.name("group"))

    def call_commit_transaction(self) -> None:
        self.producer.commit_transaction()

    def call_abort_transaction(self) -> None:
        self.producer.begin_transaction()
        self.producer.send(self.topic, b"aborted", partition=0)
        self.producer.abort_transaction()

    def call_metrics(self) -> None:
        assert self.producer.metrics()

    def call_close(self) -> None:
        self.producer.close(timeout=10)


class Consumer(Calls):
    CLIENT = KafkaConsumer
    LEFT_OUT: ClassVar[dict[str, str]] = {"bootstrap": NO_REQUEST}

    def __init__(self, bootstrap: str, name: Callable[[str], str]) -> None:
        super().__init__(bootstrap, name)
        self.topic = name("topic")
        protocol_client.create_topic(bootstrap, self.topic)
        self.partition = TopicPartition(self.topic, 0)
        producer = KafkaProducer(bootstrap_servers=bootstrap)
        for number in range(5):
            producer.send(self.topic, b"value", timestamp_ms=1_000 + number).get(WAIT_S)
        producer.close()
        self.consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=name("group"),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        )

    def call_bootstrap_connected(self) -> None:
        self.consumer.bootstrap_connected()

    def call_topics(self) -> None:
        assert self.topic in self.consumer.topics()

    def call_partitions_for_topic(self) -> None:
        assert self.consumer.partitions_for_topic(self.topic) == {0}

    def call_subscribe(self) -> None:
        self.consumer.subscribe([self.topic])

    def call_subscription(self) -> None:
        assert set(self.consumer.subscription()) == {self.topic}

    def call_poll(self) -> None:
        count, limit = 0, HangLimit("5 records", WAIT_S)
        while count < 5:
            limit.check(count)
            count += sum(map(len, self.consumer.poll(5_000).values()))
        assert count == 5

    def call_assignment(self) -> None:
        assert self.consumer.assignment() == {self.partition}

    def call_highwater(self) -> None:
        assert self.consumer.highwater(self.partition) == 5

    def call_position(self) -> None:
        assert self.consumer.position(self.partition) == 5

    def call_group_metadata(self) -> None:
        assert self.consumer.group_metadata().generation_id > 0

    def call_commit(self) -> None:
        self.consumer.commit()

    def call_commit_async(self) -> None:
        future = self.consumer.commit_async({self.partition: OffsetAndMetadata(4, "", -1)})
        limit = HangLimit("the commit", WAIT_S)
        while not future.is_done:
            limit.check()
            self.consumer.poll(100)
        assert future.succeeded()

    def call_committed(self) -> None:
        assert self.consumer.committed(self.partition) == 4

    def call_unsubscribe(self) -> None:
        self.consumer.unsubscribe()

    def call_assign(self) -> None:
        self.consumer.assign([self.partition])

    def call_seek(self) -> None:
        self.consumer.seek(self.partition, 3)
        assert self.consumer.position(self.partition) == 3

    def call_seek_to_beginning(self) -> None:
        self.consumer.seek_to_beginning(self.partition)
        assert self.consumer.position(self.partition) == 0

    def call_seek_to_end(self) -> None:
        self.consumer.seek_to_end(self.partition)
        assert self.consumer.position(self.partition) == 5

    def call_pause(self) -> None:
        self.consumer.pause(self.partition)

    def call_paused(self) -> None:
        assert self.consumer.paused() == {self.partition}

    def call_resume(self) -> None:
        self.consumer.resume(self.partition)

    def call_offsets_for_times(self) -> None:
        assert self.consumer.offsets_for_times({self.partition: 1_002})[self.partition].offset == 2

    def call_beginning_offsets(self) -> None:
        assert self.consumer.beginning_offsets([self.partition]) == {self.partition: 0}

    def call_end_offsets(self) -> None:
        assert self.consumer.end_offsets([self.partition]) == {self.partition: 5}

    def call_metrics(self) -> None:
        assert self.consumer.metrics()

    def call_close(self) -> None:
        self.consumer.close()


class Admin(Calls):
    CLIENT = KafkaAdminClient

    def __init__(self, bootstrap: str, name: Callable[[str], str]) -> None:
        super().__init__(bootstrap, name)
        self.topic, self.group, self.transactional_id = name("topic"), name("group"), name("txn")
        self.user = name("user")
        pattern = ResourcePattern(ResourceType.TOPIC, name("secret"))
        self.acl = ACL(f"User:{self.user}", "*", ACLOperation.READ, ACLPermissionType.DENY, pattern)
        self.first = TopicPartition(self.topic, 0)
        self.admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        self.consumer: KafkaConsumer | None = None
        self.producer: KafkaProducer | None = None
        self.node = 0

    def call_api_versions(self) -> None:
        assert self.admin.api_versions()

    def call_describe_cluster(self) -> None:
        brokers = self.admin.describe_cluster()["brokers"]
        assert len(brokers) == self.members
        self.node = brokers[0]["broker_id"]

    def call_get_broker_version_data(self) -> None:
        assert self.admin.get_broker_version_data(self.node)

    def call_describe_features(self) -> None:
        assert self.admin.describe_features()["transaction.version"]["finalized"][1] == 2

    def call_update_features(self) -> None:
        ok(self.admin.update_features({"transaction.version": ("SAFE_DOWNGRADE", 1)}, validate_only=True))

    def call_describe_metadata_quorum(self) -> None:
        (topic,) = self.admin.describe_metadata_quorum()["topics"]
        (partition,) = topic["partitions"]
        assert (partition["error"], len(partition["current_voters"])) == (None, 1)

    def call_create_topics(self) -> None:
        self.admin.create_topics({self.topic: {"num_partitions": 2, "replication_factor": 1}})

    def call_wait_for_topics(self) -> None:
        self.admin.wait_for_topics([self.topic])

    def call_list_topics(self) -> None:
        assert self.topic in self.admin.list_topics()

    def call_describe_topics(self) -> None:
        (topic,) = self.admin.describe_topics([self.topic])
        assert len(topic["partitions"]) == 2

    def call_describe_topic_partitions(self) -> None:
        page = self.admin.describe_topic_partitions([self.topic], response_partition_limit=1)
        assert page["next_cursor"]["partition_index"] == 1
        rest = self.admin.describe_topic_partitions([self.topic], cursor=page["next_cursor"])
        assert [one["partition_index"] for one in rest["topics"][0]["partitions"]] == [1]

    def call_create_partitions(self) -> None:
        self.admin.create_partitions({self.topic: 3})

    def _configs(self, *names: str) -> ConfigResource:
        return ConfigResource(ConfigResourceType.TOPIC, self.topic, configs=dict.fromkeys(names) if names else None)

    def call_describe_configs(self) -> None:
        configs = self.admin.describe_configs(
            [self._configs("retention.ms")], include_synonyms=True, config_filter="all"
        )
        assert configs["topic"][self.topic].keys() == {"retention.ms"}

    def call_alter_configs(self) -> None:
        for incremental in (True, False):
            wanted = ConfigResource(ConfigResourceType.TOPIC, self.topic, configs={"retention.ms": "86400000"})
            ok(self.admin.alter_configs([wanted], incremental=incremental))

    def call_reset_configs(self) -> None:
        for incremental in (True, False):
            ok(self.admin.reset_configs([self._configs("retention.ms")], incremental=incremental))

    def call_list_config_resources(self) -> None:
        assert self.topic in self.admin.list_config_resources(["TOPIC"])["topic"]

    def call_list_partition_offsets(self) -> None:
        producer = KafkaProducer(bootstrap_servers=self.bootstrap)
        for _ in range(4):
            producer.send(self.topic, b"value", partition=0).get(WAIT_S)
        producer.close()
        assert self.admin.list_partition_offsets({self.first: OffsetSpec.LATEST})[self.first].offset == 4

    def call_delete_records(self) -> None:
        assert self.admin.delete_records({self.first: 2})[self.first]["low_watermark"] == 2

    def call_describe_log_dirs(self) -> None:
        folders = {
            broker["broker"]: folder
            for broker in self.admin.describe_log_dirs({self.topic: [0]})
            for folder in broker["log_dirs"]
            if folder["topics"]
        }
        ((self.node, folder),) = folders.items()
        self.folder = folder["log_dir"]
        assert folder["topics"][0]["partitions"][0]["partition_size"] > 0

    def call_alter_replica_log_dirs(self) -> None:
        replica = TopicPartitionReplica(self.topic, 0, self.node)
        assert self.admin.alter_replica_log_dirs({replica: self.folder})[replica].errno == 0

    def call_elect_leaders(self) -> None:
        self.admin.elect_leaders(0, {self.topic: [0]})

    def call_alter_partition_reassignments(self) -> None:
        assert self.admin.alter_partition_reassignments({self.first: [self.node]}) in ({self.first: None}, {})

    def call_list_partition_reassignments(self) -> None:
        assert self.admin.list_partition_reassignments() == {}

    def call_list_groups(self) -> None:
        self.consumer = KafkaConsumer(
            self.topic, bootstrap_servers=self.bootstrap, group_id=self.group, auto_offset_reset="earliest"
        )
        eventually(lambda: self.consumer.poll(5_000), "a record", WAIT_S)
        self.consumer.commit()
        assert self.group in {group["group_id"] for group in self.admin.list_groups()}

    def call_describe_groups(self) -> None:
        assert len(self.admin.describe_groups([self.group])[self.group]["members"]) == 1

    def call_list_group_offsets(self) -> None:
        assert self.admin.list_group_offsets([self.group])[self.group][self.first].offset == 4

    def call_remove_group_members(self) -> None:
        (member,) = self.admin.describe_groups([self.group])[self.group]["members"]
        self.admin.remove_group_members(self.group, [MemberToRemove(member_id=member["member_id"])])
        assert self.consumer is not None
        self.consumer.close(autocommit=False)

    def call_alter_group_offsets(self) -> None:
        self.admin.alter_group_offsets(self.group, {self.first: OffsetAndMetadata(3, "", -1)})
        assert self.admin.list_group_offsets([self.group])[self.group][self.first].offset == 3

    def call_reset_group_offsets(self) -> None:
        self.admin.reset_group_offsets(self.group, {self.first: OffsetSpec.LATEST})
        assert self.admin.list_group_offsets([self.group])[self.group][self.first].offset == 4

    def call_delete_group_offsets(self) -> None:
        self.admin.delete_group_offsets(self.group, [self.first])
        assert self.first not in self.admin.list_group_offsets([self.group])[self.group]

    def call_delete_groups(self) -> None:
        ok(self.admin.delete_groups([self.group]))

    def call_list_transactions(self) -> None:
        self.producer = KafkaProducer(bootstrap_servers=self.bootstrap, transactional_id=self.transactional_id)
        self.producer.init_transactions()
        self.producer.begin_transaction()
        self.producer.send(self.topic, b"open", partition=1).get(WAIT_S)
        ids = {one.transactional_id for rows in self.admin.list_transactions().values() for one in rows}
        assert self.transactional_id in ids

    def call_describe_transactions(self) -> None:
        description = self.admin.describe_transactions([self.transactional_id])[self.transactional_id]
        assert (description.state.value, len(description.topic_partitions)) == ("Ongoing", 1)

    def call_describe_producers(self) -> None:
        partition = TopicPartition(self.topic, 1)
        (self.open,) = self.admin.describe_producers([partition])[partition].active_producers
        assert self.open.current_transaction_start_offset == 0

    def call_find_hanging_transactions(self) -> None:
        assert self.admin.find_hanging_transactions() == []

    def call_abort_transaction(self) -> None:
        partition = TopicPartition(self.topic, 1)
        self.admin.abort_transaction(AbortTransactionSpec(partition, self.open.producer_id, self.open.producer_epoch))
        (producer,) = self.admin.describe_producers([partition])[partition].active_producers
        assert producer.current_transaction_start_offset == -1

    def call_create_acls(self) -> None:
        assert self.admin.create_acls([self.acl]) == {"succeeded": [self.acl], "failed": []}

    def call_describe_acls(self) -> None:
        eventually(lambda: self.admin.describe_acls(self.acl)[0] == [self.acl], "the new ACL")

    def call_delete_acls(self) -> None:
        eventually(lambda: self.admin.delete_acls([self.acl])[0][1] == [self.acl], "the ACL that is deleted")
        eventually(lambda: self.admin.describe_acls(self.acl)[0] == [], "no ACL")

    def call_alter_user_scram_credentials(self) -> None:
        wanted = UserScramCredentialUpsertion(self.user, ScramMechanism.SCRAM_SHA_256, "secret", iterations=4096)
        assert self.admin.alter_user_scram_credentials([wanted]) == {self.user: None}

    def call_describe_user_scram_credentials(self) -> None:
        mechanism = {"mechanism": ScramMechanism.SCRAM_SHA_256, "iterations": 4096}
        expected = {"error": None, "credential_infos": [mechanism]}
        eventually(lambda: self._described_user() == expected, "the user's credential")
        gone = UserScramCredentialDeletion(self.user, ScramMechanism.SCRAM_SHA_256)
        assert self.admin.alter_user_scram_credentials([gone]) == {self.user: None}
        eventually(lambda: self._described_user()["error"], "no such user")

    def _described_user(self) -> Any:
        return self.admin.describe_user_scram_credentials([self.user])[self.user]

    def call_delete_topics(self) -> None:
        self.admin.delete_topics([self.topic])

    def call_close(self) -> None:
        self.admin.close()

    def close(self) -> None:
        if self.producer is not None:
            self.producer.close(timeout=0)
