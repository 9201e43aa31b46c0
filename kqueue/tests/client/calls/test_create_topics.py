from __future__ import annotations

import pytest

from kqueue.client.calls.create_topics import CreateTopics, NewTopic
from kqueue.client.deadline import Deadline
from kqueue.client.errors import BrokerRefused
from kqueue.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse


def test_numbers_that_are_not_given_are_left_to_the_broker() -> None:
    request = CreateTopics([NewTopic("t", settings={"retention.ms": "-1"})], Deadline(1_000)).request(7)
    (topic,) = request.topics
    assert (topic.num_partitions, topic.replication_factor) == (-1, -1)
    assert [(row.name, row.value) for row in topic.configs] == [("retention.ms", "-1")]
    assert 500 < request.timeout_ms <= 750


def test_the_first_rejected_topic_is_raised() -> None:
    rows = [CreatableTopicResult(name="t"), CreatableTopicResult(name="u", error_code=36, error_message="is there")]
    with pytest.raises(BrokerRefused, match=r"topic 'u': TOPIC_ALREADY_EXISTS \(is there; "):
        CreateTopics([NewTopic("t"), NewTopic("u")], Deadline(1_000)).result(
            7, CreateTopicsResponse(topics=rows), "b:1"
        )
