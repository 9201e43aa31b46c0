"""`kqueue.client` against Kafka itself: what it asks is understood, and what it finds is what a
stock client finds.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.kafka import clients
from compat_tests.kafka.clients import START_MS, Sent, Writer, sample
from compat_tests.kafka.node import NODE_ID, Kafka
from compat_tests.kafka.serving import serving
from kqueue.client import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    Client,
    FetchedRecords,
    NewTopic,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    ResourceType,
    TopicPartition,
)
from kqueue.client.errors import BrokerRefused, FetchOutOfRange
from kqueue.records.batch import iter_batches, iter_records
from kqueue.records.builder import build_batch
from kqueue.records.record import Record

PLACES = [TopicPartition("three", index) for index in range(3)]
TXN = TopicPartition("txn", 0)


@pytest.fixture(scope="module")
def running(formatted: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    node = Kafka(tmp_path_factory.mktemp("client") / "kafka").copy_from(formatted)
    with node:
        clients.create_topic(node.bootstrap, "three", 3, max_message_bytes=100_000)
        clients.write(node.bootstrap, "three", sample("three", 300, partitions=3), "lz4")
        clients.create_topic(node.bootstrap, "txn")
        writer = Writer(node.bootstrap, **{"transactional.id": "writer"}).init()
        for number in range(6):
            writer.transaction("txn", sample(f"txn {number}", 20, start=number * 20), commit=number % 3 != 1)
        yield node


@pytest.fixture
def client(running: Kafka) -> Iterator[Client]:
    with Client(running.bootstrap, missing_topic_ms=300) as made:
        yield made


def batch(values: list[bytes], **settings: int) -> bytes:
    return bytes(
        build_batch([Record(at, START_MS + at, None, value, []) for at, value in enumerate(values)], **settings)
    )


def whole(
    client: Client, topic_partition: TopicPartition, isolation: str = "read_uncommitted"
) -> Iterator[FetchedRecords]:
    """All of a partition, in small pieces."""
    offset: int | None = client.offsets({topic_partition: EARLIEST})[topic_partition].offset
    while offset is not None:
        fetched = client.fetch(
            {topic_partition: offset}, partition_max_bytes=3_000, max_wait_ms=0, isolation=isolation
        )[topic_partition]  # type: ignore[arg-type]
        yield fetched
        offset = fetched.next_offset


def values(fetches: Iterator[FetchedRecords]) -> list[tuple[int, bytes | None]]:
    """Offset and value of what a consumer shows: no markers, nothing that `aborted` names."""
    rows = []
    for fetched in fetches:
        waiting = sorted(fetched.aborted, key=lambda one: one.first_offset)
        aborted: set[int] = set()
        for position, header in iter_batches(fetched.records):
            while waiting and waiting[0].first_offset <= header.last_offset:
                aborted.add(waiting.pop(0).producer_id)
            if header.is_control:
                aborted.discard(header.producer_id)
            elif header.producer_id not in aborted:
                rows += [(one.offset, one.value) for one in iter_records(fetched.records, position)]
    return rows


def test_client_negotiates_kafkas_newest_versions(client: Client) -> None:
    client.metadata()
    (connection,) = client._router.connections._open.values()
    served = {
        name: connection.served[key]
        for key, name in ((0, "Produce"), (1, "Fetch"), (2, "ListOffsets"), (3, "Metadata"))
    }
    assert served == {"Produce": (0, 13), "Fetch": (4, 18), "ListOffsets": (1, 11), "Metadata": (0, 13)}


def test_metadata(running: Kafka, client: Client) -> None:
    """S2.1"""
    metadata = client.metadata(pattern="th.*|txn")
    assert {name: len(topic.partitions) for name, topic in metadata.topics.items()} == {"three": 3, "txn": 1}
    assert all(
        one.leader == NODE_ID and one.in_sync == (NODE_ID,) for one in metadata.topics["three"].partitions.values()
    )
    assert metadata.topics["three"].id != bytes(16)
    assert metadata.brokers[NODE_ID].port == running.ports[0]
    with pytest.raises(BrokerRefused, match="'nowhere': UNKNOWN_TOPIC_OR_PARTITION"):
        client.metadata(["nowhere"])


def test_offsets(running: Kafka, client: Client) -> None:
    """S4.2"""
    offsets = client.offsets({PLACES[0]: EARLIEST, PLACES[1]: LATEST, PLACES[2]: START_MS + 60_000})
    times = clients.offsets_for_times(running.bootstrap, ["three"], [START_MS + 60_000])["three"]
    assert [one.offset for one in offsets.values()] == [0, 100, times[2, START_MS + 60_000]]
    assert client.offsets({PLACES[0]: MAX_TIMESTAMP})[PLACES[0]].timestamp > START_MS
    assert client.offsets({PLACES[0]: START_MS + 10**9})[PLACES[0]].offset is None


def test_offsets_beside_an_open_transaction_are_those_of_kafka(running: Kafka, tmp_path: Path) -> None:
    """S4.2: also where the greatest time is that of a record beyond the last stable offset."""
    with serving(tmp_path) as broker:
        own = offsets_beside_a_transaction(broker.bootstrap)
    assert own == offsets_beside_a_transaction(running.bootstrap)
    assert own["read_uncommitted", MAX_TIMESTAMP].offset == 3
    assert own["read_committed", MAX_TIMESTAMP].offset is None


def offsets_beside_a_transaction(bootstrap: str) -> dict[tuple[str, int], OffsetAndTimestamp]:
    """Offsets by isolation level and time, in a topic of 5 records whose third is in a transaction
    that is open.
    """
    topic, place = "open", TopicPartition("open", 0)
    clients.create_topic(bootstrap, topic)
    plain = Writer(bootstrap)
    transactional = Writer(bootstrap, **{"transactional.id": "open"}).init()
    for writer, after_ms in ((plain, 100), (plain, 50), (transactional, 500), (plain, 900), (plain, 300)):
        if writer is transactional:
            writer.begin()
        writer.write(topic, [Sent(b"value", timestamp=START_MS + after_ms)])
    offsets: dict[tuple[str, int], OffsetAndTimestamp] = {}
    with Client(bootstrap) as client:
        for level in ("read_uncommitted", "read_committed"):
            for query in (EARLIEST, LATEST, MAX_TIMESTAMP, *(START_MS + after_ms for after_ms in (0, 101, 600, 901))):
                offsets[level, query] = client.offsets({place: query}, isolation=level)[place]
    transactional.end(commit=False)
    return offsets


def test_fetches_find_what_a_stock_client_finds(running: Kafka, client: Client) -> None:
    """S4.3"""
    rows = clients.read(running.bootstrap, ["three"])["three"]
    for topic_partition in PLACES:
        assert values(whole(client, topic_partition)) == [
            (row.offset, row.value) for row in rows if row.partition == topic_partition.partition
        ]
    with pytest.raises(FetchOutOfRange, match="three-1: OFFSET_OUT_OF_RANGE") as caught:
        client.fetch({PLACES[0]: 0, PLACES[1]: 101})
    assert caught.value.done.keys() == {PLACES[0]}


def test_aborted_transactions_are_named(running: Kafka, client: Client) -> None:
    """In pieces that end anywhere."""
    committed = clients.read(running.bootstrap, ["txn"], committed=True)["txn"]
    everything = clients.read(running.bootstrap, ["txn"])["txn"]
    assert len(committed) == 80 < len(everything) == 120
    assert values(whole(client, TXN, "read_committed")) == [(row.offset, row.value) for row in committed]
    assert values(whole(client, TXN)) == [(row.offset, row.value) for row in everything]


def test_produce(running: Kafka, client: Client) -> None:
    """A batch with a sequence is there once, though it was sent twice."""
    made = client.create_topics([NewTopic("written", 2, settings={"max.message.bytes": "5000"})])
    places = made.topics["written"].topic_partitions
    producer = client.init_producer()
    for number in range(3):
        sent = batch([b"%d" % number] * 2, producer_id=producer.id, epoch=producer.epoch, base_sequence=number * 2)
        for _ in range(2):
            assert [one.base_offset for one in client.produce(dict.fromkeys(places, sent)).values()] == [number * 2] * 2
    client.produce({places[0]: batch([b"plain"])}, acks=1)
    with pytest.raises(BrokerRefused, match="written-0: MESSAGE_TOO_LARGE"):
        client.produce({places[0]: batch([bytes(6_000)])})
    rows = clients.read(running.bootstrap, ["written"])["written"]
    assert [row.value for row in rows if row.partition == 0] == [b"0", b"0", b"1", b"1", b"2", b"2", b"plain"]
    assert [row.value for row in rows if row.partition == 1] == [b"0", b"0", b"1", b"1", b"2", b"2"]
    assert client.delete_records({places[0]: 4}) == {places[0]: 4}
    assert client.offsets({places[0]: EARLIEST})[places[0]].offset == 4


def test_groups_and_settings(running: Kafka, client: Client) -> None:
    client.commit("lag", {PLACES[0]: 7, PLACES[2]: OffsetAndMetadata(9, 0, "so far")})
    assert clients.committed(running.bootstrap, "lag", [PLACES[0]]) == {PLACES[0]: 7}
    assert client.committed("lag") == {PLACES[0]: OffsetAndMetadata(7), PLACES[2]: OffsetAndMetadata(9, 0, "so far")}
    assert client.committed("lag", PLACES[:2]) == {PLACES[0]: OffsetAndMetadata(7)}
    [row] = client.configs(ResourceType.TOPIC, ["three"], ["max.message.bytes", "kqueue.partitioner"])["three"].values()
    assert row[:3] == ("max.message.bytes", "100000", "DYNAMIC_TOPIC_CONFIG")
