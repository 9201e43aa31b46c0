from __future__ import annotations

from kqueue.client import AbortMarker, ProducerState, TopicPartition
from kqueue.client.calls.producers import AbortTransactions, DescribeProducers
from kqueue.client.deadline import Deadline
from kqueue.client.metadata import MetadataCache
from kqueue.wire.messages import describe_producers, write_txn_markers

ZERO, ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def test_each_partition_has_its_producers() -> None:
    call = DescribeProducers()
    request = call.request(0, {ZERO: None, ONE: None}, MetadataCache(), Deadline(1_000))
    assert [(topic.name, topic.partition_indexes) for topic in request.topics] == [("t", [0, 1])]
    active = [
        describe_producers.ProducerState(
            producer_id=7, producer_epoch=1, last_sequence=4, last_timestamp=99, current_txn_start_offset=12
        ),
        describe_producers.ProducerState(producer_id=8, producer_epoch=0),
    ]
    partitions = [
        describe_producers.PartitionResponse(partition_index=0, active_producers=active),
        describe_producers.PartitionResponse(partition_index=1, error_code=6, error_message="moved"),
    ]
    topic = describe_producers.TopicResponse(name="t", partitions=partitions)
    response = describe_producers.DescribeProducersResponse(topics=[topic])
    producers = list(call.results(0, response, {ZERO: None, ONE: None}, MetadataCache()))
    assert [(result.topic_partition, result.code, result.message) for result in producers] == [
        (ZERO, 0, None),
        (ONE, 6, "moved"),
    ]
    assert producers[0].value == [ProducerState(7, 1, 4, 99, 0, 12), ProducerState(8, 0, -1, -1, 0, None)]


def test_equal_markers_are_sent_once() -> None:
    call = AbortTransactions()
    same, different = AbortMarker(7, 1, 3), AbortMarker(8, 0, 0)
    requested = {ZERO: same, OTHER: different, ONE: same}
    request = call.request(1, requested, MetadataCache(), Deadline(1_000))
    assert [
        (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, marker.transaction_result)
        for marker in request.markers
    ] == [(7, 1, 3, False), (8, 0, 0, False)]
    assert [(topic.name, topic.partition_indexes) for topic in request.markers[0].topics] == [("t", [0, 1])]
    result = write_txn_markers.WritableTxnMarkerPartitionResult(partition_index=0, error_code=47)
    topic = write_txn_markers.WritableTxnMarkerTopicResult(name="u", partitions=[result])
    response = write_txn_markers.WriteTxnMarkersResponse(
        markers=[write_txn_markers.WritableTxnMarkerResult(producer_id=8, topics=[topic])]
    )
    assert [tuple(outcome) for outcome in call.results(1, response, requested, MetadataCache())] == [
        (OTHER, 47, None, None)
    ]
