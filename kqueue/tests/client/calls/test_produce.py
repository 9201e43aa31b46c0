from __future__ import annotations

from kqueue.client.calls.produce import Produce, ProduceResult
from kqueue.client.deadline import Deadline
from kqueue.tests.client.calls.caches import ID, T0, cache_of
from kqueue.tests.client.serving import batch
from kqueue.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse


def test_topics_are_named_where_one_of_them_has_no_id() -> None:
    call = Produce(-1)
    assert call.versions(cache_of(ID, b"2" * 16), ["t", "t1"])[1] == call.api.versions[1]
    assert call.versions(cache_of(ID, bytes(16)), ["t", "t1"])[1] == 12


def test_a_batch_that_the_broker_has_long_had_is_there() -> None:
    rows = [
        TopicProduceResponse(name="t", partition_responses=[PartitionProduceResponse(error_code=46, base_offset=-1)])
    ]
    (result,) = Produce(-1).results(9, ProduceResponse(responses=rows), {T0: b""}, cache_of(bytes(16)))
    assert (result.code, result.value) == (0, ProduceResult(-1, -1, -1))


def test_an_id_that_nobody_asked_for_is_shown() -> None:
    rows = [TopicProduceResponse(topic_id=b"?" * 16, partition_responses=[PartitionProduceResponse()])]
    (result,) = Produce(-1).results(13, ProduceResponse(responses=rows), {T0: b""}, cache_of(ID))
    assert result.topic_partition == ("3f" * 16, 0)


def test_a_broker_is_to_wait_less_long_than_we_do() -> None:
    assert Produce(-1).request(12, {T0: batch([b"a"])}, cache_of(ID), Deadline(1_000)).timeout_ms <= 750


def test_only_batches_with_a_producer_may_be_sent_again() -> None:
    call = Produce(-1)
    assert not call.is_repeatable(batch([b"a"]))
    assert call.is_repeatable(batch([b"a"], producer_id=5, epoch=0, base_sequence=0))
