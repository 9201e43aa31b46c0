"""Every call of confluent-kafka."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import confluent_kafka
import confluent_kafka.admin
import confluent_kafka.aio
from confluent_kafka import (
    AcknowledgeType,
    KafkaError,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from compat_tests.clients import protocol_client
from compat_tests.clients.adapters.confluent_errors import QUIET
from compat_tests.clients.calls.blocking import Blocking
from compat_tests.clients.calls.confluent_admin_calls import WAIT_S, only
from compat_tests.clients.calls.confluent_admin_calls import Admin as Admin
from compat_tests.clients.calls.contract import Calls
from compat_tests.waits import HangLimit, eventually, look_until

VERSION = tuple(int(part) for part in confluent_kafka.__version__.split(".")[:2])
TESTED_VERSION = (2, 16)
OLDEST_VERSION = (2, 16)
NAMESPACES = (confluent_kafka, confluent_kafka.admin, confluent_kafka.aio)
OTHER_CLASSES = {
    "AsyncSerializingProducer": "an AIOProducer with serializers of the schema registry",
    "AsyncDeserializingConsumer": "an AIOConsumer with deserializers of the schema registry",
}


class Producer(Calls):
    CLIENT = confluent_kafka.Producer

    def __init__(self, bootstrap: str, name: Callable[[str], str]) -> None:
        super().__init__(bootstrap, name)
        self.topic = name("topic")
        protocol_client.create_topic(bootstrap, self.topic, 2)
        settings = {**QUIET, "bootstrap.servers": bootstrap, "transactional.id": name("txn")}
        self.producer = self._make(settings)
        self.delivered: list[KafkaError | None] = []

    def _make(self, settings: dict[str, Any]) -> Any:
        return self.CLIENT(settings)

    def call_set_sasl_credentials(self) -> None:
        self.producer.set_sasl_credentials("ann", "secret")

    def call_cluster_id(self) -> None:
        self.producer.cluster_id(timeout=WAIT_S)

    def call_list_topics(self) -> None:
        assert self.topic in self.producer.list_topics(timeout=WAIT_S).topics

    def call_init_transactions(self) -> None:
        self.producer.init_transactions(WAIT_S)

    def call_begin_transaction(self) -> None:
        self.producer.begin_transaction()

    def call_produce(self) -> None:
        self.producer.produce(
            self.topic, b"value", partition=0, on_delivery=lambda error, _: self.delivered.append(error)
        )

    def call_poll(self) -> None:
        limit = HangLimit("a delivery report", WAIT_S)
        while not self.delivered:
            limit.check()
            self.producer.poll(0.1)
        assert self.delivered == [None]

    def call_produce_batch(self) -> None:
        assert self.producer.produce_batch(self.topic, [{"value": b"one"}, {"value": b"two"}], partition=0) == 2

    def call_flush(self) -> None:
        assert self.producer.flush(WAIT_S) == 0

    def call_send_offsets_to_transaction(self) -> None:
        settings = {**QUIET, "bootstrap.servers": self.bootstrap, "group.id": self.name("group")}
        consumer = confluent_kafka.Consumer(settings)
        offsets = [TopicPartition(self.topic, 0, 1)]
        self.producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), WAIT_S)
        consumer.close()

    def call_commit_transaction(self) -> None:
        self.producer.commit_transaction(WAIT_S)

    def call_purge(self) -> None:
        self.producer.begin_transaction()
        self.producer.produce(self.topic, b"purged", partition=0)
        self.producer.purge()

    def call_abort_transaction(self) -> None:
        self.producer.abort_transaction(WAIT_S)

    def call_close(self) -> None:
        self.producer.close()


class Consumer(Calls):
    CLIENT = confluent_kafka.Consumer

    def __init__(self, bootstrap: str, name: Callable[[str], str]) -> None:
        super().__init__(bootstrap, name)
        self.topic = name("topic")
        protocol_client.create_topic(bootstrap, self.topic)
        producer = confluent_kafka.Producer({**QUIET, "bootstrap.servers": bootstrap})
        for number in range(5):
            producer.produce(self.topic, b"value", timestamp=1_000 + number)
        producer.flush(WAIT_S)
        self.settings = {
            **QUIET,
            "bootstrap.servers": bootstrap,
            "group.id": name("group"),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
        }
        self.consumer = self._make(self.settings)

    def _make(self, settings: dict[str, Any]) -> Any:
        return self.CLIENT(settings)

    def _partition(self, offset: int = -1001) -> TopicPartition:
        return TopicPartition(self.topic, 0, offset)

    def call_set_sasl_credentials(self) -> None:
        self.consumer.set_sasl_credentials("ann", "secret")

    def call_cluster_id(self) -> None:
        self.consumer.cluster_id(timeout=WAIT_S)

    def call_list_topics(self) -> None:
        assert self.topic in self.consumer.list_topics(timeout=WAIT_S).topics

    def call_subscribe(self) -> None:
        self.consumer.subscribe([self.topic])

    def call_poll(self) -> None:
        message = self.consumer.poll(WAIT_S)
        assert (message.error(), message.offset()) == (None, 0)

    def call_consume(self) -> None:
        assert len(self.consumer.consume(4, WAIT_S)) == 4

    def call_assignment(self) -> None:
        assert self.consumer.assignment() == [self._partition()]

    def call_memberid(self) -> None:
        assert self.consumer.memberid()

    def call_consumer_group_metadata(self) -> None:
        assert self.consumer.consumer_group_metadata()

    def call_position(self) -> None:
        assert self.consumer.position([self._partition()])[0].offset == 5

    def call_store_offsets(self) -> None:
        self.consumer.store_offsets(offsets=[self._partition(4)])

    def call_commit(self) -> None:
        (topic_partition,) = self.consumer.commit(asynchronous=False)
        assert (topic_partition.error, topic_partition.offset) == (None, 4)

    def call_committed(self) -> None:
        assert self.consumer.committed([self._partition()], WAIT_S)[0].offset == 4

    def call_pause(self) -> None:
        self.consumer.pause([self._partition()])

    def call_resume(self) -> None:
        self.consumer.resume([self._partition()])

    def call_seek(self) -> None:
        self.consumer.seek(self._partition(3))
        assert self.consumer.poll(WAIT_S).offset() == 3

    def call_get_watermark_offsets(self) -> None:
        assert self.consumer.get_watermark_offsets(self._partition(), WAIT_S) == (0, 5)

    def call_offsets_for_times(self) -> None:
        assert self.consumer.offsets_for_times([self._partition(1_002)], WAIT_S)[0].offset == 2

    def call_unsubscribe(self) -> None:
        self.consumer.unsubscribe()
        # A poll serves the revocation. A close that has to serve it waits forever now and then:
        # librdkafka's rd_kafka_assign waits for a group that may have ended.
        eventually(lambda: self.consumer.poll(0.1) is None and not self.consumer.assignment(), "no assignment")

    def call_assign(self) -> None:
        self.consumer.assign([self._partition(0)])

    def call_unassign(self) -> None:
        self.consumer.unassign()

    def call_incremental_assign(self) -> None:
        self.consumer.close()
        settings = {**self.settings, "partition.assignment.strategy": "cooperative-sticky"}
        self.consumer = self._make(settings)
        self.consumer.incremental_assign([self._partition(2)])
        assert self.consumer.poll(WAIT_S).offset() == 2

    def call_incremental_unassign(self) -> None:
        self.consumer.incremental_unassign([self._partition()])

    def call_close(self) -> None:
        self.consumer.close()


class SerializingProducer(Producer):
    CLIENT = confluent_kafka.SerializingProducer


class DeserializingConsumer(Consumer):
    CLIENT = confluent_kafka.DeserializingConsumer
    LEFT_OUT: ClassVar[dict[str, str]] = {"consume": "not implemented by the client"}
    call_consume = None

    def call_poll(self) -> None:
        for offset in range(5):
            message = self.consumer.poll(WAIT_S)
            assert (message.error(), message.offset()) == (None, offset)


class ShareConsumer(Calls):
    CLIENT = confluent_kafka.ShareConsumer

    def __init__(self, bootstrap: str, name: Callable[[str], str]) -> None:
        super().__init__(bootstrap, name)
        self.topic, group = name("topic"), name("share")
        protocol_client.create_topic(bootstrap, self.topic)
        reset = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[reset])
        admin = AdminClient({**QUIET, "bootstrap.servers": bootstrap})
        only(admin.incremental_alter_configs([resource]))
        producer = confluent_kafka.Producer({**QUIET, "bootstrap.servers": bootstrap})
        for _ in range(3):
            producer.produce(self.topic, b"value")
        assert producer.flush(WAIT_S) == 0
        self.acknowledged: list[tuple[Any, object]] = []
        settings = {"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": "explicit"}
        self.consumer = self.CLIENT({**QUIET, **settings})

    def _poll_until(self, done: Callable[[Any], Any]) -> Any:
        """Poll until `done(messages)` is true; return the last messages."""

        def polled() -> Any:
            messages = self.consumer.poll(0.2)
            assert not [message.error() for message in messages if message.error()]
            return messages

        return look_until(polled, done, "messages", WAIT_S)

    def call_set_sasl_credentials(self) -> None:
        self.consumer.set_sasl_credentials("ann", "secret")

    def call_set_acknowledgement_commit_callback(self) -> None:
        self.consumer.set_acknowledgement_commit_callback(
            lambda offsets, error: self.acknowledged.append((sorted(offsets.values()), error))
        )

    def call_subscribe(self) -> None:
        self.consumer.subscribe([self.topic])

    def call_subscription(self) -> None:
        assert self.consumer.subscription() == [self.topic]

    def call_poll(self) -> None:
        self.messages = self._poll_until(len)
        assert [message.offset() for message in self.messages] == [0, 1, 2]
        assert [message.value() for message in self.messages] == [b"value"] * 3

    def call_acknowledge(self) -> None:
        for message, kind in zip(self.messages, (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT), strict=False):
            self.consumer.acknowledge(message, kind)

    def call_acknowledge_offset(self) -> None:
        self.consumer.acknowledge_offset(self.topic, 0, 2, AcknowledgeType.RELEASE)

    def call_commit_sync(self) -> None:
        (error,) = self.consumer.commit_sync(WAIT_S).values()
        assert error is None

    def call_commit_async(self) -> None:
        (message,) = self._poll_until(len)
        assert (message.offset(), message.delivery_count()) == (2, 2)
        self.consumer.acknowledge(message)
        self.consumer.commit_async()
        self._poll_until(lambda _: len(self.acknowledged) == 2)
        assert self.acknowledged == [([{0, 1, 2}], None), ([{2}], None)]

    def call_unsubscribe(self) -> None:
        self.consumer.unsubscribe()
        assert self.consumer.subscription() == []

    def call_close(self) -> None:
        self.consumer.close()


class DeserializingShareConsumer(ShareConsumer):
    CLIENT = confluent_kafka.DeserializingShareConsumer


class AIOProducer(Producer):
    CLIENT = confluent_kafka.aio.AIOProducer
    call_produce_batch = None

    def _make(self, settings: dict[str, Any]) -> Blocking:
        return Blocking(lambda: self.CLIENT(settings))

    def call_produce(self) -> None:
        self.future = self.producer.produce(self.topic, b"value", partition=0)

    def call_poll(self) -> None:
        self.producer.poll(0)

    def call_flush(self) -> None:
        self.producer.flush()
        assert self.producer.result(self.future).offset() == 0

    def call_purge(self) -> None:
        self.producer.begin_transaction()
        self.producer.produce(self.topic, b"purged", partition=0)
        self.producer.purge()

    def close(self) -> None:
        self.producer.end()


class AIOConsumer(Consumer):
    CLIENT = confluent_kafka.aio.AIOConsumer
    call_memberid = None

    def _make(self, settings: dict[str, Any]) -> Blocking:
        return Blocking(lambda: self.CLIENT(settings))

    def close(self) -> None:
        self.consumer.end()
