"""The part of `kqueue.Cluster` that shows records, as consumers read them: from each leader."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Unpack

from kqueue.base.errors import UnknownTopicOrPartition
from kqueue.embedded.inspection.broker_calls import NoSuchName, poll_until_true, poll_until_true_async
from kqueue.embedded.inspection.mixin import WAIT_S, Expectation

if TYPE_CHECKING:
    from kqueue.embedded.cluster_broker import ClusterBroker
    from kqueue.embedded.inspection.produced_check import ProducedCheck
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

    def records(self, partition: int | None = None, *, read_committed: bool = False) -> list[Record]:
        """See `Topic.records`."""
        own = range(len(self._leaders)) if partition is None else (partition,)
        return [
            record for index in own for record in self._leaders[index].records(index, read_committed=read_committed)
        ]


class ClusterRecordsMixin(ABC):
    """Asserts which records the topics of a cluster have.

    Thread: every method may be called from any thread but the brokers' own.
    """

    brokers: tuple[ClusterBroker, ...]

    @abstractmethod
    def _leaders_of(self, topic: str) -> list[int | None]:
        """Return the leaders of all partitions; None: it has none that runs. Raises:
        UnknownTopicOrPartition.
        """

    def records(self, topic: str, partition: int | None = None, *, read_committed: bool = False) -> list[Record]:
        """Return the records that consumers can read, of one partition or of all, one after the
        other.

        Raises: NoSuchName (a KeyError): there is no such topic, or a partition has no leader.
        """
        return self._led(topic).records(partition, read_committed=read_committed)

    def assert_produced(
        self,
        topic: str,
        values: Iterable[Any] | None = None,
        *,
        within_s: float = 0.0,
        **expected: Unpack[Expectation],
    ) -> list[Record]:
        """Assert which records a topic has, by its leaders; see `kqueue.Broker.assert_produced`."""
        __tracebackhide__ = True
        check = self._produced_check(topic, values, **expected)
        poll_until_true(check.look, within_s, "await cluster.wait_produced(...)")
        return check.found

    async def wait_produced(
        self,
        topic: str,
        values: Iterable[Any] | None = None,
        *,
        within_s: float = WAIT_S,
        **expected: Unpack[Expectation],
    ) -> list[Record]:
        """`assert_produced` for coroutines, see `kqueue.Broker.wait_produced`."""
        __tracebackhide__ = True
        check = self._produced_check(topic, values, **expected)
        await poll_until_true_async(check.look, within_s)
        return check.found

    def _produced_check(
        self,
        topic: str,
        values: Iterable[Any] | None,
        partition: int | None = None,
        read_committed: bool = False,
        **expected: Any,
    ) -> ProducedCheck:
        from kqueue.embedded.inspection.produced_check import ExpectedRecords, ProducedCheck

        records = ExpectedRecords.of(values, **expected)
        return ProducedCheck(lambda: self._led(topic), records, partition, read_committed=read_committed)

    def _led(self, name: str) -> LedTopic:
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
