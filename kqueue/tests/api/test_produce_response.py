"""The part of a Produce response for each append; the tests of the handler show the rest."""

from __future__ import annotations

import pytest

from kqueue.api.produce_response import error_response, produce_response, produce_response_in_slices
from kqueue.api.request_context import RequestContext
from kqueue.base.errors import AnswerNotExpected, InvalidRequest, RequestTimedOut
from kqueue.base.sliced_task import run_to_end
from kqueue.broker.produce.delayed_produce import ACKS_LEADER, ACKS_NONE, DelayedProduce
from kqueue.broker.produce.partition_append import PartitionAppend
from kqueue.replication.registrations import PartitionRegistration
from kqueue.tests.api.cluster_client import OUTSIDE, ClusterClient
from kqueue.tests.api.harness import NOW_MS, SimulatedClient, batch
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

LED_HERE = PartitionRegistration((1, 2), (1, 2), 1)
LED_BY_2 = PartitionRegistration((1, 2), (1, 2), 2, leader_epoch=4)


def appended(client: SimulatedClient, topic: str, *records: bytes) -> DelayedProduce:
    """Append each to the partition of its place, with acks=1."""
    appends = [PartitionAppend(index, memoryview(bytearray(each))) for index, each in enumerate(records)]
    topics = client.sim.broker.topics
    produce = DelayedProduce(client.sim.broker.produce, ACKS_LEADER, 12, [(topic, appends)], topics.get)
    produce.append()
    return produce


def context_of(client: SimulatedClient, version: int) -> RequestContext:
    return RequestContext(client.sim.broker, version, listener=OUTSIDE)


def test_appended_and_refused_records_are_answered_side_by_side_with_their_log_start() -> None:
    client = SimulatedClient()
    topic = client.sim.topic("t", 2, cleanup_policy="compact", message_timestamp_type="LogAppendTime")
    for partition in topic.partitions:
        client.produce("t", batch(b"a", b"b", b"c"), partition=partition.index)
        partition.log.advance_start(2)
    produce = appended(client, "t", batch(b"d"), batch(b"e", b"f", key=None))
    produce.throttle_ms = 70
    response = produce_response(context_of(client, 12), produce)
    (data,) = response.responses
    good, bad = data.partition_responses
    assert (response.throttle_time_ms, data.name) == (70, "t")
    assert (good.index, good.error_code, good.base_offset) == (0, 0, 3)
    assert (good.log_append_time_ms, good.log_start_offset) == (NOW_MS, 2)
    assert (bad.index, bad.error_code, bad.base_offset) == (1, ErrorCode.INVALID_RECORD, -1)
    assert (bad.log_append_time_ms, bad.log_start_offset) == (-1, 2)
    assert [each.batch_index for each in bad.record_errors] == [0, 1]
    assert run_to_end(produce_response_in_slices(context_of(client, 12), produce)) == response


@for_each("version, hosts", [(9, []), (10, ["out2"])])
def test_a_moved_leader_is_named_once_from_version_10_on(version: int, hosts: list[str]) -> None:
    client = ClusterClient()
    client.topic("t", LED_BY_2, LED_HERE, LED_BY_2)
    produce = appended(client, "t", batch(b"a"), batch(b"b"), batch(b"c"))
    late = produce.topics[0][1][1]
    late.fail(RequestTimedOut("the records were appended, but not flushed in time"))
    response = produce_response(context_of(client, version), produce)
    rows = response.responses[0].partition_responses
    moved = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [row.error_code for row in rows] == [moved, ErrorCode.REQUEST_TIMED_OUT, moved]
    assert [row.base_offset for row in rows] == [-1, 0, -1]
    assert [row.current_leader.leader_id for row in rows] == ([2, -1, 2] if hosts else [-1, -1, -1])
    assert [node.host for node in response.node_endpoints] == hosts


def test_an_error_of_the_whole_request_is_that_of_each_partition_unless_nobody_reads_it() -> None:
    partitions = [PartitionProduceData(index=5), PartitionProduceData(index=7)]
    request = ProduceRequest(acks=ACKS_LEADER, topic_data=[TopicProduceData(name="t", partition_data=partitions)])
    error = InvalidRequest("too much of it")
    (data,) = error_response(request, 9, error).responses
    rows = [(row.index, row.error_code, row.base_offset, row.error_message) for row in data.partition_responses]
    assert data.name == "t"
    assert rows == [(index, ErrorCode.INVALID_REQUEST, -1, "too much of it") for index in (5, 7)]
    request.acks = ACKS_NONE
    with pytest.raises(AnswerNotExpected, match="too much of it"):
        error_response(request, 9, error)
