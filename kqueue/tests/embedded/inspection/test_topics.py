from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

import kqueue
from kqueue.base.errors import CorruptBatch, InvalidConfig, InvalidTopic, UnknownTopicOrPartition
from kqueue.embedded.inspection.broker_calls import NoSuchName
from kqueue.embedded.inspection.records import PORTION_BYTES, Record
from kqueue.tests import golden
from kqueue.tests.tables import for_each


@pytest.fixture
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker(offsets_topic_num_partitions=1) as broker:
        yield broker


def test_topics_are_a_mapping_of_what_there_is_now(broker: kqueue.Broker) -> None:
    topics = broker.topics
    assert (list(topics), len(topics), repr(topics)) == ([], 0, "<topics: none>")
    broker.create_topic("orders", 3)
    broker.create_topic("mail")
    assert list(topics) == ["mail", "orders"]
    assert (len(topics), repr(topics)) == (2, "<topics: mail, orders>")
    assert "orders" in topics
    assert "order" not in topics
    assert topics.get("order") is None
    assert {name: topic.partitions for name, topic in topics.items()} == {"mail": 1, "orders": 3}
    topics["mail"].delete()
    assert list(topics) == ["orders"]


def test_a_wrong_name_is_answered_with_the_nearest_right_one(broker: kqueue.Broker) -> None:
    broker.create_topic("orders")
    with pytest.raises(KeyError) as caught:
        broker.topics["ordres"]
    assert str(caught.value) == "there is no topic 'ordres'; did you mean 'orders'?"


def test_a_topic_that_was_deleted_says_so(broker: kqueue.Broker) -> None:
    broker.create_topic("orders")
    topic = broker.topics["orders"]
    topic.delete()
    for use in (
        topic.records,
        lambda: topic.partitions,
        lambda: topic.end_offsets,
        lambda: topic.produce("x"),
        topic.delete,
    ):
        with pytest.raises(NoSuchName, match="no topic 'orders'"):
            use()
    assert repr(topic) == "<topic orders: there is no topic 'orders'>"
    broker.stop()
    assert repr(topic) == "<topic orders: the broker is not running: use it in a `with` statement, or call start()>"
    with pytest.raises(RuntimeError, match="not running"):
        broker.topics["orders"]


def test_the_brokers_own_topics_are_found_by_name_alone(broker: kqueue.Broker) -> None:
    broker.create_topic("orders")
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id="g", enable_auto_commit=False)
    consumer.assign([TopicPartition("orders", 0)])
    consumer.seek(TopicPartition("orders", 0), 0)
    consumer.commit()
    consumer.close()
    assert list(broker.topics) == ["orders"]
    own = broker.topics["__consumer_offsets"]
    assert own.records()
    with pytest.raises(InvalidTopic):
        own.produce(b"x", key=b"k")
    with pytest.raises(InvalidTopic):
        own.delete()


def test_config_is_what_holds_for_the_topic(broker: kqueue.Broker) -> None:
    broker.create_topic("plain")
    broker.create_topic("own", cleanup_policy="compact", retention_ms=1000)
    plain, own = broker.topics["plain"].config, broker.topics["own"].config
    assert (plain["cleanup.policy"], plain["retention.ms"]) == (["delete"], 604_800_000)
    assert (own["cleanup.policy"], own["retention.ms"]) == (["compact"], 1000)
    assert set(plain) == set(own)
    with kqueue.Broker(log_retention_ms=5000) as other:
        other.create_topic("plain")
        assert other.topics["plain"].config["retention.ms"] == 5000


def test_records_come_in_order_of_partition_and_offset(broker: kqueue.Broker) -> None:
    broker.create_topic("t", 2)
    topic = broker.topics["t"]
    assert topic.records() == []
    for number in range(6):
        topic.produce(b"%d" % number, partition=number % 2)
    assert [(one.partition, one.offset, one.value) for one in topic.records()] == [
        (0, 0, b"0"), (0, 1, b"2"), (0, 2, b"4"), (1, 0, b"1"), (1, 1, b"3"), (1, 2, b"5"),
    ]  # fmt: skip
    assert [one.value for one in topic.records(1)] == [b"1", b"3", b"5"]
    assert [one.value for one in topic.records(start=1, stop=2)] == [b"2", b"3"]
    assert [one.value for one in topic.records(0, start=2)] == [b"4"]
    assert topic.records(0, start=3) == topic.records(0, start=99) == topic.records(0, stop=0) == []
    assert repr(topic) == "<topic t: 2 partitions, 6 offsets>"
    with pytest.raises(UnknownTopicOrPartition, match="not 2"):
        topic.records(2)


def test_offsets_begin_where_the_log_does(broker: kqueue.Broker) -> None:
    broker.create_topic("t", 2)
    topic = broker.topics["t"]
    topic.produce_all([b"%d" % number for number in range(10)], partition=1)
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.delete_records({TopicPartition("t", 1): 4})
    admin.close()
    assert topic.start_offsets == {0: 0, 1: 4}
    assert topic.end_offsets == {0: 0, 1: 10}
    assert [one.offset for one in topic.records()] == list(range(4, 10))
    assert [one.offset for one in topic.records(start=2, stop=6)] == [4, 5]


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_records_of_clients_are_read_whatever_their_codec(broker: kqueue.Broker, codec: str | None) -> None:
    with KafkaProducer(bootstrap_servers=broker.bootstrap, compression_type=codec, linger_ms=50) as producer:
        for number in range(20):
            producer.send(
                "t", b"value %d" % number, key=b"k", headers=[("h", b"1"), ("h", b"")], timestamp_ms=1000 + number
            )
    expected = [Record("t", 0, n, 1000 + n, b"k", b"value %d" % n, (("h", b"1"), ("h", b""))) for n in range(20)]
    assert broker.topics["t"].records() == expected


@pytest.mark.parametrize("storage", ["memory", "disk"])
def test_more_than_a_portion_is_read_whole_and_once(storage: str, tmp_path: Path) -> None:
    values = [b"%07d" % number + bytes(50_000) for number in range(3 * PORTION_BYTES // 50_000)]
    with kqueue.Broker(tmp_path if storage == "disk" else None) as broker:
        broker.create_topic("t")
        topic = broker.topics["t"]
        topic.produce_all(values)
        broker.restart()  # what is on the disk has to be compared with its checksums first
        assert [one.value for one in topic.records()] == values
        middle = topic.records(start=7, stop=len(values) - 7)
        assert [one.offset for one in middle] == list(range(7, len(values) - 7))


def test_damage_on_the_disk_is_told_and_not_handed_out(tmp_path: Path) -> None:
    with kqueue.Broker(tmp_path) as broker:
        broker.create_topic("t")
        for number in range(20):
            broker.topics["t"].produce(b"%02d" % number * 5000)
    log = tmp_path / "t-0" / ("0" * 20 + ".log")
    data = bytearray(log.read_bytes())
    data[data.index(b"0303030303") + 5] ^= 1
    log.write_bytes(data)
    with kqueue.Broker(tmp_path) as broker:
        assert [one.offset for one in broker.topics["t"].records(start=4)] == list(range(4, 20))
        with pytest.raises(CorruptBatch):
            broker.topics["t"].records()
        assert [one.offset for one in broker.topics["t"].records(stop=3)] == [0, 1, 2]


def test_a_scan_ends_where_the_partition_ended_when_it_began(broker: kqueue.Broker) -> None:
    broker.create_topic("t")
    topic = broker.topics["t"]
    topic.produce_all(["a", "b"])
    seen = []
    for record in topic.scan():
        topic.produce("more")
        seen.append(record.value)
    assert seen == [b"a", b"b"]
    assert len(topic.records()) == 4


@for_each("version", golden.VERSIONS)
def test_kafkas_own_records_are_read_as_a_client_read_them(version: str) -> None:
    """Old formats, all codecs, transactions that were committed and aborted, compaction."""
    expected = golden.expected(version)
    with kqueue.Broker(snapshot=golden.data_folder(version)) as broker:
        for name, topic in expected.items():
            read_committed = name.endswith(":committed")
            records = broker.topics[name.removesuffix(":committed")].records(read_committed=read_committed)
            wanted = [
                Record(name.removesuffix(":committed"), one.partition, one.offset,
                       one.timestamp if one.timestamp_type else None, one.key, one.value, one.headers)
                for partition in topic.watermarks
                for one in topic.of_partition(partition)
            ]  # fmt: skip
            assert records == wanted, name
    assert any(name.endswith(":committed") for name in expected)


def test_records_have_words_for_people() -> None:
    record = Record("orders", 2, 17, 5, b"table 4", b"two coffees", (("h", None),))
    assert repr(record) == "<orders-2@17 key=b'table 4' value=b'two coffees' headers={'h': None}>"
    assert repr(Record("orders", 0, 0, None, None, None)) == "<orders-0@0 value=None>"
    long = repr(Record("t", 0, 0, None, None, bytes(1000)))
    assert len(long) < 120
    assert "(1000 bytes)" in long
    with pytest.raises(AttributeError):
        record.value = b""  # type: ignore[misc]


def test_settings_of_a_topic_change_at_run_time(broker: kqueue.Broker) -> None:
    broker.create_topic("orders", retention_ms=5)
    topic = broker.topics["orders"]
    assert topic.own_config == {"retention.ms": 5}
    topic.alter_config(cleanup_policy=["compact", "delete"], retention_ms=None, flush_ms=7)
    assert topic.own_config == {"cleanup.policy": ["compact", "delete"], "flush.ms": 7}
    assert topic.config["retention.ms"] == 604_800_000
    with pytest.raises(InvalidConfig, match="did you mean 'flush.ms'"):
        topic.alter_config(flush_mss=7, cleanup_policy="delete")
    assert topic.own_config == {"cleanup.policy": ["compact", "delete"], "flush.ms": 7}
    topic.delete()
    with pytest.raises(NoSuchName):
        topic.alter_config(flush_ms=1)
