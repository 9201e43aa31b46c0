from __future__ import annotations

import pickle

from kqueue.client import TopicPartition
from kqueue.client.errors import BrokerRefused, ClientError, ConnectionLost


def test_an_error_can_be_pickled_with_what_failed_and_without_results() -> None:
    error = BrokerRefused("a:1: Fetch of t-0", broker="a:1", api="Fetch", topic="t", partition=0)
    error.code, error.code_name = 6, "NOT_LEADER_OR_FOLLOWER"
    error.failed = {TopicPartition("t", 0): ConnectionLost("a:1: lost")}
    error.done = {TopicPartition("t", 1): memoryview(b"")}
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, BrokerRefused)
    assert (str(copy), copy.broker, copy.api, copy.topic, copy.partition) == (str(error), "a:1", "Fetch", "t", 0)
    assert (copy.code, copy.code_name, copy.done) == (6, "NOT_LEADER_OR_FOLLOWER", {})
    assert [str(one) for one in copy.failed.values()] == ["a:1: lost"]


def test_an_error_of_no_broker_names_none() -> None:
    error = ClientError("no broker responds")
    assert (error.broker, error.api, error.topic, error.partition) == ("", "", None, None)
