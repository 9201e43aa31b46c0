from __future__ import annotations

import pytest

from kqueue.api.handlers.write_txn_markers import TIMEOUT_MS
from kqueue.records.batch import read_header
from kqueue.tests.api.harness import ErrorCode, SimulatedClient, batch, versions_of
from kqueue.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

VERSIONS = list(versions_of("write_txn_markers"))


def marker(*indexes: int, producer_id: int = 7, epoch: int = 0, commit: bool = False) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=commit,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=list(indexes))],
        coordinator_epoch=1,
    )


def request(*markers: WritableTxnMarker) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(markers=list(markers))


def codes(response: WriteTxnMarkersResponse) -> dict[int, dict[tuple[str, int], int]]:
    return {
        one.producer_id: {
            (topic.name, partition.partition_index): partition.error_code
            for topic in one.topics
            for partition in topic.partitions
        }
        for one in response.markers
    }


@pytest.fixture
def client() -> SimulatedClient:
    client = SimulatedClient({"kqueue.storage": "local"})
    client.sim.topic("t", 3)
    for index in range(2):
        raw = memoryview(bytearray(batch(b"a", transactional=True, producer_id=7, epoch=0, base_sequence=0)))
        client.sim.broker.topics.partition("t", index).append(raw, read_header(raw))
    client.sim.settle()
    return client


@pytest.mark.parametrize("version", VERSIONS)
def test_a_hanging_transaction_is_aborted(client: SimulatedClient, version: int) -> None:
    partition = client.sim.broker.topics.partition("t", 0)
    assert (partition.last_stable_offset, partition.high_watermark) == (0, 1)
    response = client.ask(request(marker(0)), version)
    assert codes(response) == {7: {("t", 0): 0}}
    assert (partition.last_stable_offset, partition.high_watermark) == (2, 2)
    assert [one.producer_id for one in partition.log.reader.aborted(0, 2)] == [7]


@pytest.mark.parametrize("version", VERSIONS)
def test_each_partition_is_answered_in_one_entry_per_producer(client: SimulatedClient, version: int) -> None:
    response = client.ask(
        request(marker(0, 9), marker(0, producer_id=8), marker(1, 1, 2, epoch=3), marker(1, epoch=2), marker()), version
    )
    unknown, old = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_PRODUCER_EPOCH
    assert [one.producer_id for one in response.markers] == [7, 8]
    (topic,) = response.markers[0].topics
    assert [(one.partition_index, one.error_code) for one in topic.partitions] == [
        (9, unknown), (0, 0), (2, 0), (1, 0), (1, old),
    ]  # fmt: skip
    assert client.ask(request(), version).markers == []


@pytest.mark.parametrize("version", VERSIONS)
def test_marker_without_producer_id_or_epoch_is_refused(client: SimulatedClient, version: int) -> None:
    response = client.ask(request(marker(0, producer_id=-1)), version)
    assert codes(response) == {-1: {("t", 0): ErrorCode.INVALID_REQUEST}}
    response = client.ask(request(marker(0, epoch=-1)), version)
    assert codes(response) == {7: {("t", 0): ErrorCode.INVALID_REQUEST}}
    assert client.sim.broker.topics.partition("t", 0).log_end_offset == 1


def test_a_marker_that_is_not_committed_in_time_is_reported_late(client: SimulatedClient) -> None:
    started = client.start(request(marker(0)), 1)
    client.sim.broker.scheduler.purgatory.run_ready()  # without the flush
    client.sim.clock.advance(TIMEOUT_MS)
    assert started.response is None
    client.sim.broker.scheduler.timers.run_due(client.sim.clock.monotonic_ms())
    assert codes(started.response) == {7: {("t", 0): ErrorCode.REQUEST_TIMED_OUT}}


def test_an_unexpected_error_is_that_of_every_partition(client: SimulatedClient) -> None:
    from kqueue.api.handlers import write_txn_markers

    response = write_txn_markers.error_response(request(marker(0, 1)), 1, RuntimeError())
    assert codes(response) == {7: dict.fromkeys([("t", 0), ("t", 1)], ErrorCode.UNKNOWN_SERVER_ERROR)}
