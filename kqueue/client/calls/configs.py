"""DescribeConfigs: the effective settings of topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kqueue.client.retry_policy import bad_answer, response_error
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)

TOPIC = 2
SOURCE_TOPIC = 1


class ConfigEntry(NamedTuple):
    """One setting: its value as text (None where the broker hides a secret) and its origin.

    `is_own`: the value is set on the topic itself and is not the broker's default.
    """

    value: str | None
    is_own: bool


class DescribeTopics:
    """DescribeConfigs for topics. `names`: the settings to return; None: all."""

    api = BY_MODULE["describe_configs"]
    versions = (1, 4)
    repeatable = True

    def __init__(self, topics: Sequence[str], names: Sequence[str] | None) -> None:
        self.topics = topics
        self.names = names

    def request(self, version: int) -> DescribeConfigsRequest:
        names = None if self.names is None else list(self.names)
        return DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=TOPIC, resource_name=topic, configuration_keys=names)
                for topic in self.topics
            ]
        )

    def result(self, version: int, response: DescribeConfigsResponse, broker: str) -> dict[str, dict[str, ConfigEntry]]:
        settings = {}
        for resource in response.results:
            if resource.error_code:
                raise response_error(
                    resource.error_code,
                    self.api.name,
                    broker,
                    message=resource.error_message,
                    about=f"topic {resource.resource_name!r}",
                )
            settings[resource.resource_name] = {
                row.name: ConfigEntry(row.value, row.config_source == SOURCE_TOPIC) for row in resource.configs
            }
        if settings.keys() != set(self.topics):
            raise bad_answer(self.api.name, broker, f"is not about {', '.join(self.topics)}")
        return settings
