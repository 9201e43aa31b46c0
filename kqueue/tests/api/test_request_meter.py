from __future__ import annotations

from typing import Any

import pytest

from kqueue.api import handler_table
from kqueue.api.request_context import RequestContext
from kqueue.api.request_meter import RequestMeter, error_codes
from kqueue.api.slices import NO_RESPONSE
from kqueue.base.errors import UnknownTopicOrPartition
from kqueue.base.histogram import BOUNDS_S, Histogram
from kqueue.broker.purgatory import DelayedOperation
from kqueue.tests.tables import for_each
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData, ReplicaState
from kqueue.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from kqueue.wire.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse

CONTEXT: Any = None


class Metered:
    """A meter with a clock of its own, before handlers that return what they are told."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.meter = RequestMeter(lambda: self.now_s)

    def handle(self, name: str, result: Any, *, request: Any = None, seconds: float = 0.0) -> Any:
        def handle(request: Any, context: RequestContext) -> Any:
            self.now_s += seconds
            if isinstance(result, Exception):
                raise result
            return result

        return self.meter.measured(handler_table.load(name), handle)(request, CONTEXT)

    def counts(self, name: str) -> Any:
        return self.meter.apis[BY_MODULE[name].name]


def produced(*codes: int) -> ProduceResponse:
    partitions = [PartitionProduceResponse(index=index, error_code=code) for index, code in enumerate(codes)]
    return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=partitions)])


def test_requests_and_their_times_are_counted() -> None:
    metered = Metered()
    response = MetadataResponse()
    assert metered.handle("metadata", response, seconds=0.003) is response
    counts = metered.counts("metadata")
    assert (counts.requests, counts.handling.sum_s, sum(counts.waiting.counts)) == (1, pytest.approx(0.003), 0)


def test_bounds_of_a_histogram_are_those_of_prometheus() -> None:
    histogram = Histogram()
    for seconds in (0.0, BOUNDS_S[0], BOUNDS_S[0] * 1.01, BOUNDS_S[-1], 11.0):
        histogram.observe(seconds)
    assert histogram.counts == [2, 1, *[0] * (len(BOUNDS_S) - 3), 1, 1]


@for_each("name", ["produce", "fetch"])
def test_of_produce_and_fetch_each_sixteenth_is_timed_and_all_are_counted(name: str) -> None:
    metered = Metered()
    response = produced(0) if name == "produce" else FetchResponse()
    for _ in range(32):
        metered.handle(name, response, request=FetchRequest(), seconds=0.001)
    counts = metered.counts(name)
    assert (counts.requests, sum(counts.handling.counts)) == (32, 2)


def test_errors_are_counted_for_each_partition() -> None:
    metered = Metered()
    for _ in range(16):  # one of them is timed
        metered.handle("produce", produced(0, 3, 3))
    assert metered.counts("produce").errors == {3: 32}


def test_an_error_that_is_raised_is_counted() -> None:
    metered = Metered()
    for name in ("produce", "fetch", "metadata"):
        with pytest.raises(UnknownTopicOrPartition):
            metered.handle(name, UnknownTopicOrPartition("none"), seconds=0.001)
        assert metered.counts(name).errors == {3: 1}
    assert sum(metered.counts("metadata").handling.counts) == 1


def test_error_codes_at_every_depth_are_found() -> None:
    partitions = [MetadataResponsePartition(error_code=5), MetadataResponsePartition()]
    response = MetadataResponse(topics=[MetadataResponseTopic(error_code=3, partitions=partitions)], error_code=41)
    assert sorted(error_codes(MetadataResponse)(response)) == [3, 5, 41]


def test_no_response_is_counted_as_a_request() -> None:
    metered = Metered()
    for result in (None, NO_RESPONSE):
        assert metered.handle("metadata", result) is result
    assert metered.handle("produce", None, request=ProduceRequest(acks=0)) is None
    assert (metered.counts("metadata").requests, metered.counts("produce").requests) == (2, 1)


def test_the_time_that_a_request_waits_is_counted_until_its_response() -> None:
    metered = Metered()
    answers: list[Any] = [
        None,
        DelayedOperation((), None, lambda expired: answers.pop(0)),
        MetadataResponse(error_code=7),
    ]
    operation = metered.handle("metadata", DelayedOperation((), None, lambda expired: answers.pop(0)), seconds=0.001)
    assert operation.try_complete(False) is None
    metered.now_s += 0.2
    second = operation.try_complete(False)
    assert isinstance(second, DelayedOperation)
    metered.now_s += 0.2
    assert second.try_complete(True).error_code == 7
    counts = metered.counts("metadata")
    assert (sum(counts.waiting.counts), counts.waiting.sum_s) == (1, pytest.approx(0.401))
    assert counts.errors == {7: 1}


def test_a_wait_that_fails_is_counted_once() -> None:
    def fail(expired: bool) -> Any:
        raise UnknownTopicOrPartition("gone")

    metered = Metered()
    operation = metered.handle("metadata", DelayedOperation((), None, fail))
    with pytest.raises(UnknownTopicOrPartition):
        operation.try_complete(False)
    counts = metered.counts("metadata")
    assert (sum(counts.waiting.counts), counts.errors) == (1, {3: 1})


@for_each(
    "request_, sent",
    [
        (FetchRequest(replica_id=-1, replica_state=ReplicaState(replica_id=-1)), 30),
        (FetchRequest(replica_id=2), 0),
        (FetchRequest(replica_id=-1, replica_state=ReplicaState(replica_id=2)), 0),
    ],
)
def test_bytes_that_consumers_get_are_counted_and_those_of_followers_are_not(request_: FetchRequest, sent: int) -> None:
    metered = Metered()
    partitions = [
        PartitionData(records=memoryview(b"x" * 10)),
        PartitionData(records=memoryview(b"x" * 20)),
        PartitionData(),
    ]
    metered.handle(
        "fetch", FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)]), request=request_
    )
    assert metered.meter.sent_bytes["t"] == sent
