from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

import kqueue


@pytest.fixture
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker() as broker:
        broker.create_topic("orders")
        broker.topics["orders"].produce_all([b"%d" % number for number in range(5)])
        broker.create_topic("wide", 12)
        for partition in range(12):
            broker.topics["wide"].produce_all(["x", "y"], partition=partition)
        yield broker


@pytest.fixture
def commit(broker: kqueue.Broker) -> Iterator[Callable[..., None]]:
    """Commit offsets, partition -> offset, as a consumer that has read so far would."""
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id="mail", enable_auto_commit=False)

    def to(topic: str, offsets: dict[int, int]) -> None:
        consumer.assign([TopicPartition(topic, partition) for partition in offsets])
        consumer.commit(
            {
                TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)
                for partition, offset in offsets.items()
            }
        )

    yield to
    consumer.close()


def failing(broker: kqueue.Broker, topic: str, group: str = "mail", **options: object) -> str:
    with pytest.raises(AssertionError) as caught:
        broker.assert_consumed(topic, group=group, **options)  # type: ignore[arg-type]
    return str(caught.value)


def test_a_group_that_is_behind_is_told_by_partition(broker: kqueue.Broker, commit: Callable[..., None]) -> None:
    commit("orders", {0: 3})
    assert (
        failing(broker, "orders")
        == "group mail has consumed 3 of 5 records of orders: partition 0 at 3 of 5 (Empty, 0 members)"
    )
    broker.assert_consumed("orders", group="mail", upto=3)
    broker.assert_consumed("orders", group="mail", upto={0: 2})
    assert "consumed 3 of 4 records of orders: partition 0 at 3 of 4" in failing(broker, "orders", upto=4)
    commit("orders", {0: 5})
    broker.assert_consumed("orders", group="mail")
    broker.topics["orders"].produce("one more")
    assert "consumed 5 of 6 records of orders: partition 0 at 5 of 6" in failing(broker, "orders")


def test_partitions_without_a_commit_are_nowhere(broker: kqueue.Broker, commit: Callable[..., None]) -> None:
    commit("wide", {0: 2, 1: 1})
    text = failing(broker, "wide")
    assert text.startswith(
        "group mail has consumed 3 of 24 records of wide: partition 1 at 1 of 2, partition 2 nowhere of 2, "
    )
    assert text.endswith("partition 10 nowhere of 2, and 1 more partition (Empty, 0 members)")
    broker.assert_consumed("wide", group="mail", upto={0: 2, 1: 1})
    commit("wide", dict.fromkeys(range(12), 2))
    broker.assert_consumed("wide", group="mail")


def test_deleted_records_need_no_commit(broker: kqueue.Broker, commit: Callable[..., None]) -> None:
    commit("wide", {0: 2})
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.delete_records(
        {TopicPartition("wide", partition): 2 for partition in range(1, 11)} | {TopicPartition("wide", 11): 1}
    )
    admin.close()
    assert (
        failing(broker, "wide")
        == "group mail has consumed 2 of 3 records of wide: partition 11 nowhere of 2 (Empty, 0 members)"
    )
    broker.create_topic("empty", 2)
    broker.assert_consumed("empty", group="mail")


def test_wrong_names_are_told_with_the_nearest(broker: kqueue.Broker, commit: Callable[..., None]) -> None:
    commit("orders", {0: 3})
    assert failing(broker, "orders", "mial") == "there is no group 'mial'; did you mean 'mail'?"
    assert failing(broker, "ordres") == "there is no topic 'ordres'; did you mean 'orders'?"


def test_an_upto_that_does_not_fit_the_topic_is_refused(broker: kqueue.Broker, commit: Callable[..., None]) -> None:
    commit("orders", {0: 3})
    with pytest.raises(ValueError, match="wide has 12 partitions"):
        broker.assert_consumed("wide", group="mail", upto=3)
    with pytest.raises(ValueError, match="orders has partitions 0 to 0, not 4"):
        broker.assert_consumed("orders", group="mail", upto={4: 1})


def test_check_waits_for_a_consumer(broker: kqueue.Broker) -> None:
    def consume() -> None:
        consumer = KafkaConsumer(
            "orders", bootstrap_servers=broker.bootstrap, group_id="mail", auto_offset_reset="earliest"
        )
        for _ in range(5):
            next(consumer)
            consumer.commit()
        consumer.close()

    thread = threading.Thread(target=consume)
    thread.start()
    broker.assert_consumed("orders", group="mail", within_s=30)
    assert broker.groups["mail"].total_lag == 0
    thread.join()


def test_missing_commit_is_reported_with_the_time(broker: kqueue.Broker, commit: Callable[..., None]) -> None:
    commit("orders", {0: 3})
    assert failing(broker, "orders", within_s=0.02).endswith("partition 0 at 3 of 5 (Empty, 0 members) (after 0.02 s)")
