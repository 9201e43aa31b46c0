"""DeleteTopics."""

from __future__ import annotations

from collections.abc import Sequence

from kqueue.client.deadline import Deadline
from kqueue.client.retry_policy import response_error
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState

VERSION_STATES = 6  # by name or by id


class DeleteTopics:
    """Not repeatable: after a lost response a new topic may already have that name."""

    api = BY_MODULE["delete_topics"]
    versions = (1, 6)
    repeatable = False

    def __init__(self, names: Sequence[str], deadline: Deadline) -> None:
        self.names = names
        self.deadline = deadline

    def request(self, version: int) -> DeleteTopicsRequest:
        if version >= VERSION_STATES:
            return DeleteTopicsRequest(
                topics=[DeleteTopicState(name=name) for name in self.names], timeout_ms=self.deadline.broker_timeout_ms
            )
        return DeleteTopicsRequest(topic_names=list(self.names), timeout_ms=self.deadline.broker_timeout_ms)

    def result(self, version: int, response: DeleteTopicsResponse, broker: str) -> None:
        for topic in response.responses:
            if topic.error_code:
                raise response_error(
                    topic.error_code, self.api.name, broker, message=topic.error_message, about=f"topic {topic.name!r}"
                )
