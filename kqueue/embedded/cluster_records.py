"""The part of `kqueue.Cluster` that shows records, as consumers read them: from each leader."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kqueue.base.errors import UnknownTopicOrPartition
from kqueue.embedded.inspection.broker_calls import NoSuchName
from kqueue.embedded.inspection.mixin import WAIT_S, ProducedAssertions

if TYPE_CHECKING:
    from kqueue.embedded.cluster_broker import ClusterBroker
    from kqueue.embedded.cluster_groups import ClusterGroups
    from kqueue.embedded.inspection.consumed_check import LedConsumedCheck
    from kqueue.embedded.inspection.record_appender import NewRecord
    from kqueue.embedded.inspection.record_lines import RecordSource
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
    def start_offsets(self) -> dict[int, int]:
        """See `Topic.start_offsets`."""
        return {index: topic.start_offsets[index] for index, topic in enumerate(self._leaders)}

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
    """Asserts which records the topics of a cluster have, and which ones groups have consumed.

    Thread: every method may be called from any thread but the brokers' own.
    """

    _NAME = "cluster"
    brokers: tuple[ClusterBroker, ...]

    @property
    @abstractmethod
    def groups(self) -> ClusterGroups:
        """The groups by name, each from its coordinator."""

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

    def assert_consumed(
        self, topic: str, *, group: str, upto: int | Mapping[int, int] | None = None, within_s: float = 0.0
    ) -> None:
        """Assert that a group has consumed a topic, by the offsets that its coordinator has and the
        ends of the partitions' leaders: ``cluster.assert_consumed("orders", group="mail")``.

        Arguments and errors are those of `Broker.assert_consumed`.
        """
        __tracebackhide__ = True
        from kqueue.embedded.inspection.broker_calls import poll_until_true

        poll_until_true(self._consumed_check(topic, group, upto).look, within_s, "await cluster.wait_consumed(...)")

    async def wait_consumed(
        self, topic: str, *, group: str, upto: int | Mapping[int, int] | None = None, within_s: float = WAIT_S
    ) -> None:
        """`assert_consumed` for coroutines: `await cluster.wait_consumed("orders", group="g")`."""
        __tracebackhide__ = True
        from kqueue.embedded.inspection.broker_calls import poll_until_true_async

        await poll_until_true_async(self._consumed_check(topic, group, upto).look, within_s)

    def _consumed_check(self, topic: str, group: str, upto: int | Mapping[int, int] | None) -> LedConsumedCheck:
        from kqueue.embedded.inspection.consumed_check import LedConsumedCheck

        return LedConsumedCheck(topic, group, upto, self._topic_to_read, self.groups)

    def load_records(self, source: RecordSource, topic: str | None = None) -> list[Record]:
        """Append the records of lines of JSON, to each partition's leader; see
        `EmbeddedNode.load_records`.
        """
        from kqueue.embedded.inspection.record_lines import load_lines

        return load_lines(source, topic, self._ensure_topic, self._append_records)

    @abstractmethod
    def _ensure_topic(self, name: str, partitions_min: int) -> None: ...

    def _append_records(self, topic: str, records: list[NewRecord]) -> list[Record]:
        leaders = self._leaders_of(topic)
        serving = next((leader for leader in leaders if leader is not None), None)
        if serving is None:
            raise NoSuchName("leader that runs, of topic", topic, [])
        by_partition: dict[int, list[int]] = {}
        for number, index in enumerate(self.brokers[serving].topics[topic].chosen_partitions(records)):
            by_partition.setdefault(index, []).append(number)
        appended: dict[int, Record] = {}
        for index, numbers in by_partition.items():
            leader = leaders[index]
            if leader is None:
                raise NoSuchName("leader that runs, of partition", f"{topic}-{index}", [])
            part = [records[number]._replace(partition=index) for number in numbers]
            appended.update(zip(numbers, self.brokers[leader].topics[topic].append_lines(part), strict=True))
        return [appended[number] for number in range(len(records))]

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
