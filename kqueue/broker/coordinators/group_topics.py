"""The cluster's topics as the group coordinator knows them."""

from __future__ import annotations

from kqueue.broker.metadata.brokers import Cluster
from kqueue.broker.topics.topics import Topic, Topics
from kqueue.groups.modern.topics import TopicMetadata


class GroupTopics:
    """A `TopicsMetadata` on the topics of a broker, with the racks of their replicas (KIP-881).

    Attributes:
        version: raised by `note_change`.
    """

    def __init__(self, topics: Topics, cluster: Cluster) -> None:
        self.version = 0
        self._topics = topics
        self._cluster = cluster

    def note_change(self) -> None:
        """Record that a topic was created, deleted, has more partitions, or is moved; or that a
        broker registered.
        """
        self.version += 1

    def find(self, name: str) -> TopicMetadata | None:
        """Return a topic; None: there is none of this name."""
        topic = self._topics.find(name)
        return None if topic is None else self._metadata(topic)

    def name_of(self, id: bytes) -> str | None:
        """Return the name of a topic; None: there is none of this id."""
        topic = self._topics.find_by_id(id)
        return None if topic is None else topic.name

    def names(self) -> list[str]:
        """Return the names of all topics."""
        return self._topics.names()

    def _metadata(self, topic: Topic) -> TopicMetadata:
        by_node = {broker.id: broker.rack for broker in self._cluster.all()}
        racks: tuple[tuple[str, ...], ...] = ()
        if any(by_node.values()):
            racks = tuple(
                tuple(sorted({rack for node in partition.replicas if (rack := by_node.get(node)) is not None}))
                for partition in topic.partitions
            )
        return TopicMetadata(topic.id, topic.name, len(topic.partitions), racks)
