"""DescribeConfigs: the settings of topics and brokers, and where each value comes from."""

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
VERSION_SOURCES = 1  # from here on it is told where a value comes from, before only whether it is the default
ITEM_WEIGHT = 4
ROWS_MAX = 100_000
"""Settings in one answer, some 150 bytes each (400 with documentation): what passes it is refused,
resource by resource.
"""
TOPIC = 2
BROKER = 4
BROKER_LOGGER = 8
CLIENT_METRICS = 16
GROUP = 32


def handle(
    request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResponse | DelayedOperation[DescribeConfigsResponse]:
    """A resource that is named twice with the same keys is answered once."""
    return in_slices(context, _handle_sliced(request, context))


def error_response(request: DescribeConfigsRequest, version: int, error: BaseException) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_refused(resource, error) for resource in request.resources])


def _handle_sliced(request: DescribeConfigsRequest, context: RequestContext) -> SlicedWork[DescribeConfigsResponse]:
    once = {
        (one.resource_type, one.resource_name, tuple(one.configuration_keys or ())): one for one in request.resources
    }
    results = yield from collect(_Describer(request, context).describe, once.values())
    return DescribeConfigsResponse(results=results)


class _Describer:
    """One request's answers. Rows that several resources have in common are built once."""

    def __init__(self, request: DescribeConfigsRequest, context: RequestContext) -> None:
        self.request = request
        self.context = context
        self._topics = TopicConfigEntries(context.broker.config)
        self._broker: list[ConfigEntry] = []
        self._shared: dict[tuple[int, bool], tuple[ConfigEntry, DescribeConfigsResourceResult]] = {}
        self._rows_left = ROWS_MAX

    def describe(self, resource: DescribeConfigsResource) -> DescribeConfigsResult:
        asked = frozenset(resource.configuration_keys or ())  # none named is all, as well as null
        try:
            found = _ROWS.get(resource.resource_type, _unknown)(self, resource.resource_name)
            rows = [row for row in found if row.setting.name in asked] if asked else found
            self._count(rows)
        except KqueueError as error:
            return _refused(resource, error)
        # topics' settings may be given at any time, brokers' when they start
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
                f"an answer holds at most {ROWS_MAX} settings: ask for fewer resources at once, or name the settings"
            )
        self._rows_left -= len(rows)

    def _config(self, row: ConfigEntry, *, read_only: bool) -> DescribeConfigsResourceResult:
        key = id(row), read_only
        found = self._shared.get(key)
        if found is None:
            found = self._shared[key] = (
                row,
                self._build(row, read_only=read_only),
            )  # with the row, so that its id stays its own
        return found[1]

    def _build(self, row: ConfigEntry, *, read_only: bool) -> DescribeConfigsResourceResult:
        request = self.request
        synonyms = [
            DescribeConfigsSynonym(name=one.name, value=one.value, source=one.source.value) for one in row.synonyms
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

    # --- what each type of resource has

    def of_topic(self, name: str) -> list[ConfigEntry]:
        return self._topics.of(self.context.broker.topics.get(check_topic(name)).config)

    def of_broker(self, name: str) -> list[ConfigEntry]:
        broker = self.context.broker
        if name == "":
            return []  # the defaults that a cluster's brokers share and that can be altered at run time: there are none
        if name != str(broker.node_id):
            raise InvalidRequest(f"this is broker {broker.node_id}, settings of {name!r} are not known here")
        if not self._broker:
            self._broker = broker_config_entries(broker.config)
        return self._broker

    def of_clients(self, name: str) -> list[ConfigEntry]:
        """Groups and subscriptions to clients' metrics: they may be asked about, but none has
        settings of its own here.
        """
        if name == "":
            raise InvalidRequest("the name must not be empty")
        return []

    def of_loggers(self, name: str) -> list[ConfigEntry]:
        raise UnsupportedVersion("log levels are not told over the wire")


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
