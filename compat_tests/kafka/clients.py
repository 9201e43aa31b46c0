"""Stock clients, the same against Kafka and kqueue: write records, read back everything that a
topic holds.

confluent-kafka does most; kafka-python writes too, so that not all files begin in librdkafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from compat_tests.waits import HangLimit, eventually, look_until

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIMEOUT_S = 60
QUIET: Mapping[str, Any] = {"log_level": 2, "reconnect.backoff.max.ms": 500}
Headers = tuple[tuple[str, bytes | None], ...]
START_MS = 1_700_000_000_000
ALL_HEADERS: Headers = (("trace", b"1"), ("none", None), ("empty", b""), ("trace", b"\x00\xff"))


class Sent(NamedTuple):
    """A record to be written; `partition` must be named, `timestamp` is in ms."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int = 0
    timestamp: int = START_MS


class Row(NamedTuple):
    """A record as a client read it; `timestamp_type` 0: none, 1: CreateTime, 2: LogAppendTime."""

    partition: int
    offset: int
    timestamp_type: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def sample(name: str, count: int, *, partitions: int = 1, start: int = 0) -> list[Sent]:
    """Records of all kinds: null and empty keys and values, headers of all sorts, times that go
    back now and then.
    """
    made = []
    for number in range(start, start + count):
        key = None if number % 5 == 0 else b"" if number % 7 == 0 else f"key-{number % 13}".encode()
        value = None if number % 11 == 3 and key is not None else f"{name} {number} ".encode() * (number % 9)
        headers = ALL_HEADERS if number % 4 == 1 else ()
        timestamp = START_MS + number * 1000 - (5000 if number % 10 == 9 else 0)
        made.append(Sent(value, key, headers, number % partitions, timestamp))
    return made


def create_topic(bootstrap: str, name: str, partitions: int = 1, **settings: object) -> None:
    """Create a topic; `settings` are its own, with `_` for `.`; returns once a producer can write
    to it.
    """
    admin = AdminClient({**QUIET, "bootstrap.servers": bootstrap})
    configs = {key.replace("_", "."): str(value) for key, value in settings.items()}
    admin.create_topics([NewTopic(name, partitions, 1, config=configs)])[name].result(TIMEOUT_S)
    eventually(lambda: _is_ready(admin, name, partitions), f"leaders of topic {name}", TIMEOUT_S)


def _is_ready(admin: AdminClient, name: str, partitions: int) -> bool:
    topic = admin.list_topics(name, timeout=TIMEOUT_S).topics[name]
    return (
        topic.error is None
        and len(topic.partitions) == partitions
        and all(one.leader >= 0 for one in topic.partitions.values())
    )


def delete_topics(bootstrap: str, *names: str) -> None:
    """Delete topics; returns once the broker no longer names them."""
    admin = AdminClient({**QUIET, "bootstrap.servers": bootstrap})
    for future in admin.delete_topics(list(names)).values():
        future.result(TIMEOUT_S)
    look_until(lambda: topics(bootstrap), {*names}.isdisjoint, f"topics without {names}", TIMEOUT_S)


def add_partitions(bootstrap: str, topic: str, count: int) -> None:
    """Raise a topic's number of partitions to `count`; returns once they have leaders."""
    admin = AdminClient({**QUIET, "bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, count)])[topic].result(TIMEOUT_S)
    eventually(lambda: _is_ready(admin, topic, count), f"leaders of the partitions of {topic}", TIMEOUT_S)


def topics(bootstrap: str) -> dict[str, int]:
    """Name and number of partitions of all topics but the broker's own."""
    by_name = AdminClient({**QUIET, "bootstrap.servers": bootstrap}).list_topics(timeout=TIMEOUT_S).topics
    return {name: len(topic.partitions) for name, topic in by_name.items() if not name.startswith("__")}


def delete_records(bootstrap: str, topic: str, partition: int, before: int) -> None:
    """Move the start of a partition's log."""
    admin = AdminClient({**QUIET, "bootstrap.servers": bootstrap})
    place = TopicPartition(topic, partition, before)
    admin.delete_records([place])[place].result(TIMEOUT_S)


class Writer:
    """A producer of confluent-kafka with acks=all; `write` returns once all are acknowledged."""

    def __init__(self, bootstrap: str, codec: str = "none", batch_records: int = 20, **settings: Any) -> None:
        self._outcomes: list[KafkaError | None] = []
        self.producer = Producer(
            {
                **QUIET,
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "compression.type": codec,
                "batch.num.messages": batch_records,
                "linger.ms": 20,
                **settings,
            }
        )

    def write(self, topic: str, records: Iterable[Sent]) -> None:
        self._outcomes.clear()
        count = 0
        for one in records:
            headers = list(one.headers)
            self.producer.produce(
                topic, one.value, one.key, one.partition, self._delivered, timestamp=one.timestamp, headers=headers
            )
            count += 1
        assert self.producer.flush(TIMEOUT_S) == 0, f"records for {topic} were not answered within {TIMEOUT_S} s"
        failed = [error for error in self._outcomes if error is not None]
        assert not failed, f"{topic}: {failed[0]}"
        assert len(self._outcomes) == count

    def transaction(self, topic: str, records: Iterable[Sent], *, commit: bool) -> None:
        """All these records in one transaction; the settings must name a transactional.id, and
        `init` come first.
        """
        self.producer.begin_transaction()
        self.write(topic, records)
        self.end(commit=commit)

    def end(self, *, commit: bool) -> None:
        """Commit or abort the transaction that `begin` began."""
        if commit:
            self.producer.commit_transaction(TIMEOUT_S)
        else:
            self.producer.abort_transaction(TIMEOUT_S)

    def init(self) -> Writer:
        self.producer.init_transactions(TIMEOUT_S)
        return self

    def begin(self) -> None:
        self.producer.begin_transaction()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        self._outcomes.append(error)


def write(bootstrap: str, topic: str, records: Iterable[Sent], codec: str = "none", **settings: Any) -> None:
    """Write these records and wait until all are acknowledged by all."""
    Writer(bootstrap, codec, **settings).write(topic, records)


def write_with_kafka_python(bootstrap: str, topic: str, records: Iterable[Sent], codec: str = "none") -> None:
    """The same through kafka-python, which has no header values of None."""
    from kafka import KafkaProducer

    named = None if codec == "none" else codec
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, acks="all", compression_type=named, linger_ms=20, batch_size=2000
    )
    try:
        pending = [
            producer.send(
                topic,
                value=one.value,
                key=one.key,
                headers=[(name, value) for name, value in one.headers if value is not None],
                partition=one.partition,
                timestamp_ms=one.timestamp,
            )
            for one in records
        ]
        for future in pending:
            future.get(TIMEOUT_S)
    finally:
        producer.close()


def _consumer(bootstrap: str, group: str, **settings: Any) -> Consumer:
    return Consumer(
        {**QUIET, "bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, **settings}
    )


def partitions_of(client: Consumer | AdminClient, topic: str) -> list[int]:
    return sorted(client.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions)


def read(bootstrap: str, names: Iterable[str], *, committed: bool = False) -> dict[str, list[Row]]:
    """Everything that these topics hold, in order of partition and offset; `committed`: the
    read_committed view.
    """
    settings = {
        "enable.partition.eof": True,
        "isolation.level": "read_committed" if committed else "read_uncommitted",
        "auto.offset.reset": "error",
        "check.crcs": True,
        "fetch.wait.max.ms": 10,
    }
    rows: dict[str, list[Row]] = {topic: [] for topic in names}
    consumer = _consumer(bootstrap, "not-used", **settings)
    try:
        left = {(topic, partition) for topic in rows for partition in partitions_of(consumer, topic)}
        consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in left])
        limit = HangLimit("the ends of partitions", TIMEOUT_S)
        while left:
            limit.check(left)
            for message in consumer.consume(500, 0.1):
                error = message.error()
                if error is None:
                    rows[message.topic()].append(_row(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard((message.topic(), message.partition()))
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()
    for topic_rows in rows.values():
        topic_rows.sort(key=lambda row: row[:2])
    return rows


def _row(message: Message) -> Row:
    kind, timestamp = message.timestamp()
    headers = tuple((name, value) for name, value in message.headers() or ())
    return Row(message.partition(), message.offset(), kind, timestamp, message.key(), message.value(), headers)


def watermarks(bootstrap: str, names: Iterable[str]) -> dict[str, dict[int, tuple[int, int]]]:
    """Topic -> partition -> first offset, and the high watermark."""
    consumer = _consumer(bootstrap, "not-used")
    try:
        return {
            topic: {
                partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), TIMEOUT_S)
                for partition in partitions_of(consumer, topic)
            }
            for topic in names
        }
    finally:
        consumer.close()


def offsets_for_times(
    bootstrap: str, names: Iterable[str], times: Sequence[int]
) -> dict[str, dict[tuple[int, int], int]]:
    """Topic -> (partition, time in ms) -> offset of the first record of that time or later; -1:
    none.
    """
    consumer = _consumer(bootstrap, "not-used")
    try:
        offsets: dict[str, dict[tuple[int, int], int]] = {topic: {} for topic in names}
        for timestamp in times:
            asked = [
                TopicPartition(topic, partition, timestamp)
                for topic in offsets
                for partition in partitions_of(consumer, topic)
            ]
            for place in consumer.offsets_for_times(asked, TIMEOUT_S):
                offsets[place.topic][place.partition, timestamp] = place.offset
        return offsets
    finally:
        consumer.close()


def commit(bootstrap: str, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Commit these offsets for a group without members, once its coordinator has loaded it."""
    consumer = _consumer(bootstrap, group)
    places = [TopicPartition(*place, offset) for place, offset in offsets.items()]
    limit = HangLimit(f"the coordinator of group {group}", TIMEOUT_S)
    try:
        while True:
            try:
                consumer.commit(offsets=places, asynchronous=False)
                return
            except KafkaException as error:
                if error.args[0].code() != KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
                    raise
                limit.check(error)
    finally:
        consumer.close()


def committed(bootstrap: str, group: str, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """What a group has committed; places without an offset are left out."""
    consumer = _consumer(bootstrap, group)
    try:
        offsets = consumer.committed([TopicPartition(*place) for place in places], TIMEOUT_S)
        return {(place.topic, place.partition): place.offset for place in offsets if place.offset >= 0}
    finally:
        consumer.close()


def consume_in_group(bootstrap: str, group: str, topic: str, count: int) -> list[bytes | None]:
    """Join a group, take at least `count` records of a topic, commit what was taken, leave."""
    consumer = _consumer(bootstrap, group, **{"auto.offset.reset": "earliest", "session.timeout.ms": 6000})
    taken: list[bytes | None] = []
    try:
        consumer.subscribe([topic])
        limit = HangLimit(f"{count} records of {topic} for group {group}", TIMEOUT_S)
        while len(taken) < count:
            limit.check(len(taken))
            for message in consumer.consume(count - len(taken), 0.2):
                assert message.error() is None, message.error()
                taken.append(message.value())
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return taken
