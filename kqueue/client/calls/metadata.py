"""Metadata: brokers, topics and leaders."""

from __future__ import annotations

from collections.abc import Sequence

from kqueue.client.metadata import BrokerEndpoint, ClusterMetadata, PartitionMetadata, TopicMetadata
from kqueue.client.retry_policy import response_error
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic


class GetMetadata:
    """A Metadata request that never creates a topic.

    `names`: topics; None: all topics; empty: brokers only.
    """

    api = BY_MODULE["metadata"]
    versions = (4, 13)  # before 4 a topic that is asked for may be created
    repeatable = True

    def __init__(self, names: Sequence[str] | None) -> None:
        self.names = names

    def request(self, version: int) -> MetadataRequest:
        topics = None if self.names is None else [MetadataRequestTopic(name=name) for name in self.names]
        return MetadataRequest(topics=topics, allow_auto_topic_creation=False)

    def result(self, version: int, response: MetadataResponse, broker: str) -> ClusterMetadata:
        if response.error_code:
            raise response_error(response.error_code, self.api.name, broker)
        return ClusterMetadata(
            brokers={
                broker_row.node_id: BrokerEndpoint(
                    broker_row.node_id, broker_row.host, broker_row.port, broker_row.rack
                )
                for broker_row in response.brokers
            },
            topics={topic.name or "": _topic(topic) for topic in response.topics if not topic.error_code},
            cluster_id=response.cluster_id,
            controller=response.controller_id,
            failed={topic.name or "": topic.error_code for topic in response.topics if topic.error_code},
        )


def _topic(topic: MetadataResponseTopic) -> TopicMetadata:
    partitions = {
        partition.partition_index: PartitionMetadata(
            partition.leader_id,
            partition.leader_epoch,
            tuple(partition.replica_nodes),
            tuple(partition.isr_nodes),
            tuple(partition.offline_replicas),
        )
        for partition in sorted(topic.partitions, key=lambda partition: partition.partition_index)
    }
    return TopicMetadata(topic.name or "", topic.topic_id, partitions, topic.is_internal)
