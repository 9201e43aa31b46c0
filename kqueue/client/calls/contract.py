"""The contract between the router and a call: request, response, and whether a retry is safe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from kqueue.client.deadline import Deadline
from kqueue.client.metadata import MetadataCache
from kqueue.client.topic_partition import TopicPartition
from kqueue.client_protocol.versions import Versions
from kqueue.wire.apis import Api

A = TypeVar("A")
A_contra = TypeVar("A_contra", contravariant=True)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class NodeCall(Protocol[R_co]):
    """One request that one broker answers in full.

    `repeatable`: sending it twice has the same effect as sending it once.
    """

    api: Api
    versions: Versions
    repeatable: bool

    def request(self, version: int) -> object:
        """Return the request message."""
        ...

    def result(self, version: int, response: Any, broker: str) -> R_co:
        """Return the call's result.

        Raises: BrokerRefused: the response carries an error. BadAnswer: it does not match the
            request.
        """
        ...


class PartitionResult(NamedTuple, Generic[R]):
    """The result for one partition: an error code and the broker's message, or a value."""

    topic_partition: TopicPartition
    code: int
    value: R
    message: str | None = None


class LeaderCall(Protocol[A_contra, R]):
    """A request about partitions; the router splits it by partition leader.

    `wait_ms`: additional time that the broker may take before it responds.
    `is_answered`: False for Produce with acks=0, which has no response.
    """

    api: Api
    wait_ms: int
    is_answered: bool

    def versions(self, cluster: MetadataCache, topics: Sequence[str]) -> Versions:
        """Return the lowest and highest version that can express the request for these topics."""
        ...

    def request(
        self, version: int, requested: Mapping[TopicPartition, A_contra], cluster: MetadataCache, deadline: Deadline
    ) -> object:
        """Return the request message for one leader."""
        ...

    def results(
        self, version: int, response: Any, requested: Mapping[TopicPartition, A_contra], cluster: MetadataCache
    ) -> Iterator[PartitionResult[R]]:
        """Yield the result of each partition.

        Args:
            response: None where `is_answered` is False.
        """
        ...

    def is_repeatable(self, requested: A_contra) -> bool:
        """Return whether sending the request for this partition twice does no harm."""
        ...
