from __future__ import annotations

import pytest

from kqueue.client.calls.delete_topics import DeleteTopics
from kqueue.client.deadline import Deadline
from kqueue.client.errors import BrokerRefused
from kqueue.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse


def test_topics_are_named_in_the_form_of_the_version() -> None:
    call = DeleteTopics(["t"], Deadline(1_000))
    assert [topic.name for topic in call.request(6).topics] == ["t"]
    assert call.request(5).topic_names == ["t"]


def test_the_first_rejected_topic_is_raised() -> None:
    rows = [DeletableTopicResult(name="t", error_code=3)]
    with pytest.raises(BrokerRefused, match="topic 't': UNKNOWN_TOPIC_OR_PARTITION"):
        DeleteTopics(["t"], Deadline(1_000)).result(6, DeleteTopicsResponse(responses=rows), "b:1")
