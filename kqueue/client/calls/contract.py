"""What a call is to the router: its request, its answer, and what may be done with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from kqueue.client.connection import Versions
from kqueue.client.deadline import Deadline
from kqueue.client.metadata import MetadataCache
from kqueue.client.topic_partition import TopicPartition
from kqueue.wire.apis import Api

A = TypeVar("A")
A_contra = TypeVar("A_contra", contravariant=True)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class NodeCall(Protocol[R_co]):
    """One request that one broker answers for all. `repeatable`: doing it twice does no harm."""

    api: Api
    versions: Versions
    repeatable: bool

    def request(self, version: int) -> object:
        """The message to send."""
        ...

    def result(self, version: int, response: Any, broker: str) -> R_co:
        """What the caller gets. Raises BrokerRefused, BadAnswer."""
        ...


class PartitionResult(NamedTuple, Generic[R]):
    """What a broker said about one partition: an error's code and its words, or `value`."""

    place: TopicPartition
    code: int
    value: R
    message: str | None = None


class LeaderCall(Protocol[A_contra, R]):
    """A request about partitions, of which each leader gets its part. `wait_ms`: how much longer
    than others its answer may take.
    """

    api: Api
    wait_ms: int
    is_answered: bool

    def versions(self, cluster: MetadataCache, topics: Sequence[str]) -> Versions:
        """The lowest and highest that can say what is asked about these topics."""
        ...

    def request(
        self, version: int, asked: Mapping[TopicPartition, A_contra], cluster: MetadataCache, deadline: Deadline
    ) -> object:
        """The message for one leader."""
        ...

    def answers(
        self, version: int, response: Any, asked: Mapping[TopicPartition, A_contra], cluster: MetadataCache
    ) -> Iterator[PartitionResult[R]]:
        """What its answer says, partition by partition. `response`: None where none is awaited."""
        ...

    def is_repeatable(self, asked: A_contra) -> bool:
        """Whether doing it twice does no harm."""
        ...
