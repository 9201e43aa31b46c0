"""CreateTopics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kqueue.client.deadline import Deadline
from kqueue.client.retry_policy import response_error
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

BROKERS_DEFAULT = -1


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create.

    `partitions`, `replicas`: -1 selects the broker's default. `settings`: topic settings by name.
    """

    name: str
    partitions: int = BROKERS_DEFAULT
    replicas: int = BROKERS_DEFAULT
    settings: Mapping[str, str] = field(default_factory=dict)


class CreateTopics:
    """Not repeatable: after a lost response the client cannot tell who created the topic."""

    api = BY_MODULE["create_topics"]
    versions = (4, 7)  # from 4 on the numbers may be left to the broker
    repeatable = False

    def __init__(self, topics: Sequence[NewTopic], deadline: Deadline) -> None:
        self.topics = topics
        self.deadline = deadline

    def request(self, version: int) -> CreateTopicsRequest:
        return CreateTopicsRequest(
            timeout_ms=self.deadline.broker_timeout_ms,
            topics=[
                CreatableTopic(
                    name=topic.name,
                    num_partitions=topic.partitions,
                    replication_factor=topic.replicas,
                    configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.settings.items()],
                )
                for topic in self.topics
            ],
        )

    def result(self, version: int, response: CreateTopicsResponse, broker: str) -> None:
        for topic in response.topics:
            if topic.error_code:
                raise response_error(
                    topic.error_code, self.api.name, broker, message=topic.error_message, about=f"topic {topic.name!r}"
                )
