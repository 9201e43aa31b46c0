from __future__ import annotations

import pytest

from kqueue.client.calls.elect_leaders import ElectionType, ElectLeaders
from kqueue.client.deadline import Deadline
from kqueue.client.errors import BrokerRefused
from kqueue.client.topic_partition import TopicPartition
from kqueue.wire.messages.elect_leaders import ElectLeadersResponse, PartitionResult, ReplicaElectionResult


def test_partitions_are_named_once_and_none_is_all() -> None:
    parts = [TopicPartition("t", 1), TopicPartition("u", 0), TopicPartition("t", 1)]
    rows = ElectLeaders(ElectionType.PREFERRED, parts, Deadline(1_000)).request(2).topic_partitions
    assert rows is not None
    assert [(row.topic, row.partitions) for row in rows] == [("t", [1]), ("u", [0])]
    assert ElectLeaders(ElectionType.UNCLEAN, None, Deadline(1_000)).request(2).topic_partitions is None


def test_unclean_elections_need_a_version_that_can_say_so() -> None:
    call = ElectLeaders(ElectionType.UNCLEAN, None, Deadline(1_000))
    assert (call.versions, call.request(1).election_type) == ((1, 2), 1)
    assert ElectLeaders(ElectionType.PREFERRED, None, Deadline(1_000)).versions == (0, 2)


def test_outcomes_are_returned_and_an_error_of_all_is_raised() -> None:
    call = ElectLeaders(ElectionType.PREFERRED, None, Deadline(1_000))
    rows = [PartitionResult(partition_id=0), PartitionResult(partition_id=1, error_code=84, error_message="leads")]
    response = ElectLeadersResponse(replica_election_results=[ReplicaElectionResult(topic="t", partition_result=rows)])
    assert call.result(2, response, "b:1") == {("t", 0): (0, ""), ("t", 1): (84, "leads")}
    with pytest.raises(BrokerRefused, match="NOT_CONTROLLER"):
        call.result(2, ElectLeadersResponse(error_code=41), "b:1")
