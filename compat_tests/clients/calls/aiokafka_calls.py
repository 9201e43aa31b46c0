"""Every call of aiokafka."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from compat_tests.clients import protocol_client
from compat_tests.clients.adapters.aiokafka_loop import run
from compat_tests.clients.calls.contract import Calls

VERSION = tuple(int(part) for part in aiokafka.__version__.split(".")[:2])
TESTED_VERSION = (0, 14)
OLDEST_VERSION = (0, 14)
NAMESPACES = (aiokafka, aiokafka.admin)
OTHER_CLASSES: dict[str, str] = {}


def made(make: Callable[[], Any]) -> Any:
    """Make a client on the event loop."""

    async def making() -> Any:
        return make()

    return run(making())


class Producer(Calls):
    CLIENT = AIOKafkaProducer

    def __init__(self, bootstrap: str, name: Callable[[str], str]) -> None:
        super().__init__(bootstrap, name)
        self.topic = name("topic")
        protocol_client.create_topic(bootstrap, self.topic, 2)
        transactional_id = name("txn")
        self.producer = made(lambda: AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id))

    def call_start(self) -> None:
        run(self.producer.start())

    def call_partitions_for(self) -> None:
        assert run(self.producer.partitions_for(self.topic)) == {0, 1}

    def call_begin_transaction(self) -> None:
        run(self.producer.begin_transaction())

    def call_send(self) -> None:
        run(self.producer.send(self.topic, b"value", partition=0))

    def call_flush(self) -> None:
        run(self.producer.flush())

    def call_send_and_wait(self) -> None:
        assert run(self.producer.send_and_wait(self.topic, b"value", partition=0)).offset == 1

    def call_create_batch(self) -> None:
        self.batch = self.producer.create_batch()
        self.batch.append(key=None, value=b"value", timestamp=None)

    def call_send_batch(self) -> None:
        async def sending() -> Any:
            return await (await self.producer.send_batch(self.batch, self.topic, partition=1))

        assert run(sending()).offset == 0

    def call_send_offsets_to_transaction(self) -> None:
        run(self.producer.send_offsets_to_transaction({TopicPartition(self.topic, 0): 1}, self.name("group")))

    def call_commit_transaction(self) -> None:
        run(self.producer.commit_transaction())

    def call_abort_transaction(self) -> None:
        run(self.producer.begin_transaction())
        run(self.producer.send(self.topic, b"aborted", partition=0))
        run(self.producer.abort_transaction())

    def call_transaction(self) -> None:
        async def sending() -> None:
            async with self.producer.transaction():
                await self.producer.send_and_wait(self.topic, b"value", partition=0)

        run(sending())

    def call_stop(self) -> None:
        run(self.producer.stop())


class Consumer(Calls):
    CLIENT = AIOKafkaConsumer

    def __init__(self, bootstrap: str, name: Callable[[str], str]) -> None:
        super().__init__(bootstrap, name)
        self.topic = name("topic")
        protocol_client.create_topic(bootstrap, self.topic)
        self.partition = TopicPartition(self.topic, 0)
        producer = made(lambda: AIOKafkaProducer(bootstrap_servers=bootstrap))
        run(producer.start())
        for number in range(5):
            run(producer.send_and_wait(self.topic, b"value", timestamp_ms=1_000 + number))
        run(producer.stop())
        group = name("group")
        self.consumer = made(
            lambda: AIOKafkaConsumer(
                bootstrap_servers=bootstrap,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                isolation_level="read_committed",
            )
        )

    def _do(self, name: str, *arguments: Any) -> Any:
        return made(lambda: getattr(self.consumer, name)(*arguments))

    def call_start(self) -> None:
        run(self.consumer.start())

    def call_topics(self) -> None:
        assert self.topic in run(self.consumer.topics())

    def call_subscribe(self) -> None:
        self._do("subscribe", [self.topic])

    def call_subscription(self) -> None:
        assert self._do("subscription") == {self.topic}

    def call_getone(self) -> None:
        assert run(self.consumer.getone()).offset == 0

    def call_getmany(self) -> None:
        records: list[Any] = []
        while len(records) < 4:
            batch = run(self.consumer.getmany(timeout_ms=5_000))
            assert batch
            records += [record for part in batch.values() for record in part]

    def call_partitions_for_topic(self) -> None:
        assert self._do("partitions_for_topic", self.topic) == {0}

    def call_assignment(self) -> None:
        assert self._do("assignment") == {self.partition}

    def call_position(self) -> None:
        assert run(self.consumer.position(self.partition)) == 5

    def call_highwater(self) -> None:
        assert self._do("highwater", self.partition) == 5

    def call_last_stable_offset(self) -> None:
        assert self._do("last_stable_offset", self.partition) == 5

    def call_last_poll_timestamp(self) -> None:
        assert self._do("last_poll_timestamp", self.partition)

    def call_commit(self) -> None:
        run(self.consumer.commit({self.partition: 4}))

    def call_committed(self) -> None:
        assert run(self.consumer.committed(self.partition)) == 4

    def call_seek(self) -> None:
        self._do("seek", self.partition, 2)

    def call_seek_to_beginning(self) -> None:
        run(self.consumer.seek_to_beginning(self.partition))

    def call_seek_to_end(self) -> None:
        run(self.consumer.seek_to_end(self.partition))

    def call_seek_to_committed(self) -> None:
        assert run(self.consumer.seek_to_committed(self.partition)) == {self.partition: 4}

    def call_offsets_for_times(self) -> None:
        assert run(self.consumer.offsets_for_times({self.partition: 1_002}))[self.partition].offset == 2

    def call_beginning_offsets(self) -> None:
        assert run(self.consumer.beginning_offsets([self.partition])) == {self.partition: 0}

    def call_end_offsets(self) -> None:
        assert run(self.consumer.end_offsets([self.partition])) == {self.partition: 5}

    def call_pause(self) -> None:
        self._do("pause", self.partition)

    def call_paused(self) -> None:
        assert self._do("paused") == {self.partition}

    def call_resume(self) -> None:
        self._do("resume", self.partition)

    def call_unsubscribe(self) -> None:
        self._do("unsubscribe")

    def call_assign(self) -> None:
        self._do("assign", [self.partition])

    def call_stop(self) -> None:
        run(self.consumer.stop())


class Admin(Calls):
    CLIENT = AIOKafkaAdminClient

    def __init__(self, bootstrap: str, name: Callable[[str], str]) -> None:
        super().__init__(bootstrap, name)
        self.topic, self.group = name("topic"), name("group")
        self.partition = TopicPartition(self.topic, 0)
        self.admin = made(lambda: AIOKafkaAdminClient(bootstrap_servers=bootstrap))

    def call_start(self) -> None:
        run(self.admin.start())

    def call_describe_cluster(self) -> None:
        assert len(run(self.admin.describe_cluster())["brokers"]) == self.members

    def call_create_topics(self) -> None:
        response = run(self.admin.create_topics([NewTopic(self.topic, 1, 1)]))
        assert [error[1] for error in response.topic_errors] == [0]

    def call_list_topics(self) -> None:
        assert self.topic in run(self.admin.list_topics())

    def call_describe_topics(self) -> None:
        (topic,) = run(self.admin.describe_topics([self.topic]))
        assert topic["error_code"] == 0

    def call_create_partitions(self) -> None:
        response = run(self.admin.create_partitions({self.topic: NewPartitions(2)}))
        assert [error[1] for error in response.topic_errors] == [0]

    def call_describe_configs(self) -> None:
        wanted = ConfigResource(ConfigResourceType.TOPIC, self.topic)
        (response,) = run(self.admin.describe_configs([wanted], include_synonyms=True))
        assert [resource[0] for resource in response.resources] == [0]

    def call_alter_configs(self) -> None:
        wanted = ConfigResource(ConfigResourceType.TOPIC, self.topic, configs={"retention.ms": "86400000"})
        (response,) = run(self.admin.alter_configs([wanted]))
        assert [resource[0] for resource in response.resources] == [0]

    def call_delete_records(self) -> None:
        producer = made(lambda: AIOKafkaProducer(bootstrap_servers=self.bootstrap))
        run(producer.start())
        for _ in range(4):
            run(producer.send_and_wait(self.topic, b"value", partition=0))
        run(producer.stop())
        assert run(self.admin.delete_records({self.partition: RecordsToDelete(2)})) == {self.partition: 2}

    def call_find_coordinator(self) -> None:
        for kind in (0, 1):
            assert run(self.admin.find_coordinator(self.group, kind)) >= 0

    def call_list_consumer_groups(self) -> None:
        consumer = made(
            lambda: AIOKafkaConsumer(bootstrap_servers=self.bootstrap, group_id=self.group, enable_auto_commit=False)
        )
        run(consumer.start())
        made(lambda: consumer.assign([self.partition]))
        run(consumer.commit({self.partition: 3}))
        run(consumer.stop())
        assert self.group in {group[0] for group in run(self.admin.list_consumer_groups())}

    def call_describe_consumer_groups(self) -> None:
        (response,) = run(self.admin.describe_consumer_groups([self.group]))
        assert [group[0] for group in response.groups] == [0]

    def call_list_consumer_group_offsets(self) -> None:
        assert run(self.admin.list_consumer_group_offsets(self.group))[self.partition].offset == 3

    def call_delete_topics(self) -> None:
        response = run(self.admin.delete_topics([self.topic]))
        assert [error[1] for error in response.topic_error_codes] == [0]

    def call_close(self) -> None:
        run(self.admin.close())
