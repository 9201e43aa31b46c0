"""What a user tries that has an account and few permissions, through stock clients: the names, ids,
groups and offsets of others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata
from kafka import TopicPartition as KafkaTopicPartition
from kafka.errors import KafkaError

import kqueue

USERS = {"ann": "secret", "eve": "other"}
ACLS = [
    "User:ann allow all topic:a.b",
    "User:ann allow all group:billing",
    "User:ann allow all transactional_id:pay-1",
    "User:eve allow all topic:own",
    "User:eve allow all group:eves",
    "User:eve allow all transactional_id:eve-1",
]
GROUP_DENIED = r"(?i)groupauthorization"
LOOK_ALIKES = ["a_b", "A.b", "a.b.", "a.b-", "a.bc", "a", "a..b"]


@pytest.fixture(scope="module")
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker(users=USERS, acls=ACLS) as running:
        for name in ("a.b", "own"):
            running.create_topic(name)
        producer = Producer(config(running, "ann"))
        producer.produce("a.b", b"private")
        assert producer.flush(60) == 0
        consumer = Consumer(config(running, "ann") | {"group.id": "billing"})
        consumer.commit(offsets=[TopicPartition("a.b", 0, 1)], asynchronous=False)
        consumer.close()
        yield running


def config(broker: kqueue.Broker, user: str, client: str = "confluent-kafka") -> dict[str, Any]:
    return broker.client_config(client, user=user, password=USERS[user], mechanism="SCRAM-SHA-512")


def error_name(raised: pytest.ExceptionInfo[KafkaException]) -> str:
    name: str = raised.value.args[0].name()
    return name


def test_transactional_id_of_another_user_is_denied(broker: kqueue.Broker) -> None:
    owner = Producer(config(broker, "ann") | {"transactional.id": "pay-1"})
    owner.init_transactions(20)
    owner.begin_transaction()
    owner.produce("a.b", b"paid")
    thief = Producer(config(broker, "eve") | {"transactional.id": "pay-1"})
    with pytest.raises(KafkaException) as raised:
        thief.init_transactions(20)
    assert error_name(raised) == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    owner.commit_transaction(20)  # it was not fenced


def test_group_of_another_user_is_denied(broker: kqueue.Broker) -> None:
    thief = KafkaConsumer("own", **config(broker, "eve", "kafka-python"), group_id="billing")
    with pytest.raises(KafkaError, match=GROUP_DENIED):
        thief.committed(KafkaTopicPartition("own", 0))
    with pytest.raises(KafkaError, match=GROUP_DENIED):
        thief.commit({KafkaTopicPartition("own", 0): OffsetAndMetadata(0, "", -1)})
    with pytest.raises(KafkaError, match=GROUP_DENIED):
        thief.poll(10_000)
    thief.close()
    admin = AdminClient(config(broker, "eve"))
    for futures in (admin.describe_consumer_groups(["billing"]), admin.delete_consumer_groups(["billing"])):
        with pytest.raises(KafkaException) as raised:
            futures["billing"].result(60)
        assert error_name(raised) == "GROUP_AUTHORIZATION_FAILED"
    assert [group.group_id for group in admin.list_consumer_groups().result(60).valid] == []
    owner = Consumer(config(broker, "ann") | {"group.id": "billing"})
    assert owner.committed([TopicPartition("a.b", 0)], timeout=60)[0].offset == 1
    owner.close()


def test_a_group_of_ones_own_shows_no_topics_of_others(broker: kqueue.Broker) -> None:
    consumer = Consumer(config(broker, "eve") | {"group.id": "eves"})
    with pytest.raises(KafkaException) as raised:
        consumer.commit(offsets=[TopicPartition("a.b", 0, 5)], asynchronous=False)
    assert error_name(raised) == "TOPIC_AUTHORIZATION_FAILED"
    [position] = consumer.committed([TopicPartition("a.b", 0)], timeout=60)
    assert position.error is not None or position.offset < 0
    consumer.close()


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_a_permission_is_for_the_very_name(broker: kqueue.Broker, name: str) -> None:
    producer = KafkaProducer(**config(broker, "ann", "kafka-python"), retries=0, max_block_ms=10_000)
    with pytest.raises(KafkaError, match=r"(?i)topicauthorization"):
        producer.send(name, b"x").get(60)
    producer.close()


def test_topics_of_others_do_not_appear(broker: kqueue.Broker) -> None:
    consumer = KafkaConsumer(**config(broker, "eve", "kafka-python"))
    assert consumer.topics() == {"own"}
    consumer.close()
    assert set(AdminClient(config(broker, "eve")).list_topics(timeout=60).topics) == {"own"}
    admin = KafkaAdminClient(**config(broker, "eve", "kafka-python"))
    assert admin.list_topics() == ["own"]
    admin.close()
