"""The part of `kqueue.Cluster` that shows records, as consumers read them: from each leader."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from kqueue.base.errors import UnknownTopicOrPartition
from kqueue.embedded.inspection.broker_calls import NoSuchName
from kqueue.embedded.inspection.mixin import ProducedAssertions

if TYPE_CHECKING:
    from kqueue.embedded.cluster_broker import ClusterBroker
    from kqueue.embedded.inspection.records import Record
    from kqueue.embedded.inspection.topics import Topic


class LedTopic:
    """One topic, each partition of which is read from its leader."""

    def __init__(self, name: str, leaders: list[Topic]) -> None:
        self.name = name
        self._leaders = leaders

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return len(self._leaders)

    @property
    def end_offsets(self) -> dict[int, int]:
        """See `Topic.end_offsets`."""
        return {index: topic.end_offsets[index] for index, topic in enumerate(self._leaders)}

    def records(self, partition: int | None = None, *, read_committed: bool = True) -> list[Record]:
        """See `Topic.records`."""
        own = range(len(self._leaders)) if partition is None else (partition,)
        return [
            record for index in own for record in self._leaders[index].records(index, read_committed=read_committed)
        ]


class ClusterRecordsMixin(ProducedAssertions):
    """Asserts which records the topics of a cluster have.

    Thread: every method may be called from any thread but the brokers' own.
    """

    _NAME = "cluster"
    brokers: tuple[ClusterBroker, ...]

    @abstractmethod
    def _leaders_of(self, topic: str) -> list[int | None]:
        """Return the leaders of all partitions; None: it has none that runs. Raises:
        UnknownTopicOrPartition.
        """

    def records(self, topic: str, partition: int | None = None, *, read_committed: bool = True) -> list[Record]:
        """Return the records that consumers can read, of one partition or of all, one after the
        other.

        Raises: NoSuchName (a KeyError): there is no such topic, or a partition has no leader.
        """
        return self._topic_to_read(topic).records(partition, read_committed=read_committed)

    def _topic_to_read(self, name: str) -> LedTopic:
        try:
            leaders = self._leaders_of(name)
        except UnknownTopicOrPartition as error:
            raise NoSuchName("topic", name, []) from error
        topics = []
        for index, leader in enumerate(leaders):
            if leader is None:
                raise NoSuchName("leader that runs, of partition", f"{name}-{index}", [])
            topics.append(self.brokers[leader].topics[name])
        return LedTopic(name, topics)
