from __future__ import annotations

from kqueue.cli.replication_throttles import clear_throttles, set_throttles
from kqueue.client import Client, ResourceType, TopicPartition


def values(client: Client, kind: ResourceType, name: str) -> dict[str, str | None]:
    rows = client.configs(kind, [name])[name].values()
    return {row.name: row.value for row in rows if "throttled" in row.name and row.source.startswith("DYNAMIC")}


def test_sources_lead_and_new_replicas_follow(bootstrap: str, topic: str) -> None:
    with Client(bootstrap) as client:
        moves = {TopicPartition(topic, 0): ((1, 3), (3, 4)), TopicPartition(topic, 2): ((1,), (5, 1))}
        set_throttles(client, moves, 7000)
        assert values(client, ResourceType.TOPIC, topic) == {
            "leader.replication.throttled.replicas": "0:1,0:3,2:1",
            "follower.replication.throttled.replicas": "0:4,2:5",
        }
        assert values(client, ResourceType.BROKER, "1") == dict.fromkeys(
            ("leader.replication.throttled.rate", "follower.replication.throttled.rate"), "7000"
        )
        assert clear_throttles(client, [topic]) == [
            "Clearing broker-level throttles on broker 1",
            f"Clearing topic-level throttles on topic {topic}",
        ]
        assert values(client, ResourceType.TOPIC, topic) == values(client, ResourceType.BROKER, "1") == {}
