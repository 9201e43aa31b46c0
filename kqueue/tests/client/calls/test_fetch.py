"""Fetches of what Kafka itself has written: all formats and codecs, and transactions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kqueue
from kqueue.base.errors import CorruptBatch
from kqueue.client import AbortedTxn, Client, FetchedRecords, TopicPartition
from kqueue.client.calls.fetch import NOTHING, Fetch
from kqueue.client.deadline import Deadline
from kqueue.records.any_format import iter_any_records
from kqueue.records.batch import iter_batches, iter_records
from kqueue.tests import golden
from kqueue.tests.client.calls.caches import ID, T0, cache_of
from kqueue.tests.client.serving import batch


@pytest.fixture(scope="module", params=golden.VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def client(version: str) -> Iterator[Client]:
    folder = golden.data_folder(version)
    with (
        kqueue.Broker(snapshot=folder, settings={"log.retention.ms": -1}) as broker,
        Client(broker.bootstrap) as client,
    ):
        yield client


def pieces(client: Client, topic_partition: TopicPartition, **how: object) -> Iterator[FetchedRecords]:
    """All of a partition, a batch or a few at a time."""
    offset = 0
    while True:
        fetched = client.fetch({topic_partition: offset}, partition_max_bytes=2_000, max_wait_ms=0, **how)[
            topic_partition
        ]  # type: ignore[arg-type]
        yield fetched
        after = fetched.next_offset
        if after is None:
            return
        assert after > offset
        offset = after


def records_of(fetches: Iterator[FetchedRecords]) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of every record that no control batch holds; each once, though a batch
    may come again.
    """
    result = []
    for fetched in fetches:
        controls = (
            {header.base_offset for _, header in iter_batches(fetched.records) if header.is_control}
            if is_new(fetched)
            else set()
        )
        result += [
            (one.offset, one.key, one.value) for one in iter_any_records(fetched.records) if one.offset not in controls
        ]
    return sorted(set(result))


def is_new(fetched: FetchedRecords) -> bool:
    return len(fetched.records) > 16 and fetched.records[16] == 2


def test_batches_of_kafka_are_fetched_unchanged(client: Client, version: str) -> None:
    """Formats 0, 1 and 2, all codecs, compacted topics, in pieces that end where batches do."""
    for topic, expected in golden.expected(version).items():
        for partition in () if ":" in topic else expected.watermarks:
            result = records_of(pieces(client, TopicPartition(topic, partition)))
            assert result == [(one.offset, one.key, one.value) for one in expected.of_partition(partition)], topic


def committed(fetches: Iterator[FetchedRecords]) -> Iterator[tuple[int, bytes | None]]:
    """Return the records that a consumer shows in read_committed: without the transactions that
    `aborted` names. Source: KIP-98.
    """
    for fetched in fetches:
        pending = sorted(fetched.aborted, key=lambda one: one.first_offset)
        aborted: set[int] = set()
        for position, header in iter_batches(fetched.records):
            while pending and pending[0].first_offset <= header.last_offset:
                aborted.add(pending.pop(0).producer_id)
            if header.is_control:
                aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted):
                yield from ((one.offset, one.value) for one in iter_records(fetched.records, position))


def test_the_aborted_transactions_are_named(client: Client, version: str) -> None:
    topic_partition = TopicPartition("txn", 0)
    expected = [(one.offset, one.value) for one in golden.expected(version)["txn:committed"].of_partition(0)]
    assert list(committed(pieces(client, topic_partition, isolation="read_committed"))) == expected
    assert all(fetched.aborted == () for fetched in pieces(client, topic_partition)), (
        "only who asks for committed records is told"
    )
    assert any(fetched.aborted for fetched in pieces(client, topic_partition, isolation="read_committed"))


def fetched(records: bytes) -> FetchedRecords:
    return FetchedRecords(memoryview(records), -1, -1, -1)


def test_fetch_result_gives_the_next_offset() -> None:
    first, second = batch([b"a"] * 3, base_offset=7), batch([b"b"] * 2, base_offset=20)
    assert fetched(first + second).next_offset == 22
    for cut in range(1, len(second)):
        assert fetched(first + second[:cut]).next_offset == 10
    assert fetched(second[:-1]).next_offset is None
    assert FetchedRecords(NOTHING, 0, 0, 0, (AbortedTxn(1, 2),)).next_offset is None
    with pytest.raises(CorruptBatch):
        _ = fetched(bytes(100)).next_offset


def test_topics_are_named_where_one_of_them_has_no_id() -> None:
    call = Fetch(isolation=0, max_bytes=1, partition_max_bytes=1, min_bytes=1, max_wait_ms=1)
    assert call.versions(cache_of(ID, b"2" * 16), ["t", "t1"])[1] == call.api.versions[1]
    assert call.versions(cache_of(ID, bytes(16)), ["t", "t1"])[1] == 12


def test_a_broker_is_to_wait_less_long_than_we_do() -> None:
    fetch = Fetch(isolation=1, max_bytes=1, partition_max_bytes=1, min_bytes=1, max_wait_ms=60_000)
    assert 30_000 < fetch.request(12, {T0: 0}, cache_of(ID), Deadline(80_000)).max_wait_ms < 60_000
