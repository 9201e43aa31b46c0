"""Settings of any resource: DescribeConfigs, IncrementalAlterConfigs, ListConfigResources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kqueue.base.config_resources import ConfigChange, ResourceType
from kqueue.client.retry_policy import bad_answer, response_error
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from kqueue.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kqueue.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

SOURCES = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
"""Kafka's names of the sources of values."""


class SettingSynonym(NamedTuple):
    """A value that counts, or would count if those before it were not set."""

    name: str
    value: str | None
    source: str


class SettingRow(NamedTuple):
    """A setting in force. `value`: None where it is unset or secret. `source`: of `SOURCES`."""

    name: str
    value: str | None
    source: str
    is_read_only: bool
    is_sensitive: bool
    synonyms: list[SettingSynonym]
    documentation: str | None


class DescribeResources:
    """DescribeConfigs of resources of one type. `settings`: those to return; None: all."""

    api = BY_MODULE["describe_configs"]
    versions = (1, 4)
    repeatable = True

    def __init__(self, kind: ResourceType, names: Sequence[str], settings: Sequence[str] | None = None) -> None:
        self.kind = kind
        self.names = names
        self.settings = settings

    def request(self, version: int) -> DescribeConfigsRequest:
        keys = None if self.settings is None else list(self.settings)
        resources = [
            DescribeConfigsResource(resource_type=self.kind, resource_name=name, configuration_keys=keys)
            for name in self.names
        ]
        return DescribeConfigsRequest(resources=resources, include_synonyms=True, include_documentation=version >= 3)

    def result(self, version: int, response: DescribeConfigsResponse, broker: str) -> dict[str, dict[str, SettingRow]]:
        described = {}
        for resource in response.results:
            if resource.error_code:
                about = describe_resource(self.kind, resource.resource_name)
                raise response_error(
                    resource.error_code, self.api.name, broker, message=resource.error_message, about=about
                )
            described[resource.resource_name] = {row.name: _setting_row(row) for row in resource.configs}
        if described.keys() != set(self.names) or len(response.results) != len(self.names):
            about = ", ".join(describe_resource(self.kind, name) for name in self.names)
            raise bad_answer(self.api.name, broker, f"is not about {about}")
        return described


def _setting_row(row: DescribeConfigsResourceResult) -> SettingRow:
    return SettingRow(
        row.name,
        row.value,
        SOURCES.get(row.config_source, "UNKNOWN"),
        row.read_only,
        row.is_sensitive,
        [
            SettingSynonym(synonym.name, synonym.value, SOURCES.get(synonym.source, "UNKNOWN"))
            for synonym in row.synonyms
        ],
        row.documentation,
    )


class AlterResource:
    """IncrementalAlterConfigs of one resource. Repeated, it has the same result."""

    api = BY_MODULE["incremental_alter_configs"]
    versions = (0, 1)
    repeatable = True

    def __init__(
        self, kind: ResourceType, name: str, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> None:
        self.kind = kind
        self.name = name
        self.changes = changes
        self.validate_only = validate_only

    def request(self, version: int) -> IncrementalAlterConfigsRequest:
        configs = [
            AlterableConfig(name=change.name, config_operation=change.operation, value=change.value)
            for change in self.changes
        ]
        resource = AlterConfigsResource(resource_type=self.kind, resource_name=self.name, configs=configs)
        return IncrementalAlterConfigsRequest(resources=[resource], validate_only=self.validate_only)

    def result(self, version: int, response: IncrementalAlterConfigsResponse, broker: str) -> None:
        about = describe_resource(self.kind, self.name)
        if [(row.resource_type, row.resource_name) for row in response.responses] != [(self.kind, self.name)]:
            raise bad_answer(self.api.name, broker, f"is not about {about}")
        [row] = response.responses
        if row.error_code:
            raise response_error(row.error_code, self.api.name, broker, message=row.error_message, about=about)


class ListResources:
    """ListConfigResources of one type."""

    api = BY_MODULE["list_config_resources"]
    repeatable = True

    def __init__(self, kind: ResourceType) -> None:
        self.kind = kind
        self.versions = (0 if kind is ResourceType.CLIENT_METRICS else 1, 1)

    def request(self, version: int) -> ListConfigResourcesRequest:
        return ListConfigResourcesRequest(resource_types=[self.kind] if version else [])

    def result(self, version: int, response: ListConfigResourcesResponse, broker: str) -> list[str]:
        if response.error_code:
            raise response_error(response.error_code, self.api.name, broker)
        return sorted(row.resource_name for row in response.config_resources if row.resource_type == self.kind)


def describe_resource(kind: ResourceType, name: str) -> str:
    """Return a resource for messages: ``topic 'a'``, ``the defaults of all brokers``."""
    if kind is ResourceType.BROKER and not name:
        return "the defaults of all brokers"
    return f"{kind.name.lower().replace('_', ' ')} {name!r}"
