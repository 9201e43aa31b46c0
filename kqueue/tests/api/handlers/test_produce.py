"""Produce at every version: what is appended, and each error; `test_delayed_produce` has
when it is answered.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.api import handler_table
from kqueue.api.request_context import RequestContext
from kqueue.records.batch import iter_batches
from kqueue.records.builder import BatchBuilder
from kqueue.tests.api.harness import (
    NOW_MS,
    SimulatedClient,
    batch,
    old_set,
    produce_request,
    stored,
    values,
    versions_of,
)
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import examples
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


@pytest.fixture
def client() -> SimulatedClient:
    client = SimulatedClient()
    client.sim.topic("t", 2)
    return client


@pytest.mark.parametrize("version", versions_of("produce"))
@pytest.mark.parametrize("acks", [-1, 1])
def test_appends_and_returns_the_base_offset(client: SimulatedClient, version: int, acks: int) -> None:
    client.produce("t", batch(b"before"))
    partition_response = client.produce("t", batch(b"a", b"b"), version=version, acks=acks)
    assert (
        partition_response.index,
        partition_response.error_code,
        partition_response.base_offset,
        partition_response.log_append_time_ms,
    ) == (0, 0, 1, -1)
    assert partition_response.log_start_offset == (0 if version >= 5 else -1)
    assert partition_response.record_errors == []
    assert partition_response.error_message is None
    assert [(record.offset, record.key, record.value) for record in stored(client)] == [
        (0, b"k", b"before"),
        (1, b"k", b"a"),
        (2, b"k", b"b"),
    ]


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec_id", [0, 1, 2, 3])
def test_old_clients_send_message_sets(client: SimulatedClient, version: int, magic: int, codec_id: int) -> None:
    partition_response = client.produce("t", old_set(magic, b"a", b"b", codec_id=codec_id), version=version)
    assert (partition_response.error_code, partition_response.base_offset) == (0, 0)
    assert partition_response.log_append_time_ms == -1
    time_ms = NOW_MS if magic else -1
    assert [(one.offset, one.timestamp, one.value) for one in stored(client)] == [
        (0, time_ms, b"a"),
        (1, time_ms + magic, b"b"),
    ]


@pytest.mark.parametrize(
    "records", [old_set(0, b"a"), old_set(1, b"a"), b"", None, batch(b"a") * 2, batch(b"a", base_offset=5)]
)
@pytest.mark.parametrize("version", range(3, 14))
def test_from_version_3_on_it_is_exactly_one_batch(
    client: SimulatedClient, version: int, records: bytes | None
) -> None:
    partition_response = client.produce("t", records, version=version)
    assert (partition_response.error_code, partition_response.base_offset) == (ErrorCode.INVALID_RECORD, -1)
    assert bool(partition_response.error_message) is (version >= 8)
    assert values(client) == []


def test_a_set_of_several_batches_is_answered_with_its_first_offset_and_waits_for_its_last() -> None:
    client = SimulatedClient({"kqueue.storage": "local"})
    client.sim.topic("t")
    two = old_set(1, b"a", codec_id=1) + old_set(1, b"b", codec_id=2)
    started = client.start(produce_request(client, "t", two, 2), 2)
    assert started.response is None
    client.sim.settle()
    assert started.response.responses[0].partition_responses[0].base_offset == 0  # type: ignore[attr-defined]
    assert values(client) == [b"a", b"b"]


def test_message_set_with_a_bad_batch_appends_nothing(client: SimulatedClient) -> None:
    partition_response = client.produce("t", batch(b"a") + batch(b"b", control=True), version=2)
    assert partition_response.error_code == ErrorCode.INVALID_RECORD
    assert values(client) == []


@pytest.mark.parametrize("version", versions_of("produce"))
def test_each_partition_succeeds_or_fails_for_itself(client: SimulatedClient, version: int) -> None:
    request = produce_request(client, "t", batch(b"fine"), version)
    request.topic_data[0].partition_data += [
        PartitionProduceData(index=7, records=batch(b"lost")),
        PartitionProduceData(index=1, records=batch(b"broken")[:-1] + b"?"),
    ]
    request.topic_data += produce_request(client, "nobody", batch(b"lost"), version).topic_data
    known, unknown = client.ask(request, version).responses
    assert (known.name, known.topic_id) == (
        ("t", bytes(16)) if version < 13 else ("", client.sim.broker.topics.get("t").id)
    )
    codes = [(partition.index, partition.error_code) for partition in known.partition_responses]
    assert codes == [(0, 0), (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (1, ErrorCode.CORRUPT_MESSAGE)]
    (unknown_partition,) = unknown.partition_responses
    assert unknown_partition.error_code == (
        ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    assert values(client) == [b"fine"]
    assert values(client, partition=1) == []


# --- what the topic's settings ask for


def test_zstd_needs_version_7(client: SimulatedClient) -> None:
    zstd = batch(b"a" * 100, codec="zstd")
    for version in range(3, 7):
        assert client.produce("t", zstd, version=version).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert client.produce("t", zstd, version=7).error_code == 0


def test_too_large_a_batch_is_refused() -> None:
    client = SimulatedClient()
    client.sim.topic("t", max_message_bytes="200")
    assert client.produce("t", batch(b"x" * 200)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert client.produce("t", old_set(1, b"x" * 200), version=2).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert client.produce("t", batch(b"x" * 100)).error_code == 0


@for_each("version", range(3, 14))
def test_a_compacted_topic_requires_keys(version: int) -> None:
    client = SimulatedClient()
    client.sim.topic("t", cleanup_policy="compact")
    builder = BatchBuilder()
    builder.append(NOW_MS, b"k", b"a")
    builder.append(NOW_MS, None, b"b")
    builder.append(NOW_MS, None, b"c")
    partition_response = client.produce("t", bytes(builder.build()), version=version)
    assert partition_response.error_code == ErrorCode.INVALID_RECORD
    message = "Compacted topic cannot accept message without key"
    blamed = [
        (record_error.batch_index, record_error.batch_index_error_message == message)
        for record_error in partition_response.record_errors
    ]
    assert blamed == ([(1, True), (2, True)] if version >= 8 else [])
    assert client.produce("t", batch(b"a"), version=version).error_code == 0


def test_times_out_of_bounds_are_refused(client: SimulatedClient) -> None:
    assert client.produce("t", batch(b"a", time_ms=NOW_MS + 3_600_001)).error_code == ErrorCode.INVALID_TIMESTAMP
    client.sim.topic("strict", message_timestamp_before_max_ms="10")
    assert client.produce("strict", batch(b"a", time_ms=NOW_MS - 11)).error_code == ErrorCode.INVALID_TIMESTAMP


@for_each("version", versions_of("produce"))
def test_a_topic_may_stamp_its_own_times(version: int) -> None:
    client = SimulatedClient()
    client.sim.topic("t", message_timestamp_type="LogAppendTime")
    client.sim.clock.advance(500)
    partition_response = client.produce("t", batch(b"a", time_ms=5), version=version)
    assert partition_response.log_append_time_ms == (NOW_MS + 500 if version >= 2 else -1)
    assert [record.timestamp for record in stored(client)] == [NOW_MS + 500]


@for_each("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@for_each("sent", ["none", "gzip", "zstd"])
def test_a_topic_may_have_its_own_compression(codec: str, sent: str) -> None:
    client = SimulatedClient()
    client.sim.topic("t", compression_type=codec)
    client.produce("t", batch(b"a" * 500, b"b" * 500, codec=sent, producer_id=4, epoch=2, base_sequence=0))
    log = client.sim.broker.topics.partition("t", 0).log
    data = log.read(0, 1 << 20, end_offset=2, min_one_batch=True).read()
    ((_, header),) = iter_batches(data)
    assert header.codec_id == ["uncompressed", "gzip", "snappy", "lz4", "zstd"].index(codec)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4, 2, 0)
    assert [(one.offset, one.timestamp, one.key, one.value) for one in stored(client)] == [
        (0, NOW_MS, b"k", b"a" * 500),
        (1, NOW_MS + 1, b"k", b"b" * 500),
    ]


@for_each("version", range(3, 14))
def test_clients_do_not_write_to_internal_topics(version: int) -> None:
    client = SimulatedClient({"offsets.topic.num.partitions": 1})
    client.sim.result(client.sim.broker.topics.create_on_demand("__consumer_offsets"))
    assert (
        client.produce("__consumer_offsets", batch(b"a"), version=version).error_code
        == ErrorCode.INVALID_TOPIC_EXCEPTION
    )


# --- producers


def test_a_repeated_batch_is_answered_like_the_first_and_appended_once(client: SimulatedClient) -> None:
    first = batch(b"a", b"b", producer_id=9, epoch=0, base_sequence=0)
    for time_ms in (-1, NOW_MS + 1):  # Kafka answers a repetition with the time of the batch
        partition_response = client.produce("t", first)
        assert (partition_response.error_code, partition_response.base_offset) == (0, 0)
        assert partition_response.log_append_time_ms == time_ms
    assert values(client) == [b"a", b"b"]


def test_a_gap_in_the_sequence_and_an_old_epoch_are_refused(client: SimulatedClient) -> None:
    client.produce("t", batch(b"a", producer_id=9, epoch=1, base_sequence=0))
    gap = client.produce("t", batch(b"b", producer_id=9, epoch=1, base_sequence=5))
    assert (gap.error_code, gap.base_offset, gap.log_start_offset) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1, 0)
    old = client.produce("t", batch(b"c", producer_id=9, epoch=0, base_sequence=0))
    assert old.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert values(client) == [b"a"]


@settings(max_examples=examples(60), deadline=None)
@given(data=st.binary(max_size=200), version=st.integers(0, 13))
def test_any_bytes_are_answered(data: bytes, version: int) -> None:
    partition_response = ANY.produce("t", data, version=version)
    assert partition_response.error_code != ErrorCode.UNKNOWN_SERVER_ERROR
    assert (partition_response.error_code == 0) == (partition_response.base_offset >= 0)


ANY = SimulatedClient()
ANY.sim.topic("t")


@settings(max_examples=examples(60), deadline=None)
@given(cut=st.integers(0, 200), flip=st.integers(0, 200), version=st.integers(0, 13), magic=st.sampled_from([0, 1, 2]))
def test_damaged_batches_are_answered(cut: int, flip: int, version: int, magic: int) -> None:
    whole = bytearray(batch(b"a", b"b") if magic == 2 else old_set(magic, b"a", b"b", codec_id=1))
    whole[flip % len(whole)] ^= 0xFF
    partition_response = ANY.produce("t", bytes(whole[: len(whole) - cut % len(whole)]), version=version)
    assert partition_response.error_code != ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_request_of_nothing_is_answered_with_nothing(client: SimulatedClient) -> None:
    assert client.ask(ProduceRequest(acks=-1, topic_data=[]), 9).responses == []
    assert (
        client.ask(ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="t")]), 9).responses[0].partition_responses
        == []
    )


def test_the_handler_costs_little_beside_the_append(client: SimulatedClient) -> None:
    """A guard against work that creeps into the hot path: counted in calls, so that the machine's
    load does not matter.
    """
    served = handler_table.lookup(0, 9)
    call = RequestContext(client.sim.broker, 9)
    requests = [produce_request(client, "t", None, acks=1) for _ in range(2)]
    for request in requests:
        request.topic_data[0].partition_data[0].records = memoryview(bytearray(batch(b"a")))
    served.handle(requests[0], call)
    calls: list[str] = []

    def profile(frame: Any, event: str, _: object) -> None:
        if event == "call":
            calls.append(frame.f_code.co_qualname)

    sys.setprofile(profile)
    try:
        served.handle(requests[1], call)
    finally:
        sys.setprofile(None)
    assert len(calls) <= 40, calls
