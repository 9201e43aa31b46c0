"""DescribeConfigs (key 32): settings of topics and brokers, and the source of each value (KIP-133).

Versions 0 to 4:

    0       values; whether each is the default
    1       sources and synonyms (KIP-226)
    2       clients throttle themselves (KIP-219)
    3       types and documentation (KIP-569)
    4       flexible encoding (KIP-482)

Not emulated: dynamic settings, broker loggers (UNSUPPORTED_VERSION); groups and client metrics have
no settings of their own.
"""

from __future__ import annotations

from collections.abc import Callable

from kqueue.api.config_entries import ConfigEntry, TopicConfigEntries, broker_config_entries
from kqueue.api.errors import code_of, message_of
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import collect, in_slices
from kqueue.base.errors import InvalidRequest, KqueueError, UnsupportedVersion
from kqueue.base.names import check_topic
from kqueue.base.settings import ConfigSource
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

VERSIONS = (0, 4)
VERSION_SOURCES = 1  # sources of values; before, only whether each is the default
ITEM_WEIGHT = 4
ROWS_MAX = 100_000
"""Settings in one response, some 150 bytes each (400 with documentation); resources past it fail.
"""
TOPIC = 2
BROKER = 4
BROKER_LOGGER = 8
CLIENT_METRICS = 16
GROUP = 32


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
        self._cache: dict[tuple[int, bool], tuple[ConfigEntry, DescribeConfigsResourceResult]] = {}
        self._rows_left = ROWS_MAX

    def describe(self, resource: DescribeConfigsResource) -> DescribeConfigsResult:
        requested = frozenset(resource.configuration_keys or ())  # empty means all, like null
        try:
            entries = _ROWS.get(resource.resource_type, _unknown)(self, resource.resource_name)
            rows = [row for row in entries if row.setting.name in requested] if requested else entries
            self._count(rows)
        except KqueueError as error:
            return _refused(resource, error)
        # topics are configured at any time, brokers at their start
        read_only = resource.resource_type == BROKER
        return DescribeConfigsResult(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            error_message="",
            configs=[self._config(row, read_only=read_only) for row in rows],
        )

    def _count(self, rows: list[ConfigEntry]) -> None:
        if len(rows) > self._rows_left:
            raise InvalidRequest(
                f"a response holds at most {ROWS_MAX} settings: ask for fewer resources at once, or name the settings"
            )
        self._rows_left -= len(rows)

    def _config(self, row: ConfigEntry, *, read_only: bool) -> DescribeConfigsResourceResult:
        key = id(row), read_only
        cached = self._cache.get(key)
        if cached is None:
            cached = self._cache[key] = (
                row,
                self._build(row, read_only=read_only),
            )  # the entry keeps its row alive, so that no other row gets its id
        return cached[1]

    def _build(self, row: ConfigEntry, *, read_only: bool) -> DescribeConfigsResourceResult:
        request = self.request
        synonyms = [
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source.value)
            for synonym in row.synonyms
        ]
        return DescribeConfigsResourceResult(
            name=row.setting.name,
            value=row.value,
            read_only=read_only,
            is_default=self.context.api_version < VERSION_SOURCES and row.source is ConfigSource.DEFAULT,
            config_source=row.source.value,
            is_sensitive=row.is_sensitive,
            synonyms=synonyms if request.include_synonyms else [],
            config_type=row.setting.kind.value,
            documentation=row.setting.doc if request.include_documentation else None,
        )

    # --- the settings of each type of resource

    def of_topic(self, name: str) -> list[ConfigEntry]:
        return self._topics.of(self.context.broker.topics.get(check_topic(name)).config)

    def of_broker(self, name: str) -> list[ConfigEntry]:
        broker = self.context.broker
        if name == "":
            return []  # cluster-wide dynamic defaults: there are none
        if name != str(broker.node_id):
            raise InvalidRequest(f"this is broker {broker.node_id}, settings of {name!r} are not known here")
        if not self._broker:
            self._broker = broker_config_entries(broker.config)
        return self._broker

    def of_clients(self, name: str) -> list[ConfigEntry]:
        """Return nothing: groups and client metrics subscriptions have no settings of their own."""
        if name == "":
            raise InvalidRequest("the name must not be empty")
        return []

    def of_loggers(self, name: str) -> list[ConfigEntry]:
        raise UnsupportedVersion("log levels of the broker are not served")


def _unknown(describer: _Describer, name: str) -> list[ConfigEntry]:
    raise InvalidRequest("unknown type of resource")


_ROWS: dict[int, Callable[[_Describer, str], list[ConfigEntry]]] = {
    TOPIC: _Describer.of_topic,
    BROKER: _Describer.of_broker,
    BROKER_LOGGER: _Describer.of_loggers,
    CLIENT_METRICS: _Describer.of_clients,
    GROUP: _Describer.of_clients,
}


def _refused(resource: DescribeConfigsResource, error: BaseException) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code_of(error),
        error_message=message_of(error),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
