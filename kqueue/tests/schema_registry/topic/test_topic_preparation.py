from __future__ import annotations

import logging

import pytest

from kqueue import Broker
from kqueue.client import ClientOptions
from kqueue.client.errors import BrokerUnreachable, DeadlinePassed
from kqueue.schema_registry.schema_log import StoreUnavailable
from kqueue.schema_registry.topic.topic_preparation import prepare_topic
from kqueue.testing import faults


def test_a_missing_topic_is_created_compacted_with_one_partition(
    broker: Broker, options: ClientOptions, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "kqueue.schema_registry"):
        metadata = prepare_topic(options, "_new")
    assert list(metadata.topics["_new"].partitions) == [0]
    assert metadata.cluster_id
    assert broker.topics["_new"].config["cleanup.policy"] == ["compact"]
    assert "created topic _new with replication factor 1" in caplog.text


def test_an_existing_topic_stays(broker: Broker, options: ClientOptions, topic: str) -> None:
    broker.topics[topic].produce(b"value", key=b"key")
    prepare_topic(options, topic)
    assert broker.topics[topic].end_offsets == {0: 1}


def test_a_topic_with_several_partitions_is_refused(broker: Broker, options: ClientOptions) -> None:
    broker.create_topic("_many", 3, cleanup_policy="compact")
    with pytest.raises(StoreUnavailable, match="topic '_many' has 3 partitions; .* expected 1"):
        prepare_topic(options, "_many")


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_topic_that_deletes_records_is_refused(broker: Broker, options: ClientOptions, policy: str) -> None:
    name = f"_{policy.replace(',', '-')}"
    broker.create_topic(name, 1, cleanup_policy=policy)
    with pytest.raises(StoreUnavailable, match=f"cleanup.policy={policy}, .* expected compact: kqueue configs alter"):
        prepare_topic(options, name)


def test_a_topic_that_another_registry_creates_meanwhile_is_taken(broker: Broker, options: ClientOptions) -> None:
    broker.create_topic("_raced", 1, cleanup_policy="compact")
    with faults(broker) as faulty:
        faulty.fail("Metadata", "UNKNOWN_TOPIC_OR_PARTITION", topic="_raced", times=2)
        assert list(prepare_topic(options, "_raced").topics) == ["_raced"]


def test_without_a_broker_it_says_so() -> None:
    options = ClientOptions(bootstrap="127.0.0.1:1", timeout_ms=50)
    with pytest.raises((BrokerUnreachable, DeadlinePassed), match="127.0.0.1:1"):
        prepare_topic(options, "_schemas")
