from __future__ import annotations

from kqueue.client import BrokerEndpoint, ClusterMetadata, PartitionMetadata, TopicMetadata, TopicPartition
from kqueue.client.metadata import MetadataCache

NODES = {1: BrokerEndpoint(1, "a", 1), 2: BrokerEndpoint(2, "b", 2)}
PLACE = TopicPartition("t", 0)
ONE, OTHER, NONE = b"1" * 16, b"2" * 16, bytes(16)


def metadata_of(leader: int, epoch: int, id: bytes = ONE, name: str = "t") -> ClusterMetadata:
    return ClusterMetadata(NODES, {name: TopicMetadata(name, id, {0: PartitionMetadata(leader, epoch)})}, controller=2)


def test_leaders_are_known_by_their_nodes() -> None:
    cluster = MetadataCache()
    assert cluster.unknown(["t", "u", "t"]) == ["t", "u"]
    cluster.update(metadata_of(1, 5), ["t"])
    assert cluster.leader(PLACE) == NODES[1]
    assert (cluster.leader_epoch(PLACE), cluster.topic_id("t"), cluster.controller) == (5, ONE, 2)
    assert cluster.unknown(["t", "u"]) == ["u"]
    assert cluster.leader(TopicPartition("t", 1)) is None
    assert (cluster.leader(TopicPartition("u", 0)), cluster.topic_id("u")) == (None, NONE)
    assert cluster.have_ids(["t"])
    assert not cluster.have_ids(["t", "u"])


def test_invalidated_topic_is_used_until_it_is_refreshed() -> None:
    cluster = MetadataCache()
    cluster.update(metadata_of(1, 5), ["t"])
    cluster.invalidate("t")
    assert cluster.unknown(["t"]) == ["t"]
    assert cluster.leader(PLACE) == NODES[1]
    cluster.update(metadata_of(2, 6), ["t"])
    assert (cluster.unknown(["t"]), cluster.leader(PLACE)) == ([], NODES[2])


def test_a_leader_epoch_does_not_go_back_in_the_same_topic() -> None:
    """Source: KIP-320: a broker that has not heard of the election yet."""
    cluster = MetadataCache()
    cluster.update(metadata_of(2, 6), ["t"])
    cluster.update(metadata_of(1, 5), ["t"])
    assert (cluster.leader(PLACE), cluster.leader_epoch(PLACE)) == (NODES[2], 6)
    cluster.update(metadata_of(1, 6), ["t"])
    assert cluster.leader(PLACE) == NODES[1]


def test_another_topic_of_the_same_name_begins_anew() -> None:
    cluster = MetadataCache()
    cluster.update(metadata_of(2, 6), ["t"])
    cluster.update(metadata_of(1, 0, OTHER), ["t"])
    assert (cluster.leader(PLACE), cluster.leader_epoch(PLACE)) == (NODES[1], 0)
    cluster.update(metadata_of(2, 6, NONE), ["t"])
    cluster.update(metadata_of(1, 0, NONE), ["t"])
    assert (cluster.leader(PLACE), cluster.leader_epoch(PLACE)) == (NODES[1], 0), "without ids nobody can tell"


def test_deleted_topic_is_forgotten() -> None:
    cluster = MetadataCache()
    cluster.update(metadata_of(1, 0), ["t"])
    cluster.update(metadata_of(1, 0, name="u"), ["u"])
    cluster.update(ClusterMetadata(NODES, {}), ["t"])
    assert (cluster.topic("t"), cluster.topic("u") is None) == (None, False)
    cluster.update(ClusterMetadata(NODES, {}), None)
    assert cluster.topic("u") is None


def test_names_match_from_end_to_end() -> None:
    topics = {name: TopicMetadata(name, ONE, {}, name.startswith("__")) for name in ("b", "ab", "a", "__a")}
    metadata = ClusterMetadata(NODES, topics)
    assert metadata.matching("a|b") == ["a", "b"]
    assert metadata.matching("__a|a") == ["a"]
    assert metadata.matching("__a|a", internal=True) == ["__a", "a"]
