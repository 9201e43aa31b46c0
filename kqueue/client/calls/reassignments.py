"""AlterPartitionReassignments and ListPartitionReassignments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kqueue.client.deadline import Deadline
from kqueue.client.retry_policy import bad_answer, response_error
from kqueue.client.topic_partition import TopicPartition, by_topic
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from kqueue.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)


class Refusal(NamedTuple):
    """The refusal of one part of a request: number of the error, the broker's sentence."""

    code: int
    message: str | None


class Reassignment(NamedTuple):
    """A partition that is being moved. `replicas`: those of before and after."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas once it is done."""
        return tuple(node for node in self.replicas if node not in self.removing)


class AlterReassignments:
    """Move partitions to other replicas. `targets`: None cancels the move that runs.

    Repeated, it has the same result, but for a cancellation that is done.
    """

    api = BY_MODULE["alter_partition_reassignments"]
    versions = (0, 1)

    def __init__(self, targets: Mapping[TopicPartition, Sequence[int] | None], deadline: Deadline) -> None:
        self.targets = targets
        self.deadline = deadline
        self.repeatable = None not in targets.values()

    def request(self, version: int) -> AlterPartitionReassignmentsRequest:
        topics = [
            ReassignableTopic(name=name, partitions=[_wanted(*part) for part in parts])
            for name, parts in by_topic(self.targets).items()
        ]
        return AlterPartitionReassignmentsRequest(timeout_ms=self.deadline.broker_timeout_ms, topics=topics)

    def result(
        self, version: int, response: AlterPartitionReassignmentsResponse, broker: str
    ) -> dict[TopicPartition, Refusal]:
        if response.error_code:
            raise response_error(response.error_code, self.api.name, broker, message=response.error_message)
        rows = {
            TopicPartition(topic.name, row.partition_index): Refusal(row.error_code, row.error_message)
            for topic in response.responses
            for row in topic.partitions
        }
        if rows.keys() != set(self.targets):
            raise bad_answer(self.api.name, broker, "is not about the partitions of the request")
        return {topic_partition: refusal for topic_partition, refusal in rows.items() if refusal.code}


class ListReassignments:
    """The partitions that are being moved. `partitions`: None: all."""

    api = BY_MODULE["list_partition_reassignments"]
    versions = (0, 0)
    repeatable = True

    def __init__(self, partitions: Iterable[TopicPartition] | None, deadline: Deadline) -> None:
        self.partitions = None if partitions is None else list(partitions)
        self.deadline = deadline

    def request(self, version: int) -> ListPartitionReassignmentsRequest:
        topics = None
        if self.partitions is not None:
            topics = [
                ListPartitionReassignmentsTopics(name=name, partition_indexes=[index for index, _ in parts])
                for name, parts in by_topic(dict.fromkeys(self.partitions)).items()
            ]
        return ListPartitionReassignmentsRequest(timeout_ms=self.deadline.broker_timeout_ms, topics=topics)

    def result(
        self, version: int, response: ListPartitionReassignmentsResponse, broker: str
    ) -> dict[TopicPartition, Reassignment]:
        if response.error_code:
            raise response_error(response.error_code, self.api.name, broker, message=response.error_message)
        return {
            TopicPartition(topic.name, row.partition_index): Reassignment(
                tuple(row.replicas), tuple(row.adding_replicas), tuple(row.removing_replicas)
            )
            for topic in response.topics
            for row in topic.partitions
        }


def _wanted(index: int, replicas: Sequence[int] | None) -> ReassignablePartition:
    return ReassignablePartition(partition_index=index, replicas=None if replicas is None else list(replicas))
