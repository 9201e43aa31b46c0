"""CreatePartitions."""

from __future__ import annotations

from kqueue.client.deadline import Deadline
from kqueue.client.retry_policy import bad_answer, response_error
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)


class CreatePartitions:
    """Add partitions to one topic, on brokers that the cluster chooses.

    Not repeatable: once it is done, the topic has that many partitions, which is refused.
    """

    api = BY_MODULE["create_partitions"]
    versions = (0, 3)
    repeatable = False

    def __init__(self, name: str, count: int, deadline: Deadline) -> None:
        self.name = name
        self.count = count
        self.deadline = deadline

    def request(self, version: int) -> CreatePartitionsRequest:
        return CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=self.name, count=self.count, assignments=None)],
            timeout_ms=self.deadline.broker_timeout_ms,
        )

    def result(self, version: int, response: CreatePartitionsResponse, broker: str) -> None:
        if [row.name for row in response.results] != [self.name]:
            raise bad_answer(self.api.name, broker, f"is not about topic {self.name!r}")
        [row] = response.results
        if row.error_code:
            raise response_error(
                row.error_code, self.api.name, broker, message=row.error_message, about=f"topic {self.name!r}"
            )
