"""The cluster's topics as the group coordinator knows them."""

from __future__ import annotations

from kqueue.broker.topics import Topic, Topics
from kqueue.groups.modern.topics import TopicMetadata


class GroupTopics:
    """A `TopicsMetadata` on the topics of a broker.

    Attributes:
        version: raised by `note_change`.
    """

    def __init__(self, topics: Topics, rack: str | None) -> None:
        self.version = 0
        self._topics = topics
        self._rack = rack

    def note_change(self) -> None:
        """Record that a topic was created, deleted, or has more partitions."""
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
        count = len(topic.partitions)
        racks = () if self._rack is None else ((self._rack,),) * count
        return TopicMetadata(topic.id, topic.name, count, racks)
