from __future__ import annotations

import pytest

import kqueue
from kqueue.client import Client, ElectionType, TopicPartition
from kqueue.client.errors import BrokerRefused


def test_a_single_broker_answers_the_calls_of_a_cluster() -> None:
    with kqueue.Broker(node_id=7) as broker, Client(broker.bootstrap) as client:
        broker.create_topic("t", 2)
        one, two = TopicPartition("t", 0), TopicPartition("t", 1)
        described = client.describe_cluster()
        assert (described.controller, list(described.brokers), described.fenced) == (7, [7], frozenset())
        assert client.elect_leaders() == {}
        outcomes = client.elect_leaders([one, two], election_type=ElectionType.UNCLEAN)
        assert {partition: refusal.code for partition, refusal in outcomes.items()} == {one: 84, two: 84}
        assert {partition: refusal.code for partition, refusal in client.reassign({one: [7], two: [8]}).items()} == {
            two: 39
        }
        assert client.reassign({one: None})[one].code == 85
        assert client.reassignments() == client.reassignments([one]) == {}
        with pytest.raises(BrokerRefused, match="BROKER_ID_NOT_REGISTERED"):
            client.unregister_broker(3)
