"""DescribeConfigs (key 32): the settings of a resource, and the source of each value (KIP-133).

Resources: topics, this broker, the defaults of all brokers (empty name), levels of loggers
(KIP-412), client metrics subscriptions (KIP-714), groups (KIP-848). Versions 0 to 4:

    0       values; whether each is the default
    1       sources and synonyms (KIP-226)
    2       clients throttle themselves (KIP-219)
    3       types and documentation (KIP-569)
    4       flexible encoding (KIP-482)
"""

from __future__ import annotations

from collections.abc import Callable

from kqueue.api.backlog_entry import PARTITIONS_MAX, backlog_entry
from kqueue.api.config_access import config_rules, require_config_access
from kqueue.api.config_entries import (
    ConfigEntry,
    TopicConfigEntries,
    broker_config_entries,
    broker_default_entries,
    own_entries,
)
from kqueue.api.errors import code_of, message_of
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import collect, in_slices
from kqueue.base.config import ConfigSource
from kqueue.base.config_resources import ResourceType
from kqueue.base.errors import InvalidRequest, KqueueError
from kqueue.base.names import check_topic
from kqueue.base.settings import ANY, Scope, Setting, SettingType, UpdateMode
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.configs.config_targets import NamedTarget
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.operations import AclOperation
from kqueue.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

VERSIONS = (0, 4)
ACCESS = config_rules(AclOperation.DESCRIBE_CONFIGS)
VERSION_SOURCES = 1  # sources of values; before, only whether each is the default
ITEM_WEIGHT = 4
ROWS_MAX = 100_000
"""Settings in one response, some 150 bytes each (400 with documentation); resources past it fail.
"""
UNKNOWN_TYPE = 0
LOGGER_DOC = "Least severe messages of the logger that are logged: FATAL, ERROR, WARN, INFO, DEBUG or TRACE."


def handle(
    request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResponse | DelayedOperation[DescribeConfigsResponse]:
    """Respond once for a resource that is named twice with the same keys."""
    return in_slices(context, _handle_sliced(request, context))


def error_response(request: DescribeConfigsRequest, version: int, error: BaseException) -> DescribeConfigsResponse:
    """Return `error` for every resource."""
    return DescribeConfigsResponse(results=[_refused(resource, error) for resource in request.resources])


def _handle_sliced(request: DescribeConfigsRequest, context: RequestContext) -> SlicedWork[DescribeConfigsResponse]:
    once = {
        (resource.resource_type, resource.resource_name, tuple(resource.configuration_keys or ())): resource
        for resource in request.resources
    }
    results = yield from collect(_Describer(request, context).describe, once.values())
    return DescribeConfigsResponse(results=results)


class _Describer:
    """Builds one response; entries that several resources share are built once."""

    def __init__(self, request: DescribeConfigsRequest, context: RequestContext) -> None:
        self.request = request
        self.context = context
        self._topics = TopicConfigEntries(context.broker.config)
        self._broker: list[ConfigEntry] = []
        self._cache: dict[int, tuple[ConfigEntry, DescribeConfigsResourceResult]] = {}
        self._rows_left = ROWS_MAX

    def describe(self, resource: DescribeConfigsResource) -> DescribeConfigsResult:
        requested = frozenset(resource.configuration_keys or ())  # empty means all, like null
        try:
            require_config_access(
                self.context, AclOperation.DESCRIBE_CONFIGS, resource.resource_type, resource.resource_name
            )
            entries = _ROWS.get(resource.resource_type, _unknown)(self, resource.resource_name)
            rows = [row for row in entries if row.setting.name in requested] if requested else entries
            self._count(rows)
        except KqueueError as error:
            return _refused(resource, error)
        return DescribeConfigsResult(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            error_message="",
            configs=[self._config(row) for row in rows],
        )

    def _count(self, rows: list[ConfigEntry]) -> None:
        if len(rows) > self._rows_left:
            raise InvalidRequest(
                f"a response holds at most {ROWS_MAX} settings: ask for fewer resources at once, or name the settings"
            )
        self._rows_left -= len(rows)

    def _config(self, row: ConfigEntry) -> DescribeConfigsResourceResult:
        cached = self._cache.get(id(row))
        if cached is None:
            # the entry keeps its row alive, so that no other row gets its id
            cached = self._cache[id(row)] = (row, self._build(row))
        return cached[1]

    def _build(self, row: ConfigEntry) -> DescribeConfigsResourceResult:
        request = self.request
        has_row = row.source is not ConfigSource.BROKER_LOGGER  # Kafka declares no settings of loggers
        synonyms = [
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source.value)
            for synonym in row.synonyms
        ]
        return DescribeConfigsResourceResult(
            name=row.setting.name,
            value=row.value,
            read_only=row.setting.is_read_only or row.setting.kind is SettingType.UNKNOWN,  # as Kafka shows them
            is_default=self.context.api_version < VERSION_SOURCES and row.source is ConfigSource.DEFAULT,
            config_source=row.source.value,
            is_sensitive=row.is_sensitive,
            synonyms=synonyms if request.include_synonyms else [],
            config_type=row.setting.kind.value if has_row else UNKNOWN_TYPE,
            documentation=row.setting.doc if request.include_documentation else None if has_row else "",
        )

    # --- the settings of each type of resource

    def of_topic(self, name: str) -> list[ConfigEntry]:
        entries = self._topics.of(self.context.broker.topics.get(check_topic(name)).config)
        backlog = self.context.broker.upkeep.backlogs.of(name)
        return entries if backlog is None else [*entries, backlog_entry(backlog.describe(PARTITIONS_MAX))]

    def of_broker(self, name: str) -> list[ConfigEntry]:
        broker = self.context.broker
        broker.configs.brokers.check_name(name)
        if name == "":
            return broker_default_entries(broker.config)
        if not self._broker:
            self._broker = broker_config_entries(broker.config)
        return self._broker

    def of_group(self, name: str) -> list[ConfigEntry]:
        return _named_entries(self.context.broker.configs.groups, name)

    def of_client_metrics(self, name: str) -> list[ConfigEntry]:
        return _named_entries(self.context.broker.configs.client_metrics, name)

    def of_loggers(self, name: str) -> list[ConfigEntry]:
        configs = self.context.broker.configs
        configs.check_logger_resource(name)
        return [_logger_entry(logger, level) for logger, level in configs.loggers.levels().items()]


def _named_entries(target: NamedTarget, name: str) -> list[ConfigEntry]:
    return own_entries(target.rows, target.own(name), target.source, target.default_names)


def _logger_entry(name: str, level: str) -> ConfigEntry:
    row = Setting(name, SettingType.STRING, None, ANY, Scope.BROKER, LOGGER_DOC, dynamic=UpdateMode.PER_BROKER)
    return ConfigEntry(row, level, ConfigSource.BROKER_LOGGER, [])


def _unknown(describer: _Describer, name: str) -> list[ConfigEntry]:
    raise InvalidRequest("unknown type of resource")


_ROWS: dict[int, Callable[[_Describer, str], list[ConfigEntry]]] = {
    ResourceType.TOPIC.value: _Describer.of_topic,
    ResourceType.BROKER.value: _Describer.of_broker,
    ResourceType.BROKER_LOGGER.value: _Describer.of_loggers,
    ResourceType.CLIENT_METRICS.value: _Describer.of_client_metrics,
    ResourceType.GROUP.value: _Describer.of_group,
}


def _refused(resource: DescribeConfigsResource, error: BaseException) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code_of(error),
        error_message=message_of(error),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
