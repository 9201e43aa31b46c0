from __future__ import annotations

from kqueue.broker.metadata.features import TRANSACTION_VERSION, FeatureUpdate, UpgradeType
from kqueue.broker.topics.topics import OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC
from kqueue.testing.simulation import Simulation
from kqueue.tests.tables import for_each


@for_each("as_version, level, expected", [(None, 2, 2), (None, 1, 1), ("3.9", 2, 0)])
def test_transactions_are_at_the_level_of_the_feature_and_of_the_kafka_served_as(
    as_version: str | None, level: int, expected: int
) -> None:
    sim = Simulation({} if as_version is None else {"kqueue.as.version": as_version})
    features = sim.broker.metadata.features
    if features.level(TRANSACTION_VERSION) != level:
        sim.result(features.update([FeatureUpdate(TRANSACTION_VERSION, level, UpgradeType.UNSAFE_DOWNGRADE)]))
    assert sim.broker.coordinators._transaction_version() == expected


def test_groups_see_each_topic_that_comes_grows_or_goes() -> None:
    sim = Simulation()
    topics = sim.broker.coordinators._group_topics
    versions = [topics.version]
    sim.topic("t")
    versions.append(topics.version)
    sim.result(sim.broker.topics.add_partitions("t", 2))
    versions.append(topics.version)
    sim.result(sim.broker.topics.delete("t"))
    versions.append(topics.version)
    assert versions == sorted(set(versions))
    assert topics.find("t") is None


def test_share_groups_are_loaded_with_the_others() -> None:
    loaded = [row.topic for row in Simulation().broker.coordinators._loaded]
    assert loaded == [OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_TOPIC]
