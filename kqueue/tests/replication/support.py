"""Registrations for the tests of replication."""

from __future__ import annotations

from kqueue.replication.registrations import BrokerRegistration, ClusterImage, PartitionRegistration, TopicRegistration


def broker(node: int, epoch: int = 1, *, fenced: bool = False, **fields: object) -> BrokerRegistration:
    return BrokerRegistration(node, epoch, f"process {node}.{epoch}", {}, fenced=fenced, **fields)


def brokers(*nodes: int) -> dict[int, BrokerRegistration]:
    return {node: broker(node) for node in nodes}


def topic(*partitions: PartitionRegistration, **configs: str) -> TopicRegistration:
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    return TopicRegistration(b"0123456789abcdef", settings, partitions)


def image(registered: dict[int, BrokerRegistration], **topics: TopicRegistration) -> ClusterImage:
    return ClusterImage(registered, topics)
