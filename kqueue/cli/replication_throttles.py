"""Throttles of a reassignment (KIP-73), set and removed as kafka-reassign-partitions does.

The replicas that a partition has now send, and those that it gets receive, no more than so many
bytes per second and broker. The settings of topics name the replicas, those of brokers the bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kqueue.replication.config import FOLLOWER_SIDE, LEADER_SIDE, ThrottledSide

if TYPE_CHECKING:
    from kqueue.client import Client, ConfigChange, TopicPartition

SIDES = (LEADER_SIDE, FOLLOWER_SIDE)


def set_throttles(
    client: Client,
    moves: Mapping[TopicPartition, tuple[Sequence[int], Sequence[int]]],
    bytes_per_second: int,
) -> None:
    """Limit what moves copy.

    Args: moves: the replicas that a partition has, and those that it is to have.
    """
    from kqueue.client import ResourceType

    named: dict[str, dict[ThrottledSide, list[str]]] = {}
    brokers: set[int] = set()
    for partition, (before, after) in sorted(moves.items()):
        sides = named.setdefault(partition.topic, {LEADER_SIDE: [], FOLLOWER_SIDE: []})
        sides[LEADER_SIDE] += [f"{partition.partition}:{node}" for node in before]
        sides[FOLLOWER_SIDE] += [f"{partition.partition}:{node}" for node in after if node not in before]
        brokers.update(before, after)
    for topic, sides in named.items():
        changes = [_change(side.replicas, ",".join(replicas)) for side, replicas in sides.items() if replicas]
        client.alter_configs(ResourceType.TOPIC, topic, changes)
    rates = [_change(side.rate, str(bytes_per_second)) for side in SIDES]
    for node in sorted(brokers & _serving(client)):
        client.alter_configs(ResourceType.BROKER, str(node), rates)


def clear_throttles(client: Client, topics: Iterable[str]) -> list[str]:
    """Remove the throttles of these topics, and of all brokers that serve. Returns lines that say
    so.
    """
    from kqueue.client import ResourceType

    brokers, names = sorted(_serving(client)), sorted(set(topics))
    for node in brokers:
        client.alter_configs(ResourceType.BROKER, str(node), [_change(side.rate, None) for side in SIDES])
    for name in names:
        client.alter_configs(ResourceType.TOPIC, name, [_change(side.replicas, None) for side in SIDES])
    return [
        f"Clearing broker-level throttles on broker{_s(brokers)} {','.join(map(str, brokers))}",
        f"Clearing topic-level throttles on topic{_s(names)} {','.join(names)}",
    ]


def _serving(client: Client) -> set[int]:
    cluster = client.cluster.describe()
    return {node for node in cluster.brokers if node not in cluster.fenced}


def _change(name: str, value: str | None) -> ConfigChange:
    from kqueue.client import ConfigChange, ConfigOperation

    return ConfigChange(ConfigOperation.DELETE if value is None else ConfigOperation.SET, name, value)


def _s(items: Sequence[object]) -> str:
    return "" if len(items) == 1 else "s"
