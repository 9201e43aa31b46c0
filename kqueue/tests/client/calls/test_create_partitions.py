from __future__ import annotations

import pytest

from kqueue.client.calls.create_partitions import CreatePartitions
from kqueue.client.deadline import Deadline
from kqueue.client.errors import BadAnswer, BrokerRefused
from kqueue.wire.messages.create_partitions import CreatePartitionsResponse, CreatePartitionsTopicResult

CALL = CreatePartitions("t", 6, Deadline(1_000))


def result(*rows: CreatePartitionsTopicResult) -> None:
    CALL.result(3, CreatePartitionsResponse(results=list(rows)), "b:1")


def test_the_request_leaves_the_replicas_to_the_cluster() -> None:
    [topic] = CALL.request(3).topics
    assert (topic.name, topic.count, topic.assignments) == ("t", 6, None)


def test_a_refusal_is_raised_with_the_brokers_sentence() -> None:
    result(CreatePartitionsTopicResult(name="t"))
    with pytest.raises(BrokerRefused, match="topic 't': INVALID_PARTITIONS \\(too few"):
        result(CreatePartitionsTopicResult(name="t", error_code=37, error_message="too few"))


def test_an_answer_about_another_topic_is_refused() -> None:
    with pytest.raises(BadAnswer, match="is not about topic 't'"):
        result(CreatePartitionsTopicResult(name="u"))
    with pytest.raises(BadAnswer):
        result()
